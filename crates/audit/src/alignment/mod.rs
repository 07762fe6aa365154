//! Undoing keys: with known pairs, with an auxiliary corpus, through the structure of the keys.
//!
//! A known pair is a residual `r` and the row `z = H r` that is stored for it. Modules:
//! - [`estimators`]: maps from rows back to residuals, fitted to known pairs;
//! - `axes`: the principal axes in which an attacker sees native vectors;
//! - [`affine`]: maps between vectors and their coordinates;
//! - [`span`]: everything that pairs determine of a row, and matching by nothing else;
//! - [`model`]: rows as any linear map of vectors, with noise;
//! - [`marginals`]: columns told by how their numbers are distributed;
//! - `foreign`: releases that Shard did not make, attacked in every way that they can be read;
//! - [`trial`]: one game of disclosed pairs, held-out targets and a gallery;
//! - [`procrustes`]: one rotation for all rows, the baseline;
//! - [`reference`](mod@reference): finding rows in a reference corpus, and its texts;
//! - [`partial`]: a key for each cell, with pairs spread over cells or put into one;
//! - [`unsupervised`]: no pairs at all, but a corpus of the same kind;
//! - [`structured`]: keys made of signs, permutations and Hadamard rounds.

pub mod affine;
mod axes;
pub mod estimators;
pub(crate) mod foreign;
pub mod marginals;
pub mod model;
pub mod partial;
pub mod procrustes;
pub mod reference;
pub mod span;
pub mod structured;
pub mod trial;
pub mod unsupervised;
