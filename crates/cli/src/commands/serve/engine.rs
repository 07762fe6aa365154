//! The engine behind `shard serve`: the one place that names it.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use shard_server::Maintenance;
use shard_store::{RedbRows, RowStore, StoreOptions};

/// Rows, and what keeps them in order.
pub struct Engine {
    pub rows: Arc<dyn RowStore>,
    pub maintenance: Arc<dyn Maintenance>,
}

/// Opens the engine of a server's directory.
pub fn open(directory: &Path, cache_bytes: usize) -> Result<Engine> {
    let options = StoreOptions { cache_bytes, ..StoreOptions::default() };
    let rows = Arc::new(RedbRows::open(directory, options)?);
    Ok(Engine { rows: rows.clone(), maintenance: rows })
}
