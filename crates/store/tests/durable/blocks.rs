//! Epochs of blocks on disk: what a restart, a compaction, a snapshot and a salvage make of them.

use shard_protocol::{
    Advance, BlobName, CollectionState, CommitName, Epoch, EpochState, Revision, RowMac,
};
use shard_store::{RedbRows, RowStore, StoreOptions, verify};

use crate::damage::flip_all;
use crate::support::*;

const COMMIT: CommitName = CommitName([4; 16]);

fn block(number: u8) -> (BlobName, Vec<u8>) {
    (BlobName::block([number; 16]), vec![number; 5000])
}

fn blocks() -> Vec<(BlobName, Vec<u8>)> {
    (0..20).map(block).collect()
}

/// Twenty blocks at commit [`COMMIT`], in place of rows.
fn published(rows: &RedbRows) -> CollectionState {
    let main = main_collection();
    let state = rows.describe(&main).unwrap();
    let (from, turn) = (state.commit, state.turn + 1);
    let advance = Advance { from, to: COMMIT, revision: Revision(9), turn };
    rows.begin(&main, &advance).unwrap();
    let before = rows.metrics().commits;
    rows.put_blobs(&main, &blocks()).unwrap();
    assert_eq!(rows.metrics().commits, before + 1, "one transaction for all");
    rows.put_blobs(&main, &blocks()).unwrap();
    assert_eq!(rows.metrics().commits, before + 1, "the same bytes cost no write");
    let epoch = Epoch(EPOCH.0 + 1);
    rows.activate_blocks(&main, &advance, epoch, 384, 20).unwrap();
    let state = rows.describe(&main).unwrap();
    assert_eq!(state.epochs, [EpochState { epoch, width: 384, rows: 0, blocks: 20 }]);
    state
}

fn serves(rows: &RedbRows, state: &CollectionState) {
    assert_eq!(&rows.describe(&main_collection()).unwrap(), state);
    for (name, bytes) in blocks() {
        assert_eq!(rows.blob(&main_collection(), &name).as_ref(), Ok(&bytes), "{name}");
    }
}

#[test]
fn blocks_are_there_after_a_restart_a_compaction_and_in_a_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("rows"), directory.path().join("copy"));
    let rows = filled(&path, 50, 8);
    let state = published(&rows);
    rows.compact().unwrap();
    serves(&rows, &state);
    rows.snapshot(&copy).unwrap();
    drop(rows);
    for path in [&path, &copy] {
        let found = verify(path).unwrap();
        assert_eq!((found.rows, found.epochs, found.blobs), (0, 1, 20));
        assert_eq!(found.problems, Vec::<String>::new());
        serves(&RedbRows::open(path, StoreOptions::default()).unwrap(), &state);
    }
}

#[test]
fn a_drop_of_another_damaged_collection_leaves_blocks_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let rows = open(directory.path());
    let state = published(&rows);
    let other = "other".parse().unwrap();
    let batch = batch(EPOCH, 0..30, 3, 8);
    let macs = vec![RowMac([0; 16]); 30];
    let advance = Advance { from: None, to: COMMIT, revision: Revision(1), turn: 0 };
    rows.upsert(&other, &advance, batch, &macs).unwrap();
    rows.activate(&other, &advance, EPOCH).unwrap();
    drop(rows);
    // A bit of one of its rows.
    let pattern: Vec<u8> = coordinates(7, 3, 8).iter().flat_map(|z| z.to_le_bytes()).collect();
    flip_all(directory.path(), &pattern, 5);
    let rows = open(directory.path());
    assert!(rows.fetch(&other, EPOCH, &candidates([7])).is_err(), "damaged, and noticed");
    assert_eq!(rows.drop_collection(&other), Ok(true));
    serves(&rows, &state);
    drop(rows);
    serves(&open(directory.path()), &state);
}
