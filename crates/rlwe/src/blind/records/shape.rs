//! How slots lie in columns, and how many bytes that makes.

use super::super::modulus::{DEGREE, MODULUS};
use super::super::shape::{HINT_BITS, QueryRank, SCORE_BITS};
use super::super::words::Block;
use super::{MOST_TILES, WORD_BITS};
use crate::pack::packed_len;
use crate::sample::ERROR_VARIANCE;

/// Slots that are stored together: a page.
pub const PAGE_SLOTS: usize = 32;

/// Bytes of a slot at most.
const MOST_SLOT_BYTES: usize = 1 << 16;

/// Pages at most: as many as a list of them can have.
pub const MOST_PAGES: usize = 1 << 20;

/// A shape that cannot be.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum RecordShapeError {
    /// No pages, or too many.
    #[error("{0} pages of records: from 1 to {MOST_PAGES} are possible")]
    Pages(usize),
    /// Slots of no bytes, of an odd number, or of too many.
    #[error("slots of {0} bytes: an even number from 2 to {MOST_SLOT_BYTES} is supported")]
    SlotBytes(usize),
}

/// Slots of a fixed number of bytes, in pages, as the columns of segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordShape {
    pages: usize,
    slot_bytes: usize,
    query_rank: QueryRank,
}

impl RecordShape {
    /// Checks the number of pages and the bytes of a slot.
    pub fn new(
        pages: usize,
        slot_bytes: usize,
        query_rank: QueryRank,
    ) -> Result<Self, RecordShapeError> {
        if !(1..=MOST_PAGES).contains(&pages) {
            return Err(RecordShapeError::Pages(pages));
        }
        if !(2..=MOST_SLOT_BYTES).contains(&slot_bytes) || !slot_bytes.is_multiple_of(2) {
            return Err(RecordShapeError::SlotBytes(slot_bytes));
        }
        Ok(Self { pages, slot_bytes, query_rank })
    }

    /// Pages.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Slots of all pages.
    pub fn slots(&self) -> usize {
        self.pages * PAGE_SLOTS
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        PAGE_SLOTS * self.slot_bytes
    }

    /// How many secrets hide a query.
    pub fn query_rank(&self) -> QueryRank {
        self.query_rank
    }

    /// Words of a slot: rows of a segment.
    pub fn words(&self) -> usize {
        self.slot_bytes / 2
    }

    /// Polynomials of a row, all segments together.
    fn all_tiles(&self) -> usize {
        self.slots().div_ceil(DEGREE)
    }

    /// Polynomials of a query, `T`, and of a row of every segment but the last.
    pub fn tiles(&self) -> usize {
        self.all_tiles().min(MOST_TILES)
    }

    /// Columns of every segment but the last, `C`.
    pub fn columns(&self) -> usize {
        self.tiles() * DEGREE
    }

    /// How many segments there are.
    pub fn segments(&self) -> usize {
        self.all_tiles().div_ceil(self.tiles())
    }

    /// Polynomials of a row of a segment: the last one may have fewer.
    pub fn tiles_of(&self, segment: usize) -> usize {
        self.tiles().min(self.all_tiles() - segment * self.tiles())
    }

    /// The segment of a slot and its column there.
    pub fn column_of(&self, slot: usize) -> (usize, usize) {
        (slot / self.columns(), slot % self.columns())
    }

    /// The slot in a column of a segment, if there is one.
    pub fn slot_at(&self, segment: usize, column: usize) -> Option<usize> {
        let slot = segment * self.columns() + column;
        (slot < self.slots()).then_some(slot)
    }

    /// The pages whose slots are in a segment.
    pub fn pages_of(&self, segment: usize) -> std::ops::Range<usize> {
        let each = self.columns() / PAGE_SLOTS;
        segment * each..((segment + 1) * each).min(self.pages)
    }

    /// Bytes of an encrypted query.
    pub fn query_bytes(&self) -> usize {
        Block::byte_len(self.tiles())
    }

    /// Bytes of the answer to one query.
    pub fn answer_bytes(&self) -> usize {
        self.segments() * self.segment_answer_bytes()
    }

    /// Bytes of the answer of one segment.
    pub(super) fn segment_answer_bytes(&self) -> usize {
        packed_len(self.words(), SCORE_BITS)
    }

    /// Bytes of the hint of one segment, before it is sealed.
    pub fn hint_bytes(&self) -> usize {
        self.words() * self.word_hint_bytes()
    }

    /// Bytes of the hint of one word.
    pub(super) fn word_hint_bytes(&self) -> usize {
        self.query_rank.secrets() * packed_len(DEGREE, HINT_BITS)
    }

    /// Bytes that all segments take in the memory of a server.
    pub fn memory_bytes(&self) -> usize {
        self.words() * Block::byte_len(self.all_tiles())
    }

    /// Bytes that a segment takes there.
    pub fn segment_bytes(&self, segment: usize) -> usize {
        self.words() * Block::byte_len(self.tiles_of(segment))
    }

    /// Residues of all segments that a query is multiplied with.
    pub fn residues(&self) -> usize {
        self.words() * self.all_tiles() * DEGREE
    }

    /// The deviation of an opened word before it is rounded, by the formula above.
    pub fn word_error(&self) -> f64 {
        let p = 2_f64.powi(WORD_BITS as i32);
        let query = p * p / MODULUS as f64 * (self.columns() as f64 * ERROR_VARIANCE / 12.0).sqrt();
        let rounding = |bits: u32| (p / 2_f64.powi(bits as i32)).powi(2) / 12.0;
        let hints = self.query_rank.secrets() as f64 * (2 * DEGREE) as f64 / 3.0;
        (query.powi(2) + rounding(SCORE_BITS) + hints * rounding(HINT_BITS)).sqrt()
    }
}
