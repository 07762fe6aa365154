//! The first files of a vault, and taking them back.

use std::fs;

use super::disk::Disk;
use super::error::VaultError;
use super::kind::FileKind;
use super::{KEYRING, LOCK, MANIFEST, NEXT_MANIFEST, Vault};

impl Disk {
    /// Makes the directory and the files of an empty vault, the manifest last: without it there is
    /// no vault. On failure, takes back what it did.
    pub(super) fn populate(&self, keyring: &[u8], manifest: &[u8]) -> Result<(), VaultError> {
        let directory = self.directory();
        let made = self.make_directory().map_err(VaultError::io("create", directory))?;
        // The lock file is created first and must be new, so of two creators one loses here.
        let mut created = Vec::new();
        let outcome = [(LOCK, &[][..]), (KEYRING, keyring), (MANIFEST, manifest)]
            .into_iter()
            .try_for_each(|(name, bytes)| {
                let path = self.path(name);
                let failed = || VaultError::io("write", &path);
                let mut file = self.create(name).map_err(failed())?;
                created.push(name);
                file.fill(bytes).map_err(failed())
            })
            .and_then(|()| {
                self.sync().map_err(VaultError::io("sync", directory))?;
                self.sync_made(&made).map_err(VaultError::io("sync", directory))
            });
        if outcome.is_err() {
            // Best effort: the error that led here matters more.
            for name in created {
                let _ = self.remove(name);
            }
            self.unmake_directory(&made);
        }
        outcome
    }
}

impl Vault {
    /// Removes a vault that was just made and could not be filled. Best effort: the error that led
    /// here matters more.
    pub(crate) fn discard(self) {
        let ours = |name: &str| {
            [MANIFEST, NEXT_MANIFEST, KEYRING, LOCK].contains(&name)
                || FileKind::parse_file_name(name).is_some()
        };
        let names = self.disk.names().unwrap_or_default();
        for name in names.iter().filter(|name| ours(name)) {
            let _ = self.disk.remove(name);
        }
        let _ = fs::remove_dir(self.directory());
    }
}
