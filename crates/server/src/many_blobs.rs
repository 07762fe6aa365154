//! Many blobs in one answer: as many as fit.

use shard_protocol::{BlobName, Blobs, CollectionName};
use shard_store::StoreError;

use crate::{Server, ServerError};

/// Bytes of an answer besides those of blobs, for every blob: whether it is there, and its length.
const OVERHEAD: usize = 5;

impl Server {
    /// The blobs of the first names, at least of one, and of as many as fit into an answer.
    pub(crate) fn many_blobs(
        &self,
        collection: &CollectionName,
        names: &[BlobName],
    ) -> Result<Blobs, ServerError> {
        let most = Blobs::MOST_BYTES.min(self.limits.bytes);
        let most = most.saturating_sub(OVERHEAD * names.len());
        Ok(Blobs { blobs: self.rows.many_blobs(collection, names, most)? })
    }

    /// The same, for whoever may only search.
    pub(crate) fn many_shared(
        &self,
        collection: &CollectionName,
        names: &[BlobName],
    ) -> Result<Blobs, ServerError> {
        match names.iter().find(|name| !name.is_shared()) {
            Some(name) => Err(StoreError::UnknownBlob(name.clone()).into()),
            None => self.many_blobs(collection, names),
        }
    }
}
