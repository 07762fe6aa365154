//! The client's one error.

use std::convert::Infallible;

use shard_geometry::{
    CellsError, PcaError, RouteError, SplitError, Stopped, TuneError, VectorError,
};
#[cfg(feature = "remote")]
use shard_protocol::CollectionState;
use shard_protocol::{
    CandidateError, CommitName, DecodeError, Refusal, RefusalCode, Revision, RowHandle,
};
use shard_rlwe::blind::ShapeError;
#[cfg(feature = "slots")]
use shard_rlwe::slots::SlotsError;
use shard_rlwe::{EntropyError, OperandOverflow, SessionSpent};

use crate::filter::FilterError;
use crate::payload::PayloadError;
#[cfg(feature = "remote")]
use crate::remote::{BackupError, Head, Lineage, RemoteError};
use crate::settings::Protection;
use crate::vault::VaultError;

/// Why the client could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The vault.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// A value of the vault opened but its contents make no sense.
    #[error("the vault's {file} cannot be used: {problem}")]
    Payload {
        /// Which file.
        file: &'static str,
        /// What is wrong with it.
        problem: PayloadError,
    },
    /// Nothing has been ingested yet.
    #[error("the vault is empty: ingest documents first")]
    Empty,
    /// The vault is protected in another way than what was asked of it takes.
    #[error("this vault is {protection}: {reason}")]
    OtherProtection {
        /// How it is protected.
        protection: Protection,
        /// Why that does not go with what was asked.
        reason: &'static str,
    },
    /// A filter that cannot be used.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// An encoder other than that of the vault's documents.
    #[error(
        "the documents of this vault were encoded by {held}, and this is {given}: vectors of two \
         encoders cannot be compared"
    )]
    OtherEncoder {
        /// The identity of the encoder that the documents went through.
        held: String,
        /// The identity of the one that was given.
        given: String,
    },
    /// Blocks that cannot be.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A setting that cannot be.
    #[error("{0}")]
    Setting(String),
    /// Vectors that cannot be used.
    #[error(transparent)]
    Vectors(#[from] VectorError),
    /// A different number of ids than vectors.
    #[error("{ids} ids for {vectors} vectors")]
    IdCount {
        /// Ids given.
        ids: usize,
        /// Vectors given.
        vectors: usize,
    },
    /// One id for two documents.
    #[error("the id {0:?} is given twice")]
    DuplicateId(String),
    /// An id that cannot be stored.
    #[error("an id of {0} bytes: between 1 and 65535 are supported")]
    IdLength(usize),
    /// Documents to be deleted that are not there.
    #[error("{}; nothing was deleted", unknown(.0))]
    UnknownIds(Vec<String>),
    /// Documents that were named and are not there.
    #[error("{}", unknown(.0))]
    NoSuchDocuments(Vec<String>),
    /// A record that cannot be.
    #[error(
        "the record of {id:?} has {bytes} bytes: from 1 to {} are possible",
        crate::blind::MAX_RECORD_BYTES
    )]
    RecordLength {
        /// The document.
        id: String,
        /// Bytes of its record.
        bytes: usize,
    },
    /// No document ever had a record.
    #[error("no document of this vault has a record")]
    NoRecords,
    /// A deletion of everything.
    #[error(
        "that would delete all {0} documents, and a collection keeps at least one; to be rid of it, \
         delete the vault"
    )]
    NothingLeft(usize),
    /// The model could not be fitted.
    #[error("cannot fit the principal components: {0}")]
    Pca(PcaError),
    /// The prefix does not fit the vectors.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The partition could not be made.
    #[error(transparent)]
    Cells(CellsError),
    /// The prefix width or the shortlist could not be tuned.
    #[error(transparent)]
    Tune(TuneError),
    /// Routing failed.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// A vector too long for the fixed point of its epoch.
    #[error("{0}; fit a new model or scale the vector down")]
    Overflow(#[from] OperandOverflow),
    /// A document of the index has no published row.
    #[error("row {0} is missing from the published rows: ingest the documents again")]
    MissingRow(RowHandle),
    /// A score that is known beforehand came back wrong.
    #[error(
        "ALARM: the server answered falsely: {wrong} of {checked} control scores are off; the key \
         was retired and nothing was asked again"
    )]
    FalseAnswer {
        /// Control scores that are off.
        wrong: usize,
        /// Control scores checked.
        checked: usize,
    },
    /// The answer was not computed from the published blocks, or something else that the server gave is
    /// not what the owner left there. One error for all of it: what was noticed is not for a forger.
    #[error(
        "ALARM: the server answered falsely: what it gave was not computed from what was published. Tell \
         the owner. The checks that found a false search are not used again; publishing with fresh \
         checks brings others"
    )]
    Forged,
    /// Every set of checks was retired by an alarm.
    #[error(
        "two alarms have used up the checks of what is published: nothing is asked of this server \
         until its owner has published with fresh checks"
    )]
    ChecksRetired,
    /// The checks of the commit that is published cannot be used any more, and a commit has no others.
    #[error(
        "the checks of what is published cannot be used any more, and are made once for a commit: \
         renew them by an empty one"
    )]
    StaleChecks,
    /// Vectors so long that their coordinates leave single precision.
    #[error("vectors of norm {norm:.1e} are too long: scale them down")]
    TooLong {
        /// The longest.
        norm: f64,
    },
    /// No randomness to be had.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The shortlist is not one.
    #[error(transparent)]
    Candidates(#[from] CandidateError),
    /// A transport of the caller's own got no answer.
    #[error("cannot reach the server: {reason}")]
    NoAnswer {
        /// What went wrong.
        reason: String,
    },
    /// The server could not be talked to.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The server has seen a later state of the vault than this copy.
    #[error(
        "this copy of the vault is out of date: {reason}; use the latest copy, or restore the one \
         kept on the server"
    )]
    Outdated {
        /// What shows it.
        reason: String,
    },
    /// The server is at a later revision than this copy of the vault.
    #[error(
        "the server is at revision {server} and this copy of the vault at revision {ours}: another \
         copy was published since; bring this copy forward to the server's state, then try again; \
         nothing was changed"
    )]
    Behind {
        /// Revision of the server.
        server: Revision,
        /// Revision of the vault.
        ours: Revision,
    },
    /// The server holds a commit that this copy of the vault does not come from.
    #[error(
        "this copy of the vault and the one that was published have parted: at revision {revision} \
         the server has commit {server} and this copy {}, so both were changed since they were the \
         same; nothing was changed now. Bring this copy forward, which repeats its own changes on top of \
         the server's, and publish again; or replace the server's state deliberately",
        .ours.map_or_else(|| "has none".to_owned(), |name| format!("has {name}"))
    )]
    Forked {
        /// Revision of the server.
        revision: Revision,
        /// Its commit.
        server: CommitName,
        /// The vault's commit at that revision.
        ours: Option<CommitName>,
    },
    /// Another publish began or ended while this one was under way.
    #[error(
        "{reason}; what was sent of this publish does not count: publish again to see how the two \
         stand"
    )]
    Overtaken {
        /// What the server said.
        reason: String,
    },
    /// The server's rows are damaged.
    #[error(
        "the server's rows are damaged: {what}; publish the vault again, which sends them anew"
    )]
    DamagedRows {
        /// What is damaged.
        what: String,
    },
    /// Which state the server holds is lost.
    #[error(
        "the server's record of this collection is damaged ({what}), so it is not known which state \
         was published last: replace it deliberately, with the latest copy of the vault"
    )]
    UnknownState {
        /// What is damaged.
        what: String,
    },
    /// The server says that it holds this very state of the vault, and does not hold all of it.
    #[error(
        "{reason}, though the server says that it holds this state of the vault: a publish is under \
         way or was cut off; publish again, which sends what is missing"
    )]
    Incomplete {
        /// What is missing.
        reason: String,
    },
    /// Nothing to bring a copy forward to.
    #[error("nothing was published to this collection yet")]
    NothingPublished,
    /// The server does not have, or does not give, the state that it says is published.
    #[error(
        "the server does not keep the sealed state of what is published there; whoever published it \
         last should publish again"
    )]
    NoPublishedState,
    /// The server is at an earlier state than a query vault.
    #[error(
        "the server is at revision {server} and this query vault at revision {ours}: the owner has yet to publish"
    )]
    ServerBehind {
        /// Revision of the server.
        server: Revision,
        /// Revision of the vault.
        ours: Revision,
    },
    /// Two copies that parted too long ago.
    #[error(
        "this copy and the published one parted at revision {common}, and what this copy changed \
         since is not on record any more; restore the published state into a fresh copy and ingest \
         there what only this one has; nothing was changed"
    )]
    TooFarApart {
        /// The last revision that both have.
        common: u64,
        /// Revision of this copy.
        ours: Revision,
    },
    /// The collection that was searched is another vault's.
    #[error("this collection holds the documents of another vault: check the address")]
    NotThisVault,
    /// The server does not hold what is asked about.
    #[error("{reason}; publish the vault first")]
    Unpublished {
        /// What it does not hold.
        reason: String,
    },
    /// A vault for searching whose rows the server does not hold, or no longer.
    #[error(
        "{reason}; this query vault is out of date or was revoked: ask its owner for a new one"
    )]
    Revoked {
        /// What shows it.
        reason: String,
    },
    /// The collection is another vault's.
    #[error(
        "this collection belongs to another vault, whose rows and backup would be lost: use another \
         collection, or replace that vault deliberately"
    )]
    AnotherVault,
    /// The rows of a query vault were asked for.
    #[error("a query vault has no rows of its own: only its server holds them")]
    RowsOnServer,
    /// A query vault was to be published.
    #[error("a query vault can be searched and cannot be published; ask its owner")]
    SearchOnly,
    /// The backup of a vault.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// Ended by whoever began it.
    #[error("stopped before the end; run it again to go on")]
    Cancelled,
    /// The server refused.
    #[error("the server refused: {0}")]
    Refused(#[from] Refusal),
    /// The slot layout cannot carry these vectors.
    #[cfg(feature = "slots")]
    #[error(transparent)]
    Slots(#[from] SlotsError),
    /// A session's key was asked for more than it may do.
    #[error(transparent)]
    Spent(#[from] SessionSpent),
    /// The server's answer is not one.
    #[error("the server's answer cannot be read: {0}")]
    Answer(#[from] DecodeError),
}

impl From<Infallible> for ClientError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<Stopped> for ClientError {
    fn from(_: Stopped) -> Self {
        Self::Cancelled
    }
}

impl From<PcaError> for ClientError {
    fn from(error: PcaError) -> Self {
        match error {
            PcaError::Stopped(stopped) => stopped.into(),
            error => Self::Pca(error),
        }
    }
}

impl From<CellsError> for ClientError {
    fn from(error: CellsError) -> Self {
        match error {
            CellsError::Stopped(stopped) => stopped.into(),
            error => Self::Cells(error),
        }
    }
}

impl From<TuneError> for ClientError {
    fn from(error: TuneError) -> Self {
        match error {
            TuneError::Stopped(stopped) => stopped.into(),
            error => Self::Tune(error),
        }
    }
}

#[cfg(feature = "remote")]
impl ClientError {
    /// For a vault that is behind what the server holds.
    pub(crate) fn behind(state: &CollectionState, head: Head) -> Self {
        Self::Behind { server: state.revision, ours: head.revision }
    }

    /// For a vault that does not come from what the server holds.
    pub(crate) fn forked(state: &CollectionState, lineage: Lineage<'_>) -> Self {
        let head = lineage.head;
        let ours = match state.revision {
            revision if revision == head.revision => Some(head.name),
            revision => (lineage.commit_at)(revision),
        };
        let server = state.commit.unwrap_or_default();
        Self::Forked { revision: state.revision, server, ours }
    }
}

impl ClientError {
    /// The same error for who can neither publish nor restore.
    pub(crate) fn for_query_vault(self) -> Self {
        match self {
            Self::Outdated { reason } | Self::Unpublished { reason } => Self::Revoked { reason },
            Self::Refused(Refusal { code: RefusalCode::UnknownRow, text }) => {
                Self::Revoked { reason: text }
            }
            other => other,
        }
    }
}

/// Ids of an error that are listed; the others are counted.
const LISTED_IDS: usize = 10;

/// Names ids that are not in a vault.
fn unknown(ids: &[String]) -> String {
    let listed: Vec<String> = ids.iter().take(LISTED_IDS).map(|id| format!("{id:?}")).collect();
    let verb = if ids.len() == 1 { "is" } else { "are" };
    let more = match ids.len().saturating_sub(LISTED_IDS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more} {verb} not in the vault", listed.join(", "))
}
