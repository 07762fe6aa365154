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

/// Makes directories that are for their owner only.
fn owner_only_directory() -> fs::DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "there is no mode to set"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Restricts a directory to its owner. Returns what it allowed before.
#[cfg(unix)]
fn restrict(directory: &Path) -> io::Result<Option<fs::Permissions>> {
    use std::os::unix::fs::PermissionsExt;
    let before = fs::metadata(directory)?.permissions();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    Ok(Some(before))
}

#[cfg(not(unix))]
fn restrict(_directory: &Path) -> io::Result<Option<fs::Permissions>> {
    Ok(None)
}

/// What [`Disk::make_directory`] did.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The directories that did not exist, the outermost first.
    directories: Vec<PathBuf>,
    /// What a directory that existed allowed before.
    permissions: Option<fs::Permissions>,
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

    /// Makes the directory and those missing above it, for their owner only, or restricts one that
    /// exists. On failure, everything is as it was.
    pub(super) fn make_directory(&self) -> io::Result<Made> {
        let mut made = Made::default();
        let outcome = self.make_missing(&mut made);
        if outcome.is_err() {
            self.unmake_directory(&made);
        }
        outcome.map(|()| made)
    }

    fn make_missing(&self, made: &mut Made) -> io::Result<()> {
        if self.directory.is_dir() {
            made.permissions = restrict(&self.directory)?;
            return Ok(());
        }
        let missing: Vec<&Path> = self
            .directory
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.is_dir())
            .collect();
        for path in missing.into_iter().rev() {
            match owner_only_directory().create(path) {
                Ok(()) => made.directories.push(path.to_owned()),
                // Somebody else was faster, or it is the `..` of one just made.
                Err(_) if path.is_dir() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until the directories that were made are on disk: each is an entry of its parent, which
    /// is written separately.
    pub(super) fn sync_made(&self, made: &Made) -> io::Result<()> {
        for parent in made.directories.iter().filter_map(|path| path.parent()) {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            self.faults.before(Operation::SyncDirectory, &parent.to_string_lossy())?;
            sync_directory(parent)?;
        }
        Ok(())
    }

    /// Takes back what [`Disk::make_directory`] did. Best effort: the error that led here matters
    /// more.
    pub(super) fn unmake_directory(&self, made: &Made) {
        for path in made.directories.iter().rev() {
            let _ = fs::remove_dir(path);
        }
        if let Some(permissions) = &made.permissions {
            // A directory that is not empty any more has become somebody else's vault.
            if self.is_empty().is_ok_and(|empty| empty) {
                let _ = fs::set_permissions(&self.directory, permissions.clone());
            }
        }
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
fn sync_directory(directory: &Path) -> io::Result<()> {
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
