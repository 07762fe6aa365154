//! Which pages of records a commit of a blind collection has.
//!
//! The list is stored as a blob ([`BlobName::records`](crate::BlobName::records)) and read by the server
//! when the commit is activated, beside the [`BlockList`](crate::BlockList). A commit without one has no
//! records.

use std::collections::HashSet;

use shard_rlwe::blind::{MOST_PAGES, QueryRank, RecordShape, RecordShapeError};

use crate::leak::{Disclosed, Leak, declassify};
use crate::names::{CommitName, Epoch};
use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer};

/// A list that cannot be.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum RecordListError {
    /// Slots or pages that cannot be.
    #[error(transparent)]
    Shape(#[from] RecordShapeError),
    /// A page is listed twice.
    #[error("page {} is listed twice", CommitName(*.0))]
    Repeated([u8; 16]),
}

/// The shape of a commit's records and the names of their pages, in the order of their slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordList {
    epoch: Disclosed<Epoch>,
    shape: Disclosed<RecordShape>,
    names: Disclosed<Vec<[u8; 16]>>,
}

impl RecordList {
    /// Pages of slots of so many bytes, for queries of a rank.
    ///
    /// # Panics
    /// When something was declassified as another leak than it is.
    pub fn new(
        epoch: Disclosed<Epoch>,
        slot_bytes: Disclosed<usize>,
        query_rank: Disclosed<QueryRank>,
        names: Disclosed<Vec<[u8; 16]>>,
    ) -> Result<Self, RecordListError> {
        let slot_bytes = slot_bytes.accounted_under(Leak::CollectionShape);
        let query_rank = query_rank.accounted_under(Leak::CollectionShape);
        let shape = RecordShape::new(names.len(), *slot_bytes, *query_rank)?;
        let mut seen = HashSet::with_capacity(names.len());
        if let Some(twice) = names.iter().find(|name| !seen.insert(**name)) {
            return Err(RecordListError::Repeated(*twice));
        }
        Ok(Self {
            epoch: epoch.accounted_under(Leak::CollectionShape),
            shape: declassify(shape, Leak::CollectionShape),
            names: names.accounted_under(Leak::BlockChanges),
        })
    }

    /// The epoch of the records.
    pub fn epoch(&self) -> Epoch {
        *self.epoch
    }

    /// How slots lie in columns.
    pub fn shape(&self) -> &RecordShape {
        &self.shape
    }

    /// The names of all pages.
    pub fn names(&self) -> &[[u8; 16]] {
        &self.names
    }

    /// The bytes of the blob.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::RecordList);
        writer.bytes.reserve(32 + 16 * self.names.len());
        writer.u64(self.epoch.0);
        writer.count(self.shape.slot_bytes());
        writer.u8(self.shape.query_rank().secrets() as u8);
        writer.count(self.names.len());
        self.names.iter().for_each(|name| writer.raw(name));
        writer.bytes
    }

    /// Reads the bytes of the blob.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::RecordList, limits)?;
        let epoch = reader.epoch()?;
        let slot_bytes = reader.count("bytes of a slot", limits.bytes)?;
        let rank = reader.query_rank()?;
        let count = reader.count("pages", MOST_PAGES)?;
        let names = reader.fields(count, 16)?;
        let names = names.map(|name| name.try_into().expect("sixteen bytes")).collect();
        reader.finish()?;
        let slot_bytes = declassify(slot_bytes, Leak::CollectionShape);
        let rank = declassify(rank, Leak::CollectionShape);
        let names = declassify(names, Leak::BlockChanges);
        Self::new(epoch, slot_bytes, rank, names).map_err(|error| match error {
            RecordListError::Shape(error) => error.into(),
            RecordListError::Repeated(_) => DecodeError::Invalid("a page that is listed twice"),
        })
    }
}
