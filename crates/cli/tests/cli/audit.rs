//! `shard audit` from outside: what it writes, what it refuses, and its exit codes.

use std::fs;

use serde_json::Value;

use crate::support::{Desk, KEY, VAULT, parsed, random_rows};

const AUDIT: [&str; 6] = ["audit", VAULT, "--key-file", KEY, "--only", "shape"];

/// A vault of 120 documents of width 16 in six cells.
fn desk() -> Desk {
    Desk::with_vault("6", &random_rows(120, 16, 1))
}

fn audit(desk: &Desk, flags: &[&str]) -> Value {
    parsed(&desk.succeeds(&[&AUDIT[..], flags, &["--json", "-"]].concat()))
}

/// The value of a metric.
fn figure(report: &Value, metric: &str) -> f64 {
    let findings = report["findings"].as_array().expect("a list of figures");
    let found = findings.iter().find(|finding| finding["metric"] == metric);
    found.and_then(|finding| finding["value"].as_f64()).unwrap_or_else(|| panic!("no {metric}"))
}

#[test]
fn the_report_is_written_as_a_page_and_as_rows() {
    let desk = desk();
    let text = desk.succeeds(&AUDIT);
    assert!(text.contains("shape") && text.contains("reduced"), "{text}");
    let page = fs::read_to_string(desk.path("audit/audit.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("What the server sees"), "{page}");
    let report = parsed(&fs::read_to_string(desk.path("audit/audit.json")).unwrap());
    assert_eq!(report["metadata"]["documents"], 120);
    assert_eq!(report["metadata"]["width"], 16);
    assert_eq!(report["metadata"]["seed"], 2026);
    assert_eq!(report["sections"][0]["name"], "shape");
    let fields =
        ["channel", "setting", "metric", "value", "ci95", "chance", "paper", "seed", "rows"];
    for finding in report["findings"].as_array().expect("a list of figures") {
        assert!(fields.iter().all(|field| finding.get(field).is_some()), "{finding}");
    }
    assert_eq!(figure(&report, "keys"), 6.0);
}

#[test]
fn the_server_has_a_row_for_every_document_and_no_other() {
    let report = audit(&desk(), &[]);
    assert_eq!(figure(&report, "stored_rows"), 120.0);
    assert_eq!(report["metadata"]["rows"], 120);
}

#[test]
fn a_sample_is_of_whole_cells_and_says_so() {
    let desk = desk();
    let report = audit(&desk, &["--sample", "60"]);
    let rows = report["metadata"]["rows"].as_u64().expect("a number");
    assert!((1..=60).contains(&rows), "{rows}");
    // What is only counted is counted over everything the server has.
    assert_eq!(figure(&report, "keys"), 6.0);
    assert_eq!(figure(&report, "stored_rows"), 120.0);
    let shared = |report: &Value| figure(report, "pairs_sharing_a_key");
    assert_eq!(shared(&report), shared(&audit(&desk, &[])));
    let notes = report["metadata"]["notes"].to_string();
    assert!(notes.contains("of 120 documents"), "{notes}");
}

#[test]
fn queries_and_texts_are_taken_along() {
    let desk = desk();
    desk.npy("queries.npy", &random_rows(5, 16, 2));
    let texts: String =
        (0..120).map(|row| format!("{{\"id\": {row}, \"text\": \"document {row}\"}}\n")).collect();
    desk.write("texts.jsonl", &texts);
    let report = audit(&desk, &["--queries", "queries.npy", "--texts", "texts.jsonl"]);
    assert_eq!(report["metadata"]["queries"], 5);
    assert_eq!(report["metadata"]["notes"], serde_json::json!([]));
    desk.write("texts.jsonl", texts.lines().next().unwrap());
    let with_texts = [&AUDIT[..], &["--texts", "texts.jsonl"]].concat();
    desk.refused(&with_texts, &["texts.jsonl", "no text for document \"1\""]);
    desk.npy("wide.npy", &random_rows(5, 17, 2));
    desk.refused(&[&AUDIT[..], &["--queries", "wide.npy"]].concat(), &["width 17"]);
}

#[test]
fn the_gate_is_an_exit_code() {
    let desk = desk();
    let run = |policy: &str| {
        desk.write("policy.toml", policy);
        let arguments = [&AUDIT[..], &["--gate", "policy.toml"]].concat();
        desk.shard(&arguments).output().expect("shard starts")
    };
    let met = run("[verdict]\nshape = \"reduced\"");
    assert_eq!(met.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&met.stdout).contains("pass"));
    let missed = run("[[rule]]\nchannel = \"shape\"\nmetric = \"keys\"\nmin = 64");
    assert_eq!(missed.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&missed.stdout).contains("FAIL"));
    assert!(String::from_utf8_lossy(&missed.stderr).contains("1 of 1 conditions"));
}

#[test]
fn a_gate_that_checks_nothing_is_refused() {
    let desk = desk();
    let gate = [&AUDIT[..], &["--gate", "policy.toml"]].concat();
    let cases = [
        ("[verdict]\nshpae = \"reduced\"", "\"shpae\""),
        ("[[rule]]\nchannel = \"shape\"\nmetric = \"kyes\"\nmax = 1", "kyes"),
        ("", "no rule"),
        ("rule", "line 1"),
    ];
    for (policy, reason) in cases {
        desk.write("policy.toml", policy);
        let output = desk.shard(&gate).output().expect("shard starts");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.contains(reason) && complaint.lines().count() == 1, "{complaint}");
    }
}

#[test]
fn vectors_of_somebody_else_are_audited_against_their_originals() {
    let desk = Desk::new();
    desk.npy("originals.npy", &random_rows(50, 12, 1));
    desk.npy("protected.npy", &random_rows(50, 8, 2));
    let foreign = ["audit", "--release", "protected.npy", "--originals", "originals.npy"];
    let flags = ["--only", "shape", "--json", "-"];
    let report = parsed(&desk.succeeds(&[&foreign[..], &flags[..]].concat()));
    assert_eq!(verdicts(&report), [], "nobody said which rows share a key");
    let labels: String = (0..50).map(|row| format!("cell {}\n", row % 2)).collect();
    desk.write("cells.txt", &labels);
    let labelled = [&foreign[..], &["--cells", "cells.txt"], &flags[..]].concat();
    assert_eq!(figure(&parsed(&desk.succeeds(&labelled)), "keys"), 2.0);
    desk.write("cells.txt", "cell 0\n");
    let labelled = [&foreign[..], &["--cells", "cells.txt"]].concat();
    desk.refused(&labelled, &["cells.txt", "50 lines", "found 1"]);
    assert_eq!(report["metadata"]["stored_width"], 8);
    assert!(report["metadata"]["notes"].to_string().contains("first 8 principal coordinates"));
    let link = ["--second", "protected.npy", "--only", "release-linkage", "--json", "-"];
    let twice = parsed(&desk.succeeds(&[&foreign[..], &link[..]].concat()));
    assert_eq!(verdicts(&twice), [("release-linkage", "open")]);
    desk.npy("protected.npy", &random_rows(49, 8, 2));
    desk.refused(&foreign, &["protected.npy", "expected 50 rows", "found 49"]);
}

/// The verdict of each channel that has one.
fn verdicts(report: &Value) -> Vec<(&str, &str)> {
    let sections = report["sections"].as_array().expect("a list of sections");
    sections
        .iter()
        .filter_map(|section| Some((section["name"].as_str()?, section["verdict"].as_str()?)))
        .collect()
}

#[test]
fn baselines_are_audited_by_every_channel_whatever_their_width() {
    const OWN: [&str; 5] = [
        "same-key-neighbours",
        "partial-alignment",
        "reference-lookup",
        "unsupervised-alignment",
        "membership",
    ];
    let desk = Desk::with_vault("6", &random_rows(260, 16, 1));
    desk.npy("queries.npy", &random_rows(5, 16, 2));
    let audit = |baseline: &str| {
        let flags = ["--queries", "queries.npy", "--baseline", baseline, "--json", "-"];
        parsed(&desk.succeeds(&[&AUDIT[..4], &flags].concat()))
    };
    let raw = audit("raw");
    for name in OWN {
        assert!(verdicts(&raw).contains(&(name, "open")), "{name}: {:?}", verdicts(&raw));
    }
    assert_eq!(raw["metadata"]["queries"], 5);
    for baseline in ["global", "pq-only", "gaussian-projection", "orthogonal-projection"] {
        let report = audit(baseline);
        let verdicts = verdicts(&report);
        for name in OWN {
            assert!(verdicts.iter().any(|(channel, _)| *channel == name), "{baseline} {name}");
        }
    }
    let printed = desk.succeeds(&[&AUDIT[..4], &["--baseline", "gaussian=512"]].concat());
    assert!(printed.contains("Gaussian noise, epsilon 512"), "{printed}");
    assert!(!printed.contains(['=', '`', '_']), "keys of programs: {printed}");
    let noise = audit("gaussian");
    for name in OWN.into_iter().filter(|&name| name != "shape") {
        assert!(!verdicts(&noise).contains(&(name, "open")), "{name}: {:?}", verdicts(&noise));
    }
}

/// A blind vault: attacks on ciphertexts read chance and say what they would have found, what the server
/// sees is listed, and what cannot be attacked has no figure.
#[test]
fn a_blind_vault_is_audited_with_limits_to_what_was_looked_for() {
    let desk = Desk::new();
    desk.npy("docs.npy", &random_rows(200, 16, 1));
    desk.npy("queries.npy", &random_rows(40, 16, 2));
    desk.succeeds(&["init", VAULT, "--key-file", KEY, "--protection", "blind", "--tile", "32"]);
    // Records of one slot and of two.
    let record = |id: usize| {
        format!("{{\"id\": {id}, \"text\": \"{}\"}}\n", "word ".repeat(300 * (id % 2) + 1))
    };
    desk.write("records.jsonl", (0..200).map(record).collect::<String>());
    desk.ingest(&["docs.npy", "--records", "records.jsonl"]);
    let blind = ["audit", VAULT, "--key-file", KEY, "--queries", "queries.npy"];
    let report = parsed(&desk.succeeds(&[&blind[..], &["--json", "-"]].concat()));
    let closed = [
        "partial-alignment",
        "reference-lookup",
        "unsupervised-alignment",
        "release-linkage",
        "release-churn",
        "request-leakage",
        "membership",
        "ciphertext-noise",
    ];
    let verdicts: Vec<(&str, &str)> =
        verdicts(&report).into_iter().filter(|(name, _)| *name != "global-procrustes").collect();
    assert!(verdicts.iter().all(|(_, verdict)| *verdict == "closed"), "{verdicts:?}");
    for name in closed {
        assert!(verdicts.contains(&(name, "closed")), "{name}: {verdicts:?}");
        let findings = report["findings"].as_array().expect("a list of figures");
        let limit =
            findings.iter().find(|f| f["channel"] == name && f["metric"] == "detected_from");
        assert!(limit.is_some_and(|limit| limit["value"].as_f64() <= Some(1.0)), "{name}");
    }
    // 200 rows in blocks of 64 places.
    assert_eq!((figure(&report, "blocks"), figure(&report, "places_in_a_block")), (4.0, 64.0));
    assert_eq!(figure(&report, "requests_recorded"), 1000.0);
    assert_eq!(
        (figure(&report, "sizes_of_requests"), figure(&report, "sizes_of_answers")),
        (1.0, 1.0)
    );
    // 300 slots, 32 to a page.
    assert_eq!(
        (figure(&report, "pages_of_records"), figure(&report, "slots_of_records")),
        (10.0, 320.0)
    );
    assert!(figure(&report, "stored_bytes") > 320.0 * 1024.0);
    assert_eq!(figure(&report, "fetches_recorded"), 50.0);
    assert_eq!(
        (figure(&report, "numbers_of_slots_fetched"), figure(&report, "sizes_of_fetches")),
        (2.0, 2.0)
    );
    for section in report["sections"].as_array().expect("a list of sections") {
        let seen = ["collection-size", "block-changes", "request-shape"];
        assert_eq!(section["seen"], seen.iter().any(|name| section["name"] == **name));
        if ["shape", "prefix", "structured-keys"].iter().any(|name| section["name"] == **name) {
            assert!(
                section["headline"].is_null()
                    && section["notes"][0].as_str().is_some_and(
                        |note| note.starts_with("Not measured: a blind collection has no")
                    ),
                "{section}"
            );
        }
    }
    let only = ["--only", "request-shape,ciphertext-noise", "--out", "seen"];
    let text = desk.succeeds(&[&blind[..], &only].concat());
    for words in ["what the server sees without an attack", "seen", "detects from"] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    let page = fs::read_to_string(desk.path("seen/audit.html")).unwrap();
    assert!(page.contains("What the server sees without an attack"));
    // Another way to protect the same vectors is audited as ever.
    let raw = ["--baseline", "raw", "--only", "membership", "--json", "-"];
    let raw = parsed(&desk.succeeds(&[&blind[..], &raw].concat()));
    assert_eq!(self::verdicts(&raw), [("membership", "open")]);
    desk.npy("wide.npy", &random_rows(5, 17, 2));
    desk.refused(&["audit", VAULT, "--key-file", KEY, "--queries", "wide.npy"], &["width 17"]);
}

#[test]
fn channels_of_blind_collections_are_left_out_of_other_reports() {
    let desk = desk();
    let report =
        parsed(&desk.succeeds(
            &[&AUDIT[..4], &["--only", "shape,ciphertext-noise", "--json", "-"]].concat(),
        ));
    assert_eq!(report["sections"].as_array().map(Vec::len), Some(1));
    let alone = [&AUDIT[..4], &["--only", "ciphertext-noise", "--json", "-"]].concat();
    let alone = parsed(&desk.succeeds(&alone));
    assert!(alone["sections"][0]["notes"].to_string().contains("blind collections"), "{alone}");
}

#[test]
fn wrong_usage_is_told_before_anything_is_opened() {
    let desk = Desk::new();
    let cases: [(&[&str], &str); 4] = [
        (&["audit", VAULT, "--baseline", "rot13"], "pq-only"),
        (&["audit"], "VAULT"),
        (&["audit", VAULT, "--only", "shapes"], "shapes"),
        (&["audit", "--release", "protected.npy"], "--originals"),
    ];
    for (arguments, mistake) in cases {
        let output = desk.shard(arguments).output().expect("shard starts");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(mistake), "{complaint}");
    }
}
