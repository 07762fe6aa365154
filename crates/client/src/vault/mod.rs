//! The owner's directory: settings, model, routing, vectors and keys, sealed.
//!
//! # Concepts
//! - A **vault** is a directory with a keyring and an SQLite database of sealed values, each in a
//!   slot of its own. The vault does not look inside values: bytes in, bytes out.
//! - The **keyring** holds two secrets made with the vault: the [master secret](MasterSecret), from
//!   which all keys of the construction derive, and a data key that seals the owner's values. It is
//!   sealed under a passphrase or a key file ([`Unlock`]), which can be changed. A second keyring
//!   with the same secrets may be sealed under a [`RecoveryCode`].
//! - A **query vault** has the [secret of one epoch](EpochSecret) in place of the master secret: it
//!   can be searched and nothing else ([`VaultAccess`]). Values that searching needs are sealed under
//!   a key of the epoch, so an owner's vault and the query vaults of its epoch share them as they are.
//! - A **commit** is a state of the vault: it has a random name, knows its parent's, and is fixed by
//!   its sealed **root**, which lists every value by its digest. A transaction leads from one commit
//!   to the next; a kill or a full disk at any moment leaves one whole commit.
//!
//! # Several processes
//! Any number may read, and none of them waits for a writer or fails because of one: each sees the
//! commit that was the last when it began. There is one writer at a time, and a second is refused.
//! The directory must be on a file system of this machine: SQLite's log is shared through memory.
//!
//! # What it protects against
//! Somebody who reads the directory learns the number and lengths of values, times, and the public
//! head of the root: names of commits, epoch. Somebody who writes to it can destroy the vault but
//! cannot change a value, move one to another slot or bring back an old one unnoticed.
//!
//! # Map
//! `value` seals values and names their slots; `root` is a commit; `database` is the SQLite file;
//! `snapshot` reads, `transaction` writes, `elsewhere` is where vectors may be instead, `create` makes vaults. `keyring`, `frame`, `kdf`, `secret`,
//! `recovery` and `unlock` are what opens a vault; `access` is who may do what; `disk` touches the
//! file system; `note` remembers the last backup. `docs/FORMAT.md` has the layouts byte by byte.
//!
//! # Non-goals
//! - Noticing that the *whole* directory was put back to an earlier state: nothing in it can. A server
//!   that has seen a later commit can, and says so.
//! - Hiding lengths, or how often a value changes.

mod access;
mod create;
mod database;
mod disk;
mod elsewhere;
mod error;
mod frame;
mod kdf;
mod keyring;
mod note;
mod recovery;
mod root;
mod secret;
mod snapshot;
mod transaction;
mod unlock;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rand_core::CryptoRng;
use shard_protocol::CommitName;
use zeroize::Zeroizing;

pub use access::VaultAccess;
pub use error::VaultError;
pub use kdf::{KdfCost, KdfCostError, MIN_KEY_FILE_BYTES};
pub use note::{BackupAge, BackupNote};
pub use recovery::{RecoveryCode, RecoveryCodeError};
pub use secret::{EpochSecret, MasterSecret, Unlock, UnlockKind};
pub use unlock::PreparedRecovery;

pub(crate) use create::{Keyrings, NewVault};
pub(crate) use elsewhere::Elsewhere;
pub(crate) use root::{Entry, MAX_ROOT_BYTES, Root, RootError, RootHeader, with_id};
pub(crate) use snapshot::{Keys, Looked, Snapshot};
pub(crate) use transaction::Transaction;
pub(crate) use value::Slot;
pub(crate) use value::digest_of;

use create::{OLD_MANIFEST, UNFINISHED};
use database::DATABASE;
use disk::Disk;
use keyring::{Keyring, KeyringSecret};
use root::OwnerKey;
use value::{ValueKey, draw_nonce};

use crate::keys::{SaltedEpoch, epoch_secret, value_key, vault_id};

/// The sealed secrets.
const KEYRING: &str = "KEYRING";
/// The same secrets, sealed under a recovery code.
const RECOVERY: &str = "KEYRING.recovery";
/// A keyring about to take the place of another.
const NEXT_KEYRING: &str = "KEYRING.next";

/// A commit of a vault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commit {
    /// Its name: random, so no two states of any vault share one.
    pub name: CommitName,
    /// The name of the one before; `None` for the first.
    pub parent: Option<CommitName>,
    /// How many commits led here.
    pub generation: u64,
}

/// An open vault. Nothing of its contents is kept in memory: whatever is asked of it is answered
/// from its latest commit.
#[derive(Debug)]
pub struct Vault {
    disk: Disk,
    keyring: Keyring,
    /// Where values are kept that are not here.
    elsewhere: Option<Elsewhere>,
}

impl Vault {
    /// Makes a vault with fresh secrets and these values in `directory`, which must be empty or not
    /// exist. The directory and everything in it are for their owner only (0700 and 0600 on Unix).
    ///
    /// `cost` is what stretching a passphrase takes, now and whenever the vault is opened; a key
    /// file is not stretched.
    ///
    /// # Errors
    /// When there is a vault or anything else in the directory, `unlock` is empty or too short, or
    /// the disk refuses. The directory is then left as it was.
    pub(crate) fn create(
        directory: &Path,
        unlock: &Unlock,
        cost: KdfCost,
        values: &[(Slot, &[u8])],
        rng: &mut impl CryptoRng,
    ) -> Result<Self, VaultError> {
        let keyring = Keyring::generate(rng);
        let main = seal_keyring(&keyring, unlock, cost, rng)?;
        let vault = Self { disk: Disk::new(directory), keyring, elsewhere: None };
        let key = ValueKey::new(vault.keyring.data.expose());
        let mut commit = CommitName([0; 16]);
        rng.fill_bytes(&mut commit.0);
        let before = RootHeader::before_the_first(vault_id(vault.master()?));
        let mut root = Root { header: before.next(commit), entries: BTreeMap::new() };
        // The first commit's generation is 1, and so is its place in the history.
        let history = [[0; 16], commit.0].concat();
        let new = NewVault::begin(directory)?;
        for (slot, plain) in values.iter().copied().chain([(Slot::History(0), &history[..])]) {
            let (sealed, digest) = key.seal(slot, commit, draw_nonce(rng), plain);
            root.entries.insert(slot, Entry { digest, length: sealed.len() as u32 });
            new.put_sealed(slot, &sealed)?;
        }
        new.finish(&root.seal(&key, &vault.owner_key(), rng), &Keyrings { main, recovery: None })?;
        Ok(vault)
    }

    /// Makes a query vault of a commit: what searching needs of it, sealed as it is.
    pub(crate) fn create_query(
        directory: &Path,
        secret: EpochSecret,
        unlock: &Unlock,
        cost: KdfCost,
        of: &Snapshot,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, VaultError> {
        let keyring = Keyring::of_epoch(secret, rng);
        let main = seal_keyring(&keyring, unlock, cost, rng)?;
        let new = NewVault::begin(directory)?;
        for slot in of.root().entries.keys().filter(|slot| slot.is_shared()) {
            new.put_sealed(*slot, &of.sealed(*slot)?)?;
        }
        new.finish(&of.sealed_root()?, &Keyrings { main, recovery: None })?;
        Ok(Self { disk: Disk::new(directory), keyring, elsewhere: None })
    }

    /// Opens the vault in `directory`: its keyring and its root. Values are checked when they are
    /// read.
    ///
    /// # Errors
    /// When there is no vault, `unlock` is not what it was made with, or it is damaged.
    pub fn open(directory: &Path, unlock: &Unlock) -> Result<Self, VaultError> {
        let disk = Disk::new(directory);
        let recovering = unlock.kind() == UnlockKind::Recovery;
        let name = if recovering { RECOVERY } else { KEYRING };
        let file = disk.path(name);
        if disk.path(OLD_MANIFEST).exists() && !disk.path(DATABASE).exists() {
            return Err(VaultError::OldVault { directory: directory.to_owned() });
        }
        let bytes = match disk.read_small(name, keyring::FILE_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(absent(&disk, recovering, file));
            }
            Err(error) => return Err(VaultError::io("read", &file)(error)),
        };
        let keyring = Keyring::open(&bytes, unlock, &file)?;
        if !disk.path(DATABASE).exists() {
            return Err(VaultError::NoDatabase { file: disk.path(DATABASE) });
        }
        let vault = Self { disk, keyring, elsewhere: None };
        vault.snapshot()?;
        // Left by whoever made the vault and was killed at the very end. Best effort.
        let _ = vault.disk.remove(UNFINISHED);
        Ok(vault)
    }

    /// The directory the vault is in.
    pub fn directory(&self) -> &Path {
        self.disk.directory()
    }

    /// The latest commit.
    ///
    /// # Errors
    /// When the vault is damaged or the disk refuses.
    pub fn head(&self) -> Result<Commit, VaultError> {
        let header = self.snapshot()?.root.header;
        let (name, parent) = (header.commit, header.parent());
        Ok(Commit { name, parent, generation: header.generation })
    }

    /// The keyrings as they are on disk.
    pub(crate) fn keyrings(&self) -> Result<Keyrings, VaultError> {
        let read = |name| {
            let path = self.disk.path(name);
            self.disk.read_small(name, keyring::FILE_BYTES).map_err(VaultError::io("read", &path))
        };
        let recovery = if self.has_recovery() { Some(read(RECOVERY)?) } else { None };
        Ok(Keyrings { main: read(KEYRING)?, recovery })
    }

    /// Whether a keyring as bytes opens with `unlock`, to the secrets of this code's format.
    pub(crate) fn opens(
        keyrings: &Keyrings,
        unlock: &Unlock,
        place: &Path,
    ) -> Result<Self, VaultError> {
        let bytes = match (unlock.kind(), &keyrings.recovery) {
            (UnlockKind::Recovery, Some(recovery)) => recovery,
            (UnlockKind::Recovery, None) => {
                return Err(VaultError::NoRecovery { directory: place.to_owned() });
            }
            _ => &keyrings.main,
        };
        let keyring = Keyring::open(bytes, unlock, &place.join(KEYRING))?;
        Ok(Self { disk: Disk::new(place), keyring, elsewhere: None })
    }

    fn database(&self) -> PathBuf {
        self.disk.path(DATABASE)
    }

    /// Opens a root with the keys of this vault.
    pub(crate) fn open_root(&self, bytes: &[u8]) -> Result<(Root, Keys), VaultError> {
        let file = self.database();
        let refused = |error| match error {
            RootError::NotARoot => VaultError::Damaged { file: file.clone() },
            RootError::Format(found) => VaultError::UnsupportedVersion {
                file: file.clone(),
                found: found.into(),
                supported: value::FORMAT.into(),
            },
            RootError::Sealed => {
                VaultError::SealBroken { file: file.clone(), value: "root".into() }
            }
        };
        let header = RootHeader::decode(bytes).map_err(refused)?;
        let keys = self.keys(&header)?;
        let owner = keys.owner.as_ref().map(|_| self.owner_key());
        let root = Root::open(bytes, &keys.shared, owner.as_ref()).map_err(refused)?;
        if !root.entries.values().all(|entry| Root::is_possible(entry.length)) {
            return Err(VaultError::Damaged { file });
        }
        Ok((root, keys))
    }

    /// The keys of the values of a commit.
    fn keys(&self, header: &RootHeader) -> Result<Keys, VaultError> {
        let owner = match self.access() {
            VaultAccess::Owner => Some(ValueKey::new(self.keyring.data.expose())),
            VaultAccess::Query => None,
        };
        Ok(Keys { owner, shared: self.shared_key(header.epoch.as_ref())? })
    }

    /// What shows that a root is this vault's.
    fn owner_key(&self) -> OwnerKey {
        OwnerKey::new(self.keyring.data.expose())
    }

    /// The key of values for those who may search.
    fn shared_key(&self, epoch: Option<&SaltedEpoch>) -> Result<ValueKey, VaultError> {
        Ok(match (&self.keyring.secret, epoch) {
            (KeyringSecret::Epoch(secret), _) => ValueKey::new(&value_key(secret)),
            (KeyringSecret::Master(master), Some(epoch)) => {
                ValueKey::new(&value_key(&epoch_secret(master, epoch)))
            }
            (KeyringSecret::Master(_), None) => ValueKey::new(self.keyring.data.expose()),
        })
    }
}

impl Vault {
    /// Names of commits in one value of the history.
    pub(crate) const HISTORY_COMMITS: u64 = snapshot::HISTORY_COMMITS;

    /// The names in a value of another copy's history.
    pub(crate) fn open_history(
        &self,
        root: &Root,
        number: u32,
        sealed: &[u8],
    ) -> Result<Vec<CommitName>, VaultError> {
        let slot = Slot::History(number);
        let file = self.database();
        let Some(entry) = root.entries.get(&slot) else { return Ok(Vec::new()) };
        let keys = self.keys(&root.header)?;
        let names = open_value(&keys, slot, entry, sealed, &file)?;
        Ok(names.map_or_else(Vec::new, |names| snapshot::commit_names(&names)))
    }
}

impl Snapshot {
    /// The root as it is stored.
    pub(crate) fn sealed_root(&self) -> Result<Vec<u8>, VaultError> {
        database::root(&self.db, &self.file)
    }
}

/// Opens a sealed value that must be the one that a root lists; `None` where it is for the owner only
/// and this is a query vault.
pub(crate) fn open_value(
    keys: &Keys,
    slot: Slot,
    entry: &Entry,
    sealed: &[u8],
    file: &Path,
) -> Result<Option<Zeroizing<Vec<u8>>>, VaultError> {
    let broken = || VaultError::SealBroken { file: file.to_owned(), value: slot.to_string() };
    if sealed.len() != entry.length as usize || digest_of(sealed) != entry.digest {
        return Err(broken());
    }
    let key = keys.of(slot);
    key.map(|key| key.open(slot, sealed).map_err(|_| broken())).transpose()
}

fn seal_keyring(
    keyring: &Keyring,
    unlock: &Unlock,
    cost: KdfCost,
    rng: &mut impl CryptoRng,
) -> Result<Vec<u8>, VaultError> {
    if unlock.kind() == UnlockKind::Recovery {
        return Err(VaultError::RecoveryOnly);
    }
    keyring.seal(unlock, cost, rng)
}

/// Why there is no keyring.
fn absent(disk: &Disk, recovering: bool, file: PathBuf) -> VaultError {
    let directory = disk.directory().to_owned();
    if disk.path(UNFINISHED).exists() {
        VaultError::Unfinished { directory }
    } else if !disk.path(DATABASE).exists() {
        VaultError::NotAVault { directory }
    } else if recovering {
        VaultError::NoRecovery { directory }
    } else {
        VaultError::NoKeyring { file }
    }
}
