//! `shard-lab bench` from outside: what the reports hold, never how long anything took.

use serde_json::Value;

use crate::support::{Desk, number, parsed, random_rows};

/// A desk with 60 documents of width 16 and five queries.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.npy("docs.npy", &random_rows(60, 16, 1));
    desk.npy("queries.npy", &random_rows(5, 16, 2));
    desk
}

fn rerank(desk: &Desk, flags: &[&str]) -> Value {
    let fixed = [
        "bench",
        "rerank",
        "--docs",
        "docs.npy",
        "--queries",
        "queries.npy",
        "--candidates",
        "20",
        "--json",
        "-",
    ];
    parsed(&desk.succeeds(&[&fixed[..], flags].concat()))
}

/// Every field of a report on reranking, with its type.
fn check_report(report: &Value) {
    for name in ["ring_degree", "active_cells", "query_ciphertexts", "response_ciphertexts"] {
        assert!(report[name].as_u64().is_some_and(|count| count > 0), "{name} in {report}");
    }
    for name in ["cells_per_ciphertext", "tiles", "trials"] {
        assert!(report[name].as_u64().is_some_and(|count| count > 0), "{name} in {report}");
    }
    assert!(report["merge"].is_boolean());
    assert!(number(report, "log2_q") > 40.0);
    for way in ["up", "down", "once"] {
        assert!(report["bytes"][way].is_u64(), "{way} in {report}");
    }
    for clock in ["cpu_ms", "wall_ms"] {
        for phase in ["client_out", "server", "client_in", "total", "route"] {
            let times = &report[clock][phase];
            let (median, late) = (number(times, "p50"), number(times, "p95"));
            assert!(median >= 0.0 && late >= median, "{clock} {phase} in {report}");
        }
    }
    let error = number(report, "max_abs_error");
    assert!(error > 0.0 && error < 1e-4, "{report}");
    assert_eq!(report["top1_flips"], 0);
    assert_eq!(number(report, "top10_overlap"), 1.0);
    assert!(number(report, "kendall_tau") > 0.9);
    if cfg!(target_os = "linux") {
        assert!(number(report, "peak_memory_bytes") > 1e6);
    }
}

#[test]
fn reranking_reports_every_figure_in_both_layouts() {
    let desk = desk();
    let coefficients = rerank(&desk, &["--cells", "4", "--trials", "6"]);
    check_report(&coefficients);
    assert_eq!(coefficients["layout"], "coefficients");
    assert_eq!((&coefficients["merge"], &coefficients["trials"]), (&false.into(), &6.into()));
    assert_eq!(coefficients["bytes"]["once"], 0);

    let slots = rerank(
        &desk,
        &[
            "--cells", "4", "--trials", "1", "--layout", "slots", "--width", "2", "--chain",
            "60,40,60",
        ],
    );
    check_report(&slots);
    assert_eq!((&slots["layout"], &slots["ring_degree"]), (&"slots".into(), &8192.into()));
    assert_eq!(slots["response_ciphertexts"], 20);
    let cells = number(&slots, "active_cells");
    assert_eq!(number(&slots, "query_ciphertexts"), (cells / 2.0).ceil());
}

#[test]
fn merging_sends_keys_once_and_one_response() {
    let report = rerank(&desk(), &["--cells", "micro", "--objective", "bytes", "--trials", "3"]);
    check_report(&report);
    assert_eq!(report["merge"], true);
    assert_eq!(report["response_ciphertexts"], 1);
    assert!(number(&report["bytes"], "once") > 1e4);
}

#[test]
fn synthetic_vectors_and_candidates_are_left_for_another_program() {
    let desk = Desk::new();
    let flags = [
        "bench",
        "rerank",
        "--dim",
        "12",
        "--rows",
        "80",
        "--cells",
        "3",
        "--candidates",
        "80",
        "--trials",
        "2",
        "--dump",
        "dump",
        "--json",
        "-",
    ];
    let report = parsed(&desk.succeeds(&flags));
    check_report(&report);
    assert_eq!(report["workload"]["d_pub"], 3);
    let left = parsed(&std::fs::read_to_string(desk.path("dump/candidates.json")).unwrap());
    let trials = left["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    assert!(trials.iter().all(|trial| {
        trial["rows"].as_array().unwrap().len() == 80
            && trial["cells"].as_array().unwrap().len() == 80
            && trial["query"].is_u64()
    }));
    // What was left can be measured again, with the same outcome.
    let flags = [
        "bench",
        "rerank",
        "--docs",
        "dump/docs.npy",
        "--queries",
        "dump/queries.npy",
        "--cells",
        "3",
        "--candidates",
        "80",
        "--trials",
        "2",
        "--dump",
        "again",
        "--json",
        "-",
    ];
    parsed(&desk.succeeds(&flags));
    let again = parsed(&std::fs::read_to_string(desk.path("again/candidates.json")).unwrap());
    assert_eq!(left, again);
}

#[test]
fn the_engine_names_the_cost_of_every_operation() {
    let desk = Desk::new();
    let flags = ["bench", "engine", "--degrees", "2048", "--repeats", "2", "--json", "-"];
    let report = parsed(&desk.succeeds(&flags));
    let degrees = report["degrees"].as_array().unwrap();
    assert_eq!((degrees.len(), &degrees[0]["ring_degree"]), (1, &2048.into()));
    for name in ["key", "encrypt", "prepare", "product", "respond", "merge", "open", "score"] {
        assert!(degrees[0]["seconds"][name].is_f64(), "{name} in {report}");
    }
    assert!(number(&report, "planning_seconds") > 0.0);
}

#[test]
fn plans_are_measured_and_the_pick_is_among_them() {
    let desk = Desk::new();
    let flags = [
        "bench",
        "plans",
        "--widths",
        "24",
        "--candidates",
        "8",
        "--cells",
        "2",
        "--repeats",
        "1",
        "--json",
        "-",
    ];
    let report = parsed(&desk.succeeds(&flags));
    let points = report["points"].as_array().unwrap();
    let cells: Vec<_> = points.iter().map(|point| number(point, "cells")).collect();
    assert_eq!(cells, [2.0, 8.0]);
    for point in points {
        let plans = point["plans"].as_array().unwrap();
        let columns = report["columns"].as_array().unwrap().len();
        assert!(plans.iter().all(|plan| plan.as_array().unwrap().len() == columns));
        let picks = point["picks"].as_array().unwrap();
        assert_eq!(picks.len(), 3);
        for pick in picks {
            assert!((pick["picked"].as_u64().unwrap() as usize) < plans.len());
            assert!((pick["best"].as_u64().unwrap() as usize) < plans.len());
            assert!(number(pick, "ratio") >= 1.0);
        }
    }
}

#[test]
fn parameter_sets_are_measured_or_refused_for_their_security() {
    let desk = Desk::new();
    let flags = [
        "bench",
        "parameters",
        "--width",
        "12",
        "--candidates",
        "6",
        "--cells",
        "2",
        "--repeats",
        "1",
        "--json",
        "-",
    ];
    let report = parsed(&desk.succeeds(&flags));
    let sets = report["sets"].as_array().unwrap();
    for layout in ["coefficients", "slots"] {
        let of_layout = || sets.iter().filter(|set| set["layout"] == layout);
        assert!(of_layout().any(|set| set["pareto"] == true));
        for set in of_layout() {
            let insecure = number(set, "log2_q") > number(set, "ceiling");
            assert_eq!(set["refused"].is_string(), insecure, "{set}");
            assert_eq!(set["max_abs_error"].is_f64(), !insecure, "{set}");
        }
        assert!(of_layout().any(|set| set["refused"].is_string()));
    }
}

#[test]
fn the_bench_of_the_store_reports_every_figure() {
    let desk = Desk::new();
    let report = parsed(&desk.succeeds(&[
        "bench",
        "store",
        "--rows",
        "300",
        "--width",
        "8",
        "--cells",
        "5",
        "--batch",
        "100",
        "--candidates",
        "12",
        "--active",
        "3",
        "--trials",
        "4",
        "--directory",
        ".",
        "--json",
        "-",
    ]));
    for figure in ["rows_per_second", "file_bytes", "open_after_kill_ms", "compacted_bytes"] {
        assert!(number(&report, figure) > 0.0, "{report}");
    }
    assert_eq!((number(&report, "rows"), number(&report, "deleted")), (300.0, 100.0));
    assert!(number(&report["warm_fetch_ms"], "p50") <= number(&report["warm_fetch_ms"], "p99"));
    desk.refused(&["bench", "store", "--rows", "3"], &["more cells than rows"]);
}

#[test]
fn impossible_workloads_are_refused() {
    let desk = desk();
    let vectors = ["bench", "rerank", "--docs", "docs.npy", "--queries", "queries.npy"];
    let refused = |flags: &[&str], reason: &str| {
        desk.refused(&[&vectors[..], flags].concat(), &[reason]);
    };
    refused(&["--candidates", "61", "--cells", "4"], "61 candidates of 60 documents");
    refused(&["--candidates", "10", "--cells", "61"], "61 cells of 60 documents");
    desk.npy("narrow.npy", &random_rows(2, 8, 3));
    let odd = ["bench", "rerank", "--docs", "docs.npy", "--queries", "narrow.npy"];
    desk.refused(&odd, &["documents have 16 coordinates and queries 8"]);
    refused(
        &["--layout", "slots", "--width", "5000", "--cells", "4", "--candidates", "10"],
        "slots",
    );
}
