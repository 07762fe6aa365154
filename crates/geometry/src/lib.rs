//! The geometry of Shard: what happens to vectors before and after encryption.
//!
//! # Purpose
//! A corpus `x_1 .. x_N` in `R^d` is rotated into its principal axes and cut in two,
//! `V^T (x_i - mu) = [u_i | r_i]`. The prefix `u` routes (cells, shortlist), the residual `r` is transformed under
//! a key of its cell and stored. This crate holds that arithmetic and nothing else.
//!
//! # Concepts
//! - **Centred** coordinates `V^T (x - mu)` describe documents.
//! - **Uncentred** coordinates `V^T q` route and score queries. With them
//!   `<u_q, u_i> + <r_q, r_i> = q . x_i - q . mu`, whose order over `i` is the raw order. Centring the query
//!   as well adds the term `-mu . x_i`, which depends on the row, and so changes the ranking.
//! - A **transform** is orthogonal: it preserves every inner product within its cell, which makes scores exact and is
//!   also a leak: the stored rows of a cell have the Gram matrix of their residuals.
//! - A **shortlist** holds the rows of the largest `<u_q, u_i> + c |r_q| |r_i|`, an estimate of the inner product by what
//!   is known without the residual. It does not depend on the length of the query.
//! - Ties are broken by row order everywhere; sums that decide anything about quality or keys are taken in `f64`.
//!
//! # Modules
//! | module | content |
//! |---|---|
//! | [`vectors`] | validated row-major vectors: [`VectorSet`] |
//! | [`pca`] | mean, full principal basis, projections: [`Pca`], [`Projector`] |
//! | [`split`] | where the prefix ends: [`Split`] |
//! | [`cells`] | k-means over prefixes: [`Cells`], [`CellLists`] |
//! | [`gaussian`] | standard normals with the same bits on every machine |
//! | [`transform`] | keyed orthogonal maps: [`OrthogonalKey`], [`StructuredKey`] |
//! | [`score`] | exact inner products and the top k |
//! | [`route`] | shortlists: [`FlatRouter`], [`InvertedRouter`] |
//! | [`pq`] | product quantisation, which the baselines publish: [`ProductQuantizer`] |
//! | [`mod@tune`] | prefix width, shortlist length and the constant `c` from a held-out sample |
//! | [`work`] | how far long work has come: [`Work`] |
//!
//! Matrix products and eigenvectors come from faer with the feature `faer`, the default; else from loops of our own,
//! which take longer to fit a model.
//!
//! # Non-goals
//! No I/O, no network, no cryptography: key material arrives as a stream of random words from the caller. No
//! approximate graph indexes.

pub mod cells;
pub mod gaussian;
mod kernel;
mod linear;
pub mod pca;
pub mod pq;
mod random;
pub mod route;
pub mod score;
mod select;
pub mod split;
pub mod transform;
pub mod tune;
pub mod vectors;
pub mod work;

pub use cells::{CellLists, Cells, CellsError};
pub use linear::{Eigen, eigen};
pub use pca::{Pca, PcaError, Projector};
pub use pq::{ProductQuantizer, QuantizedMetric, QuantizedRows, QuantizerError};
pub use route::{FlatRouter, InvertedRouter, RouteError, RouteQuery, power_of_two_above};
pub use score::{Ranked, dot_f64, exact_scores, exact_top_k, exact_top_k_f64, top_k};
pub use split::{Split, SplitError};
pub use transform::{OrthogonalKey, StructuredKey, Transform, hadamard};
pub use tune::{SampleSource, TuneError, TuneRequest, Tuning, WidthMeasurement, tune};
pub use vectors::{VectorError, VectorSet, check_vector};
pub use work::{Stopped, Work};
