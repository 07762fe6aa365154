//! Rows in memory, with something done before a collection is described or a blob is read: how a test holds a
//! request in the middle of its work, or makes the work fail.

use shard_protocol::{
    Advance, BlobName, Candidates, CollectionName, CollectionState, CommitName, Epoch, RowBatch,
    RowHandle, RowMac,
};
use shard_store::{EpochStatistics, Fetched, MemoryRows, RowStore, StoreError};

pub struct HookedRows {
    rows: MemoryRows,
    hook: Hook,
}

/// Asked before a collection is described, and before one of its blobs is read.
type Hook = Box<dyn Fn(&CollectionName, Option<&BlobName>) -> Outcome<()> + Send + Sync>;

impl HookedRows {
    /// With something done before a collection is described.
    pub fn new(hook: impl Fn() + Send + Sync + 'static) -> Self {
        let describe = move |_: &CollectionName, blob: Option<&BlobName>| {
            if blob.is_none() {
                hook();
            }
            Ok(())
        };
        Self { rows: MemoryRows::new(), hook: Box::new(describe) }
    }

    /// That are away for what a test says: a collection, or one of its blobs.
    pub fn away(
        is_away: impl Fn(&CollectionName, Option<&BlobName>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let hook = move |collection: &CollectionName, blob: Option<&BlobName>| {
            let unavailable =
                StoreError::Unavailable { doing: "read", reason: "a test".to_owned() };
            if is_away(collection, blob) { Err(unavailable) } else { Ok(()) }
        };
        Self { rows: MemoryRows::new(), hook: Box::new(hook) }
    }
}

type Outcome<T> = Result<T, StoreError>;

impl RowStore for HookedRows {
    fn describe(&self, collection: &CollectionName) -> Outcome<CollectionState> {
        (self.hook)(collection, None)?;
        self.rows.describe(collection)
    }

    fn begin(&self, collection: &CollectionName, advance: &Advance) -> Outcome<()> {
        self.rows.begin(collection, advance)
    }

    fn upsert(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        batch: RowBatch,
        macs: &[RowMac],
    ) -> Outcome<()> {
        self.rows.upsert(collection, advance, batch, macs)
    }

    fn delete(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
        handles: &[RowHandle],
    ) -> Outcome<usize> {
        self.rows.delete(collection, advance, epoch, handles)
    }

    fn activate(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
    ) -> Outcome<()> {
        self.rows.activate(collection, advance, epoch)
    }

    fn activate_blocks(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
        width: usize,
        blocks: u64,
    ) -> Outcome<()> {
        self.rows.activate_blocks(collection, advance, epoch, width, blocks)
    }

    fn reset(&self, collection: &CollectionName, from: Option<CommitName>) -> Outcome<()> {
        self.rows.reset(collection, from)
    }

    fn fetch(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        candidates: &Candidates,
    ) -> Outcome<Fetched> {
        self.rows.fetch(collection, epoch, candidates)
    }

    fn macs(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        after: Option<RowHandle>,
        most: usize,
    ) -> Outcome<Vec<(RowHandle, RowMac)>> {
        self.rows.macs(collection, epoch, after, most)
    }

    fn statistics(&self, collection: &CollectionName, epoch: Epoch) -> Outcome<EpochStatistics> {
        self.rows.statistics(collection, epoch)
    }

    fn collections(&self) -> Outcome<Vec<CollectionName>> {
        self.rows.collections()
    }

    fn drop_collection(&self, collection: &CollectionName) -> Outcome<bool> {
        self.rows.drop_collection(collection)
    }

    fn put_blob(&self, collection: &CollectionName, name: &BlobName, sealed: &[u8]) -> Outcome<()> {
        self.rows.put_blob(collection, name, sealed)
    }

    fn put_blobs(&self, collection: &CollectionName, blobs: &[(BlobName, Vec<u8>)]) -> Outcome<()> {
        self.rows.put_blobs(collection, blobs)
    }

    fn blob(&self, collection: &CollectionName, name: &BlobName) -> Outcome<Vec<u8>> {
        (self.hook)(collection, Some(name))?;
        self.rows.blob(collection, name)
    }

    fn blobs(
        &self,
        collection: &CollectionName,
        after: Option<&BlobName>,
        most: usize,
    ) -> Outcome<Vec<(BlobName, u64)>> {
        self.rows.blobs(collection, after, most)
    }

    fn delete_blob(&self, collection: &CollectionName, name: &BlobName) -> Outcome<bool> {
        self.rows.delete_blob(collection, name)
    }
}
