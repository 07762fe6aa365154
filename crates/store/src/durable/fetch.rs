//! Fetches: rows from memory where they are there, from the row file where they are not.

use std::sync::Arc;

use shard_protocol::{Candidates, CellHandle, CollectionName, Epoch, Revision, RowHandle};

use super::RedbRows;
use super::catalogue::CatalogueEntry;
use super::database::{View, guarded};
use super::key::Table;
use super::metrics::add;
use super::record::{NameRecord, decode_row, decode_word};
use crate::rules::Rules;
use crate::{Fetched, StoreError};

impl RedbRows {
    /// The rows of all candidates as the newest view has them.
    pub(super) fn fetch_once(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        candidates: &Candidates,
    ) -> Result<Fetched, StoreError> {
        let (view, held, mut found) = {
            let mut live = self.live();
            let view = live.view.clone();
            let held = view.catalogue.known(collection)?.clone();
            held.fetched(epoch, candidates.rows())?;
            let id = held.record.id;
            let cached = |(cell, handles)| live.cache.rows((id, epoch, cell), handles);
            let found: Vec<Vec<Option<Arc<[i32]>>>> = candidates.iter().map(cached).collect();
            (view, held, found)
        };
        let missing = found.iter().flatten().filter(|row| row.is_none()).count();
        add(&self.counters.cache_hits, candidates.rows() - missing);
        add(&self.counters.cache_misses, missing);
        if missing > 0 {
            let loaded = guarded(view.database().condition(), "read rows", || {
                load(&view, &held, epoch, candidates, &mut found)
            })?;
            add(&self.counters.disk_rows_read, missing);
            self.keep(collection, &held, epoch, loaded);
        }
        let present = |row: Option<Arc<[i32]>>| row.expect("loaded, or an error above");
        let rows = found.into_iter().map(|cell| cell.into_iter().map(present).collect()).collect();
        Ok(Fetched { width: held.searched(epoch)?.width, rows })
    }

    /// Takes loaded rows into the cache, unless their collection has changed since.
    fn keep(
        &self,
        collection: &CollectionName,
        held: &CatalogueEntry,
        epoch: Epoch,
        loaded: Vec<Loaded>,
    ) {
        let mut live = self.live();
        let now = live.view.catalogue.0.get(collection);
        let same = |now: &Arc<CatalogueEntry>| {
            now.record.id == held.record.id && now.changed == held.changed
        };
        if !now.is_some_and(same) {
            return;
        }
        for (cell, rows) in loaded {
            live.cache.insert((held.record.id, epoch, cell), rows);
        }
        live.cache.trim();
    }
}

/// Rows of a cell that were read from the file.
type Loaded = (CellHandle, Vec<(RowHandle, Arc<[i32]>)>);

/// Reads what is missing, row by row, and returns it by cell.
fn load(
    view: &View,
    held: &CatalogueEntry,
    epoch: Epoch,
    candidates: &Candidates,
    found: &mut [Vec<Option<Arc<[i32]>>>],
) -> Result<Vec<Loaded>, StoreError> {
    let (id, width) = (held.record.id, held.searched(epoch)?.width);
    let mut loaded = Vec::new();
    for ((cell, handles), rows) in candidates.iter().zip(found) {
        let mut new = Vec::new();
        for (&handle, row) in handles.iter().zip(rows).filter(|(_, row)| row.is_none()) {
            let key = id.row(epoch, cell, handle);
            let read = view.read(Table::Rows, &key, |body| decode_row(body, width));
            let read = read.map_err(|error| match error {
                StoreError::Damaged { .. } => damaged_row(epoch, cell, handle),
                other => other,
            })?;
            let coordinates = match read {
                Some(coordinates) => coordinates,
                None => return Err(absent(view, held, epoch, cell, handle)?),
            };
            new.push((handle, coordinates.clone()));
            *row = Some(coordinates);
        }
        if !new.is_empty() {
            loaded.push((cell, new));
        }
    }
    Ok(loaded)
}

/// What a row that cannot be read is reported as.
fn damaged_row(epoch: Epoch, cell: CellHandle, handle: RowHandle) -> StoreError {
    StoreError::Damaged { what: format!("row {handle} in cell {cell} of epoch {epoch}") }
}

/// Why a row is not there.
fn absent(
    view: &View,
    held: &CatalogueEntry,
    epoch: Epoch,
    cell: CellHandle,
    handle: RowHandle,
) -> Result<StoreError, StoreError> {
    let key = held.record.id.named(epoch, handle);
    if let Some(revision) = view.read(Table::Tombstones, &key, decode_word)? {
        return Ok(StoreError::Deleted { handle, revision: Revision(revision) });
    }
    let name = view.read(Table::Names, &key, NameRecord::decode)?;
    Ok(if name.is_some_and(|name| name.cell == cell) {
        // Every name has its row: the row's own key is damaged.
        damaged_row(epoch, cell, handle)
    } else {
        StoreError::UnknownRow { cell, handle }
    })
}
