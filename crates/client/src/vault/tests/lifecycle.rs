//! Creating, opening, locking.

use super::*;

#[test]
fn an_existing_vault_is_never_overwritten() {
    let (_parent, vault) = new_vault();
    let error =
        Vault::create(vault.directory(), &key_file(2), lowest_cost(), &mut random()).unwrap_err();
    assert!(matches!(error, VaultError::AlreadyExists { .. }));
    reopen(&vault).unwrap();
}

#[test]
fn a_directory_with_other_files_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("notes.txt"), b"mine").unwrap();
    let error =
        Vault::create(directory.path(), &key_file(1), lowest_cost(), &mut random()).unwrap_err();
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
    let error =
        Vault::create(directory.path(), &key_file(1), lowest_cost(), &mut random()).unwrap_err();
    assert!(matches!(error, VaultError::NotEmpty { .. }));
}

#[test]
fn an_unusable_secret_creates_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("vault");
    let short = Unlock::KeyFile(Zeroizing::new(vec![1; 31]));
    for unlock in [passphrase(""), short] {
        assert!(Vault::create(&directory, &unlock, lowest_cost(), &mut random()).is_err());
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
fn a_kind_never_written_is_absent() {
    let (_parent, vault) = new_vault();
    assert!(!vault.contains(FileKind::Model));
    assert!(matches!(
        vault.read(FileKind::Model),
        Err(VaultError::Absent { kind: FileKind::Model, .. })
    ));
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_look() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (_parent, vault) = vault_with_every_kind();
    assert_eq!(mode(vault.directory()), 0o700);
    let names = vault.disk.names().unwrap();
    assert_eq!(names.len(), 3 + FileKind::ALL.len());
    for name in names {
        assert_eq!(mode(&vault.directory().join(&name)), 0o600, "{name}");
    }

    let open_to_all = tempfile::tempdir().unwrap();
    fs::set_permissions(open_to_all.path(), fs::Permissions::from_mode(0o755)).unwrap();
    Vault::create(open_to_all.path(), &key_file(1), lowest_cost(), &mut random()).unwrap();
    assert_eq!(mode(open_to_all.path()), 0o700);
}

#[test]
fn a_second_writer_is_refused_until_the_first_has_finished() {
    let (_parent, mut first) = new_vault();
    let mut second = reopen(&first).unwrap();
    let transaction = first.transaction().unwrap();
    assert!(matches!(second.transaction(), Err(VaultError::Locked { .. })));
    drop(transaction);
    second.transaction().unwrap();
}

#[test]
fn a_writer_with_an_outdated_view_is_refused() {
    let (_parent, mut first) = new_vault();
    let mut second = reopen(&first).unwrap();
    commit(&mut first, &[(FileKind::Model, b"first")]);
    assert!(matches!(
        second.transaction(),
        Err(VaultError::Superseded { opened: 0, current: 1, .. })
    ));
    reopen(&second).unwrap().transaction().unwrap();
}

#[test]
fn a_reader_overtaken_by_a_commit_is_told_to_open_again() {
    let (_parent, mut writer) = vault_with_every_kind();
    let reader = reopen(&writer).unwrap();
    commit(&mut writer, &[(FileKind::Model, b"second")]);
    assert_eq!(&reader.read(FileKind::Index).unwrap()[..], b"index");
    assert!(matches!(
        reader.read(FileKind::Model),
        Err(VaultError::Superseded { opened: 1, current: 2, .. })
    ));
}

#[test]
fn a_commit_of_nothing_keeps_the_generation() {
    let (_parent, mut vault) = vault_with_every_kind();
    commit(&mut vault, &[]);
    assert_eq!(vault.generation(), 1);
    assert_eq!(reopen(&vault).unwrap().generation(), 1);
}

#[test]
fn a_vault_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Vault>();
    shared::<VaultReader>();
}

#[test]
fn debug_output_of_an_open_vault_shows_no_secret() {
    let (_parent, mut vault) = vault_with_every_kind();
    let master = format!("{:?}", vault.master().unwrap().expose());
    let data = format!("{:?}", vault.keyring.data.expose());
    let transaction = vault.transaction().unwrap();
    let shown = format!("{transaction:?}");
    assert!(shown.contains("MasterSecret(redacted)"));
    assert!(!shown.contains(&master) && !shown.contains(&data));
}

#[test]
fn a_discarded_vault_leaves_nothing_but_what_others_put_there() {
    let (parent, vault) = vault_with_every_kind();
    vault.discard();
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    let (_parent, vault) = vault_with_every_kind();
    let directory = vault.directory().to_owned();
    fs::write(directory.join("notes.txt"), b"mine").unwrap();
    vault.discard();
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
}
