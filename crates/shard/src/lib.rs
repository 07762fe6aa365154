//! Private dense retrieval as one library.

pub mod baselines;
mod embedded;
pub mod evaluation;
pub mod input;

pub use embedded::Embedded;
