//! The server's side: slots as polynomials, and products with queries.

use rayon::prelude::*;

use super::super::evaluate::QueryError;
use super::super::kernel::Fold;
use super::super::modulus::{DEGREE, Switch, inverse_of, reduce_signed, transform};
use super::super::shape::SCORE_BITS;
use super::super::words::{Block, Factor};
use super::RecordShape;
use crate::pack::pack;

/// The slots of a segment, ready to be multiplied: one block for every word of a slot.
#[derive(Clone)]
pub struct Segment {
    rows: Vec<Block>,
}

impl Segment {
    /// A segment of a shape whose slots are all zero.
    pub fn zero(shape: &RecordShape, segment: usize) -> Self {
        Self { rows: vec![Block::zero(shape.tiles_of(segment)); shape.words()] }
    }

    /// Sets the slots of tile number `tile`, on all cores: up to `N` slots, one after the other. Those that
    /// are missing are zero.
    ///
    /// # Panics
    /// If there are more, or the segment has no such tile.
    pub fn put(&mut self, tile: usize, slots: &[u8]) {
        let slot_bytes = 2 * self.rows.len();
        assert!(slots.len() <= DEGREE * slot_bytes, "a tile of slots");
        // The words of a slot lie side by side, and a row wants one of each: taken a few at a time, every
        // line of memory is read once.
        self.rows.par_chunks_mut(ROWS_TOGETHER).enumerate().for_each(|(some, rows)| {
            let mut values = vec![vec![0; DEGREE]; rows.len()];
            let first = 2 * some * ROWS_TOGETHER;
            for (column, slot) in slots.chunks_exact(slot_bytes).enumerate() {
                for (values, word) in values.iter_mut().zip(slot[first..].as_chunks().0) {
                    let (at, value) = place(column, *word);
                    values[at] = value;
                }
            }
            for (row, values) in rows.iter_mut().zip(&mut values) {
                transform().forward(values);
                row.put(tile, values);
            }
        });
    }

    /// Blocks: one for every word of a slot.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }
}

/// Rows whose words are taken together.
const ROWS_TOGETHER: usize = 16;

/// Where the word of a column is, and as what: the coefficient of `X^-column`, signed.
#[inline(always)]
pub(super) fn place(column: usize, word: [u8; 2]) -> (usize, u64) {
    let word = i64::from(i16::from_le_bytes(word));
    if column == 0 { (0, reduce_signed(word)) } else { (DEGREE - column, reduce_signed(-word)) }
}

/// A query, ready to be multiplied.
#[derive(Clone)]
pub struct PreparedFetch {
    whole: Factor,
    /// As many tiles as the last segment has, where those are fewer.
    last: Option<Factor>,
}

/// Evaluates fetches over the segments of one shape.
pub struct RecordServer {
    shape: RecordShape,
    pub(super) fold: Fold,
}

impl RecordServer {
    /// The server of a shape.
    pub fn new(shape: RecordShape) -> Self {
        Self { shape, fold: Fold::to(1) }
    }

    /// Its shape.
    pub fn shape(&self) -> &RecordShape {
        &self.shape
    }

    /// Takes a query from the wire.
    pub fn prepare(&self, bytes: &[u8]) -> Result<PreparedFetch, QueryError> {
        let (tiles, shape) = (self.shape.tiles(), &self.shape);
        let refused = QueryError { expected: shape.query_bytes(), actual: bytes.len() };
        let query = Block::from_bytes(tiles, bytes).ok_or(refused)?;
        let factor = |tiles: usize| {
            let mut factor = Factor::zero(tiles);
            let mut values = vec![0; DEGREE];
            for t in 0..tiles {
                query.take(t, &mut values);
                factor.put(t, &values, inverse_of(DEGREE));
            }
            factor
        };
        let last = shape.tiles_of(shape.segments() - 1);
        Ok(PreparedFetch { whole: factor(tiles), last: (last < tiles).then(|| factor(last)) })
    }

    /// The answers of some words of a segment to some queries, switched to 24 bits: those of all
    /// words, one range after the other, and of all segments, one after the other, are the answer.
    ///
    /// # Panics
    /// If the words are not those of a slot.
    pub fn answer_part(
        &self,
        number: usize,
        segment: &Segment,
        words: std::ops::Range<usize>,
        queries: &[&PreparedFetch],
    ) -> Vec<Vec<u8>> {
        let switch = Switch::to(SCORE_BITS);
        let is_short = self.shape.tiles_of(number) < self.shape.tiles();
        let factors: Vec<&Factor> = queries
            .iter()
            .map(|query| query.last.as_ref().filter(|_| is_short).unwrap_or(&query.whole))
            .collect();
        let rows: Vec<&Block> = segment.rows[words].iter().collect();
        let mut parts = vec![Vec::with_capacity(3 * rows.len()); queries.len()];
        self.fold.products(&rows, &factors, |query, _, coefficients| {
            pack(coefficients.iter().map(|&c| switch.apply(c)), SCORE_BITS, &mut parts[query]);
        });
        parts
    }
}
