//! Which blocks, and which segments of records, a server holds where several share them.
//!
//! Rendezvous hashing: every server has a weight for every unit, and the `replicas` heaviest hold it, the
//! heaviest first. A server that comes takes units from all others alike, and those of one that goes are
//! spread over the rest; nothing else moves.
//!
//! ```text
//! weight(server, unit) = mix(server ^ mix(unit ^ mix(FNV-1a(collection) ^ table)))
//! ```
//!
//! with `mix` the finaliser of SplitMix64.

use shard_protocol::{CollectionName, Table};
use shard_store::WorkerId;

/// The servers that share what is held, as one of them sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    me: WorkerId,
    workers: Vec<WorkerId>,
    replicas: usize,
}

impl View {
    /// Those that others can count on; this one is always counted.
    pub fn new(me: WorkerId, ready: impl IntoIterator<Item = WorkerId>, replicas: usize) -> Self {
        let mut workers: Vec<WorkerId> = ready.into_iter().chain([me]).collect();
        workers.sort_unstable();
        workers.dedup();
        Self { me, workers, replicas: replicas.max(1) }
    }

    /// A server without others: it holds everything.
    pub(crate) fn alone() -> Self {
        Self::new(WorkerId(0), [], 1)
    }

    /// All of them, by id.
    pub fn workers(&self) -> &[WorkerId] {
        &self.workers
    }

    /// The one that sees it.
    pub fn me(&self) -> WorkerId {
        self.me
    }

    /// The share of a collection's table.
    pub(crate) fn of(&self, collection: &CollectionName, table: Table) -> Share<'_> {
        let kind = match table {
            Table::Rows => 0,
            Table::Records => 1,
        };
        Share { view: self, seed: mix(fnv(collection.as_str().as_bytes()) ^ kind) }
    }
}

/// Who holds the units of one table.
#[derive(Clone, Copy)]
pub(crate) struct Share<'a> {
    view: &'a View,
    seed: u64,
}

impl Share<'_> {
    /// Who holds a unit: as many as there are replicas, the first before the others.
    pub(crate) fn holders(&self, unit: u32) -> Vec<WorkerId> {
        let mut all: Vec<(u64, WorkerId)> = self.weights(unit).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().take(self.view.replicas).map(|(_, id)| id).collect()
    }

    /// The first of those who hold a unit.
    pub(crate) fn first(&self, unit: u32) -> WorkerId {
        self.weights(unit).max().map_or(self.view.me, |(_, id)| id)
    }

    fn weights(&self, unit: u32) -> impl Iterator<Item = (u64, WorkerId)> {
        let of_unit = mix(u64::from(unit) ^ self.seed);
        self.view.workers.iter().map(move |worker| (mix(worker.0 ^ of_unit), *worker))
    }

    /// Whether this server holds a unit.
    pub(crate) fn is_held(&self, unit: u32) -> bool {
        self.holders(unit).contains(&self.view.me)
    }

    /// Those of some units that this server answers as long as all others are there.
    pub(crate) fn own(&self, units: usize) -> Vec<u32> {
        (0..units as u32).filter(|&unit| self.first(unit) == self.view.me).collect()
    }
}

fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: usize = 3000;

    fn name() -> CollectionName {
        "main".parse().unwrap()
    }

    fn holders(workers: &[u64], replicas: usize) -> Vec<Vec<WorkerId>> {
        let view = View::new(WorkerId(workers[0]), workers.iter().copied().map(WorkerId), replicas);
        let share = view.of(&name(), Table::Rows);
        (0..UNITS as u32).map(|unit| share.holders(unit)).collect()
    }

    #[test]
    fn units_are_spread_evenly_and_held_as_often_as_was_asked() {
        let all = holders(&[11, 12, 13], 2);
        assert!(all.iter().all(|held| held.len() == 2 && held[0] != held[1]));
        let view = View::new(WorkerId(11), [11, 12, 13].map(WorkerId), 2);
        let share = view.of(&name(), Table::Rows);
        assert!((0..).zip(&all).all(|(unit, held)| share.first(unit) == held[0]));
        for worker in [11, 12, 13] {
            let first = all.iter().filter(|held| held[0] == WorkerId(worker)).count();
            assert!((900..1100).contains(&first), "{first} of {UNITS}");
        }
        assert!(holders(&[11], 2).iter().all(|held| *held == [WorkerId(11)]));
    }

    #[test]
    fn what_moves_when_a_server_goes_is_what_it_held() {
        let (before, after) = (holders(&[11, 12, 13], 2), holders(&[11, 13], 2));
        for (before, after) in before.iter().zip(&after) {
            let staying = before.iter().find(|id| **id != WorkerId(12)).unwrap();
            assert!(after.contains(staying));
            if before[0] != WorkerId(12) {
                assert_eq!(after[0], before[0]);
            }
        }
    }

    #[test]
    fn every_unit_is_answered_by_exactly_one() {
        let ids = [WorkerId(5), WorkerId(6), WorkerId(7)];
        let own = ids.map(|me| View::new(me, ids, 1).of(&name(), Table::Records).own(UNITS));
        let mut all = own.concat();
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..UNITS as u32));
    }
}
