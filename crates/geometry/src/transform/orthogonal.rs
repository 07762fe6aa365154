//! The uniform orthogonal map, as a product of reflections.

use rand_core::Rng;
use rayon::prelude::*;

use crate::gaussian::Normals;
use crate::kernel;

/// Rows that one task carries through all reflections, so that each reflection is read from memory once for all.
const BLOCK_ROWS: usize = 16;

/// A Haar-distributed orthogonal matrix `Q = H_1 H_2 .. H_(n-1) D`.
///
/// # Why this is Haar
/// Let `A` be `n x n` with independent standard normal entries and `A = Q R` with a positive diagonal in `R`. Then `Q`
/// is Haar: `U A` has the law of `A` for every orthogonal `U`, and the factorisation with that sign is unique
/// (Mezzadri, *How to generate random matrices from the classical compact groups*, 2007). Householder's method finds
/// `Q` so: a reflection `H_1` maps the first column `a` to `-sgn(a_1) |a| e_1`, then the same is done to what is left
/// of the matrix below and right of the corner. `H_1` depends on the first column only and is orthogonal, so what is
/// left is again a matrix of independent standard normals, independent of `H_1`. Hence the columns that define the
/// reflections are independent standard normal vectors of lengths `n, n-1, .., 1` and can be drawn directly, without a
/// matrix and without an `O(n^3)` factorisation (Stewart, *The efficient generation of random orthogonal matrices*,
/// 1980). The diagonal of `R` is `-sgn(a_1) |a|` for each, and a plain number for the last; `D` takes up its signs.
/// The law is that of Gaussian QR with the sign fix, exactly.
///
/// `n^2 / 2` numbers to draw and to keep, `2 n^2` operations to apply.
///
/// Dropping a key overwrites it with zeros. Without `unsafe` this is best effort: the compiler is hindered from
/// leaving it out, not forbidden, and copies that moves left on the stack are beyond reach (the numbers themselves are
/// on the heap and never move).
pub struct OrthogonalKey {
    width: usize,
    /// For `k = 0 ..= n-2` the vector `w` of length `n - k` with `H = I - w w^T` on the last `n - k` coordinates.
    reflections: Vec<f64>,
    /// The diagonal of `D`.
    signs: Vec<f64>,
}

impl OrthogonalKey {
    /// Draws a key; width zero gives the map of the empty vector.
    pub fn sample(width: usize, rng: &mut impl Rng) -> Self {
        let mut normals = Normals::new(rng);
        let mut reflections = vec![0.0; (width * (width + 1) / 2).saturating_sub(1)];
        let mut signs = vec![1.0; width];
        let mut rest = reflections.as_mut_slice();
        for (length, sign) in (2..=width).rev().zip(&mut signs) {
            let (vector, tail) = rest.split_at_mut(length);
            normals.fill(vector);
            *sign = into_reflection(vector);
            rest = tail;
        }
        if let Some(last) = signs.last_mut() {
            *last = if normals.draw() < 0.0 { -1.0 } else { 1.0 };
        }
        Self { width, reflections, signs }
    }

    /// The width of the vectors it maps.
    pub fn width(&self) -> usize {
        self.width
    }

    /// `x <- Q x`.
    ///
    /// # Panics
    /// If `x` has another width than the key.
    pub fn apply(&self, x: &mut [f64]) {
        assert_eq!(x.len(), self.width, "a key maps vectors of its own width");
        self.map_block(x);
    }

    /// `x <- Q^T x`.
    ///
    /// # Panics
    /// If `x` has another width than the key.
    pub fn apply_inverse(&self, x: &mut [f64]) {
        assert_eq!(x.len(), self.width, "a key maps vectors of its own width");
        kernel::dispatch(
            #[inline(always)]
            || {
                let mut rest = self.reflections.as_slice();
                for length in (2..=self.width).rev() {
                    let (vector, tail) = rest.split_at(length);
                    reflect(vector, &mut x[self.width - length..]);
                    rest = tail;
                }
                flip(&self.signs, x);
            },
        );
    }

    /// [`apply`](Self::apply) to every row of a row-major matrix, in parallel and with the same bits.
    ///
    /// # Panics
    /// If `rows` is not whole rows of the key's width.
    pub fn apply_many(&self, rows: &mut [f64]) {
        if rows.is_empty() {
            return;
        }
        assert!(
            self.width > 0 && rows.len().is_multiple_of(self.width),
            "a key maps vectors of its own width"
        );
        rows.par_chunks_mut(BLOCK_ROWS * self.width).for_each(|block| self.map_block(block));
    }

    /// `Q` as a row-major matrix, for audits and tests.
    pub fn dense(&self) -> Vec<f64> {
        let n = self.width;
        // Row `j` of the scratch becomes `Q e_j`, the `j`-th column.
        let mut columns = vec![0.0; n * n];
        (0..n).for_each(|at| columns[at * n + at] = 1.0);
        self.apply_many(&mut columns);
        (0..n * n).map(|at| columns[at % n * n + at / n]).collect()
    }

    /// The heap memory the key holds.
    pub fn bytes(&self) -> usize {
        size_of::<f64>() * (self.reflections.len() + self.signs.len())
    }

    fn map_block(&self, rows: &mut [f64]) {
        kernel::dispatch(
            #[inline(always)]
            || {
                if self.width == 0 {
                    return;
                }
                for row in rows.chunks_exact_mut(self.width) {
                    flip(&self.signs, row);
                }
                let mut rest = self.reflections.as_slice();
                for length in 2..=self.width {
                    let (head, vector) = rest.split_at(rest.len() - length);
                    for row in rows.chunks_exact_mut(self.width) {
                        reflect(vector, &mut row[self.width - length..]);
                    }
                    rest = head;
                }
            },
        );
    }
}

/// Turns a vector `a` into `w` with `(I - w w^T) a = -sgn(a_1) |a| e_1`, and returns that sign:
/// `v = a + sgn(a_1) |a| e_1` and `w = v sqrt(2 / <v, v>)`, where `<v, v> = 2 |a| (|a| + |a_1|)`.
fn into_reflection(vector: &mut [f64]) -> f64 {
    let norm = kernel::dot(vector, vector).sqrt();
    let sign = if vector[0] < 0.0 { -1.0 } else { 1.0 };
    let scale = (norm * (norm + vector[0].abs())).sqrt();
    vector[0] += sign * norm;
    // A vector of zeros (which no real stream of words gives) stays zero and reflects nothing.
    if scale > 0.0 {
        vector.iter_mut().for_each(|entry| *entry /= scale);
    }
    -sign
}

#[inline(always)]
fn reflect(vector: &[f64], x: &mut [f64]) {
    let along = kernel::dot(vector, x);
    kernel::subtract_scaled(x, along, vector);
}

#[inline(always)]
fn flip(signs: &[f64], x: &mut [f64]) {
    for (x, sign) in x.iter_mut().zip(signs) {
        *x *= sign;
    }
}

impl Drop for OrthogonalKey {
    fn drop(&mut self) {
        self.reflections.fill(0.0);
        self.signs.fill(0.0);
        std::hint::black_box((&self.reflections, &self.signs));
    }
}

impl std::fmt::Debug for OrthogonalKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "OrthogonalKey(width {}, redacted)", self.width)
    }
}

#[cfg(test)]
mod tests;
