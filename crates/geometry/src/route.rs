//! Shortlists: the rows whose centred prefix is nearest to the query's.
//!
//! Distance, not inner product, ranks the shortlist: the centred prefix of a good match lies near the query's, while
//! its inner product with the query depends on norms that centring has changed.
//!
//! Routers borrow what they search, so the owner keeps one copy of the prefixes, extends it, and makes a router when a
//! query comes. Distances are sums of squared differences in `f32` in a fixed order, so both routers see the same
//! distances and break the same ties by row order.

use rayon::prelude::*;
use thiserror::Error;

use crate::cells::{CellLists, Cells};
use crate::kernel::{self, QUERIES};
use crate::select::Smallest;

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

/// The exact scan of all prefixes.
#[derive(Clone, Copy)]
pub struct FlatRouter<'a> {
    width: usize,
    prefixes: &'a [f32],
}

impl<'a> FlatRouter<'a> {
    /// Searches row-major prefixes of finite values.
    ///
    /// # Errors
    /// `ZeroWidth` or `Ragged`.
    pub fn new(width: usize, prefixes: &'a [f32]) -> Result<Self, RouteError> {
        check(width, prefixes)?;
        Ok(Self { width, prefixes })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.prefixes.len() / self.width
    }

    /// For every query (row-major centred prefixes) the `k` nearest rows, nearest first; all rows when `k` is larger.
    ///
    /// Queries share passes over the rows, four at a time; blocks of rows are scanned in parallel.
    ///
    /// # Errors
    /// `Ragged` if the queries are not whole rows.
    pub fn shortlist(&self, queries: &[f32], k: usize) -> Result<Vec<Vec<u32>>, RouteError> {
        check(self.width, queries)?;
        let k = k.min(self.rows());
        let groups = queries.chunks(QUERIES * self.width);
        Ok(groups.flat_map(|queries| self.scan(queries, k)).collect())
    }

    fn scan(&self, queries: &[f32], k: usize) -> Vec<Vec<u32>> {
        let count = queries.len() / self.width;
        let nothing = || (0..count).map(|_| Smallest::new(k)).collect::<Vec<_>>();
        self.prefixes
            .par_chunks(BLOCK_ROWS * self.width)
            .enumerate()
            .map(|(block, rows)| {
                let mut nearest = nothing();
                let rows = (block * BLOCK_ROWS..).zip(rows.chunks_exact(self.width));
                measure(
                    queries,
                    self.width,
                    rows.map(|(row, prefix)| (row as u32, prefix)),
                    &mut nearest,
                );
                nearest
            })
            .reduce(nothing, |a, b| a.into_iter().zip(b).map(|(a, b)| a.merge(b)).collect())
            .into_iter()
            .map(rows_of)
            .collect()
    }
}

/// The scan of the cells nearest to the query.
#[derive(Clone, Copy)]
pub struct InvertedRouter<'a> {
    cells: &'a Cells,
    lists: &'a CellLists,
    prefixes: &'a [f32],
}

impl<'a> InvertedRouter<'a> {
    /// Searches row-major prefixes of finite values through the lists of their cells.
    ///
    /// # Errors
    /// `Ragged`, or `WrongLists` if the lists are not of these cells and rows.
    pub fn new(
        cells: &'a Cells,
        lists: &'a CellLists,
        prefixes: &'a [f32],
    ) -> Result<Self, RouteError> {
        check(cells.width(), prefixes)?;
        let rows = prefixes.len() / cells.width();
        if lists.count() != cells.count() || lists.rows() != rows {
            return Err(RouteError::WrongLists {
                lists: lists.count(),
                list_rows: lists.rows(),
                cells: cells.count(),
                rows,
            });
        }
        Ok(Self { cells, lists, prefixes })
    }

    /// For every query (row-major centred prefixes) the `k` nearest rows among those of the `nprobe` nearest cells,
    /// nearest first. Should these cells hold fewer than `k` rows, further cells are probed until there are enough.
    ///
    /// With all cells probed the answer is that of [`FlatRouter`]. Queries are answered in parallel.
    ///
    /// # Errors
    /// `Ragged` if the queries are not whole rows.
    pub fn shortlist(
        &self,
        queries: &[f32],
        k: usize,
        nprobe: usize,
    ) -> Result<Vec<Vec<u32>>, RouteError> {
        check(self.cells.width(), queries)?;
        let k = k.min(self.lists.rows());
        Ok(queries
            .par_chunks(self.cells.width())
            .map(|query| self.probe(query, k, nprobe))
            .collect())
    }

    fn probe(&self, query: &[f32], k: usize, nprobe: usize) -> Vec<u32> {
        let width = self.cells.width();
        let mut nearest = vec![Smallest::new(k)];
        let mut seen = 0;
        for (probed, cell) in
            self.cells.nearest_many(query, self.cells.count()).into_iter().enumerate()
        {
            if probed >= nprobe && seen >= k {
                break;
            }
            let members = self.lists.members(cell);
            let rows =
                members.iter().map(|&row| (row, &self.prefixes[row as usize * width..][..width]));
            measure(query, width, rows, &mut nearest);
            seen += members.len();
        }
        nearest.into_iter().map(rows_of).next().unwrap_or_default()
    }
}

impl std::fmt::Debug for FlatRouter<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "FlatRouter({} x {})", self.rows(), self.width)
    }
}

impl std::fmt::Debug for InvertedRouter<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "InvertedRouter({} rows in {:?})", self.lists.rows(), self.cells)
    }
}

fn check(width: usize, values: &[f32]) -> Result<(), RouteError> {
    if width == 0 {
        return Err(RouteError::ZeroWidth);
    }
    if !values.len().is_multiple_of(width) {
        return Err(RouteError::Ragged { values: values.len(), width });
    }
    Ok(())
}

fn rows_of(nearest: Smallest) -> Vec<u32> {
    nearest.into_sorted().iter().map(|entry| entry.row).collect()
}

/// Offers the distance of every row to up to [`QUERIES`] queries, one selection for each.
///
/// Distances are computed a batch at a time, apart from the selection, so that the loop over the values stays in
/// vector registers.
fn measure<'p>(
    queries: &[f32],
    width: usize,
    mut rows: impl Iterator<Item = (u32, &'p [f32])>,
    nearest: &mut [Smallest],
) {
    let mut each = queries.chunks_exact(width);
    // Missing queries of a group repeat the first; their distances are not offered.
    let group: [&[f32]; QUERIES] =
        std::array::from_fn(|_| each.next().unwrap_or(&queries[..width]));
    let mut batch = Vec::with_capacity(BATCH_ROWS);
    let mut distances = [[0.0; QUERIES]; BATCH_ROWS];
    loop {
        batch.clear();
        batch.extend(rows.by_ref().take(BATCH_ROWS));
        if batch.is_empty() {
            return;
        }
        kernel::dispatch(
            #[inline(always)]
            || {
                for ((_, prefix), distances) in batch.iter().zip(&mut distances) {
                    if nearest.len() == 1 {
                        distances[0] = kernel::squared_distance(prefix, group[0]);
                    } else {
                        *distances = kernel::squared_distances(prefix, group);
                    }
                }
            },
        );
        for (at, nearest) in nearest.iter_mut().enumerate() {
            for ((row, _), distances) in batch.iter().zip(&distances) {
                nearest.offer(f64::from(distances[at]), *row);
            }
        }
    }
}

#[cfg(test)]
mod tests;
