//! The few things a vault does to its directory beside its database.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

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
}

impl Disk {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
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

    /// Locks the directory for as long as what is returned lives: against others who lock it, and
    /// nobody else. `None` when somebody else has; `Some(None)` where a directory cannot be locked.
    pub(super) fn try_lock(&self) -> io::Result<Option<Option<File>>> {
        if cfg!(not(unix)) {
            return Ok(Some(None));
        }
        let directory = File::open(&self.directory)?;
        match directory.try_lock() {
            Ok(()) => Ok(Some(Some(directory))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Waits until the directories that were made are on disk: each is an entry of its parent, which
    /// is written separately.
    pub(super) fn sync_made(&self, made: &Made) -> io::Result<()> {
        for parent in made.directories.iter().filter_map(|path| path.parent()) {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
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
            if self.names().is_ok_and(|names| names.is_empty()) {
                let _ = fs::set_permissions(&self.directory, permissions.clone());
            }
        }
    }

    /// The names in the directory.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        fs::read_dir(&self.directory)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    /// Creates a file with these bytes, which must not exist, so that a planted link is never
    /// followed, and waits until they are on disk.
    pub(super) fn create_with(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file =
            owner_only(OpenOptions::new().write(true).create_new(true)).open(self.path(name))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Puts a file with these bytes in place of one of that name, by way of another name: at any
    /// moment there is the old one or the new one, whole.
    pub(super) fn replace_with(&self, name: &str, by_way_of: &str, bytes: &[u8]) -> io::Result<()> {
        // A killed writer may have left one.
        self.remove(by_way_of)?;
        let written =
            self.create_with(by_way_of, bytes).and_then(|()| self.rename(by_way_of, name));
        if written.is_err() {
            // Best effort: what cannot be removed now, the next writer removes.
            let _ = self.remove(by_way_of);
        }
        written?;
        self.sync()
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    /// Removes a file; one that is not there is no error.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until creations, renames and removals in the directory are on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        sync_directory(&self.directory)
    }

    /// The whole of a file that ought to have at most `limit` bytes. Of a longer one, `limit + 1`
    /// bytes are returned: enough to be refused.
    pub(super) fn read_small(&self, name: &str, limit: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path(name))?.take(limit as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Waits until the directory's own entries are on disk, where the system can do that.
fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}
