//! Cells of a large collection: blocks of rows that are near each other, so that a search can ask for some.
//!
//! The centroids are fitted to the first documents by k-means and stay as they are: a row belongs to the cell
//! of its nearest centroid, by distance, and lies in a block of that cell. A search asks for the blocks of the
//! cells whose centroids have the greatest inner products with the query, and the server learns which those
//! are. A rekey and a compaction keep the centroids and who is in which cell; who wants other cells makes
//! another vault. A collection without cells counts as one cell that has all blocks.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_core::CryptoRng;
use shard_geometry::{Cells, dot_f64};

use super::{BlindCollection, BlockPlaces, contradiction};
use crate::collection::unusable;
use crate::error::ClientError;
use crate::payload::{PayloadError, Reader, Writer};
use crate::search::SearchOptions;
use crate::settings::{CellCount, Settings};
use crate::vault::{Slot, Snapshot};

const VERSION: u16 = 1;

/// The cells of a blind collection.
#[derive(Clone, PartialEq, Debug)]
pub struct BlindCells {
    centroids: Cells,
    /// Cells that a search asks for unless it says how many.
    probe: usize,
}

impl BlindCells {
    /// Fits as many cells as settings ask for to rows, and says which each row is in; `None` where they ask
    /// for none. The server sees their numbers, so these are drawn at random and not left to the fit.
    pub(super) fn fit(
        settings: &Settings,
        rows: &[f32],
        width: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<Option<(Self, Vec<u32>)>, ClientError> {
        let CellCount::Cells(count) = settings.cells else { return Ok(None) };
        let mut fitting = ChaCha20Rng::seed_from_u64(settings.seed);
        let (fitted, _) = Cells::fit(rows, width, count, &mut fitting)?;
        let mut order: Vec<(u64, usize)> = (0..count).map(|cell| (rng.next_u64(), cell)).collect();
        order.sort_unstable();
        let centroids = order.iter().flat_map(|(_, cell)| fitted.centroid(*cell)).copied();
        let centroids = Cells::from_parts(width, centroids.collect())?;
        let chosen = centroids.assign(rows);
        Ok(Some((Self { centroids, probe: settings.probed(count) }, chosen)))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.centroids.count()
    }

    /// How many a search asks for unless it says so.
    pub fn probe(&self) -> usize {
        self.probe
    }

    /// How many a search with these options asks for. With a filter, all unless it says so: what matches may
    /// lie anywhere, and none of it is to be missing without a word.
    fn probe_of(&self, options: &SearchOptions) -> usize {
        let default = if options.filter.is_some() { self.count() } else { self.probe };
        options.probe.unwrap_or(default)
    }

    /// The cell of every row of a row-major matrix.
    pub(super) fn assign(&self, rows: &[f32]) -> Vec<u32> {
        self.centroids.assign(rows)
    }

    /// The cells in the order in which a query asks for them.
    pub(crate) fn in_order(&self, query: &[f32]) -> Vec<u32> {
        let score = |cell: usize| dot_f64(self.centroids.centroid(cell), query);
        let mut cells: Vec<(u32, f64)> =
            (0..self.count()).map(|cell| (cell as u32, score(cell))).collect();
        cells.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        cells.into_iter().map(|(cell, _)| cell).collect()
    }

    /// Those of a commit, if its blocks are grouped by cell.
    pub(super) fn read(snapshot: &Snapshot, width: usize) -> Result<Option<Self>, ClientError> {
        if !snapshot.contains(Slot::Cells) {
            return Ok(None);
        }
        let cells = Self::decode(&snapshot.read(Slot::Cells)?).map_err(unusable("cells"))?;
        if cells.centroids.width() != width {
            return Err(contradiction("cells", "their centroids are not as wide as the rows"));
        }
        Ok(Some(cells))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(VERSION);
        writer.u64(self.probe as u64);
        writer.u64(self.centroids.width() as u64);
        writer.f32s(self.centroids.centroids());
        writer.bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        let invalid = |problem: String| PayloadError::Invalid(problem);
        let mut reader = Reader::new(bytes, VERSION)?;
        let (probe, width) = (reader.size()?, reader.size()?);
        let centroids = reader.f32s()?;
        reader.finish()?;
        let centroids =
            Cells::from_parts(width, centroids).map_err(|error| invalid(error.to_string()))?;
        if !(1..=centroids.count()).contains(&probe) {
            return Err(invalid(format!("a search of {probe} cells")));
        }
        Ok(Self { centroids, probe })
    }
}

/// The numbers of the blocks of every cell, in ascending order.
pub(super) fn group(
    cells: Option<&BlindCells>,
    blocks: &[BlockPlaces],
) -> Result<Vec<Vec<u32>>, ClientError> {
    let mut groups = vec![Vec::new(); cells.map_or(1, BlindCells::count)];
    for (number, block) in (0..).zip(blocks) {
        let cell = match (cells, block.cell) {
            (None, None) => 0,
            (Some(_), Some(cell)) => cell as usize,
            _ => return Err(contradiction("places", "some blocks are in cells and some are not")),
        };
        let group = groups.get_mut(cell);
        group
            .ok_or_else(|| contradiction("places", "a block is in no cell of these"))?
            .push(number);
    }
    Ok(groups)
}

/// The cells that a search asks for.
pub(super) struct Asked {
    /// In ascending order.
    pub(super) cells: Vec<u32>,
    /// Whether there are blocks in others: then the server learns which these are.
    pub(super) is_some: bool,
}

impl BlindCollection {
    /// The cells, where blocks are grouped by cell.
    pub fn cells(&self) -> Option<&BlindCells> {
        self.cells.as_ref()
    }

    /// How many cells there are; one where blocks are not grouped.
    pub fn cell_count(&self) -> usize {
        self.groups.len()
    }

    /// The numbers of the blocks of a cell, in ascending order.
    ///
    /// # Panics
    /// If there is no such cell.
    pub fn blocks_of(&self, cell: u32) -> &[u32] {
        &self.groups[cell as usize]
    }

    /// Documents in a cell.
    ///
    /// # Panics
    /// If there is no such cell.
    pub fn rows_of(&self, cell: u32) -> usize {
        self.cell_rows[cell as usize]
    }

    /// The cells that hold blocks, in ascending order.
    pub(super) fn used_cells(&self) -> Vec<u32> {
        (0..)
            .zip(&self.groups)
            .filter(|(_, blocks)| !blocks.is_empty())
            .map(|(cell, _)| cell)
            .collect()
    }

    /// The cells that a search for a query asks for: so many of those with blocks, the most promising
    /// ones, in ascending order. `None` where that is all of them.
    pub fn nearest_cells(&self, query: &[f32], probe: usize) -> Option<Vec<u32>> {
        let cells = self.cells.as_ref()?;
        if probe >= self.used_cells().len() {
            return None;
        }
        // The server knows which cells have blocks, and not which of them have documents.
        let has_blocks = |cell: &u32| !self.blocks_of(*cell).is_empty();
        let nearest = cells.in_order(query).into_iter().filter(has_blocks);
        let mut nearest: Vec<u32> = nearest.take(probe.max(1)).collect();
        nearest.sort_unstable();
        Some(nearest)
    }

    /// What queries of one message ask for together.
    pub(super) fn asked(&self, queries: &[&[f32]], options: &SearchOptions) -> Asked {
        let all = || Asked { cells: self.used_cells(), is_some: false };
        let Some(cells) = &self.cells else { return all() };
        let probe = cells.probe_of(options);
        let each: Option<Vec<Vec<u32>>> =
            queries.iter().map(|query| self.nearest_cells(query, probe)).collect();
        let Some(each) = each else { return all() };
        let mut cells = each.concat();
        cells.sort_unstable();
        cells.dedup();
        Asked { cells, is_some: true }
    }

    /// Whether a search with these options asks for all cells, whatever its query.
    pub(super) fn asks_for_all(&self, options: &SearchOptions) -> bool {
        let cells = self.cells.as_ref();
        cells.is_none_or(|cells| cells.probe_of(options) >= self.used_cells().len())
    }
}
