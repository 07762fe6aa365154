//! How far each collection has come, without asking the engine for every answer.
//!
//! A collection that is dropped may be published again and then begins anew. What was learnt of
//! the one before must not be noted after it has gone, so nothing is noted that may be older than
//! a drop: while there is one, and by whoever asked the engine before it ended.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use shard_protocol::{CollectionName, Revision};

/// The latest revision of every collection that was written to or asked for.
#[derive(Default)]
pub(crate) struct Revisions(RwLock<State>);

#[derive(Default)]
struct State {
    latest: HashMap<CollectionName, Revision>,
    /// Drops that are under way.
    dropping: usize,
    /// Drops that have ended.
    dropped: u64,
}

/// A moment, told apart by the drops before it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Revisions {
    pub(crate) fn find(&self, collection: &CollectionName) -> Option<Revision> {
        self.read().latest.get(collection).copied()
    }

    /// Now: to be taken before the engine is asked.
    pub(crate) fn moment(&self) -> Moment {
        Moment(self.read().dropped)
    }

    /// The engine, asked after `moment`, has this revision. Changes may be noted in another order
    /// than the engine took them in, so the latest stays.
    pub(crate) fn reached(&self, collection: &CollectionName, revision: Revision, moment: Moment) {
        let mut state = self.write();
        if state.dropping > 0 || moment != Moment(state.dropped) {
            return;
        }
        let held = state.latest.entry(collection.clone()).or_default();
        *held = revision.max(*held);
    }

    /// Forgets a collection while `drop` drops it; until it has ended the engine is asked.
    pub(crate) fn forget_while<T>(
        &self,
        collection: &CollectionName,
        drop: impl FnOnce() -> T,
    ) -> T {
        {
            let mut state = self.write();
            state.dropping += 1;
            state.latest.remove(collection);
        }
        let _end = Dropping(self);
        drop()
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A drop that is under way; it ends also when it panics.
struct Dropping<'a>(&'a Revisions);

impl Drop for Dropping<'_> {
    fn drop(&mut self) {
        let mut state = self.0.write();
        state.dropping -= 1;
        state.dropped += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learnt_before_a_drop_is_not_noted_after_it() {
        let (revisions, main) = (Revisions::default(), CollectionName::default());
        let before = revisions.moment();
        revisions.reached(&main, Revision(5), before);
        assert_eq!(revisions.find(&main), Some(Revision(5)));
        let during = revisions.forget_while(&main, || {
            let during = revisions.moment();
            revisions.reached(&main, Revision(5), during);
            assert_eq!(revisions.find(&main), None);
            during
        });
        for late in [before, during] {
            revisions.reached(&main, Revision(5), late);
            assert_eq!(revisions.find(&main), None);
        }
        revisions.reached(&main, Revision(1), revisions.moment());
        assert_eq!(revisions.find(&main), Some(Revision(1)));
    }
}
