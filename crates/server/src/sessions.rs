//! Keys of open sessions, to merge or to rotate with, under a memory budget.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use shard_protocol::SessionId;

/// The session is not there, or no longer.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
#[error("the server does not know this session; open it again")]
pub struct UnknownSession;

/// Least recently used sessions give way once the budget is spent.
pub(crate) struct Sessions<K> {
    budget: usize,
    state: Mutex<State<K>>,
}

struct State<K> {
    open: HashMap<SessionId, Held<K>>,
    bytes: usize,
    clock: u64,
}

struct Held<K> {
    used: u64,
    bytes: usize,
    keys: Arc<K>,
}

impl<K> Sessions<K> {
    pub(crate) fn new(budget: usize) -> Self {
        let state = State { open: HashMap::new(), bytes: 0, clock: 0 };
        Self { budget, state: Mutex::new(state) }
    }

    pub(crate) fn find(&self, id: SessionId) -> Result<Arc<K>, UnknownSession> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        let held = state.open.get_mut(&id).ok_or(UnknownSession)?;
        held.used = now;
        Ok(held.keys.clone())
    }

    /// Keeps keys that take this much memory.
    pub(crate) fn insert(&self, id: SessionId, keys: K, bytes: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        state.bytes += bytes;
        let held = Held { used: now, bytes, keys: Arc::new(keys) };
        if let Some(replaced) = state.open.insert(id, held) {
            state.bytes -= replaced.bytes;
        }
        while state.bytes > self.budget && state.open.len() > 1 {
            let oldest = *state.open.iter().min_by_key(|(_, held)| held.used).expect("not empty").0;
            if let Some(held) = state.open.remove(&oldest) {
                state.bytes -= held.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_unused_for_longest_gives_way() {
        let sessions = Sessions::new(20);
        let id = |byte| SessionId([byte; 16]);
        sessions.insert(id(1), 'a', 10);
        sessions.insert(id(2), 'b', 10);
        assert!(sessions.find(id(1)).is_ok());
        sessions.insert(id(3), 'c', 10);
        assert_eq!(sessions.find(id(2)).err(), Some(UnknownSession));
        assert_eq!((*sessions.find(id(1)).unwrap(), *sessions.find(id(3)).unwrap()), ('a', 'c'));
        sessions.insert(id(3), 'd', 5);
        assert_eq!(sessions.state.lock().unwrap().bytes, 15);
    }
}
