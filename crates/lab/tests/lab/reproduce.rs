//! `shard-lab reproduce` from outside: what it reads, what it writes, and what it refuses.

use std::collections::HashSet;
use std::fs;

use serde_json::Value;

use crate::support::{Desk, parsed, random_rows};

const DOCUMENTS: usize = 120;
const QUERIES: usize = 12;

/// A data folder with one small collection of one encoder, each query with one relevant document.
fn desk() -> Desk {
    let desk = Desk::new();
    fs::create_dir_all(desk.path("data/scifact")).expect("the desk is writable");
    desk.npy("data/scifact/docs.npy", &random_rows(DOCUMENTS, 16, 1));
    desk.npy("data/scifact/queries.npy", &random_rows(QUERIES, 16, 2));
    let lines = |count: usize, line: &dyn Fn(usize) -> String| {
        (0..count).map(|at| line(at) + "\n").collect::<String>()
    };
    desk.write("data/scifact/ids.txt", lines(DOCUMENTS, &|row| format!("d{row}")));
    desk.write("data/scifact/query_ids.txt", lines(QUERIES, &|row| format!("q{row}")));
    let judgements = lines(QUERIES, &|row| format!("q{row}\td{}\t1", 7 * row));
    desk.write("data/scifact/qrels.tsv", format!("query-id\tcorpus-id\tscore\n{judgements}"));
    desk
}

fn reproduce(desk: &Desk, table: &str) -> Value {
    parsed(&desk.succeeds(&["reproduce", table, "--data", "data", "--out", "out", "--json", "-"]))
}

fn findings(report: &Value) -> &[Value] {
    report["findings"].as_array().expect("a list of figures")
}

#[test]
fn tables_are_rows_that_a_script_can_check() {
    let desk = desk();
    for table in ["utility", "sigma-rec"] {
        let report = reproduce(&desk, table);
        let written = fs::read_to_string(desk.path("out").join(table).with_extension("json"));
        assert_eq!(parsed(&written.expect("the table's file")), report);
        assert_eq!(report["sections"][0]["name"], table);
        assert!(findings(&report).len() > 5);
        let mut seen = HashSet::new();
        for finding in findings(&report) {
            assert_eq!(finding["channel"], table);
            assert!(finding["value"].is_f64(), "{finding}");
            assert_eq!(finding["rows"], DOCUMENTS);
            assert_eq!(finding["seed"], report["metadata"]["seed"]);
            let fields = ["ci95", "chance", "paper"];
            assert!(fields.iter().all(|field| finding.get(field).is_some()), "{finding}");
            let name = ["setting", "metric"].map(|field| finding[field].to_string());
            assert!(seen.insert(name), "twice: {finding}");
        }
        let metadata = &report["metadata"];
        assert_eq!(metadata["version"], env!("CARGO_PKG_VERSION"));
        let sums = metadata["sha256"].as_object().expect("checksums by file");
        let files = ["docs.npy", "ids.txt", "qrels.tsv", "queries.npy", "query_ids.txt"];
        assert_eq!(sums.len(), files.len());
        for file in files {
            let sum = sums[&format!("scifact/{file}")].as_str().expect("a checksum");
            assert_eq!(sum.len(), 64, "{sum}");
        }
    }
    let plots = fs::read_dir(desk.path("out/plots")).expect("plots were written");
    assert!(plots.count() > 0);
}

#[test]
fn claims_are_judged_by_the_tables_that_were_made() {
    let desk = desk();
    let before = reproduce(&desk, "claims");
    assert!(findings(&before).is_empty());
    let notes = before["sections"][0]["notes"].to_string();
    assert!(notes.contains("run `shard-lab reproduce utility` first"), "{notes}");
    reproduce(&desk, "utility");
    let after = reproduce(&desk, "claims");
    let hypothesis = findings(&after).iter().find(|finding| {
        finding["setting"].as_str().is_some_and(|setting| setting.ends_with("source=H2"))
    });
    assert_eq!(hypothesis.expect("the second hypothesis")["metric"], "supported");
    let text = desk.succeeds(&["reproduce", "claims", "--data", "data", "--out", "out"]);
    assert!(text.contains("H2") && text.contains("nDCG@10"), "{text}");
}

#[test]
fn what_cannot_be_made_is_said() {
    let desk = desk();
    for table in ["utility", "claims"] {
        let nowhere = ["reproduce", table, "--data", "nowhere"];
        desk.refused(&nowhere, &["nowhere", "docs.npy", "scifact"]);
    }
    desk.write("data/scifact/ids.txt", "d0\n");
    desk.refused(&["reproduce", "utility", "--data", "data"], &["ids.txt"]);
    let unknown = desk.shard(&["reproduce", "utilities", "--data", "data"]).output();
    let unknown = unknown.expect("shard starts");
    let complaint = String::from_utf8_lossy(&unknown.stderr);
    assert_eq!(unknown.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("utilities") && complaint.contains("utility"), "{complaint}");
}
