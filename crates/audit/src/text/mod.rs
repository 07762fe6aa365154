//! Reading words out of vectors.
//!
//! An attacker who has texts of the same kind, with their vectors, learns to tell words from
//! vectors ([`decoder`]), estimates the owner's vectors from what the server has ([`views`]), and
//! reads them. The judge ([`trial`]) has the texts. [`channel()`] does it on the owner's data,
//! [`reproduce_text`] on the paper's grid, with planted identifiers ([`records`], [`encoder`]) beside.

pub mod bleu;
pub mod channel;
pub mod decoder;
pub mod encoder;
mod experiment;
pub mod records;
mod scene;
pub mod table;
pub mod tokens;
pub mod trial;
pub mod views;

pub use channel::{channel, export_views};
pub use table::reproduce_text;
