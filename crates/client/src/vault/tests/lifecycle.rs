//! Creating, opening, locking.

use super::*;

#[test]
fn an_existing_vault_is_never_overwritten() {
    let (_parent, vault) = new_vault();
    let error = create(vault.directory(), &key_file(2)).unwrap_err();
    assert!(matches!(error, VaultError::AlreadyExists { .. }));
    reopen(&vault).unwrap();
}

#[test]
fn a_directory_with_other_files_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("notes.txt"), b"mine").unwrap();
    let error = create(directory.path(), &key_file(1)).unwrap_err();
    assert!(matches!(error, VaultError::NotEmpty { .. }));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_name_that_is_not_unicode_counts_as_a_file() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(OsStr::from_bytes(b"\xff")), b"").unwrap();
    let error = create(directory.path(), &key_file(1)).unwrap_err();
    assert!(matches!(error, VaultError::NotEmpty { .. }));
}

#[test]
fn an_unusable_secret_creates_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("vault");
    let short = Unlock::KeyFile(Zeroizing::new(vec![1; 31]));
    for unlock in [passphrase(""), short] {
        assert!(create(&directory, &unlock).is_err());
        assert!(!directory.exists());
    }
}

#[test]
fn a_directory_without_a_vault_says_so() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path(), &directory.path().join("missing")] {
        let error = Vault::open(path, &key_file(1)).unwrap_err();
        assert!(matches!(error, VaultError::NotAVault { .. }), "{error}");
    }
}

#[test]
fn a_value_never_written_is_absent() {
    let (_parent, vault) = new_vault();
    let snapshot = vault.snapshot().unwrap();
    assert!(!snapshot.contains(Slot::Model));
    let error = snapshot.read(Slot::Model).unwrap_err();
    assert!(matches!(&error, VaultError::Absent { value, .. } if value == "model"), "{error}");
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_look() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (_parent, mut vault) = vault_with_values();
    let code = vault.prepare_recovery(&mut random()).unwrap();
    vault.replace_recovery(&code).unwrap();
    let name = vault.head().unwrap().name;
    vault.note_backup("a server", name, std::time::SystemTime::now()).unwrap();
    // While somebody reads, the log and its index lie beside the database.
    let _reading = vault.snapshot().unwrap();
    assert_eq!(mode(vault.directory()), 0o700);
    let names = vault.disk.names().unwrap();
    assert_eq!(names.len(), 6, "{names:?}");
    for name in names {
        assert_eq!(mode(&vault.directory().join(&name)), 0o600, "{name:?}");
    }

    let open_to_all = tempfile::tempdir().unwrap();
    fs::set_permissions(open_to_all.path(), fs::Permissions::from_mode(0o755)).unwrap();
    create(open_to_all.path(), &key_file(1)).unwrap();
    assert_eq!(mode(open_to_all.path()), 0o700);
}

#[test]
fn a_commit_of_nothing_is_none() {
    let (_parent, mut vault) = vault_with_values();
    let before = vault.head().unwrap();
    commit(&mut vault, &[]);
    assert_eq!(vault.head().unwrap(), before);
    assert_eq!(reopen(&vault).unwrap().head().unwrap(), before);
}

#[test]
fn a_vault_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Vault>();
}

#[test]
fn debug_output_of_an_open_vault_shows_no_secret() {
    let (_parent, mut vault) = vault_with_values();
    let master = format!("{:?}", vault.master().unwrap().expose());
    let data = format!("{:?}", vault.keyring.data.expose());
    let shown = format!("{vault:?}");
    assert!(shown.contains("MasterSecret(redacted)"));
    let transaction = vault.transaction(&mut random()).unwrap();
    for shown in [shown, format!("{transaction:?}")] {
        assert!(!shown.contains(&master) && !shown.contains(&data));
    }
}

#[test]
fn a_vault_of_the_format_before_is_refused_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["KEYRING", "MANIFEST", "LOCK", "model-0000000000000001.shard"] {
        fs::write(directory.path().join(name), b"\x89SHARD\r\n").unwrap();
    }
    let error = Vault::open(directory.path(), &key_file(1)).unwrap_err();
    assert!(matches!(error, VaultError::OldVault { .. }), "{error}");
    let words = error.to_string();
    assert!(!words.contains('\n') && words.contains("ingest the documents again"), "{words}");
    // It is somebody's, and stays.
    let error = create(directory.path(), &key_file(1)).unwrap_err();
    assert!(matches!(error, VaultError::AlreadyExists { .. }), "{error}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
}

#[test]
fn a_vault_without_its_keyring_or_its_database_says_which_is_gone() {
    let (_parent, vault) = vault_with_values();
    let (keyring, database) = (vault.directory().join(KEYRING), vault.database());
    let elsewhere = tempfile::tempdir().unwrap();
    let kept = elsewhere.path().join("kept");
    fs::copy(&keyring, &kept).unwrap();
    fs::remove_file(&keyring).unwrap();
    let error = reopen(&vault).unwrap_err();
    assert!(matches!(&error, VaultError::NoKeyring { file } if *file == keyring), "{error}");
    // What is there is not an unfinished vault: nobody may make one over it.
    let error = create(vault.directory(), &key_file(1)).unwrap_err();
    assert!(matches!(error, VaultError::NotEmpty { .. }), "{error}");
    fs::copy(&kept, &keyring).unwrap();
    fs::remove_file(&database).unwrap();
    let error = reopen(&vault).unwrap_err();
    assert!(matches!(&error, VaultError::NoDatabase { file } if *file == database), "{error}");
    assert!(!database.exists(), "looking makes no database");
}

#[test]
fn a_vault_that_was_never_finished_says_so_and_is_made_anew() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("vault");
    fs::create_dir(&directory).unwrap();
    for name in [UNFINISHED, DATABASE, "vault.sqlite-journal", NEXT_KEYRING] {
        fs::write(directory.join(name), b"half").unwrap();
    }
    let error = Vault::open(&directory, &key_file(1)).unwrap_err();
    assert!(matches!(error, VaultError::Unfinished { .. }), "{error}");
    // Anything else in it is somebody's.
    fs::write(directory.join("notes.txt"), b"mine").unwrap();
    let error = create(&directory, &key_file(1)).unwrap_err();
    assert!(matches!(error, VaultError::NotEmpty { .. }), "{error}");
    fs::remove_file(directory.join("notes.txt")).unwrap();
    let vault = create(&directory, &key_file(1)).unwrap();
    assert_eq!(generation(&reopen(&vault).unwrap()), 1);
    assert!(leftovers(&vault).is_empty(), "{:?}", leftovers(&vault));
}

#[test]
fn a_finished_vault_whose_marker_stayed_is_a_vault() {
    let (_parent, vault) = vault_with_values();
    fs::write(vault.directory().join(UNFINISHED), b"").unwrap();
    assert_eq!(contents(&reopen(&vault).unwrap()), contents(&vault));
    let error = create(vault.directory(), &key_file(1)).unwrap_err();
    assert!(matches!(error, VaultError::AlreadyExists { .. }), "{error}");
}

#[test]
fn a_vault_that_cannot_be_made_leaves_nothing() {
    let parent = tempfile::tempdir().unwrap();
    fs::write(parent.path().join("file"), b"mine").unwrap();
    // The second way begins with a directory that can be made.
    for way in ["file/vault", "made/../file/vault"] {
        assert!(create(&parent.path().join(way), &key_file(1)).is_err());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
    // Dropped on the way: values are written, the keyring is not.
    let directory = parent.path().join("one/two");
    let new = NewVault::begin(&directory).unwrap();
    new.put_sealed(Slot::Settings, &[0; 100]).unwrap();
    assert!(matches!(Vault::open(&directory, &key_file(1)), Err(VaultError::Unfinished { .. })));
    drop(new);
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn a_creator_who_lost_the_race_does_not_open_the_winners_directory() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let loser = Disk::new(parent.path());
    let made = loser.make_directory().unwrap();
    create(parent.path(), &key_file(1)).unwrap();
    loser.unmake_directory(&made);
    let mode = fs::metadata(parent.path()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}

#[test]
fn of_two_who_make_a_vault_at_once_one_is_refused_and_harms_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("vault");
    let first = NewVault::begin(&directory).unwrap();
    let error = create(&directory, &key_file(2)).unwrap_err();
    assert!(matches!(error, VaultError::Locked { .. }), "{error}");
    drop(first);
    assert!(!directory.exists());
    for _ in 0..10 {
        let made: Vec<bool> = std::thread::scope(|scope| {
            let make = |key: u8| create(&directory, &key_file(key)).is_ok();
            let makers = [1, 2, 3].map(|key| scope.spawn(move || make(key)));
            makers.map(|maker| maker.join().unwrap()).to_vec()
        });
        assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
        let winner = 1 + made.iter().position(|made| *made).unwrap() as u8;
        let vault = Vault::open(&directory, &key_file(winner)).unwrap();
        vault.snapshot().unwrap().verify().unwrap();
        assert!(leftovers(&vault).is_empty(), "{:?}", leftovers(&vault));
        fs::remove_dir_all(&directory).unwrap();
    }
}

#[test]
fn the_last_backup_is_remembered_and_ages() {
    use std::time::{Duration, SystemTime};
    let (_parent, mut vault) = vault_with_values();
    let age = vault.backup_age().unwrap();
    assert_eq!((age.last, age.vault_changed, age.unlock_changed), (None, true, false));
    let made = SystemTime::now() + Duration::from_secs(60);
    vault.note_backup("https://server/main", vault.head().unwrap().name, made).unwrap();
    let age = vault.backup_age().unwrap();
    let last = age.last.clone().unwrap();
    assert_eq!(last.server, "https://server/main");
    assert!(made.duration_since(last.made()).unwrap() < Duration::from_millis(1));
    assert!(!age.vault_changed && !age.unlock_changed);
    commit(&mut vault, &[(Slot::Model, b"another")]);
    assert!(vault.backup_age().unwrap().vault_changed);
    let name = vault.head().unwrap().name;
    vault.note_backup("https://server/main", name, SystemTime::UNIX_EPOCH).unwrap();
    let age = vault.backup_age().unwrap();
    assert!(!age.vault_changed && age.unlock_changed, "the keyring is younger");
    // It vouches for nothing: a spoiled note is none.
    fs::write(vault.directory().join(note::LAST_BACKUP), b"{").unwrap();
    assert_eq!(reopen(&vault).unwrap().backup_age().unwrap().last, None);
    assert!(!leftovers(&vault).contains(&note::NEXT_NOTE.to_owned()));
}
