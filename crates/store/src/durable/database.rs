//! A row file as redb has it open, and one moment of it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use redb::{Builder, Database, ReadOnlyTable, ReadableDatabase, StorageBackend, WriteTransaction};
use shard_protocol::Epoch;

use super::backend::{Condition, Overlay, RowFile};
use super::catalogue::{Catalogue, CatalogueEntry};
use super::directory::private_file;
use super::key::{CollectionId, STATE_KEY, Table, after_prefix, collection_name, damaged, words};
use super::record::{CollectionRecord, EpochRecord, State};
use crate::StoreError;

const READING: &str = "read the row file";
const OPENING: &str = "open the row file";

/// What redb and the disk say, as an error of the store.
pub(super) fn failed<E: Into<redb::Error>>(doing: &'static str) -> impl Fn(E) -> StoreError {
    move |error| match error.into() {
        redb::Error::Corrupted(_) => damaged_pages(),
        error => StoreError::Engine { doing, reason: error.to_string() },
    }
}

/// What damaged pages are reported as.
pub(super) fn damaged_pages() -> StoreError {
    StoreError::Damaged { what: "pages of the row file".to_owned() }
}

/// What the disk says, as an error of the store.
pub(super) fn disk(doing: &'static str, path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |error| StoreError::Engine { doing, reason: format!("{}: {error}", path.display()) }
}

/// Runs what reads a file that may be damaged. redb trusts its pages once they are open and may
/// panic on one that is not what it should be; that is a damaged file, not the end of a server.
pub(super) fn guarded<T>(
    condition: &Condition,
    doing: &'static str,
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        condition.fail("the row file is damaged");
        tracing::error!(doing, "the row file is damaged");
        Err(damaged_pages())
    })
}

/// A row file, open.
pub(super) struct RowDatabase {
    /// There until it is dropped.
    redb: Option<Database>,
    condition: Arc<Condition>,
    writable: bool,
}

impl RowDatabase {
    /// Makes a file with empty tables.
    pub(super) fn create(
        path: &Path,
        cache: usize,
        condition: Condition,
    ) -> Result<Self, StoreError> {
        let doing = "make a row file";
        let new = private_file().read(true).create_new(true).open(path);
        let database = Self::over_file(new.map_err(disk(doing, path))?, cache, condition, doing)?;
        let transaction = database.begin_write(doing)?;
        for table in Table::ALL {
            let mut table = transaction.open_table(table.definition()).map_err(failed(doing))?;
            if Table::State.name() == redb::TableHandle::name(&table) {
                let record = Table::State.seal(STATE_KEY, State::default().encode());
                table.insert(STATE_KEY, record.as_slice()).map_err(failed(doing))?;
            }
        }
        database.commit(transaction, doing)?;
        Ok(database)
    }

    /// Opens a file to read and write.
    pub(super) fn open(
        path: &Path,
        cache: usize,
        condition: Condition,
    ) -> Result<Self, StoreError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Self::over_file(file.map_err(disk(OPENING, path))?, cache, condition, OPENING)
    }

    /// Opens a file to read; what redb writes while it does so stays in memory.
    pub(super) fn open_read_only(path: &Path, cache: usize) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(disk(OPENING, path))?;
        let overlay = Overlay::new(file).map_err(failed(OPENING))?;
        Self::over(overlay, cache, Arc::default(), false, OPENING)
    }

    fn over_file(
        file: File,
        cache: usize,
        condition: Condition,
        doing: &'static str,
    ) -> Result<Self, StoreError> {
        let condition = Arc::new(condition);
        let file = RowFile::new(file, condition.clone()).map_err(failed(doing))?;
        Self::over(file, cache, condition, true, doing)
    }

    fn over(
        backend: impl StorageBackend,
        cache: usize,
        condition: Arc<Condition>,
        writable: bool,
        doing: &'static str,
    ) -> Result<Self, StoreError> {
        let redb = guarded(&condition, doing, || {
            let opened = Builder::new().set_cache_size(cache).create_with_backend(backend);
            opened.map_err(failed(doing))
        })?;
        Ok(Self { redb: Some(redb), condition, writable })
    }

    fn redb(&self) -> &Database {
        self.redb.as_ref().expect("there until it is dropped")
    }

    /// Whether this handle can write: it was opened to, and no error has come up since.
    pub(super) fn is_writable(&self) -> bool {
        self.writable && !self.has_failed()
    }

    /// Whether an error came up: redb then refuses all work until the file is opened anew.
    pub(super) fn has_failed(&self) -> bool {
        self.condition.failure().is_some()
    }

    pub(super) fn condition(&self) -> &Condition {
        &self.condition
    }

    /// The error, in the words of the disk where it has said something.
    pub(super) fn explain(&self, error: StoreError) -> StoreError {
        match (error, self.condition.failure()) {
            (StoreError::Engine { doing, .. }, Some(reason)) => {
                StoreError::Engine { doing, reason: reason.to_owned() }
            }
            (error, _) => error,
        }
    }

    pub(super) fn begin_write(&self, doing: &'static str) -> Result<WriteTransaction, StoreError> {
        let mut transaction = self.redb().begin_write().map_err(failed(doing))?;
        // Commits in two phases and saves what redb would otherwise rebuild by walking the whole
        // file: opening after a crash takes as long as opening at any other time.
        transaction.set_quick_repair(true);
        Ok(transaction)
    }

    /// Commits; once it has returned `Ok` the change is on disk.
    pub(super) fn commit(
        &self,
        transaction: WriteTransaction,
        doing: &'static str,
    ) -> Result<(), StoreError> {
        guarded(&self.condition, doing, || transaction.commit().map_err(failed(doing)))
    }

    /// redb's own check of every page; repairs what it can.
    pub(super) fn check_integrity(&mut self) -> Result<bool, StoreError> {
        let Self { redb, condition, .. } = self;
        let redb = redb.as_mut().expect("there until it is dropped");
        let doing = "check the row file";
        guarded(condition, doing, || redb.check_integrity().map_err(failed(doing)))
    }
}

// On a damaged file redb may panic in what it does when it is closed, too.
impl Drop for RowDatabase {
    fn drop(&mut self) {
        let redb = self.redb.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(redb)));
    }
}

/// A row file at one moment, whatever is written after it.
pub(super) struct View {
    pub state: State,
    pub catalogue: Catalogue,
    tables: Vec<ReadOnlyTable<&'static [u8], &'static [u8]>>,
    /// Dropped after the tables that read through it.
    database: Arc<RowDatabase>,
}

impl View {
    /// The last commit, with its catalogue read from the file.
    pub(super) fn open(database: Arc<RowDatabase>) -> Result<Self, StoreError> {
        let condition = database.condition.clone();
        guarded(&condition, READING, || {
            let mut view = Self::new(database, State::default(), Catalogue::default())?;
            let state = view.read(Table::State, STATE_KEY, State::decode)?;
            view.state = state.ok_or_else(|| damaged(Table::State))?;
            view.catalogue = view.read_catalogue()?;
            Ok(view)
        })
    }

    /// The last commit, of which state and catalogue are known.
    pub(super) fn new(
        database: Arc<RowDatabase>,
        state: State,
        catalogue: Catalogue,
    ) -> Result<Self, StoreError> {
        let transaction = database.redb().begin_read().map_err(failed(READING))?;
        let open = |table: Table| transaction.open_table(table.definition());
        let tables: Result<_, redb::TableError> = Table::ALL.into_iter().map(open).collect();
        Ok(Self { state, catalogue, tables: tables.map_err(failed(READING))?, database })
    }

    pub(super) fn database(&self) -> &Arc<RowDatabase> {
        &self.database
    }

    /// What `decode` makes of the record under a key, if there is one.
    pub(super) fn read<T>(
        &self,
        table: Table,
        key: &[u8],
        decode: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let Some(record) = self.tables[table as usize].get(key).map_err(failed(READING))? else {
            return Ok(None);
        };
        let body = table.unseal(key, record.value())?;
        decode(body).map(Some).ok_or_else(|| damaged(table))
    }

    /// The record under a key as it lies in the file, unchecked.
    pub(super) fn raw(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let record = self.tables[table as usize].get(key).map_err(failed(READING))?;
        Ok(record.map(|record| record.value().to_vec()))
    }

    /// Calls `visit` with every key and record from `from` on whose key begins with a prefix, in
    /// order and unchecked, until it returns `false`.
    pub(super) fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let end = after_prefix(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let from = if from == Bound::Unbounded { Bound::Included(prefix) } else { from };
        // A page that begins behind the last key of the prefix is empty, not a mistake.
        if let (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end)) = (from, end)
            && start >= end
        {
            return Ok(());
        }
        let table = &self.tables[table as usize];
        for entry in table.range::<&[u8]>((from, end)).map_err(failed(READING))? {
            let (key, record) = entry.map_err(failed(READING))?;
            if !visit(key.value(), record.value())? {
                break;
            }
        }
        Ok(())
    }

    fn read_catalogue(&self) -> Result<Catalogue, StoreError> {
        let mut catalogue = Catalogue::default();
        self.scan(Table::Collections, &[], Bound::Unbounded, |key, record| {
            let name = collection_name(key).ok_or_else(|| damaged(Table::Collections))?;
            let record = Table::Collections.unseal(key, record).ok();
            let Some(record) = record.and_then(CollectionRecord::decode) else {
                // The others can be served.
                let what = "its record, and so which state was published last";
                catalogue.0.insert(name, Arc::new(CatalogueEntry::lost(what)));
                return Ok(true);
            };
            let mut held = CatalogueEntry::new(record.id);
            held.record = record;
            // As good as any number that is not below the last change.
            held.changed = self.state.sequence;
            match self.read_epochs(held.record.id) {
                Ok(epochs) => held.epochs = epochs,
                Err(StoreError::Damaged { .. }) => {
                    held.damage = Some("the record of an epoch".to_owned());
                }
                Err(error) => return Err(error),
            }
            catalogue.0.insert(name, Arc::new(held));
            Ok(true)
        })?;
        Ok(catalogue)
    }

    fn read_epochs(&self, id: CollectionId) -> Result<BTreeMap<Epoch, EpochRecord>, StoreError> {
        let mut epochs = BTreeMap::new();
        self.scan(Table::Epochs, &id.prefix(), Bound::Unbounded, |key, record| {
            let body = Table::Epochs.unseal(key, record)?;
            let epoch = words(key).zip(EpochRecord::decode(body));
            let ([_, number], epoch) = epoch.ok_or_else(|| damaged(Table::Epochs))?;
            epochs.insert(Epoch(number), epoch);
            Ok(true)
        })?;
        Ok(epochs)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let tables = std::mem::take(&mut self.tables);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(tables)));
    }
}
