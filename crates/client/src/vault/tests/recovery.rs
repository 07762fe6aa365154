//! Changing what opens a vault: passphrases, recovery codes, and a kill in between.

use super::*;
use crate::vault::faults::{Failure, Operation};

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
    let (_parent, mut vault) = vault_with_every_kind();
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
    let transaction = writer.transaction().unwrap();
    let mut rng = random();
    let changed = vault.change_unlock(&key_file(2), lowest_cost(), &mut rng);
    assert!(matches!(changed, Err(VaultError::Locked { .. })));
    assert!(matches!(add_recovery(&mut vault, &mut rng), Err(VaultError::Locked { .. })));
    drop(transaction);
    vault.change_unlock(&key_file(2), lowest_cost(), &mut rng).unwrap();
}

#[test]
fn a_recovery_code_opens_the_vault_whatever_became_of_the_passphrase() {
    let (_parent, mut vault) = vault_with_every_kind();
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

/// Runs a change of keyring with a failure at every step in turn; `check` is given the vault, whether
/// the change claimed success, and whether the new key opens it. One of the keys must.
fn at_every_step(failure: Failure, check: impl Fn(Vault, bool, bool)) {
    for step in 0.. {
        let (_parent, mut vault) = vault_with_every_kind();
        let before = contents(&vault);
        vault.disk.faults.arm(failure, step);
        let outcome = vault.change_unlock(&key_file(2), lowest_cost(), &mut random());
        if !vault.disk.faults.struck() {
            assert!(outcome.is_ok() && step >= 3, "only {step} steps were tried");
            return;
        }
        vault.disk.faults.disarm();
        let old = reopen(&vault);
        let new = Vault::open(vault.directory(), &key_file(2));
        assert!(old.is_ok() != new.is_ok(), "both or neither key opens after step {step}");
        let is_new = new.is_ok();
        let mut reopened = new.or(old).unwrap();
        assert_eq!(contents(&reopened), before);
        check(vault, outcome.is_ok(), is_new);
        // The next writer clears up and works.
        commit(&mut reopened, &[(FileKind::Model, b"next")]);
        assert!(leftovers(&reopened).is_empty());
    }
}

#[test]
fn a_kill_while_the_keyring_is_replaced_leaves_one_key_that_opens() {
    at_every_step(Failure::Killed, |_, succeeded, is_new| {
        assert!(!succeeded || is_new, "success without effect");
    });
}

#[test]
fn a_full_disk_leaves_the_old_keyring_and_no_litter() {
    at_every_step(Failure::DiskFull, |vault, succeeded, is_new| {
        assert!(!succeeded && !is_new);
        assert!(leftovers(&vault).is_empty(), "{:?}", leftovers(&vault));
    });
}

#[test]
fn one_failing_operation_never_loses_the_vault() {
    at_every_step(Failure::Once, |_, succeeded, is_new| {
        assert!(!succeeded || is_new, "success without effect");
    });
}

#[test]
fn a_keyring_is_on_disk_before_it_takes_the_place_of_another() {
    let (_parent, mut vault) = new_vault();
    vault.disk.faults.disarm();
    vault.change_unlock(&key_file(2), lowest_cost(), &mut random()).unwrap();
    let log = vault.disk.faults.log();
    let position = |wanted: Operation, name: &str| {
        log.iter().position(|(operation, named)| *operation == wanted && named == name).unwrap()
    };
    let sync = position(Operation::SyncFile, NEXT_KEYRING);
    let rename = position(Operation::Rename, KEYRING);
    assert!(position(Operation::Write, NEXT_KEYRING) < sync && sync < rename);
    assert!(rename < position(Operation::SyncDirectory, ""));
}
