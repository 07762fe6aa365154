//! The client's one error.

use std::convert::Infallible;

use shard_geometry::{
    CellsError, PcaError, RouteError, SplitError, Stopped, TuneError, VectorError,
};
use shard_protocol::{CandidateError, DecodeError, Refusal, RefusalCode, RowHandle};
#[cfg(feature = "slots")]
use shard_rlwe::slots::SlotsError;
use shard_rlwe::{EntropyError, OperandOverflow, SessionSpent};

use crate::payload::PayloadError;
#[cfg(feature = "remote")]
use crate::remote::{BackupError, RemoteError};
use crate::vault::VaultError;

/// Why the client could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The vault's files.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// A vault file opened but its contents make no sense.
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
