//! Readers, writers and compactions at the same time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use shard_store::RowStore;

use crate::support::*;

const ROWS: u64 = 60;
const WIDTH: usize = 8;

#[test]
fn a_fetch_sees_one_moment_and_never_one_before_it_began() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), ROWS, WIDTH);
    let (acknowledged, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            // Every change replaces all rows at once, so one fetch must see one salt.
            for salt in 1..=60 {
                upsert(&rows, 1 + salt, EPOCH, 0..ROWS, salt, WIDTH).unwrap();
                acknowledged.store(salt, Ordering::SeqCst);
                if salt % 20 == 0 {
                    rows.compact().unwrap();
                }
            }
            ended.store(true, Ordering::SeqCst);
        });
        for reader in 0..2 {
            let (rows, acknowledged, ended) = (&rows, &acknowledged, &ended);
            scope.spawn(move || {
                let asked = || (0..ROWS).filter(|handle| handle % 2 == reader || reader == 0);
                while !ended.load(Ordering::SeqCst) {
                    let oldest = acknowledged.load(Ordering::SeqCst);
                    let found = fetch(rows, EPOCH, asked()).unwrap();
                    let handles = candidates(asked());
                    let salt = (oldest..=60)
                        .find(|&salt| {
                            *found.rows[0][0] == coordinates(first(&handles), salt, WIDTH)
                        })
                        .expect("a row no older than the last acknowledged");
                    for ((_, handles), rows) in handles.iter().zip(&found.rows) {
                        for (handle, row) in handles.iter().zip(rows) {
                            assert_eq!(**row, coordinates(handle.0, salt, WIDTH)[..]);
                        }
                    }
                }
            });
        }
    });
    assert!((0..ROWS).all(|handle| holds(&rows, EPOCH, handle, 60)));
}

fn first(candidates: &shard_protocol::Candidates) -> u64 {
    candidates.iter().next().unwrap().1[0].0
}

#[test]
fn what_is_written_during_a_compaction_is_not_lost_and_what_is_deleted_stays_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), 4000, 32);
    let ended = AtomicBool::new(false);
    let (written, compactions) = thread::scope(|scope| {
        let compactor = scope.spawn(|| {
            let mut compactions = 0;
            while !ended.load(Ordering::SeqCst) || compactions < 2 {
                rows.compact().unwrap();
                compactions += 1;
            }
            compactions
        });
        let writer = scope.spawn(|| {
            for round in 0..40 {
                let at = 10_000 + 10 * round;
                upsert(&rows, 2 + round, EPOCH, at..at + 10, 0, 32).unwrap();
                upsert(&rows, 2 + round, EPOCH, 5 * round..5 * round + 5, 1, 32).unwrap();
                assert_eq!(delete(&rows, 2 + round, &[1000 + round]), 1);
            }
            activate(&rows, 41, EPOCH);
            ended.store(true, Ordering::SeqCst);
            40
        });
        (writer.join().unwrap(), compactor.join().unwrap())
    });
    assert!(compactions >= 2);
    let check = |rows: &dyn RowStore| {
        assert!((10_000..10_000 + 10 * written).all(|handle| holds(rows, EPOCH, handle, 0)));
        assert!((0..5 * written).all(|handle| holds(rows, EPOCH, handle, 1)));
        assert!((1000..1000 + written).all(|handle| fetch(rows, EPOCH, [handle]).is_err()));
        assert_eq!(rows.describe(&main_collection()).unwrap().epochs[0].rows, 4000 + 9 * written);
        assert_eq!(rows.describe(&main_collection()).unwrap().revision.0, 1 + written);
    };
    check(&rows);
    drop(rows);
    assert_eq!(shard_store::verify(directory.path()).unwrap().problems, Vec::<String>::new());
    check(&open(directory.path()));
}

#[test]
fn an_epoch_erased_during_a_compaction_stays_erased() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), 3000, 32);
    let next = shard_protocol::Epoch(4);
    thread::scope(|scope| {
        let compactor = scope.spawn(|| rows.compact().unwrap());
        upsert(&rows, 2, next, 0..10, 7, 32).unwrap();
        activate(&rows, 2, next);
        compactor.join().unwrap();
    });
    assert!(holds(&rows, next, 3, 7));
    assert!(fetch(&rows, EPOCH, [3]).is_err());
    drop(rows);
    let found = shard_store::verify(directory.path()).unwrap();
    assert_eq!((found.rows, found.epochs, found.problems), (10, 1, Vec::new()));
}
