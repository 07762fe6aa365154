//! A new vault: made from nothing, exported, or fetched from a backup.
//!
//! A marker is the first file and the keyring the last but for its removal, by rename. A directory
//! with the marker and without the keyring is a vault that was never finished; whoever makes a
//! vault there next clears it away. A kill at any moment therefore leaves a vault or a directory in
//! which one can be made. The directory is locked meanwhile, so that nobody takes a vault that is
//! being made for one that was left.

use std::fs::File;
use std::path::Path;

use rusqlite::Connection;

use super::database::{self, BESIDE, DATABASE, Place};
use super::disk::{Disk, Made};
use super::error::VaultError;
use super::note::{LAST_BACKUP, NEXT_NOTE};
use super::value::Slot;
use super::{KEYRING, NEXT_KEYRING, RECOVERY};

/// Says that a vault is being made here.
pub(super) const UNFINISHED: &str = "UNFINISHED";

/// Every name that a vault gives.
const NAMES: [&str; 7] =
    [DATABASE, KEYRING, RECOVERY, NEXT_KEYRING, UNFINISHED, LAST_BACKUP, NEXT_NOTE];

/// The manifest of vaults before SQLite.
pub(super) const OLD_MANIFEST: &str = "MANIFEST";

/// A vault that is being made. Dropped before [`NewVault::finish`], it leaves nothing.
pub(crate) struct NewVault {
    disk: Disk,
    made: Made,
    db: Option<Connection>,
    finished: bool,
    /// Keeps others from making a vault here, where the system can lock a directory.
    _lock: Option<File>,
}

/// The sealed keyrings of a vault.
pub(crate) struct Keyrings {
    /// What a passphrase or key file opens.
    pub(crate) main: Vec<u8>,
    /// What the recovery code opens, where there is one.
    pub(crate) recovery: Option<Vec<u8>>,
}

impl NewVault {
    /// Begins a vault in a directory that is empty or does not exist.
    pub(crate) fn begin(directory: &Path) -> Result<Self, VaultError> {
        let disk = Disk::new(directory);
        check_free(&disk)?;
        let made = disk.make_directory().map_err(VaultError::io("create", directory))?;
        // Whoever loses leaves the directory alone: it is the winner's now.
        let locked = disk.try_lock().map_err(VaultError::io("lock", directory))?;
        let Some(lock) = locked else {
            return Err(VaultError::Locked { directory: directory.to_owned() });
        };
        if let Err(error) = clear_unfinished(&disk) {
            disk.unmake_directory(&made);
            return Err(error);
        }
        let mut vault = Self { disk, made, db: None, finished: false, _lock: lock };
        if let Err(error) = vault.disk.create_with(UNFINISHED, &[]) {
            let path = vault.disk.path(UNFINISHED);
            vault.finished = true; // nothing here is ours
            vault.disk.unmake_directory(&vault.made);
            return Err(VaultError::io("write", &path)(error));
        }
        let file = vault.disk.path(DATABASE);
        vault.disk.create_with(DATABASE, &[]).map_err(VaultError::io("write", &file))?;
        let db = database::create(&file)?;
        database::begin_writing(&db, &file)?;
        vault.db = Some(db);
        Ok(vault)
    }

    fn db(&self) -> &Connection {
        self.db.as_ref().expect("it is taken when the vault is finished")
    }

    /// Writes a value that is sealed already.
    pub(crate) fn put_sealed(&self, slot: Slot, sealed: &[u8]) -> Result<(), VaultError> {
        database::put(self.db(), Place::Value(slot.id()), sealed, &self.disk.path(DATABASE))
    }

    /// Writes the root and the keyrings: from then on it is a vault.
    pub(crate) fn finish(mut self, root: &[u8], keyrings: &Keyrings) -> Result<(), VaultError> {
        let file = self.disk.path(DATABASE);
        database::put(self.db(), Place::Root, root, &file)?;
        database::commit(self.db(), &file)?;
        drop(self.db.take());
        let disk = &self.disk;
        if let Some(recovery) = &keyrings.recovery {
            let path = disk.path(RECOVERY);
            disk.create_with(RECOVERY, recovery).map_err(VaultError::io("write", &path))?;
        }
        let next = disk.path(NEXT_KEYRING);
        disk.create_with(NEXT_KEYRING, &keyrings.main).map_err(VaultError::io("write", &next))?;
        disk.sync().map_err(VaultError::io("sync", disk.directory()))?;
        let keyring = disk.path(KEYRING);
        disk.rename(NEXT_KEYRING, KEYRING).map_err(VaultError::io("write", &keyring))?;
        self.finished = true;
        let disk = &self.disk;
        disk.remove(UNFINISHED).map_err(VaultError::io("remove", &disk.path(UNFINISHED)))?;
        disk.sync().map_err(VaultError::io("sync", disk.directory()))?;
        disk.sync_made(&self.made).map_err(VaultError::io("sync", disk.directory()))
    }
}

impl Drop for NewVault {
    fn drop(&mut self) {
        drop(self.db.take());
        if !self.finished {
            remove_all(&self.disk);
            self.disk.unmake_directory(&self.made);
        }
    }
}

/// Whether a directory is as it must be for a vault to be made in it.
enum Free {
    Empty,
    /// A vault was begun here and not finished.
    Unfinished,
}

/// Refuses a directory with anything in it, but for a vault that was never finished.
fn check_free(disk: &Disk) -> Result<Free, VaultError> {
    let directory = disk.directory();
    let names = match disk.names() {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Free::Empty),
        Err(error) => return Err(VaultError::io("list", directory)(error)),
    };
    let has = |name: &str| names.iter().any(|found| found.as_os_str() == name);
    if has(KEYRING) || has(OLD_MANIFEST) {
        return Err(VaultError::AlreadyExists { directory: directory.to_owned() });
    }
    if names.is_empty() {
        return Ok(Free::Empty);
    }
    let ours = |name: &std::ffi::OsString| {
        NAMES.iter().chain(&BESIDE).any(|known| name.as_os_str() == *known)
    };
    if !has(UNFINISHED) || !names.iter().all(ours) {
        return Err(VaultError::NotEmpty { directory: directory.to_owned() });
    }
    Ok(Free::Unfinished)
}

/// Clears away a vault that was never finished; whoever calls this has locked the directory.
fn clear_unfinished(disk: &Disk) -> Result<(), VaultError> {
    if let Free::Unfinished = check_free(disk)? {
        remove_all(disk);
    }
    Ok(())
}

/// Removes every file of a vault that was not finished, the marker last. Best effort: what stays is
/// refused or removed by whoever makes a vault here next.
fn remove_all(disk: &Disk) {
    for name in NAMES.iter().chain(&BESIDE).filter(|name| **name != UNFINISHED) {
        let _ = disk.remove(name);
    }
    let _ = disk.remove(UNFINISHED);
}
