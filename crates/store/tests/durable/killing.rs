//! A process that is killed while it writes, deletes and compacts.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use shard_store::verify;

use crate::support::*;

/// Names the directory to a process that is to be killed.
const VICTIM: &str = "SHARD_STORE_TEST_VICTIM";
const ROWS: u64 = 200;
const WIDTH: usize = 16;

#[test]
fn what_a_killed_process_acknowledged_is_there_and_what_it_deleted_is_not() {
    if let Some(directory) = std::env::var_os(VICTIM) {
        write_until_killed(Path::new(&directory));
    }
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), ROWS, WIDTH));
    for round in 0..6 {
        let acknowledged = kill_after(directory.path(), 3 + 4 * round);
        assert_eq!(verify(directory.path()).unwrap().problems, Vec::<String>::new());
        let rows = open(directory.path());
        // One row may be gone, and not two.
        let revision = salt(&rows, EPOCH, 0).or_else(|| salt(&rows, EPOCH, 1)).unwrap();
        // Beyond the last acknowledged step there may be the next one, whole or without its
        // delete, or more that were acknowledged to nobody any more.
        assert!(revision >= acknowledged, "revision {acknowledged} of {revision}");
        let gone: Vec<u64> =
            (0..ROWS).filter(|&handle| !holds(&rows, EPOCH, handle, revision)).collect();
        assert!(gone.is_empty() && revision > acknowledged || gone == [revision % ROWS]);
    }
}

/// Starts a process on the directory, kills it after so many acknowledgements, and returns the
/// last one.
fn kill_after(directory: &Path, steps: usize) -> u64 {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["what_a_killed_process", "--nocapture"])
        .env(VICTIM, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let acknowledged = lines.filter_map(|line| {
        // The harness prints the test's name before the first one.
        line.unwrap().rsplit_once("step ")?.1.parse().ok()
    });
    let acknowledged: Vec<u64> = acknowledged.take(steps).collect();
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(acknowledged.len(), steps, "it was killed and did not end");
    acknowledged[steps - 1]
}

/// Every step replaces all rows and deletes one, while compactions come and go.
fn write_until_killed(directory: &Path) -> ! {
    let rows = open(directory);
    let first = salt(&rows, EPOCH, 0).or_else(|| salt(&rows, EPOCH, 1)).unwrap() + 1;
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                rows.compact().unwrap();
            }
        });
        for step in first.. {
            upsert(&rows, step, EPOCH, 0..ROWS, step, WIDTH).unwrap();
            assert_eq!(delete(&rows, step, &[step % ROWS]), 1);
            println!("step {step}");
        }
    });
    unreachable!("killed before")
}
