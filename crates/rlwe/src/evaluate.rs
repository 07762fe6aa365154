//! The server's side: products of encrypted queries with operands held in the clear.

use std::sync::Arc;

use rayon::prelude::*;

use crate::ciphertext::{Ciphertext, Seed};
use crate::layout::Layout;
use crate::pack::PackError;
use crate::parameters::Parameters;
use crate::response::Response;
use crate::ring::{Evaluations, Poly, Ring};

/// Why ciphertexts or operands could not be evaluated.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum EvaluateError {
    /// Not a whole number of queries.
    #[error("{ciphertexts} ciphertexts are not a whole number of queries of {tiles} tiles")]
    Tiles {
        /// Ciphertexts given.
        ciphertexts: usize,
        /// Tiles a query has.
        tiles: usize,
    },
    /// Operand lists and queries do not pair up.
    #[error("{groups} operand lists for {queries} queries")]
    Groups {
        /// Operand lists given.
        groups: usize,
        /// Queries given.
        queries: usize,
    },
    /// An operand has another width than the layout.
    #[error("operand of width {actual} where {expected} was expected")]
    OperandWidth {
        /// The layout's width.
        expected: usize,
        /// The operand's width.
        actual: usize,
    },
    /// A ciphertext is malformed.
    #[error(transparent)]
    Ciphertext(#[from] PackError),
}

/// One query's ciphertexts, expanded and transformed: `(b, a)` per tile.
pub struct PreparedQuery {
    tiles: Vec<(Poly<Evaluations>, Poly<Evaluations>)>,
}

/// Evaluates one layout under one parameter set. Holds no key of any kind.
pub struct Evaluator {
    parameters: Parameters,
    layout: Layout,
    ring: Arc<Ring>,
}

/// Buffers of one worker, reused from response to response.
struct Scratch {
    operand: Vec<u64>,
    c0: Vec<u64>,
    c1: Vec<u64>,
}

impl Evaluator {
    /// An evaluator for requests of this shape.
    pub fn new(parameters: Parameters, layout: Layout) -> Self {
        let ring = Ring::shared(parameters.degree());
        Self { parameters, layout, ring }
    }

    /// Expands and transforms the ciphertexts of all queries, `tiles` each, on all cores.
    pub fn prepare(
        &self,
        seed: &Seed,
        ciphertexts: &[Ciphertext],
    ) -> Result<Vec<PreparedQuery>, EvaluateError> {
        let tiles = self.layout.tiles();
        if !ciphertexts.len().is_multiple_of(tiles) {
            return Err(EvaluateError::Tiles { ciphertexts: ciphertexts.len(), tiles });
        }
        let mut expanded = ciphertexts
            .par_iter()
            .enumerate()
            .map(|(index, ct)| ct.expand(&self.parameters, &self.ring, seed, index as u32))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter();
        let queries = ciphertexts.len() / tiles;
        Ok((0..queries)
            .map(|_| PreparedQuery { tiles: expanded.by_ref().take(tiles).collect() })
            .collect())
    }

    /// Scores `groups[i]` against `queries[i]`, for all `i`. Operands are numbered through the
    /// groups in order and placed by [`Layout::position`].
    pub fn respond(
        &self,
        queries: &[PreparedQuery],
        groups: &[&[&[i32]]],
    ) -> Result<Vec<Response>, EvaluateError> {
        if groups.len() != queries.len() {
            return Err(EvaluateError::Groups { groups: groups.len(), queries: queries.len() });
        }
        let operands: Vec<(usize, &[i32])> = groups
            .iter()
            .enumerate()
            .flat_map(|(query, group)| group.iter().map(move |operand| (query, *operand)))
            .collect();
        let expected = self.layout.width();
        if let Some((_, odd)) = operands.iter().find(|(_, operand)| operand.len() != expected) {
            return Err(EvaluateError::OperandWidth { expected, actual: odd.len() });
        }
        let n = self.parameters.degree().coefficients();
        let scratch = || Scratch { operand: vec![0; n], c0: vec![0; n], c1: vec![0; n] };
        Ok(operands
            .par_chunks(self.layout.slots())
            .map_init(scratch, |scratch, members| self.respond_one(queries, members, scratch))
            .collect())
    }

    /// One response: `sum over queries and tiles of (b, a) * D`, back in coefficients, switched.
    fn respond_one(
        &self,
        queries: &[PreparedQuery],
        members: &[(usize, &[i32])],
        scratch: &mut Scratch,
    ) -> Response {
        scratch.c0.fill(0);
        scratch.c1.fill(0);
        let mut slot = 0;
        for run in members.chunk_by(|a, b| a.0 == b.0) {
            for (tile, (b, a)) in queries[run[0].0].tiles.iter().enumerate() {
                scratch.operand.fill(0);
                for (offset, (_, operand)) in run.iter().enumerate() {
                    self.layout.write_operand(operand, tile, slot + offset, &mut scratch.operand);
                }
                self.ring.forward_in_place(&mut scratch.operand);
                self.ring.multiply_accumulate(&mut scratch.c0, b, &scratch.operand);
                self.ring.multiply_accumulate(&mut scratch.c1, a, &scratch.operand);
            }
            slot += run.len();
        }
        self.ring.inverse_in_place(&mut scratch.c0);
        self.ring.inverse_in_place(&mut scratch.c1);
        Response::switch(&self.parameters, &self.layout, members.len(), &scratch.c0, &scratch.c1)
    }
}
