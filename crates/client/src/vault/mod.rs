//! The owner's directory: settings, model, routing index, vectors and published rows, kept safely.
//!
//! # Concepts
//! - A **vault** is a directory of files, each holding one [kind](FileKind) of payload. The vault
//!   does not look inside payloads: bytes in, bytes out.
//! - The **keyring** holds two secrets made with the vault: the [master secret](MasterSecret), from
//!   which all keys of the construction derive, and a data key that seals the vault's own files. It
//!   is sealed under a passphrase or a key file ([`Unlock`]), which can be changed. A second keyring
//!   with the same secrets may be sealed under a [`RecoveryCode`].
//! - A **query vault** has the [secret of one epoch](EpochSecret) in place of the master secret: it
//!   can be searched and nothing else ([`VaultAccess`]).
//! - A **generation** is a complete set of files named by a sealed **manifest**. A [`Transaction`]
//!   leads from one generation to the next by replacing the manifest in one rename: a kill or a full
//!   disk at any moment leaves one whole generation. See [`transaction`](Vault::transaction).
//! - Every file has a version and a checksum, so accidents are told apart from tampering and from a
//!   wrong passphrase ([`VaultError`]).
//!
//! # What it protects against
//! Somebody who reads the directory learns file lengths, times, generations and the published rows, which
//! is not secret. Somebody who writes to it can destroy the vault but cannot change a payload, move
//! one to another place or bring back an old one unnoticed.
//!
//! # Map
//! `kind` names files; `access` is who may do what; `secret` and `kdf` hold what must not be seen and what opens it; `frame` is
//! the outside of every file, `seal` the inside of the secret ones; `keyring` and `manifest` are the
//! files the vault writes for itself, `recovery` and `unlock` other ways into the first; `reader`, `writer` and `transaction` move payloads; `disk`
//! and `faults` touch the file system. `docs/FORMAT.md` has the layouts byte by byte.
//!
//! # Non-goals
//! - Noticing that the *whole* directory was put back to an earlier state: nothing outside remembers.
//! - Hiding lengths, or how often a file changes.
//! - Many writers at once: there is one, and a second is refused. Readers need no lock; a reader
//!   overtaken by a commit is told to open the vault again.

mod access;
mod create;
mod disk;
mod error;
mod faults;
mod frame;
mod kdf;
mod keyring;
mod kind;
mod manifest;
mod reader;
mod recovery;
mod seal;
mod secret;
mod transaction;
mod unlock;
mod writer;

#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use rand_core::CryptoRng;
use zeroize::Zeroizing;

pub use access::VaultAccess;
pub use error::VaultError;
pub use kdf::{KdfCost, KdfCostError, MIN_KEY_FILE_BYTES};
pub use kind::FileKind;
pub use reader::VaultReader;
pub use recovery::{RecoveryCode, RecoveryCodeError};
pub use secret::{EpochSecret, MasterSecret, Unlock, UnlockKind};
pub use transaction::Transaction;
pub use unlock::PreparedRecovery;
pub use writer::VaultWriter;

use disk::Disk;
use keyring::Keyring;
use manifest::Manifest;

/// The sealed secrets.
const KEYRING: &str = "KEYRING";
/// The same secrets, sealed under a recovery code.
const RECOVERY: &str = "KEYRING.recovery";
/// A keyring about to take the place of another.
const NEXT_KEYRING: &str = "KEYRING.next";
/// The sealed list of files.
const MANIFEST: &str = "MANIFEST";
/// The list of files about to become valid.
const NEXT_MANIFEST: &str = "MANIFEST.next";
/// Empty; whoever has it locked is the writer.
const LOCK: &str = "LOCK";

/// An open vault, at the generation it was opened at or last committed itself.
#[derive(Debug)]
pub struct Vault {
    disk: Disk,
    keyring: Keyring,
    manifest: Manifest,
}

impl Vault {
    /// Makes a vault with fresh secrets in `directory`, which must be empty or not exist. The
    /// directory and everything in it are for their owner only (0700 and 0600 on Unix).
    ///
    /// `cost` is what stretching a passphrase takes, now and whenever the vault is opened; a key
    /// file is not stretched.
    ///
    /// # Errors
    /// When there is a vault or anything else in the directory, `unlock` is empty or too short, or
    /// the disk refuses. The directory is then left as it was.
    pub fn create(
        directory: &Path,
        unlock: &Unlock,
        cost: KdfCost,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, VaultError> {
        let keyring = Keyring::generate(rng);
        Self::create_on(Disk::new(directory), keyring, unlock, cost, rng)
    }

    /// Makes a query vault, as [`Vault::create`] makes one of an owner.
    pub(crate) fn create_query(
        directory: &Path,
        secret: EpochSecret,
        unlock: &Unlock,
        cost: KdfCost,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, VaultError> {
        let keyring = Keyring::of_epoch(secret, rng);
        Self::create_on(Disk::new(directory), keyring, unlock, cost, rng)
    }

    fn create_on(
        disk: Disk,
        keyring: Keyring,
        unlock: &Unlock,
        cost: KdfCost,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, VaultError> {
        if unlock.kind() == UnlockKind::Recovery {
            return Err(VaultError::RecoveryOnly);
        }
        let directory = disk.directory();
        if disk.path(KEYRING).exists() || disk.path(MANIFEST).exists() {
            return Err(VaultError::AlreadyExists { directory: directory.to_owned() });
        }
        if !disk.is_empty().map_err(VaultError::io("list", directory))? {
            return Err(VaultError::NotEmpty { directory: directory.to_owned() });
        }
        let manifest = Manifest::default();
        let sealed_keyring = keyring.seal(unlock, cost, rng)?;
        let sealed_manifest = manifest.seal(&keyring.data, rng);
        disk.populate(&sealed_keyring, &sealed_manifest)?;
        Ok(Self { disk, keyring, manifest })
    }

    /// Opens the vault in `directory`: its keyring and its list of files. Payloads are checked when
    /// they are read.
    ///
    /// # Errors
    /// When there is no vault, `unlock` is not what it was made with, or its keyring or manifest is
    /// damaged.
    pub fn open(directory: &Path, unlock: &Unlock) -> Result<Self, VaultError> {
        let disk = Disk::new(directory);
        let recovering = unlock.kind() == UnlockKind::Recovery;
        let name = if recovering { RECOVERY } else { KEYRING };
        let file = disk.path(name);
        let bytes = match disk.read_small(name, keyring::FILE_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let directory = directory.to_owned();
                return Err(if !disk.path(MANIFEST).exists() {
                    VaultError::NotAVault { directory }
                } else if recovering {
                    VaultError::NoRecovery { directory }
                } else {
                    VaultError::Missing { file }
                });
            }
            Err(error) => return Err(VaultError::io("read", &file)(error)),
        };
        let keyring = Keyring::open(&bytes, unlock, &file)?;
        let mut vault = Self { disk, keyring, manifest: Manifest::default() };
        vault.manifest = vault.load_manifest()?;
        Ok(vault)
    }

    /// The directory the vault is in.
    pub fn directory(&self) -> &Path {
        self.disk.directory()
    }

    /// How many commits led to what this value sees; 0 for a new vault.
    pub fn generation(&self) -> u64 {
        self.manifest.generation
    }

    /// Whether a payload of this kind was ever committed.
    pub fn contains(&self, kind: FileKind) -> bool {
        self.manifest.entries.contains_key(&kind)
    }

    /// Names and lengths of the files that the manifest lists.
    #[cfg(feature = "remote")]
    pub(crate) fn files(&self) -> impl Iterator<Item = (String, u64)> {
        let entries = self.manifest.entries.iter();
        entries.map(|(kind, entry)| (kind.file_name(entry.generation), entry.length))
    }

    /// The whole payload of a kind: the checksum is verified first, then the seal is opened. What is
    /// returned is what was committed, also when somebody writes to the file in the meantime.
    ///
    /// # Errors
    /// When there is none, or its file is missing, damaged, or not the one committed.
    pub fn read(&self, kind: FileKind) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        self.reader(kind)?.read_all()
    }

    /// The payload of a kind as a stream, for payloads that should not be in memory at once. The
    /// file is read twice: once to compare it with the manifest, once for the bytes, which are then
    /// checked again; see [`VaultReader`] for when.
    ///
    /// # Errors
    /// As for [`Vault::read`].
    pub fn reader(&self, kind: FileKind) -> Result<VaultReader, VaultError> {
        let Some(entry) = self.manifest.entries.get(&kind) else {
            return Err(VaultError::Absent { directory: self.directory().to_owned(), kind });
        };
        let name = kind.file_name(entry.generation);
        let path = self.disk.path(&name);
        match self.disk.open(&name) {
            Ok(file) => VaultReader::open(file, path, kind, entry, &self.keyring.data),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let current = self.load_manifest()?;
                Err(if current == self.manifest {
                    VaultError::Missing { file: path }
                } else {
                    self.superseded_by(&current)
                })
            }
            Err(error) => Err(VaultError::io("open", &path)(error)),
        }
    }

    /// Begins a change and takes the writer lock. What the change depends on is best read after
    /// that, from [`Transaction::vault`]: then a second writer is refused before it has done any
    /// work.
    ///
    /// # Errors
    /// When another writer holds the lock, or has committed since this vault was opened.
    pub fn transaction(&mut self) -> Result<Transaction<'_>, VaultError> {
        Transaction::begin(self)
    }

    /// Takes the writer lock, which is held until the file is closed.
    fn lock(&self) -> Result<File, VaultError> {
        let path = self.disk.path(LOCK);
        let lock = self.disk.open_lock(LOCK).map_err(VaultError::io("open", &path))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                VaultError::Locked { directory: self.directory().to_owned() }
            }
            TryLockError::Error(source) => VaultError::io("lock", &path)(source),
        })?;
        Ok(lock)
    }

    /// The manifest on disk now.
    fn load_manifest(&self) -> Result<Manifest, VaultError> {
        let file = self.disk.path(MANIFEST);
        match self.disk.read_small(MANIFEST, manifest::MAX_FILE_BYTES) {
            Ok(bytes) => Manifest::open(&bytes, &self.keyring.data, &file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(VaultError::Incomplete { directory: self.directory().to_owned() })
            }
            Err(error) => Err(VaultError::io("read", &file)(error)),
        }
    }

    fn superseded_by(&self, current: &Manifest) -> VaultError {
        VaultError::Superseded {
            directory: self.directory().to_owned(),
            opened: self.manifest.generation,
            current: current.generation,
        }
    }

    /// Removes what killed writers left behind: files with names the vault gives that the manifest
    /// does not list. Anything else in the directory is not the vault's to touch. Only for the
    /// holder of the writer lock.
    fn remove_leftovers(&self) -> Result<(), VaultError> {
        let names = self.disk.names().map_err(VaultError::io("list", self.directory()))?;
        for name in names {
            let unlisted = match FileKind::parse_file_name(&name) {
                Some((kind, generation)) => self
                    .manifest
                    .entries
                    .get(&kind)
                    .is_none_or(|entry| entry.generation != generation),
                None => [NEXT_MANIFEST, NEXT_KEYRING].contains(&name.as_str()),
            };
            if unlisted {
                self.disk
                    .remove(&name)
                    .map_err(VaultError::io("remove", &self.disk.path(&name)))?;
            }
        }
        Ok(())
    }
}
