//! Rows in memory, under a budget of bytes.
//!
//! What is here is never believed, since other processes may change rows: a fetch asks for the version of
//! every row in one statement, and for the coordinates of those alone that are not here in that version.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    hits: AtomicU64,
    misses: AtomicU64,
}

impl RowCache {
    pub(super) fn new(bytes: usize) -> Self {
        let rows = Cache::with_weighter(ROWS, bytes as u64, ByBytes);
        Self { rows, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    pub(super) fn find(&self, key: &RowKey) -> Option<Row> {
        let found = self.rows.get(key);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    pub(super) fn keep(&self, key: RowKey, version: Version, coordinates: Arc<[i32]>) {
        self.rows.insert(key, (version, coordinates));
    }

    /// Hits, misses, bytes.
    pub(super) fn figures(&self) -> [u64; 3] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [read(&self.hits), read(&self.misses), self.rows.weight()]
    }
}
