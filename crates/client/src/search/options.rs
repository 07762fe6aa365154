//! How to search.

use shard_rlwe::Objective;
#[cfg(feature = "slots")]
use shard_rlwe::slots::SlotsParameters;

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
    /// Length of the shortlist; the model's own when `None`.
    pub candidates: Option<usize>,
    /// Cells whose rows are looked at; all when `None`.
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
    /// Control scores that every answer is checked by.
    pub canaries: usize,
    /// Requests that the secret of a session serves, where responses are merged.
    pub session_requests: u32,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            top: 10,
            candidates: None,
            probe: None,
            layout: LayoutChoice::Coefficients,
            objective: None,
            precision: 2e-6,
            canaries: 8,
            session_requests: 64,
        }
    }
}
