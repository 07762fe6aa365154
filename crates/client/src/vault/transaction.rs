//! Changing a vault from one generation to the next, all or nothing.
//!
//! New files are written under names of the next generation, which nothing refers to yet. The
//! commit then makes, in this order, each step on disk before the next begins:
//!
//! 1. the new files and their names,
//! 2. the new manifest under a temporary name,
//! 3. the rename of that name to `MANIFEST`: the moment of the commit,
//! 4. the removal of the files no longer listed.
//!
//! A writer stopped before step 3 leaves the old generation untouched, one stopped after it leaves
//! the new one complete. What it leaves lying about either way, the next transaction removes.

use std::collections::BTreeMap;
use std::fs::File;

use rand_core::CryptoRng;

use super::error::VaultError;
use super::frame::{Checksum, FrameWriter};
use super::kind::{Content, FileKind};
use super::manifest::Entry;
use super::seal::{self, ChunkCipher};
use super::writer::{PayloadWriter, VaultWriter};
use super::{MANIFEST, NEXT_MANIFEST, Vault};

/// A change to a vault in the making, begun by [`Vault::transaction`].
///
/// Nothing changes until [`Transaction::commit`]. Dropped before that, it takes its files with it.
/// It holds the vault's writer lock as long as it lives.
#[derive(Debug)]
pub struct Transaction<'vault> {
    vault: &'vault mut Vault,
    generation: u64,
    /// The kinds begun; `None` for those not finished.
    written: BTreeMap<FileKind, Option<Entry>>,
    /// Set just before the rename. From then on the new files may be the vault's.
    published: bool,
    /// Locked until it is closed.
    _lock: File,
}

impl<'vault> Transaction<'vault> {
    pub(super) fn begin(vault: &'vault mut Vault) -> Result<Self, VaultError> {
        let lock = vault.lock()?;
        // Only now is the manifest on disk sure to stay as it is.
        let current = vault.load_manifest()?;
        if current != vault.manifest {
            return Err(vault.superseded_by(&current));
        }
        vault.remove_leftovers()?;
        let generation = current
            .generation
            .checked_add(1)
            .expect("generations count commits, of which there are fewer than 2^64");
        Ok(Self { vault, generation, written: BTreeMap::new(), published: false, _lock: lock })
    }

    /// The vault as it is until the commit, to be read from. Nobody else can change it meanwhile.
    pub fn vault(&self) -> &Vault {
        self.vault
    }

    /// Writes `payload` as the new file of `kind`, in place of one this transaction wrote before.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write(
        &mut self,
        kind: FileKind,
        payload: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Result<(), VaultError> {
        let mut writer = self.begin_payload(kind, rng)?;
        writer.append(payload)?;
        let (length, checksum) = writer.finish()?;
        self.record(kind, length, checksum);
        Ok(())
    }

    /// Begins the new file of `kind`, in place of one this transaction wrote before, to be written
    /// piece by piece in constant memory.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn writer(
        &mut self,
        kind: FileKind,
        rng: &mut impl CryptoRng,
    ) -> Result<VaultWriter<'_, 'vault>, VaultError> {
        let payload = self.begin_payload(kind, rng)?;
        Ok(VaultWriter::new(self, payload))
    }

    /// Makes what was written the vault's next generation. Without anything written, the vault
    /// stays at its generation.
    ///
    /// # Errors
    /// When a writer was not finished, or the disk refuses. The vault on disk is then at its old
    /// generation, save where the disk refuses only to confirm the last rename: then it is at the
    /// old or the new one, whole in either case, and must be opened again before it is written to.
    pub fn commit(mut self, rng: &mut impl CryptoRng) -> Result<(), VaultError> {
        if self.written.is_empty() {
            return Ok(());
        }
        let mut next = self.vault.manifest.clone();
        next.generation = self.generation;
        let mut replaced = Vec::new();
        for (&kind, entry) in &self.written {
            let entry = entry.clone().ok_or(VaultError::Unfinished { kind })?;
            if let Some(old) = next.entries.insert(kind, entry) {
                replaced.push(kind.file_name(old.generation));
            }
        }

        let disk = &self.vault.disk;
        let directory = disk.directory();
        let manifest_path = disk.path(MANIFEST);
        let sealed = next.seal(&self.vault.keyring.data, rng);
        disk.sync().map_err(VaultError::io("sync", directory))?;
        disk.create_with(NEXT_MANIFEST, &sealed)
            .map_err(VaultError::io("write", &disk.path(NEXT_MANIFEST)))?;
        self.published = true;
        disk.rename(NEXT_MANIFEST, MANIFEST).map_err(VaultError::io("replace", &manifest_path))?;
        disk.sync().map_err(VaultError::io("sync", directory))?;

        for name in replaced {
            // The commit stands whether or not this works; the next transaction tries again.
            let _ = disk.remove(&name);
        }
        self.vault.manifest = next;
        Ok(())
    }

    /// Makes a finished file part of the transaction.
    pub(super) fn record(&mut self, kind: FileKind, length: u64, checksum: Checksum) {
        let entry = Entry { generation: self.generation, length, checksum };
        self.written.insert(kind, Some(entry));
    }

    fn begin_payload(
        &mut self,
        kind: FileKind,
        rng: &mut impl CryptoRng,
    ) -> Result<PayloadWriter, VaultError> {
        let disk = &self.vault.disk;
        let name = kind.file_name(self.generation);
        let path = disk.path(&name);
        if self.written.insert(kind, None).is_some() {
            disk.remove(&name).map_err(VaultError::io("remove", &path))?;
        }
        let content = Content::Payload(kind);
        let frame = disk
            .create(&name)
            .and_then(|file| FrameWriter::begin(file, content, self.generation))
            .map_err(VaultError::io("write", &path))?;
        let seal = kind.is_sealed().then(|| {
            let prefix = seal::draw_prefix(rng);
            let key = &self.vault.keyring.data;
            let cipher = ChunkCipher::new(key, prefix, content, self.generation);
            (prefix, cipher)
        });
        PayloadWriter::new(kind, path, frame, seal)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        // Best effort: what cannot be removed now, the next transaction removes.
        let disk = &self.vault.disk;
        for kind in self.written.keys() {
            let _ = disk.remove(&kind.file_name(self.generation));
        }
        let _ = disk.remove(NEXT_MANIFEST);
    }
}
