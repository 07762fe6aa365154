//! `shard search` and `shard status` from outside: what they refuse and what they print.

use std::fs;

use serde_json::Value;

use crate::support::{Desk, KEY, VAULT, hits, number, parsed, random_rows, vectors};

#[test]
fn queries_that_cannot_be_are_refused() {
    let desk = Desk::with_small_vault();
    let search = ["search", VAULT, "--query", "bad.npy", "--key-file", KEY];
    for width in [11, 13] {
        desk.npy("bad.npy", &random_rows(1, width, 2));
        let reason = format!("width {width}");
        desk.refused_without_a_trace(&search, &[&reason, "expected 12"]);
    }
    for (value, name) in [(f32::NAN, "NaN"), (f32::INFINITY, "infinity")] {
        let mut rows = random_rows(2, 12, 2);
        rows[1][5] = value;
        desk.npy("bad.npy", &rows);
        desk.refused_without_a_trace(&search, &["bad.npy", "row 1, column 5", name]);
    }
    desk.write("bad.npy", "");
    desk.refused_without_a_trace(&search, &["bad.npy", "not a NumPy array"]);
    let none = ["search", VAULT, "--query", "none.npy", "--key-file", KEY];
    desk.refused_without_a_trace(&none, &["none.npy", "No such file"]);
}

#[test]
fn an_empty_vault_says_so() {
    let desk = Desk::new();
    desk.npy("query.npy", &random_rows(1, 12, 1));
    desk.write("qrels.txt", "0 0 1\n");
    desk.succeeds(&["init", VAULT, "--protection", "rotated", "--cells", "4", "--key-file", KEY]);
    let search = ["search", VAULT, "--query", "query.npy", "--key-file", KEY];
    desk.refused(&search, &["vault is empty", "ingest"]);
    let eval = ["eval", VAULT, "--queries", "query.npy", "--qrels", "qrels.txt", "--key-file", KEY];
    desk.refused(&eval, &["vault is empty", "ingest"]);
    let status = desk.succeeds(&["status", VAULT, "--key-file", KEY, "--json", "-"]);
    assert_eq!(number(&parsed(&status), "documents"), 0.0);
}

#[test]
fn asking_for_more_than_there_is_returns_everything_once() {
    let desk = Desk::with_small_vault();
    let most = usize::MAX.to_string();
    for (top, candidates) in [("41", "40"), ("40", "41"), (&most, &most)] {
        let found = desk.found(&["-k", top, "--candidates", candidates]);
        let mut rows: Vec<usize> = found.iter().map(|id| id.parse().unwrap()).collect();
        rows.sort_unstable();
        assert!(rows.into_iter().eq(0..40), "{found:?}");
    }
}

#[test]
fn top_and_candidates_bound_the_answer() {
    let desk = Desk::with_small_vault();
    let all = desk.found(&["-k", "40", "--candidates", "40"]);
    assert_eq!(desk.found(&["-k", "3", "--candidates", "40"]), all[..3]);
    let report = &desk.search(&["--query", "query.npy", "--candidates", "7", "-k", "40"])[0];
    assert_eq!(number(report, "candidates"), 7.0);
    assert_eq!(hits(report).len(), 7);
}

/// Cells are probed nearest first, and further ones only until the shortlist is full.
#[test]
fn probing_one_cell_touches_no_other() {
    let desk = Desk::with_small_vault();
    let probed = |flags: &[&str]| {
        let flags = [&["--query", "docs.npy", "--candidates", "4", "-k", "4"], flags].concat();
        desk.search(&flags)
    };
    let touched = |reports: &[Value]| -> Vec<f64> {
        reports.iter().map(|report| number(report, "active_cells")).collect()
    };
    let (all, one) = (probed(&[]), probed(&["--probe", "1"]));
    assert!(one.iter().all(|report| hits(report).len() == 4), "a cell held too few");
    assert!(touched(&all).iter().zip(touched(&one)).all(|(&all, one)| one <= all));
    assert!(touched(&all).iter().any(|&cells| cells > 1.0));
    let alone = touched(&one).iter().filter(|&&cells| cells == 1.0).count();
    assert!(alone * 2 > one.len(), "{alone} of {}", one.len());
    let found = |reports: &[Value]| -> Vec<Vec<String>> {
        reports.iter().map(|r| hits(r).into_iter().map(|(id, _)| id).collect()).collect()
    };
    for enough in ["4", "400"] {
        assert_eq!(found(&probed(&["--probe", enough])), found(&all));
    }
}

#[test]
fn a_flat_array_is_one_query_and_a_table_is_several() {
    let documents = random_rows(40, 12, 1);
    let desk = Desk::with_vault("4", &documents);
    let flat = vectors::bytes(&documents[..1], f32::to_le_bytes);
    desk.write("flat.npy", crate::support::npy("<f4", false, &[12], &flat));
    let flat = desk.search(&["--query", "flat.npy"]);
    assert_eq!(flat.len(), 1);
    assert_eq!(hits(&flat[0])[0].0, desk.found(&[])[0]);

    desk.npy("three.npy", &documents[10..13]);
    let reports = desk.search(&["--query", "three.npy", "--candidates", "40"]);
    let names: Vec<&str> = reports.iter().map(|report| report["query"].as_str().unwrap()).collect();
    assert_eq!(names, ["0", "1", "2"]);
    for (at, report) in reports.iter().enumerate() {
        desk.npy("query.npy", &documents[10 + at..11 + at]);
        assert_eq!(hits(report)[0].0, desk.found(&["--candidates", "40"])[0]);
    }
    let text = desk.succeeds(&["search", VAULT, "--query", "three.npy", "--key-file", KEY]);
    assert_eq!(text.lines().filter(|line| line.starts_with("query ")).count(), 3);
}

#[test]
fn baselines_are_searched_in_shards_place() {
    let documents = random_rows(200, 16, 1);
    let desk = Desk::with_vault("4", &documents);
    desk.npy("query.npy", &documents[7..8]);
    let exact = desk.hits(&["-k", "5", "--baseline", "raw"]);
    assert_eq!(exact[0].0, "7");
    let norm = vectors::dot(&documents[7], &documents[7]);
    assert!((exact[0].1 - norm).abs() < 1e-5, "{exact:?}");
    for baseline in
        ["global", "pq-only", "gaussian=1000000000", "gaussian-projection", "orthogonal-projection"]
    {
        let flags = ["--query", "query.npy", "-k", "5", "--baseline", baseline];
        let report = &desk.search(&flags)[0];
        assert_eq!((report["baseline"].as_str(), hits(report).len()), (Some(baseline), 5));
        assert!(hits(report).iter().any(|(id, _)| id == "7"), "{baseline}: {report}");
        // What a baseline is made from is the same every time.
        assert_eq!(hits(report), hits(&desk.search(&flags)[0]), "{baseline}");
    }
    let shortlist = desk.hits(&["-k", "9", "--baseline", "global", "--candidates", "3"]);
    assert_eq!(shortlist.len(), 3);
}

#[test]
fn flags_that_mean_nothing_to_a_baseline_are_refused() {
    let desk = Desk::with_small_vault();
    let search = ["search", VAULT, "--query", "query.npy", "--key-file", KEY, "--baseline"];
    let usage: [(&[&str], &[&str]); 4] = [
        (&["rot13"], &["rot13", "raw", "global", "pq-only", "gaussian-projection"]),
        (&["gaussian=-1"], &["positive"]),
        (&["global", "--explain"], &["--explain"]),
        (&["raw", "--probe", "2"], &["--probe"]),
    ];
    for (flags, words) in usage {
        let output = desk.shard(&[&search[..], flags].concat()).output().expect("shard starts");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(words.iter().all(|word| complaint.contains(word)), "{complaint}");
    }
    let ranks_all = [&search[..], &["pq-only", "--candidates", "3"]].concat();
    desk.refused(&ranks_all, &["--candidates", "pq-only"]);
    let few = Desk::with_vault("2", &random_rows(10, 12, 1));
    few.refused(&[&search[..], &["global"]].concat(), &["baseline global"]);
}

#[test]
fn a_query_of_zeros_scores_zero() {
    let desk = Desk::with_small_vault();
    desk.npy("query.npy", &[vec![0.0; 12]]);
    assert!(desk.hits(&[]).iter().all(|(_, score)| *score == 0.0));
}

/// `--json` takes the place of the text, alone on standard output; with a file the text stays.
#[test]
fn json_goes_to_standard_output_or_to_a_file() {
    let desk = Desk::with_small_vault();
    let search = ["search", VAULT, "--query", "query.npy", "--key-file", KEY, "--explain"];
    let alone = desk.succeeds(&[&search[..], &["--json", "-"]].concat());
    let text = desk.succeeds(&[&search[..], &["--json", "out.json"]].concat());
    let file = fs::read_to_string(desk.path("out.json")).unwrap();
    assert!(text.contains("rank") && serde_json::from_str::<Value>(&text).is_err());
    for json in [alone, file] {
        let report = parsed(&json);
        assert_eq!(hits(&report[0])[0].0, "0");
        for name in ["precision", "error_bound", "candidates", "active_cells", "ms"] {
            assert!(number(&report[0], name) > 0.0, "{name}");
        }
        assert!(number(&report[0]["bytes"], "up") > 0.0);
        assert!(number(&report[0]["bytes"], "down") > 0.0);
    }
    let nowhere = [&search[..], &["--json", "none/out.json"]].concat();
    let output = desk.shard(&nowhere).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).starts_with("error: cannot write none/out.json")
    );
}

#[test]
fn an_explanation_has_every_figure_of_the_report_and_names_the_leaks() {
    let desk = Desk::with_small_vault();
    let search = ["search", VAULT, "--query", "query.npy", "--key-file", KEY];
    let text = desk.succeeds(&[&search[..], &["--explain", "--json", "out.json"]].concat());
    let report = &parsed(&fs::read_to_string(desk.path("out.json")).unwrap())[0];
    let figure = |name| number(report, name);
    let kilobytes = |name| format!("{:.0} KB", number(&report["bytes"], name) / 1e3);
    let expected = [
        format!("{:.2} ms", figure("ms")),
        format!("{} in {} ciphertexts", kilobytes("up"), figure("query_ciphertexts")),
        format!("{} in {}", kilobytes("down"), figure("response_ciphertexts")),
        format!("rounded to {:.1e}", figure("precision")),
        format!("error below {:.1e}", figure("error_bound")),
        format!("{} cells", figure("active_cells")),
        format!("{} rows", figure("candidates")),
        format!("{} of {} documents are canaries", figure("canaries"), figure("candidates")),
    ];
    let phases = ["route", "rotate", "encrypt", "server", "open"].map(String::from);
    let leaks = ["active-cells", "candidate-handles", "request-shape"].map(String::from);
    for words in expected.iter().chain(&phases).chain(&leaks) {
        assert!(text.contains(words), "expected {words:?} in\n{text}");
    }
    let plain = desk.succeeds(&search);
    assert!(leaks.iter().all(|leak| !plain.contains(leak)), "{plain}");
    assert!(!text.contains("session-linkage"), "nothing was merged: {text}");
}

#[test]
fn merging_is_named_as_what_links_requests() {
    let desk = Desk::with_vault("micro", &random_rows(60, 16, 1));
    let search = ["search", VAULT, "--query", "query.npy", "--key-file", KEY, "--explain"];
    let explained = |flags: &[&str]| desk.succeeds(&[&search[..], flags].concat());
    assert!(!explained(&["--objective", "compute"]).contains("session-linkage"));
    assert!(explained(&["--objective", "bytes"]).contains("session-linkage"));
}

#[test]
fn an_id_cannot_command_the_terminal() {
    let desk = Desk::with_small_vault();
    let ids: String = (0..40).map(|row| format!("\u{1b}[2Jred{row}\u{7}\n")).collect();
    desk.write("ids.txt", &ids);
    desk.ingest(&["docs.npy", "--ids", "ids.txt"]);
    let text = desk.succeeds(&["search", VAULT, "--query", "query.npy", "--key-file", KEY]);
    assert!(text.contains("\\u{1b}[2Jred0\\u{7}"), "{text}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    assert!(desk.found(&[]).contains(&"\u{1b}[2Jred0\u{7}".to_owned()), "JSON keeps the id");
}

#[test]
fn an_id_cannot_turn_the_direction_of_the_line() {
    let desk = Desk::with_small_vault();
    let id = |row: usize| format!("\u{2066}a\u{202e}b\u{2028}{row}");
    desk.write("ids.txt", (0..40).map(|row| id(row) + "\n").collect::<String>());
    desk.ingest(&["docs.npy", "--ids", "ids.txt", "--delete-missing"]);
    desk.write("queries.jsonl", json_lines(&[("\u{200f}q", 0), ("r", 1)]));
    let text = desk.succeeds(&["search", VAULT, "--query", "queries.jsonl", "--key-file", KEY]);
    assert!(text.contains("\\u{2066}a\\u{202e}b\\u{2028}0"), "{text}");
    assert!(text.contains("query \\u{200f}q"), "{text}");
    assert!(!text.contains(|c| ('\u{200e}'..='\u{2069}').contains(&c)), "{text:?}");
    let report = &desk.search(&["--query", "queries.jsonl"])[0];
    assert_eq!((report["query"].as_str(), hits(report)[0].0.clone()), (Some("\u{200f}q"), id(0)));
}

/// Documents of a small vault as queries, under these ids.
fn json_lines(queries: &[(&str, usize)]) -> String {
    let rows = random_rows(40, 12, 1);
    let line = |&(id, row): &(&str, usize)| {
        let id = if id.is_empty() { String::new() } else { format!("\"id\": \"{id}\", ") };
        format!("{{{id}\"vector\": {:?}}}\n", rows[row])
    };
    queries.iter().map(line).collect()
}

#[test]
fn json_lines_without_ids_are_called_by_their_row() {
    let desk = Desk::with_small_vault();
    desk.write("queries.jsonl", json_lines(&[("", 4), ("named", 5), ("", 6)]));
    let reports = desk.search(&["--query", "queries.jsonl"]);
    let names: Vec<&str> = reports.iter().map(|report| report["query"].as_str().unwrap()).collect();
    assert_eq!(names, ["0", "named", "2"]);
    for (at, report) in reports.iter().enumerate() {
        assert!(hits(report).iter().any(|(id, _)| *id == (4 + at).to_string()), "{report}");
    }
    // Documents need theirs.
    desk.ingest_refused(&["queries.jsonl"], &["queries.jsonl", "line 1", "missing field `id`"]);
}

#[test]
fn a_query_comes_from_standard_input() {
    let desk = Desk::with_small_vault();
    let search = |text: &str| {
        let arguments = ["search", VAULT, "--query", "-", "--key-file", KEY, "--json", "-"];
        desk.shard(&arguments).write_stdin(text).output().unwrap()
    };
    let vector = format!("{:?}", random_rows(40, 12, 1)[0]);
    let found = desk.found(&[]);
    for (text, name) in [
        (vector.clone(), "0"),
        (format!("{{\"vector\": {vector}}}\n"), "0"),
        (format!("{{\"id\": \"mine\",\n\"vector\": {vector}}}"), "mine"),
    ] {
        let reports = parsed(&crate::support::succeeded(&search(&text)));
        assert_eq!(reports.as_array().map(Vec::len), Some(1));
        assert_eq!(reports[0]["query"], name);
        let ids: Vec<String> = hits(&reports[0]).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, found);
    }
    for (text, reasons) in [
        ("", &["standard input: there is no query", "an array of numbers"][..]),
        ("\n", &["standard input: there is no query"]),
        ("[0.5, 1]", &["width 2", "expected 12"]),
        ("[0.5, NaN]", &["standard input: line 1, column 7", "NaN is not a coordinate"]),
        ("[1e39]", &["standard input: row 0, column 0", "32-bit"]),
        ("[0.5]\n[0.5]", &["standard input: line 2, column 1", "the end after one query"]),
        ("[0.5] and so on", &["standard input: line 1", "the end after one query"]),
        ("[]", &["standard input: row 0", "no coordinates"]),
        ("{\"values\": [0.5]}", &["standard input: line 1", "missing field `vector`"]),
    ] {
        let output = search(text);
        assert_eq!(output.status.code(), Some(1), "{text:?}");
        let line = String::from_utf8(output.stderr).unwrap();
        for reason in reasons {
            assert!(line.contains(reason), "expected {reason:?} in {line:?}");
        }
    }
}

#[test]
fn status_says_what_the_vault_holds() {
    let desk = Desk::with_small_vault();
    let text = desk.succeeds(&["status", VAULT, "--key-file", KEY]);
    for words in ["40", "4 cells", "orthogonal", "12"] {
        assert!(text.contains(words), "expected {words:?} in\n{text}");
    }
    let report = parsed(&desk.succeeds(&["status", VAULT, "--key-file", KEY, "--json", "-"]));
    assert_eq!((number(&report, "documents"), number(&report, "width")), (40.0, 12.0));
    assert_eq!(report["settings"]["transform"], "orthogonal");
}
