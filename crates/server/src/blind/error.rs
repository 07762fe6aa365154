//! Why blocks cannot be searched.

use shard_protocol::{BlobName, CommitName, Epoch};

/// Why the blocks of a commit cannot be searched.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum BlockError {
    /// The list is of another epoch than the one that is activated.
    #[error("the blocks of commit {commit} are of epoch {listed}, not {asked}")]
    Epoch {
        /// The commit of the list.
        commit: CommitName,
        /// The epoch of the list.
        listed: Epoch,
        /// The epoch that is activated.
        asked: Epoch,
    },
    /// A block that is listed is not there.
    #[error("commit {commit} lists {name}, and the server holds no such blob")]
    Missing {
        /// The commit of the list.
        commit: CommitName,
        /// The blob.
        name: BlobName,
    },
    /// A block that is listed is none of this shape.
    #[error(
        "{name} has {actual} bytes and is no block of commit {commit}: {expected} bytes are \
         expected, in words below the modulus"
    )]
    Malformed {
        /// The commit of the list.
        commit: CommitName,
        /// The blob.
        name: BlobName,
        /// Bytes of a block of the list's shape.
        expected: usize,
        /// Bytes of the blob.
        actual: usize,
    },
    /// The blocks take more memory than is left.
    #[error(
        "the blocks of this collection take {needed} bytes of memory; {left} are left of the \
         {budget} that the server has for blocks (its setting block-mib)"
    )]
    TooLarge {
        /// Memory that the blocks take.
        needed: usize,
        /// Memory that is left for this collection: what others do not take.
        left: usize,
        /// Memory for the blocks of all collections.
        budget: usize,
    },
}
