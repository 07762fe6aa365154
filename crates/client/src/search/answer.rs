//! What a search gives back, and what it cost.

use std::time::Duration;

use shard_rlwe::Plan;

/// Wall time of each phase.
#[derive(Clone, Copy, Default, Debug)]
pub struct Timings {
    /// Finding the shortlist.
    pub route: Duration,
    /// Rotating the query by the key of every active cell.
    pub rotate: Duration,
    /// Planning, scaling, encrypting and encoding.
    pub encrypt: Duration,
    /// From handing a message over to holding its answer; with the keys of a session, where this
    /// search had to make and send them.
    pub server: Duration,
    /// Decoding, opening, checking and ranking.
    pub open: Duration,
}

impl Timings {
    /// The whole search.
    pub fn total(&self) -> Duration {
        self.route + self.rotate + self.encrypt + self.server + self.open
    }
}

/// What a search cost and what the server saw of it. Where the server had forgotten the session
/// and the request was made again, bytes and times of both requests; where a message carried several
/// queries, the share of one.
#[derive(Clone, Default, Debug)]
pub struct Cost {
    /// Bytes of requests.
    pub bytes_up: usize,
    /// Bytes of answers.
    pub bytes_down: usize,
    /// Bytes of session keys that this search had to send first.
    pub bytes_once: usize,
    /// Documents scored.
    pub candidates: usize,
    /// How many of them are canaries.
    pub canaries: usize,
    /// Cells they lie in.
    pub active_cells: usize,
    /// Blocks that were multiplied, those of checks included, in a blind collection.
    pub blocks: usize,
    /// Ciphertexts of a request.
    pub query_ciphertexts: usize,
    /// Ciphertexts of its answer.
    pub response_ciphertexts: usize,
    /// How the request was made, in the coefficient layout.
    pub plan: Option<Plan>,
    /// Wall time by phase.
    pub timings: Timings,
}

impl Cost {
    /// Bytes and times of one of so many queries that went together.
    pub(crate) fn shared_by(mut self, queries: usize) -> Self {
        let Timings { encrypt, server, .. } = &mut self.timings;
        for time in [encrypt, server] {
            *time /= queries as u32;
        }
        self.bytes_up /= queries;
        self.bytes_down /= queries;
        self
    }
}

/// A document that was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Hit {
    /// The owner's id.
    pub id: String,
    /// Its row in the collection's index.
    pub row: u32,
    /// The inner product of the query with the document's vector.
    pub score: f64,
}

/// The answer to a query.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Best documents first, their scores rounded to [`precision`](Self::precision); ties, to
    /// which a blind collection brings scores that differ by less than their noise, in order
    /// of ingestion.
    pub hits: Vec<Hit>,
    /// The grid scores are rounded to. Finer digits would be noise that depends on the key.
    pub precision: f64,
    /// Bound on the error of a score before rounding, where the server is honest: six deviations of the
    /// noise model, seven in a blind collection. What a lie may add unnoticed there is the tolerance of
    /// [`shard_rlwe::blind::tolerance`].
    pub error_bound: f64,
    /// Costs.
    pub cost: Cost,
}
