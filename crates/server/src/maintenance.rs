//! What an engine wants done now and then.

use std::path::Path;

#[cfg(feature = "postgres")]
use shard_store::PostgresRows;
#[cfg(feature = "durable")]
use shard_store::RedbRows;
use shard_store::StoreError;

/// A figure of an engine, for `/metrics`: a name in snake case with its unit, and its value.
pub type Figure = (&'static str, f64);

/// Maintenance of an engine. Every call may take long and may run beside requests.
pub trait Maintenance: Send + Sync {
    /// Whether enough was deleted that compaction would pay.
    fn needs_compaction(&self) -> bool;

    /// Rewrites what is live and unlinks the rest, so that deleted bytes are gone.
    fn compact(&self) -> Result<(), StoreError>;

    /// Writes a consistent copy of everything into a directory that does not exist yet.
    fn snapshot(&self, to: &Path) -> Result<(), StoreError>;

    /// Deletes what nobody has named for a while, if the engine keeps such. Returns how many.
    fn sweep(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Figures of caches and files. Names must be fixed: they become names of metrics.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }
}

#[cfg(feature = "durable")]
impl Maintenance for RedbRows {
    fn needs_compaction(&self) -> bool {
        Self::needs_compaction(self)
    }

    fn compact(&self) -> Result<(), StoreError> {
        Self::compact(self).map(drop)
    }

    fn snapshot(&self, to: &Path) -> Result<(), StoreError> {
        Self::snapshot(self, to).map(drop)
    }

    fn figures(&self) -> Vec<Figure> {
        let metrics = self.metrics();
        [
            ("cache_hits", metrics.cache_hits),
            ("cache_misses", metrics.cache_misses),
            ("cache_bytes", metrics.cache_bytes),
            ("disk_rows_read", metrics.disk_rows_read),
            ("commits", metrics.commits),
            ("compactions", metrics.compactions),
            ("reopened", metrics.reopened),
            ("rows", metrics.rows),
            ("erasable_bytes", metrics.erasable_bytes),
            ("file_bytes", metrics.file_bytes),
        ]
        .map(|(name, value)| (name, value as f64))
        .to_vec()
    }
}

#[cfg(feature = "postgres")]
impl Maintenance for PostgresRows {
    fn needs_compaction(&self) -> bool {
        false
    }

    fn compact(&self) -> Result<(), StoreError> {
        let instead = "the rows are in PostgreSQL, which does it by itself (autovacuum, VACUUM)";
        Err(StoreError::Elsewhere { doing: "compact", instead })
    }

    fn snapshot(&self, _: &Path) -> Result<(), StoreError> {
        let instead = "the rows are in PostgreSQL, and pg_dump or a base backup copies them; \
                       docs/OPERATIONS.md says in which order with the objects";
        Err(StoreError::Elsewhere { doing: "take snapshots", instead })
    }

    #[cfg(feature = "objects")]
    fn sweep(&self) -> Result<u64, StoreError> {
        Self::sweep_by_default(self)
    }

    fn figures(&self) -> Vec<Figure> {
        let metrics = self.metrics();
        [
            ("connections", metrics.connections),
            ("waiting", metrics.waiting),
            ("commits", metrics.transactions),
            ("unavailable", metrics.unavailable),
            ("swept_objects", metrics.swept_objects),
            ("cache_hits", metrics.cache_hits),
            ("cache_misses", metrics.cache_misses),
            ("cache_bytes", metrics.cache_bytes),
        ]
        .map(|(name, value)| (name, value as f64))
        .to_vec()
    }
}

/// The maintenance of an engine in memory: there is nothing to compact, and nowhere to copy it from.
pub struct NoMaintenance;

impl Maintenance for NoMaintenance {
    fn needs_compaction(&self) -> bool {
        false
    }

    fn compact(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn snapshot(&self, _: &Path) -> Result<(), StoreError> {
        let reason = "the rows of this server are in memory only".to_owned();
        Err(StoreError::Engine { doing: "take a snapshot", reason })
    }
}
