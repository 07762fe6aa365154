//! New epochs: every row under another key and another name.
//!
//! Both ways replace the published rows as a whole. The server goes from the old epoch to the new one when
//! the new one is published; until then it holds rows that this vault can no longer search.

use rand_core::CryptoRng;
use shard_geometry::VectorSet;
use shard_protocol::Epoch;

use super::draft::Draft;
use super::ingest::Documents;
use super::{Collection, model_drift, stored_vectors, vault_settings};
use crate::error::ClientError;
use crate::keys::{KeySchedule, SaltedEpoch};
use crate::progress::Watch;
use crate::settings::CellCount;
use crate::vault::{FileKind, Vault};

/// An epoch that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewEpoch {
    /// Its number.
    pub epoch: Epoch,
    /// Documents protected anew.
    pub documents: usize,
}

/// Fits a new model to the documents as they are now, with the settings of the vault, and begins a
/// new epoch with it. `cells`, if it is given, becomes the setting of the vault in the same change.
///
/// # Errors
/// When the vault is empty, a query vault or being written to, no model can be fitted, or the disk
/// refuses. Nothing has changed then.
pub fn refit(
    vault: &mut Vault,
    cells: Option<CellCount>,
    sample_queries: Option<&VectorSet>,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<NewEpoch, ClientError> {
    vault.require_owner("be refitted")?;
    let mut transaction = vault.transaction()?;
    let vault = transaction.vault();
    let before = Collection::open(vault)?;
    let vectors = stored_vectors(vault)?;
    let epoch = next(&before, rng);
    let mut settings = vault_settings(vault)?;
    settings.cells = cells.unwrap_or(settings.cells);
    let documents = Documents { ids: before.index.ids(), vectors: &vectors, sample_queries };
    let keys = KeySchedule::new(vault.master()?, &epoch);
    let draft = Draft::fitted(&settings, epoch, keys, &documents, watch)?;
    if cells.is_some() {
        let json = serde_json::to_vec(&settings).expect("settings are plain data");
        transaction.write(FileKind::Settings, &json, rng)?;
    }
    draft.commit(transaction, rng)?;
    Ok(NewEpoch { epoch: epoch.epoch, documents: vectors.rows() })
}

/// Begins a new epoch with the same model: fresh keys, names and canaries. Query vaults exported
/// before hold the secret of another epoch, and find nothing in this one.
///
/// # Errors
/// When the vault is empty, a query vault or being written to, or the disk refuses. Nothing has
/// changed then.
pub fn rekey(
    vault: &mut Vault,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<NewEpoch, ClientError> {
    vault.require_owner("be rekeyed")?;
    let transaction = vault.transaction()?;
    let vault = transaction.vault();
    let before = Collection::open(vault)?;
    let vectors = stored_vectors(vault)?;
    let epoch = next(&before, rng);
    let Collection { model, index, .. } = before;
    let documents = Documents { ids: index.ids(), vectors: &vectors, sample_queries: None };
    let keys = KeySchedule::new(vault.master()?, &epoch);
    let late: Vec<bool> = (0..index.rows() as u32).map(|row| index.is_late(row)).collect();
    let drift = (model_drift(vault)?, &late[..]);
    let draft = Draft::rekeyed(model.in_epoch(epoch), keys, &documents, drift, watch)?;
    draft.commit(transaction, rng)?;
    Ok(NewEpoch { epoch: epoch.epoch, documents: vectors.rows() })
}

fn next(collection: &Collection, rng: &mut impl CryptoRng) -> SaltedEpoch {
    let epoch = collection.epoch().0.checked_add(1);
    let epoch = Epoch(epoch.expect("epochs are begun one by one, fewer than 2^64 times"));
    SaltedEpoch::begin(epoch, rng)
}
