//! Compaction: everything live goes into a new file, and the old one with all it held of deleted
//! and replaced rows is unlinked.
//!
//! Readers are never blocked: they keep the file they began with. Writers go on while the copy is
//! made; what they change meanwhile is noted and copied again, the last of it while they wait.

use std::fs;
use std::path::Path;
use std::sync::{Arc, TryLockError};

use super::copy::{Leftovers, catch_up, copy_all};
use super::database::{RowDatabase, View, disk};
use super::directory;
use super::draft::Touched;
use super::metrics::add;
use super::{RedbRows, Writer};
use crate::StoreError;

const COMPACTING: &str = "compact the rows";
/// Changes that are few enough to be copied while writers wait.
const FEW: usize = 10_000;
/// How often changes are copied again while writers go on; where they write faster than that,
/// they wait.
const ROUNDS: usize = 8;
/// Deleted or replaced rows, as a fraction of the live ones, from which on a compaction pays.
const WORTHWHILE: f64 = 0.2;

/// What a compaction did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compaction {
    /// Bytes that the row file took on the disk.
    pub bytes_before: u64,
    /// Bytes that the new one takes.
    pub bytes_after: u64,
    /// Rows that were copied.
    pub rows: u64,
}

impl RedbRows {
    /// Rewrites the row file. Once it has returned `Ok`, nothing that was deleted, replaced or
    /// erased before the call is in any file of the directory.
    pub fn compact(&self) -> Result<Compaction, StoreError> {
        let _alone = match self.compacting.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let reason = "a compaction is under way already".to_owned();
                return Err(StoreError::Engine { doing: COMPACTING, reason });
            }
        };
        let (view, generation) = {
            let mut writer = self.writer();
            self.make_writable(&mut writer)?;
            writer.recording = Some(Touched::default());
            (self.view(), writer.generation + 1)
        };
        let path = directory::row_file(self.directory.path(), generation);
        let outcome = self.rewrite(view, &path, generation);
        if outcome.is_err() {
            let mut writer = self.writer();
            writer.recording = None;
            if writer.generation != generation {
                // Best effort: whatever is left is removed when the directory is opened.
                let _ = fs::remove_file(directory::partial(&path));
                let _ = fs::remove_file(&path);
            }
        }
        outcome
    }

    /// Whether a compaction is due: an epoch was erased, or a fifth of the rows were deleted or
    /// replaced, or a fifth of the file's bytes are of deleted rows or blobs.
    pub fn needs_compaction(&self) -> bool {
        let view = self.view();
        let share = |part: u64, whole: u64| part as f64 > WORTHWHILE * whole as f64;
        view.state.erased
            || share(view.state.erasable_rows, view.catalogue.rows())
            || share(view.state.erasable_bytes, self.file_bytes())
    }

    /// Bytes of deleted and replaced rows and blobs that the file may still hold. redb uses their
    /// place again, so it may hold fewer.
    pub fn erasable_bytes(&self) -> u64 {
        self.view().state.erasable_bytes
    }

    fn rewrite(
        &self,
        view: Arc<View>,
        path: &Path,
        generation: u64,
    ) -> Result<Compaction, StoreError> {
        let bytes_before = self.file_bytes();
        let new = directory::partial(path);
        let cache = self.options.redb_cache_bytes;
        let mut left = Leftovers::default();
        let target = RowDatabase::create(&new, cache, self.options.condition())?;
        let copied = copy_all(&view, &target, left.state(&view));
        let rows = copied.map_err(|error| target.explain(error))?;
        drop(view); // so that redb can use its pages again
        drop(target); // gives back the room that redb has taken in advance
        let target = Arc::new(RowDatabase::open(&new, cache, self.options.condition())?);
        let explain = |error| target.explain(error);
        for _ in 0..ROUNDS {
            let (view, touched) = {
                let mut writer = self.writer();
                let recording = writer.recording.as_mut().ok_or_else(abandoned)?;
                if recording.len() <= FEW {
                    break;
                }
                (self.view(), std::mem::take(recording))
            };
            catch_up(&view, &target, &touched, &mut left).map_err(explain)?;
        }
        let mut writer = self.writer();
        let touched = writer.recording.take().ok_or_else(abandoned)?;
        let view = self.view();
        let state = catch_up(&view, &target, &touched, &mut left).map_err(explain)?;
        let next = View::new(target.clone(), state, view.catalogue.clone())?;
        self.directory.adopt(&new, path)?;
        self.switch(&mut writer, next, &view, generation, None)?;
        drop(writer);
        add(&self.counters.compactions, 1);
        let bytes_after = directory::disk_bytes(path).map_err(disk(COMPACTING, path))?;
        tracing::info!(bytes_before, bytes_after, rows, "compacted the row file");
        Ok(Compaction { bytes_before, bytes_after, rows })
    }

    /// Lets the new file take the place of the old one, which is removed unless it is to be kept
    /// under another name.
    pub(super) fn switch(
        &self,
        writer: &mut Writer,
        next: View,
        last: &View,
        generation: u64,
        kept: Option<(&Path, &Path)>,
    ) -> Result<(), StoreError> {
        self.directory.switch(generation)?;
        // From here on the new file counts, whatever fails: no change may be acknowledged until
        // the directory is known to say so after a crash as well.
        writer.generation = generation;
        writer.unsynced = true;
        last.database().condition().fence();
        self.show(next, &[]);
        self.directory.sync()?;
        writer.unsynced = false;
        if let Some((old, name)) = kept {
            self.directory.adopt(old, name)?;
        }
        // All that do not count: an earlier compaction may have failed to remove one.
        self.directory.sweep(Some(generation))?;
        self.directory.sync()
    }
}

/// What a compaction ends with when a change failed in such a way that its notes have a gap.
fn abandoned() -> StoreError {
    let reason = "a write failed meanwhile; nothing was changed, try again".to_owned();
    StoreError::Engine { doing: COMPACTING, reason }
}
