//! Many queries at once: messages of several share a pass over the server's memory.

use std::ops::{ControlFlow, Range};

use shard_geometry::VectorSet;
use shard_protocol::{BlindQuery, Transport};
use shard_rlwe::blind::DEGREE;

use super::BlindCollection;
use super::search::BlindSearcher;
use crate::error::ClientError;
use crate::search::{Answer, SearchOptions, search_many};

/// Bytes of a message or of its answer that more than one query may take.
const MESSAGE_BYTES: usize = 32 << 20;

/// Products of a residue of a block with a query that a message of more than one may ask for: about half of
/// what servers compute for one request.
const RESIDUES: usize = 1 << 31;

impl<T: Transport<Error: Into<ClientError>>> BlindSearcher<T> {
    /// Searches for every query, in messages of up to [`BlindQuery::MOST`], up to `parallel` messages at a
    /// time. What is found is what [`BlindSearcher::search`] finds, query by query, and every answer is
    /// checked by itself; of the cost of a message each answer has its share. Answers are handed to `each`
    /// on the calling thread, in the order of the queries; a break ends the search once the messages under
    /// way are answered.
    ///
    /// # Errors
    /// That of the first query, in order, that fails. Answers to those before it were handed over.
    pub fn search_many(
        &self,
        collection: &BlindCollection,
        queries: &VectorSet,
        options: &SearchOptions,
        parallel: usize,
        each: impl FnMut(usize, Answer) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        // Rather a message for every thread than one that is full.
        let share = queries.rows().div_ceil(parallel.max(1)).max(1);
        // Queries that ask for some cells ask for different ones.
        let most = if collection.asks_for_all(options) { most_together(collection) } else { 1 };
        let together = most.min(share);
        let search = |rows: Range<usize>| {
            let queries: Vec<&[f32]> = rows.map(|row| queries.row(row)).collect();
            self.search_together(collection, &queries, options)
                .unwrap_or_else(|error| vec![Err(error)])
        };
        search_many(queries.rows(), together, parallel, search, each)
    }
}

/// Searches of a message.
fn most_together(collection: &BlindCollection) -> usize {
    let (shape, blocks) = (collection.shape(), collection.blocks().len().max(1));
    let bytes = shape.query_bytes().max(shape.answer_bytes(blocks));
    most_of(bytes, blocks * shape.tiles() * DEGREE)
}

/// Queries of a message, so that neither it nor its answer nor the work is too large for a server: by the
/// bytes of a query or its answer, and the residues that a query is multiplied with, neither of which is zero.
pub(super) fn most_of(bytes: usize, residues: usize) -> usize {
    BlindQuery::MOST.min(MESSAGE_BYTES / bytes).min(RESIDUES / residues).max(1)
}
