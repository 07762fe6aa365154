//! What the engine keeps in memory of every collection: all but rows, MACs and blobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use shard_protocol::{CollectionName, Epoch};

use super::key::CollectionId;
use super::record::{CollectionRecord, EpochRecord};
use crate::StoreError;
use crate::rules::{self, EpochShape, Lineage, Rules};

/// A collection: its record and those of its epochs.
#[derive(Clone, Debug)]
pub(super) struct CatalogueEntry {
    pub record: CollectionRecord,
    pub epochs: BTreeMap<Epoch, EpochRecord>,
    /// Sequence number of the last change to its rows: rows that were read before it must not
    /// enter the cache after it.
    pub changed: u64,
}

impl CatalogueEntry {
    pub(super) fn new(id: CollectionId) -> Self {
        let record = CollectionRecord { id, lineage: Lineage::default(), current: None, blobs: 0 };
        Self { record, epochs: BTreeMap::new(), changed: 0 }
    }

    pub(super) fn rows(&self) -> u64 {
        self.epochs.values().map(|epoch| epoch.rows).sum()
    }
}

impl Rules for CatalogueEntry {
    type Epoch = EpochRecord;

    fn lineage(&self) -> &Lineage {
        &self.record.lineage
    }

    fn current(&self) -> Option<Epoch> {
        self.record.current
    }

    fn epochs(&self) -> &BTreeMap<Epoch, EpochRecord> {
        &self.epochs
    }
}

impl EpochShape for EpochRecord {
    fn width(&self) -> usize {
        self.width
    }

    fn rows(&self) -> u64 {
        self.rows
    }
}

/// Every collection by name. A copy is cheap, so each change makes one of its own.
#[derive(Clone, Default, Debug)]
pub(super) struct Catalogue(pub BTreeMap<CollectionName, Arc<CatalogueEntry>>);

impl Catalogue {
    pub(super) fn known(&self, name: &CollectionName) -> Result<&Arc<CatalogueEntry>, StoreError> {
        rules::known(self.0.get(name), name)
    }

    pub(super) fn rows(&self) -> u64 {
        self.0.values().map(|held| held.rows()).sum()
    }
}
