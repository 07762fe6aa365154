//! The data owner's side of Shard: vault, keys, protect, search.
//!
//! # Concepts
//!
//! * [`vault`]: the owner's directory, sealed and atomic.
//! * [`Collection`]: a vault opened for use: [`Model`], [`Index`] and [`KeySchedule`] together. It
//!   borrows nothing, so it can be shared between threads and searchers.
//! * [`BlindCollection`]: the same of a vault whose rows are encrypted: the places of all rows and the
//!   keys of its blocks. [`Protection`] says which of the two a vault is.
//! * [`ingest`], [`delete_documents`], [`refit`], [`rekey`], [`compact`]: what changes a collection,
//!   each all or nothing; [`set_records`]: what documents of a blind one bring back. [`ModelDrift`] says when a refit is due. [`export_query_vault`]: a vault that can only
//!   search.
//! * [`Searcher`]: searches through a server, and holds what outlives one search.
//! * [`Transport`]: how a request reaches a server; the embedded one and a network look alike.
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | [`vault`] | sealed values, commits, passphrases |
//! | `settings`, `model` | what the owner asks for; what is fitted to the documents: basis, split, cells |
//! | `keys` | every key and every name that the server knows, from one master secret |
//! | `index` | what the client keeps of every row |
//! | `collection` | what changes a collection, and the way into it |
//! | `blind` | the same where rows are encrypted and lie in blocks |
//! | `protect` | a document's journey to a stored row |
//! | `filter` | which documents a search may return, by their fields |
//! | `encoder_note` | what the vault knows of the encoder of its texts |
//! | `drift` | whether the model still fits |
//! | `search` | a query's journey |
//! | `session` | secrets that serve more than one request |
//! | `transport` | one message and its answer |
//! | `remote` | a server over the network, publishing, pulling, backups (feature `remote`) |
//! | `payload`, `progress`, `error` | encoding of a vault's values; how far work has come; [`ClientError`] |
//!
//! # Features
//!
//! `remote`: the module of that name, with its HTTP and TLS. `slots`: searches in the paper's slot
//! layout, which production servers do not know. Both are off by default.
//!
//! # Non-goals
//!
//! No server (this crate never depends on it), no text encoders, no files but the vault's own.

mod blind;
#[cfg_attr(
    not(feature = "remote"),
    allow(dead_code, unused_imports, reason = "copies of a vault meet on a server only")
)]
mod collection;
mod drift;
mod encoder_note;
mod error;
mod filter;
mod index;
mod keys;
mod model;
mod payload;
mod progress;
mod protect;
#[cfg(feature = "remote")]
pub mod remote;
mod search;
mod session;
mod settings;
mod transport;
#[cfg_attr(
    not(feature = "remote"),
    allow(dead_code, unused_imports, reason = "copies of a vault meet on a server only")
)]
pub mod vault;

pub use blind::{
    BlindCells, BlindCollection, BlindHead, BlindSearcher, BlockPlaces, Compacted, FetchCost,
    FetchWay, Fetched, Filling, Hints, MAX_RECORD_BYTES, Metadata, NOT_FIELDS, Record, Records,
    SECRET_BYTES, SLOT_BYTES, SLOT_PAYLOAD, block_file_name, compact, fill_server, set_records,
    stored_records, stored_records_of,
};
pub use collection::{
    Collection, Deleted, DerivedRows, Documents, Ingested, Intake, MissingIds, NewEpoch, Others,
    Position, Verified, create_vault, delete_documents, export_query_vault, ingest, model_drift,
    published_rows, refit, rekey, stored_documents, stored_vectors, synchronise, take_in,
    vault_settings, verify_vault,
};
pub use drift::{Balance, Figures, ModelDrift, RefitReason};
pub use encoder_note::{EncoderNote, encoder_note};
pub use error::ClientError;
pub use filter::{Comparison, Filter, FilterError, Scalar};
pub use index::Index;
pub use keys::{KeyOwner, KeySchedule, ROW_MAC_BYTES, SaltedEpoch};
pub use model::{Model, TuningRecord, WidthTried};
pub use payload::PayloadError;
pub use progress::{Progress, UNWATCHED, Watch};
pub use search::{Answer, Cost, Hit, LayoutChoice, SearchOptions, Searcher, Timings};
pub use settings::{CellCount, Choice, Protection, Settings, TransformKind};
pub use shard_protocol::Transport;
