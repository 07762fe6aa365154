//! Affine maps between two descriptions of the same rows, `y = image + (x - origin) W`: vectors and
//! their principal coordinates, in either direction.
//!
//! A subject has vectors and coordinates but not the basis between them. Least squares finds it
//! again: with centred rows `X` and `Y = X V`, `V = X^+ Y`. What the rows leave open (directions
//! without variance, of which encoders have some, or fewer rows than directions) maps to zero.

use anyhow::Result;
use shard_geometry::Pca;

use super::estimators::{Estimator, Pairs};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, sample};

/// Rows for each coordinate from which a map is fitted.
const ROWS_PER_COORDINATE: usize = 2;

/// The purpose of the sample's randomness.
const FITTED: u64 = 0x6672_616d;

/// `y = image + (x - origin) W`.
#[derive(Clone, Debug)]
pub struct Affine {
    origin: Vec<f64>,
    image: Vec<f64>,
    map: Matrix,
}

impl Affine {
    /// From a model's coordinates back to vectors: `x = mu + V y`.
    pub fn from_coordinates(pca: &Pca) -> Self {
        let width = pca.width();
        let map = Matrix::new(width, pca.basis().to_vec());
        Self { origin: vec![0.0; width], image: pca.mean().to_vec(), map }
    }

    /// The map that takes each row of `from` to the same row of `to`, by least squares on a sample.
    ///
    /// # Errors
    /// When a singular value decomposition does not converge.
    ///
    /// # Panics
    /// When there are no rows, or not as many of each.
    pub fn between(from: &Matrix, to: &Matrix, seed: u64) -> Result<Self> {
        assert_eq!(from.rows(), to.rows(), "both descriptions of each row");
        let count = ROWS_PER_COORDINATE * (from.width() + 1);
        let rows = sample(from.rows(), count, &mut generator(seed, FITTED));
        let (from, to) = (from.select(&rows), to.select(&rows));
        let (origin, image) = (from.column_means(), to.column_means());
        let pairs = Pairs { residuals: to.minus(&image), rows: from.minus(&origin) };
        let map = Estimator::LeastSquares.fit(&pairs)?.dense();
        Ok(Self { origin, image, map })
    }

    /// Rows in the other description.
    ///
    /// # Panics
    /// When they have another width.
    pub fn apply(&self, rows: &Matrix) -> Matrix {
        rows.clone().minus(&self.origin).times(&self.map).plus(&self.image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::coordinates;
    use rand_core::Rng;
    use shard_geometry::VectorSet;

    #[test]
    fn vectors_and_coordinates_lead_to_each_other_also_with_a_dead_coordinate() {
        let mut rng = generator(9, 0);
        let mut values: Vec<f32> = (0..60 * 8).map(|_| rng.next_u32() as f32 / 4e9).collect();
        values.chunks_exact_mut(8).for_each(|row| row[3] = 0.25);
        let vectors = VectorSet::new(8, values).expect("finite vectors");
        let pca = Pca::fit(&vectors).expect("a model");
        let coordinates = coordinates(&pca, &vectors);
        let vectors = Matrix::from_vectors(&vectors);
        let fitted = |from, to| Affine::between(from, to, 1).expect("a map");
        for (map, from, to) in [
            (Affine::from_coordinates(&pca), &coordinates, &vectors),
            (fitted(&coordinates, &vectors), &coordinates, &vectors),
            (fitted(&vectors, &coordinates), &vectors, &coordinates),
        ] {
            let found = map.apply(from);
            let off = found.values().iter().zip(to.values()).map(|(a, b)| (a - b).abs());
            assert!(off.fold(0.0, f64::max) < 1e-6);
        }
    }
}
