//! The paper's slot layout through the commands of `shard`, which `shard-lab` has with the layout
//! built in.

use crate::support::served::Served;
use crate::support::{Desk, KEY, VAULT, hits};

/// Prefix scores are what the layout tells the server beyond the usual; its keys link requests.
#[test]
fn an_explanation_names_what_slots_disclose() {
    let desk = Desk::with_small_vault();
    let search = ["search", VAULT, "--query", "query.npy", "--key-file", KEY, "--explain"];
    let more = ["session-linkage", "prefix-scores"];
    let usual = desk.succeeds(&search);
    assert!(more.iter().all(|leak| !usual.contains(leak)), "{usual}");
    let slots = desk.succeeds(&[&search[..], &["--layout", "slots"]].concat());
    assert!(more.iter().all(|leak| slots.contains(leak)), "{slots}");
}

/// Both layouts find the same, with these flags more.
fn both_layouts_agree(desk: &Desk, more: &[&str]) {
    let search = [&["--query", "query.npy", "--candidates", "40", "-k", "40"], more].concat();
    let coefficients = hits(&desk.search(&search)[0]);
    let slots = hits(&desk.search(&[&search[..], &["--layout", "slots"]].concat())[0]);
    assert_eq!((coefficients.len(), slots.len()), (40, 40));
    for ((id, score), (same, close)) in coefficients.iter().zip(&slots) {
        assert_eq!(id, same);
        assert!((score - close).abs() < 1e-4, "{id}: {score} and {close}");
    }
}

#[test]
fn both_layouts_find_the_same() {
    both_layouts_agree(&Desk::with_small_vault(), &[]);
}

#[test]
fn a_server_of_the_lab_takes_both_layouts() {
    let desk = Desk::with_small_vault();
    let server = Served::start(&desk, &["--plain", "--log-level", "error"]);
    let url = format!("{}/papers", server.url);
    desk.succeeds(&["publish", VAULT, "--key-file", KEY, "--server", &url]);
    both_layouts_agree(&desk, &["--server", &url]);
    assert_eq!(server.end(), (Some(0), String::new()));
}
