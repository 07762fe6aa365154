//! A vault from nothing but the server's address and what opens it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::backup::{backup_head, fetch};
use super::digest::Sha256Digest;
use super::head::{BackupError, BackupFile, BackupHead, is_payload, piece_name};
use crate::error::ClientError;
use crate::progress::{Progress, Watch};
use crate::transport::Channel;
use crate::vault::{FileKind, Unlock, Vault};
use shard_protocol::Transport;

/// What a restore did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The generation of the vault.
    pub generation: u64,
    /// Its files.
    pub files: usize,
    /// Bytes of its files.
    pub bytes: u64,
}

/// Fetches the vault that a server keeps into `directory`, which must be empty or not exist.
///
/// The files are put together beside it, under a name that says so. Keyring and manifest come
/// first, so that a wrong passphrase is noticed before much is fetched; of the rest, what the
/// manifest lists is fetched and held against it; and only then is the whole renamed to `directory`. Whatever happens before that
/// leaves `directory` as it was, and the next restore removes what a killed one left beside it.
///
/// # Errors
/// When there is no backup, it is damaged, `unlock` does not open it, the disk refuses, or `watch`
/// ended it.
pub fn restore(
    transport: &impl Transport<Error: Into<ClientError>>,
    directory: &Path,
    unlock: &Unlock,
    watch: &Watch<'_>,
) -> Result<Restored, ClientError> {
    refuse_if_occupied(directory)?;
    let head = backup_head(transport)?.ok_or(BackupError::Absent)?;
    let staging = Staging::make(directory)?;
    let mut fetching =
        Fetching { transport, watch, progress: Progress { done: 0, total: head.bytes() } };
    let keys = || head.files().iter().filter(|file| !is_payload(&file.name));
    for file in keys() {
        fetching.file(file, &staging.directory)?;
    }
    let vault = Vault::open(&staging.directory, unlock)?;
    let payloads = listed(&head, &vault)?;
    fetching.progress.total = keys().chain(payloads.iter().copied()).map(|file| file.length).sum();
    for file in &payloads {
        fetching.file(file, &staging.directory)?;
    }
    for kind in FileKind::ALL.into_iter().filter(|kind| vault.contains(*kind)) {
        vault.reader(kind)?; // compares the whole file with the manifest
    }
    let generation = vault.generation();
    drop(vault);
    staging.put_in_place(directory)?;
    let files = keys().count() + payloads.len();
    Ok(Restored { generation, files, bytes: fetching.progress.done })
}

/// The files of the head that the vault's own manifest lists, at the lengths that it says: the
/// head is the server's word, and could name files without end.
fn listed<'a>(head: &'a BackupHead, vault: &Vault) -> Result<Vec<&'a BackupFile>, BackupError> {
    let find = |(name, length): (String, u64)| {
        let found = head.files().iter().find(|file| file.name == name && file.length == length);
        found.ok_or(BackupError::Damaged { file: name })
    };
    vault.files().map(find).collect()
}

fn refuse_if_occupied(directory: &Path) -> Result<(), BackupError> {
    let occupied = match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    if occupied { Err(BackupError::Occupied { directory: directory.to_owned() }) } else { Ok(()) }
}

/// A restore on its way.
struct Fetching<'a> {
    transport: &'a dyn Channel,
    watch: &'a Watch<'a>,
    progress: Progress,
}

impl Fetching<'_> {
    /// Fetches a file piece by piece; no byte is written before its piece was checked.
    fn file(&mut self, file: &BackupFile, directory: &Path) -> Result<(), ClientError> {
        let path = directory.join(&file.name);
        let unwritable = || BackupError::io("write", &path);
        let damaged = || BackupError::Damaged { file: file.name.clone() };
        let mut written = create(&path).map_err(unwritable())?;
        let mut left = file.length;
        for digest in &file.pieces {
            let piece = fetch(self.transport, &piece_name(digest))?.ok_or_else(damaged)?;
            if Sha256Digest::of(&piece) != *digest {
                return Err(damaged().into());
            }
            left = left.checked_sub(piece.len() as u64).ok_or_else(damaged)?;
            written.write_all(&piece).map_err(unwritable())?;
            self.progress.done += piece.len() as u64;
            if (self.watch)(self.progress).is_break() {
                return Err(ClientError::Cancelled);
            }
        }
        if left > 0 {
            return Err(damaged().into());
        }
        Ok(written.sync_all().map_err(unwritable())?)
    }
}

/// A file that is for its owner only.
fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The directory in which a vault is put together. Removed when dropped.
struct Staging {
    directory: PathBuf,
}

impl Staging {
    fn make(target: &Path) -> Result<Self, BackupError> {
        let name = target
            .file_name()
            .ok_or_else(|| BackupError::Occupied { directory: target.to_owned() })?;
        let mut beside = std::ffi::OsString::from(".");
        beside.push(name);
        beside.push(".restoring");
        let directory = target.with_file_name(beside);
        let parent = parent(target);
        fs::create_dir_all(parent).map_err(BackupError::io("make", parent))?;
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(BackupError::io("remove", &directory))?;
        }
        #[cfg_attr(not(unix), expect(unused_mut, reason = "there is no mode to set"))]
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&directory).map_err(BackupError::io("make", &directory))?;
        Ok(Self { directory })
    }

    fn put_in_place(self, target: &Path) -> Result<(), BackupError> {
        sync(&self.directory)?;
        // Over an empty directory where there is one; a system that cannot do that wants it gone.
        let _ = fs::remove_dir(target);
        fs::rename(&self.directory, target).map_err(BackupError::io("make", target))?;
        sync(parent(target))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Best effort, and nothing to do once it was renamed: the next restore tries again.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Waits until a directory's entries are on disk, where the system can do that.
fn sync(directory: &Path) -> Result<(), BackupError> {
    if cfg!(unix) {
        let synced = File::open(directory).and_then(|opened| opened.sync_all());
        synced.map_err(BackupError::io("sync", directory))?;
    }
    Ok(())
}
