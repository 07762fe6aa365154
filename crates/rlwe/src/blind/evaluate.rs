//! The server's side: products of stored blocks with queries.

use rayon::prelude::*;

use super::kernel::Fold;
use super::modulus::{DEGREE, Switch, inverse_of};
use super::shape::{SCORE_BITS, Shape};
use super::words::{Block, Factor};
use crate::pack::{PackError, pack, unpack};

/// Blocks that one task takes: enough to keep a core busy for some tens of microseconds.
const TASK: usize = 16;

/// Bytes that are no query of this shape.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
#[error("a query of {actual} bytes: {expected} were expected, or a word is too large")]
pub struct QueryError {
    /// Bytes of a query of the shape.
    pub expected: usize,
    /// Bytes given.
    pub actual: usize,
}

/// The answer was not computed from the blocks that the owner stored.
///
/// One error whatever was wrong: what is different about two forgeries must not be told to whoever
/// made them.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
#[error("the answer is false: it was not computed from what was published")]
pub struct Forged;

/// A query, ready to be multiplied.
#[derive(Clone)]
pub struct PreparedQuery(Factor);

/// Evaluates queries over the blocks of one shape.
pub struct Server {
    shape: Shape,
    pub(super) fold: Fold,
}

impl Server {
    /// The server of a shape.
    pub fn new(shape: Shape) -> Self {
        Self { shape, fold: Fold::to(shape.rows_per_block()) }
    }

    /// Its shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Takes a query from the wire.
    pub fn prepare(&self, bytes: &[u8]) -> Result<PreparedQuery, QueryError> {
        let tiles = self.shape.tiles();
        let refused = QueryError { expected: self.shape.query_bytes(), actual: bytes.len() };
        let query = Block::from_bytes(tiles, bytes).ok_or(refused)?;
        let unfold = inverse_of(self.shape.tile());
        let mut factor = Factor::zero(tiles);
        let mut values = vec![0; DEGREE];
        for t in 0..tiles {
            query.take(t, &mut values);
            factor.put(t, &values, unfold);
        }
        Ok(PreparedQuery(factor))
    }

    /// The answers to queries that share a pass over the blocks, on all cores: for every query the
    /// wanted coefficients of every block, switched to 24 bits.
    pub fn answer(&self, blocks: &[&Block], queries: &[&PreparedQuery]) -> Vec<Vec<u8>> {
        let mut answers =
            vec![Vec::with_capacity(self.shape.answer_bytes(blocks.len())); queries.len()];
        let parts: Vec<Vec<Vec<u8>>> =
            blocks.par_chunks(TASK).map(|blocks| self.answer_part(blocks, queries)).collect();
        for part in parts {
            for (answer, part) in answers.iter_mut().zip(part) {
                answer.extend_from_slice(&part);
            }
        }
        answers
    }

    /// [`Server::answer`] for a few blocks, on this thread.
    pub fn answer_part(&self, blocks: &[&Block], queries: &[&PreparedQuery]) -> Vec<Vec<u8>> {
        let switch = Switch::to(SCORE_BITS);
        let factors: Vec<&Factor> = queries.iter().map(|query| &query.0).collect();
        let mut parts =
            vec![Vec::with_capacity(self.shape.answer_bytes(blocks.len())); queries.len()];
        self.fold.products(blocks, &factors, |query, _, coefficients| {
            pack(coefficients.iter().map(|&c| switch.apply(c)), SCORE_BITS, &mut parts[query]);
        });
        parts
    }
}

/// An answer as it came: one residue for every place of every block, checks last.
pub struct Answer {
    residues: Vec<u64>,
    places: usize,
}

impl Answer {
    /// Takes an answer of so many blocks, checks included, from the wire.
    pub fn from_bytes(shape: &Shape, blocks: usize, bytes: &[u8]) -> Result<Self, PackError> {
        let expected = shape.answer_bytes(blocks);
        if bytes.len() != expected {
            return Err(PackError::Length { expected, actual: bytes.len() });
        }
        let places = shape.rows_per_block();
        let switch = Switch::to(SCORE_BITS);
        let mut residues = vec![0; blocks * places];
        let parts = bytes.chunks_exact(shape.block_answer_bytes());
        for (part, residues) in parts.zip(residues.chunks_exact_mut(places)) {
            unpack(part, SCORE_BITS, places, |at, value| residues[at] = switch.lift(value))?;
        }
        Ok(Self { residues, places })
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> usize {
        self.residues.len() / self.places
    }

    pub(super) fn block(&self, block: usize) -> &[u64] {
        &self.residues[block * self.places..(block + 1) * self.places]
    }
}
