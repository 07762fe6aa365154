//! A document's journey to the server: residual, key, fixed point, row.
//!
//! [`Model::place`] has found the document's cell when it was ingested.

use rayon::prelude::*;
use shard_geometry::VectorSet;
use shard_protocol::{Leak, Row, RowHandle, declassify};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::ClientError;
use crate::index::Index;
use crate::keys::{KeyOwner, KeySchedule};
use crate::model::Model;
use crate::progress::{Progress, Watch};

/// Rows rotated at a time: large enough for a fast matrix product, small enough that the
/// double-precision copy of a batch stays in cache.
const BATCH: usize = 512;

/// The rows of documents under their handles, for the server, in the order of the documents.
/// `cells` are the documents' cells, unless each has a key of its own. `watch` may end it between
/// two batches.
pub(crate) fn protect(
    model: &Model,
    keys: &KeySchedule,
    vectors: &VectorSet,
    handles: &[RowHandle],
    cells: Option<&[u32]>,
    watch: &Watch<'_>,
) -> Result<Vec<Row>, ClientError> {
    let done = AtomicU64::new(0);
    let batches = batches(handles.len(), cells);
    let rotated: Vec<Vec<(u32, Row)>> = batches
        .into_par_iter()
        .map(|batch| {
            let rows = rotate(model, keys, vectors, handles, &batch)?;
            let count = rows.len() as u64;
            let done = done.fetch_add(count, Ordering::Relaxed) + count;
            if watch(Progress { done, total: handles.len() as u64 }).is_break() {
                return Err(ClientError::Cancelled);
            }
            Ok(rows)
        })
        .collect::<Result<_, ClientError>>()?;

    let mut rows: Vec<(u32, Row)> = rotated.into_iter().flatten().collect();
    rows.sort_unstable_by_key(|(index, _)| *index);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Rows that are rotated together: of one cell, or any when each has its own key.
struct Batch {
    cell: Option<u32>,
    rows: Vec<u32>,
}

fn batches(count: usize, cells: Option<&[u32]>) -> Vec<Batch> {
    let Some(cells) = cells else {
        let rows: Vec<u32> = (0..count as u32).collect();
        return rows.chunks(BATCH).map(|rows| Batch { cell: None, rows: rows.to_vec() }).collect();
    };
    let mut by_cell: Vec<u32> = (0..count as u32).collect();
    by_cell.sort_by_key(|&row| cells[row as usize]);
    by_cell
        .chunk_by(|a, b| cells[*a as usize] == cells[*b as usize])
        .flat_map(|members| members.chunks(BATCH))
        .map(|rows| Batch { cell: Some(cells[rows[0] as usize]), rows: rows.to_vec() })
        .collect()
}

/// `z' = round(2^k T_c r)` for the rows of a batch.
fn rotate(
    model: &Model,
    keys: &KeySchedule,
    vectors: &VectorSet,
    handles: &[RowHandle],
    batch: &Batch,
) -> Result<Vec<(u32, Row)>, ClientError> {
    let values = batch.rows.iter().flat_map(|&row| vectors.row(row as usize)).copied().collect();
    let residuals = model.residuals(&VectorSet::new(vectors.width(), values)?)?;
    let mut residuals: Vec<f64> = residuals.into_iter().map(f64::from).collect();

    let width = model.split().residual();
    let owner = |row: u32| batch.cell.map_or(KeyOwner::Row(handles[row as usize]), KeyOwner::Cell);
    if batch.cell.is_some() {
        model.key(keys, owner(batch.rows[0])).apply_many(&mut residuals);
    } else {
        for (&row, residual) in batch.rows.iter().zip(residuals.chunks_exact_mut(width)) {
            model.key(keys, owner(row)).apply(residual);
        }
    }
    let rows = batch.rows.iter().zip(residuals.chunks_exact(width));
    rows.map(|(&row, residual)| {
        let coordinates = model.operand_scale().quantise(residual)?;
        let cell = declassify(keys.cell_handle(owner(row)), Leak::CellMembership);
        Ok((row, Row { cell, handle: handles[row as usize], coordinates }))
    })
    .collect()
}

/// A fresh handle for an id: the first of its pseudorandom words that is not in use, after the
/// one it had before or, for an id that is not there, from `first` on. Two ids share a word about
/// once in 2^64 pairs; words before the last are never taken again, so neither are the keys that
/// belong to them.
pub(crate) fn assign_handle(
    keys: &KeySchedule,
    id: &str,
    before: Option<RowHandle>,
    first: u32,
    in_use: &mut HashSet<RowHandle>,
) -> RowHandle {
    let first = before.map_or(first, |before| own_attempt(keys, id, before) + 1);
    (first..u32::MAX)
        .map(|attempt| keys.row_handle(id, attempt))
        .find(|handle| in_use.insert(*handle))
        .expect("four billion words of an id are not all in use")
}

/// Fresh handles for ids, of which some had one before: the first of each id's words that nobody
/// has.
pub(crate) fn assign_handles(
    keys: &KeySchedule,
    ids: &[String],
    before: &[Option<RowHandle>],
    first_attempt: u32,
    index: &Index,
) -> Vec<RowHandle> {
    // Two ids share a word about once in 2^64 pairs, so what is wanted is looked for among what is
    // there, and not the other way round.
    let mut taken: HashSet<RowHandle> = HashSet::new();
    loop {
        let mut in_use = taken.clone();
        let assigned: Vec<RowHandle> = ids
            .iter()
            .zip(before)
            .map(|(id, before)| assign_handle(keys, id, *before, first_attempt, &mut in_use))
            .collect();
        let wanted: HashSet<RowHandle> = assigned.iter().copied().collect();
        let there = index.handles().iter().copied();
        let clashes: Vec<RowHandle> = there.filter(|handle| wanted.contains(handle)).collect();
        if clashes.is_empty() {
            return assigned;
        }
        taken.extend(clashes);
    }
}

/// Which of the words of an id its handle is, if it is one of the first so many.
pub(crate) fn attempt_of(
    keys: &KeySchedule,
    id: &str,
    handle: RowHandle,
    most: u32,
) -> Option<u32> {
    (0..most).find(|attempt| keys.row_handle(id, *attempt) == handle)
}

/// Which of the words of an id its own handle is.
pub(crate) fn own_attempt(keys: &KeySchedule, id: &str, handle: RowHandle) -> u32 {
    attempt_of(keys, id, handle, u32::MAX).expect("a handle is one of the words of its id")
}
