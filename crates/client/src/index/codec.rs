//! The index as a payload of the vault.

use shard_protocol::RowHandle;

use super::{Canary, Index};
use crate::payload::{PayloadError, Reader, Writer};

/// Version 1 did not know where the names of new ids begin; version 2 had norms of stored rows
/// instead of residuals.
const VERSION: u16 = 3;

impl Index {
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
        writer.f32s(&self.residual_norms);
        let late = (0..).zip(&self.late).filter(|(_, late)| **late).map(|(row, _)| row);
        writer.u32s(&late.collect::<Vec<u32>>());
        writer.f64(self.longest_prefix);
        writer.u64(self.first_attempt.into());
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
            residual_norms: reader.f32s()?,
            late: read_late(&mut reader, rows)?,
            longest_prefix: reader.f64()?,
            first_attempt: u32::try_from(reader.u64()?)
                .map_err(|_| PayloadError::Invalid("more attempts than there can be".into()))?,
        };
        reader.finish()?;
        let expected_cells = if cell_count.is_some() { rows } else { 0 };
        if index.prefix_width != prefix_width
            || index.handles.len() != rows
            || Some(index.prefixes.len()) != rows.checked_mul(prefix_width)
            || index.cells.len() != expected_cells
            || u32::try_from(rows).is_err()
            || index.residual_norms.len() != rows
            || index.residual_norms.iter().any(|norm| !norm.is_finite())
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

/// Which of the rows came or changed since the model was fitted.
fn read_late(reader: &mut Reader<'_>, rows: usize) -> Result<Vec<bool>, PayloadError> {
    let listed = reader.u32s()?;
    if !listed.is_sorted_by(|a, b| a < b) || listed.last().is_some_and(|&row| row as usize >= rows)
    {
        return Err(PayloadError::Invalid("its rows are not in order".into()));
    }
    let mut late = vec![false; rows];
    listed.iter().for_each(|&row| late[row as usize] = true);
    Ok(late)
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
