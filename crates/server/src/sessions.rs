//! Keys of open sessions, to merge or to rotate with, under one memory budget.

use std::hash::RandomState;
use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use shard_protocol::{CollectionName, SessionId};
use shard_rlwe::PreparedMergeKeys;
#[cfg(feature = "slots")]
use shard_rlwe::slots::SlotsServer;

/// Memory of an entry besides its keys: names, counters, the table's slot.
const ENTRY_BYTES: usize = 256;

/// Memory of usual keys: a first guess of how many sessions the budget holds.
const EXPECTED_BYTES: usize = 1 << 20;

/// The session is not there, or no longer.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
#[error("the server does not know this session; open it again")]
pub struct UnknownSession;

/// The keys alone would take more than all sessions may.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
#[error("the keys of this session take {bytes} bytes of memory; the server has {budget} for all")]
pub struct SessionTooLarge {
    /// Memory of the keys.
    pub bytes: usize,
    /// Memory for the keys of all sessions.
    pub budget: usize,
}

/// Sessions held, and their memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionCounts {
    /// Open sessions.
    pub open: usize,
    /// Memory of their keys.
    pub bytes: usize,
}

/// Keys of either layout.
#[derive(Clone)]
pub(crate) enum SessionKeys {
    /// To merge responses with.
    Merge(Arc<PreparedMergeKeys>),
    /// To rotate slots with.
    #[cfg(feature = "slots")]
    Slots(Arc<SlotsServer>),
}

/// A session is known within its collection only: whoever may read one collection can neither
/// use nor replace the keys of another's sessions.
type Key = (CollectionName, SessionId);

/// Keys with the memory they take.
#[derive(Clone)]
struct Weighed<K> {
    keys: K,
    bytes: usize,
}

/// Sessions weigh what their keys take in memory.
#[derive(Clone)]
struct ByBytes;

impl<K> Weighter<Key, Weighed<K>> for ByBytes {
    fn weight(&self, _: &Key, session: &Weighed<K>) -> u64 {
        session.bytes as u64
    }
}

/// Open sessions. Those that were not used for long give way once the budget is spent.
pub(crate) struct Sessions<K: Clone> {
    budget: usize,
    open: Cache<Key, Weighed<K>, ByBytes, RandomState>,
}

impl<K: Clone> Sessions<K> {
    pub(crate) fn new(budget: usize) -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(budget / EXPECTED_BYTES + 1)
            .weight_capacity(budget as u64)
            // One shard and one queue, so that a session may take the whole budget.
            .shards(1)
            .hot_allocation(1.0)
            .build()
            .expect("both capacities are given");
        let open =
            Cache::with_options(options, ByBytes, RandomState::new(), DefaultLifecycle::default());
        Self { budget, open }
    }

    pub(crate) fn find(
        &self,
        collection: &CollectionName,
        id: SessionId,
    ) -> Result<K, UnknownSession> {
        let found = self.open.get(&(collection.clone(), id));
        found.map(|session| session.keys).ok_or(UnknownSession)
    }

    /// Keeps keys that take this much memory.
    pub(crate) fn insert(
        &self,
        collection: &CollectionName,
        id: SessionId,
        keys: K,
        bytes: usize,
    ) -> Result<(), SessionTooLarge> {
        let bytes = bytes + ENTRY_BYTES;
        if bytes > self.budget {
            return Err(SessionTooLarge { bytes, budget: self.budget });
        }
        let key = (collection.clone(), id);
        self.open.insert(key.clone(), Weighed { keys, bytes });
        // Counts as used: a request follows, and sessions of others must not displace it first.
        self.open.get(&key);
        Ok(())
    }

    /// Forgets the sessions of a collection.
    pub(crate) fn forget(&self, collection: &CollectionName) {
        self.open.retain(|(owner, _), _| owner != collection);
    }

    pub(crate) fn counts(&self) -> SessionCounts {
        SessionCounts { open: self.open.len(), bytes: self.open.weight() as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u16) -> SessionId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_le_bytes());
        SessionId(bytes)
    }

    #[test]
    fn the_session_unused_for_longest_gives_way() {
        let sessions = Sessions::new(2 * (ENTRY_BYTES + 10));
        let main = CollectionName::default();
        sessions.insert(&main, id(1), 'a', 10).unwrap();
        sessions.insert(&main, id(2), 'b', 10).unwrap();
        assert!(sessions.find(&main, id(1)).is_ok());
        sessions.insert(&main, id(3), 'c', 10).unwrap();
        assert_eq!(sessions.find(&main, id(2)), Err(UnknownSession));
        assert_eq!(sessions.find(&main, id(1)), Ok('a'));
        sessions.insert(&main, id(3), 'd', 5).unwrap();
        assert_eq!(sessions.find(&main, id(3)), Ok('d'));
        assert_eq!(sessions.counts(), SessionCounts { open: 2, bytes: 2 * ENTRY_BYTES + 15 });
    }

    #[test]
    fn a_thousand_sessions_stay_within_the_budget() {
        let budget = 100_000;
        let sessions = Sessions::new(budget);
        let main = CollectionName::default();
        for number in 0..1000 {
            let bytes = 500 + usize::from(number) % 7 * 100;
            sessions.insert(&main, id(number), number, bytes).unwrap();
            assert!(sessions.counts().bytes <= budget);
        }
        assert!(sessions.counts().open > 80, "the budget is used: {:?}", sessions.counts());
        assert_eq!(sessions.find(&main, id(999)), Ok(999));
        assert_eq!(sessions.find(&main, id(0)), Err(UnknownSession));
    }

    #[test]
    fn sessions_that_are_opened_at_once_do_not_displace_each_other() {
        let sessions = Sessions::new(10 * (ENTRY_BYTES + 10));
        let main = CollectionName::default();
        (0..10).for_each(|number| sessions.insert(&main, id(number), number, 10).unwrap());
        (10..15).for_each(|number| sessions.insert(&main, id(number), number, 10).unwrap());
        for number in 10..15 {
            assert_eq!(sessions.find(&main, id(number)), Ok(number));
        }
        assert_eq!(sessions.counts().open, 10);
    }

    #[test]
    fn keys_beyond_the_whole_budget_are_refused_and_displace_nobody() {
        let sessions = Sessions::new(1000);
        let main = CollectionName::default();
        sessions.insert(&main, id(1), 'a', 10).unwrap();
        let refused = sessions.insert(&main, id(2), 'b', 2000).unwrap_err();
        assert_eq!(refused.budget, 1000);
        assert!(sessions.find(&main, id(1)).is_ok());
    }

    #[test]
    fn keys_that_take_the_whole_budget_are_kept_alone() {
        let sessions = Sessions::new(10 * ENTRY_BYTES);
        let main = CollectionName::default();
        sessions.insert(&main, id(1), 'a', 10).unwrap();
        assert!(sessions.find(&main, id(1)).is_ok());
        sessions.insert(&main, id(2), 'b', 9 * ENTRY_BYTES).unwrap();
        assert_eq!(sessions.find(&main, id(2)), Ok('b'));
        assert_eq!(sessions.counts(), SessionCounts { open: 1, bytes: 10 * ENTRY_BYTES });
        sessions.insert(&main, id(3), 'c', 10).unwrap();
        assert_eq!(sessions.find(&main, id(3)), Ok('c'));
        assert_eq!(sessions.find(&main, id(2)), Err(UnknownSession));
    }

    #[test]
    fn a_session_belongs_to_its_collection() {
        let sessions = Sessions::new(10_000);
        let (mine, yours) = ("mine".parse().unwrap(), "yours".parse().unwrap());
        sessions.insert(&mine, id(1), 'a', 10).unwrap();
        assert_eq!(sessions.find(&yours, id(1)), Err(UnknownSession));
        sessions.insert(&yours, id(1), 'b', 10).unwrap();
        assert_eq!(sessions.find(&mine, id(1)), Ok('a'));
        sessions.forget(&mine);
        assert_eq!(sessions.find(&mine, id(1)), Err(UnknownSession));
        assert_eq!(sessions.counts().open, 1);
    }
}
