//! A server in a process of its own: killed, and under load.

use crate::support::{Desk, number, parsed};

/// Ten kills; `.ci/slow` makes two hundred with many more rows.
#[test]
fn a_server_that_is_killed_keeps_what_it_acknowledged() {
    let desk = Desk::new();
    let report = parsed(&desk.succeeds(&[
        "bench", "crash", "--rounds", "10", "--rows", "1000", "--dim", "32", "--json", "-",
    ]));
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
fn a_load_is_reported_with_every_figure() {
    let desk = Desk::new();
    let report = parsed(&desk.succeeds(&[
        "bench",
        "serve",
        "--rows",
        "600",
        "--dim",
        "32",
        "--cells",
        "8",
        "--candidates",
        "16",
        "--concurrency",
        "4",
        "--seconds",
        "1",
        "--warm-up",
        "0",
        "--json",
        "-",
    ]));
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
