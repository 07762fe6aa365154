//! Rows on disk, in one redb file.
//!
//! [`RedbRows`] is the engine of a server: every change is one transaction that is on disk when
//! the call returns, and opening after a crash takes no longer than opening. It is not a shared
//! engine: one process has a directory open.
//!
//! # How reads and writes meet
//!
//! Readers work on a [`View`]: the file at the moment of one commit. A writer, one at a time,
//! commits and then publishes the next view together with what it makes stale in the cache,
//! under one lock; so whoever takes the newest view finds only rows of that view in the cache.
//! A row that was read through an older view enters the cache only while nothing has changed in
//! its collection.
//!
//! # After an error of the disk
//!
//! redb works no more on a file that had an error. The engine then opens the file anew behind its
//! readers; where it cannot be opened to write, it is opened to read. The commit number in the
//! file tells whether a commit that had reported an error took place. Only when the last sync of
//! a commit fails, and every write after it as well, may a change be there that was reported as
//! failed; repeating it does no harm.
//!
//! `key` and `record` have the bytes, `directory` the files, `database` and `backend` redb,
//! `catalogue` and `cache` what is in memory, `draft`, `steps` and `change` one change, `operations`
//! and `fetch` the trait, `copy`, `compact` and `snapshot` whole copies, `verify` the check, `salvage`
//! what is done about damage.

mod backend;
mod cache;
mod catalogue;
mod change;
mod compact;
mod copy;
mod database;
mod directory;
mod draft;
#[cfg(test)]
mod faults;
mod fetch;
mod key;
mod metrics;
mod operations;
mod record;
mod salvage;
mod snapshot;
mod steps;
#[cfg(test)]
mod tests;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backend::Condition;
use cache::Cache;
use database::{RowDatabase, View};
use directory::Directory;
use draft::Touched;
use metrics::{Counters, value};

pub use compact::Compaction;
pub use metrics::StoreMetrics;
pub use snapshot::Snapshot;
pub use verify::{Verification, verify};

use crate::StoreError;

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes of memory for rows that are ready to be scored.
    pub cache_bytes: usize,
    /// Bytes of memory for pages of the row file.
    pub redb_cache_bytes: usize,
    #[cfg(test)]
    pub(crate) faults: faults::Faults,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            redb_cache_bytes: 64 << 20,
            #[cfg(test)]
            faults: faults::Faults::default(),
        }
    }
}

impl StoreOptions {
    fn condition(&self) -> Condition {
        #[cfg(test)]
        return Condition::with(self.faults.clone());
        #[cfg(not(test))]
        Condition::default()
    }
}

/// Rows in a directory on disk.
pub struct RedbRows {
    options: StoreOptions,
    counters: Counters,
    /// Held by whoever changes something, from before its transaction to after its publication.
    writer: Mutex<Writer>,
    /// Held by a compaction from its beginning to its end.
    compacting: Mutex<()>,
    /// Held for moments: to take the newest view with rows of the cache, and to publish.
    live: Mutex<Live>,
    /// Damage that showed since the engine was opened.
    noticed: Mutex<salvage::Noticed>,
    /// Unlocked last.
    directory: Directory,
}

struct Writer {
    generation: u64,
    /// What changed since a compaction that is under way has looked.
    recording: Option<Touched>,
    /// Whether the directory must be synced before anything is acknowledged.
    unsynced: bool,
}

struct Live {
    view: Arc<View>,
    cache: Cache,
}

impl RedbRows {
    /// Opens a server's directory, or makes one.
    pub fn open(directory: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let directory = Directory::open(directory)?;
        let current = directory.current()?;
        directory.sweep(current)?;
        let (generation, cache) = (current.unwrap_or(1), options.redb_cache_bytes);
        let path = directory::row_file(directory.path(), generation);
        let database = match current {
            Some(_) => {
                RowDatabase::open(&path, cache, options.condition()).map_err(unusable(&path))?
            }
            None => {
                let new = directory::partial(&path);
                let database = RowDatabase::create(&new, cache, options.condition())?;
                directory.adopt(&new, &path)?;
                database
            }
        };
        if !directory.is_named() {
            directory.switch(generation)?;
            directory.sync()?;
        }
        let view = Arc::new(View::open(Arc::new(database)).map_err(unusable(&path))?);
        let live = Live { view, cache: Cache::new(options.cache_bytes) };
        Ok(Self {
            options,
            counters: Counters::default(),
            writer: Mutex::new(Writer { generation, recording: None, unsynced: false }),
            compacting: Mutex::new(()),
            live: Mutex::new(live),
            noticed: Mutex::default(),
            directory,
        })
    }

    /// Opens a directory that holds rows already, and makes nothing.
    pub fn open_existing(directory: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        match directory::current(directory)? {
            Some(_) => Self::open(directory, options),
            None => Err(directory::without_rows(directory)),
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What the engine has done since it was opened, and what it holds.
    pub fn metrics(&self) -> StoreMetrics {
        let (view, cache_bytes) = {
            let live = self.live();
            (live.view.clone(), live.cache.bytes() as u64)
        };
        let counters = &self.counters;
        StoreMetrics {
            cache_hits: value(&counters.cache_hits),
            cache_misses: value(&counters.cache_misses),
            cache_bytes,
            disk_rows_read: value(&counters.disk_rows_read),
            commits: value(&counters.commits),
            compactions: value(&counters.compactions),
            reopened: value(&counters.reopened),
            rows: view.catalogue.rows(),
            erasable_rows: view.state.erasable_rows,
            erasable_bytes: view.state.erasable_bytes,
            file_bytes: self.file_bytes(),
        }
    }

    fn row_file(&self, writer: &Writer) -> PathBuf {
        directory::row_file(self.directory.path(), writer.generation)
    }

    fn file_bytes(&self) -> u64 {
        let current = self.directory.current().ok().flatten();
        let path = current.map(|number| directory::row_file(self.directory.path(), number));
        path.and_then(|path| directory::disk_bytes(&path).ok()).unwrap_or(0)
    }

    // A panic while one of these is held leaves them as they were or as they were to become:
    // each is changed by plain assignments at the end of a step.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> Arc<View> {
        self.live().view.clone()
    }
}

/// Why a directory cannot be served, and what there is to do.
fn unusable(path: &Path) -> impl Fn(StoreError) -> StoreError {
    move |error| {
        let reason = match error {
            StoreError::Engine { reason, .. } => reason,
            StoreError::Damaged { what } => what,
            other => other.to_string(),
        };
        let path = path.display();
        let reason = format!(
            "{path}: {reason}; if the file is damaged, restore a snapshot, or set it aside and have \
             every vault published again"
        );
        StoreError::Engine { doing: "open the row file", reason }
    }
}

impl std::fmt::Debug for RedbRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedbRows").field("directory", &self.directory.path()).finish()
    }
}
