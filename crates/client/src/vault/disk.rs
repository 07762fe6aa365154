//! The few things a vault does to its directory, each of which can be made to fail in tests.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::faults::{Faults, Operation};

/// Restricts new files to their owner.
#[cfg(unix)]
fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// A vault's directory.
#[derive(Debug)]
pub(super) struct Disk {
    directory: PathBuf,
    /// Shared with the files created here. Empty outside tests.
    pub(super) faults: Faults,
}

impl Disk {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), faults: Faults::default() }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Makes the directory, for its owner only, or restricts one that exists. Returns whether it
    /// was made.
    pub(super) fn make_directory(&self) -> io::Result<bool> {
        let existed = self.directory.is_dir();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
            builder.mode(0o700);
            if existed {
                fs::set_permissions(&self.directory, fs::Permissions::from_mode(0o700))?;
            }
        }
        builder.create(&self.directory)?;
        Ok(!existed)
    }

    /// Whether the directory holds nothing, or does not exist.
    pub(super) fn is_empty(&self) -> io::Result<bool> {
        match fs::read_dir(&self.directory) {
            Ok(mut entries) => Ok(entries.next().is_none()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The names in the directory; those that are not Unicode are not ours and are left out.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.directory)?
            .filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose())
            .collect()
    }

    /// Creates a file that must not exist, so that a planted link is never followed.
    pub(super) fn create(&self, name: &str) -> io::Result<DiskFile> {
        self.faults.before(Operation::Create, name)?;
        let file =
            owner_only(OpenOptions::new().write(true).create_new(true)).open(self.path(name))?;
        Ok(DiskFile { file, name: name.to_owned(), faults: self.faults.clone() })
    }

    /// Creates a file with these bytes and waits until they are on disk.
    pub(super) fn create_with(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.create(name)?.fill(bytes)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.faults.before(Operation::Rename, to)?;
        fs::rename(self.path(from), self.path(to))
    }

    /// Removes a file; one that is not there is no error.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        self.faults.before(Operation::Remove, name)?;
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until creations, renames and removals in the directory are on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.faults.before(Operation::SyncDirectory, "")?;
        sync_directory(&self.directory)
    }

    /// The file, opened for reading.
    pub(super) fn open(&self, name: &str) -> io::Result<File> {
        File::open(self.path(name))
    }

    /// The whole of a file that ought to have at most `limit` bytes. Of a longer one, `limit + 1`
    /// bytes are returned: enough to be refused.
    pub(super) fn read_small(&self, name: &str, limit: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let bound = limit as u64 + 1;
        self.open(name)?.take(bound).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The lock file, opened but not locked.
    pub(super) fn open_lock(&self, name: &str) -> io::Result<File> {
        owner_only(OpenOptions::new().write(true).create(true).truncate(false))
            .open(self.path(name))
    }
}

/// Waits until the directory's own entries are on disk, where the system can do that.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// A file being written.
#[derive(Debug)]
pub(super) struct DiskFile {
    file: File,
    name: String,
    faults: Faults,
}

impl DiskFile {
    /// Writes all bytes and waits until they are on disk.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)?;
        self.sync()
    }

    /// Waits until the bytes are on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.faults.before(Operation::SyncFile, &self.name)?;
        self.file.sync_all()
    }
}

impl Write for DiskFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.faults.before(Operation::Write, &self.name) {
            // A full disk takes what still fits.
            self.file.write_all(&bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for DiskFile {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}
