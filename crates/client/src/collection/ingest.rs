//! Documents into a vault.

use std::collections::HashSet;
use std::ops::Range;

use rand_core::CryptoRng;
use shard_geometry::VectorSet;
use shard_protocol::Epoch;

use super::change::Change;
use super::chunk::{encode_vectors, rows_per_chunk};
use super::epoch::{Drift, FitPlan, Layout, SPANS_AT_ONCE, write_epoch};
use super::journal::Journal;
use super::settings_of;
use crate::blind;
use crate::error::ClientError;
use crate::keys::SaltedEpoch;
use crate::model::Model;
use crate::progress::Watch;
use crate::settings::{Protection, Settings};
use crate::vault::{Slot, Transaction, Vault};

/// Longest id that is stored.
const MAX_ID_BYTES: usize = 65_535;

/// The epoch of a first ingest.
pub(crate) const FIRST_EPOCH: Epoch = Epoch(1);

/// What an ingest did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ingested {
    /// New documents.
    pub added: usize,
    /// Documents whose vector replaced another one under the same id.
    pub replaced: usize,
    /// Documents that were there already, with the same vector.
    pub unchanged: usize,
    /// Documents removed because they were not among those given.
    pub deleted: usize,
    /// Whether a model was fitted to these documents.
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

/// Adds documents, or replaces those whose id is known. In a rotated vault the first ingest fits the
/// model, and later ones record how far the documents move away from it
/// ([`model_drift`](crate::model_drift)); in a blind one the first chooses how rows lie in blocks. Either
/// all of it is in the vault afterwards or nothing has changed.
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
    let transaction = vault.transaction(rng)?;
    let before = transaction.before();
    if !before.contains(Slot::Model) && !before.contains(Slot::Blind) {
        let settings = settings_of(before)?;
        return match settings.protection {
            Protection::Rotated => first(transaction, &settings, documents, watch, rng),
            Protection::Blind => blind::first(transaction, &settings, documents, watch, rng),
        };
    }
    let mut change = Change::begin(transaction)?;
    let surplus = match others {
        Others::Keep => Vec::new(),
        Others::Delete => rows_without(&change, documents.ids),
    };
    change.remove(&surplus)?;
    let (added, replaced) = change.put(documents)?;
    change.commit(rng)?;
    let unchanged = documents.ids.len() - added - replaced;
    Ok(Ingested { added, replaced, unchanged, deleted: surplus.len(), fitted: false })
}

/// Fits a model to the first documents, and writes everything.
fn first(
    mut transaction: Transaction<'_>,
    settings: &Settings,
    documents: &Documents<'_>,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<Ingested, ClientError> {
    let epoch = SaltedEpoch::begin(FIRST_EPOCH, rng);
    let (vectors, queries) = (documents.vectors, documents.sample_queries);
    let plan = FitPlan::new(settings, vectors, queries, watch);
    let fitted = Model::fit(settings, epoch, vectors, queries, &plan.fitting())?;
    let width = documents.vectors.width();
    let capacity = rows_per_chunk(documents.vectors.values(), width);
    let rows = documents.ids.len();
    let spans: Vec<(u32, Range<usize>)> = (0..)
        .zip((0..rows).step_by(capacity))
        .map(|(number, first)| (number, first..rows.min(first + capacity)))
        .collect();
    let layout = Layout { ids: documents.ids, vectors: documents.vectors, spans: &spans };
    let written = plan.writing();
    let drift = write_epoch(&mut transaction, fitted, &layout, Drift::Fitted, &[], &written, rng)?;
    let values_of = |(number, span): &(u32, Range<usize>)| {
        let values = &documents.vectors.values()[span.start * width..span.end * width];
        (Slot::Vectors(*number), encode_vectors(values, width))
    };
    for spans in spans.chunks(SPANS_AT_ONCE) {
        transaction.put_many(spans, values_of, rng)?;
    }
    transaction.put(Slot::Drift, &drift.encode(), rng)?;
    Journal::Everything.record(&mut transaction, rng)?;
    transaction.commit(rng)?;
    plan.finish();
    Ok(Ingested { added: rows, replaced: 0, unchanged: 0, deleted: 0, fitted: true })
}

/// The rows whose id is none of these.
fn rows_without(change: &Change<'_>, ids: &[String]) -> Vec<u32> {
    let given: HashSet<&str> = ids.iter().map(String::as_str).collect();
    change.rows().filter(|(_, id)| !given.contains(id)).map(|(row, _)| row).collect()
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
