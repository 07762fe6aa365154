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
use crate::blind::{self, Record, check_records, not_of_rotated};
use crate::encoder_note::EncoderNote;
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ingested {
    /// New documents.
    pub added: usize,
    /// Documents whose vector replaced another one under the same id.
    pub replaced: usize,
    /// Documents that were there already, with the same vector.
    pub unchanged: usize,
    /// Documents removed because they were not among those given.
    pub deleted: usize,
    /// Records that are other than before.
    pub records: usize,
    /// Whether a model was fitted to these documents.
    pub fitted: bool,
}

/// Documents to be ingested.
#[derive(Clone, Copy)]
pub struct Documents<'a> {
    /// The owner's ids, one per vector.
    pub ids: &'a [String],
    /// Their vectors.
    pub vectors: &'a VectorSet,
    /// Queries to make the automatic choices for, where the owner has some.
    pub sample_queries: Option<&'a VectorSet>,
}

/// What becomes of documents that are in the vault and not among those given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Others {
    /// They stay.
    #[default]
    Keep,
    /// They go.
    Delete,
}

/// All that one ingest takes.
pub struct Intake<'a> {
    /// Vectors with ids.
    pub documents: Documents<'a>,
    /// Records of these documents, or of others that are in the vault; of a blind one only.
    pub records: Vec<Record>,
    /// Ids of whole documents of which these are all that there is: what else the vault has of them,
    /// itself or in chunks, goes.
    pub wholes: &'a [String],
    /// What becomes of other documents.
    pub others: Others,
    /// What the texts of the documents went through; of a blind vault only.
    pub encoder: Option<EncoderNote>,
}

impl<'a> Intake<'a> {
    /// Documents and nothing besides.
    pub fn of(documents: Documents<'a>) -> Self {
        Self { documents, records: Vec::new(), wholes: &[], others: Others::Keep, encoder: None }
    }
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
    take_in(vault, Intake::of(*documents), watch, rng)
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
    let intake = Intake { others: Others::Delete, ..Intake::of(*documents) };
    take_in(vault, intake, watch, rng)
}

/// Takes documents, their records and what else an ingest brings, in one commit: either all of it is in
/// the vault afterwards or nothing has changed.
///
/// # Errors
/// As for [`ingest`]; and when records cannot be kept, are of nobody or too long, or the texts of the
/// vault went through another encoder.
pub fn take_in(
    vault: &mut Vault,
    intake: Intake<'_>,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<Ingested, ClientError> {
    vault.require_owner("take documents")?;
    let documents = &intake.documents;
    check_ids(documents)?;
    check_records(&intake.records)?;
    // The lock comes before the work: of two ingests at once, the second ends here.
    let transaction = vault.transaction(rng)?;
    let before = transaction.before();
    if !before.contains(Slot::Model) && !before.contains(Slot::Blind) {
        let settings = settings_of(before)?;
        return match settings.protection {
            Protection::Rotated => {
                refuse_rotated(&intake)?;
                first(transaction, &settings, documents, watch, rng)
            }
            Protection::Blind => blind::first(transaction, &settings, &intake, watch, rng),
        };
    }
    let mut change = Change::begin(transaction)?;
    if let Change::Rotated(_) = &change {
        refuse_rotated(&intake)?;
    }
    let surplus = surplus(&change, &intake)?;
    change.remove(&surplus)?;
    let (added, replaced) = change.put(documents)?;
    let mut records = 0;
    if let Change::Blind(blind) = &mut change {
        if let Some(note) = &intake.encoder {
            blind.set_encoder(note)?;
        }
        let given = intake.records.into_iter();
        let given = given.map(|record| (record.id, Some(record.bytes.into()))).collect();
        records = blind.set_records(given)?;
    }
    change.commit(rng)?;
    let unchanged = documents.ids.len() - added - replaced;
    let deleted = surplus.len();
    Ok(Ingested { added, replaced, unchanged, deleted, records, fitted: false })
}

/// Refuses a rotated vault what only blind ones keep.
fn refuse_rotated(intake: &Intake<'_>) -> Result<(), ClientError> {
    let plain = intake.records.is_empty() && intake.encoder.is_none();
    if plain { Ok(()) } else { Err(not_of_rotated()) }
}

/// The rows that go: of documents that are given whole, and perhaps of all others.
fn surplus(change: &Change<'_>, intake: &Intake<'_>) -> Result<Vec<u32>, ClientError> {
    let ids = intake.documents.ids;
    if intake.others == Others::Delete {
        return Ok(rows_without(change, ids));
    }
    let Change::Blind(blind) = change else { return Ok(Vec::new()) };
    if intake.wholes.is_empty() {
        return Ok(Vec::new());
    }
    let wholes: Vec<&str> = intake.wholes.iter().map(String::as_str).collect();
    let of_wholes: HashSet<u32> = blind.rows_of_whole(&wholes)?.into_iter().collect();
    Ok(rows_without(change, ids).into_iter().filter(|row| of_wholes.contains(row)).collect())
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
    Ok(Ingested { added: rows, fitted: true, ..Ingested::default() })
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
