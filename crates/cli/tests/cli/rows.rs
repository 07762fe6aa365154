//! `shard verify`, `snapshot`, `restore-snapshot` and `compact` on a server's directory.

use std::path::Path;

use shard_protocol::{
    Advance, CellHandle, CollectionName, CommitName, Epoch, Leak, Revision, Row, RowBatch,
    RowHandle, RowMac, declassify,
};
use shard_store::{RedbRows, RowStore, StoreOptions};

use crate::support::{Desk, parsed};

/// A directory with ten rows, three of which were deleted.
fn fill(directory: &Path) -> RedbRows {
    let rows = RedbRows::open(directory, StoreOptions::default()).unwrap();
    let row = |handle| Row {
        handle: RowHandle(handle),
        cell: declassify(CellHandle(handle % 2), Leak::CellMembership),
        coordinates: vec![handle as i32 + 0x1234_5678; 40],
    };
    let batch = RowBatch::new(
        declassify(Epoch(1), Leak::CollectionShape),
        declassify(40, Leak::CollectionShape),
        declassify((0..10).map(row).collect(), Leak::StoredRows),
    );
    let name = CollectionName::default();
    let (to, revision) = (CommitName([1; 16]), Revision(1));
    let first = Advance { from: None, to, revision, turn: 0 };
    rows.upsert(&name, &first, batch, &[RowMac([0; 16]); 10]).unwrap();
    rows.delete(&name, &first, Epoch(1), &[0, 1, 2].map(RowHandle)).unwrap();
    rows
}

#[test]
fn rows_are_verified_copied_restored_and_compacted() {
    let desk = Desk::new();
    drop(fill(&desk.path("rows")));
    let found = parsed(&desk.succeeds(&["verify", "rows", "--json", "-"]));
    assert_eq!((found["rows"].as_u64(), found["collections"].as_u64()), (Some(7), Some(1)));
    assert_eq!(found["problems"].as_array().map(Vec::len), Some(0));
    let copy = parsed(&desk.succeeds(&["snapshot", "rows", "backup", "--json", "-"]));
    assert_eq!(copy["rows"], 7);
    let restored = parsed(&desk.succeeds(&["restore-snapshot", "backup", "again", "--json", "-"]));
    assert_eq!(restored["rows"], 7);
    let done = parsed(&desk.succeeds(&["compact", "again", "--json", "-"]));
    assert_eq!(done["rows"], 7);
    assert!(desk.succeeds(&["verify", "again"]).contains("as it was written"));
}

#[test]
fn what_cannot_be_done_is_one_line_and_changes_nothing() {
    let desk = Desk::new();
    let rows = fill(&desk.path("rows"));
    for command in ["verify", "compact"] {
        desk.refused(&[command, "rows"], &["a server is running"]);
        desk.refused(&[command, "nowhere"], &["nowhere"]);
    }
    assert!(!desk.path("nowhere").exists());
    drop(rows);
    desk.succeeds(&["snapshot", "rows", "backup"]);
    desk.refused(&["snapshot", "rows", "backup"], &["not empty"]);
    desk.refused(&["restore-snapshot", "backup", "rows"], &["holds rows already"]);
}

#[test]
fn a_damaged_row_is_named() {
    let desk = Desk::new();
    drop(fill(&desk.path("rows")));
    desk.succeeds(&["compact", "rows"]);
    let file = desk.path("rows").join("rows-00000002.redb");
    let mut bytes = std::fs::read(&file).unwrap();
    let row = (5 + 0x1234_5678i32).to_le_bytes().repeat(40);
    let at = bytes.windows(row.len()).position(|window| window == row).unwrap();
    bytes[at + 9] ^= 4;
    std::fs::write(&file, bytes).unwrap();
    let output = desk.shard(&["verify", "rows", "--json", "-"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = found["problems"].as_array().unwrap();
    let named = "collection main, epoch 1, row 0000000000000005";
    assert!(problems.iter().any(|problem| problem.as_str().unwrap().contains(named)), "{found}");
}
