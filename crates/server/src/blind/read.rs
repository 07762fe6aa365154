//! Blobs of a commit, as the engine has them.

use shard_protocol::{BlobName, CollectionName, CommitName};
use shard_rlwe::blind::Block;

use super::BlockError;
use crate::{Server, ServerError};

/// Blobs that are read at once, and their bytes.
const READ_AT_ONCE: usize = 64;
const READ_BYTES: usize = 16 << 20;

impl Server {
    /// Reads blobs of a commit, many at once, and hands them on in their order, each with its number and name.
    pub(super) fn read_all(
        &self,
        collection: &CollectionName,
        commit: CommitName,
        names: Vec<BlobName>,
        mut take: impl FnMut(usize, &BlobName, Vec<u8>) -> Result<(), ServerError>,
    ) -> Result<(), ServerError> {
        let mut at = 0;
        while at < names.len() {
            let asked = &names[at..names.len().min(at + READ_AT_ONCE)];
            let blobs = self.rows.many_blobs(collection, asked, READ_BYTES)?;
            for (name, blob) in asked.iter().zip(blobs) {
                let bytes =
                    blob.ok_or_else(|| BlockError::Missing { commit, name: name.clone() })?;
                take(at, name, bytes)?;
                at += 1;
            }
        }
        Ok(())
    }
}

/// A block from its blob.
pub(super) fn read_block(
    commit: CommitName,
    name: &BlobName,
    tiles: usize,
    bytes: &[u8],
) -> Result<Block, ServerError> {
    let (expected, actual) = (Block::byte_len(tiles), bytes.len());
    let malformed = BlockError::Malformed { commit, name: name.clone(), expected, actual };
    Ok(Block::from_bytes(tiles, bytes).ok_or(malformed)?)
}
