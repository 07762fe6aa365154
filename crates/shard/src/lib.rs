//! Private dense retrieval: keep an index of embedding vectors on a server you do not trust.
//!
//! The server ranks vectors that it cannot read for queries that it cannot see. One dependency has
//! it all: the owner's vault, encrypted search, a server in this process or on a network, judging
//! of quality, and the audit.
//!
//! ```
//! use shard::{Documents, FitOptions, SearchOptions, Settings, Unlock, Vault};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let directory = folder.path().join("vault");
//! let embed = |at: f32| (0..32).map(|i| (at * i as f32).sin()).collect::<Vec<f32>>();
//! let documents = Documents::new((0..500).map(|at| (format!("text {at}"), embed(at as f32))))?;
//!
//! let settings = Settings::default();
//! let mut vault = Vault::create(&directory, &Unlock::passphrase("correct horse"), &settings)?;
//! vault.ingest(&documents, FitOptions::default())?;
//!
//! let answer = vault.embedded()?.search(&embed(7.0), &SearchOptions::default())?;
//! assert_eq!(answer.hits[0].id, "text 7");
//! # Ok::<(), shard::Error>(())
//! ```
//!
//! # Map
//!
//! * [`Vault`]: the owner's directory: [`ingest`](Vault::ingest), [`delete`](Vault::delete),
//!   [`refit`](Vault::refit), [`rekey`](Vault::rekey), [`export`](Vault::export), and what opens it
//!   ([`Unlock`]).
//! * [`Documents`]: vectors with ids, from values in memory or, through [`input`], from files.
//! * [`Record`]: what a document of a blind collection brings back; [`Searcher::fetch`] brings it without
//!   saying which.
//! * [`TextDocument`]: a text with its fields; `Vault::add_texts` (feature `encode`) encodes and takes
//!   them, and [`Searcher::passages`] brings back a [`Passage`] for each hit.
//! * [`Filter`]: which documents a search may return, by their fields.
//! * [`Searcher`]: a collection and its server; [`Vault::embedded`] has one in this process,
//!   [`Vault::searcher`] takes any.
//! * `remote` (feature `remote`): a server over TLS; `Vault::publish`, `backup` and `restore`.
//! * `server` (feature `server`): rows on disk, served over TLS to holders of tokens.
//! * `Vault::evaluate`, `baselines` (feature `audit`): quality against raw search.
//! * `Vault::audit`, `audit` (feature `audit`): every known attack, on the owner's own data.
//! * [`Leak`]: the list of what a server learns; `docs/LEAKAGE.md` says what it is worth.
//!
//! # Features
//!
//! Default: `remote`, `server`, `audit`, `csv`, `faer`, `gzip` and `tfhe`. `parquet` reads parquet files and
//! `gzip` compressed ones. `faer` fits models faster. `tfhe` computes with tfhe-ntt beside the
//! portable transform; both give the same bytes. `slots` adds the paper's slot layout, for
//! comparison only. `encode` has text encoders: [`Vault`] takes texts with it. `csv` reads `.csv` files. Without any of them the library makes vaults, reads `.npy` and JSON lines, and
//! searches in this process.
//!
//! # Non-goals
//!
//! No hiding of which rows are asked for: see [`Leak`].

#[cfg(feature = "audit")]
pub mod audit;
#[cfg(feature = "audit")]
pub mod baselines;
mod error;
#[cfg(feature = "audit")]
pub mod evaluation;
pub mod input;
mod listening;
mod local;
pub mod planning;
mod retriever;
mod searcher;
#[cfg(feature = "server")]
pub mod server;
mod texts;
mod vault;

pub use error::Error;
pub use input::{Documents, InputError, TextDocument};
pub use listening::{Exchange, Link, Listener};
pub use local::LocalSearcher;
pub use retriever::{Retriever, is_outdated};
pub use searcher::{Opened, Searcher};
pub use texts::Passage;
#[cfg(feature = "encode")]
pub use texts::{ChunkOptions, TextOptions, encode_queries};
pub use vault::{FitOptions, UnevenLengths, Vault};

pub use shard_client::vault::{
    BackupAge, BackupNote, Commit, MIN_KEY_FILE_BYTES, PreparedRecovery, RecoveryCode,
    RecoveryCodeError, Unlock, UnlockKind, VaultAccess, VaultError,
};
pub use shard_client::{
    Answer, Balance, BlindCells, BlindCollection, CellCount, Choice, ClientError, Collection,
    Compacted, Comparison, Cost, Deleted, EncoderNote, FetchCost, FetchWay, Fetched, Figures,
    Filter, FilterError, Hit, Index, Ingested, KeyOwner, KeySchedule, LayoutChoice,
    MAX_RECORD_BYTES, Metadata, MissingIds, Model, ModelDrift, NewEpoch, Others, Position,
    Progress, Protection, Record, Records, RefitReason, SaltedEpoch, Scalar, SearchOptions,
    Settings, Timings, TransformKind, TuningRecord, UNWATCHED, Verified, Watch, WidthTried,
};
pub use shard_geometry::{
    Cells, CellsError, Pca, Ranked, Split, Transform, VectorError, VectorSet, exact_scores,
};
pub use shard_protocol::{
    CellHandle, CollectionName, CommitName, Disclosed, Epoch, Leak, MessageKind, Refusal,
    RefusalCode, Revision, Row, RowBatch, RowHandle, Transport, message_kind,
};
#[cfg(feature = "slots")]
pub use shard_rlwe::slots::SlotsParameters;
pub use shard_rlwe::{Backend, Objective, OperandScale, Plan, UnknownBackend};
pub use shard_server::Embedded;
pub use shard_store::EpochStatistics;

/// Text encoders.
#[cfg(feature = "encode")]
pub mod encode {
    pub use shard_encode::{EncodeError, Encoder, Location, LocationError, Purpose};
}

/// A server on a network, as its clients see it.
#[cfg(feature = "remote")]
pub mod remote {
    pub use shard_client::remote::{
        BackedUp, BackupError, BackupOptions, Fingerprint, FingerprintError, Head, KeptBackup,
        Lineage, ProxyAddress, PublishOptions, Published, Pulled, Remote, RemoteError,
        RemoteOptions, Restored, Retries, SecretToken, ServerAddress, Standing, Timeouts, describe,
        is_of_vault, kept_backups, standing,
    };
    pub use shard_protocol::{CollectionState, EpochState};
}
