//! Full disks, disks that can no longer be written, and kills at every write.

use std::io::ErrorKind;
use std::path::Path;

use shard_protocol::{
    Advance, Candidates, CellHandle, CollectionName, CommitName, Epoch, Leak, Revision, Row,
    RowBatch, RowHandle, RowMac, declassify,
};

use super::database::View;
use super::faults::Faults;
use super::{RedbRows, StoreOptions, verify};
use crate::{MOST_COLLECTIONS, RowStore, StoreError};

const FOREVER: u64 = u64::MAX;
const WIDTH: usize = 6;
const NEXT: CommitName = CommitName([8; 16]);

fn main_collection() -> CollectionName {
    CollectionName::default()
}

fn open(directory: &Path, faults: &Faults) -> Result<RedbRows, StoreError> {
    let options = StoreOptions { faults: faults.clone(), ..StoreOptions::default() };
    RedbRows::open(directory, options)
}

/// A step of the only vault there is, from whatever is held.
fn advance(rows: &RedbRows, revision: u64) -> Advance {
    let state = rows.describe(&main_collection()).unwrap();
    let (from, turn) = (state.commit, state.turn);
    Advance { from, to: CommitName([7; 16]), revision: Revision(revision), turn }
}

/// The same as the first step of the next publish.
fn next(advance: Advance) -> Advance {
    Advance { turn: advance.turn + 1, ..advance }
}

fn upsert(
    rows: &RedbRows,
    revision: u64,
    epoch: u64,
    handles: std::ops::Range<u64>,
    value: i32,
) -> Result<(), StoreError> {
    let row = |handle| Row {
        handle: RowHandle(handle),
        cell: declassify(CellHandle(handle % 5), Leak::CellMembership),
        coordinates: vec![value; WIDTH],
    };
    let batch = RowBatch::new(
        declassify(Epoch(epoch), Leak::CollectionShape),
        declassify(WIDTH, Leak::CollectionShape),
        declassify(handles.map(row).collect(), Leak::StoredRows),
    );
    let macs = vec![RowMac([0; 16]); batch.rows().len()];
    rows.upsert(&main_collection(), &advance(rows, revision), batch, &macs)
}

/// An engine with rows 0 to 80, all of value 1, in epoch 1.
fn filled(directory: &Path, faults: &Faults) -> RedbRows {
    let rows = open(directory, faults).unwrap();
    upsert(&rows, 1, 1, 0..80, 1).unwrap();
    rows.activate(&main_collection(), &advance(&rows, 1), Epoch(1)).unwrap();
    rows
}

fn value(rows: &RedbRows, epoch: u64, handle: u64) -> Result<i32, StoreError> {
    let cells = declassify(vec![CellHandle(handle % 5)], Leak::ActiveCells);
    let asked = declassify(vec![vec![RowHandle(handle)]], Leak::CandidateHandles);
    let asked = Candidates::new(cells, asked).unwrap();
    Ok(rows.fetch(&main_collection(), Epoch(epoch), &asked)?.rows[0][0][0])
}

fn assert_says(error: StoreError, reason: &str) {
    let text = error.to_string();
    assert!(matches!(error, StoreError::Engine { .. }) && text.contains(reason), "{text}");
}

#[test]
fn a_full_or_read_only_disk_changes_nothing_and_writes_go_on_once_it_has_passed() {
    let kinds = [
        (ErrorKind::StorageFull, "no storage space"),
        (ErrorKind::ReadOnlyFilesystem, "read-only filesystem"),
    ];
    for (kind, reason) in kinds {
        let directory = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let rows = filled(directory.path(), &faults);
        assert_eq!(value(&rows, 1, 7), Ok(1));
        let before = rows.describe(&main_collection()).unwrap();
        faults.fail_after(0, FOREVER, kind);
        for _ in 0..3 {
            assert_says(upsert(&rows, 2, 1, 0..5, 2).unwrap_err(), reason);
            let deleted =
                rows.delete(&main_collection(), &advance(&rows, 2), Epoch(1), &[RowHandle(1)]);
            assert_says(deleted.unwrap_err(), reason);
            assert_says(rows.compact().unwrap_err(), reason);
            // Rows of the cache and of the disk alike.
            assert!((0..80).all(|handle| value(&rows, 1, handle) == Ok(1)));
            assert_eq!(rows.describe(&main_collection()).unwrap(), before);
        }
        faults.end();
        upsert(&rows, 2, 1, 0..5, 2).unwrap();
        rows.compact().unwrap();
        assert_eq!((value(&rows, 1, 4), value(&rows, 1, 5)), (Ok(2), Ok(1)));
        assert!(rows.metrics().reopened > 0);
        drop(rows);
        assert_eq!(verify(directory.path()).unwrap().problems, Vec::<String>::new());
        let rows = open(directory.path(), &faults).unwrap();
        assert_eq!((value(&rows, 1, 4), value(&rows, 1, 5)), (Ok(2), Ok(1)));
    }
}

#[test]
fn one_failed_write_wherever_it_comes_is_all_or_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let rows = filled(directory.path(), &faults);
    let (mut value_now, mut failed, mut revision) = (1, 0, 1);
    for point in 0.. {
        revision += 1;
        faults.fail_after(point, 1, ErrorKind::StorageFull);
        let outcome = upsert(&rows, revision, 1, 0..20, revision as i32);
        let struck = faults.struck();
        faults.end();
        match outcome {
            // Also when the error came after the commit had reached the file.
            Ok(()) => value_now = revision as i32,
            Err(error) => {
                assert_says(error, "no storage space");
                failed += 1;
            }
        }
        assert!((0..20).all(|handle| value(&rows, 1, handle) == Ok(value_now)), "write {point}");
        assert!((20..80).all(|handle| value(&rows, 1, handle) == Ok(1)));
        if !struck {
            break;
        }
    }
    assert!(failed >= 3, "{failed}");
    drop(rows);
    assert_eq!(verify(directory.path()).unwrap().problems, Vec::<String>::new());
    let rows = open(directory.path(), &faults).unwrap();
    assert!((0..20).all(|handle| value(&rows, 1, handle) == Ok(value_now)));
}

/// Lets `change` run with every write from some point on failing, as after a kill, and opens what
/// is left: for every point there is, or one in `stride`. `check` gets the engine and whether the
/// change was acknowledged. Returns how many kills there were.
fn killed_at_every_write(
    stride: usize,
    change: impl Fn(&RedbRows) -> Result<(), StoreError>,
    check: impl Fn(&RedbRows, bool),
) -> usize {
    for point in (0..).step_by(stride) {
        let directory = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let rows = filled(directory.path(), &faults);
        faults.fail_after(point, FOREVER, ErrorKind::Other);
        let acknowledged = change(&rows).is_ok();
        let struck = faults.struck();
        drop(rows); // none of what this writes arrives
        faults.end();
        let found = verify(directory.path()).unwrap();
        assert_eq!(found.problems, Vec::<String>::new(), "write {point}");
        let rows = open(directory.path(), &faults).unwrap();
        check(&rows, acknowledged);
        rows.begin(&main_collection(), &next(advance(&rows, 9))).unwrap();
        upsert(&rows, 9, 1, 70..71, 9).or_else(|_| upsert(&rows, 9, 2, 70..71, 9)).unwrap();
        if !struck {
            assert!(acknowledged);
            return point as usize / stride;
        }
    }
    unreachable!("a change has an end")
}

#[test]
fn a_kill_during_an_upsert_leaves_all_of_it_or_nothing() {
    let kills = killed_at_every_write(
        1,
        |rows| upsert(rows, 2, 1, 0..10, 2),
        |rows, acknowledged| {
            let first = value(rows, 1, 0).unwrap();
            assert!((0..10).all(|handle| value(rows, 1, handle) == Ok(first)));
            assert!(!acknowledged || first == 2);
            assert!((10..80).all(|handle| value(rows, 1, handle) == Ok(1)));
        },
    );
    assert!(kills >= 5, "{kills}");
}

#[test]
fn a_kill_during_a_switch_of_epochs_leaves_one_or_the_other() {
    let kills = killed_at_every_write(
        2,
        |rows| {
            upsert(rows, 2, 2, 0..10, 2)?;
            let next = next(Advance { to: NEXT, ..advance(rows, 2) });
            rows.begin(&main_collection(), &next)?;
            rows.activate(&main_collection(), &next, Epoch(2))
        },
        |rows, acknowledged| {
            let state = rows.describe(&main_collection()).unwrap();
            let commit = state.commit.unwrap();
            match state.current {
                Some(Epoch(1)) => {
                    assert_eq!((state.revision, commit), (Revision(1), CommitName([7; 16])));
                    assert!(!acknowledged && (0..80).all(|row| value(rows, 1, row) == Ok(1)));
                }
                Some(Epoch(2)) => {
                    assert_eq!((state.revision, commit), (Revision(2), NEXT));
                    assert_eq!(state.unfinished, None);
                    assert!((0..10).all(|row| value(rows, 2, row) == Ok(2)));
                    assert!(value(rows, 1, 0).is_err());
                }
                other => panic!("epoch {other:?}"),
            }
        },
    );
    assert!(kills >= 5, "{kills}");
}

#[test]
fn a_kill_during_a_compaction_loses_nothing_and_brings_nothing_back() {
    let handles: Vec<RowHandle> = (0..10).map(RowHandle).collect();
    let kills = killed_at_every_write(
        5,
        |rows| {
            let gone = rows.delete(&main_collection(), &advance(rows, 2), Epoch(1), &handles)?;
            assert_eq!(gone, 10);
            rows.compact().map(drop)
        },
        |rows, acknowledged| {
            let there = (0..10).filter(|&row| value(rows, 1, row).is_ok()).count();
            assert!(there == 0 || there == 10 && !acknowledged);
            assert!((10..80).all(|row| value(rows, 1, row) == Ok(1)));
            let files = std::fs::read_dir(rows.directory()).unwrap().count();
            assert_eq!(files, 3, "CURRENT, LOCK and one row file");
        },
    );
    assert!(kills >= 5, "{kills}");
}

#[test]
fn an_engine_has_so_many_collections_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), &Faults::default());
    // As if all of them had been published, which would take a commit each.
    let view = rows.view();
    let mut catalogue = view.catalogue.clone();
    let held = catalogue.known(&main_collection()).unwrap().clone();
    for number in 1..MOST_COLLECTIONS {
        catalogue.0.insert(format!("c{number}").parse().unwrap(), held.clone());
    }
    rows.show(View::new(view.database().clone(), view.state, catalogue).unwrap(), &[]);
    let put = |collection: CollectionName| {
        rows.put_blob(&collection, &"blob".parse().unwrap(), b"sealed")
    };
    let full = StoreError::TooMany { what: "collections", most: MOST_COLLECTIONS };
    assert_eq!(put("another".parse().unwrap()), Err(full));
    assert_eq!(put(main_collection()), Ok(()), "those that are there take blobs");
}
