//! Merge keys of open sessions, under a memory budget.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use shard_protocol::SessionId;
use shard_rlwe::PreparedMergeKeys;

/// The session is not there, or no longer.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
#[error("the server does not know this session; open it again")]
pub struct UnknownSession;

/// Least recently used sessions give way once the budget is spent.
pub(crate) struct Sessions {
    budget: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<SessionId, (u64, Arc<PreparedMergeKeys>)>,
    bytes: usize,
    clock: u64,
}

impl Sessions {
    pub(crate) fn new(budget: usize) -> Self {
        Self { budget, state: Mutex::default() }
    }

    pub(crate) fn find(&self, id: SessionId) -> Result<Arc<PreparedMergeKeys>, UnknownSession> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        let (used, keys) = state.open.get_mut(&id).ok_or(UnknownSession)?;
        *used = now;
        Ok(keys.clone())
    }

    pub(crate) fn insert(&self, id: SessionId, keys: PreparedMergeKeys) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        state.bytes += keys.bytes();
        if let Some((_, replaced)) = state.open.insert(id, (now, Arc::new(keys))) {
            state.bytes -= replaced.bytes();
        }
        while state.bytes > self.budget && state.open.len() > 1 {
            let oldest = *state.open.iter().min_by_key(|(_, (used, _))| used).expect("not empty").0;
            if let Some((_, keys)) = state.open.remove(&oldest) {
                state.bytes -= keys.bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shard_rlwe::{Entropy, MergeSpan, RingDegree, SessionKey};

    fn keys() -> PreparedMergeKeys {
        let span = MergeSpan { top: 3, levels: 1 };
        SessionKey::fresh(RingDegree::N2048, span, 1, Entropy::from_os().unwrap()).1.prepare()
    }

    #[test]
    fn the_session_unused_for_longest_gives_way() {
        let size = keys().bytes();
        let sessions = Sessions::new(2 * size);
        let id = |byte| SessionId([byte; 16]);
        sessions.insert(id(1), keys());
        sessions.insert(id(2), keys());
        assert!(sessions.find(id(1)).is_ok());
        sessions.insert(id(3), keys());
        assert_eq!(sessions.find(id(2)).err(), Some(UnknownSession));
        assert!(sessions.find(id(1)).is_ok() && sessions.find(id(3)).is_ok());
        sessions.insert(id(3), keys());
        assert_eq!(sessions.state.lock().unwrap().bytes, 2 * size);
    }
}
