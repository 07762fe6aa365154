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
    // An answer has 128 numbers of three bytes for each of six blocks and two sets of six checks, and takes nothing
    // beside it; what the checks take once is as long as a vault's (`crates/client/tests/remote/blind.rs`).
    let bytes = |name| number(&report["bytes"], name);
    assert_eq!((bytes("down"), bytes("of_checks")), (18.0 * 384.0, 12.0 * 384.0));
    assert_eq!((bytes("checks"), bytes("checks_once")), (0.0, 722.0));
    // Of 9,600 normal errors one is past seven deviations once in some 10^7 runs.
    let deviation = number(&report, "expected_error");
    let of_returned = number(&report, "expected_error_top100");
    assert!(deviation < 2.5e-6 && of_returned < 1.5e-6, "{report}");
    assert!((0.9..1.1).contains(&(number(&report, "rms_error") / deviation)), "{report}");
    assert!(number(&report, "max_abs_error") < 7.0 * deviation, "{report}");
    assert!(number(&report, "max_abs_error_top100") < 7.0 * of_returned, "{report}");
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
