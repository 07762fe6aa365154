//! Snapshots: a copy of everything live as of one moment, in a directory of its own that can be
//! opened like the server's.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::RedbRows;
use super::copy::{Leftovers, copy_all};
use super::database::{RowDatabase, disk};
use super::directory::{self, Directory};
use super::verify::verify;
use crate::StoreError;

const TAKING: &str = "take a snapshot";
const RESTORING: &str = "restore a snapshot";
/// Generation of the row file of a snapshot.
const FIRST: u64 = 1;

/// What a snapshot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Rows of all collections and epochs.
    pub rows: u64,
    /// Bytes that its row file takes on the disk.
    pub bytes: u64,
}

impl RedbRows {
    /// Writes a copy of everything live, as of now, into a new directory; reads and writes go on
    /// meanwhile. The directory has its name only once it is whole and on disk.
    pub fn snapshot(&self, to: &Path) -> Result<Snapshot, StoreError> {
        refuse_unless_empty(to, TAKING)?;
        let new = unfinished(to)?;
        let parent = match to.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent).map_err(disk(TAKING, parent))?;
        remove_unfinished(&new)?;
        directory::make_private(&new).map_err(disk(TAKING, &new))?;
        let outcome = self.snapshot_into(&new).and_then(|snapshot| {
            fs::rename(&new, to).map_err(disk(TAKING, to))?;
            directory::sync_directory(parent)?;
            Ok(snapshot)
        });
        if outcome.is_err() {
            // The error that is reported matters more than one of cleaning up after it.
            let _ = remove_unfinished(&new);
        }
        outcome
    }

    fn snapshot_into(&self, new: &Path) -> Result<Snapshot, StoreError> {
        let path = directory::row_file(new, FIRST);
        let rows = self.reading(|| {
            // A second try begins anew.
            if path.exists() {
                fs::remove_file(&path).map_err(disk(TAKING, &path))?;
            }
            let condition = self.options.condition();
            let target = RowDatabase::create(&path, self.options.redb_cache_bytes, condition)?;
            let view = self.view();
            let state = Leftovers::default().state(&view);
            copy_all(&view, &target, state).map_err(|error| target.explain(error))
        })?;
        sync_file(&path)?;
        directory::write_current(new, FIRST)?;
        directory::sync_directory(new)?;
        let bytes = directory::disk_bytes(&path).map_err(disk(TAKING, &path))?;
        Ok(Snapshot { rows, bytes })
    }

    /// Copies a snapshot, once it is verified, into a directory that holds no rows, to be opened
    /// there.
    pub fn restore(snapshot: &Path, directory: &Path) -> Result<Snapshot, StoreError> {
        let refuse = |reason| Err(StoreError::Engine { doing: RESTORING, reason });
        let verification = verify(snapshot)?;
        if let Some(problem) = verification.problems.first() {
            let count = verification.problems.len();
            return refuse(format!(
                "{} is damaged in {count} places, first: {problem}",
                snapshot.display()
            ));
        }
        let _lock = Directory::open_to_read(snapshot)?;
        let Some(generation) = directory::current(snapshot)? else {
            return Err(directory::without_rows(snapshot));
        };
        let target = Directory::open(directory)?;
        if target.current()?.is_some() {
            return refuse(format!(
                "{} holds rows already: restore into another directory",
                directory.display()
            ));
        }
        target.sweep(None)?;
        let path = directory::row_file(directory, FIRST);
        let new = directory::partial(&path);
        let copy = || {
            let mut from = File::open(directory::row_file(snapshot, generation))?;
            let to = directory::private_file().create_new(true).open(&new);
            io::copy(&mut from, &mut to?)
        };
        let bytes = copy().map_err(disk(RESTORING, &new))?;
        sync_file(&new)?;
        target.adopt(&new, &path)?;
        target.switch(FIRST)?;
        target.sync()?;
        Ok(Snapshot { rows: verification.rows, bytes })
    }
}

fn sync_file(path: &Path) -> Result<(), StoreError> {
    let sync = || File::options().write(true).open(path)?.sync_all();
    sync().map_err(disk("sync a row file", path))
}

fn refuse_unless_empty(path: &Path, doing: &'static str) -> Result<(), StoreError> {
    match fs::read_dir(path).map(Iterator::count) {
        Ok(0) => Ok(()),
        Ok(_) => Err(StoreError::Engine {
            doing,
            reason: format!("{} is not empty: name a new directory", path.display()),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(disk(doing, path)(error)),
    }
}

/// Where a snapshot is written until it is whole: beside its place, under a name that begins with
/// a dot and so is none of another snapshot.
fn unfinished(to: &Path) -> Result<PathBuf, StoreError> {
    match to.file_name() {
        Some(name) if !name.as_encoded_bytes().starts_with(b".") => {
            let mut hidden = OsString::from(".");
            hidden.push(name);
            Ok(directory::partial(&to.with_file_name(hidden)))
        }
        _ => Err(StoreError::Engine {
            doing: TAKING,
            reason: format!("{}: name a directory that begins with no dot", to.display()),
        }),
    }
}

/// Removes what a snapshot that was killed has left, and nothing else that may be there.
fn remove_unfinished(path: &Path) -> Result<(), StoreError> {
    if !path.exists() {
        return Ok(());
    }
    Directory::open(path)?.clear()?;
    fs::remove_dir(path).map_err(disk(TAKING, path))
}
