//! The routing index: what the client keeps in memory of every row.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use shard_geometry::CellLists;
use shard_protocol::RowHandle;

use crate::collection::{Canaries, RoutingRows};
use crate::payload::PayloadError;

/// Ids, routing prefixes, cells and handles by row, in the order of ingestion.
pub struct Index {
    rows: RoutingRows,
    /// Members of each cell; none when every row has a key of its own.
    lists: Option<CellLists>,
    /// Documents whose vectors whoever searches has.
    canaries: Canaries,
    /// The place among them of each row that is one.
    canary_places: HashMap<u32, usize>,
    /// The attempt at which the names of new ids begin. It only grows within an epoch, past every
    /// attempt of a row that was deleted, so a deleted id that comes back gets another name than
    /// any it had, and with a key of its own another key: two vectors under one key would show
    /// their inner product. One number for all ids, so that nothing is kept of those deleted.
    first_attempt: u32,
    /// The chunks that the rows are stored in, by number, with the row each begins at.
    chunks: Vec<ChunkSpan>,
}

/// Rows that are stored together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkSpan {
    /// The chunk.
    pub(crate) number: u32,
    /// Its first row.
    pub(crate) first: u32,
    /// How many it has.
    pub(crate) rows: u32,
}

impl Index {
    /// Rows in these chunks, each with its number of rows, of a model with this number of cells;
    /// `None` for a key per row.
    pub(crate) fn new(
        rows: RoutingRows,
        numbered: &[(u32, usize)],
        cells: Option<usize>,
        canaries: Canaries,
        first_attempt: u32,
    ) -> Result<Self, PayloadError> {
        let mut chunks = Vec::with_capacity(numbered.len());
        let mut first = 0_u32;
        for &(number, rows) in numbered {
            let rows = rows as u32;
            chunks.push(ChunkSpan { number, first, rows });
            first = first
                .checked_add(rows)
                .ok_or_else(|| PayloadError::Invalid("more rows than there can be".into()))?;
        }
        let lists = match cells {
            Some(count) => Some(
                CellLists::new(count, &rows.cells)
                    .map_err(|error| PayloadError::Invalid(error.to_string()))?,
            ),
            None => None,
        };
        let canary_places = canaries.places(&rows.handles)?;
        Ok(Self { rows, lists, canaries, canary_places, first_attempt, chunks })
    }

    /// Number of documents.
    pub fn rows(&self) -> usize {
        self.rows.rows()
    }

    /// Whether a document is a canary: one whose vector whoever searches has.
    pub fn is_canary(&self, row: u32) -> bool {
        self.canary_places.contains_key(&row)
    }

    /// How many documents are canaries.
    pub fn canaries(&self) -> usize {
        self.canary_places.len()
    }

    /// Whether half precision has been enough for all documents since the epoch began.
    pub(crate) fn all_half(&self) -> bool {
        self.canaries.is_half()
    }

    /// The rows of canaries, in order.
    pub(crate) fn canary_rows(&self) -> impl Iterator<Item = u32> {
        let mut rows: Vec<u32> = self.canary_places.keys().copied().collect();
        rows.sort_unstable();
        rows.into_iter()
    }

    /// The vector of a row that is a canary.
    pub(crate) fn canary_vector(&self, row: u32) -> Option<&[f32]> {
        self.canary_places.get(&row).map(|&place| self.canaries.vector(place))
    }

    /// The owner's id of a row.
    pub fn id(&self, row: u32) -> &str {
        self.rows.ids.get(row as usize)
    }

    /// All ids by row.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = &str> {
        self.rows.ids.iter()
    }

    /// The server's name for a row.
    pub fn handle(&self, row: u32) -> RowHandle {
        self.rows.handles[row as usize]
    }

    /// The names of all rows.
    pub(crate) fn handles(&self) -> &[RowHandle] {
        &self.rows.handles
    }

    /// The cell of a row, unless it has a key of its own.
    pub fn cell(&self, row: u32) -> Option<u32> {
        self.rows.cells.get(row as usize).copied()
    }

    /// The cells of all rows, unless each has a key of its own.
    pub(crate) fn cells(&self) -> Option<&[u32]> {
        self.lists.as_ref().map(|_| &self.rows.cells[..])
    }

    /// The routing prefix of a row.
    pub fn prefix(&self, row: u32) -> &[f32] {
        let width = self.rows.prefix_width;
        &self.rows.prefixes[row as usize * width..][..width]
    }

    /// All prefixes, row by row.
    pub(crate) fn prefixes(&self) -> &[f32] {
        &self.rows.prefixes
    }

    /// Norms of all residuals, rounded up.
    pub(crate) fn residual_norms(&self) -> &[f32] {
        &self.rows.residual_norms
    }

    /// Members by cell, unless every row has a key of its own.
    pub(crate) fn lists(&self) -> Option<&CellLists> {
        self.lists.as_ref()
    }

    /// Documents of each cell, unless every row has a key of its own.
    pub(crate) fn members(&self) -> Option<Vec<usize>> {
        Some(self.lists.as_ref()?.iter().map(<[u32]>::len).collect())
    }

    /// Bound on the norm of the error of a row's prefix: it is kept in fixed point.
    pub(crate) fn prefix_error(&self, row: u32) -> f64 {
        self.rows.prefix_error(row as usize)
    }

    /// Norm of a document's own vector.
    pub(crate) fn length(&self, row: u32) -> f64 {
        self.rows.lengths[row as usize].into()
    }

    /// Whether a document came or changed after the model was fitted.
    pub(crate) fn is_late(&self, row: u32) -> bool {
        self.rows.late[row as usize]
    }

    /// The attempt at which the names of new ids begin.
    pub(crate) fn first_attempt(&self) -> u32 {
        self.first_attempt
    }

    /// What is kept of the rows.
    pub(crate) fn into_rows(self) -> RoutingRows {
        self.rows
    }

    /// The chunks that the rows are stored in.
    pub(crate) fn chunks(&self) -> &[ChunkSpan] {
        &self.chunks
    }

    /// The place of the chunk that a row is in, among [`Index::chunks`].
    pub(crate) fn chunk_of(&self, row: u32) -> usize {
        self.chunks.partition_point(|chunk| chunk.first <= row) - 1
    }

    /// What is kept of the rows of a chunk.
    pub(crate) fn chunk_rows(&self, chunk: &ChunkSpan) -> RoutingRows {
        self.rows.range(chunk.first as usize..(chunk.first + chunk.rows) as usize)
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({} rows)", self.rows())
    }
}
