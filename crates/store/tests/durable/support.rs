//! Rows and requests to test with.

use std::path::Path;

use shard_protocol::{
    Advance, Candidates, CellHandle, CollectionName, CommitName, Epoch, Leak, Revision, Row,
    RowBatch, RowHandle, RowMac, declassify,
};
use shard_store::{Fetched, RedbRows, RowStore, StoreError, StoreOptions};

pub const EPOCH: Epoch = Epoch(3);

pub fn main_collection() -> CollectionName {
    CollectionName::default()
}

/// A step of the only vault there is, from whatever is held.
pub fn advance(rows: &dyn RowStore, revision: u64) -> Advance {
    let state = rows.describe(&main_collection()).unwrap();
    let (from, turn) = (state.commit, state.turn);
    Advance { from, to: CommitName([7; 16]), revision: Revision(revision), turn }
}

pub fn activate(rows: &dyn RowStore, revision: u64, epoch: Epoch) {
    rows.activate(&main_collection(), &advance(rows, revision), epoch).unwrap();
}

pub fn open(directory: &Path) -> RedbRows {
    RedbRows::open(directory, StoreOptions::default()).unwrap()
}

/// A row that no other handle and no other `salt` has.
pub fn coordinates(handle: u64, salt: u64, width: usize) -> Vec<i32> {
    let mix = |i: usize| {
        let word = (handle << 32 | salt << 16 | i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (word >> 24) as i32
    };
    (0..width).map(mix).collect()
}

/// Cell of a handle in the tests here: seven cells.
pub fn cell(handle: u64) -> CellHandle {
    CellHandle(100 + handle % 7)
}

pub fn batch(
    epoch: Epoch,
    handles: impl IntoIterator<Item = u64>,
    salt: u64,
    width: usize,
) -> RowBatch {
    let row = |handle| Row {
        handle: RowHandle(handle),
        cell: declassify(cell(handle), Leak::CellMembership),
        coordinates: coordinates(handle, salt, width),
    };
    RowBatch::new(
        declassify(epoch, Leak::CollectionShape),
        declassify(width, Leak::CollectionShape),
        declassify(handles.into_iter().map(row).collect(), Leak::StoredRows),
    )
}

pub fn upsert(
    rows: &dyn RowStore,
    revision: u64,
    epoch: Epoch,
    handles: impl IntoIterator<Item = u64>,
    salt: u64,
    width: usize,
) -> Result<(), StoreError> {
    let batch = batch(epoch, handles, salt, width);
    let tags = vec![RowMac([salt as u8; 16]); batch.rows().len()];
    rows.upsert(&main_collection(), &advance(rows, revision), batch, &tags)
}

pub fn delete(rows: &dyn RowStore, revision: u64, handles: &[u64]) -> usize {
    let handles: Vec<RowHandle> = handles.iter().map(|&handle| RowHandle(handle)).collect();
    rows.delete(&main_collection(), &advance(rows, revision), EPOCH, &handles).unwrap()
}

pub fn candidates(handles: impl IntoIterator<Item = u64>) -> Candidates {
    let mut cells = std::collections::BTreeMap::<CellHandle, Vec<RowHandle>>::new();
    for handle in handles {
        cells.entry(cell(handle)).or_default().push(RowHandle(handle));
    }
    let (tags, rows) = cells.into_iter().unzip();
    let tags = declassify(tags, Leak::ActiveCells);
    Candidates::new(tags, declassify(rows, Leak::CandidateHandles)).unwrap()
}

pub fn fetch(
    rows: &dyn RowStore,
    epoch: Epoch,
    handles: impl IntoIterator<Item = u64>,
) -> Result<Fetched, StoreError> {
    rows.fetch(&main_collection(), epoch, &candidates(handles))
}

/// Whether a handle gives the row of a salt.
pub fn holds(rows: &dyn RowStore, epoch: Epoch, handle: u64, salt: u64) -> bool {
    match fetch(rows, epoch, [handle]) {
        Ok(found) => *found.rows[0][0] == coordinates(handle, salt, found.width),
        Err(_) => false,
    }
}

/// The salt of the row that a handle gives.
pub fn salt(rows: &dyn RowStore, epoch: Epoch, handle: u64) -> Option<u64> {
    let found = fetch(rows, epoch, [handle]).ok()?;
    let row = &found.rows[0][0];
    (0..1 << 16).find(|&salt| **row == coordinates(handle, salt, row.len()))
}

/// An engine with rows 0 to `count` of salt 0 in the current epoch.
pub fn filled(directory: &Path, count: u64, width: usize) -> RedbRows {
    let rows = open(directory);
    upsert(&rows, 1, EPOCH, 0..count, 0, width).unwrap();
    activate(&rows, 1, EPOCH);
    rows
}

/// Copies a directory: what a disk has at the moment of a crash.
pub fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}
