//! From coordinates `y = V^T (x - mu)` back to vectors `x = mu + V y`, as an observer that is
//! granted `V` and `mu` can go.

use shard_geometry::Pca;

use super::maps::minimum_norm_map;
use super::views::column_means;
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, sample};

/// Rows for each coordinate from which a frame is found.
const ROWS_PER_COORDINATE: usize = 2;

/// The way back: `x = origin + (y - image) B`.
#[derive(Clone, Debug)]
pub struct Frame {
    /// A vector.
    origin: Vec<f64>,
    /// Its coordinates.
    image: Vec<f64>,
    /// `V^T`.
    basis: Matrix,
}

impl Frame {
    /// That of a model.
    pub fn of(pca: &Pca) -> Self {
        let width = pca.width();
        let basis = Matrix::new(width, pca.basis().to_vec());
        Self { origin: pca.mean().to_vec(), image: vec![0.0; width], basis }
    }

    /// The one between vectors and their coordinates, by least squares; what the rows leave open
    /// (directions without variance, or fewer rows than directions) is mapped to zero.
    ///
    /// # Panics
    /// When there are no rows, or not as many of each.
    pub fn between(vectors: &Matrix, coordinates: &Matrix, seed: u64) -> Self {
        assert_eq!(vectors.rows(), coordinates.rows(), "coordinates of each vector");
        let count = ROWS_PER_COORDINATE * (vectors.width() + 1);
        let rows = sample(vectors.rows(), count, &mut generator(seed, FRAME));
        let (vectors, coordinates) = (vectors.select(&rows), coordinates.select(&rows));
        let (origin, image) = (column_means(&vectors), column_means(&coordinates));
        let basis = minimum_norm_map(
            &shifted(&vectors, &origin, -1.0),
            &shifted(&coordinates, &image, -1.0),
        );
        Self { origin, image, basis }
    }

    /// Vectors with these coordinates.
    ///
    /// # Panics
    /// When the coordinates have another width.
    pub fn vectors(&self, coordinates: &Matrix) -> Matrix {
        shifted(&shifted(coordinates, &self.image, -1.0).times(&self.basis), &self.origin, 1.0)
    }
}

/// The purpose of the sample's randomness.
const FRAME: u64 = 0x6672_616d;

fn shifted(rows: &Matrix, by: &[f64], sign: f64) -> Matrix {
    let values = rows.iter().flat_map(|row| row.iter().zip(by).map(|(x, y)| x + sign * y));
    Matrix::new(rows.width(), values.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::coordinates;
    use rand_core::Rng;
    use shard_geometry::VectorSet;

    #[test]
    fn frames_go_back_to_the_vectors_also_with_a_dead_coordinate() {
        let mut rng = generator(9, 0);
        let mut values: Vec<f32> = (0..60 * 8).map(|_| rng.next_u32() as f32 / 4e9).collect();
        values.chunks_exact_mut(8).for_each(|row| row[3] = 0.25);
        let vectors = VectorSet::new(8, values).expect("finite vectors");
        let pca = Pca::fit(&vectors).expect("a model");
        let coordinates = coordinates(&pca, &vectors);
        let vectors = Matrix::from_vectors(&vectors);
        for frame in [Frame::of(&pca), Frame::between(&vectors, &coordinates, 1)] {
            let back = frame.vectors(&coordinates);
            let off = back.values().iter().zip(vectors.values()).map(|(a, b)| (a - b).abs());
            assert!(off.fold(0.0, f64::max) < 1e-6);
        }
    }
}
