//! Stored rows as any linear map of native vectors, with noise: `z = x B + e`, `e` of covariance `S`.
//!
//! Keys are one such map. Others are projections to some of the coordinates, padding, permutations,
//! scales of columns, and noise of any shape added before or after. The map is fitted the way it was
//! applied, by ridge regression of rows on vectors, so that it does not matter what of a vector a row
//! leaves out. What is left over of pairs that the fit has not seen gives `S`, and a row is compared
//! with a candidate by `(z - x B)^T S^-1 (z - x B)`: what noise hides counts for nothing.

use anyhow::Result;

use super::estimators::{Estimator, Factors, Pairs, ReverseMap, matrix};
use crate::tools::matrix::Matrix;

/// The fewest pairs that a model is fitted to.
pub const FEWEST_PAIRS: usize = 16;

/// One pair in so many is held out for the covariance.
const HELD_OUT: usize = 4;

/// Variance of noise, as a share of that of rows, below which it is rounding.
const ROUNDING: f64 = 1e-12;

/// A fitted model.
pub struct LinearModel {
    native_mean: Vec<f64>,
    stored_mean: Vec<f64>,
    map: ReverseMap,
    /// Takes errors to ones of covariance one.
    whitening: Matrix,
}

impl LinearModel {
    /// Fits the model to pairs.
    ///
    /// # Errors
    /// When a singular value decomposition does not converge.
    ///
    /// # Panics
    /// For fewer than two pairs.
    pub fn fit(pairs: &Pairs) -> Result<Self> {
        let (native_mean, stored_mean) =
            (pairs.residuals.column_means(), pairs.rows.column_means());
        let native = pairs.residuals.clone().minus(&native_mean);
        let stored = pairs.rows.clone().minus(&stored_mean);
        let (count, width) = (stored.rows(), stored.width());
        let held = (count / HELD_OUT).max(1);
        let (seen, unseen): (Vec<usize>, Vec<usize>) = (0..count).partition(|&at| at >= held);
        // The estimators map rows back; here they map vectors to rows.
        let fit = |native: Matrix, stored: Matrix| {
            Estimator::RidgeValidated.fit(&Pairs { residuals: stored, rows: native })
        };
        let partly = fit(native.select(&seen), stored.select(&seen))?;
        let mut errors = partly.apply(&native.select(&unseen));
        let truth = stored.select(&unseen);
        errors.values_mut().iter_mut().zip(truth.values()).for_each(|(x, z)| *x -= z);
        let mut covariance = errors.as_faer().transpose() * errors.as_faer();
        covariance.col_iter_mut().for_each(|column| {
            column.iter_mut().for_each(|x| *x /= held as f64);
        });
        // Few errors leave most of the covariance open: it is taken to be round there.
        let share = if held >= 2 * width { 1e-9 } else { width as f64 / (width + held) as f64 };
        let square = |of: &Matrix| of.values().iter().map(|x| x * x).sum::<f64>();
        let mean = (0..width).map(|at| covariance[(at, at)]).sum::<f64>() / width as f64;
        let rounding = ROUNDING * square(&stored) / (count * width) as f64;
        for i in 0..width {
            for j in 0..width {
                covariance[(i, j)] *= 1.0 - share;
            }
            covariance[(i, i)] += share * mean + rounding + f64::MIN_POSITIVE;
        }
        let factors = Factors::of(covariance.as_ref(), 0.0)?;
        let mut whitening = factors.u;
        for (at, s) in factors.s.iter().enumerate() {
            whitening.col_mut(at).iter_mut().for_each(|x| *x /= s.sqrt());
        }
        let map = fit(native, stored)?;
        Ok(Self { native_mean, stored_mean, map, whitening: matrix(whitening.as_ref()) })
    }

    /// What is compared, of stored rows.
    pub fn of_rows(&self, rows: &Matrix) -> Matrix {
        rows.clone().minus(&self.stored_mean).times(&self.whitening)
    }

    /// What is compared, of native vectors.
    pub fn of_natives(&self, natives: &Matrix) -> Matrix {
        self.map.apply(&natives.clone().minus(&self.native_mean)).times(&self.whitening)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::matrix::normal;
    use crate::tools::neighbours::{Metric, places};
    use crate::tools::statistics::mean;

    /// The share of the first hundred rows found among all vectors, with pairs of the others.
    fn recall(natives: &Matrix, rows: &Matrix, pairs: usize) -> f64 {
        let shown: Vec<usize> = (natives.rows() - pairs..natives.rows()).collect();
        let model = LinearModel::fit(&Pairs::of(natives, rows, &shown)).expect("a model");
        let targets: Vec<usize> = (0..100).collect();
        let rows = model.of_rows(&rows.select(&targets));
        let places = places(&rows, &model.of_natives(natives), &targets, Metric::Distance);
        mean(&places.iter().map(|&place| f64::from(place == 0.0)).collect::<Vec<_>>())
    }

    #[test]
    fn any_linear_map_is_found_under_noise_and_padding() {
        let natives = normal(600, 24, 1);
        let map = normal(24, 24, 2);
        let rows = natives.times(&map);
        assert!(recall(&natives, &rows, 96) > 0.99, "exact");
        // Half of the coordinates kept, the others replaced by loud noise, all mixed again.
        let (kept, noise) = (natives.columns(0..12), normal(600, 12, 3));
        let joined = kept.iter().zip(noise.iter()).flat_map(|(kept, noise)| {
            kept.iter().copied().chain(noise.iter().map(|x| 20.0 * x)).collect::<Vec<_>>()
        });
        let padded = Matrix::new(24, joined.collect()).times(&map);
        assert!(recall(&natives, &padded, 300) > 0.9);
    }

    #[test]
    fn rows_of_other_vectors_are_not_found() {
        let (natives, rows) = (normal(600, 24, 1), normal(600, 24, 9));
        assert!(recall(&natives, &rows, 96) < 0.05);
        assert!(recall(&natives, &Matrix::zeros(600, 24), 96) < 0.05, "nothing at all");
    }
}
