//! Only what the vault was made with opens it.

use super::*;

fn vault_with(unlock: &Unlock) -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("vault");
    create(&directory, unlock).unwrap();
    (parent, directory)
}

#[test]
fn the_right_passphrase_opens_and_a_wrong_one_does_not() {
    let (_parent, directory) = vault_with(&passphrase("correct horse"));
    Vault::open(&directory, &passphrase("correct horse")).unwrap();
    for wrong in ["correct horsf", "correct hors", "correct horse "] {
        let error = Vault::open(&directory, &passphrase(wrong)).unwrap_err();
        assert!(matches!(error, VaultError::WrongUnlock { unlock: UnlockKind::Passphrase, .. }));
        assert!(!format!("{error} {error:?}").contains(wrong));
    }
    assert!(matches!(Vault::open(&directory, &passphrase("")), Err(VaultError::EmptyPassphrase)));
}

#[test]
fn the_right_key_file_opens_and_a_wrong_one_does_not() {
    let (_parent, directory) = vault_with(&key_file(1));
    Vault::open(&directory, &key_file(1)).unwrap();
    let longer = Unlock::KeyFile(Zeroizing::new(vec![1; MIN_KEY_FILE_BYTES + 1]));
    for wrong in [key_file(2), longer] {
        assert!(matches!(
            Vault::open(&directory, &wrong),
            Err(VaultError::WrongUnlock { unlock: UnlockKind::KeyFile, .. })
        ));
    }
}

#[test]
fn the_wrong_sort_of_secret_is_told_from_a_wrong_secret() {
    let (_parent, by_passphrase) = vault_with(&passphrase("correct horse"));
    let (_parent, by_key_file) = vault_with(&key_file(1));
    assert!(matches!(
        Vault::open(&by_passphrase, &key_file(1)),
        Err(VaultError::UnlockMismatch {
            needed: UnlockKind::Passphrase,
            given: UnlockKind::KeyFile,
            ..
        })
    ));
    assert!(matches!(
        Vault::open(&by_key_file, &passphrase("correct horse")),
        Err(VaultError::UnlockMismatch {
            needed: UnlockKind::KeyFile,
            given: UnlockKind::Passphrase,
            ..
        })
    ));
}

#[test]
fn a_hostile_keyring_is_refused_before_any_work_is_done() {
    let (_parent, directory) = vault_with(&passphrase("correct horse"));
    let file = directory.join(KEYRING);
    let original = fs::read(&file).unwrap();
    let open_with = |cost: [u32; 3]| {
        let mut bytes = original.clone();
        for (index, word) in cost.into_iter().enumerate() {
            let start = frame::HEADER_BYTES + 1 + 4 * index;
            bytes[start..start + 4].copy_from_slice(&word.to_le_bytes());
        }
        repair_checksum(&mut bytes);
        with_bytes(&file, &bytes, || Vault::open(&directory, &passphrase("correct horse")))
    };
    open_with([8, 1, 1]).expect("the keyring as it was");
    for hostile in [
        [u32::MAX, 1, 1],
        [(1 << 20) + 1, 1, 1],
        [8, 17, 1],
        [8, u32::MAX, 1],
        [128, 1, 9],
        [0, 0, 0],
    ] {
        let error = open_with(hostile).unwrap_err();
        assert!(matches!(error, VaultError::KdfCost { .. }), "{error}");
    }
    // Within the limits, but not what the seal was made with.
    assert!(matches!(open_with([16, 1, 1]), Err(VaultError::WrongUnlock { .. })));
}

#[test]
fn two_vaults_never_share_secrets_or_salts() {
    let mut rng = random();
    let parent = tempfile::tempdir().unwrap();
    let mut create = |name: &str| {
        let directory = parent.path().join(name);
        Vault::create(&directory, &key_file(1), lowest_cost(), &[], &mut rng).unwrap()
    };
    let (one, two) = (create("one"), create("two"));
    assert_ne!(one.master().unwrap().expose(), two.master().unwrap().expose());
    assert_ne!(one.keyring.data.expose(), two.keyring.data.expose());
    assert_ne!(one.master().unwrap().expose(), one.keyring.data.expose());
    let salt = |vault: &Vault| {
        fs::read(vault.directory().join(KEYRING)).unwrap()[frame::HEADER_BYTES + 13..][..56]
            .to_vec()
    };
    assert_ne!(salt(&one), salt(&two));
}
