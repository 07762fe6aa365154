//! The paper's slot layout through the commands of `shard`, which `shard-lab` has with the layout
//! built in.

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

#[test]
fn both_layouts_find_the_same() {
    let desk = Desk::with_small_vault();
    let search = ["--query", "query.npy", "--candidates", "40", "-k", "40"];
    let coefficients = hits(&desk.search(&search)[0]);
    let slots = hits(&desk.search(&[&search[..], &["--layout", "slots"]].concat())[0]);
    assert_eq!(coefficients.len(), 40);
    for ((id, score), (same, close)) in coefficients.iter().zip(&slots) {
        assert_eq!(id, same);
        assert!((score - close).abs() < 1e-4, "{id}: {score} and {close}");
    }
}
