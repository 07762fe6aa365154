//! Tests of the vault as a whole. What concerns one module only is tested there.

mod crash;
mod damage;
mod golden;
mod kill;
mod lifecycle;
mod query;
mod recovery;
mod round_trip;
mod unlock;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_core::{TryCryptoRng, TryRng};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zeroize::Zeroizing;

use super::keyring::KeyringSecret;
use super::*;

fn random() -> StdRng {
    StdRng::seed_from_u64(2026)
}

/// Bytes that count up: for fixtures, which must come out the same with every version of `rand`.
struct CountingRng(u8);

impl TryRng for CountingRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut word = [0; 4];
        self.try_fill_bytes(&mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut word = [0; 8];
        self.try_fill_bytes(&mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    fn try_fill_bytes(&mut self, target: &mut [u8]) -> Result<(), Infallible> {
        for byte in target {
            *byte = self.0;
            self.0 = self.0.wrapping_add(1);
        }
        Ok(())
    }
}

impl TryCryptoRng for CountingRng {}

fn passphrase(text: &str) -> Unlock {
    Unlock::Passphrase(Zeroizing::new(text.to_owned()))
}

/// A key file of equal bytes. Tests that are not about passphrases use key files: they cost nothing.
fn key_file(byte: u8) -> Unlock {
    Unlock::KeyFile(Zeroizing::new(vec![byte; MIN_KEY_FILE_BYTES]))
}

/// The least work Argon2 does.
fn lowest_cost() -> KdfCost {
    KdfCost::new(8, 1, 1).unwrap()
}

/// A new vault in `vault` below a temporary directory.
fn new_vault() -> (TempDir, Vault) {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("vault");
    let vault = Vault::create(&directory, &key_file(1), lowest_cost(), &mut random()).unwrap();
    (parent, vault)
}

fn reopen(vault: &Vault) -> Result<Vault, VaultError> {
    Vault::open(vault.directory(), &key_file(1))
}

/// Commits these payloads in one transaction.
fn commit(vault: &mut Vault, payloads: &[(FileKind, &[u8])]) {
    // Seeded by the generation: equal randomness for two commits would repeat nonces.
    let mut rng = StdRng::seed_from_u64(1 + vault.generation());
    let mut transaction = vault.transaction().unwrap();
    for (kind, payload) in payloads {
        transaction.write(*kind, payload, &mut rng).unwrap();
    }
    transaction.commit(&mut rng).unwrap();
}

/// A vault with a short payload of every kind: its name.
fn vault_with_every_kind() -> (TempDir, Vault) {
    let (parent, mut vault) = new_vault();
    commit(&mut vault, &FileKind::ALL.map(|kind| (kind, kind.name().as_bytes())));
    (parent, vault)
}

/// The file that holds a kind's present payload.
fn file_of(vault: &Vault, kind: FileKind) -> PathBuf {
    let generation = vault.manifest.entries[&kind].generation;
    vault.directory().join(kind.file_name(generation))
}

/// All payloads of a vault.
fn contents(vault: &Vault) -> BTreeMap<FileKind, Vec<u8>> {
    FileKind::ALL
        .into_iter()
        .filter(|&kind| vault.contains(kind))
        .map(|kind| (kind, vault.read(kind).unwrap().to_vec()))
        .collect()
}

/// The names in a vault's directory that its manifest does not account for.
fn leftovers(vault: &Vault) -> Vec<String> {
    let mut names = vault.disk.names().unwrap();
    let listed: Vec<PathBuf> =
        vault.manifest.entries.keys().map(|&kind| file_of(vault, kind)).collect();
    names.retain(|name| {
        ![KEYRING, RECOVERY, MANIFEST, LOCK].contains(&name.as_str())
            && !listed.contains(&vault.directory().join(name))
    });
    names
}

/// Gives changed bytes the checksum that belongs to them, as somebody who means harm would.
fn repair_checksum(bytes: &mut [u8]) {
    let (framed, checksum) = bytes.split_at_mut(bytes.len() - frame::CHECKSUM_BYTES);
    let (header, payload) = framed.split_at(frame::HEADER_BYTES);
    let hash = Sha256::new().chain_update(payload).chain_update(header).finalize();
    checksum.copy_from_slice(&hash);
}

/// Replaces a file's bytes for the duration of `check`.
fn with_bytes<T>(file: &Path, bytes: &[u8], check: impl FnOnce() -> T) -> T {
    // In place: some file systems wait for the disk when a file is emptied and written anew.
    let put = |bytes: &[u8]| {
        let mut file = fs::OpenOptions::new().write(true).open(file).unwrap();
        file.write_all(bytes).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
    };
    let original = fs::read(file).unwrap();
    put(bytes);
    let outcome = check();
    put(&original);
    outcome
}
