//! A collection that is being changed, however it is protected.

use std::collections::HashMap;
#[cfg(feature = "remote")]
use std::collections::{BTreeMap, HashSet};

use rand_core::CryptoRng;
use shard_geometry::VectorSet;
#[cfg(feature = "remote")]
use shard_protocol::CommitName;

use super::ingest::Documents;
#[cfg(feature = "remote")]
use super::journal::Changes;
use super::journal::Journal;
use super::rotated::RotatedChange;
use crate::blind::BlindChange;
use crate::error::ClientError;
use crate::vault::{Slot, Transaction};

/// A collection that is being changed.
pub(crate) enum Change<'v> {
    Rotated(Box<RotatedChange<'v>>),
    Blind(Box<BlindChange<'v>>),
}

/// A change that is written and not committed, and what it did.
pub(crate) struct Written<'v> {
    pub(crate) transaction: Transaction<'v>,
    /// Ids of documents that are new or another vector.
    pub(crate) put: Vec<String>,
    /// Ids of documents that went.
    pub(crate) deleted: Vec<String>,
    /// Ids of documents that are another record, or have none any more.
    pub(crate) recorded: Vec<String>,
}

impl<'v> Change<'v> {
    /// Begins to change a collection.
    pub(crate) fn begin(transaction: Transaction<'v>) -> Result<Self, ClientError> {
        Ok(if transaction.before().contains(Slot::Blind) {
            Self::Blind(Box::new(BlindChange::begin(transaction)?))
        } else {
            Self::Rotated(Box::new(RotatedChange::begin(transaction)?))
        })
    }

    /// Every row before the change, with its id.
    pub(crate) fn rows(&self) -> Box<dyn Iterator<Item = (u32, &str)> + '_> {
        match self {
            Self::Rotated(change) => Box::new((0..).zip(change.ids())),
            Self::Blind(change) => Box::new(change.rows()),
        }
    }

    /// The rows of these ids, where they are.
    pub(crate) fn rows_of<'a>(&self, ids: impl Iterator<Item = &'a str>) -> Vec<Option<u32>> {
        let wanted: Vec<&str> = ids.collect();
        let mut places: HashMap<&str, Option<u32>> = wanted.iter().map(|id| (*id, None)).collect();
        for (row, id) in self.rows() {
            if let Some(place) = places.get_mut(id) {
                *place = Some(row);
            }
        }
        wanted.iter().map(|id| places[id]).collect()
    }

    /// The rows of the chunks of documents that were ingested in chunks, with the documents' ids.
    pub(crate) fn chunks_of(&self, documents: &[&str]) -> Result<Vec<(u32, String)>, ClientError> {
        match self {
            Self::Blind(change) if !documents.is_empty() => change.chunks_of(documents),
            _ => Ok(Vec::new()),
        }
    }

    /// Removes rows.
    pub(crate) fn remove(&mut self, rows: &[u32]) -> Result<(), ClientError> {
        match self {
            Self::Rotated(change) => change.remove(rows),
            Self::Blind(change) => {
                change.remove(rows);
                Ok(())
            }
        }
    }

    /// Adds documents, or replaces those whose id is known. Returns how many are new, how many are
    /// another vector than before; the rest is as it was. Called once for a change.
    pub(crate) fn put(&mut self, documents: &Documents<'_>) -> Result<(usize, usize), ClientError> {
        let width = self.width();
        shard_geometry::check_vector(width, documents.vectors.row(0))?;
        let existing = self.rows_of(documents.ids.iter().map(String::as_str));
        let unchanged = self.unchanged(documents, &existing)?;
        let coming: Vec<usize> = (0..documents.ids.len()).filter(|&at| !unchanged[at]).collect();
        if coming.is_empty() {
            return Ok((0, 0));
        }
        let values: Vec<f32> =
            coming.iter().flat_map(|&at| documents.vectors.row(at)).copied().collect();
        let vectors = VectorSet::new(width, values)?;
        let ids: Vec<String> = coming.iter().map(|&at| documents.ids[at].clone()).collect();
        let existing: Vec<Option<u32>> = coming.iter().map(|&at| existing[at]).collect();
        match self {
            Self::Rotated(change) => change.put(ids, vectors, &existing)?,
            Self::Blind(change) => change.put(ids, vectors, &existing),
        }
        let replaced = existing.iter().flatten().count();
        Ok((existing.len() - replaced, replaced))
    }

    /// Which of the documents are in the vault with this very vector.
    fn unchanged(
        &self,
        documents: &Documents<'_>,
        existing: &[Option<u32>],
    ) -> Result<Vec<bool>, ClientError> {
        let rows: Vec<u32> = existing.iter().flatten().copied().collect();
        let held = match self {
            Self::Rotated(change) => change.vectors_of(&rows)?,
            Self::Blind(change) => change.vectors_of(&rows)?,
        };
        let mut held = held.chunks_exact(self.width());
        let same = |(at, row): (usize, &Option<u32>)| {
            row.is_some() && held.next() == Some(documents.vectors.row(at))
        };
        Ok(existing.iter().enumerate().map(same).collect())
    }

    fn width(&self) -> usize {
        match self {
            Self::Rotated(change) => change.width(),
            Self::Blind(change) => change.width(),
        }
    }

    /// Documents after the change.
    pub(crate) fn documents(&self) -> usize {
        match self {
            Self::Rotated(change) => change.documents(),
            Self::Blind(change) => change.documents(),
        }
    }

    /// Writes what changed and commits; a change of nothing writes nothing.
    pub(crate) fn commit(self, rng: &mut impl CryptoRng) -> Result<(), ClientError> {
        if !self.is_any() {
            return Ok(());
        }
        let Written { mut transaction, put, deleted, recorded } = self.write(rng)?;
        Journal::Documents { put, deleted, recorded }.record(&mut transaction, rng)?;
        Ok(transaction.commit(rng)?)
    }

    /// As [`Change::commit`], where the change repeats those of other commits. It is committed also
    /// where nothing changes, so that it is known to have been repeated. Returns how many documents are
    /// new, another vector or another record.
    #[cfg(feature = "remote")]
    pub(crate) fn commit_repeated(
        self,
        changes: &Changes,
        rng: &mut impl CryptoRng,
    ) -> Result<usize, ClientError> {
        let Written { mut transaction, put, deleted, recorded } = self.write(rng)?;
        let count = put.iter().chain(&recorded).collect::<HashSet<_>>().len();
        // What comes back whole is from the commit that changed some of it.
        let (documents, records) = (&changes.origins, &changes.records);
        let from = |id: String, [one, other]: [&BTreeMap<String, CommitName>; 2]| {
            let from = one.get(&id).or(other.get(&id)).copied().or(changes.first);
            (id, from.unwrap_or_default())
        };
        let of_document = |id| from(id, [documents, records]);
        let of_record = |id| from(id, [records, documents]);
        let journal = Journal::Merged {
            put: put.into_iter().map(of_document).collect(),
            deleted: deleted.into_iter().map(of_document).collect(),
            recorded: recorded.into_iter().map(of_record).collect(),
            repeated: changes.commits.iter().copied().collect(),
        };
        journal.record(&mut transaction, rng)?;
        transaction.commit(rng)?;
        Ok(count)
    }

    fn is_any(&self) -> bool {
        match self {
            Self::Rotated(change) => change.is_any(),
            Self::Blind(change) => change.is_any(),
        }
    }

    /// Writes what changed, if anything did.
    fn write(mut self, rng: &mut impl CryptoRng) -> Result<Written<'v>, ClientError> {
        if self.is_any() {
            match &mut self {
                Self::Rotated(change) => change.write(rng)?,
                Self::Blind(change) => change.write(rng)?,
            }
        }
        Ok(match self {
            Self::Rotated(change) => change.written(),
            Self::Blind(change) => change.written(),
        })
    }
}
