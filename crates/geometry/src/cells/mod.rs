//! Cells: a partition of the rows by their prefixes.

mod assign;
mod fit;
mod lists;
#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::kernel;
use crate::select::Smallest;
use crate::work::{Stopped, Work};

pub use lists::CellLists;

/// A partition that cannot be made, or stored parts that do not form one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CellsError {
    /// The prefixes have width zero.
    #[error("prefixes have width 0")]
    ZeroWidth,
    /// Zero cells were asked for.
    #[error("the number of cells is 0")]
    NoCells,
    /// More cells than are supported.
    #[error("{count} cells are more than {}", Cells::MAX)]
    TooMany {
        /// The number of cells asked for.
        count: usize,
    },
    /// A cell needs at least one row.
    #[error("{rows} rows cannot fill {count} cells")]
    FewerRowsThanCells {
        /// The number of rows.
        rows: usize,
        /// The number of cells asked for.
        count: usize,
    },
    /// The values do not fill whole rows.
    #[error("{values} values do not fill rows of width {width}")]
    Ragged {
        /// How many values there are.
        values: usize,
        /// How many values make a row.
        width: usize,
    },
    /// A value is NaN or infinite.
    #[error("row {row}, column {column}: the value is not finite")]
    NotFinite {
        /// The row, counted from zero.
        row: usize,
        /// The column, counted from zero.
        column: usize,
    },
    /// An assignment names a cell that does not exist.
    #[error("row {row} is in cell {cell}, but there are {count} cells")]
    NoSuchCell {
        /// The row.
        row: usize,
        /// The cell it names.
        cell: u32,
        /// The number of cells.
        count: usize,
    },
    /// Whoever watches the fit ended it.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The centroids of a partition: a row belongs to the cell whose centroid is nearest in L2 distance, the first of them
/// if several are.
#[derive(Clone, PartialEq)]
pub struct Cells {
    width: usize,
    centroids: Vec<f32>,
}

impl Cells {
    /// The largest number of cells.
    pub const MAX: usize = 4096;

    /// The largest number of rounds of a [`fit`](Self::fit).
    pub const ROUNDS: usize = 25;

    /// Puts stored centroids together again after checking them.
    ///
    /// # Errors
    /// Any [`CellsError`] but `FewerRowsThanCells` and `NoSuchCell`.
    pub fn from_parts(width: usize, centroids: Vec<f32>) -> Result<Self, CellsError> {
        check_matrix(width, &centroids)?;
        check_count(centroids.len() / width)?;
        Ok(Self { width, centroids })
    }

    /// The width of the prefixes.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of cells, at least one.
    pub fn count(&self) -> usize {
        self.centroids.len() / self.width
    }

    /// One centroid.
    ///
    /// # Panics
    /// If there is no such cell.
    pub fn centroid(&self, cell: usize) -> &[f32] {
        &self.centroids[cell * self.width..][..self.width]
    }

    /// All centroids, row-major.
    pub fn centroids(&self) -> &[f32] {
        &self.centroids
    }

    /// The cell of every prefix of a row-major matrix, by matrix products and in parallel; the same as
    /// [`nearest`](Self::nearest) of each, whatever the machine.
    ///
    /// # Panics
    /// If `prefixes` is not whole rows of the cells' width.
    pub fn assign(&self, prefixes: &[f32]) -> Vec<u32> {
        let assigned = self.assign_watched(prefixes, Work::unwatched());
        assigned.expect("nobody ends work that nobody follows")
    }

    /// How much work [`assign`](Self::assign) is for so many rows.
    pub fn assign_work(rows: usize, width: usize, count: usize) -> u64 {
        assign::work(rows, width, count)
    }

    /// [`assign`](Self::assign), followed by whoever wants to know how far it is.
    ///
    /// # Errors
    /// When they end it.
    ///
    /// # Panics
    /// As [`assign`](Self::assign).
    pub fn assign_watched(&self, prefixes: &[f32], work: Work<'_>) -> Result<Vec<u32>, Stopped> {
        assert!(
            prefixes.len().is_multiple_of(self.width),
            "cells divide prefixes of their own width"
        );
        Ok(assign::assign(self, prefixes, work)?.0)
    }

    /// The cell of one prefix.
    ///
    /// # Panics
    /// If the prefix has another width than the cells.
    pub fn nearest(&self, prefix: &[f32]) -> u32 {
        assert_eq!(prefix.len(), self.width, "cells divide prefixes of their own width");
        let mut nearest = Smallest::new(1);
        for (cell, centroid) in (0..).zip(self.centroids.chunks_exact(self.width)) {
            nearest.offer(kernel::squared_distance_f32(prefix, centroid), cell);
        }
        nearest.into_sorted()[0].row
    }
}

/// Centroids tell about a corpus, so only their shape prints.
impl std::fmt::Debug for Cells {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Cells({} of width {})", self.count(), self.width)
    }
}

fn check_matrix(width: usize, values: &[f32]) -> Result<(), CellsError> {
    if width == 0 {
        return Err(CellsError::ZeroWidth);
    }
    if !values.len().is_multiple_of(width) {
        return Err(CellsError::Ragged { values: values.len(), width });
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(CellsError::NotFinite { row: at / width, column: at % width }),
        None => Ok(()),
    }
}

fn check_count(count: usize) -> Result<(), CellsError> {
    match count {
        0 => Err(CellsError::NoCells),
        1..=Cells::MAX => Ok(()),
        _ => Err(CellsError::TooMany { count }),
    }
}
