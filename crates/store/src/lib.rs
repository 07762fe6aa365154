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
//! * `PostgresRows`: the engine of several servers over the same rows, on PostgreSQL, with large blobs in an
//!   object store if there is one. It comes with the cargo features `postgres` and `objects`.
//! * [`Members`]: the leases of servers that work on one engine.
//!
//! # Commits, revisions and epochs
//!
//! Every change says from which commit of its vault to which it leads ([`Advance`]). An engine
//! remembers the commit and the [`Revision`](shard_protocol::Revision) of a collection that were
//! [activated](RowStore::activate) last, and refuses a change that comes from another commit or is of
//! an earlier revision: neither a copy of a vault that is stale or has gone another way, nor a late
//! repetition of a request, undoes what came after. Of two publishes that come from one commit, the
//! one that [began](RowStore::begin) last goes on, and the other is told. Rows of an epoch are
//! searched once the epoch is activated, which erases every other epoch in the same step. An epoch
//! holds rows or, in a blind collection, [blocks](RowStore::activate_blocks), which are blobs.
//!
//! # Map
//!
//! `rules` (what a change may do, for every engine) · `members` (servers that work on one engine) · `tokens` (theirs) · `memory` ·
//! `durable` (its own map is in `durable/mod.rs`) · `postgres` (likewise) · `conformance` (what every engine
//! must do, to run on one that you write; cargo feature `conformance`) · `error`.
//!
//! # Non-goals
//!
//! No keys, no queries, no replication of its own.

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "durable")]
mod durable;
mod error;
mod members;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod rules;
mod tokens;

use std::sync::Arc;

use shard_protocol::{
    Advance, BlobName, Candidates, CollectionName, CollectionState, CommitName, Epoch, RowBatch,
    RowHandle, RowMac,
};

#[cfg(feature = "durable")]
pub use durable::{
    Compaction, RedbRows, Snapshot, StoreMetrics, StoreOptions, Verification, verify,
};
pub use error::StoreError;
pub use members::{Member, Members, MemoryMembers, WorkerId};
pub use memory::MemoryRows;
#[cfg(feature = "objects")]
pub use postgres::Objects;
#[cfg(feature = "postgres")]
pub use postgres::{
    CONNECTIONS, DatabaseAddress, HEADS, PostgresMetrics, PostgresOptions, PostgresRows,
};
pub use tokens::{SharedToken, SharedTokens};

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

/// The most bytes of rows that one fetch may ask for. Names are short and rows are long: without it a
/// message of half a megabyte could ask for gigabytes.
pub const MOST_FETCHED_BYTES: usize = 256 << 20;

/// The rows of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// Coordinates of a row.
    pub width: usize,
    /// Rows of all candidates: cell by cell, in the order of the request.
    pub rows: Vec<Vec<Arc<[i32]>>>,
}

/// An engine for rows and blobs. Whatever a method that changes something has returned `Ok` for
/// is there after a crash; whatever it has returned an error for has changed nothing, but for
/// [`StoreError::Unavailable`], after which all of it or nothing of it was done. Repeating a change does
/// no harm.
pub trait RowStore: Send + Sync {
    /// Whether the engine is on another machine, or may be: it answers by waiting and not by computing,
    /// and other processes may change what it holds.
    fn is_remote(&self) -> bool {
        false
    }

    /// Begins a publish, in place of one that has not ended and whose changes are refused from now
    /// on. Makes the collection where it is new, up to [`MOST_COLLECTIONS`].
    fn begin(&self, collection: &CollectionName, advance: &Advance) -> Result<(), StoreError>;

    /// Inserts or replaces all rows of a batch with their MACs, or none. Makes the collection and
    /// the epoch where they are new, up to [`MOST_COLLECTIONS`] and [`MOST_EPOCHS`]; the first
    /// batch of an epoch fixes its width.
    ///
    /// # Panics
    /// When there is another number of MACs than of rows.
    fn upsert(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        batch: RowBatch,
        macs: &[RowMac],
    ) -> Result<(), StoreError>;

    /// Removes rows by handle; names that are not there are not an error. Returns how many went.
    /// The engine remembers that they were deleted until their epoch is erased.
    fn delete(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
        handles: &[RowHandle],
    ) -> Result<usize, StoreError>;

    /// Makes an epoch that holds rows the current one and its commit that of the collection, and
    /// erases every other epoch, in one step.
    fn activate(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
    ) -> Result<(), StoreError>;

    /// As [`RowStore::activate`], for an epoch of blocks, which are blobs: nothing but the width of
    /// their rows and their number is kept of it here, and it is made where it is new. What the
    /// blocks are is the caller's business; no blob is touched.
    ///
    /// # Panics
    /// When there are no blocks.
    fn activate_blocks(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
        width: usize,
        blocks: u64,
    ) -> Result<(), StoreError>;

    /// Forgets all epochs, the revision and the commit of a collection, in one step, if its commit is
    /// `from`. Blobs stay. Where there is nothing to forget, that is not an error.
    fn reset(
        &self,
        collection: &CollectionName,
        from: Option<CommitName>,
    ) -> Result<(), StoreError>;

    /// The rows of all candidates, which must be of the current epoch, as of one moment, and their
    /// width, in one round trip; up to [`MOST_FETCHED_BYTES`].
    fn fetch(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        candidates: &Candidates,
    ) -> Result<Fetched, StoreError>;

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
    /// new. The same bytes under the same name cost no write.
    fn put_blob(
        &self,
        collection: &CollectionName,
        name: &BlobName,
        sealed: &[u8],
    ) -> Result<(), StoreError>;

    /// Stores blobs as [`RowStore::put_blob`] does, all of them or none.
    fn put_blobs(
        &self,
        collection: &CollectionName,
        blobs: &[(BlobName, Vec<u8>)],
    ) -> Result<(), StoreError>;

    /// A sealed blob.
    fn blob(&self, collection: &CollectionName, name: &BlobName) -> Result<Vec<u8>, StoreError>;

    /// The sealed blobs of the first names, `None` for one that is not there: at least of one name, and of as
    /// many as have no more than `most_bytes` together. An engine on another machine brings them in few
    /// round trips.
    fn many_blobs(
        &self,
        collection: &CollectionName,
        names: &[BlobName],
        most_bytes: usize,
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let (mut blobs, mut bytes) = (Vec::new(), 0);
        for name in names {
            let blob = match self.blob(collection, name) {
                Ok(sealed) => Some(sealed),
                Err(StoreError::UnknownBlob(_)) => None,
                Err(error) => return Err(error),
            };
            bytes += blob.as_ref().map_or(0, Vec::len);
            if bytes > most_bytes && !blobs.is_empty() {
                break;
            }
            blobs.push(blob);
        }
        Ok(blobs)
    }

    /// Names and lengths of at most `most` of a collection's blobs, by name, from after a name on.
    fn blobs(
        &self,
        collection: &CollectionName,
        after: Option<&BlobName>,
        most: usize,
    ) -> Result<Vec<(BlobName, u64)>, StoreError>;

    /// Removes a blob. Returns whether there was one.
    fn delete_blob(&self, collection: &CollectionName, name: &BlobName)
    -> Result<bool, StoreError>;
}
