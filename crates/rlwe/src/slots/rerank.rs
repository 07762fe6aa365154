//! Reranking in slots, as the paper runs it.
//!
//! Vectors of width `d` take blocks of `W`, the next power of two. A query ciphertext carries the
//! vectors of `B` active cells (`B = 1`: one cell, the paper's width-1 path), cell `c` in block
//! `c mod B` of ciphertext `floor(c / B)`. A candidate's row is the plain operand in its cell's
//! block and zero elsewhere, so
//!
//! ```text
//! sum over slots of (query . operand) = <t_c, z> .
//! ```
//!
//! Since everything outside the block is zero, summing the `W` slots of the block is enough: the
//! score lands in the block's first slot after `log2 W` rotations, however wide the ciphertext.
//! (The paper's library sums the whole logical vector, `log2 (B W)` rotations for the same
//! number.) One response ciphertext per candidate.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::evaluate::{SlotsCiphertext, SlotsError};
use super::keys::{ClientContext, ServerContext};
use super::parameters::SlotsParameters;
use super::rotate::Scratch;
use crate::sample::Entropy;

/// How vectors of one width are packed into ciphertexts of one parameter set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotsLayout {
    parameters: SlotsParameters,
    width: usize,
    blocks: usize,
}

impl SlotsLayout {
    /// `blocks` vectors of `width` coordinates per ciphertext, each padded to a power of two.
    pub fn new(
        parameters: SlotsParameters,
        width: usize,
        blocks: usize,
    ) -> Result<Self, SlotsError> {
        let slots = parameters.slots();
        let span = width.checked_next_power_of_two().filter(|_| width > 0 && blocks > 0);
        let needed = span.and_then(|span| span.checked_mul(blocks)).unwrap_or(usize::MAX);
        if needed > slots {
            return Err(SlotsError::Slots { slots, actual: needed });
        }
        Ok(Self { parameters, width, blocks })
    }

    /// The most blocks that fit.
    pub fn widest(parameters: SlotsParameters, width: usize) -> Result<Self, SlotsError> {
        let span = width.checked_next_power_of_two().unwrap_or(usize::MAX);
        let blocks = (parameters.slots() / span).max(1);
        Self::new(parameters, width, blocks)
    }

    /// The parameter set.
    pub fn parameters(&self) -> &SlotsParameters {
        &self.parameters
    }

    /// Coordinates of a vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Cells of a query ciphertext, the paper's `B`.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Slots of a block, `W`: also the span that Galois keys must cover.
    pub fn span(&self) -> usize {
        self.width.next_power_of_two()
    }

    /// Query ciphertexts for this many active cells.
    pub fn query_ciphertexts(&self, cells: usize) -> usize {
        cells.div_ceil(self.blocks)
    }

    /// First slot of a cell's block.
    fn first_slot(&self, cell: usize) -> usize {
        cell % self.blocks * self.span()
    }

    fn check_width(&self, actual: usize) -> Result<(), SlotsError> {
        if actual == self.width {
            Ok(())
        } else {
            Err(SlotsError::Width { expected: self.width, actual })
        }
    }
}

/// One row to score.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Which of the query's cells it belongs to, by position in the query.
    pub cell: usize,
    /// The row.
    pub row: &'a [f64],
    /// What is added to its inner product.
    pub prefix_score: f64,
}

/// The client's side.
#[derive(Debug)]
pub struct SlotsClient {
    layout: SlotsLayout,
    context: ClientContext,
}

/// The server's side. Holds no secret key.
#[derive(Debug)]
pub struct SlotsServer {
    layout: SlotsLayout,
    pub(super) context: ServerContext,
}

impl SlotsClient {
    /// Fresh keys, and the context to give to the server, once.
    pub fn generate(
        layout: SlotsLayout,
        entropy: Entropy,
    ) -> Result<(Self, ServerContext), SlotsError> {
        let (context, server) =
            ClientContext::generate(layout.parameters(), layout.span(), entropy)?;
        Ok((Self { layout, context }, server))
    }

    /// The layout.
    pub fn layout(&self) -> &SlotsLayout {
        &self.layout
    }

    /// Encrypts one vector per active cell, `B` per ciphertext, in order.
    pub fn encrypt_queries(
        &self,
        cells: &[Vec<f64>],
        entropy: Entropy,
    ) -> Result<Vec<Vec<u8>>, SlotsError> {
        cells.iter().try_for_each(|cell| self.layout.check_width(cell.len()))?;
        let span = self.layout.span();
        let mut packed = Zeroizing::new(Vec::with_capacity(cells.len()));
        for group in cells.chunks(self.layout.blocks) {
            let mut slots = vec![0.0; group.len() * span];
            for (block, cell) in slots.chunks_exact_mut(span).zip(group) {
                block[..cell.len()].copy_from_slice(cell);
            }
            packed.push(slots);
        }
        let ciphertexts = self.context.encrypt(&packed, entropy)?;
        Ok(ciphertexts.par_iter().map(|c| c.to_bytes(self.layout.parameters())).collect())
    }

    /// The score of the candidate of a cell.
    pub fn open(&self, response: &[u8], cell: usize) -> Result<f64, SlotsError> {
        let response = SlotsCiphertext::response_from_bytes(self.layout.parameters(), response)?;
        self.context.decrypt_slot(&response, self.layout.first_slot(cell))
    }
}

impl SlotsServer {
    /// A server for one client's keys.
    pub fn new(layout: SlotsLayout, context: ServerContext) -> Result<Self, SlotsError> {
        if context.parameters() != layout.parameters() {
            return Err(SlotsError::ParameterSet);
        }
        if context.span() < layout.span() {
            return Err(SlotsError::Span { span: layout.span(), slots: context.span() });
        }
        Ok(Self { layout, context })
    }

    /// Reads the client's context from the wire.
    pub fn from_bytes(layout: SlotsLayout, bytes: &[u8]) -> Result<Self, SlotsError> {
        let context = ServerContext::from_bytes(layout.parameters(), layout.span(), bytes)?;
        Self::new(layout, context)
    }

    /// The layout.
    pub fn layout(&self) -> &SlotsLayout {
        &self.layout
    }

    /// Memory it holds, for a budget.
    pub fn bytes(&self) -> usize {
        self.context.bytes()
    }

    /// Scores every candidate against its cell's query, on all cores: one response each, in
    /// order.
    pub fn score(
        &self,
        queries: &[Vec<u8>],
        candidates: &[Candidate<'_>],
    ) -> Result<Vec<Vec<u8>>, SlotsError> {
        let cells = queries.len().saturating_mul(self.layout.blocks);
        for candidate in candidates {
            self.layout.check_width(candidate.row.len())?;
            if candidate.cell >= cells {
                return Err(SlotsError::Cell { cell: candidate.cell, cells });
            }
        }
        let parameters = self.layout.parameters();
        let queries = queries
            .par_iter()
            .map(|bytes| SlotsCiphertext::query_from_bytes(parameters, bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let room = || {
            let tables = &self.context.tables;
            (SlotsCiphertext::empty(tables.rns.n()), Scratch::new(tables))
        };
        candidates
            .par_iter()
            .map_init(room, |(score, scratch), candidate| {
                let query = &queries[candidate.cell / self.layout.blocks];
                self.score_one(query, candidate, score, scratch)?;
                Ok(score.to_bytes(parameters))
            })
            .collect()
    }

    /// Rescales before rotating, so that rotations work over one prime fewer.
    fn score_one(
        &self,
        query: &SlotsCiphertext,
        candidate: &Candidate<'_>,
        score: &mut SlotsCiphertext,
        scratch: &mut Scratch,
    ) -> Result<(), SlotsError> {
        let first = self.layout.first_slot(candidate.cell);
        self.context.multiply_plain_into(query, candidate.row, first, score, scratch)?;
        self.context.rescale_in_place(score, scratch)?;
        self.context.sum_in_place(score, self.layout.span(), scratch)?;
        self.context.add_scalar(score, candidate.prefix_score)
    }
}
