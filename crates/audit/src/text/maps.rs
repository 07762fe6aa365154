//! Linear maps from stored rows to residuals, learnt from known pairs: `z W = r`.

use faer::Mat;

use crate::tools::matrix::Matrix;

/// Singular values below this share of the largest are rounding.
const CUT_OFF: f64 = 1e-10;

/// What becomes of directions that pairs say nothing about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Completion {
    /// Some orthogonal completion: the one the decomposition happens to give.
    Arbitrary,
    /// They are mapped to zero.
    Dropped,
}

/// `W = Z^+ R`, the least-squares map of least norm.
///
/// # Panics
/// When the rows are not finite.
pub(super) fn minimum_norm_map(residuals: &Matrix, stored: &Matrix) -> Matrix {
    let svd = stored.as_faer().thin_svd().expect("finite rows have singular values");
    let values = svd.S().column_vector();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let mut projected: Mat<f64> = svd.U().transpose() * residuals.as_faer();
    for at in 0..projected.nrows() {
        let kept = values[at] > CUT_OFF * largest;
        let factor = if kept { 1.0 / values[at] } else { 0.0 };
        projected.row_mut(at).iter_mut().for_each(|x| *x *= factor);
    }
    Matrix::from_faer((svd.V() * projected).as_ref())
}

/// `W = A B^T` of `Z^T R = A S B^T`, the orthogonal map nearest to the pairs.
///
/// # Panics
/// When the rows are not finite.
pub(super) fn procrustes_map(
    residuals: &Matrix,
    stored: &Matrix,
    completion: Completion,
) -> Matrix {
    let products = stored.as_faer().transpose() * residuals.as_faer();
    let svd = products.thin_svd().expect("finite rows have singular values");
    let values = svd.S().column_vector();
    let largest = values.iter().copied().fold(0.0, f64::max);
    let kept = match completion {
        Completion::Arbitrary => values.nrows(),
        Completion::Dropped => values.iter().filter(|&&s| s > CUT_OFF * largest).count(),
    };
    let (left, right) = (svd.U().subcols(0, kept), svd.V().subcols(0, kept));
    Matrix::from_faer((left * right.transpose()).as_ref())
}
