//! Rows in memory, cell by cell, under a budget of bytes.
//!
//! Every row in the cache is as the newest view of the file has it: whoever publishes a view
//! takes the rows that it changes out in the same step, under the same lock. The cells that were
//! asked for least recently give way first; a cell that is larger than what must go loses only
//! some of its rows, which is why this is no cache of whole entries from a library.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use shard_protocol::{CellHandle, Epoch, RowHandle};

use super::key::CollectionId;

/// A cell of an epoch of a collection.
pub(super) type CellKey = (CollectionId, Epoch, CellHandle);

/// Bytes that a row takes besides its coordinates: the counts before them (16), what the
/// allocator adds (16), and its place in a table of 24-byte entries that is between 7/16 and 7/8
/// full (at most 57).
const ROW_BYTES: usize = 89;
/// Bytes that a cell takes besides its rows: its entry in a table (24 + 72, at most 220), in the
/// order of use (32, trees being half full at worst 64), and its own smallest table (132).
const CELL_BYTES: usize = 416;

/// What is no longer as the cache has it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stale {
    /// A row of a cell.
    Row(CellKey, RowHandle),
    /// All of an epoch.
    Epoch(CollectionId, Epoch),
}

#[derive(Default)]
struct Cell {
    rows: HashMap<RowHandle, Arc<[i32]>>,
    bytes: usize,
    used: u64,
}

/// The cache.
pub(super) struct Cache {
    budget: usize,
    bytes: usize,
    cells: HashMap<CellKey, Cell>,
    /// Cells by when they were last used.
    order: BTreeMap<u64, CellKey>,
    clock: u64,
}

impl Cache {
    pub(super) fn new(budget: usize) -> Self {
        Self { budget, bytes: 0, cells: HashMap::new(), order: BTreeMap::new(), clock: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows of a cell that are here, in the order of `handles`.
    pub(super) fn rows(&mut self, key: CellKey, handles: &[RowHandle]) -> Vec<Option<Arc<[i32]>>> {
        let Some(cell) = self.cells.get_mut(&key) else { return vec![None; handles.len()] };
        touch(&mut self.order, &mut self.clock, key, cell);
        handles.iter().map(|handle| cell.rows.get(handle).cloned()).collect()
    }

    /// Takes rows of a cell in.
    pub(super) fn insert(
        &mut self,
        key: CellKey,
        rows: impl IntoIterator<Item = (RowHandle, Arc<[i32]>)>,
    ) {
        let cell = self.cells.entry(key).or_insert_with(|| {
            self.bytes += CELL_BYTES;
            Cell { bytes: CELL_BYTES, ..Cell::default() }
        });
        touch(&mut self.order, &mut self.clock, key, cell);
        for (handle, coordinates) in rows {
            let bytes = row_bytes(&coordinates);
            if cell.rows.insert(handle, coordinates).is_none() {
                cell.bytes += bytes;
                self.bytes += bytes;
            }
        }
    }

    /// Keeps the budget. Frees a sixteenth more than it must, so that a full cache is not
    /// trimmed for every row.
    pub(super) fn trim(&mut self) {
        if self.bytes <= self.budget {
            return;
        }
        let goal = self.budget - self.budget / 16;
        while self.bytes > goal
            && let Some((_, key)) = self.order.pop_first()
        {
            let cell = self.cells.get_mut(&key).expect("every ordered cell is here");
            let excess = self.bytes - goal;
            if cell.bytes - CELL_BYTES <= excess {
                self.bytes -= cell.bytes;
                self.cells.remove(&key);
                continue;
            }
            let mut freed = 0;
            cell.rows.retain(|_, row| {
                let keep = freed >= excess;
                freed += if keep { 0 } else { row_bytes(row) };
                keep
            });
            cell.bytes -= freed;
            self.bytes -= freed;
            self.order.insert(cell.used, key);
        }
    }

    /// Takes out what is no longer true.
    pub(super) fn remove(&mut self, stale: &[Stale]) {
        for stale in stale {
            match *stale {
                Stale::Row(key, handle) => self.remove_row(key, handle),
                Stale::Epoch(id, epoch) => {
                    self.retain(|&(other, number, _)| (other, number) != (id, epoch));
                }
            }
        }
    }

    /// Takes everything out.
    pub(super) fn clear(&mut self) {
        self.retain(|_| false);
    }

    fn remove_row(&mut self, key: CellKey, handle: RowHandle) {
        let Some(cell) = self.cells.get_mut(&key) else { return };
        let Some(row) = cell.rows.remove(&handle) else { return };
        cell.bytes -= row_bytes(&row);
        self.bytes -= row_bytes(&row);
        if cell.rows.is_empty() {
            self.order.remove(&cell.used);
            self.cells.remove(&key);
            self.bytes -= CELL_BYTES;
        }
    }

    fn retain(&mut self, keep: impl Fn(&CellKey) -> bool) {
        let Self { bytes, cells, order, .. } = self;
        cells.retain(|key, cell| {
            let keep = keep(key);
            if !keep {
                *bytes -= cell.bytes;
                order.remove(&cell.used);
            }
            keep
        });
    }
}

fn row_bytes(row: &Arc<[i32]>) -> usize {
    ROW_BYTES + size_of_val::<[i32]>(row)
}

/// Makes a cell the one that was used last.
fn touch(order: &mut BTreeMap<u64, CellKey>, clock: &mut u64, key: CellKey, cell: &mut Cell) {
    order.remove(&cell.used);
    *clock += 1;
    cell.used = *clock;
    order.insert(*clock, key);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cell: u64) -> CellKey {
        (CollectionId(1), Epoch(1), CellHandle(cell))
    }

    fn rows(handles: std::ops::Range<u64>) -> impl Iterator<Item = (RowHandle, Arc<[i32]>)> {
        handles.map(|handle| (RowHandle(handle), Arc::from([handle as i32; 16])))
    }

    fn held(cache: &mut Cache, cell: u64, handle: u64) -> bool {
        cache.rows(key(cell), &[RowHandle(handle)])[0].is_some()
    }

    /// Bytes of cells with that many rows of 16 coordinates.
    fn size(cells: usize, rows: usize) -> usize {
        cells * CELL_BYTES + rows * (ROW_BYTES + 64)
    }

    #[test]
    fn the_cell_that_was_used_least_recently_gives_way() {
        let mut cache = Cache::new(2 * size(1, 4));
        cache.insert(key(1), rows(0..4));
        cache.insert(key(2), rows(0..4));
        assert!(held(&mut cache, 1, 0));
        cache.insert(key(3), rows(0..3));
        cache.trim();
        assert!(!held(&mut cache, 2, 0), "the second was used last");
        assert!(held(&mut cache, 1, 0) && held(&mut cache, 3, 0));
        assert_eq!(cache.bytes(), size(2, 7));
    }

    #[test]
    fn a_cell_beyond_the_budget_keeps_as_many_rows_as_fit() {
        let budget = size(1, 100);
        let mut cache = Cache::new(budget);
        cache.insert(key(1), rows(0..1000));
        cache.trim();
        let kept = (0..1000).filter(|&handle| held(&mut cache, 1, handle)).count();
        assert!((85..=100).contains(&kept), "{kept}");
        assert_eq!(cache.bytes(), size(1, kept));
    }

    #[test]
    fn what_is_removed_is_no_longer_counted() {
        let mut cache = Cache::new(1 << 20);
        cache.insert(key(1), rows(0..3));
        cache.insert(key(1), rows(1..4));
        cache.insert((CollectionId(1), Epoch(2), CellHandle(1)), rows(0..5));
        assert_eq!(cache.bytes(), size(2, 9));
        cache.remove(&[Stale::Row(key(1), RowHandle(2)), Stale::Row(key(9), RowHandle(2))]);
        assert!(held(&mut cache, 1, 1) && !held(&mut cache, 1, 2));
        assert_eq!(cache.bytes(), size(2, 8));
        cache.remove(&[Stale::Epoch(CollectionId(1), Epoch(2))]);
        assert_eq!(cache.bytes(), size(1, 3));
        cache.remove(&[0, 1, 3].map(|handle| Stale::Row(key(1), RowHandle(handle))));
        assert_eq!((cache.bytes(), cache.order.len(), cache.cells.len()), (0, 0, 0));
        cache.insert(key(1), rows(0..3));
        cache.clear();
        assert_eq!((cache.bytes(), cache.order.len()), (0, 0));
    }
}
