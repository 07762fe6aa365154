//! Opening a directory: after a clean end, after a crash, twice at a time, when it is damaged.

use shard_store::{RedbRows, RowStore, StoreOptions, verify};

use crate::support::*;

#[test]
fn what_was_acknowledged_is_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), 40, 8);
    let name = "vault.1".parse().unwrap();
    rows.put_blob(&main_collection(), &name, b"sealed").unwrap();
    assert_eq!(delete(&rows, 2, &[3, 4]), 2);
    activate(&rows, 2, EPOCH);
    let before = rows.describe(&main_collection()).unwrap();
    drop(rows);
    let rows = open(directory.path());
    assert_eq!(rows.describe(&main_collection()).unwrap(), before);
    assert!(holds(&rows, EPOCH, 5, 0));
    let deleted = fetch(&rows, EPOCH, [3]).unwrap_err();
    assert!(deleted.to_string().contains("deleted at revision 2"), "{deleted}");
    assert_eq!(rows.blob(&main_collection(), &name).unwrap(), b"sealed");
    assert!(upsert(&rows, 1, EPOCH, [1], 0, 8).is_err(), "an earlier revision");
}

#[test]
fn the_files_of_a_running_server_are_whole_at_every_acknowledgement() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), 30, 8);
    for round in 1..6 {
        upsert(&rows, 1 + round, EPOCH, 0..10, round, 8).unwrap();
        // The disk as it is now, without the server having ended.
        let crashed = tempfile::tempdir().unwrap();
        copy_directory(directory.path(), crashed.path());
        let again = open(crashed.path());
        assert!((0..10).all(|handle| holds(&again, EPOCH, handle, round)), "round {round}");
        assert!(holds(&again, EPOCH, 20, 0));
        drop(again);
        assert_eq!(verify(crashed.path()).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn a_second_server_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), 3, 2);
    let second = RedbRows::open(directory.path(), StoreOptions::default()).unwrap_err();
    assert!(second.to_string().contains("a server is running on"), "{second}");
    let checked = verify(directory.path()).unwrap_err();
    assert!(checked.to_string().contains("a server is running on"), "{checked}");
    drop(rows);
    assert!(holds(&open(directory.path()), EPOCH, 1, 0));
}

#[test]
fn leftovers_of_killed_work_are_removed_and_other_files_stay() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), 3, 2));
    let gone = ["rows-00000002.redb", "rows-00000002.redb.partial", "CURRENT.partial"];
    let kept = ["certificate.pem", "rows-of-mine.txt"];
    for name in gone.iter().chain(&kept) {
        std::fs::write(directory.path().join(name), b"left").unwrap();
    }
    assert!(holds(&open(directory.path()), EPOCH, 1, 0));
    assert!(gone.iter().all(|name| !directory.path().join(name).exists()));
    assert!(kept.iter().all(|name| directory.path().join(name).exists()));
}

#[test]
fn the_only_row_file_counts_when_a_kill_came_before_its_name_was_written() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), 3, 2));
    std::fs::remove_file(directory.path().join("CURRENT")).unwrap();
    assert!(holds(&open(directory.path()), EPOCH, 1, 0));
    std::fs::remove_file(directory.path().join("CURRENT")).unwrap();
    std::fs::write(directory.path().join("rows-00000002.redb"), b"").unwrap();
    let refused = RedbRows::open(directory.path(), StoreOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("no CURRENT"), "{refused}");
}

#[test]
fn a_directory_that_is_not_understood_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), 3, 2));
    let current = directory.path().join("CURRENT");
    for text in ["", "shard rows 3\nrows-00000001.redb\n", "shard rows 2\nrows-x.redb\n"] {
        std::fs::write(&current, text).unwrap();
        assert!(RedbRows::open(directory.path(), StoreOptions::default()).is_err(), "{text:?}");
    }
    std::fs::write(&current, "shard rows 1\nrows-00000001.redb\n").unwrap();
    let before = RedbRows::open(directory.path(), StoreOptions::default()).unwrap_err();
    assert!(before.to_string().contains("layout version 1"), "{before}");
    std::fs::write(&current, "shard rows 2\nrows-00000007.redb\n").unwrap();
    let missing = RedbRows::open(directory.path(), StoreOptions::default()).unwrap_err();
    assert!(missing.to_string().contains("rows-00000007.redb"), "{missing}");
}

#[test]
fn a_dropped_collection_stays_dropped_and_its_name_can_be_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), 10, 4);
    assert!(holds(&rows, EPOCH, 1, 0));
    assert!(rows.drop_collection(&main_collection()).unwrap());
    upsert(&rows, 1, EPOCH, [2], 9, 4).unwrap();
    activate(&rows, 1, EPOCH);
    for rows in [rows, {
        let copy = tempfile::tempdir().unwrap().keep();
        copy_directory(directory.path(), &copy);
        open(&copy)
    }] {
        assert!(holds(&rows, EPOCH, 2, 9) && !holds(&rows, EPOCH, 1, 0));
        assert_eq!(rows.describe(&main_collection()).unwrap().epochs[0].rows, 1);
    }
}

#[cfg(unix)]
#[test]
fn the_files_of_a_server_are_nobody_else_s_to_read() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), 3, 4).compact().unwrap();
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
    }
}
