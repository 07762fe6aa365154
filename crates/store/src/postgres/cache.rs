//! Rows in memory, under a budget of bytes.
//!
//! What is here is never believed, since other processes may change rows: a fetch asks for the version of
//! every row in one statement, and for the coordinates of those alone that are not here in that version.
//! Rows that are gone are let go of where that is seen: those that are asked for or that this process deletes, and
//! those of an epoch that is not the current one when the collection is fetched from, described or changed. The
//! others stay until they are pushed out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use shard_protocol::{CollectionName, Epoch, RowHandle, RowMac};

/// A row of an epoch of a collection.
pub(super) type RowKey = (CollectionName, Epoch, RowHandle);

/// Which writing of a row it is: its MAC, and the number of the transaction that wrote it (`xmin`), which alone
/// would mean nothing in a database that was restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Version {
    pub(super) mac: RowMac,
    pub(super) written: i64,
}

/// Bytes that a row takes besides its coordinates: key with a name, version, counts, and its places in the cache's tables.
const ROW_BYTES: usize = 200;

/// Rows that the cache is laid out for: it holds more and fewer.
const ROWS: usize = 1 << 16;

#[derive(Clone)]
struct ByBytes;

impl Weighter<RowKey, Row> for ByBytes {
    fn weight(&self, _: &RowKey, row: &Row) -> u64 {
        (ROW_BYTES + size_of_val::<[i32]>(&row.1)) as u64
    }
}

type Row = (Version, Arc<[i32]>);

pub(super) struct RowCache {
    rows: Cache<RowKey, Row, ByBytes>,
    /// Of which epoch of each collection rows may be here.
    epochs: Mutex<HashMap<CollectionName, Epoch>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl RowCache {
    pub(super) fn new(bytes: usize) -> Self {
        let rows = Cache::with_weighter(ROWS, bytes as u64, ByBytes);
        let (epochs, zero) = (Mutex::default(), || AtomicU64::new(0));
        Self { rows, epochs, hits: zero(), misses: zero() }
    }

    pub(super) fn find(&self, key: &RowKey) -> Option<Row> {
        self.rows.get(key)
    }

    pub(super) fn keep(&self, key: RowKey, version: Version, coordinates: Arc<[i32]>) {
        self.rows.insert(key, (version, coordinates));
    }

    pub(super) fn remove(&self, key: &RowKey) {
        self.rows.remove(key);
    }

    /// Counts rows that were here as the database has them, and rows that were not.
    pub(super) fn count(&self, hits: u64, misses: u64) {
        self.hits.fetch_add(hits, Ordering::Relaxed);
        self.misses.fetch_add(misses, Ordering::Relaxed);
    }

    /// Rows of this epoch are here from now on, and of no other of the collection.
    pub(super) fn hold(&self, collection: &CollectionName, epoch: Epoch) {
        let before = self.epochs().insert(collection.clone(), epoch);
        if before.is_some_and(|before| before != epoch) {
            self.rows.retain(|key, _| key.0 != *collection || key.1 == epoch);
        }
    }

    /// Lets go of a collection's rows if they are of another epoch than the current one.
    pub(super) fn hold_only(&self, collection: &CollectionName, current: Option<Epoch>) {
        let mut epochs = self.epochs();
        if epochs.get(collection).is_none_or(|&held| Some(held) == current) {
            return;
        }
        epochs.remove(collection);
        drop(epochs);
        self.rows.retain(|key, _| key.0 != *collection);
    }

    fn epochs(&self) -> MutexGuard<'_, HashMap<CollectionName, Epoch>> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hits, misses, bytes.
    pub(super) fn figures(&self) -> [u64; 3] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [read(&self.hits), read(&self.misses), self.rows.weight()]
    }
}
