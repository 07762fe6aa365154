//! `shard-lab bench blind` from outside.

use crate::support::{Desk, number, parsed};

#[test]
fn a_blind_collection_is_measured_and_every_forgery_is_caught() {
    let desk = Desk::new();
    let flags = ["bench", "blind", "--rows", "700", "--dim", "40", "--tile", "16", "--json", "-"];
    let report = parsed(&desk.succeeds(&[&flags[..], &["--trials", "12"]].concat()));
    for name in ["server", "client_encrypt", "client_open", "client_open_warm", "check"] {
        assert!(number(&report["cpu_ms"], name) >= 0.0, "{name} in {report}");
    }
    assert_eq!((number(&report, "tiles"), number(&report, "blocks")), (3.0, 6.0));
    assert_eq!(number(&report["bytes"], "up"), 3.0 * 2048.0 * 6.0);
    assert_eq!(number(&report["bytes"], "checks"), 0.0);
    assert!(number(&report, "max_abs_error") < 1.2e-5, "{report}");
    assert!(number(&report, "max_abs_error_top100") < 5e-6, "{report}");
    assert_eq!(number(&report, "top10_identical"), 1.0);
    let tried = number(&report, "forgeries_tried");
    assert!(tried > 200.0 && number(&report, "forgeries_caught") == tried, "{report}");
    assert!(number(&report, "plain_scan_ms") >= 0.0);
}

#[test]
fn queries_can_share_a_pass() {
    let desk = Desk::new();
    let flags = ["bench", "blind", "--rows", "300", "--dim", "8", "--batch", "8", "--json", "-"];
    let report = parsed(&desk.succeeds(&flags));
    assert_eq!((number(&report, "batch"), number(&report, "queries")), (8.0, 64.0));
    desk.refused(&["bench", "blind", "--rows", "10", "--dim", "8", "--tile", "24"], &["24"]);
}
