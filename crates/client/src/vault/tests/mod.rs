//! Tests of the vault as a whole. What concerns one module only is tested there.

mod alteration;
mod damage;
mod golden;
mod history;
mod kill;
mod lifecycle;
mod processes;
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
use super::value::FORMAT;
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

/// Values of a vault, in slots of every sort.
const VALUES: [(Slot, &[u8]); 6] = [
    (Slot::Settings, b"settings"),
    (Slot::Drift, b""),
    (Slot::Vectors(0), b"vectors of the first chunk"),
    (Slot::Vectors(9), b"vectors of the tenth chunk"),
    (Slot::Model, b"model"),
    (Slot::Routing(0), b"routing of the first chunk"),
];

/// Makes a vault without values.
fn create(directory: &Path, unlock: &Unlock) -> Result<Vault, VaultError> {
    Vault::create(directory, unlock, lowest_cost(), &[], &mut random())
}

/// A new vault in `vault` below a temporary directory.
fn new_vault() -> (TempDir, Vault) {
    let parent = tempfile::tempdir().unwrap();
    let vault = create(&parent.path().join("vault"), &key_file(1)).unwrap();
    (parent, vault)
}

/// A vault with [`VALUES`].
fn vault_with_values() -> (TempDir, Vault) {
    let (parent, mut vault) = new_vault();
    commit(&mut vault, &VALUES);
    (parent, vault)
}

fn reopen(vault: &Vault) -> Result<Vault, VaultError> {
    Vault::open(vault.directory(), &key_file(1))
}

fn generation(vault: &Vault) -> u64 {
    vault.head().unwrap().generation
}

/// Randomness for the next commit: of one seed, two commits would repeat nonces.
fn random_after(vault: &Vault) -> StdRng {
    StdRng::seed_from_u64(1 + generation(vault))
}

/// Commits these values in one transaction.
fn commit(vault: &mut Vault, values: &[(Slot, &[u8])]) {
    let mut rng = random_after(vault);
    let mut transaction = vault.transaction(&mut rng).unwrap();
    for (slot, plain) in values {
        transaction.put(*slot, plain, &mut rng).unwrap();
    }
    transaction.commit(&mut rng).unwrap();
}

/// All values of a commit but the names of commits.
fn values_of(snapshot: &Snapshot) -> BTreeMap<Slot, Vec<u8>> {
    let slots = snapshot.root().entries.keys().copied();
    slots
        .filter(|slot| !matches!(slot, Slot::History(_)))
        .map(|slot| (slot, snapshot.read(slot).unwrap().to_vec()))
        .collect()
}

/// All values of a vault but the names of commits.
fn contents(vault: &Vault) -> BTreeMap<Slot, Vec<u8>> {
    values_of(&vault.snapshot().unwrap())
}

/// The names in a vault's directory that a vault at rest does not have.
fn leftovers(vault: &Vault) -> Vec<String> {
    let names = vault.disk.names().unwrap().into_iter();
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| ![KEYRING, RECOVERY, DATABASE].contains(&name.as_str()));
    names
}

/// The database as anybody with the file can open it.
fn raw(vault: &Vault) -> rusqlite::Connection {
    rusqlite::Connection::open(vault.directory().join(DATABASE)).unwrap()
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
