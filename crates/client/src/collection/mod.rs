//! A vault opened for use: model, routing index and keys together.
//!
//! Reading is [`Collection::open`]. Everything that changes a collection takes the vault's writer
//! lock first, works on a draft of the whole in memory, and commits it in one transaction: see
//! `ingest`, `delete`, `epoch`. `export` makes a vault for somebody who may only search.

mod delete;
mod draft;
mod epoch;
mod export;
mod ingest;
mod rows;
#[cfg(test)]
mod tests;

use std::path::Path;

use rand_core::CryptoRng;
use shard_protocol::Epoch;

use crate::drift::ModelDrift;
use crate::error::ClientError;
use crate::index::Index;
use crate::keys::{KeySchedule, VaultId, vault_id};
use crate::model::Model;
use crate::payload::PayloadError;
use crate::settings::Settings;
use crate::vault::{EpochSecret, FileKind, KdfCost, Unlock, Vault, VaultAccess};

pub use delete::{Deleted, MissingIds, delete_documents};
pub use epoch::{NewEpoch, refit, rekey};
pub use export::export_query_vault;
pub use ingest::{Documents, Ingested, ingest, synchronise};
pub use rows::{published_rows, stored_vectors};

use export::Origin;

/// A collection of documents that has a model.
pub struct Collection {
    model: Model,
    index: Index,
    keys: KeySchedule,
    revision: u64,
    /// Of the vault, where it is its owner's.
    vault: Option<VaultId>,
}

/// Makes a vault that remembers its settings and holds no documents.
pub fn create_vault(
    directory: &Path,
    unlock: &Unlock,
    cost: KdfCost,
    settings: &Settings,
    rng: &mut impl CryptoRng,
) -> Result<Vault, ClientError> {
    settings.check()?;
    let mut vault = Vault::create(directory, unlock, cost, rng)?;
    let json = serde_json::to_vec(settings).expect("settings are plain data");
    let mut transaction = vault.transaction()?;
    transaction.write(FileKind::Settings, &json, rng)?;
    transaction.commit(rng)?;
    Ok(vault)
}

/// The settings a vault was made with.
pub fn vault_settings(vault: &Vault) -> Result<Settings, ClientError> {
    let bytes = vault.read(FileKind::Settings)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| unusable("settings")(PayloadError::Invalid(error.to_string())))
}

/// How far the documents have moved away from the model since it was fitted.
///
/// # Errors
/// When the vault is empty, or a query vault, which does not know.
pub fn model_drift(vault: &Vault) -> Result<ModelDrift, ClientError> {
    vault.require_owner("say whether a refit is due")?;
    if !vault.contains(FileKind::ModelDrift) {
        return Err(ClientError::Empty);
    }
    ModelDrift::decode(&vault.read(FileKind::ModelDrift)?).map_err(unusable("record of drift"))
}

fn unusable(file: &'static str) -> impl Fn(PayloadError) -> ClientError {
    move |problem| ClientError::Payload { file, problem }
}

impl Collection {
    /// Reads model and index.
    ///
    /// # Errors
    /// When nothing was ingested yet, or the files are not what they should be.
    pub fn open(vault: &Vault) -> Result<Self, ClientError> {
        if !vault.contains(FileKind::Model) {
            return Err(ClientError::Empty);
        }
        let model = Model::decode(&vault.read(FileKind::Model)?).map_err(unusable("model"))?;
        let count = model.cells().map(|cells| cells.count());
        let index = Index::decode(&vault.read(FileKind::Index)?, model.split().prefix(), count)
            .map_err(unusable("index"))?;
        let (keys, revision, id) = match vault.epoch_secret() {
            None => {
                let master = vault.master()?;
                let keys = KeySchedule::new(master, model.salted_epoch());
                (keys, vault.generation(), Some(vault_id(master)))
            }
            Some(secret) => {
                let revision = Origin::read(vault, model.epoch())?.revision;
                let secret = EpochSecret::from_bytes(secret.expose());
                (KeySchedule::of_epoch(secret), revision, None)
            }
        };
        Ok(Self { model, index, keys, revision, vault: id })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The routing index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The keys and names of the model's epoch.
    pub fn keys(&self) -> &KeySchedule {
        &self.keys
    }

    /// The epoch of the keys and names.
    pub fn epoch(&self) -> Epoch {
        self.model.epoch()
    }

    /// What may be done with its vault.
    pub fn access(&self) -> VaultAccess {
        self.vault.map_or(VaultAccess::Query, |_| VaultAccess::Owner)
    }

    /// The id of its vault; `None` for a query vault, which cannot know.
    #[cfg(feature = "remote")]
    pub(crate) fn vault_id(&self) -> Option<VaultId> {
        self.vault
    }

    /// Which state of the owner's vault this is: its generation. A query vault remembers that of
    /// the vault it was exported from.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}
