//! The server's side: products of encrypted queries with operands held in the clear.

use std::sync::Arc;

use rayon::prelude::*;

use crate::ciphertext::{Ciphertext, Seed};
use crate::layout::Layout;
use crate::merge::{MergeSpan, Pair, PreparedMergeKeys};
use crate::pack::PackError;
use crate::parameters::Parameters;
use crate::response::Response;
use crate::ring::Ring;

/// Why ciphertexts or operands could not be evaluated.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum EvaluateError {
    /// Too few or too many ciphertexts for the queries.
    #[error("{actual} ciphertexts where {queries} queries take {expected}")]
    Ciphertexts {
        /// Queries.
        queries: usize,
        /// Ciphertexts they take.
        expected: usize,
        /// Ciphertexts given.
        actual: usize,
    },
    /// An operand has another width than the layout.
    #[error("operand of width {actual} where {expected} was expected")]
    OperandWidth {
        /// The layout's width.
        expected: usize,
        /// The operand's width.
        actual: usize,
    },
    /// A merged layout without keys that cover it.
    #[error("the merge keys do not cover the layout")]
    MergeKeys,
    /// A ciphertext is malformed.
    #[error(transparent)]
    Ciphertext(#[from] PackError),
}

/// The ciphertexts of all queries, expanded and transformed.
pub struct PreparedQueries {
    /// `(b, a)` per block of queries and tile.
    tiles: Vec<Pair>,
    queries: usize,
}

/// Evaluates one layout under one parameter set. Holds no secret of any kind.
pub struct Evaluator {
    parameters: Parameters,
    layout: Layout,
    ring: Arc<Ring>,
    merge: Option<Arc<PreparedMergeKeys>>,
}

/// An operand with the number of the query it is scored against.
type Member<'a> = (usize, &'a [i32]);

impl Evaluator {
    /// An evaluator for requests of this shape. A merged layout also needs
    /// [`with_merge_keys`](Self::with_merge_keys).
    pub fn new(parameters: Parameters, layout: Layout) -> Self {
        let ring = Ring::shared(parameters.degree());
        Self { parameters, layout, ring, merge: None }
    }

    /// Merges responses with these keys.
    pub fn with_merge_keys(self, keys: Arc<PreparedMergeKeys>) -> Self {
        Self { merge: Some(keys), ..self }
    }

    /// Expands and transforms the ciphertexts of `queries` queries, on all cores.
    pub fn prepare(
        &self,
        seed: &Seed,
        ciphertexts: &[Ciphertext],
        queries: usize,
    ) -> Result<PreparedQueries, EvaluateError> {
        let expected = self.layout.ciphertexts(queries);
        if ciphertexts.len() != expected {
            return Err(EvaluateError::Ciphertexts {
                queries,
                expected,
                actual: ciphertexts.len(),
            });
        }
        let tiles = ciphertexts
            .par_iter()
            .enumerate()
            .map(|(index, ct)| ct.expand(&self.parameters, &self.ring, seed, index as u32))
            .collect::<Result<_, _>>()?;
        Ok(PreparedQueries { tiles, queries })
    }

    /// Scores `groups[i]` against query `i`, for all `i`. Operands are numbered through the
    /// groups in order.
    ///
    /// # Panics
    /// When there are more groups than queries were prepared.
    pub fn respond(
        &self,
        queries: &PreparedQueries,
        groups: &[Vec<&[i32]>],
    ) -> Result<Vec<Response>, EvaluateError> {
        assert!(groups.len() <= queries.queries, "a query for every group");
        let members: Vec<Member<'_>> = groups
            .iter()
            .enumerate()
            .flat_map(|(query, group)| group.iter().map(move |operand| (query, *operand)))
            .collect();
        let expected = self.layout.width();
        if let Some((_, odd)) = members.iter().find(|(_, operand)| operand.len() != expected) {
            return Err(EvaluateError::OperandWidth { expected, actual: odd.len() });
        }
        if self.layout.is_merged() {
            return self.respond_merged(queries, &members, &|_| None);
        }
        let respond =
            |members: &[Member<'_>]| self.switch(self.product(queries, members), members.len());
        Ok(members.par_chunks(self.layout.slots()).map(respond).collect())
    }

    /// As [`respond`](Self::respond) to a merged layout, by a server that lies: in place of leaf `i` it
    /// folds `(c0, c1)`, coefficients below the modulus, where `forge(i)` gives some.
    ///
    /// # Panics
    /// When the layout is not merged.
    #[cfg(feature = "forgery")]
    pub fn respond_forged(
        &self,
        queries: &PreparedQueries,
        groups: &[Vec<&[i32]>],
        forge: &(impl Fn(usize) -> Option<[Vec<u64>; 2]> + Sync),
    ) -> Result<Vec<Response>, EvaluateError> {
        assert!(self.layout.is_merged(), "leaves are folded where responses are merged");
        let numbered = groups.iter().enumerate();
        let members: Vec<Member<'_>> = numbered
            .flat_map(|(query, group)| group.iter().map(move |operand| (query, *operand)))
            .collect();
        self.respond_merged(queries, &members, &|leaf| {
            let [c0, c1] = forge(leaf)?.map(|values| {
                let mut buffer = self.ring.buffer();
                buffer.copy_from_slice(&values);
                self.ring.forward_in_place(&mut buffer);
                buffer
            });
            Some(Pair { c0, c1 })
        })
    }

    fn respond_merged(
        &self,
        queries: &PreparedQueries,
        members: &[Member<'_>],
        replaced: &(impl Fn(usize) -> Option<Pair> + Sync),
    ) -> Result<Vec<Response>, EvaluateError> {
        let needed = MergeSpan::of(&self.layout, members.len());
        let keys = match (&self.merge, needed) {
            (Some(keys), Some(span))
                if keys.degree() == self.layout.degree() && keys.span().covers(span) =>
            {
                Some(keys)
            }
            (_, None) => None,
            _ => return Err(EvaluateError::MergeKeys),
        };
        let in_response = self.layout.capacity() / self.layout.slots();
        let response = |(at, members): (usize, &[Member<'_>])| {
            let leaves: Vec<&[Member<'_>]> = members.chunks(self.layout.slots()).collect();
            let leaf = |index: usize| {
                let forged = replaced(at * in_response + index);
                forged.unwrap_or_else(|| self.product(queries, leaves[index]))
            };
            let folded = match keys {
                Some(keys) => keys.fold(leaves.len(), self.layout.stride().ilog2(), &leaf),
                None => leaf(0),
            };
            self.switch(folded, members.len())
        };
        Ok(members.chunks(self.layout.capacity()).enumerate().map(response).collect())
    }

    /// One product: `sum over ciphertexts of (b, a) * D`, as evaluations.
    fn product(&self, queries: &PreparedQueries, members: &[Member<'_>]) -> Pair {
        let mut sum = Pair { c0: self.ring.zeroed_buffer(), c1: self.ring.zeroed_buffer() };
        let mut operand = self.ring.buffer();
        let mut slot = 0;
        let block_of = |member: &Member<'_>| self.layout.block_of(member.0);
        for run in members.chunk_by(|a, b| block_of(a).0 == block_of(b).0) {
            let first = block_of(&run[0]).0 * self.layout.tiles();
            for tile in 0..self.layout.tiles() {
                operand.fill(0);
                for (offset, member) in run.iter().enumerate() {
                    let block = block_of(member).1;
                    self.layout.write_operand(member.1, tile, block, slot + offset, &mut operand);
                }
                self.ring.forward_in_place(&mut operand);
                let query = &queries.tiles[first + tile];
                self.ring.multiply_accumulate(&mut sum.c0, &query.c0, &operand);
                self.ring.multiply_accumulate(&mut sum.c1, &query.c1, &operand);
            }
            slot += run.len();
        }
        sum
    }

    fn switch(&self, mut sum: Pair, used: usize) -> Response {
        self.ring.inverse_in_place(&mut sum.c0);
        self.ring.inverse_in_place(&mut sum.c1);
        Response::switch(&self.parameters, &self.layout, used, &sum.c0, &sum.c1)
    }
}
