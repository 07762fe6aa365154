//! The engine on disk: under the tests of every engine, and under its own.

mod blocks;
mod caching;
mod concurrency;
mod damage;
mod erasure;
mod interleavings;
mod killing;
mod opening;
mod publishers;
mod snapshots;
mod support;

use std::ops::Deref;

use shard_store::{RedbRows, RowStore, StoreOptions};
use tempfile::TempDir;

/// An engine in a directory of its own.
struct Fresh {
    rows: RedbRows,
    _directory: TempDir,
}

impl Fresh {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let rows = RedbRows::open(directory.path(), StoreOptions::default()).unwrap();
        Self { rows, _directory: directory }
    }
}

impl Deref for Fresh {
    type Target = dyn RowStore;

    fn deref(&self) -> &Self::Target {
        &self.rows
    }
}

shard_store::conformance_suite!(*Fresh::new());
