//! Many vectors into principal coordinates, by matrix products.

use rayon::prelude::*;

use super::{Pca, centre};
use crate::linear;

/// Projects blocks of rows in memory of its own, so that a pass over a corpus needs no copy of it: one for each task.
pub struct Projector<'a> {
    pca: &'a Pca,
    differences: Vec<f64>,
    coordinates: Vec<f64>,
}

impl<'a> Projector<'a> {
    /// Rows of a block.
    pub const ROWS: usize = 128;

    /// Projects onto the directions of a model.
    pub fn new(pca: &'a Pca) -> Self {
        let zeros = vec![0.0; Self::ROWS * pca.width()];
        Self { pca, differences: zeros.clone(), coordinates: zeros }
    }

    /// The width of the model.
    pub fn width(&self) -> usize {
        self.pca.width()
    }

    /// `V^T (x - mu)` of at most [`ROWS`](Self::ROWS) rows, row by row.
    ///
    /// The order in which a matrix product adds up may depend on its shape, so it always has that many rows, zeros after
    /// the last. A vector then has the same coordinates in whatever company it is projected.
    ///
    /// # Panics
    /// If `rows` are more, or not whole rows of the model's width.
    pub fn project(&mut self, rows: &[f32]) -> &[f64] {
        let width = self.pca.width();
        assert!(rows.len().is_multiple_of(width), "a model projects vectors of its own width");
        assert!(rows.len() <= self.differences.len(), "a block has at most {} rows", Self::ROWS);
        centre(rows, self.pca.mean(), &mut self.differences);
        self.differences[rows.len()..].fill(0.0);
        linear::products(&self.differences, self.pca.basis(), width, &mut self.coordinates);
        &self.coordinates[..rows.len()]
    }
}

/// The coordinates of documents are confidential, so only the width prints.
impl std::fmt::Debug for Projector<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Projector(width {})", self.pca.width())
    }
}

impl Pca {
    /// [`centred`](Self::centred) of many rows by matrix products, in parallel; equal to it up to rounding. The
    /// coordinates of a row do not depend on the rows beside it.
    ///
    /// # Panics
    /// If `rows` is not whole rows of the model's width, or `out` is not as long.
    pub fn project_rows(&self, rows: &[f32], out: &mut [f64]) {
        let width = self.width();
        assert_eq!(rows.len(), out.len(), "every coordinate has a place");
        assert!(rows.len().is_multiple_of(width), "a model projects vectors of its own width");
        out.par_chunks_mut(Projector::ROWS * width)
            .zip(rows.par_chunks(Projector::ROWS * width))
            .for_each_init(
                || Projector::new(self),
                |projector, (out, rows)| out.copy_from_slice(projector.project(rows)),
            );
    }
}
