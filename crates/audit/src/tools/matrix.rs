//! Rows of numbers in double precision.

use std::ops::Range;

use faer::{MatMut, MatRef, Par};
use rand_core::Rng;
use shard_geometry::VectorSet;
use shard_geometry::gaussian::Normals;

/// A matrix by rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Matrix {
    width: usize,
    values: Vec<f64>,
}

impl Matrix {
    /// Rows of `width` numbers, one after the other.
    ///
    /// # Panics
    /// When the values do not fill whole rows.
    pub fn new(width: usize, values: Vec<f64>) -> Self {
        assert!(width > 0 && values.len().is_multiple_of(width), "whole rows");
        Self { width, values }
    }

    /// All zero.
    pub fn zeros(rows: usize, width: usize) -> Self {
        Self::new(width, vec![0.0; rows * width])
    }

    /// Independent standard normal numbers.
    pub fn normal(rows: usize, width: usize, rng: &mut impl Rng) -> Self {
        let mut matrix = Self::zeros(rows, width);
        Normals::new(rng).fill(&mut matrix.values);
        matrix
    }

    /// The same numbers, wider.
    pub fn from_vectors(vectors: &VectorSet) -> Self {
        Self::new(vectors.width(), vectors.values().iter().map(|&x| f64::from(x)).collect())
    }

    /// A copy of a matrix of faer's.
    pub fn from_faer(matrix: MatRef<'_, f64>) -> Self {
        let rows = (0..matrix.nrows()).flat_map(|i| (0..matrix.ncols()).map(move |j| (i, j)));
        Self::new(matrix.ncols(), rows.map(|(i, j)| matrix[(i, j)]).collect())
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len() / self.width
    }

    /// Numbers in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.width..][..self.width]
    }

    /// One row, to change.
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.values[row * self.width..][..self.width]
    }

    /// All rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> + Clone {
        self.values.chunks_exact(self.width)
    }

    /// All numbers in order.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// All numbers, to change.
    pub fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }

    /// Some rows, in the order named; a row may be named twice.
    pub fn select(&self, rows: &[usize]) -> Self {
        self.part(rows, 0..self.width)
    }

    /// Columns `range` of some rows, in the order named.
    ///
    /// # Panics
    /// When the range is empty or past the end.
    pub fn part(&self, rows: &[usize], range: Range<usize>) -> Self {
        let mut values = Vec::with_capacity(rows.len() * range.len());
        rows.iter().for_each(|&row| values.extend_from_slice(&self.row(row)[range.clone()]));
        Self::new(range.len(), values)
    }

    /// Columns `range` of every row.
    ///
    /// # Panics
    /// When the range is empty or past the end.
    pub fn columns(&self, range: Range<usize>) -> Self {
        let width = range.len();
        let mut values = Vec::with_capacity(self.rows() * width);
        self.iter().for_each(|row| values.extend_from_slice(&row[range.clone()]));
        Self::new(width, values)
    }

    /// The mean of every column; zero of no rows.
    pub fn column_means(&self) -> Vec<f64> {
        let mut means = vec![0.0; self.width];
        self.iter().for_each(|row| means.iter_mut().zip(row).for_each(|(mean, x)| *mean += x));
        means.iter_mut().for_each(|mean| *mean /= self.rows().max(1) as f64);
        means
    }

    /// `one` added to every row.
    ///
    /// # Panics
    /// When it has another width.
    pub fn plus(mut self, one: &[f64]) -> Self {
        assert_eq!(self.width, one.len(), "a row of this width");
        let rows = self.values.chunks_exact_mut(self.width);
        rows.for_each(|row| row.iter_mut().zip(one).for_each(|(x, y)| *x += y));
        self
    }

    /// `one` taken from every row.
    ///
    /// # Panics
    /// When it has another width.
    pub fn minus(self, one: &[f64]) -> Self {
        let negative: Vec<f64> = one.iter().map(|y| -y).collect();
        self.plus(&negative)
    }

    /// The Euclidean norm of every row.
    pub fn norms(&self) -> Vec<f64> {
        self.iter().map(|row| row.iter().map(|x| x * x).sum::<f64>().sqrt()).collect()
    }

    /// Every row at norm one; a row of zeros stays.
    pub fn normalised(mut self) -> Self {
        for row in self.values.chunks_exact_mut(self.width) {
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            if norm > 0.0 {
                row.iter_mut().for_each(|x| *x /= norm);
            }
        }
        self
    }

    /// A view for faer.
    pub fn as_faer(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.values, self.rows(), self.width)
    }

    /// `self * other^T`: inner products of rows with rows, on all cores.
    ///
    /// # Panics
    /// When the widths differ.
    pub fn times_transposed(&self, other: &Self) -> Self {
        self.product(other.as_faer().transpose(), Vec::new())
    }

    /// The same with some columns of the other, which are not copied, in the memory of a product of before.
    pub fn times_columns_transposed(
        &self,
        other: &Self,
        columns: Range<usize>,
        memory: Vec<f64>,
    ) -> Self {
        let other = other.as_faer().subcols(columns.start, columns.len());
        self.product(other.transpose(), memory)
    }

    /// All numbers in order, without the rest.
    pub fn into_values(self) -> Vec<f64> {
        self.values
    }

    /// `self * other`, on all cores.
    ///
    /// # Panics
    /// When `self` is not as wide as `other` has rows.
    pub fn times(&self, other: &Self) -> Self {
        self.product(other.as_faer(), Vec::new())
    }

    fn product(&self, right: MatRef<'_, f64>, mut memory: Vec<f64>) -> Self {
        assert_eq!(self.width, right.nrows(), "matrices that can be multiplied");
        let (rows, width) = (self.rows(), right.ncols());
        memory.resize(rows * width, 0.0);
        // faer writes columns; the transposed product is ours by rows.
        let out = MatMut::from_column_major_slice_mut(&mut memory, width, rows);
        let (left, right) = (right.transpose(), self.as_faer().transpose());
        faer::linalg::matmul::matmul(out, faer::Accum::Replace, left, right, 1.0, Par::rayon(0));
        Self::new(width, memory)
    }
}

/// The cosine of each row with the same row of another matrix; zero where either is zero.
pub fn cosines(rows: &Matrix, others: &Matrix) -> Vec<f64> {
    let norms = rows.norms().into_iter().zip(others.norms());
    let products = rows.iter().zip(others.iter());
    let products = products.map(|(x, y)| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>());
    let cosine = |(product, (x, y)): (f64, (f64, f64))| {
        if x > 0.0 && y > 0.0 { product / (x * y) } else { 0.0 }
    };
    products.zip(norms).map(cosine).collect()
}

/// [`Matrix::normal`] from a seed, for tests.
#[cfg(test)]
pub(crate) fn normal(rows: usize, width: usize, seed: u64) -> Matrix {
    Matrix::normal(rows, width, &mut super::statistics::generator(seed, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn products_are_sums_of_products(
            rows in 1_usize..7, inner in 1_usize..7, columns in 1_usize..7,
            numbers in prop::collection::vec(-9_i32..9, 98),
        ) {
            let take = |n: usize, width, from: usize| {
                Matrix::new(width, numbers[from..from + n * width].iter().map(|&x| f64::from(x)).collect())
            };
            let (a, b) = (take(rows, inner, 0), take(columns, inner, 49));
            let product = a.times_transposed(&b);
            prop_assert_eq!((product.rows(), product.width()), (rows, columns));
            for (i, x) in a.iter().enumerate() {
                for (j, y) in b.iter().enumerate() {
                    let expected: f64 = x.iter().zip(y).map(|(x, y)| x * y).sum();
                    prop_assert_eq!(product.row(i)[j], expected);
                }
            }
            let transposed = Matrix::from_faer(b.as_faer().transpose());
            prop_assert_eq!(a.times(&transposed), product);
        }
    }

    #[test]
    fn cosines_pair_rows() {
        let rows = Matrix::new(2, vec![3.0, 4.0, 0.0, 0.0, 1.0, 0.0]);
        let others = Matrix::new(2, vec![6.0, 8.0, 1.0, 0.0, 0.0, 2.0]);
        assert_eq!(cosines(&rows, &others), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn parts_are_taken_in_the_order_named() {
        let matrix = Matrix::new(3, (0..9).map(f64::from).collect());
        assert_eq!(matrix.select(&[2, 0, 2]).row(1), [0.0, 1.0, 2.0]);
        assert_eq!(matrix.columns(1..3).values(), [1.0, 2.0, 4.0, 5.0, 7.0, 8.0]);
        assert_eq!(matrix.part(&[2, 0], 1..3).values(), [7.0, 8.0, 1.0, 2.0]);
        let mean = matrix.column_means();
        assert_eq!(mean, [3.0, 4.0, 5.0]);
        assert_eq!(matrix.clone().minus(&mean).column_means(), [0.0; 3]);
        assert_eq!(matrix.clone().minus(&mean).plus(&mean), matrix);
        assert_eq!(
            Matrix::new(2, vec![3.0, 4.0, 0.0, 0.0]).normalised().values(),
            [0.6, 0.8, 0.0, 0.0]
        );
    }
}
