//! The data owner's side of Shard: vault, keys, protect, search.
//!
//! # Concepts
//!
//! * [`vault`]: the owner's directory, sealed and atomic.
//! * [`Model`]: what is fitted to the documents: basis, split, cells. A secret.
//! * [`KeySchedule`]: every key and every name the server knows, from one master secret.
//! * [`ingest`]: a document's journey. [`Searcher::search`]: a query's journey. Each reads top
//!   to bottom in one file, `protect` and `search`.
//! * [`Transport`]: how a request reaches a server; the embedded one and a network look alike.
//!
//! # Non-goals
//!
//! No server (this crate never depends on it), no text encoders, no files but the vault's own.

mod canary;
mod collection;
mod error;
mod index;
mod keys;
mod model;
mod payload;
mod protect;
mod search;
mod session;
mod settings;
mod slots;
mod transport;
pub mod vault;

pub use collection::{
    Collection, Documents, Ingested, create_vault, ingest, release, stored_vectors, vault_settings,
};
pub use error::ClientError;
pub use index::Index;
pub use keys::{KeyOwner, KeySchedule};
pub use model::{Model, TuningRecord, WidthTried};
pub use payload::PayloadError;
pub use search::{Answer, Cost, LayoutChoice, SearchOptions, Searcher, Timings};
pub use settings::{CellCount, Choice, Settings, TransformKind};
pub use transport::Transport;
