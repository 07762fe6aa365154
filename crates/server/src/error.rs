//! Why the server refused, and what the client is told.

use shard_protocol::{CommitName, DecodeError, Epoch, Refusal, RefusalCode};
use shard_rlwe::EvaluateError;
use shard_rlwe::blind::QueryError;
#[cfg(feature = "slots")]
use shard_rlwe::slots::SlotsError;
use shard_store::StoreError;

use crate::{BlockError, SessionTooLarge, UnknownSession};

/// Why the server refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The bytes are not a message, or not one for a server.
    #[error("malformed request: {0}")]
    Malformed(#[from] DecodeError),
    /// The engine refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The request is for vectors of another width than the rows.
    #[error("the query has width {query}, the rows of epoch {epoch} have width {rows}")]
    Width {
        /// Epoch asked for.
        epoch: Epoch,
        /// Width of the query.
        query: usize,
        /// Width of the rows.
        rows: usize,
    },
    /// Scoring the request would take longer than the server allows.
    #[error("scoring this request would take {actual} ms of one core; at most {limit} are allowed")]
    TooCostly {
        /// Milliseconds of one core, as the planner counts them.
        actual: usize,
        /// The limit.
        limit: usize,
    },
    /// A search of another commit than the one that is held.
    #[error(
        "the search is for commit {asked}, and the collection is at {held}: pull and ask again"
    )]
    Commit {
        /// Commit asked for.
        asked: CommitName,
        /// The current one.
        held: CommitName,
    },
    /// A search of blocks where there are rows.
    #[error("epoch {0} holds rows, which are reranked, and no blocks")]
    NoBlocks(Epoch),
    /// A fetch from a commit without records.
    #[error("commit {0} has no records")]
    NoRecords(CommitName),
    /// The blocks of a commit cannot be searched.
    #[error(transparent)]
    Blocks(#[from] BlockError),
    /// A query that is none of the collection's shape.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The session is not there, or no longer.
    #[error(transparent)]
    Session(#[from] UnknownSession),
    /// The keys of the session take too much memory.
    #[error(transparent)]
    SessionTooLarge(#[from] SessionTooLarge),
    /// Another server, which holds a part of the blocks, refused.
    #[error("{}", .0.text)]
    Peer(Refusal),
    /// Other servers, which hold a part of the blocks, do not answer.
    #[error("a part of the blocks cannot be reached at the moment: {0}")]
    Unreachable(String),
    /// Ciphertexts and rows do not go together.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// Ciphertexts, keys or rows of the slot layout do not go together.
    #[cfg(feature = "slots")]
    #[error(transparent)]
    Slots(#[from] SlotsError),
}

impl ServerError {
    /// What the client is told: of the engine's failures not the reason, which names paths.
    pub fn refusal(&self) -> Refusal {
        let text = match self {
            Self::Store(StoreError::Engine { doing, .. }) => {
                format!("the server cannot {doing}; its log says why")
            }
            Self::Store(StoreError::Unavailable { doing, .. }) => {
                format!("the server cannot {doing} at the moment; try again")
            }
            // Names addresses of other servers.
            Self::Unreachable(_) => {
                "a part of the blocks cannot be reached at the moment: ask again".to_owned()
            }
            error => error.to_string(),
        };
        Refusal { code: self.code(), text }
    }

    /// The class a client is told.
    pub fn code(&self) -> RefusalCode {
        match self {
            Self::Malformed(DecodeError::Version { .. }) => RefusalCode::Version,
            Self::Malformed(DecodeError::Limit { .. })
            | Self::TooCostly { .. }
            | Self::Blocks(BlockError::TooLarge { .. })
            | Self::SessionTooLarge(_) => RefusalCode::TooLarge,
            Self::Blocks(BlockError::Missing { .. }) => RefusalCode::UnknownBlob,
            Self::Malformed(_) | Self::Blocks(_) | Self::Query(_) => RefusalCode::Malformed,
            Self::Commit { .. } => RefusalCode::Stale,
            Self::NoBlocks(_) => RefusalCode::UnknownEpoch,
            Self::NoRecords(_) => RefusalCode::UnknownRow,
            #[cfg(feature = "slots")]
            Self::Slots(_) => RefusalCode::Malformed,
            Self::Store(error) => store_code(error),
            Self::Peer(refusal) => refusal.code,
            Self::Unreachable(_) => RefusalCode::Busy,
            Self::Width { .. } => RefusalCode::WrongWidth,
            Self::Session(_) | Self::Evaluate(EvaluateError::MergeKeys) => {
                RefusalCode::UnknownSession
            }
            Self::Evaluate(_) => RefusalCode::Internal,
        }
    }
}

fn store_code(error: &StoreError) -> RefusalCode {
    match error {
        StoreError::UnknownCollection(_) => RefusalCode::UnknownCollection,
        StoreError::UnknownEpoch(_) | StoreError::Pending(_) => RefusalCode::UnknownEpoch,
        StoreError::UnknownRow { .. } => RefusalCode::UnknownRow,
        StoreError::Replaced { .. } | StoreError::Deleted { .. } | StoreError::Stale { .. } => {
            RefusalCode::Stale
        }
        StoreError::Forked { .. } | StoreError::Overtaken => RefusalCode::Forked,
        StoreError::Width { .. } | StoreError::OtherKind { .. } => RefusalCode::WrongWidth,
        StoreError::UnknownBlob(_) => RefusalCode::UnknownBlob,
        StoreError::TooMany { .. } | StoreError::TooLarge { .. } => RefusalCode::TooLarge,
        StoreError::Damaged { .. } => RefusalCode::Damaged,
        StoreError::Engine { .. } => RefusalCode::Storage,
        StoreError::Unavailable { .. } => RefusalCode::Busy,
        StoreError::Elsewhere { .. } => RefusalCode::Malformed,
        _ => RefusalCode::Internal,
    }
}
