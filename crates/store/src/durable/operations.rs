//! The trait, on the row file.

use std::ops::Bound;

use shard_protocol::{
    Advance, BlobName, Candidates, CollectionName, CollectionState, CommitName, Epoch, RowBatch,
    RowHandle, RowMac,
};

use super::RedbRows;
use super::cache::Stale;
use super::catalogue::CatalogueEntry;
use super::database::{View, guarded};
use super::draft::Draft;
use super::key::{Table, blob_name, damaged, words};
use super::record::{EpochRecord, NameRecord, decode_word, encode_row, row_bytes};
use super::steps::{OF_ROWS, erase_epoch, erase_others, put_blob, put_epoch};
use crate::rules::Rules;
use crate::{EpochStatistics, Fetched, RowStore, StoreError};

impl RowStore for RedbRows {
    fn begin(&self, collection: &CollectionName, advance: &Advance) -> Result<(), StoreError> {
        self.change("begin a publish", |draft| {
            let mut held = draft.collection(collection)?;
            if !held.may_begin(advance)? {
                return Ok(());
            }
            held.record.lineage.begin(advance);
            draft.put_collection(collection, held)
        })
    }

    fn upsert(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        batch: RowBatch,
        macs: &[RowMac],
    ) -> Result<(), StoreError> {
        assert_eq!(macs.len(), batch.rows().len(), "a MAC for every row");
        let (number, width) = (batch.epoch(), batch.width());
        let work = |draft: &mut Draft<'_>| {
            let mut held = draft.collection(collection)?;
            held.may_upsert(advance, number, width)?;
            let known = held.epochs.get(&number).copied();
            let mut epoch = known.unwrap_or(EpochRecord { width, rows: 0, blocks: 0 });
            let id = held.record.id;
            for (row, &mac) in batch.rows().iter().zip(macs) {
                let (name, cell) = (id.named(number, row.handle), *row.cell);
                match draft.read(Table::Names, &name, NameRecord::decode)? {
                    Some(old) => {
                        draft.stale(Stale::Row((id, number, old.cell), row.handle));
                        draft.leave_row(row_bytes(width));
                        if old.cell != cell {
                            draft.remove(Table::Rows, &id.row(number, old.cell, row.handle))?;
                        }
                    }
                    None => {
                        epoch.rows += 1;
                        draft.remove(Table::Tombstones, &name)?;
                    }
                }
                draft.put(Table::Names, &name, NameRecord { cell, mac }.encode())?;
                let key = id.row(number, cell, row.handle);
                draft.put(Table::Rows, &key, encode_row(&row.coordinates))?;
            }
            put_epoch(draft, &mut held, number, epoch)?;
            held.record.lineage.begin(advance);
            draft.put_collection(collection, held)
        };
        self.noticing(collection, || self.change("store rows", work))
    }

    fn delete(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
        handles: &[RowHandle],
    ) -> Result<usize, StoreError> {
        let work = |draft: &mut Draft<'_>| {
            let mut held = CatalogueEntry::clone(draft.catalogue().known(collection)?);
            held.may_delete(advance, epoch)?;
            let (mut record, id) = (*held.epoch(epoch)?, held.record.id);
            let mut gone = 0;
            for &handle in handles {
                let name = id.named(epoch, handle);
                let Some(old) = draft.read(Table::Names, &name, NameRecord::decode)? else {
                    continue;
                };
                draft.remove(Table::Names, &name)?;
                draft.remove(Table::Rows, &id.row(epoch, old.cell, handle))?;
                draft.put(Table::Tombstones, &name, advance.revision.0.to_le_bytes().to_vec())?;
                draft.stale(Stale::Row((id, epoch, old.cell), handle));
                draft.leave_row(row_bytes(record.width));
                gone += 1;
            }
            record.rows -= gone as u64;
            put_epoch(draft, &mut held, epoch, record)?;
            held.record.lineage.begin(advance);
            draft.put_collection(collection, held)?;
            Ok(gone)
        };
        self.noticing(collection, || self.change("delete rows", work))
    }

    fn activate(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
    ) -> Result<(), StoreError> {
        let work = |draft: &mut Draft<'_>| {
            let mut held = CatalogueEntry::clone(draft.catalogue().known(collection)?);
            if !held.may_activate(advance, epoch)? {
                return Ok(());
            }
            erase_others(draft, &mut held, epoch)?;
            held.record.current = Some(epoch);
            held.record.lineage.reach(advance);
            draft.put_collection(collection, held)
        };
        self.noticing(collection, || self.change("activate an epoch", work))
    }

    fn activate_blocks(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
        width: usize,
        blocks: u64,
    ) -> Result<(), StoreError> {
        let work = |draft: &mut Draft<'_>| {
            let mut held = CatalogueEntry::clone(draft.catalogue().known(collection)?);
            if !held.may_activate_blocks(advance, epoch, width, blocks)? {
                return Ok(());
            }
            erase_others(draft, &mut held, epoch)?;
            put_epoch(draft, &mut held, epoch, EpochRecord { width, rows: 0, blocks })?;
            held.record.current = Some(epoch);
            held.record.lineage.reach(advance);
            draft.put_collection(collection, held)
        };
        self.noticing(collection, || self.change("activate an epoch", work))
    }

    fn reset(
        &self,
        collection: &CollectionName,
        from: Option<CommitName>,
    ) -> Result<(), StoreError> {
        if self.damage(collection).is_some() {
            return self.reset_damaged(collection, from);
        }
        self.change("reset a collection", |draft| {
            let Some(held) = draft.catalogue().0.get(collection).cloned() else { return Ok(()) };
            if !held.may_reset(from)? {
                return Ok(());
            }
            let id = held.record.id;
            held.epochs.keys().try_for_each(|&epoch| erase_epoch(draft, id, epoch))?;
            let mut empty = CatalogueEntry::new(id);
            empty.record.blobs = held.record.blobs;
            empty.record.lineage = held.record.lineage.forgotten();
            draft.put_collection(collection, empty)
        })
    }

    fn fetch(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        candidates: &Candidates,
    ) -> Result<Fetched, StoreError> {
        self.noticing(collection, || {
            self.reading(|| self.fetch_once(collection, epoch, candidates))
        })
    }

    fn macs(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        after: Option<RowHandle>,
        most: usize,
    ) -> Result<Vec<(RowHandle, RowMac)>, StoreError> {
        let list = |view: &View| {
            if !view.catalogue.0.contains_key(collection) {
                return Ok(Vec::new());
            }
            let held = view.catalogue.known(collection)?;
            let id = held.record.id;
            let last = after.map(|handle| id.named(epoch, handle));
            let from = last.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(&key[..]));
            let mut page = Vec::new();
            view.scan(Table::Names, &id.epoch(epoch), from, |key, record| {
                if page.len() == most {
                    return Ok(false);
                }
                let body = Table::Names.unseal(key, record)?;
                let entry = words(key).zip(NameRecord::decode(body));
                let ([_, _, handle], name) = entry.ok_or_else(|| damaged(Table::Names))?;
                page.push((RowHandle(handle), name.mac));
                Ok(true)
            })?;
            Ok(page)
        };
        self.noticing(collection, || self.viewing("list MACs", list))
    }

    fn statistics(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
    ) -> Result<EpochStatistics, StoreError> {
        let count = |view: &View| {
            let held = view.catalogue.known(collection)?;
            let record = held.epoch(epoch)?;
            let (mut rows, mut cells, mut last) = (0, 0, None);
            view.scan(Table::Rows, &held.record.id.epoch(epoch), Bound::Unbounded, |key, _| {
                let [_, _, cell, _] = words(key).ok_or_else(|| damaged(Table::Rows))?;
                rows += 1;
                cells += usize::from(last != Some(cell)); // rows of a cell lie side by side
                last = Some(cell);
                Ok(true)
            })?;
            Ok(EpochStatistics { rows, cells, width: record.width })
        };
        self.noticing(collection, || self.viewing("count rows", count))
    }

    fn describe(&self, collection: &CollectionName) -> Result<CollectionState, StoreError> {
        let view = self.view();
        let state = view.catalogue.0.get(collection).map(|held| held.state()).unwrap_or_default();
        Ok(CollectionState { damage: self.damage(collection), ..state })
    }

    fn collections(&self) -> Result<Vec<CollectionName>, StoreError> {
        Ok(self.view().catalogue.0.keys().cloned().collect())
    }

    fn drop_collection(&self, collection: &CollectionName) -> Result<bool, StoreError> {
        if self.damage(collection).is_some() {
            return self.drop_damaged(collection).map(|()| true);
        }
        self.change("drop a collection", |draft| {
            let Some(held) = draft.catalogue().0.get(collection).cloned() else {
                return Ok(false);
            };
            let prefix = held.record.id.prefix();
            let mut bytes = 0;
            for table in OF_ROWS.into_iter().chain([Table::Epochs, Table::Blobs, Table::Lengths]) {
                bytes += draft.remove_prefix(table, &prefix)?;
            }
            draft.remove_collection(collection)?;
            draft.leave_epoch(bytes);
            for &epoch in held.epochs.keys() {
                draft.stale(Stale::Epoch(held.record.id, epoch));
            }
            Ok(true)
        })
    }

    fn put_blob(
        &self,
        collection: &CollectionName,
        name: &BlobName,
        sealed: &[u8],
    ) -> Result<(), StoreError> {
        self.change("store a blob", |draft| {
            let mut held = draft.collection(collection)?;
            if put_blob(draft, &mut held, name, sealed)? {
                draft.put_collection(collection, held)?;
            }
            Ok(())
        })
    }

    fn put_blobs(
        &self,
        collection: &CollectionName,
        blobs: &[(BlobName, Vec<u8>)],
    ) -> Result<(), StoreError> {
        self.change("store blobs", |draft| {
            let mut held = draft.collection(collection)?;
            let mut changed = false;
            for (name, sealed) in blobs {
                changed |= put_blob(draft, &mut held, name, sealed)?;
            }
            if changed { draft.put_collection(collection, held) } else { Ok(()) }
        })
    }

    fn blob(&self, collection: &CollectionName, name: &BlobName) -> Result<Vec<u8>, StoreError> {
        self.viewing("read a blob", |view| {
            let key = view.catalogue.number(collection)?.blob(name);
            let blob = view.read(Table::Blobs, &key, |body| Some(body.to_vec()))?;
            blob.ok_or_else(|| StoreError::UnknownBlob(name.clone()))
        })
    }

    fn blobs(
        &self,
        collection: &CollectionName,
        after: Option<&BlobName>,
        most: usize,
    ) -> Result<Vec<(BlobName, u64)>, StoreError> {
        self.viewing("list blobs", |view| {
            let id = view.catalogue.number(collection)?;
            let last = after.map(|name| id.blob(name));
            let from = last.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(&key[..]));
            let mut list = Vec::new();
            view.scan(Table::Lengths, &id.prefix(), from, |key, record| {
                if list.len() == most {
                    return Ok(false);
                }
                let body = Table::Lengths.unseal(key, record)?;
                let entry = blob_name(key).zip(decode_word(body));
                let ((_, name), length) = entry.ok_or_else(|| damaged(Table::Lengths))?;
                list.push((name, length));
                Ok(true)
            })?;
            Ok(list)
        })
    }

    fn delete_blob(
        &self,
        collection: &CollectionName,
        name: &BlobName,
    ) -> Result<bool, StoreError> {
        self.change("delete a blob", |draft| {
            let mut held = CatalogueEntry::clone(draft.catalogue().known(collection)?);
            let key = held.record.id.blob(name);
            let Some(bytes) = draft.remove(Table::Blobs, &key)? else { return Ok(false) };
            draft.remove(Table::Lengths, &key)?;
            draft.leave_bytes(bytes);
            held.record.blobs = held.record.blobs.saturating_sub(1);
            draft.put_collection(collection, held)?;
            Ok(true)
        })
    }
}

impl RedbRows {
    /// Reads from the newest view.
    fn viewing<T>(
        &self,
        doing: &'static str,
        read: impl Fn(&View) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.reading(|| {
            let view = self.view();
            guarded(view.database().condition(), doing, || read(&view))
        })
    }
}
