//! `shard import` with the real program; what each reader makes of its source is tested in `crates/import`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Desk, KEY, VAULT, number, parsed, succeeded};

const CSV: &str = "id,embedding,title,year\n\
                   a,\"[1,0,0.5]\",\"First, quoted\",2001\n\
                   b,\"[0,1,0.5]\",Second,\n\
                   c,\"[0.25,0.5,-1]\",Third,2003\n";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/fixtures").join(name)
}

fn desk(protection: &[&str]) -> Desk {
    let desk = Desk::new();
    desk.write("table.csv", CSV);
    desk.succeeds(&[&["init", VAULT, "--key-file", KEY][..], protection].concat());
    desk
}

fn import<'a>(source: &[&'a str]) -> Vec<&'a str> {
    [&["import", VAULT, "--key-file", KEY][..], source].concat()
}

/// The lines of the vault's records.
fn records(desk: &Desk) -> Vec<serde_json::Value> {
    let names = ["--vectors", "out.npy", "--ids", "out.txt", "--records", "out.jsonl", "--force"];
    desk.succeeds(&[&["dump", VAULT, "--key-file", KEY][..], &names].concat());
    let lines = fs::read_to_string(desk.path("out.jsonl")).unwrap();
    lines.lines().map(parsed).collect()
}

#[test]
fn a_table_comes_over_with_its_fields() {
    let desk = desk(&["--tile", "32"]);
    let text = desk.succeeds(&import(&["pgvector", "table.csv", "--text", "title"]));
    assert!(text.contains("the source has 3 documents: 3 imported, 0 refused"), "{text}");
    assert!(
        text.contains("3 documents added, 0 replaced") && text.contains("3 records set"),
        "{text}"
    );
    let records = records(&desk);
    assert_eq!(records[0]["text"], "First, quoted");
    assert_eq!((&records[1]["id"], &records[1]["year"]), (&"b".into(), &serde_json::Value::Null));
    // The same again changes nothing.
    let again = import(&["pgvector", "table.csv", "--text", "title", "--json", "-"]);
    let again = parsed(&desk.succeeds(&again));
    assert_eq!((number(&again, "unchanged"), number(&again, "records_set")), (3.0, 0.0));
}

#[test]
fn an_import_says_when_one_document_is_much_longer_than_most() {
    let desk = desk(&["--tile", "32"]);
    desk.write("long.csv", format!("{CSV}d,\"[0,0,100]\",Long,\n"));
    let told = |table: &str| {
        let output = desk.shard(&import(&["pgvector", table])).output().expect("shard starts");
        assert!(output.status.success());
        String::from_utf8(output.stderr).expect("text")
    };
    assert_eq!(told("table.csv"), "");
    let told = told("long.csv");
    assert!(told.contains("times as long as most"), "{told}");
}

#[test]
fn what_cannot_be_taken_stops_the_import_unless_it_is_skipped() {
    let desk = desk(&["--tile", "32"]);
    desk.write(
        "bad.csv",
        format!("{CSV}d,,none,\na,\"[1,1,1]\",again,\ne,\"[0,0,0]\",zero,\nf,\"[NaN,0,1]\",nan,\n"),
    );
    let before = desk.snapshot(VAULT);
    let reasons = [
        "4 of the 7 documents",
        "no vector: d",
        "the id occurs twice; the first was taken: a",
        "zero, which has no direction: e",
        "not a finite number: f",
        "--skip-invalid",
    ];
    desk.refused(&import(&["pgvector", "bad.csv"]), &reasons);
    assert!(desk.snapshot(VAULT) == before, "the vault changed");
    let done = import(&["pgvector", "bad.csv", "--skip-invalid", "--json", "-"]);
    let done = parsed(&desk.succeeds(&done));
    assert_eq!((number(&done, "claimed"), number(&done, "imported")), (7.0, 3.0));
    assert_eq!(done["refused"].as_array().map(Vec::len), Some(4));
    assert_eq!(records(&desk).len(), 3);
}

#[test]
fn a_rotated_vault_takes_vectors_when_told_to_leave_the_rest() {
    let desk = desk(&["--protection", "rotated", "--cells", "1"]);
    let table = ["pgvector", "table.csv"];
    desk.refused(
        &import(&table),
        &["rotated and keeps no records", "3 documents", "--vectors-only"],
    );
    let done = desk.succeeds(&import(&["pgvector", "table.csv", "--vectors-only"]));
    assert!(
        done.contains("3 imported") && done.contains("metadata of 3 documents left out"),
        "{done}"
    );
}

#[test]
fn indexes_and_directories_come_over() {
    let desk = desk(&["--tile", "32"]);
    let index = fixture("faiss/idmap_ivf.faiss");
    let done = desk.succeeds(&import(&["faiss", index.to_str().unwrap()]));
    assert!(done.contains("the source has 12 documents: 12 imported, 0 refused"), "{done}");
    let quantised = fixture("faiss/refused_pq.faiss");
    desk.refused(
        &import(&["faiss", quantised.to_str().unwrap()]),
        &["vectors are not in the file"],
    );
    let folder = fixture("chroma-1.5.9");
    desk.refused(&import(&["chroma", folder.to_str().unwrap()]), &["no chroma.sqlite3"]);
    desk.refused(&import(&["pgvector", "table.csv"]), &["3", "6"]); // another dimension
}

#[test]
fn a_server_that_is_not_there_is_named_without_its_password() {
    let desk = desk(&["--tile", "32"]);
    let url = "postgres://me:hush@127.0.0.1:1/db";
    let output = desk.shard(&import(&["pgvector", url, "--table", "t"])).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("127.0.0.1/db"), "{said}");
    assert!(!said.contains("hush"), "{said}");
    desk.refused(&import(&["pgvector", url]), &["--table"]);
    desk.refused(&import(&["pgvector", "table.csv", "--table", "t"]), &["a CSV is one table"]);
    let snapshot = ["qdrant", "docs.snapshot", "--collection", "docs"];
    desk.refused(&import(&snapshot), &["scroll API"]);
    succeeded(&desk.shard(&["import", "--help"]).output().unwrap());
}
