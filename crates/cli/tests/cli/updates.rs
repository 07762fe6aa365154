//! Live updates from outside: delete, synchronise, refit, rekey, and what status says of them.

use serde_json::Value;

use crate::support::{Desk, KEY, VAULT, number, parsed, random_rows};

/// Runs a command on the vault and returns its report.
fn report(desk: &Desk, command: &str, arguments: &[&str]) -> Value {
    let flags = ["--key-file", KEY, "--json", "-"];
    parsed(&desk.succeeds(&[&[command, VAULT], arguments, &flags].concat()))
}

fn refused(desk: &Desk, command: &str, arguments: &[&str], reasons: &[&str]) {
    let command = [&[command, VAULT, "--key-file", KEY], arguments].concat();
    desk.refused_without_a_trace(&command, reasons);
}

#[test]
fn deleted_documents_are_found_no_more() {
    let desk = Desk::with_small_vault();
    let before = desk.found(&["-k", "40", "--candidates", "40"]);
    desk.write("ids.txt", "7\n9\n");
    let done = report(&desk, "delete", &["0", "3", "--ids", "ids.txt"]);
    assert_eq!((number(&done, "deleted"), number(&done, "documents")), (4.0, 36.0));
    let mut expected = before;
    expected.retain(|id| !["0", "3", "7", "9"].contains(&id.as_str()));
    assert_eq!(desk.found(&["-k", "40", "--candidates", "40"]), expected);
    // They may come back.
    assert_eq!(number(&desk.ingest(&["docs.npy"]), "added"), 4.0);
    let text = desk.succeeds(&["delete", VAULT, "0", "--key-file", KEY]);
    assert!(text.contains("next: shard publish vault --server URL"), "{text}");
}

#[test]
fn what_a_server_may_have_kept_is_said_of_the_protection() {
    let rotated = Desk::with_small_vault();
    let blind = Desk::new();
    blind.succeeds(&["init", VAULT, "--key-file", KEY]);
    blind.npy("docs.npy", &random_rows(40, 12, 1));
    blind.ingest(&["docs.npy"]);
    for (desk, kept, other) in [
        (&blind, "docs/LEAKAGE.md says how to erase", "rotation"),
        (&rotated, "undo their rotation", "blocks"),
    ] {
        for command in [&["delete", VAULT, "3"][..], &["rekey", VAULT]] {
            let text = desk.succeeds(&[command, &["--key-file", KEY]].concat());
            assert!(text.contains(kept) && text.contains("this vault's keys"), "{text}");
            assert!(!text.contains(other) && !text.contains("shard rekey"), "{text}");
        }
    }
}

#[test]
fn ids_that_are_not_there_are_named() {
    let desk = Desk::with_small_vault();
    let reasons = ["\"40\", \"x\" are not in the vault", "nothing was deleted"];
    refused(&desk, "delete", &["3", "40", "x"], &reasons);
    let done = report(&desk, "delete", &["3", "40", "x", "--ignore-missing"]);
    assert_eq!(number(&done, "deleted"), 1.0);
    assert_eq!(done["missing"], serde_json::json!(["40", "x"]));
}

#[test]
fn the_last_document_is_not_deleted() {
    let desk = Desk::with_vault("1", &random_rows(2, 12, 1));
    refused(&desk, "delete", &["0", "1"], &["all 2 documents", "at least one"]);
}

#[test]
fn a_synchronised_vault_loses_what_is_missing_from_the_file() {
    let desk = Desk::with_small_vault();
    desk.npy("fewer.npy", &random_rows(30, 12, 2));
    let done = desk.ingest(&["fewer.npy", "--delete-missing"]);
    let counts = ["added", "replaced", "deleted", "documents"].map(|name| number(&done, name));
    assert_eq!(counts, [0.0, 30.0, 10.0, 30.0]);
}

#[test]
fn status_says_when_a_refit_is_due_and_a_refit_helps() {
    let desk = Desk::with_small_vault();
    let status = report(&desk, "status", &[]);
    assert_eq!(status["refit_due"], serde_json::json!([]));
    assert_eq!(status["drift"]["fitted"], status["drift"]["now"]);
    let text = desk.succeeds(&["status", VAULT, "--key-file", KEY]);
    assert!(text.contains("at the fit") && !text.contains("refit due"), "{text}");

    let ids: String = (0..60).map(|row| format!("new-{row}\n")).collect();
    desk.write("ids.txt", ids);
    desk.npy("more.npy", &random_rows(60, 12, 3));
    let done = desk.ingest(&["more.npy", "--ids", "ids.txt"]);
    let due = done["refit_due"].as_array().expect("a list");
    let growth = "60 of 100 documents came after the model was fitted";
    assert!(due.iter().any(|reason| reason == growth), "{due:?}");
    let text = desk.succeeds(&["status", VAULT, "--key-file", KEY]);
    assert!(text.contains(&format!("refit due: {growth}")), "{text}");
    assert!(text.contains("next: shard refit vault"), "{text}");

    let done = report(&desk, "refit", &["--sample-queries", "query.npy"]);
    assert_eq!((number(&done, "epoch"), number(&done, "documents")), (2.0, 100.0));
    let status = report(&desk, "status", &[]);
    assert_eq!(number(&status, "epoch"), 2.0);
    assert_eq!(number(&status["drift"], "since_fit"), 0.0);
    assert_eq!(status["refit_due"], serde_json::json!([]));
}

#[test]
fn a_refit_changes_the_number_of_cells() {
    let desk = Desk::with_vault("4", &random_rows(90, 12, 1));
    let cells = |flags: &[&str]| report(&desk, "refit", flags)["cells"].clone();
    assert_eq!(cells(&["--cells", "auto"]), 2);
    assert_eq!(cells(&[]), 2);
    assert_eq!(report(&desk, "status", &[])["settings"]["cells"], "auto");
    assert_eq!(cells(&["--cells", "micro"]), Value::Null);
    refused(&desk, "refit", &["--cells", "91"], &["90 rows", "91 cells", "--cells auto"]);
    let text = desk.succeeds(&["status", VAULT, "--key-file", KEY]);
    assert!(text.contains("one per document") && text.contains("measured 0 changes ago"), "{text}");
}

#[test]
fn a_rekeyed_vault_finds_the_same_under_other_names() {
    for cells in ["4", "micro"] {
        let desk = Desk::with_vault(cells, &random_rows(40, 12, 1));
        let found = desk.found(&[]);
        let done = report(&desk, "rekey", &[]);
        assert_eq!((number(&done, "epoch"), number(&done, "documents")), (2.0, 40.0));
        assert_eq!(desk.found(&[]), found);
    }
}

#[test]
fn writers_are_turned_away_while_somebody_writes() {
    let desk = Desk::with_small_vault();
    let _writer = desk.another_writer();
    let commands: [(&str, &[&str]); 6] = [
        ("ingest", &["docs.npy"]),
        ("delete", &["1"]),
        ("refit", &[]),
        ("rekey", &[]),
        ("recovery", &[]),
        ("passphrase", &["--new-key-file", "other"]),
    ];
    for (command, arguments) in commands {
        // The files are not looked at meanwhile: closing one would end this process's lock on it.
        let command = [&[command, VAULT, "--key-file", KEY], arguments].concat();
        desk.refused(&command, &[VAULT, "another process is writing"]);
    }
    assert!(!desk.path("other").exists(), "a key file that opens nothing was left");
}

#[test]
fn commands_on_an_empty_vault_say_so() {
    for protection in ["blind", "rotated"] {
        let desk = Desk::new();
        desk.succeeds(&["init", VAULT, "--protection", protection, "--key-file", KEY]);
        for command in [&["delete", VAULT, "1"][..], &["rekey", VAULT]] {
            desk.refused(&[command, &["--key-file", KEY]].concat(), &["vault is empty", "ingest"]);
        }
        let problem = if protection == "blind" { "nothing is fitted" } else { "vault is empty" };
        desk.refused(&["refit", VAULT, "--key-file", KEY], &[problem]);
    }
}
