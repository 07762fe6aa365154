//! Rows in memory: what is warm, what is counted, what gives way.

use shard_store::{RedbRows, RowStore, StoreOptions};

use crate::support::*;

#[test]
fn a_warm_fetch_reads_nothing_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), 200, 16);
    let cold = fetch(&rows, EPOCH, 0..150).unwrap();
    let before = rows.metrics();
    assert_eq!((before.cache_misses, before.disk_rows_read), (150, 150));
    assert_eq!(fetch(&rows, EPOCH, 0..150).unwrap(), cold);
    let after = rows.metrics();
    assert_eq!((after.cache_hits, after.disk_rows_read), (150, 150));
    // Of rows that are partly there only the others are read.
    fetch(&rows, EPOCH, 100..160).unwrap();
    assert_eq!(rows.metrics().disk_rows_read, 160);
}

#[test]
fn the_cache_keeps_to_its_budget_and_rows_stay_right() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), 500, 64));
    let options = StoreOptions { cache_bytes: 20_000, ..StoreOptions::default() };
    let rows = RedbRows::open(directory.path(), options).unwrap();
    for start in (0..450).step_by(10) {
        assert!((start..start + 50).all(|handle| holds(&rows, EPOCH, handle, 0)));
        assert!(rows.metrics().cache_bytes <= 20_000);
    }
    assert!(rows.metrics().cache_hits > 0, "neighbouring requests share rows");
}

#[test]
fn a_change_takes_only_what_it_changes_out_of_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), 50, 8);
    fetch(&rows, EPOCH, 0..50).unwrap();
    upsert(&rows, 2, EPOCH, [7], 1, 8).unwrap();
    delete(&rows, 3, &[8]);
    let read = rows.metrics().disk_rows_read;
    assert!(holds(&rows, EPOCH, 7, 1) && !holds(&rows, EPOCH, 8, 0));
    fetch(&rows, EPOCH, 9..50).unwrap();
    assert_eq!(rows.metrics().disk_rows_read, read + 1);
    upsert(&rows, 4, shard_protocol::Epoch(4), 0..2, 5, 3).unwrap();
    activate(&rows, 4, shard_protocol::Epoch(4));
    assert_eq!(rows.metrics().cache_bytes, 0);
}

#[test]
fn the_same_blob_again_costs_no_write() {
    let directory = tempfile::tempdir().unwrap();
    let rows = open(directory.path());
    let (main, name) = (main_collection(), "vault.1".parse().unwrap());
    rows.put_blob(&main, &name, &[7; 5000]).unwrap();
    let before = (rows.metrics().commits, rows.erasable_bytes());
    let file = std::fs::read(directory.path().join("rows-00000001.redb")).unwrap();
    for _ in 0..3 {
        rows.put_blob(&main, &name, &[7; 5000]).unwrap();
    }
    assert_eq!((rows.metrics().commits, rows.erasable_bytes()), before);
    assert!(std::fs::read(directory.path().join("rows-00000001.redb")).unwrap() == file);
    rows.put_blob(&main, &name, &[8; 5000]).unwrap();
    assert_eq!(rows.metrics().commits, before.0 + 1);
    assert_eq!(rows.blob(&main, &name).unwrap(), [8; 5000]);
}
