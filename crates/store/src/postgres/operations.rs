//! The trait: each method waits for its operation.

use shard_protocol::{
    Advance, BlobName, Candidates, CollectionName, CollectionState, CommitName, Epoch, RowBatch,
    RowHandle, RowMac,
};

use super::PostgresRows;
use crate::{EpochStatistics, Fetched, RowStore, StoreError};

impl RowStore for PostgresRows {
    fn is_remote(&self) -> bool {
        true
    }

    fn begin(&self, collection: &CollectionName, advance: &Advance) -> Result<(), StoreError> {
        self.wait(|| self.begin_publish(collection, advance))
    }

    fn upsert(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        batch: RowBatch,
        macs: &[RowMac],
    ) -> Result<(), StoreError> {
        assert_eq!(macs.len(), batch.rows().len(), "a MAC for every row");
        self.wait(|| self.put_rows(collection, advance, batch, macs))
    }

    fn delete(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
        handles: &[RowHandle],
    ) -> Result<usize, StoreError> {
        let gone = self.wait(|| self.delete_rows(collection, advance, epoch, handles))?;
        for handle in handles {
            self.cache.remove(&(collection.clone(), epoch, *handle));
        }
        Ok(gone)
    }

    fn activate(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
    ) -> Result<(), StoreError> {
        self.wait(|| self.activate_rows(collection, advance, epoch))?;
        self.cache.hold_only(collection, Some(epoch));
        Ok(())
    }

    fn activate_blocks(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
        width: usize,
        blocks: u64,
    ) -> Result<(), StoreError> {
        self.wait(|| self.activate_list(collection, advance, epoch, width, blocks))?;
        self.cache.hold_only(collection, Some(epoch));
        Ok(())
    }

    fn reset(
        &self,
        collection: &CollectionName,
        from: Option<CommitName>,
    ) -> Result<(), StoreError> {
        self.wait(|| self.forget_epochs(collection, from))?;
        self.cache.hold_only(collection, None);
        Ok(())
    }

    fn fetch(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        candidates: &Candidates,
    ) -> Result<Fetched, StoreError> {
        self.wait(|| self.fetch_rows(collection, epoch, candidates))
    }

    fn macs(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        after: Option<RowHandle>,
        most: usize,
    ) -> Result<Vec<(RowHandle, RowMac)>, StoreError> {
        self.wait(|| self.list_macs(collection, epoch, after, most))
    }

    fn statistics(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
    ) -> Result<EpochStatistics, StoreError> {
        self.wait(|| self.count(collection, epoch))
    }

    fn describe(&self, collection: &CollectionName) -> Result<CollectionState, StoreError> {
        self.wait(|| self.state_of(collection))
    }

    fn collections(&self) -> Result<Vec<CollectionName>, StoreError> {
        self.wait(|| self.names())
    }

    fn drop_collection(&self, collection: &CollectionName) -> Result<bool, StoreError> {
        let gone = self.wait(|| self.forget_collection(collection))?;
        self.cache.hold_only(collection, None);
        Ok(gone)
    }

    fn put_blob(
        &self,
        collection: &CollectionName,
        name: &BlobName,
        sealed: &[u8],
    ) -> Result<(), StoreError> {
        self.wait(|| async { self.put_all(collection, &[(name, sealed)]).await })
    }

    fn put_blobs(
        &self,
        collection: &CollectionName,
        blobs: &[(BlobName, Vec<u8>)],
    ) -> Result<(), StoreError> {
        // Of those that share a name, the last.
        let blobs: std::collections::BTreeMap<&BlobName, &[u8]> =
            blobs.iter().map(|(name, sealed)| (name, &sealed[..])).collect();
        let blobs: Vec<(&BlobName, &[u8])> = blobs.into_iter().collect();
        self.wait(|| self.put_all(collection, &blobs))
    }

    fn blob(&self, collection: &CollectionName, name: &BlobName) -> Result<Vec<u8>, StoreError> {
        self.wait(|| self.read_blob(collection, name))
    }

    fn many_blobs(
        &self,
        collection: &CollectionName,
        names: &[BlobName],
        most_bytes: usize,
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.wait(|| self.read_many(collection, names, most_bytes))
    }

    fn blobs(
        &self,
        collection: &CollectionName,
        after: Option<&BlobName>,
        most: usize,
    ) -> Result<Vec<(BlobName, u64)>, StoreError> {
        self.wait(|| self.list_blobs(collection, after, most))
    }

    fn delete_blob(
        &self,
        collection: &CollectionName,
        name: &BlobName,
    ) -> Result<bool, StoreError> {
        self.wait(|| self.remove_blob(collection, name))
    }
}
