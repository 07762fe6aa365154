//! Keyed orthogonal maps of the residual.
//!
//! `T` is orthogonal, so `<T r_q, T r_i> = <r_q, r_i>`: a query transformed under the key of a cell scores the stored
//! rows of that cell exactly. For the same reason the Gram matrix of the stored rows of one cell is that of the
//! residuals: within a cell, a transform hides directions but neither norms nor angles.
//!
//! A key is drawn from a stream of random words and is a function of nothing else. The same words give the same key,
//! and applying it the same bits, on every machine.

mod orthogonal;
mod structured;

pub use orthogonal::OrthogonalKey;
pub use structured::{StructuredKey, hadamard};

/// A key of either kind.
#[derive(Debug)]
pub enum Transform {
    /// Haar-distributed: the uniform choice among all orthogonal maps.
    Orthogonal(OrthogonalKey),
    /// A fast map of signs, permutations and Hadamard rounds.
    Structured(StructuredKey),
}

impl Transform {
    /// The width of the residuals it maps.
    pub fn width(&self) -> usize {
        match self {
            Self::Orthogonal(key) => key.width(),
            Self::Structured(key) => key.width(),
        }
    }

    /// `x <- T x`.
    ///
    /// # Panics
    /// If `x` has another width than the key.
    pub fn apply(&self, x: &mut [f64]) {
        match self {
            Self::Orthogonal(key) => key.apply(x),
            Self::Structured(key) => key.apply(x),
        }
    }

    /// `x <- T^-1 x`, which is `T^T x`.
    ///
    /// # Panics
    /// If `x` has another width than the key.
    pub fn apply_inverse(&self, x: &mut [f64]) {
        match self {
            Self::Orthogonal(key) => key.apply_inverse(x),
            Self::Structured(key) => key.apply_inverse(x),
        }
    }

    /// [`apply`](Self::apply) to every row of a row-major matrix, in parallel.
    ///
    /// # Panics
    /// If `rows` is not whole rows of the key's width.
    pub fn apply_many(&self, rows: &mut [f64]) {
        match self {
            Self::Orthogonal(key) => key.apply_many(rows),
            Self::Structured(key) => key.apply_many(rows),
        }
    }

    /// The heap memory the key holds, for the budget of a cache.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Orthogonal(key) => key.bytes(),
            Self::Structured(key) => key.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::*;
    use crate::gaussian::Normals;
    use crate::kernel::dot;

    fn transforms(width: usize, rng: &mut ChaCha20Rng) -> [Transform; 2] {
        [
            Transform::Orthogonal(OrthogonalKey::sample(width, rng)),
            Transform::Structured(StructuredKey::sample(width, rng)),
        ]
    }

    #[test]
    fn every_transform_preserves_inner_products() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for width in [1, 2, 3, 5, 24, 96, 288, 576, 1000] {
            for transform in transforms(width, &mut rng) {
                let (mut a, mut b) = (vec![0.0; width], vec![0.0; width]);
                let mut normals = Normals::new(&mut rng);
                normals.fill(&mut a);
                normals.fill(&mut b);
                let (before, size) = (dot(&a, &b), (dot(&a, &a) * dot(&b, &b)).sqrt());
                transform.apply(&mut a);
                transform.apply(&mut b);
                assert!((dot(&a, &b) - before).abs() <= 1e-12 * size, "{transform:?}");
            }
        }
    }

    /// A known leak: the stored rows of one cell have the inner products of their residuals.
    #[test]
    fn known_leak_the_gram_matrix_of_one_cell_survives_its_key() {
        let (rows, width) = (12, 40);
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let mut residuals = vec![0.0; rows * width];
        Normals::new(&mut rng).fill(&mut residuals);
        let gram = |values: &[f64]| -> Vec<f64> {
            let row = |at: usize| &values[at * width..][..width];
            (0..rows * rows).map(|at| dot(row(at / rows), row(at % rows))).collect()
        };
        for transform in transforms(width, &mut rng) {
            let mut stored = residuals.clone();
            transform.apply_many(&mut stored);
            assert!(stored.iter().zip(&residuals).any(|(a, b)| (a - b).abs() > 0.1));
            for (hidden, plain) in gram(&stored).iter().zip(gram(&residuals)) {
                assert!((hidden - plain).abs() < 1e-12 * width as f64);
            }
        }
    }

    /// The words are those of ChaCha20 with the key `00 01 .. 1f`. A change here means that no vault can be read.
    #[test]
    fn keys_from_fixed_words_never_change() {
        let mut rng = ChaCha20Rng::from_seed(std::array::from_fn(|at| at as u8));
        for (transform, expected) in transforms(5, &mut rng).iter().zip([
            [
                13824972581206980228,
                13830233519188715150,
                4600720525612779720,
                13805011582569459832,
                4597598796741292285,
            ],
            [
                13815354806912417792,
                4600919600568205312,
                4603699165963223040,
                13826860096585465856,
                13827493415283064832,
            ],
        ]) {
            let mut x = [1.0, 0.5, 0.25, 0.125, 0.0625];
            transform.apply(&mut x);
            assert_eq!(x.map(f64::to_bits), expected, "{transform:?} gives {x:?}");
        }
    }
}
