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
    /// What is damaged of what is above: then nothing of it can be used.
    pub damage: Option<String>,
}

/// The number of a collection whose own is not known. No collection is given it.
const LOST: CollectionId = CollectionId(u64::MAX);

impl CatalogueEntry {
    pub(super) fn new(id: CollectionId) -> Self {
        let record = CollectionRecord { id, lineage: Lineage::default(), current: None, blobs: 0 };
        Self { record, epochs: BTreeMap::new(), changed: 0, damage: None }
    }

    /// A collection of which no more is known than its name, since this is damaged.
    pub(super) fn lost(what: &str) -> Self {
        Self { damage: Some(what.to_owned()), ..Self::new(LOST) }
    }

    /// Whether its number, and with it its blobs, can be relied on.
    pub(super) fn is_numbered(&self) -> bool {
        self.record.id != LOST
    }

    /// Itself, unless it is damaged.
    pub(super) fn sound(&self) -> Result<(), StoreError> {
        match &self.damage {
            Some(what) => Err(StoreError::Damaged { what: what.clone() }),
            None => Ok(()),
        }
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

    fn blocks(&self) -> u64 {
        self.blocks
    }
}

/// Every collection by name. A copy is cheap, so each change makes one of its own.
#[derive(Clone, Default, Debug)]
pub(super) struct Catalogue(pub BTreeMap<CollectionName, Arc<CatalogueEntry>>);

impl Catalogue {
    pub(super) fn known(&self, name: &CollectionName) -> Result<&Arc<CatalogueEntry>, StoreError> {
        let held = rules::known(self.0.get(name), name)?;
        held.sound()?;
        Ok(held)
    }

    /// The number of a collection, which names its blobs, also where its rows are damaged.
    pub(super) fn number(&self, name: &CollectionName) -> Result<CollectionId, StoreError> {
        let held = rules::known(self.0.get(name), name)?;
        if !held.is_numbered() {
            held.sound()?;
        }
        Ok(held.record.id)
    }

    pub(super) fn rows(&self) -> u64 {
        self.0.values().map(|held| held.rows()).sum()
    }
}
