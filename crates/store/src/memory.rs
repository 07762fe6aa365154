//! Rows in memory.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use shard_protocol::{
    BlobList, BlobName, Candidates, CellHandle, CollectionName, CollectionState, Epoch, EpochState,
    Revision, RowBatch, RowHandle, RowMac,
};

use crate::{EpochStatistics, Fetched, MOST_COLLECTIONS, MOST_EPOCHS, RowStore, StoreError};

/// A row by handle: a handle names one row, whatever cell it moves to.
struct Held {
    cell: CellHandle,
    mac: RowMac,
    coordinates: Arc<[i32]>,
}

struct Rows {
    width: usize,
    rows: BTreeMap<RowHandle, Held>,
    /// Rows that were deleted, and when.
    deleted: BTreeMap<RowHandle, Revision>,
}

#[derive(Default)]
struct Collection {
    revision: Revision,
    current: Option<Epoch>,
    epochs: BTreeMap<Epoch, Rows>,
    blobs: BTreeMap<BlobName, Vec<u8>>,
}

impl Collection {
    /// Refuses to go back behind the latest revision.
    fn check(&self, revision: Revision) -> Result<(), StoreError> {
        if revision < self.revision {
            return Err(StoreError::Stale { given: revision, latest: self.revision });
        }
        Ok(())
    }

    /// Refuses to change an epoch that a later one has replaced.
    fn check_epoch(&self, epoch: Epoch) -> Result<(), StoreError> {
        match self.current {
            Some(current) if epoch < current => Err(StoreError::Replaced { asked: epoch, current }),
            _ => Ok(()),
        }
    }

    fn current(&self, epoch: Epoch) -> Result<&Rows, StoreError> {
        match (self.current, self.epochs.get(&epoch)) {
            (Some(current), Some(rows)) if current == epoch => Ok(rows),
            (Some(current), _) if epoch < current => {
                Err(StoreError::Replaced { asked: epoch, current })
            }
            (_, Some(_)) => Err(StoreError::Pending(epoch)),
            (_, None) => Err(StoreError::UnknownEpoch(epoch)),
        }
    }
}

type Collections = BTreeMap<CollectionName, Collection>;

/// Rows held in memory only.
#[derive(Default)]
pub struct MemoryRows {
    collections: RwLock<Collections>,
}

impl MemoryRows {
    /// An empty engine.
    pub fn new() -> Self {
        Self::default()
    }

    // Every update below checks first and then changes maps that cannot be left half-changed by
    // a panic, so a poisoned lock still guards sound rows.
    fn read(&self) -> RwLockReadGuard<'_, Collections> {
        self.collections.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Collections> {
        self.collections.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn known<'a>(
    collections: &'a Collections,
    name: &CollectionName,
) -> Result<&'a Collection, StoreError> {
    collections.get(name).ok_or_else(|| StoreError::UnknownCollection(name.clone()))
}

fn known_mut<'a>(
    collections: &'a mut Collections,
    name: &CollectionName,
) -> Result<&'a mut Collection, StoreError> {
    collections.get_mut(name).ok_or_else(|| StoreError::UnknownCollection(name.clone()))
}

fn known_or_new<'a>(
    collections: &'a mut Collections,
    name: &CollectionName,
) -> Result<&'a mut Collection, StoreError> {
    if !collections.contains_key(name) {
        StoreError::unless_room("collections", collections.len(), MOST_COLLECTIONS)?;
    }
    Ok(collections.entry(name.clone()).or_default())
}

impl RowStore for MemoryRows {
    fn upsert(
        &self,
        collection: &CollectionName,
        revision: Revision,
        batch: RowBatch,
        macs: &[RowMac],
    ) -> Result<(), StoreError> {
        assert_eq!(macs.len(), batch.rows().len(), "a MAC for every row");
        let (epoch, width) = (batch.epoch(), batch.width());
        let mut collections = self.write();
        if let Some(held) = collections.get(collection) {
            held.check(revision)?;
            held.check_epoch(epoch)?;
            match held.epochs.get(&epoch) {
                Some(rows) if rows.width != width => {
                    return Err(StoreError::Width { expected: rows.width, actual: width });
                }
                Some(_) => {}
                None => {
                    let what = "epochs of a collection";
                    StoreError::unless_room(what, held.epochs.len(), MOST_EPOCHS)?;
                }
            }
        }
        let held = known_or_new(&mut collections, collection)?;
        held.revision = revision;
        let rows = held.epochs.entry(epoch).or_insert_with(|| Rows {
            width,
            rows: BTreeMap::new(),
            deleted: BTreeMap::new(),
        });
        for (row, &mac) in batch.into_rows().into_iter().zip(macs) {
            rows.deleted.remove(&row.handle);
            let held = Held { cell: *row.cell, mac, coordinates: row.coordinates.into() };
            rows.rows.insert(row.handle, held);
        }
        Ok(())
    }

    fn delete(
        &self,
        collection: &CollectionName,
        revision: Revision,
        epoch: Epoch,
        handles: &[RowHandle],
    ) -> Result<usize, StoreError> {
        let mut collections = self.write();
        let held = known_mut(&mut collections, collection)?;
        held.check(revision)?;
        held.check_epoch(epoch)?;
        let rows = held.epochs.get_mut(&epoch).ok_or(StoreError::UnknownEpoch(epoch))?;
        let mut gone = 0;
        for handle in handles {
            if rows.rows.remove(handle).is_some() {
                rows.deleted.insert(*handle, revision);
                gone += 1;
            }
        }
        held.revision = revision;
        Ok(gone)
    }

    fn activate(
        &self,
        collection: &CollectionName,
        revision: Revision,
        epoch: Epoch,
    ) -> Result<(), StoreError> {
        let mut collections = self.write();
        let held = known_mut(&mut collections, collection)?;
        held.check(revision)?;
        if !held.epochs.contains_key(&epoch) {
            return Err(StoreError::UnknownEpoch(epoch));
        }
        held.epochs.retain(|&other, _| other == epoch);
        held.current = Some(epoch);
        held.revision = revision;
        Ok(())
    }

    fn fetch(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        candidates: &Candidates,
    ) -> Result<Fetched, StoreError> {
        let collections = self.read();
        let rows = known(&collections, collection)?.current(epoch)?;
        let find = |cell: CellHandle, handle: RowHandle| match rows.rows.get(&handle) {
            Some(held) if held.cell == cell => Ok(held.coordinates.clone()),
            _ => Err(match rows.deleted.get(&handle) {
                Some(&revision) => StoreError::Deleted { handle, revision },
                None => StoreError::UnknownRow { cell, handle },
            }),
        };
        candidates
            .iter()
            .map(|(cell, handles)| handles.iter().map(|handle| find(cell, *handle)).collect())
            .collect()
    }

    fn width(&self, collection: &CollectionName, epoch: Epoch) -> Result<usize, StoreError> {
        Ok(known(&self.read(), collection)?.current(epoch)?.width)
    }

    fn macs(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        after: Option<RowHandle>,
        most: usize,
    ) -> Result<Vec<(RowHandle, RowMac)>, StoreError> {
        let collections = self.read();
        let Some(rows) = collections.get(collection).and_then(|held| held.epochs.get(&epoch))
        else {
            return Ok(Vec::new());
        };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let page = rows.rows.range((from, Bound::Unbounded)).take(most);
        Ok(page.map(|(handle, held)| (*handle, held.mac)).collect())
    }

    fn statistics(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
    ) -> Result<EpochStatistics, StoreError> {
        let collections = self.read();
        let held = known(&collections, collection)?;
        let rows = held.epochs.get(&epoch).ok_or(StoreError::UnknownEpoch(epoch))?;
        let cells: HashSet<CellHandle> = rows.rows.values().map(|held| held.cell).collect();
        Ok(EpochStatistics { rows: rows.rows.len(), cells: cells.len(), width: rows.width })
    }

    fn describe(&self, collection: &CollectionName) -> Result<CollectionState, StoreError> {
        let collections = self.read();
        let Some(held) = collections.get(collection) else {
            return Ok(CollectionState::default());
        };
        let state = |(&epoch, rows): (&Epoch, &Rows)| EpochState {
            epoch,
            width: rows.width,
            rows: rows.rows.len() as u64,
        };
        Ok(CollectionState {
            revision: held.revision,
            current: held.current,
            epochs: held.epochs.iter().map(state).collect(),
        })
    }

    fn collections(&self) -> Result<Vec<CollectionName>, StoreError> {
        Ok(self.read().keys().cloned().collect())
    }

    fn drop_collection(&self, collection: &CollectionName) -> Result<bool, StoreError> {
        Ok(self.write().remove(collection).is_some())
    }

    fn put_blob(
        &self,
        collection: &CollectionName,
        name: &BlobName,
        sealed: &[u8],
    ) -> Result<(), StoreError> {
        let mut collections = self.write();
        let blobs = &mut known_or_new(&mut collections, collection)?.blobs;
        if blobs.len() >= BlobList::MOST && !blobs.contains_key(name) {
            return Err(StoreError::TooMany {
                what: "blobs of a collection",
                most: BlobList::MOST,
            });
        }
        blobs.insert(name.clone(), sealed.to_vec());
        Ok(())
    }

    fn blob(&self, collection: &CollectionName, name: &BlobName) -> Result<Vec<u8>, StoreError> {
        let collections = self.read();
        let blob = known(&collections, collection)?.blobs.get(name);
        blob.cloned().ok_or_else(|| StoreError::UnknownBlob(name.clone()))
    }

    fn blobs(&self, collection: &CollectionName) -> Result<Vec<(BlobName, u64)>, StoreError> {
        let collections = self.read();
        let blobs = &known(&collections, collection)?.blobs;
        Ok(blobs.iter().map(|(name, sealed)| (name.clone(), sealed.len() as u64)).collect())
    }

    fn delete_blob(
        &self,
        collection: &CollectionName,
        name: &BlobName,
    ) -> Result<bool, StoreError> {
        Ok(known_mut(&mut self.write(), collection)?.blobs.remove(name).is_some())
    }
}
