//! Whatever happens to the bytes on disk is noticed, and named for what it is.

use super::*;

/// The files the vault writes for itself and one payload of each kind, with how each is read.
fn every_file(vault: &Vault) -> Vec<(PathBuf, Option<FileKind>)> {
    [KEYRING, MANIFEST]
        .map(|name| (vault.directory().join(name), None))
        .into_iter()
        .chain(FileKind::ALL.map(|kind| (file_of(vault, kind), Some(kind))))
        .collect()
}

/// Opens the vault and reads the payload, if it is one.
fn access(vault: &Vault, kind: Option<FileKind>) -> Result<(), VaultError> {
    let reopened = reopen(vault)?;
    kind.map_or(Ok(()), |kind| reopened.read(kind).map(drop))
}

#[test]
fn every_single_bit_flip_is_detected() {
    let (_parent, vault) = vault_with_every_kind();
    for (file, kind) in every_file(&vault) {
        let original = fs::read(&file).unwrap();
        for bit in 0..original.len() * 8 {
            let mut bytes = original.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = with_bytes(&file, &bytes, || access(&vault, kind)).unwrap_err();
            let expected = match bit / 8 {
                0..8 => matches!(error, VaultError::NotShardFile { .. }),
                8..10 => matches!(error, VaultError::UnsupportedVersion { .. }),
                20..28 => {
                    matches!(error, VaultError::Truncated { .. } | VaultError::Overlong { .. })
                }
                _ => matches!(error, VaultError::Damaged { .. }),
            };
            assert!(expected, "{} bit {bit}: {error}", file.display());
            assert!(error.to_string().contains(file.to_str().unwrap()));
        }
        access(&vault, kind).unwrap();
    }
}

#[test]
fn every_bit_flip_with_a_repaired_checksum_is_detected() {
    let (_parent, vault) = vault_with_every_kind();
    for (file, kind) in every_file(&vault) {
        let original = fs::read(&file).unwrap();
        let body = frame::HEADER_BYTES..original.len() - frame::CHECKSUM_BYTES;
        // Content and generation, then the payload.
        for position in (10..20).chain(body) {
            for bit in 0..8 {
                let mut bytes = original.clone();
                bytes[position] ^= 1 << bit;
                repair_checksum(&mut bytes);
                let error = with_bytes(&file, &bytes, || access(&vault, kind)).unwrap_err();
                let expected = match file.file_name().unwrap().to_str().unwrap() {
                    KEYRING => matches!(
                        error,
                        VaultError::WrongUnlock { .. }
                            | VaultError::UnlockMismatch { .. }
                            | VaultError::KdfCost { .. }
                            | VaultError::Malformed { .. }
                            | VaultError::Misplaced { .. }
                    ),
                    MANIFEST => matches!(
                        error,
                        VaultError::SealBroken { .. } | VaultError::Misplaced { .. }
                    ),
                    _ => matches!(error, VaultError::Misplaced { .. }),
                };
                assert!(expected, "{} byte {position}: {error}", file.display());
            }
        }
    }
}

#[test]
fn every_truncation_is_detected() {
    let (_parent, vault) = vault_with_every_kind();
    for (file, kind) in every_file(&vault) {
        let original = fs::read(&file).unwrap();
        for length in 0..original.len() {
            let error =
                with_bytes(&file, &original[..length], || access(&vault, kind)).unwrap_err();
            let VaultError::Truncated { expected, actual, .. } = error else {
                panic!("{} cut to {length}: {error}", file.display());
            };
            assert_eq!(actual, length as u64);
            if length >= frame::HEADER_BYTES {
                assert_eq!(expected, original.len() as u64);
            }
        }
    }
}

#[test]
fn appended_bytes_are_detected() {
    let (_parent, vault) = vault_with_every_kind();
    for (file, kind) in every_file(&vault) {
        let mut bytes = fs::read(&file).unwrap();
        bytes.push(0);
        let error = with_bytes(&file, &bytes, || access(&vault, kind)).unwrap_err();
        assert!(matches!(error, VaultError::Overlong { .. }), "{error}");
    }
}

#[test]
fn a_file_that_is_not_ours_is_named_as_such() {
    let (_parent, vault) = vault_with_every_kind();
    for (file, kind) in every_file(&vault) {
        let error = with_bytes(&file, b"# notes", || access(&vault, kind)).unwrap_err();
        assert!(matches!(error, VaultError::NotShardFile { .. }), "{error}");
    }
}

#[test]
fn a_version_from_the_future_is_refused_by_number() {
    let (_parent, vault) = vault_with_every_kind();
    for (file, kind) in every_file(&vault) {
        let mut bytes = fs::read(&file).unwrap();
        bytes[8..10].copy_from_slice(&700_u16.to_le_bytes());
        repair_checksum(&mut bytes);
        let error = with_bytes(&file, &bytes, || access(&vault, kind)).unwrap_err();
        assert!(matches!(error, VaultError::UnsupportedVersion { found: 700, supported: 1, .. }));
    }
}

#[test]
fn files_of_two_kinds_cannot_be_swapped() {
    let (_parent, vault) = vault_with_every_kind();
    for kind in FileKind::ALL {
        for other in FileKind::ALL.into_iter().filter(|&other| other != kind) {
            let bytes = fs::read(file_of(&vault, other)).unwrap();
            let file = file_of(&vault, kind);
            let error = with_bytes(&file, &bytes, || access(&vault, Some(kind))).unwrap_err();
            assert!(matches!(error, VaultError::Misplaced { .. }), "{error}");
        }
    }
}

#[test]
fn a_file_of_an_older_generation_cannot_be_put_back() {
    let (_parent, mut vault) = vault_with_every_kind();
    let old = FileKind::ALL.map(|kind| fs::read(file_of(&vault, kind)).unwrap());
    commit(&mut vault, &FileKind::ALL.map(|kind| (kind, &b"newer"[..])));
    for (kind, old) in FileKind::ALL.into_iter().zip(old) {
        // The claim to belong to the newer generation changes nothing.
        let mut relabelled = old.clone();
        relabelled[12..20].copy_from_slice(&2_u64.to_le_bytes());
        repair_checksum(&mut relabelled);
        for bytes in [&old, &relabelled] {
            let file = file_of(&vault, kind);
            let error = with_bytes(&file, bytes, || access(&vault, Some(kind))).unwrap_err();
            assert!(matches!(error, VaultError::Misplaced { .. }), "{error}");
        }
    }
}

#[test]
fn a_file_of_the_same_kind_and_generation_from_an_abandoned_transaction_is_refused() {
    let (_parent, mut vault) = new_vault();
    let file = vault.directory().join(FileKind::Model.file_name(1));
    let mut transaction = vault.transaction().unwrap();
    transaction.write(FileKind::Model, b"other", &mut StdRng::seed_from_u64(77)).unwrap();
    let abandoned = fs::read(&file).unwrap();
    drop(transaction);
    commit(&mut vault, &[(FileKind::Model, b"model")]);
    let error =
        with_bytes(&file, &abandoned, || access(&vault, Some(FileKind::Model)).unwrap_err());
    assert!(matches!(error, VaultError::Misplaced { .. }), "{error}");
}

#[test]
fn an_older_manifest_alone_does_not_bring_back_an_older_payload() {
    let (_parent, mut vault) = vault_with_every_kind();
    let manifest = vault.directory().join(MANIFEST);
    let old = fs::read(&manifest).unwrap();
    commit(&mut vault, &[(FileKind::Model, b"second")]);
    fs::write(&manifest, old).unwrap();
    let error = access(&vault, Some(FileKind::Model)).unwrap_err();
    assert!(matches!(error, VaultError::Missing { .. }), "{error}");
}

#[test]
fn the_manifest_of_another_vault_is_refused() {
    let (_parent, vault) = vault_with_every_kind();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut rng = StdRng::seed_from_u64(99);
    let other = Vault::create(elsewhere.path(), &key_file(1), lowest_cost(), &mut rng).unwrap();
    let bytes = fs::read(other.directory().join(MANIFEST)).unwrap();
    let manifest = vault.directory().join(MANIFEST);
    let error = with_bytes(&manifest, &bytes, || access(&vault, None)).unwrap_err();
    assert!(matches!(error, VaultError::SealBroken { .. }), "{error}");
}

#[test]
fn a_missing_file_is_reported_by_name() {
    let (_parent, vault) = vault_with_every_kind();
    let file = file_of(&vault, FileKind::Index);
    fs::remove_file(&file).unwrap();
    let error = access(&vault, Some(FileKind::Index)).unwrap_err();
    assert!(matches!(&error, VaultError::Missing { file: named } if *named == file));
    fs::remove_file(vault.directory().join(KEYRING)).unwrap();
    assert!(matches!(access(&vault, None), Err(VaultError::Missing { .. })));
    fs::remove_file(vault.directory().join(MANIFEST)).unwrap();
    assert!(matches!(access(&vault, None), Err(VaultError::NotAVault { .. })));
}

#[test]
fn a_chunk_altered_after_the_check_stops_the_stream_for_good() {
    use std::io::{Read, Seek, SeekFrom};
    let (_parent, mut vault) = new_vault();
    commit(&mut vault, &[(FileKind::Vectors, &vec![5; 3 << 20])]);
    let mut reader = vault.reader(FileKind::Vectors).unwrap();
    let mut file =
        fs::OpenOptions::new().write(true).open(file_of(&vault, FileKind::Vectors)).unwrap();
    // Within the last of three chunks.
    file.seek(SeekFrom::Start((2 << 20) + 1000)).unwrap();
    file.write_all(b"overwritten while being read").unwrap();
    let mut read = Vec::new();
    let error = reader.read_to_end(&mut read).unwrap_err();
    assert!(error.to_string().contains("seal does not open"), "{error}");
    assert_eq!(read.len(), 2 << 20, "the chunks before it were good");
    assert!(read.iter().all(|&byte| byte == 5));
    assert!(reader.read(&mut [0]).is_err(), "a failure is not an end");
}

#[test]
fn a_release_altered_after_the_check_is_never_taken_for_the_one_committed() {
    use std::io::{Read, Seek, SeekFrom};
    let (_parent, mut vault) = new_vault();
    commit(&mut vault, &[(FileKind::PublishedRows, &vec![5; 3 << 20])]);
    // At the start, within the second chunk, and the very last byte.
    for position in [0, (1 << 20) + 1000, (3 << 20) - 1] {
        let altered = || {
            let reader = vault.reader(FileKind::PublishedRows).unwrap();
            let mut file = fs::OpenOptions::new()
                .write(true)
                .open(file_of(&vault, FileKind::PublishedRows))
                .unwrap();
            let put = |file: &mut File, byte| {
                file.seek(SeekFrom::Start(frame::HEADER_BYTES as u64 + position)).unwrap();
                file.write_all(&[byte]).unwrap();
            };
            put(&mut file, 6);
            (reader, move || put(&mut file, 5))
        };
        let (reader, mut restore) = altered();
        let error = reader.read_all().unwrap_err();
        assert!(matches!(error, VaultError::Damaged { .. }), "{error}");
        restore();

        let (mut reader, mut restore) = altered();
        let mut read = Vec::new();
        let error = reader.read_to_end(&mut read).unwrap_err();
        assert!(error.to_string().contains("checksum does not match"), "{error}");
        assert!(read.len() <= 2 << 20, "the last bytes wait for the check");
        assert!(reader.read(&mut [0]).is_err(), "a failure is not an end");
        restore();
        assert_eq!(vault.read(FileKind::PublishedRows).unwrap().len(), 3 << 20);
    }
}
