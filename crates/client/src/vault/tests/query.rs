//! Vaults that hold the secret of one epoch and no master secret.

use super::*;

fn query_vault() -> (TempDir, Vault) {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("vault");
    let secret = EpochSecret::from_bytes(&[5; 32]);
    let vault = Vault::create_query(&directory, secret, &key_file(1), lowest_cost(), &mut random());
    (parent, vault.unwrap())
}

#[test]
fn a_query_vault_has_its_epochs_secret_and_no_other() {
    let (_parent, vault) = query_vault();
    let vault = reopen(&vault).unwrap();
    assert_eq!(vault.access(), VaultAccess::Query);
    assert_eq!(vault.epoch_secret().unwrap().expose(), &[5; 32]);
    let error = vault.master().unwrap_err();
    assert!(matches!(error, VaultError::QueryVault { .. }), "{error}");
    assert!(error.to_string().contains("query vault"));
}

#[test]
fn a_query_vault_has_its_own_passphrase_and_no_recovery_code() {
    let (_parent, mut vault) = query_vault();
    let mut rng = random();
    vault.change_unlock(&key_file(2), lowest_cost(), &mut rng).unwrap();
    let reopened = Vault::open(vault.directory(), &key_file(2)).unwrap();
    assert_eq!(reopened.access(), VaultAccess::Query);
    assert!(matches!(vault.prepare_recovery(&mut rng), Err(VaultError::QueryVault { .. })));
    assert!(!vault.has_recovery());
}

#[test]
fn the_keyring_cannot_be_made_to_say_another_kind() {
    let (_parent, vault) = query_vault();
    let file = vault.directory().join(KEYRING);
    let mut bytes = fs::read(&file).unwrap();
    bytes[10..12].copy_from_slice(&kind::Content::Keyring.code().to_le_bytes());
    repair_checksum(&mut bytes);
    let opened = with_bytes(&file, &bytes, || reopen(&vault));
    assert!(matches!(opened, Err(VaultError::WrongUnlock { .. })));
}
