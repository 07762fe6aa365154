//! Private dense retrieval as one library.

pub mod baselines;
pub mod evaluation;
pub mod input;

pub use shard_server::Embedded;
