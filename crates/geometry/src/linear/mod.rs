//! Matrix products and the eigenvectors of symmetric matrices: by faer with the feature of that name, else by plain
//! loops, which are slower and need no other crate. Matrices are row-major.

#[cfg(feature = "faer")]
mod fast;
#[cfg(any(not(feature = "faer"), test))]
mod portable;

#[cfg(feature = "faer")]
pub(crate) use fast::{add_gram, eigen, multiply, products, scaled_products};
#[cfg(not(feature = "faer"))]
pub(crate) use portable::{add_gram, eigen, multiply, products, scaled_products};

/// The eigenvalues of a symmetric matrix in any order, and its eigenvectors, one per row.
pub(crate) struct Eigen {
    pub(crate) values: Vec<f64>,
    pub(crate) vectors: Vec<f64>,
}
