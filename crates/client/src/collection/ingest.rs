//! Documents into a vault.

use std::collections::HashSet;

use rand_core::CryptoRng;
use shard_geometry::VectorSet;
use shard_protocol::Epoch;

use super::draft::Draft;
use super::vault_settings;
use crate::error::ClientError;
use crate::keys::{KeySchedule, SaltedEpoch};
use crate::progress::Watch;
use crate::vault::{FileKind, Vault};

/// Longest id that is stored.
const MAX_ID_BYTES: usize = 65_535;

/// The epoch of a first ingest.
const FIRST_EPOCH: Epoch = Epoch(1);

/// What an ingest did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ingested {
    /// New documents.
    pub added: usize,
    /// Documents that replaced one of the same id.
    pub replaced: usize,
    /// Documents removed because they were not among those given.
    pub deleted: usize,
    /// Whether the model was fitted to these documents.
    pub fitted: bool,
}

/// Documents to be ingested.
pub struct Documents<'a> {
    /// The owner's ids, one per vector.
    pub ids: &'a [String],
    /// Their vectors.
    pub vectors: &'a VectorSet,
    /// Queries to make the automatic choices for, where the owner has some.
    pub sample_queries: Option<&'a VectorSet>,
}

/// What becomes of documents that are in the vault and not among those given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    Keep,
    Delete,
}

/// Adds documents, or replaces those whose id is known. The first ingest fits the model; later ones
/// record how far the documents move away from it ([`model_drift`](crate::model_drift)). Either all of it is
/// in the vault afterwards or nothing has changed.
///
/// # Errors
/// When the documents do not fit the collection, the vault is a query vault or is being written to,
/// or the disk refuses.
pub fn ingest(
    vault: &mut Vault,
    documents: &Documents<'_>,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<Ingested, ClientError> {
    take(vault, documents, Others::Keep, watch, rng)
}

/// As [`ingest`], and removes the documents whose id is not given: afterwards the collection holds
/// the given documents and no others.
///
/// # Errors
/// As for [`ingest`].
pub fn synchronise(
    vault: &mut Vault,
    documents: &Documents<'_>,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<Ingested, ClientError> {
    take(vault, documents, Others::Delete, watch, rng)
}

fn take(
    vault: &mut Vault,
    documents: &Documents<'_>,
    others: Others,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<Ingested, ClientError> {
    vault.require_owner("take documents")?;
    check_ids(documents)?;
    // The lock comes before the work: of two ingests at once, the second ends here.
    let transaction = vault.transaction()?;
    let vault = transaction.vault();
    let count = documents.ids.len();
    let done;
    let draft = if vault.contains(FileKind::Model) {
        let mut draft = Draft::open(vault)?;
        let surplus = match others {
            Others::Keep => Vec::new(),
            Others::Delete => rows_without(&draft, documents.ids),
        };
        draft.remove(&surplus)?;
        let replaced = draft.upsert(documents, watch)?;
        draft.settle()?;
        let (added, deleted) = (count - replaced, surplus.len());
        done = Ingested { added, replaced, deleted, fitted: false };
        draft
    } else {
        let settings = vault_settings(vault)?;
        let epoch = SaltedEpoch::begin(FIRST_EPOCH, rng);
        let keys = KeySchedule::new(vault.master()?, &epoch);
        done = Ingested { added: count, replaced: 0, deleted: 0, fitted: true };
        Draft::fitted(&settings, epoch, keys, documents, watch)?
    };
    draft.commit(transaction, rng)?;
    Ok(done)
}

/// The rows whose id is none of these.
fn rows_without(draft: &Draft, ids: &[String]) -> Vec<u32> {
    let given: HashSet<&str> = ids.iter().map(String::as_str).collect();
    let held = (0..).zip(draft.index.ids());
    held.filter(|(_, id)| !given.contains(id.as_str())).map(|(row, _)| row).collect()
}

fn check_ids(documents: &Documents<'_>) -> Result<(), ClientError> {
    let (ids, vectors) = (documents.ids.len(), documents.vectors.rows());
    if ids != vectors {
        return Err(ClientError::IdCount { ids, vectors });
    }
    let mut seen = HashSet::with_capacity(ids);
    for id in documents.ids {
        if id.is_empty() || id.len() > MAX_ID_BYTES {
            return Err(ClientError::IdLength(id.len()));
        }
        if !seen.insert(id.as_str()) {
            return Err(ClientError::DuplicateId(id.clone()));
        }
    }
    Ok(())
}
