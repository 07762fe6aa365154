//! A failure between any two steps leaves the state of before or the state of after.

use super::*;
use crate::StoreError;
use std::time::Duration;

/// Plays a change with a failure at every one of its steps, on a fresh engine each. `before` makes the state
/// to begin with; `check` says which of the two states is held: `false` for that of before.
fn at_every_step(
    before: impl Fn(&Fresh),
    change: impl Fn(&Fresh) -> Result<(), StoreError>,
    check: impl Fn(&Fresh) -> bool,
) {
    let Some(cluster) = cluster() else { return };
    let (mut old, mut new) = (0, 0);
    for step in 0.. {
        let fresh = Fresh::with_objects(cluster);
        before(&fresh);
        assert!(!check(&fresh), "the state of before");
        fresh.rows.steps.fail_after(step);
        let outcome = change(&fresh);
        if !fresh.rows.steps.end() {
            outcome.unwrap();
            assert!(check(&fresh));
            break;
        }
        assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
        if check(&fresh) {
            new += 1
        } else {
            old += 1
        }
        // Whatever is left behind is swept, and nothing else is.
        let held = check(&fresh);
        fresh.rows.sweep(Duration::ZERO).unwrap();
        assert_eq!(check(&fresh), held, "after step {step}");
        assert_eq!(fresh.objects() as i64, named(&fresh), "after step {step}");
        change(&fresh).unwrap();
        assert!(check(&fresh), "repeated after step {step}");
        fresh.rows.sweep(Duration::ZERO).unwrap();
        assert!(check(&fresh));
        assert_eq!(fresh.objects() as i64, named(&fresh));
    }
    assert!(old > 0 && new > 0, "{old} old, {new} new");
}

/// Objects that blobs name.
fn named(fresh: &Fresh) -> i64 {
    let count = "SELECT count(DISTINCT object) FROM shard.blobs";
    fresh.rows.wait(|| fresh.rows.ask("count", count, &[])).unwrap()[0].get(0)
}

fn large(byte: u8) -> Vec<u8> {
    vec![byte; 100_000]
}

#[test]
fn a_put_that_fails_anywhere_leaves_all_old_blobs_or_all_new_ones() {
    let main = main_collection();
    let blobs = |byte: u8| {
        vec![
            (name("state.a"), large(byte)),
            (name("block.00"), vec![byte; 10]),
            (name("small"), vec![byte; 20]),
        ]
    };
    at_every_step(
        |fresh| fresh.put_blobs(&main, &blobs(1)).unwrap(),
        |fresh| fresh.put_blobs(&main, &blobs(2)),
        |fresh| {
            let bytes = blobs(0).into_iter().map(|(name, sealed)| {
                let found = fresh.blob(&main, &name).unwrap();
                assert_eq!(found.len(), sealed.len());
                assert!(found.iter().all(|byte| *byte == found[0]));
                found[0]
            });
            let bytes: Vec<u8> = bytes.collect();
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{bytes:?}");
            bytes[0] == 2
        },
    );
}

#[test]
fn a_deletion_that_fails_anywhere_leaves_the_blob_or_nothing() {
    let main = main_collection();
    at_every_step(
        |fresh| {
            let blobs = [(name("value.a"), large(1)), (name("value.b"), large(1))];
            fresh.put_blobs(&main, &blobs).unwrap();
        },
        |fresh| fresh.delete_blob(&main, &name("value.a")).map(drop),
        |fresh| {
            assert_eq!(fresh.blob(&main, &name("value.b")).unwrap(), large(1), "it is shared");
            match fresh.blob(&main, &name("value.a")) {
                Ok(bytes) => {
                    assert_eq!(bytes, large(1));
                    false
                }
                Err(error) => {
                    assert_eq!(error, StoreError::UnknownBlob(name("value.a")));
                    true
                }
            }
        },
    );
}

#[test]
fn a_sweep_that_fails_anywhere_loses_nothing_that_is_named() {
    let Some(cluster) = cluster() else { return };
    let main = main_collection();
    for step in 0.. {
        let fresh = Fresh::with_objects(cluster);
        fresh.put_blob(&main, &name("a"), &large(1)).unwrap();
        fresh.put_blob(&main, &name("a"), &large(2)).unwrap();
        fresh.put_blob(&main, &name("b"), &large(3)).unwrap();
        fresh.delete_blob(&main, &name("b")).unwrap();
        fresh.rows.steps.fail_after(step);
        let swept = fresh.rows.sweep(Duration::ZERO);
        let ended = !fresh.rows.steps.end();
        assert_eq!(swept.is_ok(), ended);
        // What a sweep was about to delete is put again, and stays.
        fresh.put_blob(&main, &name("b"), &large(1)).unwrap();
        fresh.rows.sweep(Duration::ZERO).unwrap();
        assert_eq!(fresh.blob(&main, &name("a")).unwrap(), large(2));
        assert_eq!(fresh.blob(&main, &name("b")).unwrap(), large(1));
        assert_eq!(fresh.objects(), 2);
        if ended {
            assert!(step > 2, "it had steps");
            break;
        }
    }
}

/// The object store itself fails: one call after the other, of a real directory.
#[test]
fn an_object_store_that_fails_at_any_call_leaves_old_or_new() {
    let Some(cluster) = cluster() else { return };
    let main = main_collection();
    for call in 0.. {
        let directory = tempfile::tempdir().unwrap();
        let store = object_store::local::LocalFileSystem::new_with_prefix(directory.path());
        let failing = std::sync::Arc::new(sweeping::Failing::over(store.unwrap()));
        let objects = crate::Objects::over(failing.clone(), Default::default(), "a test");
        let options = PostgresOptions {
            connections: 4,
            objects: Some(objects),
            ..PostgresOptions::default()
        };
        let rows = PostgresRows::open(&address(&cluster.database()), options).unwrap();
        rows.put_blob(&main, &name("a"), &large(1)).unwrap();
        failing.fail_after(call);
        let outcome = rows.put_blob(&main, &name("a"), &large(2));
        let struck = failing.end();
        assert_eq!(outcome.is_err(), struck, "{outcome:?}");
        assert_eq!(rows.blob(&main, &name("a")).unwrap(), large(if struck { 1 } else { 2 }));
        rows.put_blob(&main, &name("a"), &large(2)).unwrap();
        rows.sweep(Duration::ZERO).unwrap();
        assert_eq!(rows.blob(&main, &name("a")).unwrap(), large(2));
        if !struck {
            assert_eq!(call, 2, "a write and a read");
            break;
        }
    }
}
