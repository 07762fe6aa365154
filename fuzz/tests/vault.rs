//! The files of a vault, damaged on disk.

use std::fs;
use std::path::{Path, PathBuf};

use bolero::check;
use rand::SeedableRng;
use rand::rngs::StdRng;
use sha2::{Digest, Sha256};
use shard_client::vault::{FileKind, KdfCost, MIN_KEY_FILE_BYTES, Unlock, Vault, VaultError};
use shard_fuzz::{SCRIPT_BYTES, damage};
use tempfile::TempDir;
use zeroize::Zeroizing;

const ITERATIONS: usize = 2000;

/// The header of a file, and the checksum at its end, as docs/FORMAT.md has them.
const HEADER_BYTES: usize = 28;
const CHECKSUM_BYTES: usize = 32;

fn unlock() -> Unlock {
    Unlock::KeyFile(Zeroizing::new(vec![5; MIN_KEY_FILE_BYTES]))
}

/// A vault with a payload of every kind.
fn vault() -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let directory = parent.path().join("vault");
    let mut random = StdRng::seed_from_u64(1);
    let cost = KdfCost::new(8, 1, 1).expect("the lowest cost");
    let mut vault = Vault::create(&directory, &unlock(), cost, &mut random).expect("a new vault");
    let mut transaction = vault.transaction().expect("nobody else writes");
    for kind in FileKind::ALL {
        transaction.write(kind, kind.name().as_bytes(), &mut random).expect("a few bytes");
    }
    transaction.commit(&mut random).expect("a new generation");
    (parent, directory)
}

/// Opens a vault and reads all of it.
fn read_everything(directory: &Path) -> Result<(), VaultError> {
    let vault = Vault::open(directory, &unlock())?;
    FileKind::ALL.into_iter().try_for_each(|kind| vault.read(kind).map(drop))
}

/// Makes length and checksum true again, so that damage reaches what lies behind them.
fn repair(bytes: &mut [u8]) {
    let Some(length) = bytes.len().checked_sub(HEADER_BYTES + CHECKSUM_BYTES) else { return };
    bytes[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&(length as u64).to_le_bytes());
    let (framed, checksum) = bytes.split_at_mut(HEADER_BYTES + length);
    let (header, payload) = framed.split_at(HEADER_BYTES);
    let digest = Sha256::new().chain_update(payload).chain_update(header).finalize();
    checksum.copy_from_slice(&digest);
}

#[test]
fn damaged_files() {
    let (_parent, directory) = vault();
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
        .expect("the vault's directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.metadata().is_ok_and(|metadata| metadata.len() > 0))
        .collect();
    files.sort();
    assert_eq!(files.len(), 2 + FileKind::ALL.len(), "keyring, manifest and payloads");
    let sound: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).expect("a file")).collect();
    read_everything(&directory).expect("a sound vault");
    check!().with_iterations(ITERATIONS).with_max_len(2 + SCRIPT_BYTES).for_each(
        |input: &[u8]| {
            let Some((&[which, mend], script)) = input.split_first_chunk() else { return };
            let which = usize::from(which) % files.len();
            let mut bytes = damage(&sound[which], script);
            if mend % 2 == 1 {
                repair(&mut bytes);
            }
            fs::write(&files[which], &bytes).expect("a file to write");
            let outcome = read_everything(&directory);
            fs::write(&files[which], &sound[which]).expect("a file to restore");
            assert_eq!(outcome.is_ok(), bytes == sound[which], "{}", files[which].display());
        },
    );
}
