//! Backups: what is sent, what a cut-off one leaves, and what a lying server can do.

use std::fs;
use std::path::Path;

use shard_client::remote::{BackupError, kept_backups, restore};
use shard_client::vault::{Unlock, Vault, VaultError};
use shard_client::{ClientError, UNWATCHED};
use shard_protocol::{CollectionName, MessageKind, PutBlob};
use zeroize::Zeroizing;

use crate::copies::{blobs, fetch, held};
use crate::support::{CutOff, Meddler, Served};
use crate::vaults::{Contents, DATABASE, Owner, contents, unlock};

/// Restores the newest backup and says what it consists of.
fn restored(served: &Served) -> Contents {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault");
    fetch(served, &path).unwrap();
    contents(&path)
}

#[test]
fn a_restored_vault_is_the_one_that_was_saved() {
    let mut owner = Owner::with_documents(80);
    fs::write(owner.path().join("notes.txt"), "mine").unwrap();
    let served = Served::new(None);
    let saved = owner.back_up(&*served).unwrap();
    let head = owner.vault.head().unwrap();
    assert_eq!((saved.generation, saved.commit, saved.kept), (head.generation, head.name, 1));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/er/vault");
    let restored = fetch(&*served, &path).unwrap();
    assert_eq!((restored.values, restored.bytes), (saved.values, saved.bytes));
    assert_eq!((restored.generation, restored.commit), (head.generation, head.name));
    assert_eq!(contents(&path), contents(&owner.path()));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let modes = (mode(&path), mode(&path.join("KEYRING")), mode(&path.join(DATABASE)));
        assert_eq!(modes, (0o700, 0o600, 0o600));
    }

    owner.vault = Vault::open(&path, &unlock()).unwrap();
    owner.documents();
    owner.publish(&*served).unwrap();
    owner.search(&served).unwrap();
}

#[test]
fn what_is_there_is_not_sent_again() {
    let mut owner = Owner::with_documents(80);
    let served = Served::new(None);
    let first = owner.back_up(&*served).unwrap();
    assert_eq!((first.sent, first.removed), (first.bytes, 0));
    let second = owner.back_up(&*served).unwrap();
    assert_eq!((second.sent, second.removed, second.kept), (0, 0, 2));
    owner.add(4);
    let third = owner.back_up(&*served).unwrap();
    assert!(0 < third.sent && third.sent < third.bytes, "settings and model are the same");
    // What was published need not be sent for a backup either.
    owner.add(4);
    let published = owner.publish(&*served).unwrap();
    assert!(0 < published.state_bytes && published.state_bytes < third.bytes);
    assert_eq!(owner.back_up(&*served).unwrap().sent, 0);
}

#[test]
fn a_backup_that_is_cut_off_anywhere_leaves_one_that_is_whole() {
    let mut owner = Owner::with_documents(50);
    let first = owner.copy(11);
    let before = contents(&owner.path());
    owner.add(5);
    let after = contents(&owner.path());
    for late in [false, true] {
        let mut new = 0;
        for cut in 0.. {
            let served = Served::new(None);
            first.back_up(&*served).unwrap();
            let broken = CutOff { late, ..CutOff::anywhere(cut, &served) };
            if owner.back_up_keeping(1, &broken).is_ok() {
                assert!(cut > 10, "values and the root had to be sent and read back");
                assert!(new > 0, "the earlier backup goes when the new one is there");
                break;
            }
            let found = restored(&served);
            if found != before {
                assert_eq!(found, after, "cut off after {cut} messages");
                new += 1;
            }
            owner.back_up_keeping(1, &*served).unwrap();
            assert_eq!(restored(&served), after);
        }
    }
}

#[test]
fn only_what_opens_the_vault_restores_it() {
    let owner = Owner::with_documents(30);
    let served = Served::new(None);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault");
    let none = fetch(&*served, &path).unwrap_err();
    assert!(matches!(none, ClientError::Backup(BackupError::Absent)), "{none}");
    owner.back_up(&*served).unwrap();
    served.take_seen();
    let wrong = Unlock::KeyFile(Zeroizing::new(vec![8; 32]));
    let error = restore(&*served, &path, &wrong, None, UNWATCHED).unwrap_err();
    assert!(matches!(error, ClientError::Vault(VaultError::WrongUnlock { .. })), "{error}");
    let asked = [MessageKind::ListBlobs, MessageKind::FetchBlob];
    assert_eq!(served.take_seen(), asked, "the keyrings and no value");
    assert!(fs::read_dir(directory.path()).unwrap().next().is_none());

    fs::create_dir(&path).unwrap();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    let occupied = fetch(&*served, &path).unwrap_err();
    assert!(matches!(occupied, ClientError::Vault(VaultError::NotEmpty { .. })), "{occupied}");
    assert_eq!(fs::read_to_string(path.join("notes.txt")).unwrap(), "mine");
    fs::remove_file(path.join("notes.txt")).unwrap();
    fetch(&*served, &path).unwrap();
    let there = fetch(&*served, &path).unwrap_err();
    assert!(matches!(there, ClientError::Vault(VaultError::AlreadyExists { .. })), "{there}");
}

#[test]
fn another_vault_does_not_take_the_place_of_the_first_unasked() {
    let (first, mut second) = (Owner::with_documents(30), Owner::seeded(9, 30, 24));
    second.add(5); // its generation is the later one
    let served = Served::new(None);
    first.back_up(&*served).unwrap();
    let before = held(&served);
    let error = second.back_up(&*served).unwrap_err();
    assert!(matches!(error, ClientError::AnotherVault), "{error}");
    assert!(error.to_string().contains("replace that vault"), "{error}");
    assert!(held(&served) == before);
    first.back_up(&*served).unwrap();
    second.replace_backup(&served).unwrap();
    assert!(matches!(first.back_up(&*served), Err(ClientError::AnotherVault)));
    second.back_up(&*served).unwrap();
}

/// A vault that took over a collection by publishing does not count the backups there as its own.
#[test]
fn backups_of_the_vault_before_are_told_from_ones_own() {
    let (first, second) = (Owner::with_documents(30), Owner::seeded(9, 30, 24));
    let served = Served::new(None);
    first.back_up(&*served).unwrap();
    second.replace(&*served).unwrap();
    let error = second.back_up(&*served).unwrap_err();
    assert!(matches!(error, ClientError::AnotherVault), "{error}");
    second.replace_backup(&served).unwrap();
    second.back_up(&*served).unwrap();
}

#[test]
fn a_server_that_changes_a_byte_is_found_out() {
    let owner = Owner::with_documents(30);
    let served = Served::new(None);
    owner.back_up(&*served).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault");
    let main = CollectionName::default();
    for (name, _) in blobs(&served).into_iter().filter(|(name, _)| name.as_str() != "claim") {
        let sound = served.rows().blob(&main, &name).unwrap();
        for at in [0, sound.len() / 2, sound.len() - 1] {
            let mut changed = sound.clone();
            changed[at] ^= 1;
            served.rows().put_blob(&main, &name, &changed).unwrap();
            assert!(fetch(&*served, &path).is_err(), "{name}, byte {at}");
        }
        served.rows().delete_blob(&main, &name).unwrap();
        assert!(fetch(&*served, &path).is_err(), "{name}");
        served.rows().put_blob(&main, &name, &sound).unwrap();
        assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
    }
    fetch(&*served, &path).unwrap();
}

#[test]
fn a_damaged_vault_is_not_backed_up() {
    let mut owner = Owner::with_documents(30);
    let served = Served::new(None);
    owner.back_up(&*served).unwrap();
    owner.add(3);
    let before = held(&served);
    let sound = contents(&owner.path());
    let db = rusqlite::Connection::open(owner.path().join(DATABASE)).unwrap();
    let write = "UPDATE vals SET value = ?2 WHERE id = ?1";
    for (id, value) in &sound.2 {
        let mut changed = value.clone();
        changed[value.len() / 2] ^= 1;
        db.execute(write, (id, &changed)).unwrap();
        assert!(owner.back_up(&*served).is_err(), "value {id:x}");
        db.execute("DELETE FROM vals WHERE id = ?1", [id]).unwrap();
        assert!(owner.back_up(&*served).is_err(), "value {id:x}");
        db.execute("INSERT INTO vals (id, value) VALUES (?1, ?2)", (id, value)).unwrap();
    }
    assert!(held(&served) == before, "the earlier backup is as it was");
    drop(db);
    assert_eq!(contents(&owner.path()), sound);
    owner.back_up(&*served).unwrap();
}

/// Every blob of a backup in turn arrives with a bit flipped. The backup fails, those before it can
/// be restored, and the next one is whole: it does not count on what arrived wrong.
#[test]
fn a_backup_that_does_not_come_back_as_it_was_sent_does_not_count() {
    let mut owner = Owner::with_documents(30);
    let served = Served::new(None);
    owner.back_up(&*served).unwrap();
    let before = restored(&served);
    let limits = shard_protocol::Limits::default();
    let mut flipped = 0;
    loop {
        owner.put("3");
        let sent = std::sync::atomic::AtomicUsize::new(0);
        let flip = |message: &mut Vec<u8>| {
            let put = PutBlob::decode(message, &limits).unwrap();
            assert_ne!(put.name().as_str(), "claim");
            if sent.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == flipped {
                *message.last_mut().unwrap() ^= 1;
            }
        };
        let kind = MessageKind::PutBlob;
        let outcome = owner.back_up(&Meddler { served: &served, kind, meddle: flip });
        if outcome.is_ok() {
            break;
        }
        let error = outcome.unwrap_err();
        let words = error.to_string();
        assert!(matches!(error, ClientError::Backup(BackupError::NotReadBack { .. })), "{words}");
        assert_eq!(kept_backups(&*served).unwrap().len(), 1 + flipped.min(2));
        if flipped == 0 {
            assert!(restored(&served) == before);
        }
        owner.back_up(&*served).unwrap();
        assert_eq!(restored(&served), contents(&owner.path()));
        flipped += 1;
    }
    assert!(flipped > 5, "values and the root were sent");
}
