//! The routing index: what the client keeps of every row.

use std::collections::{HashMap, HashSet};

use shard_geometry::CellLists;
use shard_protocol::RowHandle;
use shard_rlwe::OperandBound;

use crate::payload::{PayloadError, Reader, Writer};

const VERSION: u16 = 1;

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
    /// Norm of each stored row in integer units, rounded up.
    norms: Vec<f32>,
    canaries: Vec<Canary>,
    /// Norm of each document's own vector.
    lengths: Vec<f32>,
    longest_prefix: f64,
}

/// A row that is no document: its score is known beforehand, so an answer can be checked by it.
/// The server cannot tell it from other rows.
pub(crate) struct Canary {
    pub(crate) handle: RowHandle,
    /// The cell whose key turned it; `None` when it has a key of its own.
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
    /// Norm of the stored row.
    pub(crate) bound: OperandBound,
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
            norms: Vec::new(),
            canaries: Vec::new(),
            lengths: Vec::new(),
            longest_prefix: 0.0,
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

    /// A bound on the norm of a stored row.
    pub(crate) fn bound(&self, row: u32) -> OperandBound {
        OperandBound::new(self.norms[row as usize].into())
    }

    /// Norm of the longest prefix.
    pub(crate) fn longest_prefix(&self) -> f64 {
        self.longest_prefix
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

    /// Appends a row, or replaces row `existing`.
    pub(crate) fn put(&mut self, existing: Option<u32>, row: &IndexedRow<'_>) {
        debug_assert_eq!(row.prefix.len(), self.prefix_width);
        let squared: f64 = row.prefix.iter().map(|&u| f64::from(u) * f64::from(u)).sum();
        self.longest_prefix = self.longest_prefix.max(squared.sqrt());
        let norm = (row.bound.norm() as f32).next_up();
        match existing {
            None => {
                self.norms.push(norm);
                self.lengths.push(row.length as f32);
                self.ids.push(row.id.to_owned());
                self.handles.push(row.handle);
                self.prefixes.extend_from_slice(row.prefix);
                self.cells.extend(row.cell);
            }
            Some(at) => {
                let at = at as usize;
                self.norms[at] = norm;
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

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(VERSION);
        writer.u64(self.ids.len() as u64);
        self.ids.iter().for_each(|id| writer.string(id));
        writer.u64s(self.handles.iter().map(|handle| handle.0));
        writer.u64(self.prefix_width as u64);
        writer.f32s(&self.prefixes);
        writer.u32s(&self.cells);
        writer.u64(self.canaries.len() as u64);
        for canary in &self.canaries {
            writer.u64(canary.handle.0);
            writer.u64(canary.cell.map_or(u64::MAX, u64::from));
            writer.i32s(&canary.coordinates);
        }
        writer.f32s(&self.lengths);
        writer.f32s(&self.norms);
        writer.f64(self.longest_prefix);
        writer.bytes
    }

    /// Reads the index of a model with this prefix width and number of cells.
    pub(crate) fn decode(
        bytes: &[u8],
        prefix_width: usize,
        cell_count: Option<usize>,
    ) -> Result<Self, PayloadError> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let rows = reader.size()?;
        let mut ids = Vec::new();
        for _ in 0..rows {
            ids.push(reader.string()?);
        }
        let mut index = Self {
            ids,
            handles: reader.u64s()?.into_iter().map(RowHandle).collect(),
            prefix_width: reader.size()?,
            prefixes: reader.f32s()?,
            cells: reader.u32s()?,
            lists: None,
            canaries: read_canaries(&mut reader)?,
            lengths: reader.f32s()?,
            norms: reader.f32s()?,
            longest_prefix: reader.f64()?,
        };
        reader.finish()?;
        let expected_cells = if cell_count.is_some() { rows } else { 0 };
        if index.prefix_width != prefix_width
            || index.handles.len() != rows
            || Some(index.prefixes.len()) != rows.checked_mul(prefix_width)
            || index.cells.len() != expected_cells
            || u32::try_from(rows).is_err()
            || index.norms.len() != rows
            || index.norms.iter().any(|norm| !norm.is_finite())
            || !index.longest_prefix.is_finite()
            || index.lengths.len() != rows
            || index.lengths.iter().any(|length| !length.is_finite())
            || index.canaries.iter().any(|canary| canary.cell.is_some() != cell_count.is_some())
            || index.prefixes.iter().any(|u| !u.is_finite())
        {
            return Err(PayloadError::Invalid("its parts do not go together".into()));
        }
        index.rebuild_lists(cell_count)?;
        Ok(index)
    }
}

fn read_canaries(reader: &mut Reader<'_>) -> Result<Vec<Canary>, PayloadError> {
    let mut canaries = Vec::new();
    for _ in 0..reader.size()? {
        let handle = RowHandle(reader.u64()?);
        let cell =
            match reader.u64()? {
                u64::MAX => None,
                cell => Some(u32::try_from(cell).map_err(|_| {
                    PayloadError::Invalid("a canary in a cell that cannot be".into())
                })?),
            };
        canaries.push(Canary { handle, cell, coordinates: reader.i32s()? });
    }
    Ok(canaries)
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({} rows)", self.rows())
    }
}
