//! What client and server agree on: messages, their bytes, their limits, and the list of
//! everything the server learns.
//!
//! # Concepts
//!
//! * [`Leak`] and [`Disclosed`]: the trust boundary as a type. Whatever a client sends is a
//!   ciphertext or a `Disclosed<T>`, which only [`declassify`] makes and which names the leak it
//!   belongs to. `docs/LEAKAGE.md` is the same list in words; a test holds the two together.
//! * [`CellHandle`], [`RowHandle`], [`Epoch`]: the only names the server knows. Tags and handles
//!   are keyed pseudorandom words, fresh in every epoch.
//! * [`MessageKind`] lists the messages. Each has one canonical encoding; decoding checks every
//!   length against a limit *before* it allocates and refuses anything that is not canonical.
//!
//! # Map
//!
//! `leak` (trust boundary) · `names` (tags, handles, epochs) · `wire` (reader, header, limits) ·
//! `rows`, `publish`, `session`, `rerank`, `slots`, `blobs`, `refusal` (messages).
//!
//! # Non-goals
//!
//! No network, no storage, no keys.

mod blobs;
mod leak;
mod names;
mod publish;
mod refusal;
mod rerank;
mod rows;
mod session;
mod slots;
#[cfg(test)]
mod tests;
mod wire;

pub use blobs::{Blob, BlobList, DeleteBlob, FetchBlob, PutBlob};
pub use leak::{Disclosed, Leak, declassify};
pub use names::{
    BlobName, CellHandle, CollectionName, Epoch, NameError, Revision, RowHandle, RowMac,
};
pub use publish::{
    ActivateEpoch, CollectionState, DeleteRows, EpochState, ListMacs, PublishRows, RowMacs,
};
pub use refusal::{Refusal, RefusalCode};
pub use rerank::{CandidateError, Candidates, RerankRequest, RerankResponse};
pub use rows::{Row, RowBatch};
pub use session::{OpenSession, SessionId};
pub use slots::{OpenSlotsSession, SlotsRequest, SlotsResponse};
pub use wire::{Access, DecodeError, Limits, MessageKind, WIRE_VERSION, message_kind};
