//! Collections of other vector stores, read into one form.
//!
//! A reader takes what another store keeps (a file, a directory, a server) and gives back ids, vectors and
//! whatever else each document had. Nothing is dropped in silence: what the source says it holds is compared
//! with what was read, and a document that cannot be taken is in [`Imported::refused`] with the reason.
//!
//! # Map
//!
//! | module | reads |
//! |---|---|
//! | [`faiss`] | a file of `faiss.write_index` |
//! | [`chroma`] | the directory of a persistent Chroma client |
//! | [`qdrant`] | a collection of a Qdrant server, by its scroll API |
//! | [`pgvector`] | a table of PostgreSQL with pgvector: a CSV of `COPY`, or a server (feature `postgres`) |
//! | `collect` | gathers documents and checks each |
//! | `bytes` | a file of known length, read under limits |
//! | `tls` | which servers are trusted |
//! | [`error`] | what can be wrong with a source |
//!
//! # Non-goals
//!
//! No writing, no search in the other store, no decoding of vectors that it compressed with loss beyond what
//! it would give back itself. This crate knows nothing of vaults.

mod bytes;
pub mod chroma;
mod collect;
pub mod error;
pub mod faiss;
pub mod pgvector;
pub mod qdrant;
mod tls;

use serde_json::{Map, Value};

pub use error::ImportError;

/// The longest vector that is read.
pub const MAX_DIMENSION: usize = 65_536;

/// A collection of another store.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Imported {
    /// Ids: none is empty, none occurs twice.
    pub ids: Vec<String>,
    /// Values per vector.
    pub dimension: usize,
    /// The vectors, one after the other, in the order of the ids; all values are finite.
    pub vectors: Vec<f32>,
    /// Whatever else there was: text, title, metadata; one JSON object per document, without the id.
    pub fields: Vec<Map<String, Value>>,
    /// How many documents the source says it holds: those above and those refused.
    pub claimed: usize,
    /// Documents that the source holds and that cannot be taken.
    pub refused: Vec<Refused>,
    /// What else there is to know, in words.
    pub notes: Vec<String>,
}

impl Imported {
    /// The vector of a document.
    ///
    /// # Panics
    /// When there is no such document.
    pub fn vector(&self, document: usize) -> &[f32] {
        &self.vectors[document * self.dimension..][..self.dimension]
    }
}

/// A document that cannot be taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Its id in the source, or its place there where it has none.
    pub id: String,
    /// Why.
    pub reason: Reason,
}

/// Why a document cannot be taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The source has no vector for it.
    #[error("no vector")]
    NoVector,
    /// A value is not a finite number.
    #[error("a value of the vector is not a finite number")]
    NotFinite,
    /// Every value is zero.
    #[error("the vector is zero, which has no direction")]
    Zero,
    /// The vector is shorter or longer than those before.
    #[error("the vector is of another dimension than those before")]
    Dimension,
    /// The source has no id for it.
    #[error("no id")]
    NoId,
    /// The id was there before.
    #[error("the id occurs twice; the first was taken")]
    Duplicate,
}
