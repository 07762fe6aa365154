//! Documents out of a vault.

use std::collections::BTreeSet;

use rand_core::CryptoRng;

use super::change::Change;
use crate::error::ClientError;
use crate::vault::Vault;

/// What to do about ids that are not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissingIds {
    /// Name them and delete nothing.
    Refuse,
    /// Delete the others.
    Ignore,
}

/// What a deletion did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deleted {
    /// Documents deleted.
    pub deleted: usize,
    /// Ids given that were not there.
    pub missing: Vec<String>,
    /// Documents left.
    pub documents: usize,
}

/// Deletes documents. Either all of them are gone afterwards or
/// nothing has changed.
///
/// # Errors
/// When an id is not there and that is not to be ignored, nothing would be left, the vault is a
/// query vault or is being written to, or the disk refuses.
pub fn delete_documents(
    vault: &mut Vault,
    ids: &[String],
    missing_ids: MissingIds,
    rng: &mut impl CryptoRng,
) -> Result<Deleted, ClientError> {
    vault.require_owner("delete documents")?;
    let mut change = Change::begin(vault.transaction(rng)?)?;
    let mut rows = BTreeSet::new();
    let mut missing = Vec::new();
    let places = change.rows_of(ids.iter().map(String::as_str));
    for (id, row) in ids.iter().zip(places) {
        match row {
            Some(row) => drop(rows.insert(row)),
            None => missing.push(id.clone()),
        }
    }
    if missing_ids == MissingIds::Refuse && !missing.is_empty() {
        return Err(ClientError::UnknownIds(missing));
    }
    let rows: Vec<u32> = rows.into_iter().collect();
    let documents = change.documents() - rows.len();
    if documents == 0 {
        return Err(ClientError::NothingLeft(rows.len()));
    }
    change.remove(&rows)?;
    change.commit(rng)?;
    Ok(Deleted { deleted: rows.len(), missing, documents })
}
