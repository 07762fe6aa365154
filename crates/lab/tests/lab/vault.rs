//! `shard-lab bench vault` from outside.

use serde_json::Value;

use crate::support::{Desk, number, parsed, random_rows};

/// On the disk of the build: a temporary directory may be in memory, where no byte is written.
const DISK: &str = env!("CARGO_TARGET_TMPDIR");

fn measured(desk: &Desk, flags: &[&str]) -> Value {
    let fixed = ["bench", "vault", "--directory", DISK, "--json", "-"];
    parsed(&desk.succeeds(&[&fixed[..], flags].concat()))
}

/// Every figure, and what is true of them on any machine.
fn check_report(report: &Value) {
    for name in ["ingest_s", "verify_s", "open_ms", "search_process_ms"] {
        assert!(number(report, name) > 0.0, "{name} in {report}");
    }
    // Beyond opening: a disturbed machine may open more slowly than it adds.
    for name in ["add_one_ms", "delete_one_ms", "again_ms"] {
        assert!(number(report, name).is_finite(), "{name} in {report}");
    }
    assert!(number(report, "ingest_rss") > 1e6, "{report}");
    assert!(number(report, "vault_bytes") > number(report, "vectors_bytes"), "{report}");
    for change in ["add_one_bytes", "delete_one_bytes"] {
        let written = number(report, change);
        assert!(written > 0.0 && written <= 2e6, "{change} in {report}");
    }
    assert_eq!(number(report, "again_bytes"), 0.0, "{report}");
}

#[test]
fn a_vault_of_synthetic_documents_is_measured() {
    let desk = Desk::new();
    let report = measured(&desk, &["--rows", "600", "--width", "32"]);
    check_report(&report);
    assert_eq!((number(&report, "rows"), number(&report, "width")), (600.0, 32.0));
    // Halves behind the header of the array.
    assert_eq!(number(&report, "vectors_bytes"), 128.0 + 600.0 * 32.0 * 2.0);
}

#[test]
fn a_vault_of_documents_at_hand_is_measured() {
    let desk = Desk::new();
    desk.npy("docs.npy", &random_rows(300, 16, 1));
    let report = measured(&desk, &["--documents", "docs.npy"]);
    check_report(&report);
    assert_eq!((number(&report, "rows"), number(&report, "width")), (300.0, 16.0));
}

#[test]
fn too_few_documents_are_refused() {
    let desk = Desk::new();
    desk.refused(&["bench", "vault", "--rows", "5", "--width", "8"], &["5 documents are too few"]);
}
