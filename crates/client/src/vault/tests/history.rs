//! The names of all commits, across the end of one value and the beginning of the next.

use super::*;

#[test]
fn every_commit_is_known_by_its_generation_across_three_hundred() {
    let (_parent, mut vault) = new_vault();
    let mut names = vec![CommitName([0; 16]), vault.head().unwrap().name];
    assert_eq!(vault.head().unwrap().parent, None);
    while names.len() <= 300 {
        commit(&mut vault, &[(Slot::Model, &names.len().to_le_bytes())]);
        let head = vault.head().unwrap();
        assert_eq!((head.generation, head.parent), (names.len() as u64, names.last().copied()));
        names.push(head.name);
    }
    let snapshot = reopen(&vault).unwrap().snapshot().unwrap();
    snapshot.verify().unwrap();
    assert_eq!(snapshot.whole_history().unwrap(), names);
    assert_eq!(snapshot.root().numbered(Slot::History).collect::<Vec<_>>(), [0, 1]);
    for (generation, name) in (0..).zip(&names).skip(1) {
        assert_eq!(snapshot.commit_at(generation).unwrap(), Some(*name), "{generation}");
    }
    for none in [0, 301, 512, u64::MAX] {
        assert_eq!(snapshot.commit_at(none).unwrap(), None, "{none}");
    }
    let distinct: std::collections::BTreeSet<[u8; 16]> = names.iter().map(|name| name.0).collect();
    assert_eq!(distinct.len(), names.len());
    // What another copy of the vault sends is read in the same way.
    let sealed = snapshot.sealed(Slot::History(1)).unwrap();
    let read = vault.open_history(snapshot.root(), 1, &sealed).unwrap();
    assert_eq!(read, names[Vault::HISTORY_COMMITS as usize..]);
    assert!(vault.open_history(snapshot.root(), 0, &sealed).is_err());
}
