//! Other ways to protect vectors: what Shard is compared with.
//!
//! - [`baseline`], [`protected`]: the baselines by name; protecting, searching and releasing under one;
//! - [`asymmetric`]: keys that keep scores and no lengths, and what still links their rows;
//! - [`encrypted`]: scoring rows under one key with an encrypted query;
//! - [`gaussian`]: the calibrated Gaussian release;
//! - [`native`]: linking released rows to vectors that the attacker already has;
//! - [`pq_codes`], [`frontier`], [`sigma_rec`]: channels of the audit;
//! - [`utility`], [`order`], [`shortlist`], [`projections`], [`gaussian_release`], and the tables of
//!   [`asymmetric`] and [`pq_codes`]: the paper's.

pub mod asymmetric;
pub mod baseline;
pub mod encrypted;
pub mod frontier;
pub mod gaussian;
pub mod gaussian_release;
mod measure;
pub mod native;
pub mod order;
pub mod pq_codes;
pub mod projections;
pub mod protected;
#[cfg(test)]
mod sample;
pub mod shortlist;
pub mod sigma_rec;
pub mod utility;

pub use baseline::Baseline;
pub use protected::{CANDIDATES, Codes, Protected, Run, Stored, evaluate_baseline};
