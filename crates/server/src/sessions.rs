//! Keys of open sessions, to merge or to rotate with, under one memory budget that tokens share.
//!
//! Once the budget is spent, the token that takes most of it gives up the session it has not used for
//! longest. The largest of `n` takes at least an `n`-th, so
//!
//! ```text
//! a token loses a session only while it takes more than budget / n,
//! ```
//!
//! `n` being the tokens with open sessions: however many one of them opens, the others keep theirs.

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

/// The keys alone would take more than there is for them.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
#[error("the keys of this session take {bytes} bytes of memory; the server has {share} for them")]
pub struct SessionTooLarge {
    /// Memory of the keys.
    pub bytes: usize,
    /// Memory that each of those who have sessions can count on.
    pub share: usize,
}

/// Sessions held, and their memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionCounts {
    /// Open sessions.
    pub open: usize,
    /// Memory of their keys.
    pub bytes: usize,
}

/// Who asks, as far as a server knows anybody: by the id of a token, or nobody in particular.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Caller(Option<Arc<str>>);

impl Caller {
    /// Whoever uses the token of this id.
    pub fn of_token(id: &str) -> Self {
        Self(Some(id.into()))
    }
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

/// A session is known to its caller and within its collection only: nobody else can use or replace
/// its keys.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SessionName {
    pub(crate) caller: Caller,
    pub(crate) collection: CollectionName,
    pub(crate) id: SessionId,
}

/// Keys with the memory they take.
struct Session<K> {
    keys: K,
    bytes: usize,
    /// When it was used last, by the count of uses.
    used: u64,
}

/// Open sessions.
pub(crate) struct Sessions<K: Clone> {
    budget: usize,
    state: Mutex<State<K>>,
}

struct State<K> {
    open: HashMap<SessionName, Session<K>>,
    uses: u64,
}

impl<K: Clone> Sessions<K> {
    pub(crate) fn new(budget: usize) -> Self {
        Self { budget, state: Mutex::new(State { open: HashMap::new(), uses: 0 }) }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, name: &SessionName) -> Result<K, UnknownSession> {
        let State { open, uses } = &mut *self.state();
        let session = open.get_mut(name).ok_or(UnknownSession)?;
        *uses += 1;
        session.used = *uses;
        Ok(session.keys.clone())
    }

    /// Keeps keys that take this much memory. Where they are refused, nobody has lost anything.
    pub(crate) fn insert(
        &self,
        name: SessionName,
        keys: K,
        bytes: usize,
    ) -> Result<(), SessionTooLarge> {
        let mut state = self.state();
        let bytes = bytes + ENTRY_BYTES;
        for leaving in state.leaving(&name, bytes, self.budget)? {
            state.open.remove(&leaving);
        }
        state.uses += 1;
        let used = state.uses;
        state.open.insert(name, Session { keys, bytes, used });
        Ok(())
    }

    /// Forgets the sessions of a collection.
    pub(crate) fn forget(&self, collection: &CollectionName) {
        self.state().open.retain(|name, _| name.collection != *collection);
    }

    pub(crate) fn counts(&self) -> SessionCounts {
        let state = self.state();
        let bytes = state.open.values().map(|session| session.bytes).sum();
        SessionCounts { open: state.open.len(), bytes }
    }
}

impl<K> State<K> {
    /// The sessions that give way to a new one of this size.
    fn leaving(
        &self,
        new: &SessionName,
        bytes: usize,
        budget: usize,
    ) -> Result<Vec<SessionName>, SessionTooLarge> {
        // What it replaces goes in any case.
        let mut others: Vec<_> = self.open.iter().filter(|(name, _)| *name != new).collect();
        let mut total = bytes;
        let mut taken = HashMap::from([(&new.caller, bytes)]);
        for (name, session) in &others {
            total += session.bytes;
            *taken.entry(&name.caller).or_default() += session.bytes;
        }
        if total <= budget {
            return Ok(Vec::new());
        }
        // The one used last comes first, so that what gives way is found from the end.
        others.sort_unstable_by_key(|(_, session)| std::cmp::Reverse(session.used));
        let mut leaving = Vec::new();
        while total > budget {
            // Among equals it is who wants more.
            let largest =
                taken.iter().max_by_key(|(caller, taken)| (**taken, **caller == &new.caller));
            let largest = *largest.expect("the new session's caller is among them").0;
            let Some(at) = others.iter().rposition(|(name, _)| name.caller == *largest) else {
                // It takes more than each of the others, and all together more than the budget.
                return Err(SessionTooLarge { bytes, share: budget / taken.len() });
            };
            let (name, session) = others.remove(at);
            total -= session.bytes;
            *taken.get_mut(largest).expect("it was found there") -= session.bytes;
            leaving.push(name.clone());
        }
        Ok(leaving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(token: &str, collection: &str, number: u16) -> SessionName {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_le_bytes());
        let (caller, collection) = (Caller::of_token(token), collection.parse().unwrap());
        SessionName { caller, collection, id: SessionId(bytes) }
    }

    fn id(number: u16) -> SessionName {
        named("one", "main", number)
    }

    #[test]
    fn the_session_unused_for_longest_gives_way() {
        let sessions = Sessions::new(2 * (ENTRY_BYTES + 10));
        sessions.insert(id(1), 'a', 10).unwrap();
        sessions.insert(id(2), 'b', 10).unwrap();
        assert!(sessions.find(&id(1)).is_ok());
        sessions.insert(id(3), 'c', 10).unwrap();
        assert_eq!(sessions.find(&id(2)), Err(UnknownSession));
        assert_eq!(sessions.find(&id(1)), Ok('a'));
        sessions.insert(id(3), 'd', 5).unwrap();
        assert_eq!(sessions.find(&id(3)), Ok('d'));
        assert_eq!(sessions.counts(), SessionCounts { open: 2, bytes: 2 * ENTRY_BYTES + 15 });
    }

    #[test]
    fn a_thousand_sessions_stay_within_the_budget() {
        let budget = 100_000;
        let sessions = Sessions::new(budget);
        for number in 0..1000 {
            let bytes = 500 + usize::from(number) % 7 * 100;
            sessions.insert(id(number), number, bytes).unwrap();
            assert!(sessions.counts().bytes <= budget);
        }
        assert!(sessions.counts().open > 80, "the budget is used: {:?}", sessions.counts());
        assert_eq!(sessions.find(&id(999)), Ok(999));
        assert_eq!(sessions.find(&id(0)), Err(UnknownSession));
    }

    #[test]
    fn sessions_that_are_opened_at_once_do_not_displace_each_other() {
        let sessions = Sessions::new(10 * (ENTRY_BYTES + 10));
        (0..10).for_each(|number| sessions.insert(id(number), number, 10).unwrap());
        (10..15).for_each(|number| sessions.insert(id(number), number, 10).unwrap());
        for number in 10..15 {
            assert_eq!(sessions.find(&id(number)), Ok(number));
        }
        assert_eq!(sessions.counts().open, 10);
    }

    #[test]
    fn keys_beyond_the_whole_budget_are_refused_and_displace_nobody() {
        let sessions = Sessions::new(1000);
        sessions.insert(id(1), 'a', 10).unwrap();
        let refused = sessions.insert(id(2), 'b', 2000).unwrap_err();
        assert_eq!(refused.share, 1000);
        assert!(sessions.find(&id(1)).is_ok());
    }

    #[test]
    fn keys_that_take_the_whole_budget_are_kept_alone() {
        let sessions = Sessions::new(10 * ENTRY_BYTES);
        sessions.insert(id(1), 'a', 10).unwrap();
        assert!(sessions.find(&id(1)).is_ok());
        sessions.insert(id(2), 'b', 9 * ENTRY_BYTES).unwrap();
        assert_eq!(sessions.find(&id(2)), Ok('b'));
        assert_eq!(sessions.counts(), SessionCounts { open: 1, bytes: 10 * ENTRY_BYTES });
        sessions.insert(id(3), 'c', 10).unwrap();
        assert_eq!(sessions.find(&id(3)), Ok('c'));
        assert_eq!(sessions.find(&id(2)), Err(UnknownSession));
    }

    #[test]
    fn a_session_belongs_to_its_token_and_its_collection() {
        let sessions = Sessions::new(10_000);
        sessions.insert(named("one", "mine", 1), 'a', 10).unwrap();
        for other in [named("one", "yours", 1), named("two", "mine", 1)] {
            assert_eq!(sessions.find(&other), Err(UnknownSession));
            sessions.insert(other, 'b', 10).unwrap();
        }
        assert_eq!(sessions.find(&named("one", "mine", 1)), Ok('a'));
        sessions.forget(&"mine".parse().unwrap());
        assert_eq!(sessions.find(&named("one", "mine", 1)), Err(UnknownSession));
        assert_eq!(sessions.counts().open, 1);
    }

    #[test]
    fn whoever_opens_many_sessions_displaces_only_its_own() {
        let each = ENTRY_BYTES + 10;
        let sessions = Sessions::new(12 * each);
        let of = |token: &'static str| move |number| named(token, "main", number);
        let (greedy, modest, late) = (of("greedy"), of("modest"), of("late"));
        (0..4).for_each(|number| sessions.insert(modest(number), 'm', 10).unwrap());
        (0..500).for_each(|number| sessions.insert(greedy(number), 'g', 10).unwrap());
        assert!((0..4).all(|number| sessions.find(&modest(number)).is_ok()));
        assert_eq!(sessions.counts().open, 12);
        // Who comes later gets its third of a budget that is spent, from the one who has most.
        (0..4).for_each(|number| sessions.insert(late(number), 'l', 10).unwrap());
        let held = |of: &dyn Fn(u16) -> SessionName, most| {
            (0..most).filter(|number| sessions.find(&of(*number)).is_ok()).count()
        };
        assert_eq!([held(&modest, 4), held(&late, 4), held(&greedy, 500)], [4, 4, 4]);
        // And among equals whoever wants more loses its own.
        (4..50).for_each(|number| sessions.insert(late(number), 'l', 10).unwrap());
        assert_eq!([held(&modest, 4), held(&late, 50), held(&greedy, 500)], [4, 4, 4]);
    }

    #[test]
    fn keys_that_fit_only_in_the_share_of_others_are_refused_and_displace_nobody() {
        let sessions = Sessions::new(12 * ENTRY_BYTES);
        (0..4).for_each(|number| sessions.insert(named("one", "main", number), 1, 0).unwrap());
        (0..8).for_each(|number| sessions.insert(named("two", "main", number), 2, 0).unwrap());
        let half = named("three", "main", 0);
        let refused = sessions.insert(half.clone(), 3, 6 * ENTRY_BYTES).unwrap_err();
        assert_eq!(refused.bytes, 7 * ENTRY_BYTES);
        assert_eq!(refused.share, 4 * ENTRY_BYTES);
        assert_eq!(sessions.counts().open, 12);
        sessions.insert(half, 3, 3 * ENTRY_BYTES).unwrap();
        assert_eq!(sessions.counts().open, 9);
        assert!((0..4).all(|number| sessions.find(&named("one", "main", number)).is_ok()));
    }
}
