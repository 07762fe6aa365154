//! The server's directory: which row file counts, and who has it open.
//!
//! `CURRENT` names the row file. It is replaced by a rename, so at every moment it names one
//! whole file; any other row file was left by a compaction that was killed. `LOCK` is held while
//! the directory is open.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::database::disk;
use crate::StoreError;

const OPENING: &str = "open the server's directory";
const SWEEPING: &str = "remove old row files";
const CURRENT: &str = "CURRENT";
const LOCK: &str = "LOCK";
/// First line of `CURRENT`: what this is, and the version of the layout.
const MAGIC: &str = "shard rows 2";
/// The same of the version before, which is not read.
const BEFORE: &str = "shard rows 1";
const PREFIX: &str = "rows-";
const SUFFIX: &str = ".redb";
/// How the names of damaged row files begin that were set aside.
const ASIDE: &str = "damaged-rows-";
/// What a file is called until it is whole.
const PARTIAL: &str = ".partial";

/// A server's directory, locked.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

/// How often a lock that is held is tried again, and how long to wait in between.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

impl Directory {
    /// Makes the directory where it is new, and locks it for this process.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        make_private(path).map_err(disk(OPENING, path))?;
        let lock_path = path.join(LOCK);
        let lock = private_file().read(true).create(true).truncate(false).open(&lock_path);
        let lock = lock.map_err(disk(OPENING, &lock_path))?;
        patiently(|| lock.try_lock()).map_err(|error| in_use(path, error))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Locks a directory against servers but not against other readers, and writes nothing.
    pub(super) fn open_to_read(path: &Path) -> Result<Option<File>, StoreError> {
        match File::open(path.join(LOCK)) {
            Ok(lock) => {
                patiently(|| lock.try_lock_shared()).map_err(|error| in_use(path, error))?;
                Ok(Some(lock))
            }
            // A snapshot that no server ever opened.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(disk(OPENING, path)(error)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The generation of the row file that counts; `None` in a new directory.
    pub(super) fn current(&self) -> Result<Option<u64>, StoreError> {
        current(&self.path)
    }

    /// Whether `CURRENT` is there.
    pub(super) fn is_named(&self) -> bool {
        self.path.join(CURRENT).exists()
    }

    /// Removes every row file but the one that counts, and what killed work has left. Files that
    /// the engine does not know stay.
    pub(super) fn sweep(&self, current: Option<u64>) -> Result<(), StoreError> {
        let list = fs::read_dir(&self.path).map_err(disk(SWEEPING, &self.path))?;
        for entry in list {
            let path = entry.map_err(disk(SWEEPING, &self.path))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let ours = name.starts_with(PREFIX) || name.starts_with(CURRENT);
            let old = generation(name).is_some_and(|number| Some(number) != current);
            if ours && name.ends_with(PARTIAL) || old {
                tracing::debug!(file = name, "removing a file that does not count");
                fs::remove_file(&path).map_err(disk(SWEEPING, &path))?;
            }
        }
        Ok(())
    }

    /// Removes everything of the engine's, to leave an empty directory.
    pub(super) fn clear(self) -> Result<(), StoreError> {
        self.sweep(None)?;
        for name in [CURRENT, LOCK] {
            match fs::remove_file(self.path.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(disk(OPENING, &self.path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives a new row file, which is whole, its name.
    pub(super) fn adopt(&self, new: &Path, name: &Path) -> Result<(), StoreError> {
        fs::rename(new, name).map_err(disk("name a row file", name))?;
        self.sync()
    }

    /// Where the row file of a generation is kept when it is damaged: a name that nothing has.
    pub(super) fn aside(&self, generation: u64) -> PathBuf {
        let name = |number: u32| self.path.join(format!("{ASIDE}{generation:08}-{number}{SUFFIX}"));
        (1..).map(name).find(|path| !path.exists()).expect("there are names enough")
    }

    /// Makes the row file of a generation the one that counts; [`Self::sync`] makes it last.
    pub(super) fn switch(&self, generation: u64) -> Result<(), StoreError> {
        write_current(&self.path, generation)
    }

    /// Makes renames and new files of the directory outlive a crash.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        sync_directory(&self.path)
    }
}

/// Makes a directory where it is new, for nobody else to read.
pub(super) fn make_private(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Opens to write what, where it is new, is for nobody else to read.
pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Tries for a moment: a server that is just ending still has the lock, and so has any process
/// between being forked from one and running its own program.
fn patiently(mut lock: impl FnMut() -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    for _ in 0..LOCK_ATTEMPTS {
        match lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            outcome => return outcome,
        }
    }
    lock()
}

fn in_use(path: &Path, error: TryLockError) -> StoreError {
    let path = path.display();
    let reason = match error {
        TryLockError::WouldBlock => format!(
            "a server is running on {path}: stop it first, or ask it (a running server takes \
             snapshots, and a snapshot can be verified)"
        ),
        TryLockError::Error(error) => format!("{path}: {error}"),
    };
    StoreError::Engine { doing: OPENING, reason }
}

/// What a directory is refused with that holds none.
pub(super) fn without_rows(path: &Path) -> StoreError {
    StoreError::Engine { doing: OPENING, reason: format!("{} holds no rows", path.display()) }
}

/// The row file of a generation.
pub(super) fn row_file(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("{PREFIX}{generation:08}{SUFFIX}"))
}

/// Bytes that a file takes on the disk. redb makes its files longer than what it writes to them.
pub(super) fn disk_bytes(path: &Path) -> std::io::Result<u64> {
    let file = path.metadata()?;
    #[cfg(unix)]
    return Ok(file.len().min(512 * std::os::unix::fs::MetadataExt::blocks(&file)));
    #[cfg(not(unix))]
    Ok(file.len())
}

/// A path as it is called until what is written there is whole.
pub(super) fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(PARTIAL);
    name.into()
}

fn generation(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok()
}

/// The generation of the row file that counts. Without a `CURRENT` it is the only row file there
/// is: the first one gets its name before `CURRENT` is written.
pub(super) fn current(directory: &Path) -> Result<Option<u64>, StoreError> {
    let path = directory.join(CURRENT);
    let refuse = |reason: String| Err(StoreError::Engine { doing: OPENING, reason });
    match fs::read_to_string(&path) {
        Ok(text) => match text.strip_suffix('\n').and_then(|text| text.split_once('\n')) {
            Some((MAGIC, name)) if generation(name).is_some() => Ok(generation(name)),
            Some((BEFORE, _)) => refuse(format!(
                "{} holds rows of layout version 1 and this program reads version 2: name another \
                 directory and publish the vaults again",
                directory.display()
            )),
            _ => refuse(format!("{} is damaged or of another version", path.display())),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let list = fs::read_dir(directory).map_err(disk(OPENING, directory))?;
            let names = list.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let mut found = names.filter_map(|name| generation(&name));
            match (found.next(), found.next()) {
                (only, None) => Ok(only),
                _ => refuse(format!(
                    "{} has row files but no {CURRENT} that says which one counts",
                    directory.display()
                )),
            }
        }
        Err(error) => Err(disk(OPENING, &path)(error)),
    }
}

/// Writes `CURRENT`: a new file, synced, then renamed. The rename is not synced yet.
pub(super) fn write_current(directory: &Path, generation: u64) -> Result<(), StoreError> {
    let doing = "name the row file that counts";
    let path = directory.join(CURRENT);
    let new = partial(&path);
    let text = format!("{MAGIC}\n{PREFIX}{generation:08}{SUFFIX}\n");
    let write = || {
        let mut file = private_file().create(true).truncate(true).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    write().map_err(disk(doing, &path))
}

/// Makes renames and new files of a directory outlive a crash.
pub(super) fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    let sync = || File::open(directory)?.sync_all();
    sync().map_err(disk("sync the server's directory", directory))
}
