//! Shortlists: the rows whose inner product with the query is estimated largest.
//!
//! With uncentred coordinates of the query, `q . x_i = <u_q, u_i> + <r_q, r_i> + q . mu`. The last term is the same for
//! every row. Whoever routes holds the prefixes `u_i` and the lengths `|r_i|`, not the residuals, so the order is that of
//!
//! ```text
//! s_i = <u_q, u_i> + c |r_q| |r_i|
//! ```
//!
//! with a constant `c >= 0` that [`tune`](crate::tune()) fits: how well residuals of rows worth finding are aligned with
//! the query's. The estimate is homogeneous in the query and in the rows: a query of any length has the same shortlist,
//! and so has a corpus whose vectors are all made longer. A long document is found as often as exact search finds it.
//!
//! It is an inner product of `width + 1` coordinates, `(u_i, |r_i|)` with `(u_q, c |r_q|)`, so a router is a dense scan.
//! Routers borrow what they search, so the owner keeps one copy, extends it, and makes a router when a query comes.
//! Sums are taken in `f32` in a fixed order, so both routers see the same estimates and break the same ties by row order.

mod query;

use rayon::prelude::*;
use thiserror::Error;

use crate::cells::{CellLists, Cells};
use crate::kernel::{self, QUERIES};
use crate::select::Smallest;

pub use query::{RouteQuery, power_of_two_above};

/// Rows one task of a scan takes.
const BLOCK_ROWS: usize = 8192;

/// Rows that are measured before they are offered to the selections.
const BATCH_ROWS: usize = 128;

/// Prefixes, cells or queries that do not belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RouteError {
    /// The prefixes have width zero.
    #[error("prefixes have width 0")]
    ZeroWidth,
    /// The values do not fill whole rows.
    #[error("{values} values do not fill rows of width {width}")]
    Ragged {
        /// How many values there are.
        values: usize,
        /// How many values make a row.
        width: usize,
    },
    /// There is not one residual norm for every prefix.
    #[error("there are {norms} residual norms for {rows} prefixes")]
    WrongNorms {
        /// The number of residual norms.
        norms: usize,
        /// The number of prefixes.
        rows: usize,
    },
    /// A query has another width than the prefixes.
    #[error("the query's prefix has width {actual}, expected {expected}")]
    WrongQuery {
        /// The width of the prefixes.
        expected: usize,
        /// The width of the query's.
        actual: usize,
    },
    /// The lists are of other cells or other rows.
    #[error(
        "the lists hold {list_rows} rows in {lists} cells, expected {rows} rows in {cells} cells"
    )]
    WrongLists {
        /// The number of lists.
        lists: usize,
        /// The number of rows in them.
        list_rows: usize,
        /// The number of cells.
        cells: usize,
        /// The number of prefixes.
        rows: usize,
    },
}

/// What is known of every row where queries are routed.
#[derive(Clone, Copy)]
struct Rows<'a> {
    width: usize,
    prefixes: &'a [f32],
    residual_norms: &'a [f32],
}

impl<'a> Rows<'a> {
    fn new(
        width: usize,
        prefixes: &'a [f32],
        residual_norms: &'a [f32],
    ) -> Result<Self, RouteError> {
        if width == 0 {
            return Err(RouteError::ZeroWidth);
        }
        if !prefixes.len().is_multiple_of(width) {
            return Err(RouteError::Ragged { values: prefixes.len(), width });
        }
        let (rows, norms) = (prefixes.len() / width, residual_norms.len());
        if norms != rows {
            return Err(RouteError::WrongNorms { norms, rows });
        }
        Ok(Self { width, prefixes, residual_norms })
    }

    fn row(&self, row: u32) -> Row<'a> {
        let at = row as usize;
        Row {
            row,
            prefix: &self.prefixes[at * self.width..][..self.width],
            residual_norm: self.residual_norms[at],
        }
    }

    fn check(&self, queries: &[RouteQuery]) -> Result<(), RouteError> {
        let expected = self.width;
        match queries.iter().map(|query| query.prefix().len()).find(|&width| width != expected) {
            Some(actual) => Err(RouteError::WrongQuery { expected, actual }),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy)]
struct Row<'a> {
    row: u32,
    prefix: &'a [f32],
    residual_norm: f32,
}

/// The scan of all rows.
#[derive(Clone, Copy)]
pub struct FlatRouter<'a>(Rows<'a>);

impl<'a> FlatRouter<'a> {
    /// Searches row-major prefixes and the norms of the residuals that belong to them, all finite.
    ///
    /// # Errors
    /// `ZeroWidth`, `Ragged` or `WrongNorms`.
    pub fn new(
        width: usize,
        prefixes: &'a [f32],
        residual_norms: &'a [f32],
    ) -> Result<Self, RouteError> {
        Rows::new(width, prefixes, residual_norms).map(Self)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.0.residual_norms.len()
    }

    /// For every query the `k` rows of the largest estimate, best first; all rows when `k` is larger.
    ///
    /// Queries share passes over the rows, four at a time; blocks of rows are scanned in parallel.
    ///
    /// # Errors
    /// `WrongQuery`.
    pub fn shortlist(&self, queries: &[RouteQuery], k: usize) -> Result<Vec<Vec<u32>>, RouteError> {
        self.0.check(queries)?;
        let k = k.min(self.rows());
        Ok(queries.chunks(QUERIES).flat_map(|queries| self.scan(queries, k)).collect())
    }

    fn scan(&self, queries: &[RouteQuery], k: usize) -> Vec<Vec<u32>> {
        let nothing = || queries.iter().map(|_| Smallest::new(k)).collect::<Vec<_>>();
        let rows = self.rows();
        (0..rows.div_ceil(BLOCK_ROWS))
            .into_par_iter()
            .map(|block| {
                let mut best = nothing();
                let block = block * BLOCK_ROWS..rows.min((block + 1) * BLOCK_ROWS);
                measure(queries, block.map(|row| self.0.row(row as u32)), &mut best);
                best
            })
            .reduce(nothing, |a, b| a.into_iter().zip(b).map(|(a, b)| a.merge(b)).collect())
            .into_iter()
            .map(rows_of)
            .collect()
    }
}

/// The scan of the cells that promise most.
///
/// The estimate for a cell is that for a row at its centroid, with the mean residual norm of its members.
#[derive(Clone)]
pub struct InvertedRouter<'a> {
    cells: &'a Cells,
    lists: &'a CellLists,
    rows: Rows<'a>,
    /// The mean residual norm of every cell.
    residual_norms: Vec<f64>,
}

impl<'a> InvertedRouter<'a> {
    /// Searches rows as [`FlatRouter::new`] takes them, through the lists of their cells.
    ///
    /// # Errors
    /// `Ragged` or `WrongNorms`, or `WrongLists` if the lists are not of these cells and rows.
    pub fn new(
        cells: &'a Cells,
        lists: &'a CellLists,
        prefixes: &'a [f32],
        residual_norms: &'a [f32],
    ) -> Result<Self, RouteError> {
        let rows = Rows::new(cells.width(), prefixes, residual_norms)?;
        if lists.count() != cells.count() || lists.rows() != residual_norms.len() {
            return Err(RouteError::WrongLists {
                lists: lists.count(),
                list_rows: lists.rows(),
                cells: cells.count(),
                rows: residual_norms.len(),
            });
        }
        let mean = |members: &[u32]| {
            let norms = members.iter().map(|&row| f64::from(residual_norms[row as usize]));
            norms.sum::<f64>() / members.len().max(1) as f64
        };
        Ok(Self { cells, lists, rows, residual_norms: lists.iter().map(mean).collect() })
    }

    /// For every query the `k` rows of the largest estimate among those of the `nprobe` cells of the largest estimate,
    /// best first. Should these cells hold fewer than `k` rows, further cells are probed until there are enough.
    ///
    /// With all cells probed the answer is that of [`FlatRouter`]. Queries are answered in parallel.
    ///
    /// # Errors
    /// `WrongQuery`.
    pub fn shortlist(
        &self,
        queries: &[RouteQuery],
        k: usize,
        nprobe: usize,
    ) -> Result<Vec<Vec<u32>>, RouteError> {
        self.rows.check(queries)?;
        let k = k.min(self.lists.rows());
        Ok(queries.par_iter().map(|query| self.probe(query, k, nprobe)).collect())
    }

    /// All cells, the one of the largest estimate first.
    fn order(&self, query: &RouteQuery) -> Vec<u32> {
        let mut best = Smallest::new(self.cells.count());
        for (cell, &norm) in (0..).zip(&self.residual_norms) {
            let prefix = kernel::dot_f32(self.cells.centroid(cell as usize), query.prefix());
            best.offer(-(prefix + norm * f64::from(query.residual())), cell);
        }
        rows_of(best)
    }

    fn probe(&self, query: &RouteQuery, k: usize, nprobe: usize) -> Vec<u32> {
        let mut best = vec![Smallest::new(k)];
        let mut seen = 0;
        for (probed, cell) in self.order(query).into_iter().enumerate() {
            if probed >= nprobe && seen >= k {
                break;
            }
            let members = self.lists.members(cell);
            let rows = members.iter().map(|&row| self.rows.row(row));
            measure(std::slice::from_ref(query), rows, &mut best);
            seen += members.len();
        }
        best.into_iter().map(rows_of).next().unwrap_or_default()
    }
}

impl std::fmt::Debug for FlatRouter<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "FlatRouter({} x {})", self.rows(), self.0.width)
    }
}

impl std::fmt::Debug for InvertedRouter<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "InvertedRouter({} rows in {:?})", self.lists.rows(), self.cells)
    }
}

fn rows_of(best: Smallest) -> Vec<u32> {
    best.into_sorted().iter().map(|entry| entry.row).collect()
}

/// Offers the estimates of every row for up to [`QUERIES`] queries, one selection for each.
///
/// Estimates are computed a batch at a time, apart from the selection, so that the loop over the values stays in vector
/// registers.
fn measure<'p>(
    queries: &[RouteQuery],
    mut rows: impl Iterator<Item = Row<'p>>,
    best: &mut [Smallest],
) {
    // Missing queries of a group repeat the first; their estimates are not offered.
    let of_group = |at: usize| queries.get(at).unwrap_or(&queries[0]);
    let group: [&[f32]; QUERIES] = std::array::from_fn(|at| of_group(at).prefix());
    let residuals: [f32; QUERIES] = std::array::from_fn(|at| of_group(at).residual());
    let mut batch = Vec::with_capacity(BATCH_ROWS);
    let mut estimates = [[0.0; QUERIES]; BATCH_ROWS];
    loop {
        batch.clear();
        batch.extend(rows.by_ref().take(BATCH_ROWS));
        if batch.is_empty() {
            return;
        }
        kernel::dispatch(
            #[inline(always)]
            || {
                for (row, estimates) in batch.iter().zip(&mut estimates) {
                    if queries.len() == 1 {
                        estimates[0] = kernel::product(row.prefix, group[0]);
                    } else {
                        *estimates = kernel::products(row.prefix, group);
                    }
                    for (estimate, residual) in estimates.iter_mut().zip(residuals) {
                        *estimate += row.residual_norm * residual;
                    }
                }
            },
        );
        for (at, best) in best.iter_mut().enumerate() {
            for (row, estimates) in batch.iter().zip(&estimates) {
                best.offer(-f64::from(estimates[at]), row.row);
            }
        }
    }
}

#[cfg(test)]
mod tests;
