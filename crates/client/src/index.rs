//! The routing index: what the client keeps of every row.

mod codec;
mod removal;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use shard_geometry::CellLists;
use shard_protocol::RowHandle;

use crate::payload::PayloadError;
pub(crate) use removal::Removal;

/// Ids, routing prefixes, cells and handles by row, in the order of ingestion.
pub struct Index {
    ids: Vec<String>,
    handles: Vec<RowHandle>,
    prefix_width: usize,
    prefixes: Vec<f32>,
    /// The cell of each row; empty when every row has a key of its own.
    cells: Vec<u32>,
    /// Members of each cell; rebuilt when the index is read.
    lists: Option<CellLists>,
    /// Norm of each residual, rounded up.
    residual_norms: Vec<f32>,
    /// Whether each row came or changed since the model was fitted.
    late: Vec<bool>,
    canaries: Vec<Canary>,
    /// Norm of each document's own vector.
    lengths: Vec<f32>,
    longest_prefix: f64,
    /// The attempt at which the names of new ids begin. It only grows within an epoch, past every
    /// attempt of a row that was deleted, so a deleted id that comes back gets another name than
    /// any it had, and with a key of its own another key: two vectors under one key would show
    /// their inner product. One number for all ids, so that nothing is kept of those deleted.
    first_attempt: u32,
}

/// A row that is no document: its score is known beforehand, so an answer can be checked by it.
/// The server cannot tell it from other rows.
pub(crate) struct Canary {
    pub(crate) handle: RowHandle,
    /// The cell whose key rotated it; `None` when it has a key of its own.
    pub(crate) cell: Option<u32>,
    /// The row as the server holds it.
    pub(crate) coordinates: Vec<i32>,
}

/// What is recorded of one row.
pub(crate) struct IndexedRow<'a> {
    pub(crate) id: &'a str,
    pub(crate) handle: RowHandle,
    pub(crate) prefix: &'a [f32],
    /// `None` when the row has a key of its own.
    pub(crate) cell: Option<u32>,
    /// Norm of the residual, rounded up.
    pub(crate) residual_norm: f32,
    /// Whether it came or changed since the model was fitted.
    pub(crate) is_late: bool,
    /// Norm of the document's own vector.
    pub(crate) length: f64,
}

impl Index {
    /// An index of no rows.
    pub(crate) fn empty(prefix_width: usize) -> Self {
        Self {
            ids: Vec::new(),
            handles: Vec::new(),
            prefix_width,
            prefixes: Vec::new(),
            cells: Vec::new(),
            lists: None,
            residual_norms: Vec::new(),
            late: Vec::new(),
            canaries: Vec::new(),
            lengths: Vec::new(),
            longest_prefix: 0.0,
            first_attempt: 0,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ids.len()
    }

    /// The owner's id of a row.
    pub fn id(&self, row: u32) -> &str {
        &self.ids[row as usize]
    }

    /// All ids by row.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// The server's name for a row.
    pub fn handle(&self, row: u32) -> RowHandle {
        self.handles[row as usize]
    }

    /// The cell of a row, unless it has a key of its own.
    pub fn cell(&self, row: u32) -> Option<u32> {
        self.cells.get(row as usize).copied()
    }

    /// The routing prefix of a row.
    pub fn prefix(&self, row: u32) -> &[f32] {
        &self.prefixes[row as usize * self.prefix_width..][..self.prefix_width]
    }

    /// All prefixes, row by row.
    pub(crate) fn prefixes(&self) -> &[f32] {
        &self.prefixes
    }

    /// Members by cell, unless every row has a key of its own.
    pub(crate) fn lists(&self) -> Option<&CellLists> {
        self.lists.as_ref()
    }

    /// The norms of all residuals, each rounded up.
    pub(crate) fn residual_norms(&self) -> &[f32] {
        &self.residual_norms
    }

    /// Whether a row came or changed since the model was fitted.
    pub(crate) fn is_late(&self, row: u32) -> bool {
        self.late[row as usize]
    }

    /// A bound on the norm of what any stored prefix is off: half a unit in the last place of each
    /// coordinate, in single precision.
    pub(crate) fn prefix_error(&self) -> f64 {
        self.longest_prefix * f64::from(f32::EPSILON) / 2.0
    }

    /// Norm of a document's own vector.
    pub(crate) fn length(&self, row: u32) -> f64 {
        self.lengths[row as usize].into()
    }

    /// Rows that are no documents.
    pub(crate) fn canaries(&self) -> &[Canary] {
        &self.canaries
    }

    pub(crate) fn set_canaries(&mut self, canaries: Vec<Canary>) {
        self.canaries = canaries;
    }

    /// Rows by id, for an update.
    pub(crate) fn rows_by_id(&self) -> HashMap<&str, u32> {
        self.ids.iter().enumerate().map(|(row, id)| (id.as_str(), row as u32)).collect()
    }

    /// Names in use, for an update.
    pub(crate) fn handles_in_use(&self) -> HashSet<RowHandle> {
        let canaries = self.canaries.iter().map(|canary| canary.handle);
        self.handles.iter().copied().chain(canaries).collect()
    }

    /// The attempt at which the names of new ids begin.
    pub(crate) fn first_attempt(&self) -> u32 {
        self.first_attempt
    }

    /// Keeps the words of all ids up to this attempt from being taken again.
    pub(crate) fn retire(&mut self, attempt: u32) {
        self.first_attempt = self.first_attempt.max(attempt.saturating_add(1));
    }

    /// Removes rows; those after them move up. The lists are to be rebuilt.
    pub(crate) fn remove(&mut self, rows: &[u32]) {
        let gone = Removal::new(self.rows(), rows);
        gone.apply(&mut self.ids, 1);
        gone.apply(&mut self.handles, 1);
        gone.apply(&mut self.prefixes, self.prefix_width);
        if !self.cells.is_empty() {
            gone.apply(&mut self.cells, 1);
        }
        gone.apply(&mut self.residual_norms, 1);
        gone.apply(&mut self.late, 1);
        gone.apply(&mut self.lengths, 1);
        self.longest_prefix =
            self.prefixes.chunks_exact(self.prefix_width).map(norm).fold(0.0, f64::max);
    }

    /// Appends a row, or replaces row `existing`.
    pub(crate) fn put(&mut self, existing: Option<u32>, row: &IndexedRow<'_>) {
        debug_assert_eq!(row.prefix.len(), self.prefix_width);
        self.longest_prefix = self.longest_prefix.max(norm(row.prefix));
        match existing {
            None => {
                self.residual_norms.push(row.residual_norm);
                self.late.push(row.is_late);
                self.lengths.push(row.length as f32);
                self.ids.push(row.id.to_owned());
                self.handles.push(row.handle);
                self.prefixes.extend_from_slice(row.prefix);
                self.cells.extend(row.cell);
            }
            Some(at) => {
                let at = at as usize;
                self.residual_norms[at] = row.residual_norm;
                self.late[at] = row.is_late;
                self.lengths[at] = row.length as f32;
                self.handles[at] = row.handle;
                self.prefixes[at * self.prefix_width..][..self.prefix_width]
                    .copy_from_slice(row.prefix);
                if let Some(cell) = row.cell {
                    self.cells[at] = cell;
                }
            }
        }
    }

    /// Rebuilds the lists of `count` cells after rows were put; `None` for a key per row.
    pub(crate) fn rebuild_lists(&mut self, count: Option<usize>) -> Result<(), PayloadError> {
        self.lists = match count {
            Some(count) => Some(
                CellLists::new(count, &self.cells)
                    .map_err(|error| PayloadError::Invalid(error.to_string()))?,
            ),
            None => None,
        };
        Ok(())
    }
}

fn norm(prefix: &[f32]) -> f64 {
    prefix.iter().map(|&u| f64::from(u) * f64::from(u)).sum::<f64>().sqrt()
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({} rows)", self.rows())
    }
}
