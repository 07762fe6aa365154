//! One change at a time: transaction, commit, publication; and opening the file anew after an
//! error of the disk.

use std::sync::Arc;

use super::cache::Stale;
use super::database::{RowDatabase, View, guarded};
use super::draft::{Draft, Effects};
use super::metrics::{add, value};
use super::{RedbRows, Writer};
use crate::StoreError;

impl RedbRows {
    /// Makes one change: all of what `change` does to the draft, on disk, or nothing.
    pub(super) fn change<T>(
        &self,
        doing: &'static str,
        change: impl FnOnce(&mut Draft<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut writer = self.writer();
        self.make_writable(&mut writer)?;
        let view = self.view();
        let database = view.database().clone();
        let prepared = guarded(database.condition(), doing, || {
            let transaction = database.begin_write(doing)?;
            let mut draft = Draft::new(&transaction, &view, doing, writer.recording.is_some())?;
            let answer = change(&mut draft)?;
            let effects = draft.finish()?;
            Ok((answer, effects, transaction))
        });
        let (answer, effects, transaction) = match prepared {
            Ok((answer, Some(effects), transaction)) => (answer, effects, transaction),
            Ok((answer, None, _)) => return Ok(answer),
            Err(error) => {
                let error = database.explain(error);
                self.reopen_if_failed(&mut writer);
                return Err(error);
            }
        };
        let expected = effects.state.sequence;
        match database.commit(transaction, doing) {
            Ok(()) => self.publish(&mut writer, &view, effects),
            Err(error) => {
                database.condition().fail(&error);
                // Whether it took place is not known yet: no compaction can rely on its notes.
                writer.recording = None;
                self.reopen_if_failed(&mut writer);
                let now = self.view();
                // Done after all when it had reached the file, which opening anew has synced.
                if now.state.sequence != expected || !now.database().is_writable() {
                    return Err(database.explain(error));
                }
            }
        }
        add(&self.counters.commits, 1);
        Ok(answer)
    }

    /// Shows a commit to readers.
    fn publish(&self, writer: &mut Writer, view: &View, effects: Effects) {
        if let (Some(all), Some(new)) = (&mut writer.recording, effects.touched) {
            all.append(new);
        }
        match View::new(view.database().clone(), effects.state, effects.catalogue) {
            Ok(next) => self.show(next, &effects.stale),
            // The change is on disk: it must not be reported as failed.
            Err(error) => {
                view.database().condition().fail(&error);
                self.reopen_if_failed(writer);
            }
        }
    }

    /// Puts a view in the place of the last one.
    pub(super) fn show(&self, next: View, stale: &[Stale]) {
        let last = {
            let mut live = self.live();
            live.cache.remove(stale);
            std::mem::replace(&mut live.view, Arc::new(next))
        };
        drop(last); // may close a file: not under the lock
    }

    /// Makes sure that the file can be written, or says why it cannot.
    pub(super) fn make_writable(&self, writer: &mut Writer) -> Result<(), StoreError> {
        if !self.view().database().is_writable() {
            self.reopen(writer)?;
        }
        if writer.unsynced {
            self.directory.sync()?;
            writer.unsynced = false;
        }
        Ok(())
    }

    pub(super) fn reopen_if_failed(&self, writer: &mut Writer) {
        if self.view().database().has_failed()
            && let Err(error) = self.reopen(writer)
        {
            tracing::error!(%error, "the row file cannot be written");
        }
    }

    /// Opens the file anew after an error: to write, or else to read. An error when it cannot be
    /// written.
    fn reopen(&self, writer: &mut Writer) -> Result<(), StoreError> {
        let last = self.view();
        last.database().condition().fence();
        let path = self.row_file(writer);
        let cache = self.options.redb_cache_bytes;
        let opened = RowDatabase::open(&path, cache, self.options.condition())
            .and_then(|database| View::open(Arc::new(database)))
            .and_then(|view| {
                // The last commit may have come to the file without coming to the disk.
                let doing = "write to the row file again";
                let database = view.database().clone();
                database
                    .commit(database.begin_write(doing)?, doing)
                    .map_err(|e| database.explain(e))?;
                Ok(view)
            });
        let (next, outcome) = match opened {
            Ok(view) => (view, Ok(())),
            Err(error) if last.database().has_failed() => {
                let database = RowDatabase::open_read_only(&path, cache)?;
                (View::open(Arc::new(database))?, Err(error))
            }
            // It is open to read already.
            Err(error) => return Err(error),
        };
        add(&self.counters.reopened, 1);
        if next.state.sequence != last.state.sequence {
            // A commit that had reported an error took place: what it made stale is not known.
            let mut live = self.live();
            live.cache.clear();
            live.view = Arc::new(next);
        } else {
            self.show(next, &[]);
        }
        outcome
    }

    /// Reads; a second time with the file opened anew when an error of the disk has ended redb's
    /// work on it.
    pub(super) fn reading<T>(
        &self,
        read: impl Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let before = value(&self.counters.reopened);
        let outcome = read();
        if !matches!(outcome, Err(StoreError::Engine { .. } | StoreError::Damaged { .. })) {
            return outcome;
        }
        if self.view().database().has_failed() {
            self.reopen_if_failed(&mut self.writer());
        }
        // By this call or by another one.
        if value(&self.counters.reopened) == before { outcome } else { read() }
    }
}
