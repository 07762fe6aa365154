//! Validated sets of vectors.

use rayon::prelude::*;
use thiserror::Error;

use crate::kernel;

/// A vector or a set of vectors that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum VectorError {
    /// The set is empty.
    #[error("there are no vectors")]
    NoRows,
    /// The vectors have width zero.
    #[error("vectors have width 0")]
    ZeroWidth,
    /// The values do not fill whole rows.
    #[error("{values} values do not fill rows of width {width}")]
    Ragged {
        /// How many values there are.
        values: usize,
        /// How many values make a row.
        width: usize,
    },
    /// Rows are numbered with 32 bits.
    #[error("{rows} rows are more than {}", u32::MAX)]
    TooManyRows {
        /// How many rows there are.
        rows: usize,
    },
    /// A value is NaN or infinite.
    #[error("row {row}, column {column}: the value is not finite")]
    NotFinite {
        /// The row, counted from zero; zero for a single vector.
        row: usize,
        /// The column, counted from zero.
        column: usize,
    },
    /// A vector has another width than the model.
    #[error("the vector has width {actual}, expected {expected}")]
    WrongWidth {
        /// The width of the model.
        expected: usize,
        /// The width of the vector.
        actual: usize,
    },
}

/// Row-major `N x d` vectors in `f32`: every value finite, `d > 0`, `1 <= N <= 2^32 - 1`.
#[derive(Clone, PartialEq)]
pub struct VectorSet {
    width: usize,
    values: Vec<f32>,
}

impl VectorSet {
    /// Takes row-major values after checking them.
    ///
    /// # Errors
    /// Any [`VectorError`] but `WrongWidth`; the first value that is not finite is named.
    pub fn new(width: usize, values: Vec<f32>) -> Result<Self, VectorError> {
        if width == 0 {
            return Err(VectorError::ZeroWidth);
        }
        if values.is_empty() {
            return Err(VectorError::NoRows);
        }
        if !values.len().is_multiple_of(width) {
            return Err(VectorError::Ragged { values: values.len(), width });
        }
        let rows = values.len() / width;
        if u32::try_from(rows).is_err() {
            return Err(VectorError::TooManyRows { rows });
        }
        match values.par_iter().position_first(|value| !value.is_finite()) {
            Some(at) => Err(VectorError::NotFinite { row: at / width, column: at % width }),
            None => Ok(Self { width, values }),
        }
    }

    /// The number of rows, at least one.
    pub fn rows(&self) -> usize {
        self.values.len() / self.width
    }

    /// The number of values in a row, at least one.
    pub fn width(&self) -> usize {
        self.width
    }

    /// One row.
    ///
    /// # Panics
    /// If `row` is not below [`rows`](Self::rows).
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..][..self.width]
    }

    /// All values, row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Gives the values back.
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }

    /// The Euclidean norm of every row, summed in `f64`.
    pub fn norms(&self) -> Vec<f64> {
        self.values.par_chunks(self.width).map(norm).collect()
    }

    /// The largest Euclidean norm of a row.
    pub fn max_norm(&self) -> f64 {
        self.values.par_chunks(self.width).map(norm).reduce(|| 0.0, f64::max)
    }
}

/// A corpus may be confidential, so only its shape prints.
impl std::fmt::Debug for VectorSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "VectorSet({} x {})", self.rows(), self.width)
    }
}

fn norm(row: &[f32]) -> f64 {
    kernel::dot_f32(row, row).sqrt()
}

/// Checks a single vector, a query say, against the width of a model.
///
/// # Errors
/// `WrongWidth`, or `NotFinite` with row zero.
pub fn check_vector(width: usize, vector: &[f32]) -> Result<(), VectorError> {
    if vector.len() != width {
        return Err(VectorError::WrongWidth { expected: width, actual: vector.len() });
    }
    match vector.iter().position(|value| !value.is_finite()) {
        Some(column) => Err(VectorError::NotFinite { row: 0, column }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_rejects_what_is_not_a_matrix() {
        assert_eq!(VectorSet::new(0, vec![1.0]), Err(VectorError::ZeroWidth));
        assert_eq!(VectorSet::new(2, vec![]), Err(VectorError::NoRows));
        assert_eq!(
            VectorSet::new(2, vec![1.0; 3]),
            Err(VectorError::Ragged { values: 3, width: 2 })
        );
    }

    #[test]
    fn set_names_the_first_value_that_is_not_finite() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = vec![0.5; 12];
            values[7] = bad;
            values[11] = bad;
            assert_eq!(
                VectorSet::new(3, values),
                Err(VectorError::NotFinite { row: 2, column: 1 })
            );
        }
    }

    #[test]
    fn norms_do_not_overflow_in_f32() {
        let set = VectorSet::new(2, vec![3e30, 4e30, 0.3, 0.4]).unwrap();
        let norms = set.norms();
        assert!((norms[0] / 5e30 - 1.0).abs() < 1e-6);
        assert!((norms[1] - 0.5).abs() < 1e-7);
        assert_eq!(set.max_norm(), norms[0]);
    }

    #[test]
    fn query_is_checked_for_width_and_finiteness() {
        assert_eq!(
            check_vector(3, &[0.0; 2]),
            Err(VectorError::WrongWidth { expected: 3, actual: 2 })
        );
        assert_eq!(
            check_vector(2, &[0.0, f32::NAN]),
            Err(VectorError::NotFinite { row: 0, column: 1 })
        );
        assert_eq!(check_vector(2, &[0.0, -1.0]), Ok(()));
    }

    #[test]
    fn debug_prints_the_shape_and_no_value() {
        let set = VectorSet::new(2, vec![0.123, 0.456]).unwrap();
        assert_eq!(format!("{set:?}"), "VectorSet(1 x 2)");
    }
}
