//! Damage: which collections it was noticed in, and a new row file without the damaged one.
//!
//! A server has one row file for all collections. Where one of them is damaged, everything that can
//! be read of the others goes into a new file, and the old one is set aside under another name:
//! nothing that could still be recovered from it is lost.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};

use redb::WriteTransaction;
use shard_protocol::{CollectionName, CommitName};

use super::cache::Stale;
use super::catalogue::{Catalogue, CatalogueEntry};
use super::copy::{Leftovers, write_state};
use super::database::{RowDatabase, View, damaged_pages, failed, guarded};
use super::directory::{self, Directory};
use super::key::{CollectionId, Table};
use super::{RedbRows, Writer};
use crate::StoreError;
use crate::rules::Rules;

const SALVAGING: &str = "set damaged rows aside";
/// Bytes of memory for pages while a file is copied.
const CACHE: usize = 64 << 20;

/// Tables of a collection's rows, and of its blobs.
const ROWS: [Table; 4] = [Table::Rows, Table::Names, Table::Tombstones, Table::Epochs];
const BLOBS: [Table; 2] = [Table::Blobs, Table::Lengths];

/// What was noticed to be damaged, in words, by collection.
pub(super) type Noticed = BTreeMap<CollectionName, String>;

impl RedbRows {
    pub(super) fn noticed(&self) -> MutexGuard<'_, Noticed> {
        self.noticed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known to be damaged of a collection.
    pub(super) fn damage(&self, collection: &CollectionName) -> Option<String> {
        let view = self.view();
        let entry = view.catalogue.0.get(collection).and_then(|held| held.damage.clone());
        entry.or_else(|| self.noticed().get(collection).cloned())
    }

    /// Works on a collection's rows and remembers damage that shows. Where pages are damaged, it is
    /// not tried again: redb must open the file anew after each such error, and all collections wait.
    pub(super) fn noticing<T>(
        &self,
        collection: &CollectionName,
        work: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let known = self.noticed().get(collection).cloned();
        if let Some(what) = known {
            let known = StoreError::Damaged { what };
            if known == damaged_pages() {
                return Err(known);
            }
        }
        let outcome = work();
        if let Err(StoreError::Damaged { what }) = &outcome {
            tracing::error!(%collection, what, "damaged rows");
            self.noticed().entry(collection.clone()).or_insert_with(|| what.clone());
        }
        outcome
    }

    /// Puts everything but the rows of a collection into a new row file, if its commit is `from` or
    /// not known any more. The old file is kept under another name.
    pub(super) fn reset_damaged(
        &self,
        collection: &CollectionName,
        from: Option<CommitName>,
    ) -> Result<(), StoreError> {
        self.salvage(|catalogue| {
            let Some(held) = catalogue.0.get(collection) else { return Ok(None) };
            if held.is_numbered() {
                held.refuse_forked(from)?;
            }
            let mut empty = CatalogueEntry::new(held.record.id);
            empty.record.lineage = held.record.lineage.forgotten();
            Ok(Some((collection.clone(), Some(empty))))
        })
    }

    /// The same, and forgets the collection with its blobs.
    pub(super) fn drop_damaged(&self, collection: &CollectionName) -> Result<(), StoreError> {
        self.salvage(|_| Ok(Some((collection.clone(), None))))
    }

    /// Rewrites the row file with one collection replaced; `decide` says which and by what.
    fn salvage(
        &self,
        decide: impl FnOnce(
            &Catalogue,
        )
            -> Result<Option<(CollectionName, Option<CatalogueEntry>)>, StoreError>,
    ) -> Result<(), StoreError> {
        let _alone = match self.compacting.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let reason = "a compaction is under way: try again when it is done".to_owned();
                return Err(StoreError::Engine { doing: SALVAGING, reason });
            }
        };
        let mut writer = self.writer();
        if self.view().database().has_failed() {
            self.reopen_if_failed(&mut writer);
        }
        let view = self.view();
        let Some((name, replacement)) = decide(&view.catalogue)? else { return Ok(()) };
        let generation = writer.generation + 1;
        let path = directory::row_file(self.directory.path(), generation);
        let outcome = self.rewrite_without(&mut writer, &view, &name, replacement, &path);
        if outcome.is_err() && writer.generation != generation {
            // Best effort: whatever is left is removed when the directory is opened.
            let _ = fs::remove_file(directory::partial(&path));
            let _ = fs::remove_file(&path);
        }
        outcome
    }

    fn rewrite_without(
        &self,
        writer: &mut Writer,
        view: &View,
        name: &CollectionName,
        replacement: Option<CatalogueEntry>,
        path: &Path,
    ) -> Result<(), StoreError> {
        let new = directory::partial(path);
        let condition = self.options.condition();
        let target = RowDatabase::create(&new, self.options.redb_cache_bytes, condition)?;
        let mut state = Leftovers::default().state(view);
        state.sequence += 1;
        let mut catalogue = Catalogue::default();
        let mut incomplete = Noticed::new();
        let transaction = target.begin_write(SALVAGING)?;
        let mut source = Source::new(self.row_file(writer))?;
        for (other, held) in view.catalogue.0.iter().filter(|(other, _)| *other != name) {
            for table in ROWS.into_iter().chain(BLOBS) {
                match copy_of(source.view()?, &transaction, table, held) {
                    Ok(()) => {}
                    Err(StoreError::Damaged { .. }) => {
                        incomplete.insert(other.clone(), format!("the table {}", table.name()));
                    }
                    Err(error) => return Err(target.explain(error)),
                }
            }
            copy_record(source.view()?, &transaction, other)?;
            catalogue.0.insert(other.clone(), held.clone());
        }
        if let Some(mut entry) = replacement {
            entry.record.blobs = blobs_of(source.view()?, &transaction, &entry)?;
            if !entry.is_numbered() {
                entry.record.id = CollectionId(state.next_collection);
                state.next_collection += 1;
            }
            entry.changed = state.sequence;
            insert(&transaction, Table::Collections, name, &entry)?;
            catalogue.0.insert(name.clone(), Arc::new(entry));
        }
        write_state(&transaction, state)?;
        target.commit(transaction, SALVAGING).map_err(|error| target.explain(error))?;
        let next = View::new(Arc::new(target), state, catalogue)?;
        self.directory.adopt(&new, path)?;
        // What a compaction knew of the old file is no longer true.
        writer.recording = None;
        let old = self.row_file(writer);
        let kept = self.directory.aside(writer.generation);
        let stale: Vec<Stale> = view.catalogue.0.get(name).map_or_else(Vec::new, |held| {
            held.epochs.keys().map(|&epoch| Stale::Epoch(held.record.id, epoch)).collect()
        });
        self.switch(writer, next, view, writer.generation + 1, Some((&old, &kept)))?;
        self.live().cache.remove(&stale);
        let mut noticed = self.noticed();
        noticed.remove(name);
        noticed.extend(incomplete);
        tracing::warn!(collection = %name, kept = %kept.display(), "damaged rows were set aside");
        Ok(())
    }

    /// Sets the row file of a directory aside whose server cannot open it, and begins with an empty
    /// one: every vault has to be published again. Returns where the old file is.
    ///
    /// # Errors
    /// When a server is running on the directory, there is no row file in it, or the disk refuses.
    pub fn begin_anew(directory: &Path) -> Result<PathBuf, StoreError> {
        let locked = Directory::open(directory)?;
        let Some(generation) = locked.current()? else {
            return Err(directory::without_rows(directory));
        };
        let path = directory::row_file(directory, generation + 1);
        let new = directory::partial(&path);
        locked.sweep(Some(generation))?;
        drop(RowDatabase::create(&new, 0, super::backend::Condition::default())?);
        locked.adopt(&new, &path)?;
        locked.switch(generation + 1)?;
        locked.sync()?;
        let kept = locked.aside(generation);
        locked.adopt(&directory::row_file(directory, generation), &kept)?;
        Ok(kept)
    }
}

/// A damaged row file, opened to read, and anew whenever damage has ended redb's work on it.
struct Source {
    path: PathBuf,
    view: View,
}

impl Source {
    fn new(path: PathBuf) -> Result<Self, StoreError> {
        let view = Self::open(&path)?;
        Ok(Self { path, view })
    }

    fn open(path: &Path) -> Result<View, StoreError> {
        View::open(Arc::new(RowDatabase::open_read_only(path, CACHE)?))
    }

    fn view(&mut self) -> Result<&View, StoreError> {
        if self.view.database().has_failed() {
            self.view = Self::open(&self.path)?;
        }
        Ok(&self.view)
    }
}

/// Copies what a table has of a collection, as it is: a record that is damaged stays so.
fn copy_of(
    view: &View,
    transaction: &WriteTransaction,
    table: Table,
    held: &CatalogueEntry,
) -> Result<(), StoreError> {
    let mut copy = transaction.open_table(table.definition()).map_err(failed(SALVAGING))?;
    if !held.is_numbered() {
        return Ok(());
    }
    guarded(view.database().condition(), SALVAGING, || {
        view.scan(table, &held.record.id.prefix(), Bound::Unbounded, |key, record| {
            copy.insert(key, record).map_err(failed(SALVAGING))?;
            Ok(true)
        })
    })
}

/// Copies the record of a collection, as it is.
fn copy_record(
    view: &View,
    transaction: &WriteTransaction,
    name: &CollectionName,
) -> Result<(), StoreError> {
    let key = name.as_str().as_bytes();
    if let Some(record) = view.raw(Table::Collections, key)? {
        let copy = transaction.open_table(Table::Collections.definition());
        let mut copy = copy.map_err(failed(SALVAGING))?;
        copy.insert(key, record.as_slice()).map_err(failed(SALVAGING))?;
    }
    Ok(())
}

/// Copies the blobs of a collection that are whole; returns how many.
fn blobs_of(
    view: &View,
    transaction: &WriteTransaction,
    held: &CatalogueEntry,
) -> Result<u64, StoreError> {
    if !held.is_numbered() {
        return Ok(0);
    }
    let open = |table: Table| transaction.open_table(table.definition());
    let mut blobs = open(Table::Blobs).map_err(failed(SALVAGING))?;
    let mut lengths = open(Table::Lengths).map_err(failed(SALVAGING))?;
    let mut count = 0;
    let copied = guarded(view.database().condition(), SALVAGING, || {
        view.scan(Table::Blobs, &held.record.id.prefix(), Bound::Unbounded, |key, record| {
            let Ok(body) = Table::Blobs.unseal(key, record) else { return Ok(true) };
            let length = Table::Lengths.seal(key, (body.len() as u64).to_le_bytes().to_vec());
            blobs.insert(key, record).map_err(failed(SALVAGING))?;
            lengths.insert(key, length.as_slice()).map_err(failed(SALVAGING))?;
            count += 1;
            Ok(true)
        })
    });
    match copied {
        // Those before the damage are there; the others are in the file that is set aside.
        Ok(()) | Err(StoreError::Damaged { .. }) => Ok(count),
        Err(error) => Err(error),
    }
}

fn insert(
    transaction: &WriteTransaction,
    table: Table,
    name: &CollectionName,
    entry: &CatalogueEntry,
) -> Result<(), StoreError> {
    let key = name.as_str().as_bytes();
    let mut records = transaction.open_table(table.definition()).map_err(failed(SALVAGING))?;
    let record = table.seal(key, entry.record.encode());
    records.insert(key, record.as_slice()).map_err(failed(SALVAGING))?;
    Ok(())
}
