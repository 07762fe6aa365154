//! Changing what opens a vault: passphrases and recovery codes.

use super::*;

fn recover(vault: &Vault, code: &RecoveryCode) -> Result<Vault, VaultError> {
    // As a person does it: from paper.
    let typed = RecoveryCode::parse(&code.expose().to_lowercase()).unwrap();
    Vault::open(vault.directory(), &Unlock::Recovery(typed))
}

fn add_recovery(vault: &mut Vault, rng: &mut impl CryptoRng) -> Result<RecoveryCode, VaultError> {
    let prepared = vault.prepare_recovery(rng)?;
    vault.replace_recovery(&prepared)?;
    Ok(RecoveryCode::parse(&prepared.code().expose()).unwrap())
}

#[test]
fn a_new_passphrase_takes_the_place_of_the_old() {
    let (_parent, mut vault) = vault_with_values();
    let before = contents(&vault);
    vault.change_unlock(&passphrase("new"), lowest_cost(), &mut random()).unwrap();
    let directory = vault.directory().to_owned();
    let open = |unlock: &Unlock| Vault::open(&directory, unlock);
    assert_eq!(contents(&open(&passphrase("new")).unwrap()), before);
    assert!(matches!(open(&key_file(1)), Err(VaultError::UnlockMismatch { .. })));
    vault.change_unlock(&passphrase("newer"), lowest_cost(), &mut random()).unwrap();
    assert!(matches!(open(&passphrase("new")), Err(VaultError::WrongUnlock { .. })));
    assert_eq!(contents(&open(&passphrase("newer")).unwrap()), before);
    assert!(leftovers(&vault).is_empty());
}

#[test]
fn an_unfit_passphrase_changes_nothing() {
    let (_parent, mut vault) = new_vault();
    let mut rng = random();
    let code = add_recovery(&mut vault, &mut rng).unwrap();
    let short = Unlock::KeyFile(Zeroizing::new(vec![1; 31]));
    for unfit in [passphrase(""), short, Unlock::Recovery(code)] {
        assert!(vault.change_unlock(&unfit, lowest_cost(), &mut rng).is_err());
        reopen(&vault).unwrap();
    }
}

#[test]
fn keyrings_are_not_replaced_while_somebody_writes() {
    let (_parent, mut vault) = new_vault();
    let mut writer = reopen(&vault).unwrap();
    let mut rng = random();
    let transaction = writer.transaction(&mut rng).unwrap();
    let changed = vault.change_unlock(&key_file(2), lowest_cost(), &mut rng);
    assert!(matches!(changed, Err(VaultError::Locked { .. })));
    assert!(matches!(add_recovery(&mut vault, &mut rng), Err(VaultError::Locked { .. })));
    drop(transaction);
    vault.change_unlock(&key_file(2), lowest_cost(), &mut rng).unwrap();
}

#[test]
fn a_recovery_code_opens_the_vault_whatever_became_of_the_passphrase() {
    let (_parent, mut vault) = vault_with_values();
    assert!(!vault.has_recovery());
    let code = add_recovery(&mut vault, &mut random()).unwrap();
    assert!(vault.has_recovery());
    vault.change_unlock(&passphrase("forgotten"), lowest_cost(), &mut random()).unwrap();
    fs::remove_file(vault.directory().join(KEYRING)).unwrap();
    let mut recovered = recover(&vault, &code).unwrap();
    assert_eq!(contents(&recovered), contents(&vault));
    assert_eq!(recovered.access(), VaultAccess::Owner);
    assert_eq!(recovered.master().unwrap().expose(), vault.master().unwrap().expose());
    recovered.change_unlock(&key_file(1), lowest_cost(), &mut random()).unwrap();
    reopen(&vault).unwrap();
}

#[test]
fn a_new_recovery_code_voids_the_old() {
    let (_parent, mut vault) = new_vault();
    let mut rng = random();
    let first = add_recovery(&mut vault, &mut rng).unwrap();
    let second = add_recovery(&mut vault, &mut rng).unwrap();
    assert!(matches!(
        recover(&vault, &first),
        Err(VaultError::WrongUnlock { unlock: UnlockKind::Recovery, .. })
    ));
    recover(&vault, &second).unwrap();
}

#[test]
fn a_prepared_code_takes_the_place_of_the_old_only_when_it_is_told_to() {
    let (_parent, mut vault) = new_vault();
    let mut rng = random();
    let first = add_recovery(&mut vault, &mut rng).unwrap();
    let prepared = vault.prepare_recovery(&mut rng).unwrap();
    recover(&vault, &first).unwrap();
    assert!(recover(&vault, prepared.code()).is_err());
    vault.replace_recovery(&prepared).unwrap();
    assert!(recover(&vault, &first).is_err());
    recover(&vault, prepared.code()).unwrap();
}

#[test]
fn a_vault_without_a_recovery_code_says_so() {
    let (_parent, vault) = new_vault();
    let (_other_parent, mut other) = new_vault();
    let code = add_recovery(&mut other, &mut random()).unwrap();
    assert!(matches!(recover(&vault, &code), Err(VaultError::NoRecovery { .. })));
    let nowhere = vault.directory().join("nowhere");
    let opened = Vault::open(&nowhere, &Unlock::Recovery(code));
    assert!(matches!(opened, Err(VaultError::NotAVault { .. })));
}

#[test]
fn one_keyring_does_not_pass_for_the_other() {
    let (_parent, mut vault) = new_vault();
    let code = add_recovery(&mut vault, &mut random()).unwrap();
    let (main, recovery) = (vault.directory().join(KEYRING), vault.directory().join(RECOVERY));
    let (main_bytes, recovery_bytes) = (fs::read(&main).unwrap(), fs::read(&recovery).unwrap());
    with_bytes(&main, &recovery_bytes, || {
        assert!(matches!(reopen(&vault), Err(VaultError::Misplaced { .. })));
    });
    with_bytes(&recovery, &main_bytes, || {
        assert!(matches!(recover(&vault, &code), Err(VaultError::Misplaced { .. })));
    });
}

#[test]
fn a_keyring_that_a_killed_writer_left_behind_is_in_nobodys_way() {
    let (_parent, mut vault) = vault_with_values();
    fs::write(vault.directory().join(NEXT_KEYRING), b"half a keyr").unwrap();
    let mut rng = random();
    let mut reopened = reopen(&vault).unwrap();
    assert_eq!(contents(&reopened), contents(&vault));
    reopened.change_unlock(&key_file(2), lowest_cost(), &mut rng).unwrap();
    assert!(leftovers(&vault).is_empty(), "{:?}", leftovers(&vault));
    fs::write(vault.directory().join(NEXT_KEYRING), b"half a keyr").unwrap();
    let code = add_recovery(&mut vault, &mut rng).unwrap();
    recover(&vault, &code).unwrap();
    Vault::open(vault.directory(), &key_file(2)).unwrap();
    assert!(leftovers(&vault).is_empty());
}

#[test]
fn a_change_of_passphrase_is_no_commit() {
    let (_parent, mut vault) = vault_with_values();
    let (head, bytes) = (vault.head().unwrap(), fs::read(vault.database()).unwrap());
    vault.change_unlock(&key_file(2), lowest_cost(), &mut random()).unwrap();
    add_recovery(&mut vault, &mut random()).unwrap();
    assert_eq!(vault.head().unwrap(), head);
    assert!(fs::read(vault.database()).unwrap() == bytes);
}
