//! A server in a process of its own: killed, and under load.

use serde_json::Value;

use crate::support::{Desk, number, parsed};

/// What a benchmark reports.
fn reported(desk: &Desk, words: &str) -> Value {
    let words: Vec<&str> = words.split(' ').chain(["--json", "-"]).collect();
    parsed(&desk.succeeds(&words))
}

/// Ten kills; `.ci/slow` makes two hundred with many more rows.
#[test]
fn a_server_that_is_killed_keeps_what_it_acknowledged() {
    let desk = Desk::new();
    let report = reported(&desk, "bench crash --rounds 10 --rows 1000 --dim 32");
    assert_eq!(number(&report, "rounds"), 10.0);
    assert!(number(&report, "acknowledged") > 1000.0, "{report}");
    for fault in ["lost", "resurrected", "torn", "misscored", "damaged"] {
        assert_eq!(number(&report, fault), 0.0, "{report}");
    }
    for work in ["compactions", "snapshots", "epochs_activated", "restart_ms_max"] {
        assert!(number(&report, work) > 0.0, "{report}");
    }
}

#[test]
fn a_server_that_is_killed_keeps_the_blind_collection_it_acknowledged() {
    let desk = Desk::new();
    let report = reported(&desk, "bench crash --protection blind --rounds 6 --rows 300 --dim 32");
    assert_eq!(number(&report, "rounds"), 6.0);
    for fault in ["lost", "misscored", "damaged"] {
        assert_eq!(number(&report, fault), 0.0, "{report}");
    }
    for work in ["acknowledged", "searches", "compactions", "restart_ms_max"] {
        assert!(number(&report, work) > 0.0, "{report}");
    }
}

#[test]
fn a_blind_collection_withstands_the_worst_messages() {
    let desk = Desk::new();
    let report = reported(&desk, "bench hostile --protection blind --rows 500 --dim 32");
    assert_eq!((number(&report, "panics"), number(&report, "misscored")), (0.0, 0.0), "{report}");
    let answers: Vec<String> = report["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["answer"].to_string())
        .collect();
    for expected in ["above the limit of 8", "pull and ask again", "block-mib", "no such blob"] {
        assert!(answers.iter().any(|answer| answer.contains(expected)), "{expected}: {answers:?}");
    }
    assert!(answers.last().unwrap().contains("is no block of commit"), "{answers:?}");
}

#[test]
fn a_load_on_a_blind_collection_is_answered_as_exact_search_does() {
    let desk = Desk::new();
    let report = reported(
        &desk,
        "bench serve --protection blind --rows 600 --dim 32 --concurrency 4 --seconds 1 --warm-up 0",
    );
    assert_eq!((number(&report, "errors"), number(&report, "candidates")), (0.0, 600.0));
    let compared = &report["compared"];
    assert_eq!((number(compared, "different"), number(compared, "queries") > 0.0), (0.0, true));
    assert!(number(&report["cpu_ms_per_search"], "server") > 0.0, "{report}");
}

#[test]
fn a_load_is_reported_with_every_figure() {
    let desk = Desk::new();
    let report = reported(
        &desk,
        "bench serve --rows 600 --dim 32 --cells 8 --candidates 16 --concurrency 4 --seconds 1 --warm-up 0",
    );
    assert_eq!((number(&report, "concurrency"), number(&report, "errors")), (4.0, 0.0));
    for figure in ["seconds", "requests", "qps"] {
        assert!(number(&report, figure) > 0.0, "{report}");
    }
    for quantile in ["p50", "p95", "p99"] {
        assert!(number(&report["ms"], quantile) > 0.0, "{report}");
    }
    for side in ["client", "server"] {
        assert!(number(&report["cpu_seconds"], side) > 0.0, "{report}");
    }
    for moment in ["start", "peak", "end"] {
        assert!(number(&report["server_rss_bytes"], moment) > 1e6, "{report}");
    }
}
