//! How to search.

use shard_rlwe::Objective;
#[cfg(feature = "slots")]
use shard_rlwe::slots::SlotsParameters;

use crate::filter::Filter;

/// How vectors lie in ciphertexts.
#[derive(Clone, PartialEq, Debug)]
pub enum LayoutChoice {
    /// In coefficients, as the planner decides.
    Coefficients,
    /// In slots, as the paper has it: this many cells per ciphertext. Keys live for a session,
    /// and the prefix part of each score is disclosed.
    #[cfg(feature = "slots")]
    Slots {
        /// Ring, chain of primes and scale.
        parameters: SlotsParameters,
        /// Cells per ciphertext.
        cells: usize,
    },
}

/// How to search.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Documents to return.
    pub top: usize,
    /// Which documents may be returned, by their fields; of a blind collection only. The best of those
    /// that it holds of are returned, and the server learns nothing of it, except that a search with cells
    /// asks for all of them unless `probe` says how many.
    pub filter: Option<Filter>,
    /// Length of the shortlist; the model's own when `None`.
    pub candidates: Option<usize>,
    /// Cells whose rows are looked at; when `None`, all of a rotated collection, and of a blind one as many as
    /// its owner chose, or all where there is a filter.
    pub probe: Option<usize>,
    /// How vectors lie in ciphertexts.
    pub layout: LayoutChoice,
    /// What the plan is to be good at; when `None`, the shortest time over the link as it has
    /// shown itself, and the least computing where there is no link. With `Compute` every request
    /// has a secret of its own; the others may merge responses under a secret that serves a
    /// session, which rests on circular security besides RLWE.
    pub objective: Option<Objective>,
    /// Error a score may have, relative to the lengths of the query and of the longest candidate.
    pub precision: f64,
    /// Whether the scores of canaries are compared with what they must be, which every vault knows. The
    /// server sees no difference. Without, only an owner's recomputed scores tell a false answer.
    pub canaries: bool,
    /// Whether an owner's search recomputes every score from the documents' vectors and compares.
    /// Whoever has a query vault cannot.
    pub recompute: bool,
    /// Requests that the secret of a session serves, where responses are merged.
    pub session_requests: u32,
    /// What part of a session's secret, by its entropy, answers may show at most where not every score
    /// is recomputed. A secret has `N log2 3` bits, and the order of the `k` documents returned out of
    /// `n` says at most `log2(n! / (n - k)!)` bits of it to a server that forged the answer and sees
    /// which are opened.
    pub session_share: f64,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            top: 10,
            filter: None,
            candidates: None,
            probe: None,
            layout: LayoutChoice::Coefficients,
            objective: None,
            precision: 2e-6,
            canaries: true,
            recompute: true,
            session_requests: 64,
            session_share: 0.125,
        }
    }
}
