//! Rows in memory.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use shard_protocol::{
    Advance, BlobName, Candidates, CellHandle, CollectionName, CollectionState, CommitName, Epoch,
    Revision, RowBatch, RowHandle, RowMac,
};

use crate::rules::{EpochShape, Lineage, Rules, known, room_for_blob, room_for_collection};
use crate::{EpochStatistics, Fetched, RowStore, StoreError};

/// A row by handle: a handle names one row, whatever cell it moves to.
struct StoredRow {
    cell: CellHandle,
    mac: RowMac,
    coordinates: Arc<[i32]>,
}

struct EpochRows {
    width: usize,
    /// Blocks of an epoch that has no rows.
    blocks: u64,
    rows: BTreeMap<RowHandle, StoredRow>,
    /// Rows that were deleted, and when.
    deleted: BTreeMap<RowHandle, Revision>,
}

impl EpochRows {
    fn new(width: usize, blocks: u64) -> Self {
        Self { width, blocks, rows: BTreeMap::new(), deleted: BTreeMap::new() }
    }
}

impl EpochShape for EpochRows {
    fn width(&self) -> usize {
        self.width
    }

    fn rows(&self) -> u64 {
        self.rows.len() as u64
    }

    fn blocks(&self) -> u64 {
        self.blocks
    }
}

#[derive(Default)]
struct Collection {
    lineage: Lineage,
    current: Option<Epoch>,
    epochs: BTreeMap<Epoch, EpochRows>,
    blobs: BTreeMap<BlobName, Vec<u8>>,
}

impl Rules for Collection {
    type Epoch = EpochRows;

    fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    fn current(&self) -> Option<Epoch> {
        self.current
    }

    fn epochs(&self) -> &BTreeMap<Epoch, EpochRows> {
        &self.epochs
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

/// A collection that is there, or a new one if there is room for it.
fn known_or_new<'a>(
    collections: &'a mut Collections,
    name: &CollectionName,
) -> Result<&'a mut Collection, StoreError> {
    if !collections.contains_key(name) {
        room_for_collection(collections.len())?;
    }
    Ok(collections.entry(name.clone()).or_default())
}

impl RowStore for MemoryRows {
    fn begin(&self, collection: &CollectionName, advance: &Advance) -> Result<(), StoreError> {
        let mut collections = self.write();
        match collections.get(collection) {
            Some(held) => held.may_begin(advance)?,
            None => Collection::default().may_begin(advance)?,
        };
        known_or_new(&mut collections, collection)?.lineage.begin(advance);
        Ok(())
    }

    fn upsert(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        batch: RowBatch,
        macs: &[RowMac],
    ) -> Result<(), StoreError> {
        assert_eq!(macs.len(), batch.rows().len(), "a MAC for every row");
        let (epoch, width) = (batch.epoch(), batch.width());
        let mut collections = self.write();
        match collections.get(collection) {
            Some(held) => held.may_upsert(advance, epoch, width)?,
            None => Collection::default().may_upsert(advance, epoch, width)?,
        }
        let held = known_or_new(&mut collections, collection)?;
        held.lineage.begin(advance);
        let epoch = held.epochs.entry(epoch).or_insert_with(|| EpochRows::new(width, 0));
        for (row, &mac) in batch.into_rows().into_iter().zip(macs) {
            epoch.deleted.remove(&row.handle);
            let stored = StoredRow { cell: *row.cell, mac, coordinates: row.coordinates.into() };
            epoch.rows.insert(row.handle, stored);
        }
        Ok(())
    }

    fn delete(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
        handles: &[RowHandle],
    ) -> Result<usize, StoreError> {
        let mut collections = self.write();
        let held = known(collections.get_mut(collection), collection)?;
        held.may_delete(advance, epoch)?;
        held.lineage.begin(advance);
        let rows = held.epochs.get_mut(&epoch).ok_or(StoreError::UnknownEpoch(epoch))?;
        let mut gone = 0;
        for handle in handles {
            if rows.rows.remove(handle).is_some() {
                rows.deleted.insert(*handle, advance.revision);
                gone += 1;
            }
        }
        Ok(gone)
    }

    fn activate(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
    ) -> Result<(), StoreError> {
        let mut collections = self.write();
        let held = known(collections.get_mut(collection), collection)?;
        if held.may_activate(advance, epoch)? {
            held.epochs.retain(|&other, _| other == epoch);
            held.current = Some(epoch);
            held.lineage.reach(advance);
        }
        Ok(())
    }

    fn activate_blocks(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
        width: usize,
        blocks: u64,
    ) -> Result<(), StoreError> {
        let mut collections = self.write();
        let held = known(collections.get_mut(collection), collection)?;
        if held.may_activate_blocks(advance, epoch, width, blocks)? {
            held.epochs = [(epoch, EpochRows::new(width, blocks))].into();
            held.current = Some(epoch);
            held.lineage.reach(advance);
        }
        Ok(())
    }

    fn reset(
        &self,
        collection: &CollectionName,
        from: Option<CommitName>,
    ) -> Result<(), StoreError> {
        let mut collections = self.write();
        if let Some(held) = collections.get_mut(collection)
            && held.may_reset(from)?
        {
            *held = Collection {
                lineage: held.lineage.forgotten(),
                blobs: std::mem::take(&mut held.blobs),
                ..Collection::default()
            };
        }
        Ok(())
    }

    fn fetch(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        candidates: &Candidates,
    ) -> Result<Fetched, StoreError> {
        let collections = self.read();
        let held = known(collections.get(collection), collection)?;
        let rows = held.fetched(epoch, candidates.rows())?;
        let find = |cell: CellHandle, handle: RowHandle| match rows.rows.get(&handle) {
            Some(row) if row.cell == cell => Ok(row.coordinates.clone()),
            _ => Err(match rows.deleted.get(&handle) {
                Some(&revision) => StoreError::Deleted { handle, revision },
                None => StoreError::UnknownRow { cell, handle },
            }),
        };
        let cells = candidates
            .iter()
            .map(|(cell, handles)| handles.iter().map(|handle| find(cell, *handle)).collect());
        Ok(Fetched { width: rows.width, rows: cells.collect::<Result<_, _>>()? })
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
        Ok(page.map(|(handle, row)| (*handle, row.mac)).collect())
    }

    fn statistics(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
    ) -> Result<EpochStatistics, StoreError> {
        let collections = self.read();
        let rows = known(collections.get(collection), collection)?.epoch(epoch)?;
        let cells: HashSet<CellHandle> = rows.rows.values().map(|row| row.cell).collect();
        Ok(EpochStatistics { rows: rows.rows.len(), cells: cells.len(), width: rows.width })
    }

    fn describe(&self, collection: &CollectionName) -> Result<CollectionState, StoreError> {
        Ok(self.read().get(collection).map(Rules::state).unwrap_or_default())
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
        self.put_blobs(collection, &[(name.clone(), sealed.to_vec())])
    }

    fn put_blobs(
        &self,
        collection: &CollectionName,
        blobs: &[(BlobName, Vec<u8>)],
    ) -> Result<(), StoreError> {
        let mut collections = self.write();
        let held = &mut known_or_new(&mut collections, collection)?.blobs;
        let new: HashSet<&BlobName> =
            blobs.iter().map(|(name, _)| name).filter(|name| !held.contains_key(name)).collect();
        (held.len()..held.len() + new.len()).try_for_each(room_for_blob)?;
        held.extend(blobs.iter().cloned());
        Ok(())
    }

    fn blob(&self, collection: &CollectionName, name: &BlobName) -> Result<Vec<u8>, StoreError> {
        let collections = self.read();
        let blob = known(collections.get(collection), collection)?.blobs.get(name);
        blob.cloned().ok_or_else(|| StoreError::UnknownBlob(name.clone()))
    }

    fn blobs(
        &self,
        collection: &CollectionName,
        after: Option<&BlobName>,
        most: usize,
    ) -> Result<Vec<(BlobName, u64)>, StoreError> {
        let collections = self.read();
        let blobs = &known(collections.get(collection), collection)?.blobs;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let page = blobs.range::<BlobName, _>((from, Bound::Unbounded)).take(most);
        Ok(page.map(|(name, sealed)| (name.clone(), sealed.len() as u64)).collect())
    }

    fn delete_blob(
        &self,
        collection: &CollectionName,
        name: &BlobName,
    ) -> Result<bool, StoreError> {
        let mut collections = self.write();
        let held = known(collections.get_mut(collection), collection)?;
        Ok(held.blobs.remove(name).is_some())
    }
}
