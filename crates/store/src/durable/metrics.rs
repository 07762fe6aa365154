//! What the engine has done, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the engine has done since it was opened, and what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StoreMetrics {
    /// Rows that fetches found in memory.
    pub cache_hits: u64,
    /// Rows that fetches did not find in memory.
    pub cache_misses: u64,
    /// Bytes of the rows in memory, with what it takes to find them.
    pub cache_bytes: u64,
    /// Rows that fetches read from the row file.
    pub disk_rows_read: u64,
    /// Changes that were committed.
    pub commits: u64,
    /// Compactions that were completed.
    pub compactions: u64,
    /// How often the row file was opened anew after an error.
    pub reopened: u64,
    /// Rows held, over all collections and epochs.
    pub rows: u64,
    /// Rows deleted or replaced since the last compaction.
    pub erasable_rows: u64,
    /// Bytes of deleted or replaced rows and blobs that the file may still hold.
    pub erasable_bytes: u64,
    /// Bytes that the row file takes on the disk.
    pub file_bytes: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub cache_hits: AtomicU64,
    pub cache_misses: AtomicU64,
    pub disk_rows_read: AtomicU64,
    pub commits: AtomicU64,
    pub compactions: AtomicU64,
    pub reopened: AtomicU64,
}

/// Adds to a counter. Counters order nothing.
pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

/// The value of a counter.
pub(super) fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
