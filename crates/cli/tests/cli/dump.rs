//! `shard dump`: what was ingested comes out again, and goes into another vault.

use std::fs;

use crate::support::{Desk, KEY, VAULT, hits, number, parsed, random_rows, vectors};

const DUMP: [&str; 8] =
    ["dump", VAULT, "--key-file", KEY, "--vectors", "out.npy", "--ids", "out.txt"];

#[test]
fn a_dump_ingested_into_a_new_vault_is_the_same_collection() {
    let desk = Desk::with_small_vault();
    // Ids that a text file could lose, and vectors that were replaced, deleted and added.
    let ids: String = (0..6).map(|row| format!(" caf\u{e9} {row}\u{202e}\t\n")).collect();
    desk.write("ids.txt", ids);
    desk.npy("more.npy", &random_rows(6, 12, 9));
    desk.ingest(&["more.npy", "--ids", "ids.txt"]);
    let record = format!("{{\"id\": \"7\\r\", \"vector\": {:?}}}\n", random_rows(1, 12, 8)[0]);
    desk.write("one.jsonl", record);
    desk.ingest(&["one.jsonl"]);
    desk.succeeds(&["delete", VAULT, "3", "--key-file", KEY]);

    let text = desk.succeeds(&DUMP);
    assert!(text.contains("46 vectors of width 12 as 32-bit floats in out.npy"), "{text}");
    desk.succeeds(&["init", "copy", "--protection", "rotated", "--cells", "4", "--key-file", KEY]);
    let ingest = ["ingest", "copy", "out.npy", "--ids", "out.txt", "--key-file", KEY];
    desk.succeeds(&ingest);
    let again = ["dump", "copy", "--key-file", KEY, "--vectors", "a.npy", "--ids", "a.txt"];
    let report = parsed(&desk.succeeds(&[&again[..], &["--json", "-"]].concat()));
    assert_eq!((number(&report, "documents"), number(&report, "bits")), (46.0, 32.0));
    assert_eq!(fs::read(desk.path("a.npy")).unwrap(), fs::read(desk.path("out.npy")).unwrap());
    assert_eq!(fs::read(desk.path("a.txt")).unwrap(), fs::read(desk.path("out.txt")).unwrap());
    // The same documents with the same scores are found in both.
    let found = |vault: &str| {
        let all = ["--query", "docs.npy", "-k", "46", "--candidates", "46", "--json", "-"];
        let search = [&["search", vault, "--key-file", KEY], &all[..]].concat();
        let reports = parsed(&desk.succeeds(&search));
        let reports = reports.as_array().unwrap().clone();
        reports
            .iter()
            .map(|report| {
                let mut found = hits(report);
                found.sort_by(|a, b| a.0.cmp(&b.0));
                (found, number(report, "error_bound"))
            })
            .collect::<Vec<_>>()
    };
    for ((ours, a), (theirs, b)) in found(VAULT).iter().zip(found("copy")) {
        assert_eq!(ours.len(), 46);
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert_eq!(ours.0, theirs.0);
            assert!((ours.1 - theirs.1).abs() <= 2.0 * (a + b), "{ours:?} {theirs:?}");
        }
    }
    assert_eq!(leftovers(&desk), Vec::<String>::new());
}

/// Files under a temporary name.
fn leftovers(desk: &Desk) -> Vec<String> {
    let entries = fs::read_dir(desk.path("")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn halves_stay_halves() {
    let rows: Vec<Vec<f32>> = random_rows(20, 12, 3)
        .into_iter()
        .map(|row| row.into_iter().map(|x| half::f16::from_f32(x).to_f32()).collect())
        .collect();
    let desk = Desk::with_vault("2", &rows);
    let report = parsed(&desk.succeeds(&[&DUMP[..], &["--json", "-"]].concat()));
    assert_eq!(number(&report, "bits"), 16.0);
    let data = vectors::bytes(&rows, |x| half::f16::from_f32(x).to_le_bytes());
    let expected = crate::support::npy("<f2", false, &[20, 12], &data);
    let written = fs::read(desk.path("out.npy")).unwrap();
    assert_eq!(written.len(), expected.len());
    assert!(written.ends_with(&data));
    assert_eq!(fs::read_to_string(desk.path("out.txt")).unwrap().lines().count(), 20);
}

#[test]
fn nothing_is_overwritten_unasked_and_nothing_is_left_half_written() {
    let desk = Desk::with_small_vault();
    for taken in ["out.npy", "out.txt"] {
        desk.write(taken, "mine");
        desk.refused_without_a_trace(&DUMP, &[taken, "exists already", "--force"]);
        assert_eq!(fs::read(desk.path(taken)).unwrap(), b"mine");
        fs::remove_file(desk.path(taken)).unwrap();
        assert!(!desk.path("out.npy").exists() && !desk.path("out.txt").exists());
    }
    desk.write("out.npy", "mine");
    desk.succeeds(&[&DUMP[..], &["--force"]].concat());
    let first = fs::read(desk.path("out.npy")).unwrap();
    desk.succeeds(&[&DUMP[..], &["--force"]].concat());
    assert_eq!(fs::read(desk.path("out.npy")).unwrap(), first);
    #[cfg(unix)]
    for name in ["out.npy", "out.txt"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(desk.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name} is for its owner");
    }

    let with = |vectors: &'static str, ids: &'static str| {
        ["dump", VAULT, "--key-file", KEY, "--vectors", vectors, "--ids", ids]
    };
    desk.refused(&with("out.bin", "ids"), &["out.bin", "must end in .npy"]);
    desk.refused(&with("same.npy", "./same.npy"), &["a file each"]);
    desk.refused(&with("none/out.npy", "ids"), &["cannot write none/out.npy", "No such file"]);
    assert!(!desk.path("ids").exists());

    desk.write("two.jsonl", format!("{{\"id\": \"a\\nb\", \"vector\": {:?}}}", vec![0.5; 12]));
    desk.ingest(&["two.jsonl"]);
    desk.refused(
        &with("b.npy", "b.txt"),
        &["cannot write b.txt", "row 40", "\"a\\nb\"", "line break"],
    );
    assert!(!desk.path("b.npy").exists() && !desk.path("b.txt").exists());
    assert_eq!(leftovers(&desk), Vec::<String>::new());
}

#[test]
fn a_query_vault_and_an_empty_one_have_nothing_to_dump() {
    let desk = Desk::with_small_vault();
    desk.succeeds(&["export", VAULT, "query", "--key-file", KEY, "--new-key-file", KEY]);
    desk.succeeds(&["init", "empty", "--key-file", KEY]);
    for (vault, reason) in [("query", "query vault"), ("empty", "vault is empty")] {
        let mut dump = DUMP;
        dump[1] = vault;
        desk.refused(&dump, &[reason]);
    }
    assert!(!desk.path("out.npy").exists() && !desk.path("out.txt").exists());
}
