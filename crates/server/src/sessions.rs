//! Keys of open sessions, to merge or to rotate with, under one memory budget.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shard_protocol::{CollectionName, SessionId};
use shard_rlwe::PreparedMergeKeys;
#[cfg(feature = "slots")]
use shard_rlwe::slots::SlotsServer;

/// Memory of an entry besides its keys: names, counters, the table's slot.
const ENTRY_BYTES: usize = 256;

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

/// Least recently used sessions give way once the budget is spent.
pub(crate) struct Sessions<K> {
    budget: usize,
    state: Mutex<State<K>>,
}

struct State<K> {
    open: HashMap<Key, Held<K>>,
    bytes: usize,
    clock: u64,
}

struct Held<K> {
    used: u64,
    bytes: usize,
    keys: K,
}

impl<K: Clone> Sessions<K> {
    pub(crate) fn new(budget: usize) -> Self {
        let state = State { open: HashMap::new(), bytes: 0, clock: 0 };
        Self { budget, state: Mutex::new(state) }
    }

    pub(crate) fn find(
        &self,
        collection: &CollectionName,
        id: SessionId,
    ) -> Result<K, UnknownSession> {
        let mut state = self.state();
        state.clock += 1;
        let now = state.clock;
        let held = state.open.get_mut(&(collection.clone(), id)).ok_or(UnknownSession)?;
        held.used = now;
        Ok(held.keys.clone())
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
        let mut state = self.state();
        state.clock += 1;
        let held = Held { used: state.clock, bytes, keys };
        state.bytes += bytes;
        if let Some(replaced) = state.open.insert((collection.clone(), id), held) {
            state.bytes -= replaced.bytes;
        }
        while state.bytes > self.budget {
            let oldest = state.open.iter().min_by_key(|(_, held)| held.used);
            let oldest = oldest.expect("what is held has bytes").0.clone();
            let gone = state.open.remove(&oldest).expect("it was found just now");
            state.bytes -= gone.bytes;
        }
        Ok(())
    }

    /// Forgets the sessions of a collection.
    pub(crate) fn forget(&self, collection: &CollectionName) {
        let mut state = self.state();
        state.open.retain(|(owner, _), _| owner != collection);
        state.bytes = state.open.values().map(|held| held.bytes).sum();
    }

    pub(crate) fn counts(&self) -> SessionCounts {
        let state = self.state();
        SessionCounts { open: state.open.len(), bytes: state.bytes }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn keys_beyond_the_whole_budget_are_refused_and_displace_nobody() {
        let sessions = Sessions::new(1000);
        let main = CollectionName::default();
        sessions.insert(&main, id(1), 'a', 10).unwrap();
        let refused = sessions.insert(&main, id(2), 'b', 2000).unwrap_err();
        assert_eq!(refused.budget, 1000);
        assert!(sessions.find(&main, id(1)).is_ok());
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
