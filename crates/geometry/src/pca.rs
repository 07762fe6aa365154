//! The principal axes of a corpus.

mod project;

use rayon::prelude::*;
use thiserror::Error;

use crate::kernel;
use crate::linear;
use crate::vectors::VectorSet;
use crate::work::{Stopped, Work};

pub use project::Projector;

/// Rows that are converted to `f64` at a time: the only copy of the data a fit makes.
const CHUNK_ROWS: usize = 1024;

/// Rows of the covariance one task computes.
const PANEL_ROWS: usize = 64;

/// Picoseconds that one row adds to one entry of the covariance.
const GRAM_TIME: u64 = 45;

/// Picoseconds of the eigensolver for each of `width^3`.
const EIGEN_TIME: u64 = 900;

/// The largest entry of `|B B^T x - x|` that a basis from outside may have for any probe `x`.
const ORTHONORMAL_TOLERANCE: f64 = 1e-8;

/// Probes a basis from outside is tried with, at most 64.
const PROBES: usize = 16;

/// A model that cannot be fitted, or stored parts that do not form a model.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum PcaError {
    /// The eigensolver did not converge.
    #[error("the eigenvectors of the {width} x {width} covariance did not converge")]
    NoConvergence {
        /// The width of the vectors.
        width: usize,
    },
    /// Whoever watches the fit ended it.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A part has the wrong number of values.
    #[error("the {part} has {actual} values, expected {expected}")]
    WrongLength {
        /// `mean`, `basis` or `variances`.
        part: &'static str,
        /// How many values the width asks for.
        expected: usize,
        /// How many there are.
        actual: usize,
    },
    /// A part holds NaN or an infinity.
    #[error("the {part} holds a value that is not finite")]
    NotFinite {
        /// `mean`, `basis` or `variances`.
        part: &'static str,
    },
    /// Variances are negative or not in falling order.
    #[error("the variance of direction {direction} is negative or larger than the one before")]
    Unordered {
        /// The first direction that is out of order.
        direction: usize,
    },
    /// The directions are not orthonormal.
    #[error(
        "the basis is off orthonormal by {deviation:e}, at most {ORTHONORMAL_TOLERANCE:e} is allowed"
    )]
    NotOrthonormal {
        /// The largest entry of `|B B^T x - x|` over the probes `x`.
        deviation: f64,
    },
}

/// The mean `mu` and the full orthonormal basis `V` of the principal directions, by falling variance.
#[derive(Clone, PartialEq)]
pub struct Pca {
    mean: Vec<f64>,
    basis: Vec<f64>,
    variances: Vec<f64>,
}

impl Pca {
    /// Fits the model: `mu = (1/N) sum_i x_i`, `C = (1/N) sum_i (x_i - mu)(x_i - mu)^T = V diag(variances) V^T`.
    ///
    /// Two passes over the rows, a chunk of them in `f64` at a time. The result does not depend on the number of
    /// threads. A direction and its negative are equally principal; the one whose entry of largest magnitude is
    /// positive is taken. A covariance of any rank works, also that of a single row: the directions without variance
    /// complete the basis.
    ///
    /// # Errors
    /// `NoConvergence`, which finite vectors are not known to cause.
    pub fn fit(vectors: &VectorSet) -> Result<Self, PcaError> {
        Self::fit_watched(vectors, Work::unwatched())
    }

    /// How much work a fit is.
    pub fn work(rows: usize, width: usize) -> u64 {
        let (rows, width) = (rows as u64, width as u64);
        rows * row_work(width) + EIGEN_TIME * width.pow(3)
    }

    /// [`fit`](Self::fit), followed by whoever wants to know how far it is.
    ///
    /// # Errors
    /// `Stopped` if they end it, or `NoConvergence`.
    pub fn fit_watched(vectors: &VectorSet, work: Work<'_>) -> Result<Self, PcaError> {
        let width = vectors.width();
        let mean = mean(vectors);
        let covariance = covariance(vectors, &mean, work)?;

        let eigen = linear::eigen(&covariance, width).ok_or(PcaError::NoConvergence { width })?;
        work.done(EIGEN_TIME * (width as u64).pow(3))?;

        let mut order: Vec<usize> = (0..width).collect();
        let value = |at: usize| eigen.values[at];
        order.sort_by(|&a, &b| value(b).total_cmp(&value(a)));
        let mut basis = Vec::with_capacity(width * width);
        for &at in &order {
            let start = basis.len();
            basis.extend_from_slice(&eigen.vectors[at * width..(at + 1) * width]);
            fix_sign(&mut basis[start..]);
        }
        // Rounding leaves the eigenvalues of directions without variance on either side of zero.
        let variances = order.iter().map(|&at| value(at).max(0.0)).collect();
        Ok(Self { mean, basis, variances })
    }

    /// Puts a stored model together again after checking every property a fit guarantees.
    ///
    /// # Errors
    /// Any [`PcaError`] but `NoConvergence`.
    pub fn from_parts(
        mean: Vec<f64>,
        basis: Vec<f64>,
        variances: Vec<f64>,
    ) -> Result<Self, PcaError> {
        let width = mean.len();
        let expected = [
            ("mean", width.max(1), &mean),
            ("basis", width * width, &basis),
            ("variances", width, &variances),
        ];
        for (part, expected, values) in expected {
            if values.len() != expected {
                return Err(PcaError::WrongLength { part, expected, actual: values.len() });
            }
            if values.iter().any(|value| !value.is_finite()) {
                return Err(PcaError::NotFinite { part });
            }
        }
        let falling =
            |at: usize| variances[at] >= 0.0 && (at == 0 || variances[at] <= variances[at - 1]);
        if let Some(direction) = (0..width).find(|&at| !falling(at)) {
            return Err(PcaError::Unordered { direction });
        }
        let deviation = deviation(&basis, width);
        // Huge entries may overflow to NaN, which is not at most the tolerance either.
        if deviation <= ORTHONORMAL_TOLERANCE {
            Ok(Self { mean, basis, variances })
        } else {
            Err(PcaError::NotOrthonormal { deviation })
        }
    }

    /// The width of the vectors, `d`.
    pub fn width(&self) -> usize {
        self.mean.len()
    }

    /// The mean `mu`.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The basis `V^T`, row-major `d x d`: row `k` is the `k`-th principal direction.
    pub fn basis(&self) -> &[f64] {
        &self.basis
    }

    /// The variance along every direction, falling.
    pub fn variances(&self) -> &[f64] {
        &self.variances
    }

    /// `V^T (x - mu)`: the coordinates of a document.
    ///
    /// # Panics
    /// If the vector has another width than the model.
    pub fn centred(&self, vector: &[f32]) -> Vec<f64> {
        assert_eq!(vector.len(), self.width(), "a model projects vectors of its own width");
        self.rotate(vector.iter().zip(&self.mean).map(|(&x, mean)| f64::from(x) - mean).collect())
    }

    /// `V^T x`: the coordinates that route and score a query.
    ///
    /// # Panics
    /// If the vector has another width than the model.
    pub fn uncentred(&self, vector: &[f32]) -> Vec<f64> {
        assert_eq!(vector.len(), self.width(), "a model projects vectors of its own width");
        self.rotate(vector.iter().map(|&x| f64::from(x)).collect())
    }

    fn rotate(&self, vector: Vec<f64>) -> Vec<f64> {
        let mut rotated = vec![0.0; vector.len()];
        kernel::dispatch(
            #[inline(always)]
            || {
                for (out, direction) in
                    rotated.iter_mut().zip(self.basis.chunks_exact(vector.len()))
                {
                    *out = kernel::dot(direction, &vector);
                }
            },
        );
        rotated
    }
}

/// The model tells much about a corpus, so only its width prints.
impl std::fmt::Debug for Pca {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Pca(width {})", self.width())
    }
}

/// Picoseconds of one row of the covariance, of which half is computed.
fn row_work(width: u64) -> u64 {
    GRAM_TIME * width * width / 2 + 1
}

fn centre(rows: &[f32], mean: &[f64], out: &mut [f64]) {
    for (out, row) in out.chunks_exact_mut(mean.len()).zip(rows.chunks_exact(mean.len())) {
        for ((out, &x), mean) in out.iter_mut().zip(row).zip(mean) {
            *out = f64::from(x) - mean;
        }
    }
}

/// The mean row: sums of fixed chunks, added up in order.
fn mean(vectors: &VectorSet) -> Vec<f64> {
    let width = vectors.width();
    let sums: Vec<Vec<f64>> = vectors
        .values()
        .par_chunks(4 * CHUNK_ROWS * width)
        .map(|rows| {
            let mut sum = vec![0.0; width];
            for row in rows.chunks_exact(width) {
                for (sum, &x) in sum.iter_mut().zip(row) {
                    *sum += f64::from(x);
                }
            }
            sum
        })
        .collect();
    let count = vectors.rows() as f64;
    (0..width).map(|column| sums.iter().map(|sum| sum[column]).sum::<f64>() / count).collect()
}

/// The lower triangle of the covariance, row-major.
///
/// Tasks share the rows of the covariance rather than those of the data: there is one accumulator, and every entry is
/// summed in row order whatever the number of threads.
fn covariance(vectors: &VectorSet, mean: &[f64], work: Work<'_>) -> Result<Vec<f64>, Stopped> {
    let width = vectors.width();
    let mut covariance = vec![0.0; width * width];
    let mut chunk = vec![0.0; CHUNK_ROWS.min(vectors.rows()) * width];
    for rows in vectors.values().chunks(CHUNK_ROWS * width) {
        let chunk = &mut chunk[..rows.len()];
        chunk
            .par_chunks_mut(64 * width)
            .zip(rows.par_chunks(64 * width))
            .for_each(|(out, rows)| centre(rows, mean, out));
        covariance.par_chunks_mut(PANEL_ROWS * width).enumerate().for_each(|(panel, out)| {
            linear::add_gram(chunk, width, panel * PANEL_ROWS, out);
        });
        work.done((rows.len() / width) as u64 * row_work(width as u64))?;
    }
    let scale = 1.0 / vectors.rows() as f64;
    covariance.iter_mut().for_each(|entry| *entry *= scale);
    Ok(covariance)
}

fn fix_sign(direction: &mut [f64]) {
    let largest = direction
        .iter()
        .fold(0.0f64, |largest, &entry| if entry.abs() > largest.abs() { entry } else { largest });
    if largest < 0.0 {
        direction.iter_mut().for_each(|entry| *entry = -*entry);
    }
}

/// The largest entry of `|B B^T x - x|` over [`PROBES`] vectors `x` of pseudo-random signs: `O(d^2)`, where the entries of
/// `E = B B^T - I` themselves would take `O(d^3)`.
///
/// Entry `i` is `|sum_j E_ij x_j|`. Whatever the other signs are, one of the two signs of `x_j` makes it at least
/// `|E_ij|`. So, of the choices of signs, at most one in `2^PROBES` leaves the result below the largest entry of `|E|`:
/// what slips through is damage that happens to suit the signs, which are fixed. The reverse is certain: the result is
/// at most the largest row sum of `|E|`.
fn deviation(basis: &[f64], width: usize) -> f64 {
    let signs: Vec<f64> = (0..width as u64)
        .flat_map(|row| {
            let word = scramble(row);
            (0..PROBES).map(move |probe| if word >> probe & 1 == 0 { 1.0 } else { -1.0 })
        })
        .collect();
    let rotated = multiply(basis, true, &signs);
    let returned = multiply(basis, false, &rotated);
    returned.iter().zip(&signs).fold(0.0, |worst, (returned, sign)| {
        let off = (returned - sign).abs();
        // `f64::max` would drop a NaN.
        if off <= worst { worst } else { off }
    })
}

/// `matrix columns` or `matrix^T columns`, with [`PROBES`] columns.
fn multiply(matrix: &[f64], transposed: bool, columns: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; columns.len()];
    product.par_chunks_mut(PANEL_ROWS * PROBES).enumerate().for_each(|(panel, out)| {
        linear::multiply(matrix, transposed, columns, PROBES, panel * PANEL_ROWS, out);
    });
    product
}

/// Word `index` of the SplitMix64 generator: all of its bits depend on all of the index.
fn scramble(index: u64) -> u64 {
    let mut word = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests;
