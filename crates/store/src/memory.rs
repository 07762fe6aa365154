//! Rows in memory.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use shard_protocol::{Candidates, CellTag, Epoch, RowBatch, RowHandle};

use crate::{EpochStatistics, RowStore, StoreError};

/// Rows of one epoch, by handle: a handle names one row, whatever cell it moves to.
struct Collection {
    width: usize,
    rows: HashMap<RowHandle, (CellTag, Arc<[i32]>)>,
}

/// Rows held in memory only.
#[derive(Default)]
pub struct MemoryRows {
    epochs: RwLock<HashMap<Epoch, Collection>>,
}

impl MemoryRows {
    /// An empty engine.
    pub fn new() -> Self {
        Self::default()
    }

    // Every update below checks first and then changes maps that cannot be left half-changed by
    // a panic, so a poisoned lock still guards sound rows.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<Epoch, Collection>> {
        self.epochs.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Epoch, Collection>> {
        self.epochs.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl RowStore for MemoryRows {
    fn upsert(&self, batch: RowBatch) -> Result<(), StoreError> {
        let (epoch, width) = (batch.epoch(), batch.width());
        let mut epochs = self.write();
        let collection =
            epochs.entry(epoch).or_insert_with(|| Collection { width, rows: HashMap::new() });
        if collection.width != width {
            return Err(StoreError::Width { expected: collection.width, actual: width });
        }
        for row in batch.into_rows() {
            collection.rows.insert(row.handle, (row.cell, row.coordinates.into()));
        }
        Ok(())
    }

    fn fetch(
        &self,
        epoch: Epoch,
        candidates: &Candidates,
    ) -> Result<Vec<Vec<Arc<[i32]>>>, StoreError> {
        let epochs = self.read();
        let collection = epochs.get(&epoch).ok_or(StoreError::UnknownEpoch(epoch))?;
        let find = |cell: CellTag, handle: RowHandle| match collection.rows.get(&handle) {
            Some((held_in, coordinates)) if *held_in == cell => Ok(coordinates.clone()),
            _ => Err(StoreError::UnknownRow { cell, handle }),
        };
        candidates
            .iter()
            .map(|(cell, handles)| handles.iter().map(|handle| find(cell, *handle)).collect())
            .collect()
    }

    fn delete(&self, epoch: Epoch, handles: &[RowHandle]) -> Result<usize, StoreError> {
        let mut epochs = self.write();
        let collection = epochs.get_mut(&epoch).ok_or(StoreError::UnknownEpoch(epoch))?;
        Ok(handles.iter().filter(|handle| collection.rows.remove(handle).is_some()).count())
    }

    fn drop_epoch(&self, epoch: Epoch) -> Result<(), StoreError> {
        self.write().remove(&epoch).map(drop).ok_or(StoreError::UnknownEpoch(epoch))
    }

    fn width(&self, epoch: Epoch) -> Result<usize, StoreError> {
        self.read().get(&epoch).map(|held| held.width).ok_or(StoreError::UnknownEpoch(epoch))
    }

    fn statistics(&self, epoch: Epoch) -> Result<EpochStatistics, StoreError> {
        let epochs = self.read();
        let collection = epochs.get(&epoch).ok_or(StoreError::UnknownEpoch(epoch))?;
        let cells: HashSet<CellTag> = collection.rows.values().map(|(cell, _)| *cell).collect();
        Ok(EpochStatistics {
            rows: collection.rows.len(),
            cells: cells.len(),
            width: collection.width,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shard_protocol::{Leak, Row, declassify};

    const EPOCH: Epoch = Epoch(3);

    fn row(handle: u64, cell: u64, coordinates: &[i32]) -> Row {
        Row { handle: RowHandle(handle), cell: CellTag(cell), coordinates: coordinates.to_vec() }
    }

    fn batch(width: usize, rows: Vec<Row>) -> RowBatch {
        RowBatch::new(
            declassify(EPOCH, Leak::CollectionShape),
            declassify(width, Leak::CollectionShape),
            declassify(rows, Leak::StoredRows),
        )
    }

    fn filled() -> MemoryRows {
        let rows = MemoryRows::new();
        let three = vec![row(1, 10, &[5, 0]), row(2, 10, &[6, 0]), row(3, 11, &[7, 0])];
        rows.upsert(batch(2, three)).unwrap();
        rows
    }

    fn candidates(cells: &[(u64, &[u64])]) -> Candidates {
        let tags = cells.iter().map(|(tag, _)| CellTag(*tag)).collect();
        let handles = |rows: &[u64]| rows.iter().map(|row| RowHandle(*row)).collect();
        let rows = cells.iter().map(|(_, rows)| handles(rows)).collect();
        let rows = declassify(rows, Leak::CandidateHandles);
        Candidates::new(declassify(tags, Leak::ActiveCells), rows).unwrap()
    }

    fn first(rows: &MemoryRows, cell: u64, handle: u64) -> Result<i32, StoreError> {
        Ok(rows.fetch(EPOCH, &candidates(&[(cell, &[handle])]))?[0][0][0])
    }

    #[test]
    fn rows_come_back_cell_by_cell() {
        let found = filled().fetch(EPOCH, &candidates(&[(11, &[3]), (10, &[2, 1])])).unwrap();
        let first: Vec<Vec<i32>> =
            found.iter().map(|cell| cell.iter().map(|row| row[0]).collect()).collect();
        assert_eq!(first, vec![vec![5, 6], vec![7]]);
    }

    #[test]
    fn an_upsert_replaces_a_row_and_moves_it_to_its_new_cell() {
        let rows = filled();
        rows.upsert(batch(2, vec![row(1, 11, &[50, 0])])).unwrap();
        assert_eq!(first(&rows, 11, 1), Ok(50));
        assert!(first(&rows, 10, 1).is_err());
        assert_eq!(
            rows.statistics(EPOCH).unwrap(),
            EpochStatistics { rows: 3, cells: 2, width: 2 }
        );
    }

    #[test]
    fn a_row_is_found_only_under_its_own_cell_and_epoch() {
        let rows = filled();
        let missing = StoreError::UnknownRow { cell: CellTag(11), handle: RowHandle(1) };
        assert_eq!(first(&rows, 11, 1), Err(missing));
        assert_eq!(
            rows.fetch(Epoch(4), &candidates(&[(10, &[1])])),
            Err(StoreError::UnknownEpoch(Epoch(4)))
        );
    }

    #[test]
    fn a_batch_of_another_width_changes_nothing() {
        let rows = filled();
        let refused = rows.upsert(batch(1, vec![row(9, 10, &[1])]));
        assert_eq!(refused, Err(StoreError::Width { expected: 2, actual: 1 }));
        assert_eq!(rows.statistics(EPOCH).unwrap().rows, 3);
    }

    #[test]
    fn deleted_rows_and_dropped_epochs_are_gone() {
        let rows = filled();
        assert_eq!(rows.delete(EPOCH, &[RowHandle(1), RowHandle(99)]), Ok(1));
        assert!(first(&rows, 10, 1).is_err());
        assert_eq!(first(&rows, 10, 2), Ok(6));
        rows.drop_epoch(EPOCH).unwrap();
        assert_eq!(rows.statistics(EPOCH), Err(StoreError::UnknownEpoch(EPOCH)));
    }
}
