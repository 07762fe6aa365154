//! A vault opened for use: model, routing index and keys together.
//!
//! Reading is [`Collection::open`], of a rotated vault; that of a blind one is
//! [`BlindCollection::open`](crate::BlindCollection::open). Whatever changes a collection takes the vault's writer lock
//! first, writes the chunks that changed, and commits once: see `ingest`, `delete`, `epoch`.
//! `export` makes a vault for somebody who may only search.
//!
//! | module | content |
//! |---|---|
//! | `chunk` | rows as they are stored |
//! | `canaries` | documents whose scores readers know beforehand: which, and their vectors |
//! | `change` | rows put and removed, however they are protected |
//! | `rotated` | the same chunk by chunk, where they are rotated |
//! | `ingest`, `delete`, `epoch` | the changes an owner makes |
//! | `journal` | which documents a commit changed, for merging two copies |
//! | `rows` | what the server gets of the documents; the documents' own vectors |
//! | `originals` | the vectors that an owner's search checks scores by |
//! | `verify` | every value opened and held against the others |
//! | `export` | a vault for somebody who may only search |

mod canaries;
mod change;
mod chunk;
mod delete;
mod epoch;
mod export;
mod ingest;
mod journal;
mod originals;
mod rotated;
mod rows;
#[cfg(test)]
mod tests;
mod verify;

use std::path::Path;

use rand_core::CryptoRng;
use shard_protocol::{CommitName, Epoch, Revision};

use crate::blind::settings_of_head;
use crate::drift::ModelDrift;
use crate::error::ClientError;
use crate::index::Index;
use crate::keys::{KeySchedule, VaultId};
use crate::model::Model;
use crate::payload::{PayloadError, Reader, Writer};
use crate::settings::{Protection, Settings};
use crate::vault::{EpochSecret, KdfCost, Slot, Snapshot, Unlock, Vault, VaultAccess};

pub use delete::{Deleted, MissingIds, delete_documents};
pub use epoch::{NewEpoch, refit, rekey};
pub use export::export_query_vault;
pub use ingest::{Documents, Ingested, Intake, Others, ingest, synchronise, take_in};
pub use rows::{DerivedRows, published_rows, stored_documents, stored_vectors};
pub use verify::{Verified, verify_vault};

use originals::Originals;

pub(crate) use canaries::Canaries;
pub(crate) use change::{Change, Written};
#[cfg(test)]
pub(crate) use chunk::RowRecord;
pub(crate) use chunk::{RoutingRows, decode_vectors, encode_vectors};
pub(crate) use ingest::FIRST_EPOCH;
#[cfg(feature = "remote")]
pub(crate) use journal::came_from;
pub(crate) use journal::{Changes, Fate, Journal};
#[cfg(feature = "remote")]
pub(crate) use rows::all_rows;
pub(crate) use rows::documents_where;
#[cfg(feature = "remote")]
pub(crate) use verify::verify_commit;

const NAMES_VERSION: u16 = 1;

/// A collection of documents that has a model.
pub struct Collection {
    model: Model,
    index: Index,
    keys: KeySchedule,
    position: Position,
    /// The documents' own vectors, which owners have.
    originals: Option<Originals>,
}

/// Which commit of which vault a collection was read from.
pub struct Position {
    revision: Revision,
    commit: CommitName,
    epoch: Option<Epoch>,
    /// Names of the commits that led here, from generation 0 on; none in a query vault.
    history: Vec<CommitName>,
    vault: VaultId,
    access: VaultAccess,
}

impl Position {
    pub(crate) fn of(vault: &Vault, snapshot: &Snapshot) -> Result<Self, ClientError> {
        let header = &snapshot.root().header;
        Ok(Self {
            revision: Revision(header.generation),
            commit: header.commit,
            epoch: header.epoch.map(|epoch| epoch.epoch),
            history: snapshot.whole_history()?,
            vault: header.vault,
            access: vault.access(),
        })
    }

    /// Which state of the vault it is: its generation.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The name of that state.
    pub fn commit(&self) -> CommitName {
        self.commit
    }

    /// The epoch of its keys and names, once one has begun.
    pub fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    /// The vault's commit at a revision; `None` where its history has none.
    pub fn commit_at(&self, revision: Revision) -> Option<CommitName> {
        if revision == self.revision {
            return Some(self.commit);
        }
        let at = usize::try_from(revision.0).ok().filter(|&at| at > 0)?;
        self.history.get(at).copied()
    }

    /// What may be done with its vault.
    pub fn access(&self) -> VaultAccess {
        self.access
    }

    /// The id of its vault.
    pub(crate) fn vault(&self) -> VaultId {
        self.vault
    }
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
    let values = [(Slot::Settings, &*encode_settings(settings))];
    Ok(Vault::create(directory, unlock, cost, &values, rng)?)
}

fn encode_settings(settings: &Settings) -> Vec<u8> {
    serde_json::to_vec(settings).expect("settings are plain data")
}

/// The settings of a vault. A query vault has those that its model was fitted with, or its blocks
/// are of.
pub fn vault_settings(vault: &Vault) -> Result<Settings, ClientError> {
    let snapshot = vault.snapshot()?;
    match vault.access() {
        VaultAccess::Owner => settings_of(&snapshot),
        VaultAccess::Query if snapshot.contains(Slot::Blind) => settings_of_head(&snapshot),
        VaultAccess::Query => Ok(read_model(&snapshot)?.settings().clone()),
    }
}

/// Refuses what takes a model.
fn require_rotated(snapshot: &Snapshot) -> Result<(), ClientError> {
    if settings_of(snapshot)?.protection == Protection::Blind {
        return Err(blind_has_no_model());
    }
    Ok(())
}

fn blind_has_no_model() -> ClientError {
    ClientError::OtherProtection {
        protection: Protection::Blind,
        reason: "nothing is fitted to its documents, so there is no model that could move away from \
                 them or be fitted again",
    }
}

/// Why a vault with a model cannot be read as a blind one.
pub(crate) fn rotated_only_has_a_model() -> ClientError {
    ClientError::OtherProtection {
        protection: Protection::Rotated,
        reason: "its documents are rows under a model and lie in no blocks",
    }
}

pub(crate) fn settings_of(snapshot: &Snapshot) -> Result<Settings, ClientError> {
    serde_json::from_slice(&snapshot.read(Slot::Settings)?)
        .map_err(|error| unusable("settings")(PayloadError::Invalid(error.to_string())))
}

/// How far the documents have moved away from the model since it was fitted.
///
/// # Errors
/// When the vault is empty or blind, or a query vault, which does not know.
pub fn model_drift(vault: &Vault) -> Result<ModelDrift, ClientError> {
    vault.require_owner("say whether a refit is due")?;
    let snapshot = vault.snapshot()?;
    require_rotated(&snapshot)?;
    drift_of(&snapshot)
}

fn drift_of(snapshot: &Snapshot) -> Result<ModelDrift, ClientError> {
    if !snapshot.contains(Slot::Drift) {
        return Err(ClientError::Empty);
    }
    ModelDrift::decode(&snapshot.read(Slot::Drift)?).map_err(unusable("record of drift"))
}

fn read_model(snapshot: &Snapshot) -> Result<Model, ClientError> {
    if snapshot.contains(Slot::Blind) {
        return Err(ClientError::OtherProtection {
            protection: Protection::Blind,
            reason: "its documents lie in blocks and have neither a model nor rotated rows",
        });
    }
    if !snapshot.contains(Slot::Model) {
        return Err(ClientError::Empty);
    }
    let model = Model::decode(&snapshot.read(Slot::Model)?).map_err(unusable("model"))?;
    // The root's epoch made the key that opened the model; it must be the model's own.
    let expected = snapshot.root().header.epoch.as_ref();
    if expected != Some(model.salted_epoch()) {
        let problem = PayloadError::Invalid("its epoch is not the vault's".into());
        return Err(unusable("model")(problem));
    }
    Ok(model)
}

/// Where the names of new rows begin, and how many rows there are.
struct Names {
    first_attempt: u32,
    rows: u64,
}

impl Names {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(NAMES_VERSION);
        writer.u64(self.first_attempt.into());
        writer.u64(self.rows);
        writer.bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader::new(bytes, NAMES_VERSION)?;
        let first_attempt = u32::try_from(reader.u64()?)
            .map_err(|_| PayloadError::Invalid("more attempts than there can be".into()))?;
        let rows = reader.u64()?;
        reader.finish()?;
        Ok(Self { first_attempt, rows })
    }
}

/// An error about the contents of a value.
pub(crate) fn unusable(file: &'static str) -> impl Fn(PayloadError) -> ClientError {
    move |problem| ClientError::Payload { file, problem }
}

impl Collection {
    /// Reads model and index of a vault's latest commit.
    ///
    /// In an owner's vault it goes on reading that commit, because searches check every score by
    /// the documents' vectors. Until it is dropped, what others write stays in the vault's log and
    /// is not moved into its file.
    ///
    /// # Errors
    /// When nothing was ingested yet, or the vault is blind or damaged.
    pub fn open(vault: &Vault) -> Result<Self, ClientError> {
        let snapshot = vault.snapshot()?;
        let collection = Self::read(vault, &snapshot)?;
        let is_owner = vault.access() == VaultAccess::Owner;
        Ok(Self { originals: is_owner.then(|| Originals::new(snapshot)), ..collection })
    }

    /// Reads model and index of a commit.
    pub(crate) fn read(vault: &Vault, snapshot: &Snapshot) -> Result<Self, ClientError> {
        let model = read_model(snapshot)?;
        let cells = model.cells().map(|cells| cells.count());
        let width = model.split().prefix();
        let names = Names::decode(&snapshot.read(Slot::Names)?).map_err(unusable("names"))?;
        let canaries = Canaries::decode(&snapshot.read(Slot::Canaries)?, model.split().width())
            .map_err(unusable("canaries"))?;
        let numbers: Vec<u32> = snapshot.root().numbered(Slot::Routing).collect();
        // More rows than fit into the values are not made room for.
        let lengths = numbers.iter().map(|&n| snapshot.root().entries[&Slot::Routing(n)].length);
        let most = lengths.map(u64::from).sum::<u64>() / RoutingRows::least_bytes(width);
        let mut rows = RoutingRows::empty(width, cells.is_some());
        rows.reserve(names.rows.min(most) as usize);
        let mut chunks: Vec<(u32, usize)> = Vec::with_capacity(numbers.len());
        let decode = |_, bytes: &[u8]| {
            RoutingRows::decode(bytes, width, cells.is_some()).map_err(unusable("routing"))
        };
        snapshot.each(Slot::Routing, &numbers, decode, |number, part| {
            chunks.push((number, part.rows()));
            rows.append(part);
            Ok(())
        })?;
        let index = Index::new(rows, &chunks, cells, canaries, names.first_attempt)
            .map_err(unusable("routing"))?;
        if index.rows() as u64 != names.rows {
            let problem = format!("{} rows where {} belong", index.rows(), names.rows);
            return Err(unusable("routing")(PayloadError::Invalid(problem)));
        }
        let keys = match vault.epoch_secret() {
            None => KeySchedule::new(vault.master()?, model.salted_epoch()),
            Some(secret) => KeySchedule::of_epoch(EpochSecret::from_bytes(secret.expose())),
        };
        let position = Position::of(vault, snapshot)?;
        Ok(Self { model, index, keys, position, originals: None })
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

    /// Which commit of which vault it was read from.
    pub fn position(&self) -> &Position {
        &self.position
    }
}
