//! Why an engine could not do what it was asked.

use shard_protocol::{
    BlobName, CellHandle, CollectionName, CommitName, Epoch, Revision, RowHandle,
};

/// Why an engine could not do what it was asked.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
#[non_exhaustive]
pub enum StoreError {
    /// No such collection.
    #[error("the server holds no collection {0}")]
    UnknownCollection(CollectionName),
    /// No rows of that epoch.
    #[error("the server holds no rows of epoch {0}")]
    UnknownEpoch(Epoch),
    /// The epoch was erased when a later one took its place.
    #[error("epoch {asked} was replaced by epoch {current}: this vault is older than the server")]
    Replaced {
        /// Epoch asked for.
        asked: Epoch,
        /// The current one.
        current: Epoch,
    },
    /// The epoch has rows but was not activated yet.
    #[error("epoch {0} is being published and cannot be searched yet")]
    Pending(Epoch),
    /// No such row in that cell.
    #[error("the server holds no row {handle} in cell {cell}")]
    UnknownRow {
        /// Cell named.
        cell: CellHandle,
        /// Row named.
        handle: RowHandle,
    },
    /// The row was deleted.
    #[error("row {handle} was deleted at revision {revision}: this vault is older than the server")]
    Deleted {
        /// Row named.
        handle: RowHandle,
        /// When it went.
        revision: Revision,
    },
    /// Rows of another width than those of the epoch.
    #[error("rows of width {actual} for an epoch of width {expected}")]
    Width {
        /// Width of the epoch.
        expected: usize,
        /// Width of the rows.
        actual: usize,
    },
    /// Rows for an epoch of blocks, or the other way round.
    #[error(
        "epoch {epoch} holds {held}, and this change is for {given}: an epoch holds one of them"
    )]
    OtherKind {
        /// The epoch.
        epoch: Epoch,
        /// What it holds.
        held: &'static str,
        /// What the change is for.
        given: &'static str,
    },
    /// A change that comes from before the last one.
    #[error(
        "this vault is at revision {given} and revision {latest} was published already: a newer \
         copy of the vault exists"
    )]
    Stale {
        /// Revision of the change.
        given: Revision,
        /// The latest revision.
        latest: Revision,
    },
    /// A change that comes from another commit than the one that is held.
    #[error(
        "the collection is at {} and this change comes from {}: another copy of the vault was \
         published in between",
        commit(*.held),
        commit(*.given)
    )]
    Forked {
        /// The commit that the change comes from.
        given: Option<CommitName>,
        /// The commit that is held.
        held: Option<CommitName>,
    },
    /// A change of a publish after which another one has begun.
    #[error("another publish has begun since: this one cannot go on")]
    Overtaken,
    /// No such blob.
    #[error("the server holds no blob {0}")]
    UnknownBlob(BlobName),
    /// More than an engine takes.
    #[error("{what}: at most {most} are kept")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// More than an engine hands out at once.
    #[error("{what}: {actual}, and at most {limit} are handed out at once")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// What was asked for.
        actual: usize,
        /// The limit.
        limit: usize,
    },
    /// The engine cannot be reached at the moment, or went away before it was known whether a change was
    /// made: all of it was or nothing. The same request may go a moment later.
    #[error("cannot {doing} at the moment: {reason}")]
    Unavailable {
        /// What was tried.
        doing: &'static str,
        /// What came of it.
        reason: String,
    },
    /// Nothing that this engine does.
    #[error("this server's engine does not {doing}: {instead}")]
    Elsewhere {
        /// What was asked for.
        doing: &'static str,
        /// Who does it.
        instead: &'static str,
    },
    /// What is held of a collection is damaged.
    #[error(
        "damaged: {what}; a verification says more, and a snapshot or a publish of the whole vault \
         brings it back"
    )]
    Damaged {
        /// What is damaged.
        what: String,
    },
    /// The disk refused.
    #[error("cannot {doing}: {reason}")]
    Engine {
        /// What was tried.
        doing: &'static str,
        /// What came of it.
        reason: String,
    },
}

/// A commit in words.
fn commit(name: Option<CommitName>) -> String {
    name.map_or_else(|| "no commit".to_owned(), |name| format!("commit {name}"))
}
