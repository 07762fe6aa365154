//! Bringing a copy forward: to the very state that is published, or not at all.

use std::ops::ControlFlow;

use shard_client::remote::{BackupError, Pulled, describe, pull};
use shard_client::{ClientError, UNWATCHED, verify_vault};
use shard_protocol::{BlobName, CollectionName};

use crate::copies::{blobs, held};
use crate::publish::assert_holds;
use crate::support::{CutOff, Served};
use crate::vaults::{Owner, contents};

/// A server with a published state, its owner, and a copy from before.
fn behind() -> (std::sync::Arc<Served>, Owner, Owner) {
    let served = Served::new(None);
    let mut owner = Owner::with_documents(40);
    owner.publish(&*served).unwrap();
    let copy = owner.copy(11);
    owner.add(3);
    owner.put("7");
    owner.delete("9");
    owner.publish(&*served).unwrap();
    (served, owner, copy)
}

#[test]
fn a_copy_that_is_merely_behind_ends_at_the_very_same_commit() {
    let (served, owner, mut copy) = behind();
    let before = held(&served);
    let (from, to) = (copy.vault.head().unwrap().generation, owner.vault.head().unwrap());
    let pulled = copy.pull(&*served).unwrap();
    assert!(pulled.bytes > 0);
    let expected = Pulled { from, to: to.generation, bytes: pulled.bytes, ..Pulled::default() };
    assert_eq!(pulled, expected);
    assert_eq!(copy.vault.head().unwrap(), to);
    assert_eq!(contents(&copy.path()), contents(&owner.path()), "root and values, byte by byte");
    assert_eq!(copy.documents(), owner.documents());
    assert!(held(&served) == before, "the server is only read from");
    copy.search(&served).unwrap();
    // From there it goes on as the first could.
    copy.put("new");
    copy.publish(&*served).unwrap();
    assert_holds(&served, &copy);
}

#[test]
fn only_values_that_are_not_here_are_fetched() {
    let (served, mut owner, mut copy) = behind();
    copy.pull(&*served).unwrap();
    owner.put("7");
    owner.publish(&*served).unwrap();
    let (old, new) = (contents(&copy.path()).2, contents(&owner.path()).2);
    let changed = new.iter().filter(|(id, value)| old.get(id) != Some(value));
    let bytes: usize = changed.map(|(_, value)| value.len()).sum();
    let pulled = copy.pull(&*served).unwrap();
    // The history is fetched to find where the two parted, and again as a value.
    assert!(pulled.bytes >= bytes as u64 && pulled.bytes < bytes as u64 + 1000, "{pulled:?}");
}

#[test]
fn nothing_to_pull_says_so() {
    let (served, mut owner, mut copy) = behind();
    copy.pull(&*served).unwrap();
    let generation = owner.vault.head().unwrap().generation;
    let nothing = Pulled { from: generation, to: generation, ..Pulled::default() };
    for owner in [&mut owner, &mut copy] {
        let before = contents(&owner.path());
        assert_eq!(owner.pull(&*served).unwrap(), nothing);
        assert_eq!(contents(&owner.path()), before);
    }
    // Nor where this copy has gone on from what is published.
    owner.put("new");
    let generation = generation + 1;
    let before = contents(&owner.path());
    let ahead = Pulled { from: generation, to: generation, ..Pulled::default() };
    assert_eq!(owner.pull(&*served).unwrap(), ahead);
    assert_eq!(contents(&owner.path()), before);

    let error = owner.pull(&*Served::new(None)).unwrap_err();
    assert!(matches!(error, ClientError::NothingPublished), "{error}");
}

#[test]
fn the_collection_of_another_vault_is_refused() {
    let (served, _, _) = behind();
    let mut other = Owner::seeded(9, 30, 24);
    let before = contents(&other.path());
    let error = other.pull(&*served).unwrap_err();
    assert!(matches!(error, ClientError::NotThisVault), "{error}");
    // Nor does it help the server to give it the other vault's name.
    let main = CollectionName::default();
    let mine = Served::new(None);
    other.publish(&*mine).unwrap();
    let name = "claim".parse().unwrap();
    let identity = mine.rows().blob(&main, &name).unwrap();
    served.rows().put_blob(&main, &name, &identity).unwrap();
    let error = other.pull(&*served).unwrap_err();
    assert!(matches!(error, ClientError::NoPublishedState), "{error}");
    assert_eq!(contents(&other.path()), before);
}

#[test]
fn a_pull_that_is_cut_off_anywhere_leaves_the_old_state() {
    let (served, mut owner, copy) = behind();
    owner.rekey();
    owner.publish(&*served).unwrap();
    for parted in [false, true] {
        let mut copy = copy.copy(12);
        if parted {
            copy.put("mine");
            copy.delete("3");
        }
        let before = contents(&copy.path());
        for cut in 0.. {
            if copy.pull(&CutOff::anywhere(cut, &served)).is_ok() {
                assert!(cut > 5, "state, root and values had to be fetched");
                break;
            }
            assert_eq!(contents(&copy.path()), before);
            verify_vault(&copy.vault, UNWATCHED).unwrap();
        }
        let mut expected = owner.documents();
        if parted {
            expected.insert("mine".into(), copy.documents()["mine"].clone());
            expected.remove("3");
        }
        assert_eq!(copy.documents(), expected);
    }
}

#[test]
fn a_pull_can_be_stopped_at_any_value() {
    let (served, owner, mut copy) = behind();
    let before = contents(&copy.path());
    for most in 0.. {
        let told = std::sync::atomic::AtomicUsize::new(0);
        let stop = |_| {
            let before = told.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if before == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match pull(&mut copy.vault, &*served, &stop, &mut copy.rng) {
            Ok(_) => break,
            Err(error) => assert!(matches!(error, ClientError::Cancelled), "{error}"),
        }
        assert_eq!(contents(&copy.path()), before);
    }
    assert_eq!(copy.documents(), owner.documents());
}

/// Every blob in turn is withheld, shortened, altered, or another one in its place.
#[test]
fn a_server_that_gives_something_else_than_was_published_changes_nothing() {
    let (served, owner, copy) = behind();
    let mut forked = copy.copy(12);
    forked.put("mine");
    let main = CollectionName::default();
    let names: Vec<BlobName> = blobs(&served).into_iter().map(|(name, _)| name).collect();
    for mut copy in [copy, forked] {
        let before = contents(&copy.path());
        let mut refused = 0;
        for name in names.iter().filter(|name| name.as_str() != "claim") {
            let sound = served.rows().blob(&main, name).unwrap();
            let at = sound.len() / 2;
            let altered = |at: usize| {
                let mut changed = sound.clone();
                changed[at] ^= 1;
                changed
            };
            let others = [altered(0), altered(at), altered(sound.len() - 1), sound[..at].to_vec()];
            for other in others {
                served.rows().put_blob(&main, name, &other).unwrap();
                // A value that both copies share is not asked for.
                let Err(error) = copy.copy(13).pull(&*served) else { continue };
                refused += 1;
                assert!(
                    matches!(
                        error,
                        ClientError::Vault(_)
                            | ClientError::NoPublishedState
                            | ClientError::Backup(BackupError::Damaged { .. })
                    ),
                    "{name}: {error}"
                );
                copy.pull(&*served).unwrap_err();
                assert_eq!(contents(&copy.path()), before);
            }
            served.rows().delete_blob(&main, name).unwrap();
            if copy.copy(13).pull(&*served).is_err() {
                copy.pull(&*served).unwrap_err();
                assert_eq!(contents(&copy.path()), before);
            }
            served.rows().put_blob(&main, name, &sound).unwrap();
        }
        assert!(refused > 4 * 5, "most of them are asked for");
        copy.pull(&*served).unwrap();
        assert!(owner.documents().keys().all(|id| copy.documents().contains_key(id)));
    }
}

/// A server that says that an earlier state is published brings nobody back to it.
#[test]
fn a_server_that_went_back_does_not_bring_a_copy_back() {
    let (served, mut owner, mut copy) = behind();
    let old = owner.copy(12);
    owner.put("7");
    owner.publish(&*served).unwrap();
    copy.pull(&*served).unwrap();
    old.replace(&*served).unwrap();
    let before = contents(&copy.path());
    let generation = copy.vault.head().unwrap().generation;
    let pulled = copy.pull(&*served).unwrap();
    assert_eq!((pulled.from, pulled.to), (generation, generation));
    assert_eq!(contents(&copy.path()), before);
    copy.publish(&*served).unwrap();
    assert_eq!(describe(&*served).unwrap().commit, Some(copy.vault.head().unwrap().name));
}
