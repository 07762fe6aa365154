//! Backups: what is sent, what a cut-off one leaves, and what a lying server can do.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use shard_client::remote::{
    BackedUp, BackupError, BackupOptions, Restored, backup, backup_head, restore,
};
use shard_client::vault::{Unlock, Vault, VaultError};
use shard_client::{ClientError, SearchOptions, Searcher, Transport, published_rows};
use shard_protocol::{BlobName, CollectionName, MessageKind};
use zeroize::Zeroizing;

use crate::support::{CutOff, Served};
use crate::vaults::{Owner, files, unlock};

const KEEP: BackupOptions = BackupOptions { replace: false };

fn save(
    owner: &mut Owner,
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<BackedUp, ClientError> {
    backup(&mut owner.vault, KEEP, transport, &|_| ControlFlow::Continue(()))
}

fn fetch(
    transport: &impl Transport<Error: Into<ClientError>>,
    into: &Path,
) -> Result<Restored, ClientError> {
    restore(transport, into, &unlock(), &|_| ControlFlow::Continue(()))
}

fn blobs(served: &Served) -> Vec<(BlobName, u64)> {
    served.rows().blobs(&CollectionName::default(), None, 1000).unwrap()
}

fn is_piece(name: &BlobName) -> bool {
    !["vault.head", "vault.id"].contains(&name.as_str())
}

/// Names beside a directory.
fn siblings(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory.parent().unwrap()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_restored_vault_is_the_one_that_was_saved() {
    let mut owner = Owner::with_documents(80);
    let query = owner.queries(1);
    fs::write(owner.path().join("notes.txt"), "mine").unwrap();
    let served = Served::new(None);
    let saved = save(&mut owner, &*served).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/er/vault");
    let restored = fetch(&*served, &path).unwrap();
    assert_eq!((restored.files, restored.bytes), (saved.files, saved.bytes));
    assert_eq!(restored.generation, owner.vault.generation());
    let mut original = files(&owner.path());
    original.retain(|(name, _)| name != "notes.txt");
    assert_eq!(files(&path), original);
    assert_eq!(siblings(&path), ["vault"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("KEYRING"))), (0o700, 0o600));
    }

    let vault = Vault::open(&path, &unlock()).unwrap();
    served.hold(published_rows(&vault).unwrap());
    let collection = shard_client::Collection::open(&vault).unwrap();
    let found =
        Searcher::new(&*served).search(&collection, query.row(0), &SearchOptions::default());
    found.unwrap();
}

#[test]
fn what_is_there_is_not_sent_again_and_what_is_no_longer_needed_is_removed() {
    let mut owner = Owner::with_documents(80);
    let served = Served::new(None);
    let first = save(&mut owner, &*served).unwrap();
    assert!(first.sent > first.bytes && first.removed == 0, "files and head");
    let second = save(&mut owner, &*served).unwrap();
    assert!(second.sent < 2000 && second.removed == 0, "the head alone: {}", second.sent);
    owner.add(4);
    let third = save(&mut owner, &*served).unwrap();
    assert!(third.sent < third.bytes, "settings and model are the same");
    assert!(third.removed > 0);
    let head = backup_head(&*served).unwrap().unwrap();
    let kept: u64 =
        blobs(&served).iter().filter(|(name, _)| is_piece(name)).map(|blob| blob.1).sum();
    assert_eq!((kept, head.generation()), (head.bytes(), owner.vault.generation()));
}

#[test]
fn a_backup_that_is_cut_off_anywhere_leaves_the_one_before() {
    let mut owner = Owner::with_documents(50);
    let served = Served::new(None);
    save(&mut owner, &*served).unwrap();
    let (before, generation) = (files(&owner.path()), owner.vault.generation());
    owner.add(5);
    let directory = tempfile::tempdir().unwrap();
    for cut in 0.. {
        let broken = CutOff::after(cut, &[MessageKind::PutBlob], &served);
        if save(&mut owner, &broken).is_ok() {
            assert!(cut > 0, "something had to be sent");
            break;
        }
        let path = directory.path().join(cut.to_string());
        assert_eq!(fetch(&*served, &path).unwrap().generation, generation);
        assert_eq!(files(&path), before);
    }
    let path = directory.path().join("last");
    fetch(&*served, &path).unwrap();
    assert_eq!(files(&path), files(&owner.path()));
}

#[test]
fn a_restore_that_is_cut_off_anywhere_leaves_nothing() {
    let mut owner = Owner::with_documents(50);
    let served = Served::new(None);
    save(&mut owner, &*served).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault");
    for cut in 0.. {
        let broken = CutOff::after(cut, &[MessageKind::FetchBlob], &served);
        if fetch(&broken, &path).is_ok() {
            assert!(cut > 5, "head, keyring, manifest and payloads");
            break;
        }
        assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
        // What a killed one leaves is cleared away by the next.
        fs::create_dir(directory.path().join(".vault.restoring")).unwrap();
        fs::write(directory.path().join(".vault.restoring/KEYRING"), "half").unwrap();
    }
    assert_eq!(siblings(&path), ["vault"]);
    assert_eq!(files(&path), files(&owner.path()));
}

#[test]
fn only_what_opens_the_vault_restores_it() {
    let mut owner = Owner::with_documents(30);
    let served = Served::new(None);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault");
    let none = fetch(&*served, &path).unwrap_err();
    assert!(matches!(none, ClientError::Backup(BackupError::Absent)), "{none}");
    save(&mut owner, &*served).unwrap();
    served.take_seen();
    let wrong = Unlock::KeyFile(Zeroizing::new(vec![8; 32]));
    let error = restore(&*served, &path, &wrong, &|_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, ClientError::Vault(VaultError::WrongUnlock { .. })), "{error}");
    assert_eq!(served.take_seen().len(), 3, "head, keyring and manifest; no payload");
    assert!(fs::read_dir(directory.path()).unwrap().next().is_none());

    fs::create_dir(&path).unwrap();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    let occupied = fetch(&*served, &path).unwrap_err();
    assert!(matches!(occupied, ClientError::Backup(BackupError::Occupied { .. })), "{occupied}");
    fs::remove_file(path.join("notes.txt")).unwrap();
    fetch(&*served, &path).unwrap();
}

#[test]
fn an_older_vault_does_not_take_the_place_of_a_newer_one_unasked() {
    let (mut newer, mut older) = (Owner::with_documents(30), Owner::with_documents(30));
    newer.add(5);
    let served = Served::new(None);
    save(&mut newer, &*served).unwrap();
    let error = save(&mut older, &*served).unwrap_err();
    assert!(matches!(error, ClientError::Backup(BackupError::Later { .. })), "{error}");
    let replace = BackupOptions { replace: true };
    backup(&mut older.vault, replace, &*served, &|_| ControlFlow::Continue(())).unwrap();
    let directory = tempfile::tempdir().unwrap();
    fetch(&*served, &directory.path().join("v")).unwrap();
    assert_eq!(files(&directory.path().join("v")), files(&older.path()));
}

#[test]
fn another_vault_does_not_take_the_place_of_the_first_unasked() {
    let (mut first, mut second) = (Owner::with_documents(30), Owner::seeded(9, 30, 24));
    second.add(5); // its generation is the later one
    let served = Served::new(None);
    save(&mut first, &*served).unwrap();
    let error = save(&mut second, &*served).unwrap_err();
    assert!(matches!(error, ClientError::AnotherVault), "{error}");
    assert!(error.to_string().contains("replace that vault"), "{error}");
    save(&mut first, &*served).unwrap();
    let replace = BackupOptions { replace: true };
    backup(&mut second.vault, replace, &*served, &|_| ControlFlow::Continue(())).unwrap();
    assert!(matches!(save(&mut first, &*served), Err(ClientError::AnotherVault)));
    save(&mut second, &*served).unwrap();
}

/// A head that also names files of no use would fill the disk.
#[test]
fn only_files_that_the_manifest_lists_are_fetched() {
    let mut owner = Owner::with_documents(30);
    let served = Served::new(None);
    save(&mut owner, &*served).unwrap();
    let (main, head) = (CollectionName::default(), "vault.head".parse().unwrap());
    let sound = served.rows().blob(&main, &head).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut more: serde_json::Value = serde_json::from_slice(&sound).unwrap();
    let files = more["files"].as_array_mut().unwrap();
    let mut useless = files.iter().find(|file| file["name"] == "MANIFEST").unwrap().clone();
    useless["name"] = "model-00000000000000ff.shard".into();
    files.push(useless);
    served.rows().put_blob(&main, &head, &serde_json::to_vec(&more).unwrap()).unwrap();
    let path = directory.path().join("vault");
    fetch(&*served, &path).unwrap();
    assert!(!path.join("model-00000000000000ff.shard").exists());
    assert_eq!(crate::vaults::files(&path), crate::vaults::files(&owner.path()));
}

#[test]
fn a_server_that_changes_a_byte_is_found_out() {
    let mut owner = Owner::with_documents(30);
    let served = Served::new(None);
    save(&mut owner, &*served).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault");
    let main = CollectionName::default();
    for (name, _) in blobs(&served).into_iter().filter(|(name, _)| name.as_str() != "vault.id") {
        let sound = served.rows().blob(&main, &name).unwrap();
        let mut changed = sound.clone();
        changed[sound.len() / 2] ^= 1;
        served.rows().put_blob(&main, &name, &changed).unwrap();
        assert!(fetch(&*served, &path).is_err(), "{name}");
        served.rows().delete_blob(&main, &name).unwrap();
        assert!(fetch(&*served, &path).is_err(), "{name}");
        served.rows().put_blob(&main, &name, &sound).unwrap();
        assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
    }
    fetch(&*served, &path).unwrap();
}

/// Head and pieces agree with each other, and still the manifest knows better.
#[test]
fn a_server_that_changes_head_and_pieces_alike_is_found_out() {
    let mut owner = Owner::with_documents(30);
    let served = Served::new(None);
    save(&mut owner, &*served).unwrap();
    let mut forged = 0;
    for (name, _) in files(&owner.path()) {
        let directory = tempfile::tempdir().unwrap();
        let lying = Served::new(None);
        let copy = directory.path().join("copy");
        fs::create_dir(&copy).unwrap();
        for (other, mut bytes) in files(&owner.path()) {
            if other == name {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            fs::write(copy.join(other), bytes).unwrap();
        }
        // A payload that was changed is not noticed by opening, so a backup of it can be made.
        let Ok(mut vault) = Vault::open(&copy, &unlock()) else { continue };
        let options = BackupOptions::default();
        backup(&mut vault, options, &*lying, &|_| ControlFlow::Continue(())).unwrap();
        let error = fetch(&*lying, &directory.path().join("vault")).unwrap_err();
        assert!(matches!(error, ClientError::Vault(_)), "{name}: {error}");
        assert!(!directory.path().join("vault").exists());
        forged += 1;
    }
    let payloads = files(&owner.path()).iter().filter(|(name, _)| name.ends_with(".shard")).count();
    assert_eq!(forged, payloads, "keyring and manifest do not even open");
}
