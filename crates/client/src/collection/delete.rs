//! Documents out of a vault.

use std::collections::{BTreeSet, HashSet};

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

/// Deletes documents; one that was ingested in chunks with all of them. Either all of them are gone afterwards or
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
    let places = change.rows_of(ids.iter().map(String::as_str));
    let (found, absent): (Vec<_>, Vec<_>) =
        ids.iter().zip(places).partition(|(_, row)| row.is_some());
    rows.extend(found.iter().filter_map(|(_, row)| *row));
    let absent: Vec<&str> = absent.iter().map(|(id, _)| id.as_str()).collect();
    let chunks = change.chunks_of(&absent)?;
    rows.extend(chunks.iter().map(|(row, _)| *row));
    let in_chunks: HashSet<&str> = chunks.iter().map(|(_, document)| document.as_str()).collect();
    let missing = absent.iter().filter(|id| !in_chunks.contains(*id));
    let missing: Vec<String> = missing.map(|id| (*id).to_owned()).collect();
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
