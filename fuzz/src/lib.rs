//! What the fuzz targets in `tests/` share: sound messages, and scripts that damage them.
//!
//! Noise alone never gets past a magic number, and a length that is off by a little is worth more
//! than one that is off by a lot. So a target's input is, besides noise itself, a *script*: edits
//! that [`damage`] makes to a sound message from [`messages`].
//!
//! # Invariants
//!
//! 1. Decoding never panics.
//! 2. Whatever decodes encodes to the bytes it came from and never panics later: requests are
//!    served, responses are opened.
//!
//! # Non-goals
//!
//! The readers of vectors (`npy`, `jsonl`, `parquet`) are private to the command line, which
//! tests them itself. Whether scores are right is the business of the crates' own tests.

mod damage;
pub mod messages;
pub mod opened;

pub use damage::{damage, stretch};

/// Longest script worth drawing: eight edits.
pub const SCRIPT_BYTES: usize = 8 * damage::EDIT_BYTES;
