//! The server's rows.
//!
//! An engine keeps rows `(cell, handle, coordinates)` by epoch and hands out the ones a request
//! names. It knows nothing of keys or queries. [`RowStore`] is the seam: [`MemoryRows`] is the
//! engine of the embedded server and the model that other engines are compared with.

mod memory;

use std::sync::Arc;

use shard_protocol::{Candidates, CellTag, Epoch, RowBatch, RowHandle};

pub use memory::MemoryRows;

/// Why an engine could not do what it was asked.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum StoreError {
    /// No rows of that epoch.
    #[error("the server holds no rows of epoch {0}")]
    UnknownEpoch(Epoch),
    /// No such row in that cell.
    #[error("the server holds no row {handle} in cell {cell}")]
    UnknownRow {
        /// Cell named.
        cell: CellTag,
        /// Row named.
        handle: RowHandle,
    },
    /// Rows of another width than those of the epoch.
    #[error("rows of width {actual} for an epoch of width {expected}")]
    Width {
        /// Width of the epoch.
        expected: usize,
        /// Width of the rows.
        actual: usize,
    },
}

/// Counts of one epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochStatistics {
    /// Rows held.
    pub rows: usize,
    /// Cells with at least one row.
    pub cells: usize,
    /// Coordinates of a row.
    pub width: usize,
}

/// An engine for rows.
pub trait RowStore: Send + Sync {
    /// Inserts or replaces all rows of a batch, or none. The first batch of an epoch fixes its
    /// width.
    fn upsert(&self, batch: RowBatch) -> Result<(), StoreError>;

    /// The rows of all candidates, cell by cell in their order, as of one moment.
    fn fetch(
        &self,
        epoch: Epoch,
        candidates: &Candidates,
    ) -> Result<Vec<Vec<Arc<[i32]>>>, StoreError>;

    /// Removes rows by handle; names that are not there are not an error. Returns how many went.
    fn delete(&self, epoch: Epoch, handles: &[RowHandle]) -> Result<usize, StoreError>;

    /// Forgets an epoch and all its rows.
    fn drop_epoch(&self, epoch: Epoch) -> Result<(), StoreError>;

    /// Width of the rows of an epoch.
    fn width(&self, epoch: Epoch) -> Result<usize, StoreError>;

    /// Counts of an epoch, by looking at every row.
    fn statistics(&self, epoch: Epoch) -> Result<EpochStatistics, StoreError>;
}
