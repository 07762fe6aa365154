//! Restores that are cut off, and going on from an older backup.

use std::ops::ControlFlow;

use shard_client::ClientError;
use shard_client::remote::{describe, restore};
use shard_client::vault::{Vault, VaultError};
use shard_protocol::CollectionName;

use crate::copies::{blobs, fetch};
use crate::publish::assert_holds;
use crate::support::{CutOff, Served};
use crate::vaults::{Owner, contents, unlock};

#[test]
fn a_restore_that_is_cut_off_anywhere_can_be_begun_again() {
    let owner = Owner::with_documents(50);
    let served = Served::new(None);
    let values = owner.back_up(&*served).unwrap().values;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault");
    for cut in 0.. {
        if fetch(&CutOff::anywhere(cut, &served), &path).is_ok() {
            assert_eq!(cut, values + 2, "a list, the root and every value");
            break;
        }
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "nothing is left");
    }
    assert_eq!(contents(&path), contents(&owner.path()));
    Owner::at(directory, 11, &owner).documents();
}

#[test]
fn a_restore_that_is_stopped_at_any_value_leaves_no_vault() {
    let owner = Owner::with_documents(50);
    let served = Served::new(None);
    let values = owner.back_up(&*served).unwrap().values;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault");
    for most in 0..values {
        let told = std::sync::atomic::AtomicUsize::new(0);
        let stop = |_| {
            let before = told.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if before == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let error = restore(&*served, &path, &unlock(), None, &stop).unwrap_err();
        assert!(matches!(error, ClientError::Cancelled), "{error}");
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "nothing is left");
    }
}

/// What a kill leaves: the files of a vault that was never finished. They are taken as they are at
/// every value, so as if the power had failed there.
#[test]
fn what_a_killed_restore_leaves_is_no_vault_and_is_cleared_away() {
    let owner = Owner::with_documents(50);
    let served = Served::new(None);
    let values = owner.back_up(&*served).unwrap().values;
    let directory = tempfile::tempdir().unwrap();
    let (path, killed) = (directory.path().join("vault"), directory.path().join("killed"));
    for most in [0, values / 2, values - 1] {
        std::fs::create_dir(&killed).unwrap();
        let told = std::sync::atomic::AtomicUsize::new(0);
        let stop = |_| {
            if told.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == most {
                for entry in std::fs::read_dir(&path).unwrap().map(Result::unwrap) {
                    std::fs::copy(entry.path(), killed.join(entry.file_name())).unwrap();
                }
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        restore(&*served, &path, &unlock(), None, &stop).unwrap_err();
        let error = Vault::open(&killed, &unlock()).unwrap_err();
        assert!(matches!(error, VaultError::Unfinished { .. }), "{error}");
        fetch(&*served, &killed).unwrap();
        assert_eq!(contents(&killed), contents(&owner.path()));
        std::fs::remove_dir_all(&killed).unwrap();
    }
}

#[test]
fn from_an_older_backup_one_goes_on_with_a_pull() {
    let mut owner = Owner::with_documents(40);
    let served = Served::new(None);
    owner.back_up(&*served).unwrap();
    owner.put("3");
    owner.add(2);
    owner.publish(&*served).unwrap();
    let lost = owner.documents();
    let mut restored = owner.restored(11, &served);
    drop(owner);
    let error = restored.publish(&*served).unwrap_err();
    assert!(matches!(error, ClientError::Behind { .. }), "{error}");
    restored.pull(&*served).unwrap();
    assert_eq!(restored.documents(), lost);
    assert_eq!(restored.publish(&*served).unwrap().uploaded, 0);
    restored.put("4");
    restored.publish(&*served).unwrap();
    restored.back_up(&*served).unwrap();
    assert_holds(&served, &restored);
}

#[test]
fn what_was_changed_before_the_pull_is_kept_as_well() {
    let mut owner = Owner::with_documents(40);
    let served = Served::new(None);
    owner.back_up(&*served).unwrap();
    owner.put("3");
    owner.publish(&*served).unwrap();
    let mut restored = owner.restored(11, &served);
    restored.put("4");
    restored.put("new");
    let error = restored.publish(&*served).unwrap_err();
    assert!(matches!(error, ClientError::Forked { .. } | ClientError::Behind { .. }), "{error}");
    let mut expected = owner.documents();
    let mine = restored.documents();
    for id in ["4", "new"] {
        expected.insert(id.to_owned(), mine[id].clone());
    }
    restored.pull(&*served).unwrap();
    restored.publish(&*served).unwrap();
    assert_eq!(restored.documents(), expected);
    assert_holds(&served, &restored);
}

/// The server lost the sealed state and has the rows still.
#[test]
fn where_the_published_state_is_gone_one_goes_on_deliberately() {
    let mut owner = Owner::with_documents(40);
    let served = Served::new(None);
    owner.back_up(&*served).unwrap();
    owner.put("3");
    owner.publish(&*served).unwrap();
    let main = CollectionName::default();
    for (name, _) in blobs(&served) {
        if name.as_str().starts_with("state.") {
            served.rows().delete_blob(&main, &name).unwrap();
        }
    }
    let mut restored = owner.restored(11, &served);
    drop(owner);
    let before = contents(&restored.path());
    let error = restored.pull(&*served).unwrap_err();
    assert!(matches!(error, ClientError::NoPublishedState), "{error}");
    assert_eq!(contents(&restored.path()), before);
    assert!(matches!(restored.publish(&*served), Err(ClientError::Behind { .. })));
    restored.replace(&*served).unwrap();
    assert_holds(&served, &restored);
    restored.put("3");
    restored.publish(&*served).unwrap();
    restored.back_up(&*served).unwrap();
    assert_eq!(describe(&*served).unwrap().commit, Some(restored.vault.head().unwrap().name));
}
