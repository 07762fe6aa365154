//! What client and server agree on: messages, their bytes, their limits, and the list of
//! everything the server learns.
//!
//! # Concepts
//!
//! * [`Leak`] and [`Disclosed`]: the trust boundary as a type. Whatever a client sends is a
//!   ciphertext or a `Disclosed<T>`, which only [`declassify`] makes and which names the leak it
//!   belongs to. `docs/LEAKAGE.md` is the same list in words; a test holds the two together.
//! * [`CellHandle`], [`RowHandle`], [`Epoch`]: the only names the server knows. Handles are keyed
//!   pseudorandom words, fresh in every epoch.
//! * [`CommitName`] and [`Advance`]: which state of a vault the server holds, and which a publish
//!   puts in its place.
//! * [`MessageKind`] lists the messages. Each has one canonical encoding; decoding checks every
//!   length against a limit *before* it allocates and refuses anything that is not canonical.
//! * [`Operation`]: what can be asked of a collection, with the messages it takes and who may ask.
//! * [`Transport`]: how a message reaches a server, in the same process or over a network.
//!
//! # Map
//!
//! `leak` (trust boundary) · `names` (handles, epochs, collections) · `wire` (reader, header,
//! limits) · `rows`, `lineage`, `publish`, `state`, `session`, `rerank`, `blind`, `block_list`, `records`,
//! `blobs`, `many_blobs`, `refusal` (messages) · `shown` (what each shows) · `operation`, [`http`] (paths and names of the HTTP interface) · `transport`.
//!
//! The cargo feature `slots` adds the messages of the paper's slot layout (module `slots`) and the
//! leak that comes with them, `prefix-scores`. Without it they are refused by name.
//!
//! # Non-goals
//!
//! No sockets, no storage, no keys.

mod blind;
mod blobs;
mod block_list;
pub mod http;
mod leak;
mod lineage;
mod many_blobs;
mod names;
mod operation;
mod publish;
mod records;
mod refusal;
mod rerank;
mod rows;
mod session;
mod shown;
#[cfg(feature = "slots")]
mod slots;
mod state;
#[cfg(test)]
mod tests;
mod transport;
mod wire;

pub use blind::{BlindAnswer, BlindQuery, Table};
pub use blobs::{Blob, BlobList, DeleteBlob, FetchBlob, FetchShared, ListBlobs, PutBlob};
pub use block_list::{BlockList, BlockListError};
pub use leak::{Disclosed, Leak, declassify};
pub use lineage::{ActivateEpoch, Advance, BeginPublish, ResetCollection};
pub use many_blobs::{Blobs, FetchBlobs, FetchSharedMany, PutBlobs};
pub use names::{
    BlobName, CellHandle, CollectionName, CommitName, Epoch, NameError, Revision, RowHandle, RowMac,
};
pub use operation::{Access, Operation};
pub use publish::{DeleteRows, ListMacs, PublishRows, RowMacs};
pub use records::{RecordList, RecordListError};
pub use refusal::{Refusal, RefusalCode};
pub use rerank::{CandidateError, Candidates, RerankRequest, RerankResponse};
pub use rows::{Row, RowBatch};
pub use session::{OpenSession, SessionId};
pub use shown::leaks_of;
#[cfg(feature = "slots")]
pub use slots::{OpenSlotsSession, SlotsRequest, SlotsResponse};
pub use state::{CollectionState, EpochState};
pub use transport::Transport;
pub use wire::{DecodeError, Limits, MessageKind, WIRE_VERSION, message_kind};
