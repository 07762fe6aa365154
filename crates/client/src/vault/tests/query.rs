//! Vaults that hold the secret of one epoch and no master secret.

use shard_protocol::Epoch;

use super::*;

const EPOCH: SaltedEpoch = SaltedEpoch { epoch: Epoch(1), salt: [3; 32] };

/// An owner's vault in an epoch, and a query vault of it.
fn query_vault() -> (TempDir, Vault, Vault) {
    let (parent, mut owner) = vault_with_values();
    let mut rng = random_after(&owner);
    let mut transaction = owner.transaction(&mut rng).unwrap();
    transaction.begin_epoch(EPOCH).unwrap();
    for slot in [Slot::Model, Slot::Names, Slot::Routing(2)] {
        transaction.put(slot, slot.to_string().as_bytes(), &mut rng).unwrap();
    }
    transaction.commit(&mut rng).unwrap();
    let secret = epoch_secret(owner.master().unwrap(), &EPOCH);
    let directory = parent.path().join("query");
    let snapshot = owner.snapshot().unwrap();
    let unlock = key_file(1);
    let vault =
        Vault::create_query(&directory, secret, &unlock, lowest_cost(), &snapshot, &mut rng);
    (parent, owner, vault.unwrap())
}

#[test]
fn a_query_vault_has_its_epochs_secret_and_no_other() {
    let (_parent, owner, vault) = query_vault();
    let vault = reopen(&vault).unwrap();
    assert_eq!(vault.access(), VaultAccess::Query);
    let expected = epoch_secret(owner.master().unwrap(), &EPOCH);
    assert_eq!(vault.epoch_secret().unwrap().expose(), expected.expose());
    let error = vault.master().unwrap_err();
    assert!(matches!(error, VaultError::QueryVault { .. }), "{error}");
    assert!(error.to_string().contains("query vault"));
}

#[test]
fn a_query_vault_is_the_commit_of_its_owners_with_the_values_for_searching() {
    let (_parent, owner, vault) = query_vault();
    assert_eq!(vault.head().unwrap(), owner.head().unwrap());
    let snapshot = vault.snapshot().unwrap();
    for slot in [Slot::Model, Slot::Names, Slot::Routing(2)] {
        assert_eq!(&snapshot.read(slot).unwrap()[..], slot.to_string().as_bytes());
        assert_eq!(snapshot.sealed(slot).unwrap(), owner.snapshot().unwrap().sealed(slot).unwrap());
    }
    let mut ids = database::ids(&snapshot.db, &snapshot.file).unwrap().into_iter();
    assert!(ids.all(|id| Slot::from_id(id).unwrap().is_shared()), "an owner's value");
    for slot in [Slot::Settings, Slot::Vectors(0), Slot::History(0)] {
        assert!(snapshot.contains(slot), "the root lists it");
        assert!(snapshot.read(slot).is_err(), "and it is not here");
    }
    assert!(!snapshot.contains(Slot::Routing(0)), "of the keys before the epoch");
    snapshot.verify().unwrap();
    assert_eq!(snapshot.whole_history().unwrap(), []);
    let head = owner.head().unwrap();
    assert_eq!(snapshot.commit_at(head.generation).unwrap(), Some(head.name));
    assert_eq!(snapshot.commit_at(head.generation - 1).unwrap(), None);
}

#[test]
fn an_owners_value_does_not_open_in_a_query_vault_even_if_it_is_put_there() {
    let (_parent, owner, vault) = query_vault();
    let sealed = owner.snapshot().unwrap().sealed(Slot::Settings).unwrap();
    let put = "INSERT INTO vals (id, value) VALUES (?1, ?2)";
    raw(&vault).execute(put, (Slot::Settings.id(), sealed)).unwrap();
    let error = reopen(&vault).unwrap().snapshot().unwrap().read(Slot::Settings).unwrap_err();
    assert!(matches!(error, VaultError::QueryVault { .. }), "{error}");
}

#[test]
fn a_query_vault_is_not_written_to() {
    let (_parent, _owner, mut vault) = query_vault();
    let mut rng = random();
    let before = contents_for_searching(&vault);
    let mut transaction = vault.transaction(&mut rng).unwrap();
    let refused = transaction.put(Slot::Settings, b"mine", &mut rng).unwrap_err();
    assert!(matches!(refused, VaultError::QueryVault { .. }), "{refused}");
    drop(transaction);
    assert_eq!(contents_for_searching(&vault), before);
}

fn contents_for_searching(vault: &Vault) -> Vec<Vec<u8>> {
    let snapshot = vault.snapshot().unwrap();
    let slots = snapshot.root().entries.keys().filter(|slot| slot.is_shared());
    slots.map(|slot| snapshot.read(*slot).unwrap().to_vec()).collect()
}

#[test]
fn a_query_vault_has_its_own_passphrase_and_no_recovery_code() {
    let (_parent, _owner, mut vault) = query_vault();
    let mut rng = random();
    vault.change_unlock(&key_file(2), lowest_cost(), &mut rng).unwrap();
    let reopened = Vault::open(vault.directory(), &key_file(2)).unwrap();
    assert_eq!(reopened.access(), VaultAccess::Query);
    assert!(matches!(vault.prepare_recovery(&mut rng), Err(VaultError::QueryVault { .. })));
    assert!(!vault.has_recovery());
}

#[test]
fn the_keyring_cannot_be_made_to_say_another_kind() {
    let (_parent, _owner, vault) = query_vault();
    let file = vault.directory().join(KEYRING);
    let mut bytes = fs::read(&file).unwrap();
    bytes[10..12].copy_from_slice(&(frame::Content::Keyring as u16).to_le_bytes());
    repair_checksum(&mut bytes);
    let opened = with_bytes(&file, &bytes, || reopen(&vault));
    assert!(matches!(opened, Err(VaultError::WrongUnlock { .. })));
}
