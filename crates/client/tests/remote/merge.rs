//! Two copies that both changed: what becomes of each document.

use std::collections::BTreeMap;

use shard_client::remote::Pulled;
use shard_client::{ClientError, MissingIds, delete_documents};

use crate::copies::held;
use crate::publish::assert_holds;
use crate::support::Served;
use crate::vaults::{Owner, contents};

/// Two copies of one published vault.
fn two(documents: usize) -> (std::sync::Arc<Served>, Owner, Owner) {
    let served = Served::new(None);
    let one = Owner::with_documents(documents);
    one.publish(&*served).unwrap();
    let two = one.copy(11);
    (served, one, two)
}

#[test]
fn copies_that_parted_merge() {
    let (served, mut one, mut two) = two(40);
    for id in ["new-1", "3", "5", "both-new", "21"] {
        one.put(id);
    }
    for id in ["10", "20", "22"] {
        one.delete(id);
    }
    two.put("new-2");
    two.put("4");
    two.put("both-new");
    two.put("5");
    two.delete("12");
    two.delete("20");
    two.delete("21");
    two.put("22");
    two.put("gone-again");
    two.delete("gone-again");
    one.publish(&*served).unwrap();

    let (theirs, mine) = (one.documents(), two.documents());
    let mut expected: BTreeMap<String, Vec<f32>> = theirs.clone();
    for id in ["new-2", "4", "both-new", "5", "22"] {
        expected.insert(id.into(), mine[id].clone());
    }
    for id in ["12", "21"] {
        expected.remove(id);
    }
    let (from, before) = (two.vault.head().unwrap().generation, held(&served));
    let pulled = two.pull(&*served).unwrap();
    assert_eq!(
        pulled,
        Pulled {
            from,
            to: one.vault.head().unwrap().generation + 1,
            bytes: pulled.bytes,
            put_again: 5,
            deleted_again: 2,
            // "both-new" and "5" put by both, "20" deleted by both, "21" and "22" once each.
            contested: 5,
            epoch_dropped: false,
        }
    );
    assert!(held(&served) == before, "the server is only read from");
    assert_eq!(two.documents(), expected);
    assert_eq!(two.vault.head().unwrap().parent, Some(one.vault.head().unwrap().name));

    two.publish(&*served).unwrap();
    assert_holds(&served, &two);
    let pulled = one.pull(&*served).unwrap();
    assert_eq!((pulled.put_again, pulled.deleted_again, pulled.contested), (0, 0, 0));
    assert_eq!(contents(&one.path()), contents(&two.path()));
}

/// Both did the same, or what one did was undone: nothing changes, and that is known.
#[test]
fn changes_that_are_there_already_are_repeated_in_name_only() {
    let (served, mut one, mut two) = two(40);
    one.delete("3");
    two.put("mine");
    two.delete("mine");
    two.delete("3");
    let mut old = two.copy(12);
    one.publish(&*served).unwrap();
    let pulled = two.pull(&*served).unwrap();
    assert_eq!((pulled.put_again, pulled.deleted_again, pulled.contested), (0, 0, 1));
    assert_eq!(two.documents(), one.documents());
    assert_eq!(two.vault.head().unwrap().parent, Some(one.vault.head().unwrap().name));
    // A copy that deleted it as well, before, does not delete what comes after.
    two.put("3");
    two.publish(&*served).unwrap();
    let pulled = old.pull(&*served).unwrap();
    assert_eq!((pulled.deleted_again, pulled.contested), (0, 0));
    assert_eq!(old.documents(), two.documents());
}

/// The changes of a copy are known by the commits they are from, also once they are repeated: a
/// second copy that has them from a backup does not repeat them on top of what came after.
#[test]
fn what_was_repeated_once_does_not_come_back_from_an_older_backup() {
    let (served, mut one, mut other) = two(40);
    one.put("3");
    one.delete("4");
    one.put("new");
    one.back_up(&*served).unwrap();
    other.put("7");
    other.publish(&*served).unwrap();
    let pulled = one.pull(&*served).unwrap();
    assert_eq!((pulled.put_again, pulled.deleted_again), (2, 1));
    one.put("3");
    one.put("4");
    one.delete("new");
    one.publish(&*served).unwrap();
    let mut old = one.restored(12, &served);
    let pulled = old.pull(&*served).unwrap();
    assert_eq!((pulled.put_again, pulled.deleted_again, pulled.contested), (0, 0, 0));
    assert_eq!(old.documents(), one.documents());
    // What it does itself stands, on top of its own as of the other's.
    old.put("3");
    one.put("8");
    one.publish(&*served).unwrap();
    let expected = old.documents()["3"].clone();
    let pulled = old.pull(&*served).unwrap();
    assert_eq!((pulled.put_again, pulled.contested), (1, 0));
    assert_eq!(old.documents()["3"], expected);
    assert_eq!(old.documents()["8"], one.documents()["8"]);
}

#[test]
fn copies_merge_again_and_again() {
    let (served, mut one, mut two) = two(40);
    let mut expected = one.documents();
    for round in 0..5 {
        for (name, copy) in [("one", &mut one), ("two", &mut two)] {
            let id = format!("{name}-{round}");
            copy.put(&id);
            expected.insert(id.clone(), copy.documents()[&id].clone());
        }
        one.publish(&*served).unwrap();
        two.pull(&*served).unwrap();
        // A change on top of a merge that was never published.
        let id = format!("after-{round}");
        two.put(&id);
        expected.insert(id.clone(), two.documents()[&id].clone());
        one.put("3");
        expected.insert("3".into(), one.documents()["3"].clone());
        one.publish(&*served).unwrap();
        assert_eq!(two.pull(&*served).unwrap().contested, 0);
        two.publish(&*served).unwrap();
        one.pull(&*served).unwrap();
        assert_eq!(one.documents(), expected);
        assert_eq!(two.documents(), expected);
        assert_holds(&served, &one);
    }
}

#[test]
fn an_epoch_that_only_this_copy_began_is_given_up_and_said() {
    let (served, mut one, mut two) = two(40);
    one.put("new");
    one.publish(&*served).unwrap();
    two.rekey();
    two.put("mine");
    let mine = two.documents()["mine"].clone();
    let pulled = two.pull(&*served).unwrap();
    assert!(pulled.epoch_dropped);
    assert_eq!((pulled.put_again, two.collection().epoch()), (1, one.collection().epoch()));
    let mut expected = one.documents();
    expected.insert("mine".into(), mine);
    assert_eq!(two.documents(), expected);
    two.publish(&*served).unwrap();

    // Also where nothing else changed.
    one.pull(&*served).unwrap();
    one.rekey();
    two.put("mine");
    two.publish(&*served).unwrap();
    assert!(one.pull(&*served).unwrap().epoch_dropped);
    assert_eq!(one.documents(), two.documents());
    assert_eq!(one.collection().epoch(), two.collection().epoch());
    // Begun again, it reaches the server.
    one.rekey();
    one.publish(&*served).unwrap();
    assert_holds(&served, &one);
    two.search(&served).unwrap_err();
}

/// Both began an epoch of the same number, with other keys.
#[test]
fn of_two_epochs_the_published_one_stays() {
    let (served, mut one, mut two) = two(40);
    one.rekey();
    two.rekey();
    two.put("mine");
    assert_eq!(one.collection().epoch(), two.collection().epoch());
    one.publish(&*served).unwrap();
    assert!(matches!(
        two.publish(&*served),
        Err(ClientError::Forked { .. } | ClientError::Behind { .. })
    ));
    assert!(two.pull(&*served).unwrap().epoch_dropped);
    two.publish(&*served).unwrap();
    assert_holds(&served, &two);
    one.pull(&*served).unwrap();
    assert_eq!(contents(&one.path()), contents(&two.path()));
    one.search(&served).unwrap();
}

/// The other copy's epoch is taken, and documents of this one get names and keys of it.
#[test]
fn documents_of_an_earlier_epoch_are_put_into_the_published_one() {
    let (served, mut one, mut two) = two(40);
    one.rekey();
    one.publish(&*served).unwrap();
    two.put("mine");
    two.delete("3");
    let pulled = two.pull(&*served).unwrap();
    assert_eq!((pulled.put_again, pulled.deleted_again, pulled.epoch_dropped), (1, 1, false));
    assert_eq!(two.collection().epoch(), one.collection().epoch());
    two.publish(&*served).unwrap();
    assert_holds(&served, &two);
    two.search(&served).unwrap();
}

/// Each copy deleted what the other kept.
#[test]
fn a_merge_that_would_leave_no_document_is_refused() {
    let (served, mut one, mut two) = two(20);
    let ids: Vec<String> = (0..20).map(|id| id.to_string()).collect();
    for (copy, ids) in [(&mut one, &ids[..10]), (&mut two, &ids[10..])] {
        delete_documents(&mut copy.vault, ids, MissingIds::Refuse, &mut copy.rng).unwrap();
    }
    one.publish(&*served).unwrap();
    let before = contents(&two.path());
    let error = two.pull(&*served).unwrap_err();
    assert!(matches!(error, ClientError::NothingLeft(10)), "{error}");
    assert_eq!(contents(&two.path()), before);
    two.put("one more");
    two.pull(&*served).unwrap();
    assert_eq!(two.documents().into_keys().collect::<Vec<_>>(), ["one more"]);
    two.publish(&*served).unwrap();
    two.search(&served).unwrap();
    one.pull(&*served).unwrap();
    one.put("3");
}

/// Copies of an empty vault, each with a first ingest: the models differ, and one is given up.
#[test]
fn copies_of_an_empty_vault_merge() {
    let served = Served::new(None);
    let mut one = Owner::empty(3, 24);
    one.back_up(&*served).unwrap();
    let mut two = one.restored(11, &served);
    one.add(30);
    one.delete("4");
    let ids: Vec<String> = (20..60).map(|id| id.to_string()).collect();
    two.ingest(&ids);
    two.delete("21");
    two.delete("50");
    one.publish(&*served).unwrap();
    let mut expected = one.documents();
    expected.extend(two.documents());
    expected.remove("21");
    let pulled = two.pull(&*served).unwrap();
    assert_eq!(two.documents(), expected);
    assert_eq!((pulled.put_again, pulled.deleted_again), (38, 1));
    assert_eq!(pulled.contested, 10, "20 to 29 are documents of both first ingests");
    assert!(pulled.epoch_dropped, "the first ingest of this copy had begun one");
    two.publish(&*served).unwrap();
    assert_holds(&served, &two);
    one.pull(&*served).unwrap();
    assert_eq!(one.documents(), expected);
}

/// The journal has the last 512 commits.
#[test]
fn copies_that_parted_too_long_ago_are_told_so() {
    let (served, mut one, mut two) = two(8);
    for _ in 0..513 {
        two.put("3");
    }
    one.put("4");
    one.publish(&*served).unwrap();
    let before = contents(&two.path());
    let error = two.pull(&*served).unwrap_err();
    let common = one.vault.head().unwrap().generation - 1;
    assert!(
        matches!(error, ClientError::TooFarApart { common: at, .. } if at == common),
        "{error}"
    );
    assert_eq!(contents(&two.path()), before);
    // The same the other way round: what was repeated already is not known any more.
    two.replace(&*served).unwrap();
    let (mine, before) = (one.documents(), contents(&one.path()));
    let error = one.pull(&*served).unwrap_err();
    assert!(matches!(error, ClientError::TooFarApart { .. }), "{error}");
    assert_eq!((one.documents(), contents(&one.path())), (mine, before));
    one.replace(&*served).unwrap();
    // And one commit fewer is not too many.
    let mut three = one.copy(12);
    for _ in 0..512 {
        three.put("5");
    }
    one.put("4");
    one.publish(&*served).unwrap();
    let pulled = three.pull(&*served).unwrap();
    assert_eq!((pulled.put_again, pulled.contested), (1, 0));
}
