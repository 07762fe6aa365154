//! Text in and passages out, with a small model.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::served::Served;
use crate::support::{Desk, KEY, VAULT, number, parsed, succeeded};

fn model(name: &str) -> String {
    let folder: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/fixtures").join(name);
    folder.display().to_string()
}

const TEXTS: &str = concat!(
    r#"{"id": "a", "title": "One", "text": "the mouse gene binds a protein", "year": 2019}"#,
    "\n",
    r#"{"id": "b", "title": "Two", "text": "growth of a tumor in the mouse", "year": 2021}"#,
    "\n",
    r#"{"id": "c", "text": "a factor of the cell", "year": 2023}"#,
    "\n"
);

/// A desk with a blind vault and texts in a file.
fn bare() -> Desk {
    let desk = Desk::new();
    desk.write("texts.jsonl", TEXTS);
    desk.succeeds(&["init", VAULT, "--key-file", KEY, "--protection", "blind"]);
    desk
}

fn desk() -> Desk {
    let desk = bare();
    let done = desk.ingest(&["texts.jsonl", "--encoder", &model("table")]);
    assert_eq!((number(&done, "added"), number(&done, "texts")), (3.0, 3.0));
    desk
}

fn ids(report: &Value) -> Vec<String> {
    crate::support::hits(report).into_iter().map(|hit| hit.0).collect()
}

#[test]
fn words_find_passages_at_home() {
    let desk = desk();
    for way in [&[][..], &["--direct"], &["--local"]] {
        let report = &desk.search(&[&["tumor growth"], way].concat())[0];
        assert_eq!(ids(report)[0], "b");
        assert_eq!(report["hits"][0]["text"], "growth of a tumor in the mouse");
        assert_eq!(report["hits"][0]["title"], "Two");
        assert_eq!(report["hits"][0]["fields"]["year"], 2021);
    }
    let shown = desk.succeeds(&["search", VAULT, "tumor growth", "--key-file", KEY, "-k", "1"]);
    assert!(shown.contains("      Two\n      growth of a tumor in the mouse\n"), "{shown}");
    let bare = desk.succeeds(&["search", VAULT, "tumor", "--key-file", KEY, "--no-passages"]);
    assert!(bare.contains("rank") && !bare.contains("growth of"), "{bare}");
    let report = &desk.search(&["tumor growth", "--where", "year != 2021"])[0];
    assert_eq!(ids(report).len(), 2);
    let status = desk.succeeds(&["status", VAULT, "--key-file", KEY]);
    assert!(status.contains("encoder      static sha256:") && status.contains("table"), "{status}");
    // Queries and judgements as text.
    desk.write(
        "queries.jsonl",
        "{\"_id\": \"q\", \"text\": \"tumor growth\"}\n{\"_id\": \"r\", \"text\": \"gene\"}\n",
    );
    let reports = desk.search(&["--query", "queries.jsonl", "-k", "1"]);
    assert_eq!(
        reports.iter().map(|report| report["query"].clone()).collect::<Vec<_>>(),
        ["q", "r"]
    );
    desk.write("qrels.tsv", "query-id\tcorpus-id\tscore\nq\tb\t1\nr\ta\t1\n");
    let eval =
        ["eval", VAULT, "--key-file", KEY, "--queries", "queries.jsonl", "--qrels", "qrels.tsv"];
    assert!(desk.succeeds(&eval).contains("Shard"));
}

#[test]
fn a_column_of_a_table_is_filtered_by_as_numbers_or_truths() {
    let desk = bare();
    desk.write(
        "texts.csv",
        "id,text,price,open,code\na,mouse gene,2.25,True,007\nb,tumor growth,3,False,12\nc,a cell,1.10,True,7\n",
    );
    desk.ingest(&["texts.csv", "--encoder", &model("table")]);
    for (filter, expected) in [
        ("price < 3", &["a", "c"][..]),
        ("price = 1.1", &["c"]),
        ("open = true", &["a", "c"]),
        ("code = '007'", &["a"]),
        ("code = '12'", &["b"]),
    ] {
        let mut found = ids(&desk.search(&["mouse", "--where", filter])[0]);
        found.sort();
        assert_eq!(found, expected, "{filter}");
    }
}

#[test]
fn a_folder_is_cut_into_chunks_that_come_and_go_together() {
    let desk = bare();
    fs::create_dir_all(desk.path("notes/more")).unwrap();
    let words = "mouse gene cell tumor ".repeat(20);
    desk.write("notes/long.md", format!("# A heading\n{words}"));
    desk.write("notes/more/short.txt", "the protein binds");
    desk.write("notes/picture.png", "x");
    let ingest = [
        "ingest",
        VAULT,
        "notes",
        "--key-file",
        KEY,
        "--encoder",
        &model("table"),
        "--chunk",
        "16",
        "--overlap",
        "4",
        "--json",
        "-",
    ];
    let output = desk.shard(&ingest).output().expect("shard starts");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "left out: 1 .png\n");
    let done = parsed(&String::from_utf8_lossy(&output.stdout));
    let passages = number(&done, "added");
    assert!(passages > 5.0, "{done}");
    let report = &desk.search(&["cell tumor", "-k", "100", "--where", "document = long.md"])[0];
    let found = report["hits"].as_array().unwrap();
    assert_eq!(found.len() as f64, passages - 1.0);
    assert!(found.iter().all(|hit| hit["title"] == "A heading"), "{report}");
    let whole = fs::read_to_string(desk.path("notes/long.md")).unwrap();
    for hit in found {
        let at = |name: &str| number(&hit["fields"], name) as usize;
        assert_eq!(hit["text"], whole[at("start")..at("end")]);
        assert_eq!(hit["id"], format!("long.md#{}", at("chunk")));
    }
    // Shorter: fewer chunks, in one change.
    desk.write("notes/long.md", "# A heading\nmouse gene");
    let output = desk.shard(&ingest).output().expect("shard starts");
    let done = parsed(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(number(&done, "deleted"), passages - 2.0);
    assert_eq!(number(&done, "documents"), 2.0);
    assert_eq!(number(&done, "unchanged"), 1.0);
    desk.succeeds(&["delete", VAULT, "long.md", "--key-file", KEY]);
    let report = &desk.search(&["cell"])[0];
    assert_eq!(ids(report), ["more/short.txt#0"]);
    desk.succeeds(&["verify", VAULT, "--key-file", KEY]);
}

#[test]
fn what_is_wrong_is_told_in_one_sentence_and_changes_nothing() {
    let desk = desk();
    let before = desk.snapshot(VAULT);
    let ingest = |more: &[&str], reasons: &[&str]| {
        let command = [&["ingest", VAULT, "--key-file", KEY], more].concat();
        desk.refused(&command, reasons);
    };
    ingest(
        &["texts.jsonl", "--encoder", &model("mean")],
        &["static sha256:", "bert sha256:", "--encoder"],
    );
    ingest(&["texts.jsonl", "--encoder", "nowhere"], &["nowhere is not a folder"]);
    ingest(&["texts.jsonl", "--encoder", "http://127.0.0.1:1/v1#m"], &["127.0.0.1:1"]);
    ingest(&["texts.jsonl", "--encoder", "http://127.0.0.1:1/v1"], &["names no model"]);
    ingest(&["nothing.jsonl"], &["nothing.jsonl"]);
    desk.write("binary.txt", b"a\0b");
    ingest(&["binary.txt"], &["binary.txt", "NUL"]);
    desk.write("latin.txt", b"caf\xe9");
    ingest(&["latin.txt"], &["latin.txt", "not UTF-8 at byte 3"]);
    desk.write("twice.jsonl", "{\"id\": 1, \"text\": \"a\"}\n{\"id\": 1, \"text\": \"b\"}\n");
    ingest(&["twice.jsonl"], &["line 2", "duplicate id"]);
    desk.write("nameless.jsonl", "{\"text\": \"a\"}\n");
    ingest(&["nameless.jsonl"], &["missing field `id`"]);
    // 50 MB. In chunks it takes the program of these tests more than a minute of its processor, so only smaller texts
    // are cut in these tests.
    desk.write("huge.txt", "mouse ".repeat(50_000_000_usize.div_ceil(6)));
    ingest(&["huge.txt"], &["huge.txt", "--chunk 256"]);
    desk.write(
        "later.jsonl",
        "{\"id\": 1, \"text\": \"a\"}\n{\"id\": 2, \"text\": \"b\", \"vector\": [1]}\n",
    );
    ingest(&["later.jsonl"], &["later.jsonl: line 2", "`vector`"]);
    desk.write("long.jsonl", "{\"id\": 1, \"text\": \"a\", \"serial\": 12345678901234567890123}\n");
    ingest(&["long.jsonl"], &["long.jsonl: line 1", "\"serial\"", "in quotes"]);
    ingest(&["texts.jsonl", "--records", "texts.jsonl"], &["--records goes with vectors"]);
    desk.refused(
        &["search", VAULT, "mouse", "--key-file", KEY, "--encoder", &model("mean")],
        &["static sha256:", "bert sha256:"],
    );
    assert!(desk.snapshot(VAULT) == before, "the vault changed");
    desk.succeeds(&["init", "empty", "--key-file", KEY, "--protection", "blind"]);
    desk.refused(
        &["ingest", "empty", "texts.jsonl", "--key-file", KEY],
        &["knows no encoder", "--encoder takes a folder"],
    );
    desk.succeeds(&["init", "rotated", "--key-file", KEY, "--protection", "rotated"]);
    desk.refused(
        &["ingest", "rotated", "texts.jsonl", "--key-file", KEY, "--encoder", &model("table")],
        &["rotated", "blind collections only"],
    );
}

#[test]
fn a_reader_elsewhere_searches_in_words_through_a_server() {
    let desk = desk();
    let create = ["token", "create", "data", "--scope", "read,write", "--yes", "--json", "-"];
    let token = parsed(&desk.succeeds(&create))["token"].as_str().expect("a token").to_owned();
    let server = Served::start(&desk, &["--log-level", "error"]);
    let url = format!("{}/papers", server.url);
    let pin = server.fingerprint.clone().expect("TLS");
    let run = |command: &[&str]| {
        let mut command = desk.shard(command);
        command.args(["--server", &url, "--key-file", KEY]);
        command.env("SHARD_PIN", &pin).env("SHARD_TOKEN", &token);
        command
    };
    succeeded(&run(&["publish", VAULT]).output().expect("shard starts"));
    desk.succeeds(&["export", VAULT, "reader", "--key-file", KEY, "--new-key-file", KEY]);
    let copied = desk.path("model");
    fs::create_dir(&copied).unwrap();
    for file in fs::read_dir(model("table")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copied.join(file.file_name())).unwrap();
    }
    for vault in [VAULT, "reader"] {
        let search = ["search", vault, "tumor growth", "--where", "year > 2019", "--json", "-"];
        let output = run(&search).env("SHARD_ENCODER", "model").output().expect("shard starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report = parsed(&String::from_utf8_lossy(&output.stdout))[0].clone();
        assert_eq!(ids(&report)[0], "b");
        assert_eq!(report["hits"][0]["text"], "growth of a tumor in the mouse");
        assert!(number(&report["fetch"]["bytes"], "up") > 0.0);
    }
    drop(server);
    let stopped = run(&["search", VAULT, "tumor"]).output().expect("shard starts");
    crate::support::refusal(&stopped, &["cannot"]);
}
