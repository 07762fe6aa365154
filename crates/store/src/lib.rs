//! The server's rows: what engines keep, and by which rules.
//!
//! # Concepts
//!
//! * [`RowStore`]: an engine. For every collection it keeps rows `(cell, handle, coordinates)` by
//!   epoch and sealed blobs by name, and hands out what a request names.
//! * [`MemoryRows`]: the engine of the embedded server, and the model that other engines are
//!   compared with.
//! * `RedbRows`: the engine of a server on a network, on disk. It comes with the cargo feature
//!   `durable`.
//!
//! # Revisions and epochs
//!
//! Every change carries the [`Revision`] of the vault it comes from. An engine remembers the
//! latest of a collection and refuses an earlier one, so neither a stale copy of a vault nor a
//! late repetition of a request can undo what came after. Rows of an epoch are searched once the
//! epoch is [activated](RowStore::activate), which erases every other epoch in the same step.
//!
//! # Map
//!
//! `rules` (what a change may do, for every engine) · `memory` · `durable` (its own map is in
//! `durable/mod.rs`) · `error`.
//!
//! # Non-goals
//!
//! No keys, no queries, no network, no replication.

#[cfg(feature = "durable")]
mod durable;
mod error;
mod memory;
mod rules;

use std::sync::Arc;

use shard_protocol::{
    BlobName, Candidates, CollectionName, CollectionState, Epoch, Revision, RowBatch, RowHandle,
    RowMac,
};

#[cfg(feature = "durable")]
pub use durable::{
    Compaction, RedbRows, Snapshot, StoreMetrics, StoreOptions, Verification, verify,
};
pub use error::StoreError;
pub use memory::MemoryRows;

/// Epochs of a collection: the current one and those that are being published.
pub const MOST_EPOCHS: usize = 64;

/// Collections of an engine.
pub const MOST_COLLECTIONS: usize = 4096;

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

/// Rows of all candidates: cell by cell, in the order of the request.
pub type Fetched = Vec<Vec<Arc<[i32]>>>;

/// An engine for rows and blobs. Whatever a method that changes something has returned `Ok` for
/// is there after a crash; whatever it has returned an error for has changed nothing.
pub trait RowStore: Send + Sync {
    /// Inserts or replaces all rows of a batch with their MACs, or none. Makes the collection and
    /// the epoch where they are new, up to [`MOST_COLLECTIONS`] and [`MOST_EPOCHS`]; the first
    /// batch of an epoch fixes its width.
    ///
    /// # Panics
    /// When there is another number of MACs than of rows.
    fn upsert(
        &self,
        collection: &CollectionName,
        revision: Revision,
        batch: RowBatch,
        macs: &[RowMac],
    ) -> Result<(), StoreError>;

    /// Removes rows by handle; names that are not there are not an error. Returns how many went.
    /// The engine remembers that they were deleted until their epoch is erased.
    fn delete(
        &self,
        collection: &CollectionName,
        revision: Revision,
        epoch: Epoch,
        handles: &[RowHandle],
    ) -> Result<usize, StoreError>;

    /// Makes an epoch that holds rows the current one and erases every other, in one step.
    fn activate(
        &self,
        collection: &CollectionName,
        revision: Revision,
        epoch: Epoch,
    ) -> Result<(), StoreError>;

    /// The rows of all candidates, which must be of the current epoch, as of one moment.
    fn fetch(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        candidates: &Candidates,
    ) -> Result<Fetched, StoreError>;

    /// Width of the rows of the current epoch; an error when `epoch` is another.
    fn width(&self, collection: &CollectionName, epoch: Epoch) -> Result<usize, StoreError>;

    /// At most `most` MACs of an epoch, by ascending handle, from after a handle on. An epoch
    /// without rows has none; that is not an error.
    fn macs(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        after: Option<RowHandle>,
        most: usize,
    ) -> Result<Vec<(RowHandle, RowMac)>, StoreError>;

    /// Counts of an epoch, by looking at every row.
    fn statistics(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
    ) -> Result<EpochStatistics, StoreError>;

    /// What is held of a collection. One that was never published is empty, not an error.
    fn describe(&self, collection: &CollectionName) -> Result<CollectionState, StoreError>;

    /// Every collection, by name.
    fn collections(&self) -> Result<Vec<CollectionName>, StoreError>;

    /// Forgets a collection with all its epochs and blobs. Returns whether there was one.
    fn drop_collection(&self, collection: &CollectionName) -> Result<bool, StoreError>;

    /// Stores a sealed blob in place of one of the same name. Makes the collection where it is
    /// new.
    fn put_blob(
        &self,
        collection: &CollectionName,
        name: &BlobName,
        sealed: &[u8],
    ) -> Result<(), StoreError>;

    /// A sealed blob.
    fn blob(&self, collection: &CollectionName, name: &BlobName) -> Result<Vec<u8>, StoreError>;

    /// Names and lengths of a collection's blobs, by name.
    fn blobs(&self, collection: &CollectionName) -> Result<Vec<(BlobName, u64)>, StoreError>;

    /// Removes a blob. Returns whether there was one.
    fn delete_blob(&self, collection: &CollectionName, name: &BlobName)
    -> Result<bool, StoreError>;
}
