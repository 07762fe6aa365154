//! Damage to the files of a vault is noticed, and named for what it is.

use super::*;

/// Opens the vault and every value of it.
fn read_everything(vault: &Vault) -> Result<(), VaultError> {
    reopen(vault)?.snapshot()?.verify().map(drop)
}

#[test]
fn every_bit_of_the_keyring_counts() {
    let (_parent, vault) = vault_with_values();
    let file = vault.directory().join(KEYRING);
    let original = fs::read(&file).unwrap();
    for bit in 0..original.len() * 8 {
        let mut bytes = original.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = with_bytes(&file, &bytes, || reopen(&vault)).unwrap_err();
        let expected = match bit / 8 {
            0..8 => matches!(error, VaultError::NotShardFile { .. }),
            8..10 => matches!(error, VaultError::UnsupportedVersion { .. }),
            20..28 => matches!(error, VaultError::Truncated { .. } | VaultError::Overlong { .. }),
            _ => matches!(error, VaultError::Damaged { .. }),
        };
        assert!(expected, "bit {bit}: {error}");
        assert!(error.to_string().contains(file.to_str().unwrap()));
    }
    read_everything(&vault).unwrap();
}

#[test]
fn every_bit_of_the_keyring_counts_even_with_a_repaired_checksum() {
    let (_parent, vault) = vault_with_values();
    let file = vault.directory().join(KEYRING);
    let original = fs::read(&file).unwrap();
    let body = frame::HEADER_BYTES..original.len() - frame::CHECKSUM_BYTES;
    // Content and generation, then the payload.
    for bit in (10 * 8..20 * 8).chain(body.start * 8..body.end * 8) {
        let mut bytes = original.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        repair_checksum(&mut bytes);
        let error = with_bytes(&file, &bytes, || reopen(&vault)).unwrap_err();
        let expected = matches!(
            error,
            VaultError::WrongUnlock { .. }
                | VaultError::UnlockMismatch { .. }
                | VaultError::KdfCost { .. }
                | VaultError::Malformed { .. }
                | VaultError::Misplaced { .. }
        );
        assert!(expected, "bit {bit}: {error}");
    }
}

#[test]
fn a_keyring_that_is_cut_or_goes_on_or_is_no_keyring_is_refused() {
    let (_parent, vault) = vault_with_values();
    let file = vault.directory().join(KEYRING);
    let original = fs::read(&file).unwrap();
    for length in 0..original.len() {
        let error = with_bytes(&file, &original[..length], || reopen(&vault)).unwrap_err();
        let VaultError::Truncated { expected, actual, .. } = error else {
            panic!("cut to {length}: {error}");
        };
        assert_eq!(actual, length as u64);
        if length >= frame::HEADER_BYTES {
            assert_eq!(expected, original.len() as u64);
        }
    }
    let longer = [&original[..], &[0]].concat();
    let error = with_bytes(&file, &longer, || reopen(&vault)).unwrap_err();
    assert!(matches!(error, VaultError::Overlong { .. }), "{error}");
    let error = with_bytes(&file, b"# notes", || reopen(&vault)).unwrap_err();
    assert!(matches!(error, VaultError::NotShardFile { .. }), "{error}");
    let mut newer = original.clone();
    newer[8..10].copy_from_slice(&700_u16.to_le_bytes());
    repair_checksum(&mut newer);
    let error = with_bytes(&file, &newer, || reopen(&vault)).unwrap_err();
    assert!(matches!(error, VaultError::UnsupportedVersion { found: 700, supported: 1, .. }));
}

#[test]
fn a_database_that_is_cut_short_is_refused_unless_nothing_of_it_is_lost() {
    let (_parent, mut vault) = vault_with_values();
    // Over several pages.
    commit(&mut vault, &[(Slot::Vectors(1), &vec![5; 100_000])]);
    let (file, before) = (vault.database(), contents(&vault));
    let original = fs::read(&file).unwrap();
    let lengths = (0..200).chain((200..original.len()).step_by(original.len() / 300));
    let mut longest_refused = 0;
    for length in lengths {
        with_bytes(&file, &original[..length], || match read_everything(&vault) {
            // The end of the last page is not used.
            Ok(()) => assert!(contents(&vault) == before, "{length}"),
            Err(error) => {
                longest_refused = length;
                assert!(error.to_string().contains(file.to_str().unwrap()), "{length}: {error}");
            }
        });
    }
    assert!(longest_refused > original.len() - (32 << 10), "{longest_refused}");
    read_everything(&vault).unwrap();
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let (_parent, vault) = vault_with_values();
    let file = vault.database();
    for bytes in [&b"# notes"[..], &[0; 100_000], &[7; 100_000]] {
        let error = with_bytes(&file, bytes, || read_everything(&vault)).unwrap_err();
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    }
}

#[test]
fn the_database_of_another_vault_is_refused() {
    let (_parent, vault) = vault_with_values();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut rng = StdRng::seed_from_u64(99);
    let (unlock, values) = (key_file(1), &VALUES[..]);
    let other = Vault::create(elsewhere.path(), &unlock, lowest_cost(), values, &mut rng).unwrap();
    let bytes = fs::read(other.database()).unwrap();
    let error = with_bytes(&vault.database(), &bytes, || reopen(&vault)).unwrap_err();
    assert!(matches!(&error, VaultError::SealBroken { value, .. } if value == "root"), "{error}");
    // And the keyring of another.
    let bytes = fs::read(other.directory().join(KEYRING)).unwrap();
    let keyring = vault.directory().join(KEYRING);
    let error = with_bytes(&keyring, &bytes, || reopen(&vault)).unwrap_err();
    assert!(matches!(error, VaultError::SealBroken { .. }), "{error}");
}
