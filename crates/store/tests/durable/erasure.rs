//! After a compaction, bytes that were deleted, replaced or erased are in no file.

use std::path::Path;

use shard_protocol::{Advance, Epoch};
use shard_store::RowStore;

use crate::support::*;

const WIDTH: usize = 24;

/// Whether the bytes are in any file of the directory.
fn found(directory: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let file = std::fs::read(entry.unwrap().path()).unwrap();
        file.windows(bytes.len()).any(|window| window == bytes)
    })
}

fn row_bytes(handle: u64, salt: u64) -> Vec<u8> {
    coordinates(handle, salt, WIDTH).into_iter().flat_map(i32::to_le_bytes).collect()
}

#[test]
fn deleted_and_replaced_rows_are_nowhere_after_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), 300, WIDTH);
    let gone = [row_bytes(17, 0), row_bytes(200, 0), row_bytes(18, 0)];
    // redb leaves old pages as they are until it needs their place.
    delete(&rows, 2, &[17, 200]);
    assert!(found(directory.path(), &gone[0]) && found(directory.path(), &gone[1]));
    upsert(&rows, 3, EPOCH, [18], 1, WIDTH).unwrap();
    assert!(found(directory.path(), &gone[2]));
    let live = rows.metrics();
    assert_eq!((live.erasable_rows, live.erasable_bytes), (3, 3 * (8 + 4 * WIDTH as u64)));
    assert_eq!(rows.erasable_bytes(), live.erasable_bytes);
    let done = rows.compact().unwrap();
    assert_eq!(done.rows, 298);
    assert!(!gone.iter().any(|bytes| found(directory.path(), bytes)));
    assert!(
        found(directory.path(), &row_bytes(19, 0)) && found(directory.path(), &row_bytes(18, 1))
    );
    assert!(holds(&rows, EPOCH, 18, 1) && holds(&rows, EPOCH, 19, 0));
    assert_eq!((rows.erasable_bytes(), rows.metrics().compactions), (0, 1));
    drop(rows);
    assert!(!gone.iter().any(|bytes| found(directory.path(), bytes)));
}

#[test]
fn an_erased_epoch_a_dropped_collection_and_a_deleted_blob_are_nowhere_after_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), 50, WIDTH);
    let other = "other".parse().unwrap();
    let tags = [shard_protocol::RowMac([1; 16])];
    let first = Advance { from: None, ..advance(&rows, 1) };
    rows.upsert(&other, &first, batch(EPOCH, [777], 5, WIDTH), &tags).unwrap();
    let (old, kept) = ("blob.1".parse().unwrap(), "blob.2".parse().unwrap());
    rows.put_blob(&main_collection(), &old, b"a sealed blob that will be deleted").unwrap();
    rows.put_blob(&main_collection(), &kept, b"a sealed blob that will be replaced").unwrap();
    rows.put_blob(&main_collection(), &kept, b"a sealed blob that stays").unwrap();
    upsert(&rows, 2, Epoch(4), 0..5, 6, WIDTH).unwrap();
    activate(&rows, 2, Epoch(4));
    let gone = [
        row_bytes(3, 0),
        row_bytes(777, 5),
        b"a sealed blob that will be deleted".to_vec(),
        b"a sealed blob that will be replaced".to_vec(),
    ];
    assert!(found(directory.path(), &gone[0]), "redb leaves old pages as they are");
    rows.drop_collection(&other).unwrap();
    assert!(found(directory.path(), &gone[1]));
    rows.delete_blob(&main_collection(), &old).unwrap();
    assert!(found(directory.path(), &gone[2]));
    rows.compact().unwrap();
    for bytes in &gone {
        assert!(!found(directory.path(), bytes));
    }
    assert!(holds(&rows, Epoch(4), 4, 6));
    assert_eq!(rows.blob(&main_collection(), &kept).unwrap(), b"a sealed blob that stays");
}

#[test]
fn a_compaction_is_due_after_many_deletes_or_an_erased_epoch_and_that_outlives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), 100, WIDTH);
    assert!(!rows.needs_compaction());
    delete(&rows, 2, &(0..10).collect::<Vec<_>>());
    assert!(!rows.needs_compaction(), "a tenth");
    upsert(&rows, 3, EPOCH, 10..20, 1, WIDTH).unwrap();
    assert!(rows.needs_compaction(), "20 of 90");
    drop(rows);
    let rows = open(directory.path());
    assert!(rows.needs_compaction());
    rows.compact().unwrap();
    assert!(!rows.needs_compaction());
    upsert(&rows, 4, Epoch(4), [1], 1, WIDTH).unwrap();
    activate(&rows, 4, Epoch(4));
    drop(rows);
    let rows = open(directory.path());
    assert!(rows.needs_compaction(), "an epoch was erased");
    let done = rows.compact().unwrap();
    assert!(!rows.needs_compaction() && done.rows == 1);
}

#[test]
fn a_row_file_that_an_earlier_compaction_could_not_remove_goes_with_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), 10, 4);
    let left = directory.path().join("rows-00000000.redb");
    std::fs::write(&left, b"rows of before").unwrap();
    rows.compact().unwrap();
    assert!(!left.exists());
    assert!(holds(&rows, EPOCH, 7, 0));
}
