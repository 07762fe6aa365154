//! `shard demo` from outside, once, with all of the shipped data.

use std::fs;

use crate::support::{Desk, number, parsed};

#[test]
fn demo_keeps_what_the_project_promises() {
    let desk = Desk::new();
    let text = desk.succeeds(&["demo", "--json", "demo.json"]);
    let report = parsed(&fs::read_to_string(desk.path("demo.json")).unwrap());

    assert_eq!(number(&report, "queries"), 300.0);
    let [raw, plain, encrypted] =
        ["raw", "plain", "encrypted"].map(|system| number(&report["ndcg10"], system));
    assert!((raw - 0.645).abs() <= 0.0005, "raw nDCG@10 {raw}");
    assert!((encrypted - raw).abs() <= 0.001, "encrypted nDCG@10 {encrypted} against {raw}");
    assert!((plain - raw).abs() <= 0.001, "plain nDCG@10 {plain} against {raw}");
    assert_eq!(number(&report, "top10_identical"), 1.0);
    let error = number(&report, "max_abs_error");
    assert!(error > 0.0 && error < 5e-6, "worst score error {error}");
    // Means over the queries.
    let [up, down] = ["up", "down"].map(|way| number(&report["bytes"], way));
    assert!(up > 0.0 && down > 0.0 && up + down <= 700_000.0, "{up} bytes up, {down} down");
    // How long it takes is the machine's affair; that it is said is ours.
    assert!(number(&report["ms"], "p50") <= number(&report["ms"], "p95"));

    // The first act: blind.
    let blind = &report["blind"];
    let [raw, found] = ["raw", "blind"].map(|system| number(&blind["ndcg10"], system));
    assert!((raw - found).abs() <= 0.0005, "blind nDCG@10 {found} against {raw}");
    assert_eq!(number(blind, "top10_identical"), 1.0);
    let error = number(blind, "max_abs_error");
    assert!(error > 0.0 && error < 5e-6, "worst blind score error {error}");
    let [up, down] = ["up", "down"].map(|way| number(&blind["bytes"], way));
    assert!(up + down <= 320_000.0, "blind: {up} bytes up, {down} down");
    assert_eq!(blind["lie_caught"], true);

    let leaks = [
        "stored-rows",
        "cell-membership",
        "collection-shape",
        "active-cells",
        "candidate-handles",
        "request-shape",
        "block-changes",
    ];
    let sections =
        ["5,183", "300 of 300", "What a search costs", "What the server saw", "A server that lies"];
    for words in leaks.iter().chain(&sections) {
        assert!(text.contains(words), "expected {words:?} in\n{text}");
    }
}
