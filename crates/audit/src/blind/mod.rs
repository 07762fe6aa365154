//! The audit of a blind collection: the attacks on rows, tried on ciphertexts, and what the server sees
//! without one.
//!
//! The server holds blocks `b = M + e - a s - a' s'`, receives queries of the same form and computes
//! answers from both. Attacks on rows need rows: [`reading`] takes ciphertexts for some, in ways that
//! need no key. What comes out should be noise, and every attack should do as well as guessing.
//! That an attack fails says something only if it would have found a leak, so each is also run on the
//! first reading with the vectors mixed in ([`limit`]): the weakest mixture that it finds is its detection
//! limit. Chance is told from a leak by evidence of [`ALARM`](crate::tools::evidence::ALARM) digits.
//!
//! - [`reading`]: ciphertexts as rows;
//! - [`attacks`]: what is tried on them;
//! - [`limit`]: planted leaks, verdicts, detection limits;
//! - [`channels`]: the sections of the report;
//! - [`seen`]: what needs no attack.

use shard_rlwe::blind::{RecordShape, Shape};

use crate::subject::Subject;
use crate::tools::matrix::Matrix;

pub mod attacks;
pub mod channels;
pub mod limit;
pub mod reading;
pub mod seen;

/// A blind collection under audit.
pub struct BlindSubject {
    /// The stored blocks, in each way that they are read. There is at least one.
    pub readings: Vec<Reading>,
    /// Blocks before and after a change.
    pub changes: Changes,
    /// Requests for the same and for different queries.
    pub requests: Requests,
    /// Words that should be noise.
    pub streams: Vec<Stream>,
    /// What was counted.
    pub seen: Seen,
    /// The seed of all randomness of the audit.
    pub seed: u64,
}

/// Ciphertexts read as rows. The newest release of the subject is what the server holds; one before it
/// has the same rows under the keys of another epoch. Rows of a block have one cell.
pub struct Reading {
    /// In settings of findings.
    pub name: &'static str,
    /// Rows, and what guesses are judged by.
    pub subject: Subject,
}

/// Blocks that were encrypted again with some of their rows replaced.
pub struct Changes {
    /// The difference of every row, before and after, as coefficients.
    pub differences: Matrix,
    /// Which rows were replaced.
    pub changed: Vec<bool>,
}

/// Requests, each query asked twice.
pub struct Requests {
    /// The queries.
    pub queries: Matrix,
    /// What the server has of the first and of the second request of each, by how it is read.
    pub readings: Vec<(&'static str, [Matrix; 2])>,
}

/// Words below a modulus, in pieces of one length.
pub struct Stream {
    /// Whose they are, in settings of findings.
    pub of: &'static str,
    /// How they are read.
    pub reading: &'static str,
    /// The modulus.
    pub modulus: u64,
    /// The pieces.
    pub pieces: Vec<Vec<u64>>,
}

/// What the server sees without an attack.
pub struct Seen {
    /// How rows lie in blocks.
    pub shape: Shape,
    /// Documents.
    pub documents: usize,
    /// Blocks of rows.
    pub blocks: usize,
    /// Blocks of checks.
    pub checks: usize,
    /// Bytes of blocks, hints, checks and records.
    pub stored_bytes: usize,
    /// Bytes of every recorded request and of its answer, as a search of this vault makes them.
    pub requests: Vec<(usize, usize)>,
    /// Cells that blocks are grouped by, if they are.
    pub cells: Option<SeenCells>,
    /// Records, if there are any.
    pub records: Option<SeenRecords>,
}

/// What the server sees of cells.
pub struct SeenCells {
    /// Blocks of every cell.
    pub blocks: Vec<usize>,
    /// Cells that a search asks for unless it says how many.
    pub probe: usize,
    /// The cell of every document that is attacked.
    pub of_documents: Vec<u32>,
    /// The cells that the recorded request for every query asks for; all of them where it names none.
    pub asked: Vec<Vec<usize>>,
    /// The same for a query near each, by its jitter.
    pub near: Vec<(f64, Vec<Vec<usize>>)>,
}

impl SeenCells {
    /// Whether requests name cells. One that asks for all names none.
    pub fn are_named(&self) -> bool {
        self.asked.iter().any(|cells| cells.len() < self.blocks.len())
    }
}

/// What the server sees of records.
pub struct SeenRecords {
    /// How slots lie in pages.
    pub shape: RecordShape,
    /// Of every recorded private fetch the slots that were asked for, its bytes and those of its answer.
    pub fetches: Vec<(usize, usize, usize)>,
}

#[cfg(test)]
pub(crate) mod tests;
