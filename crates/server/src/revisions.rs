//! How far each collection has come, without asking the engine for every answer.
//!
//! A collection that is dropped may be published again and then begins anew. What was learnt of
//! the one before must not be noted after it has gone, so nothing is noted that may be older than
//! a drop: while there is one, and by whoever asked the engine before it ended.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use shard_protocol::{CollectionName, Revision};

/// The latest revision of every collection that was written to or asked for.
#[derive(Default)]
pub(crate) struct Revisions {
    state: RwLock<State>,
    /// How long one is remembered; for ever where nobody else publishes.
    age: Option<Duration>,
}

#[derive(Default)]
struct State {
    latest: HashMap<CollectionName, (Revision, Instant)>,
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
        let found = self.read().latest.get(collection).copied();
        found.filter(|(_, since)| self.is_fresh(*since)).map(|(revision, _)| revision)
    }

    /// Remembers revisions for so long, or for ever.
    pub(crate) fn new(age: Option<Duration>) -> Self {
        Self { state: RwLock::default(), age }
    }

    fn is_fresh(&self, since: Instant) -> bool {
        self.age.is_none_or(|age| since.elapsed() < age)
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
        let now = Instant::now();
        let held = state.latest.entry(collection.clone()).or_insert((revision, now));
        // Another process may have dropped the collection and begun anew: an old one is no measure.
        if !self.is_fresh(held.1) || revision >= held.0 {
            *held = (revision, now);
        }
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
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn where_others_publish_too_nothing_is_remembered_beyond_its_age() {
        let (revisions, main) = (Revisions::new(Some(Duration::ZERO)), CollectionName::default());
        revisions.reached(&main, Revision(5), revisions.moment());
        assert_eq!(revisions.find(&main), None);
        let revisions = Revisions::new(Some(Duration::from_secs(3600)));
        revisions.reached(&main, Revision(5), revisions.moment());
        revisions.reached(&main, Revision(4), revisions.moment());
        assert_eq!(revisions.find(&main), Some(Revision(5)), "noted in another order");
    }
}
