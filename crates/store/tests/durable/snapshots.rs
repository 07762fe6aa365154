//! Snapshots while serving, and what comes back from them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use shard_store::{RedbRows, verify};

use crate::support::*;

#[test]
fn a_snapshot_under_writes_is_one_moment_and_opens_like_the_server_s_directory() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("backups").join("monday");
    let rows = filled(&directory.path().join("rows"), 400, 16);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for salt in (1..).take_while(|_| !ended.load(Ordering::SeqCst)) {
                upsert(&rows, 1 + salt, EPOCH, 0..20, salt, 16).unwrap();
            }
        });
        let snapshot = rows.snapshot(&to).unwrap();
        assert_eq!((snapshot.rows, snapshot.bytes > 0), (400, true));
        ended.store(true, Ordering::SeqCst);
    });
    let found = verify(&to).unwrap();
    assert_eq!((found.rows, found.epochs, found.collections), (400, 1, 1));
    assert_eq!(found.problems, Vec::<String>::new());
    let copy = open(&to);
    let moment = salt(&copy, EPOCH, 0).unwrap();
    assert!((0..20).all(|handle| holds(&copy, EPOCH, handle, moment)));
    assert!((20..400).all(|handle| holds(&copy, EPOCH, handle, 0)));
    assert!(!copy.needs_compaction());
}

#[test]
fn a_snapshot_does_not_overwrite_and_replaces_what_a_killed_one_has_left() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(&directory.path().join("rows"), 10, 4);
    let (empty, full) = (directory.path().join("empty"), directory.path().join("full"));
    for path in [&empty, &full] {
        std::fs::create_dir(path).unwrap();
    }
    std::fs::write(full.join("file"), b"mine").unwrap();
    let refused = rows.snapshot(&full).unwrap_err();
    assert!(refused.to_string().contains("is not empty"), "{refused}");
    let left = directory.path().join(".empty.partial");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("rows-00000001.redb"), b"half of it").unwrap();
    rows.snapshot(&empty).unwrap();
    assert!(!left.exists());
    assert!(holds(&open(&empty), EPOCH, 7, 0));
    // What is not a snapshot's is not removed.
    let other = directory.path().join(".new.partial");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("thesis.txt"), b"mine").unwrap();
    assert!(rows.snapshot(&directory.path().join("new")).is_err());
    assert!(other.join("thesis.txt").exists());
}

#[test]
fn no_snapshot_is_in_the_place_where_another_one_is_built() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(&directory.path().join("rows"), 10, 4);
    let older = directory.path().join("a.partial");
    rows.snapshot(&older).unwrap();
    rows.snapshot(&directory.path().join("a")).unwrap();
    assert!(holds(&open(&older), EPOCH, 7, 0));
    let refused = rows.snapshot(&directory.path().join(".a.partial")).unwrap_err();
    assert!(refused.to_string().contains("begins with no dot"), "{refused}");
}

#[test]
fn a_snapshot_is_restored_only_whole_and_only_where_no_rows_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let rows = filled(&path("rows"), 60, 16);
    rows.snapshot(&path("snapshot")).unwrap();
    let refused = RedbRows::restore(&path("snapshot"), &path("rows")).unwrap_err();
    assert!(refused.to_string().contains("a server is running"), "{refused}");
    upsert(&rows, 2, EPOCH, 0..60, 9, 16).unwrap();
    drop(rows);
    let refused = RedbRows::restore(&path("snapshot"), &path("rows")).unwrap_err();
    assert!(refused.to_string().contains("holds rows already"), "{refused}");
    std::fs::create_dir(path("new")).unwrap();
    std::fs::write(path("new").join("certificate.pem"), b"kept").unwrap();
    let restored = RedbRows::restore(&path("snapshot"), &path("new")).unwrap();
    assert_eq!(restored.rows, 60);
    assert!(holds(&open(&path("new")), EPOCH, 30, 0));
    assert!(holds(&open(&path("rows")), EPOCH, 30, 9));
    // One bit of a row, and it is refused by name.
    let file = path("snapshot").join("rows-00000001.redb");
    let mut bytes = std::fs::read(&file).unwrap();
    let row: Vec<u8> = coordinates(30, 0, 16).into_iter().flat_map(i32::to_le_bytes).collect();
    let at = bytes.windows(row.len()).position(|window| window == row).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let refused = RedbRows::restore(&path("snapshot"), &path("other")).unwrap_err();
    assert!(refused.to_string().contains("is damaged"), "{refused}");
    assert!(!path("other").join("CURRENT").exists());
}
