//! The data owner's side of Shard: vault, keys, protect, search.
//!
//! # Concepts
//!
//! * [`vault`]: the owner's directory, sealed and atomic.
//! * [`Model`]: what is fitted to the documents: basis, split, cells. A secret.
//! * [`KeySchedule`]: every key and every name the server knows, from one master secret.
//! * [`ingest`], [`delete_documents`], [`refit`], [`rekey`]: what changes a collection, each all or
//!   nothing. [`ModelDrift`] says when a refit is due. [`export_query_vault`]: a vault that can only
//!   search.
//! * `protect`: a document's journey. [`Searcher::search`]: a query's journey. Each reads top
//!   to bottom in one file, `protect` and `search`.
//! * [`Transport`]: how a request reaches a server; the embedded one and a network look alike.
//!
//! # Non-goals
//!
//! No server (this crate never depends on it), no text encoders, no files but the vault's own.

mod canary;
mod collection;
mod drift;
mod error;
mod index;
mod keys;
mod model;
mod payload;
mod pool;
mod protect;
pub mod remote;
mod search;
mod session;
mod settings;
#[cfg(feature = "slots")]
mod slots;
mod transport;
pub mod vault;

pub use collection::{
    Collection, Deleted, Documents, Ingested, MissingIds, NewEpoch, create_vault, delete_documents,
    export_query_vault, ingest, model_drift, published_rows, refit, rekey, stored_vectors,
    synchronise, vault_settings,
};
pub use drift::{Balance, Figures, ModelDrift, RefitReason};
pub use error::ClientError;
pub use index::Index;
pub use keys::{KeyOwner, KeySchedule, ROW_MAC_BYTES, SaltedEpoch};
pub use model::{Model, TuningRecord, WidthTried};
pub use payload::PayloadError;
pub use search::{Answer, Cost, LayoutChoice, SearchOptions, Searcher, Timings};
pub use settings::{CellCount, Choice, Settings, TransformKind};
pub use shard_protocol::Transport;
