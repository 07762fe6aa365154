//! What the engine keeps in memory of every collection: all but rows, MACs and blobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use shard_protocol::{CollectionName, CollectionState, Epoch, EpochState, Revision};

use super::key::CollectionId;
use super::record::{CollectionRecord, EpochRecord};
use crate::StoreError;

/// A collection.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub record: CollectionRecord,
    pub epochs: BTreeMap<Epoch, EpochRecord>,
    /// Sequence number of the last change to its rows: rows that were read before it must not
    /// enter the cache after it.
    pub changed: u64,
}

impl Held {
    pub(super) fn new(id: CollectionId) -> Self {
        let record = CollectionRecord { id, revision: Revision(0), current: None, blobs: 0 };
        Self { record, epochs: BTreeMap::new(), changed: 0 }
    }

    /// Refuses to go back behind the latest revision.
    pub(super) fn check(&self, given: Revision) -> Result<(), StoreError> {
        let latest = self.record.revision;
        if given < latest { Err(StoreError::Stale { given, latest }) } else { Ok(()) }
    }

    /// Refuses to change an epoch that a later one has replaced.
    pub(super) fn check_epoch(&self, asked: Epoch) -> Result<(), StoreError> {
        match self.record.current {
            Some(current) if asked < current => Err(StoreError::Replaced { asked, current }),
            _ => Ok(()),
        }
    }

    /// The current epoch, if it is the one that is asked for.
    pub(super) fn current(&self, epoch: Epoch) -> Result<&EpochRecord, StoreError> {
        match (self.record.current, self.epochs.get(&epoch)) {
            (Some(current), Some(held)) if current == epoch => Ok(held),
            (Some(current), _) if epoch < current => {
                Err(StoreError::Replaced { asked: epoch, current })
            }
            (_, Some(_)) => Err(StoreError::Pending(epoch)),
            (_, None) => Err(StoreError::UnknownEpoch(epoch)),
        }
    }

    pub(super) fn state(&self) -> CollectionState {
        let state = |(&epoch, held): (&Epoch, &EpochRecord)| EpochState {
            epoch,
            width: held.width,
            rows: held.rows,
        };
        CollectionState {
            revision: self.record.revision,
            current: self.record.current,
            epochs: self.epochs.iter().map(state).collect(),
        }
    }

    pub(super) fn rows(&self) -> u64 {
        self.epochs.values().map(|epoch| epoch.rows).sum()
    }
}

/// Every collection by name. A copy is cheap, so each change makes one of its own.
#[derive(Clone, Default, Debug)]
pub(super) struct Catalogue(pub BTreeMap<CollectionName, Arc<Held>>);

impl Catalogue {
    pub(super) fn known(&self, name: &CollectionName) -> Result<&Arc<Held>, StoreError> {
        self.0.get(name).ok_or_else(|| StoreError::UnknownCollection(name.clone()))
    }

    pub(super) fn rows(&self) -> u64 {
        self.0.values().map(|held| held.rows()).sum()
    }
}
