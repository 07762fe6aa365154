//! Text encoders: from texts to vectors.
//!
//! # Purpose
//! Shard ranks vectors. This crate makes them: an [`Encoder`] is opened once and turns texts into rows of `f32`, on this
//! machine by a model in a folder, or by an endpoint that speaks the embeddings interface of OpenAI.
//!
//! # Concepts
//! - A **location** ([`Location`]) says where the encoder is: a folder, or an address with the name of a model.
//! - A **purpose** ([`Purpose`]) says what a text is encoded for. Some models (e5, bge) want other words in front of a
//!   query than in front of a passage; the model's own files say which.
//! - The **identity** ([`Encoder::identity`]) names everything the vectors depend on. Vectors of two encoders with
//!   different identities must not be compared.
//! - **Pieces** ([`Encoder::pieces`]) are ranges of a long text that each fit the model.
//!
//! # Modules
//! | module | content |
//! |---|---|
//! | `location` | [`Location`], as people write it |
//! | `encoder` | [`Encoder`]: the front door |
//! | `folder` | what lies in a model's folder: files within limits, settings, weights, the tokenizer |
//! | `bert` | the forward pass of the BERT family |
//! | `fixed` | embeddings that are looked up and averaged (model2vec, WordLlama) |
//! | `endpoint` | `/v1/embeddings` over HTTP, with the feature `endpoint` |
//! | `pieces` | how a long text is cut |
//!
//! The forward pass is our own: matrix products by faer, everything between them in loops that the compiler turns into
//! vector instructions. Texts of a batch lie one behind the other without padding, so nothing is computed that is not
//! used and no mask exists.
//!
//! # Non-goals
//! No training, no graphics processors, no downloads, no generation of text. Decoders (Llama, Qwen) and models with
//! rotary positions run behind an endpoint.

mod bert;
mod encoder;
#[cfg(feature = "endpoint")]
mod endpoint;
mod error;
mod fixed;
mod folder;
mod location;
mod pieces;

pub use encoder::{Encoder, Purpose};
pub use error::EncodeError;
pub use location::{Location, LocationError};
