//! Blind collections under attack.
//!
//! - [`reading`]: ciphertexts as rows.

pub mod reading;
