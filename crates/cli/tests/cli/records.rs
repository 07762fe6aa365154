//! Records with the real programs: set, fetched at home and from a server, dumped.

use crate::support::served::Served;
use crate::support::{Desk, KEY, VAULT, number, parsed, random_rows, succeeded};

const ROWS: usize = 40;

/// A desk with a blind vault of documents `0`, `1`, .., some of which get records.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.npy("docs.npy", &random_rows(ROWS, 20, 3));
    desk.write("records.jsonl", records(&[0, 3, 7]));
    desk.succeeds(&["init", VAULT, "--key-file", KEY, "--protection", "blind", "--tile", "32"]);
    let done = desk.ingest(&["docs.npy", "--records", "records.jsonl"]);
    assert_eq!(number(&done, "records_set"), 3.0);
    desk
}

fn record(id: usize) -> String {
    format!("{{\"id\": {id}, \"text\": \"{}\"}}", "word ".repeat(100 * id + 1))
}

fn records(ids: &[usize]) -> String {
    ids.iter().map(|&id| record(id) + "\n").collect()
}

#[test]
fn records_are_set_fetched_and_dumped() {
    let desk = desk();
    for more in [&[][..], &["--direct"]] {
        let fetch = [&["fetch", VAULT, "7", "3", "--key-file", KEY][..], more].concat();
        let expected = format!("{}\n{}", record(7), record(3));
        assert_eq!(desk.succeeds(&fetch).trim_end(), expected);
    }
    let fetch = ["fetch", VAULT, "0", "1", "--key-file", KEY, "--json", "-"];
    let fetched = desk.shard(&fetch).output().expect("shard starts");
    assert_eq!(String::from_utf8_lossy(&fetched.stderr), "1 has no record\n");
    let report = parsed(&String::from_utf8_lossy(&fetched.stdout));
    assert_eq!(report["records"][0]["record"]["text"], "word ");
    assert!(report["records"][1]["record"].is_null());
    assert_eq!(number(&report, "slots"), 1.0);
    // Set anew, without documents.
    desk.write("more.jsonl", records(&[1, 3]));
    let set = ["ingest", VAULT, "--records", "more.jsonl", "--key-file", KEY, "--json", "-"];
    assert_eq!(number(&parsed(&desk.succeeds(&set)), "records_set"), 1.0);
    desk.succeeds(&["verify", VAULT, "--key-file", KEY]);
    let dump = ["dump", VAULT, "--key-file", KEY, "--vectors", "v.npy", "--ids", "i.txt"];
    desk.succeeds(&[&dump[..], &["--records", "r.jsonl"]].concat());
    let dumped = std::fs::read_to_string(desk.path("r.jsonl")).unwrap();
    assert_eq!(dumped, records(&[0, 1, 3, 7]));
}

#[test]
fn records_of_nobody_and_of_rotated_vaults_are_refused() {
    let desk = desk();
    desk.write("wrong.jsonl", records(&[3, 99]));
    let ingest = |file| ["ingest", VAULT, "docs.npy", "--key-file", KEY, "--records", file];
    desk.refused(&ingest("wrong.jsonl"), &["\"99\""]);
    desk.refused(&["ingest", VAULT, "--records", "wrong.jsonl", "--key-file", KEY], &["\"99\""]);
    desk.refused(&["fetch", VAULT, "99", "--key-file", KEY], &["\"99\""]);
    let nothing = desk.shard(&["ingest", VAULT, "--key-file", KEY]).output().expect("shard starts");
    assert_eq!(nothing.status.code(), Some(2), "neither documents nor records");
    desk.write("twice.jsonl", records(&[3, 3]));
    desk.refused(&ingest("twice.jsonl"), &["line 2"]);
    let rotated = Desk::with_small_vault();
    rotated.write("records.jsonl", records(&[0]));
    rotated.npy("docs.npy", &random_rows(10, 20, 3));
    rotated.refused(&ingest("records.jsonl"), &["rotated", "blind"]);
    rotated.refused(&["fetch", VAULT, "0", "--key-file", KEY], &["rotated"]);
}

#[test]
fn a_reader_fetches_from_a_server_and_follows() {
    let desk = desk();
    let create = ["token", "create", "data", "--scope", "read,write", "--yes", "--json", "-"];
    let token = parsed(&desk.succeeds(&create))["token"].as_str().expect("a token").to_owned();
    let server = Served::start(&desk, &["--log-level", "error"]);
    let run = |name: &str, vault: &str, more: &[&str]| {
        let (url, pin) = (format!("{}/papers", server.url), server.fingerprint.clone());
        let mut command = desk.shard(&[name, vault]);
        command.args(more).args(["--key-file", KEY, "--server", &url]);
        command.args(["--pin", &pin.expect("TLS")]).env("SHARD_TOKEN", &token);
        command.output().expect("shard starts")
    };
    succeeded(&run("publish", VAULT, &[]));
    desk.succeeds(&["export", VAULT, "reader", "--key-file", KEY, "--new-key-file", KEY]);
    // Hints are fetched once for a state, which is told.
    for (more, told) in [(&["7"][..], true), (&["7"], false), (&["7", "--direct"], false)] {
        let fetched = run("fetch", "reader", more);
        assert_eq!(String::from_utf8_lossy(&fetched.stderr).contains("of hints"), told);
        assert_eq!(String::from_utf8_lossy(&fetched.stdout).trim_end(), record(7));
    }
    desk.write("more.jsonl", records(&[5]));
    desk.succeeds(&["ingest", VAULT, "--records", "more.jsonl", "--key-file", KEY]);
    succeeded(&run("publish", VAULT, &[]));
    let fetched = run("fetch", "reader", &["5", "7"]);
    let note = String::from_utf8_lossy(&fetched.stderr).into_owned();
    assert!(note.contains("pulled revision"), "{note}");
    let expected = format!("{}\n{}", record(5), record(7));
    assert_eq!(String::from_utf8_lossy(&fetched.stdout).trim_end(), expected);
}
