//! Matrix products and the eigenvectors of symmetric matrices: by faer with the feature of that name, else by plain
//! loops, which are slower and need no other crate. Matrices are row-major.

#[cfg(feature = "faer")]
mod fast;
#[cfg(any(not(feature = "faer"), test))]
mod portable;

#[cfg(feature = "faer")]
pub use fast::eigen;
#[cfg(feature = "faer")]
pub(crate) use fast::{add_gram, add_products, multiply, products, scaled_products};
#[cfg(not(feature = "faer"))]
pub use portable::eigen;
#[cfg(not(feature = "faer"))]
pub(crate) use portable::{add_gram, add_products, multiply, products, scaled_products};

/// The eigenvalues of a symmetric matrix in any order, and its eigenvectors.
pub struct Eigen {
    /// The eigenvalues.
    pub values: Vec<f64>,
    /// The eigenvectors, one per row.
    pub vectors: Vec<f64>,
}
