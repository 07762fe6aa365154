//! Which servers work on one engine.
//!
//! A server that works beside others holds a lease, which it renews, and says where it can be reached and
//! under which certificate. What keeps the leases also says when a collection has moved on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shard_protocol::CollectionName;

use crate::StoreError;

/// Which server, among those that work on one engine: random, new with every start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerId(pub u64);

impl std::fmt::Display for WorkerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a server says of itself with its lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Which one it is.
    pub id: WorkerId,
    /// Where others reach it: `host:port`.
    pub address: String,
    /// SHA-256 of its certificate in DER form: others take no other for it.
    pub fingerprint: [u8; 32],
    /// Whether its share is loaded and it is not about to stop: only then others count on it.
    pub ready: bool,
}

/// Keeps leases, and tells of collections that moved on.
pub trait Members: Send + Sync {
    /// Renews the lease of a server for a time, or begins it. Returns everybody whose lease has not run
    /// out, itself included, by id.
    fn renew(&self, me: &Member, lease: Duration) -> Result<Vec<Member>, StoreError>;

    /// Ends the lease of a server.
    fn leave(&self, id: WorkerId) -> Result<(), StoreError>;

    /// Waits until a collection has moved on since the last call, at most for a time. `None` when it is not
    /// known which, as after a lost connection: all are to be looked at.
    fn moved(&self, at_most: Duration) -> Option<Vec<CollectionName>>;
}

/// Leases in memory, for servers in one process.
#[derive(Default)]
pub struct MemoryMembers {
    leases: Mutex<HashMap<WorkerId, (Member, Instant)>>,
    moved: Mutex<u64>,
    changed: Condvar,
}

impl MemoryMembers {
    /// Nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells everybody who waits that a collection has moved on.
    pub fn announce(&self) {
        *lock(&self.moved) += 1;
        self.changed.notify_all();
    }
}

impl Members for MemoryMembers {
    fn renew(&self, me: &Member, lease: Duration) -> Result<Vec<Member>, StoreError> {
        let now = Instant::now();
        let mut leases = lock(&self.leases);
        leases.insert(me.id, (me.clone(), now + lease));
        leases.retain(|_, (_, ends)| *ends > now);
        let all: BTreeMap<WorkerId, Member> =
            leases.iter().map(|(&id, (member, _))| (id, member.clone())).collect();
        Ok(all.into_values().collect())
    }

    fn leave(&self, id: WorkerId) -> Result<(), StoreError> {
        lock(&self.leases).remove(&id);
        Ok(())
    }

    fn moved(&self, at_most: Duration) -> Option<Vec<CollectionName>> {
        let seen = lock(&self.moved);
        let before = *seen;
        let waited = self.changed.wait_timeout_while(seen, at_most, |now| *now == before);
        let (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *now == before { Some(Vec::new()) } else { None }
    }
}

// Nothing panics while one of these locks is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_when_it_is_not_renewed_or_given_up() {
        let members = MemoryMembers::new();
        let member = |id| Member {
            id: WorkerId(id),
            address: format!("host-{id}:1"),
            fingerprint: [id as u8; 32],
            ready: true,
        };
        let hour = Duration::from_secs(3600);
        members.renew(&member(2), hour).unwrap();
        members.renew(&member(3), Duration::ZERO).unwrap();
        let all = members.renew(&member(1), hour).unwrap();
        assert_eq!(all, [member(1), member(2)], "by id, without the one whose lease ran out");
        members.leave(WorkerId(2)).unwrap();
        assert_eq!(members.renew(&member(1), hour).unwrap(), [member(1)]);
    }
}
