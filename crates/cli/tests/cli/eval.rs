//! `shard eval` from outside: the report's fields, figures that are known, and what it refuses.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::support::{Desk, KEY, VAULT, number, parsed, random_rows, vectors};

const SYSTEMS: [&str; 5] =
    ["raw", "centred_full", "corrected_half", "shard_plain", "shard_encrypted"];

/// A vault of 60 documents, six queries `q0` to `q5`, and for each its best and its third-best
/// document by inner product judged relevant.
fn judged() -> Desk {
    let (documents, queries) = (random_rows(60, 24, 1), random_rows(6, 24, 2));
    let desk = Desk::with_vault("4", &documents);
    desk.npy("queries.npy", &queries);
    desk.write("query_ids.txt", (0..6).map(|q| format!("q{q}\n")).collect::<String>());
    let mut qrels = String::from("query-id\tcorpus-id\tscore\n");
    for (at, query) in queries.iter().enumerate() {
        let mut order: Vec<usize> = (0..documents.len()).collect();
        let score = |row: &usize| vectors::dot(query, &documents[*row]);
        order.sort_by(|a, b| score(b).total_cmp(&score(a)));
        qrels += &format!("q{at}\t{}\t1\nq{at}\t{}\t1\n", order[0], order[2]);
    }
    desk.write("qrels.tsv", qrels);
    desk
}

const EVAL: [&str; 10] = [
    "eval",
    VAULT,
    "--key-file",
    KEY,
    "--queries",
    "queries.npy",
    "--query-ids",
    "query_ids.txt",
    "--qrels",
    "qrels.tsv",
];

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn the_report_names_every_system_and_measure() {
    let desk = judged();
    let text = desk.succeeds(&[&EVAL[..], &["--candidates", "60", "--json", "out.json"]].concat());
    assert!(text.contains("nDCG@10") && text.contains("Shard, encrypted"), "{text}");
    let report = parsed(&fs::read_to_string(desk.path("out.json")).unwrap());
    assert!(SYSTEMS.iter().all(|system| keys(&report).contains(system)), "{report}");
    let measures = BTreeSet::from(["ndcg10", "recall100", "mrr10"]);
    let beside_raw = BTreeSet::from(["ndcg10", "recall100", "mrr10", "delta_ndcg10", "ci95"]);
    for system in SYSTEMS {
        let line = &report[system];
        assert_eq!(keys(line), if system == "raw" { &measures } else { &beside_raw }.clone());
        for measure in &measures {
            assert!((0.0..=1.0).contains(&number(line, measure)), "{system} {measure}");
        }
        if system != "raw" {
            let delta = number(line, "ndcg10") - number(&report["raw"], "ndcg10");
            assert!((number(line, "delta_ndcg10") - delta).abs() < 1e-12, "{system}");
            let ends = line["ci95"].as_array().unwrap();
            let ends: Vec<f64> = ends.iter().map(|end| end.as_f64().unwrap()).collect();
            assert!(ends.len() == 2 && ends[0] <= delta && delta <= ends[1], "{system} {ends:?}");
        }
    }
}

#[test]
fn raw_and_encrypted_search_have_the_quality_the_judgements_were_made_for() {
    let report = judged().succeeds(&[&EVAL[..], &["--candidates", "60", "--json", "-"]].concat());
    let report = parsed(&report);
    // Relevant at ranks 1 and 3 of two relevant documents.
    let ndcg = (1.0 + 1.0 / 4_f64.log2()) / (1.0 + 1.0 / 3_f64.log2());
    for system in ["raw", "shard_plain", "shard_encrypted"] {
        let line = &report[system];
        assert!((number(line, "ndcg10") - ndcg).abs() < 1e-12, "{system}: {line}");
        assert_eq!((number(line, "recall100"), number(line, "mrr10")), (1.0, 1.0), "{system}");
    }
    assert_eq!(number(&report["shard_encrypted"], "delta_ndcg10"), 0.0);
    assert_eq!(number(&report, "queries"), 6.0);
    assert_eq!(number(&report, "top10_identical"), 1.0);
}

#[test]
fn baselines_are_judged_beside_shard() {
    let desk = judged();
    let baselines =
        ["raw", "global", "pq-only", "gaussian", "gaussian=262144", "orthogonal-projection"];
    let list = baselines.join(",");
    let flags = ["--baseline", &list, "--candidates", "60", "--json", "out.json"];
    let text = desk.succeeds(&[&EVAL[..], &flags].concat());
    let report = parsed(&fs::read_to_string(desk.path("out.json")).unwrap());
    assert_eq!(keys(&report["baselines"]), BTreeSet::from(baselines));
    for baseline in baselines {
        assert!(text.contains(&format!("{baseline} (baseline)")), "{text}");
        let line = &report["baselines"][baseline];
        let delta = number(line, "ndcg10") - number(&report["raw"], "ndcg10");
        assert!((number(line, "delta_ndcg10") - delta).abs() < 1e-12, "{baseline}");
        assert_eq!(line["ci95"].as_array().map(Vec::len), Some(2), "{baseline}");
    }
    let ndcg = |baseline: &str| number(&report["baselines"][baseline], "ndcg10");
    assert_eq!(ndcg("raw"), number(&report["raw"], "ndcg10"));
    // Next to no noise, but vectors longer than one are clipped.
    assert!(ndcg("gaussian=262144") > 0.8 * ndcg("raw"), "{report}");
    // Noise of eight times a unit norm leaves next to a random order of 60 documents.
    assert!(ndcg("gaussian") < 0.7 * ndcg("raw"), "{report}");
    assert!(ndcg("global") > 0.5 * ndcg("raw") && ndcg("global") < ndcg("raw"), "{report}");
    // None were asked for, none are named.
    let plain = parsed(&desk.succeeds(&[&EVAL[..], &["--json", "-"]].concat()));
    assert!(!keys(&plain).contains("baselines"));
}

#[test]
fn queries_and_judgements_that_do_not_fit_are_refused() {
    let desk = judged();
    let good: Vec<_> = ["queries.npy", "query_ids.txt", "qrels.tsv"]
        .map(|name| (name, fs::read(desk.path(name)).unwrap()))
        .into();
    let wide = vectors::singles(&random_rows(6, 25, 2));
    let cases: [(&str, &[u8], &[&str]); 9] = [
        ("queries.npy", &wide, &["width 25", "expected 24"]),
        ("queries.npy", b"", &["queries.npy", "not a NumPy array"]),
        ("query_ids.txt", b"q0\n", &["query_ids.txt", "expected 6 ids", "found 1"]),
        ("qrels.tsv", b"q0 0 many\n", &["qrels.tsv", "line 1", "\"many\""]),
        ("qrels.tsv", b"q0 0 1\nq0 \xff 1\n", &["qrels.tsv", "line 2", "not UTF-8"]),
        ("qrels.tsv", b"other 0 1\n", &["none of the 6 queries"]),
        ("qrels.tsv", b"q0 0 0\n", &["none of the 6 queries"]),
        (
            "qrels.tsv",
            b"q0 d0 1\nq0 d1 2\nq1 d1 1\nq2 5 0\nq9 7 1\n",
            &["none of the 2 documents that are judged relevant", "60 of the vault", "\"d0\""],
        ),
        // What a terminal would obey is spelt out.
        ("qrels.tsv", "q0 \u{202e}d0 1\n".as_bytes(), &["none of the 1", "\"\\u{202e}d0\""]),
    ];
    for (name, bytes, reasons) in cases {
        desk.write(name, bytes);
        desk.refused_without_a_trace(&EVAL, reasons);
        good.iter().for_each(|(name, bytes)| desk.write(name, bytes));
    }
    desk.succeeds(&EVAL);
    // One that is there is enough to measure.
    desk.write("qrels.tsv", "q0 d0 1\nq1 5 1\n");
    desk.succeeds(&EVAL);
}
