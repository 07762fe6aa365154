//! What a server has acknowledged, and what it must therefore hold after a crash.

use std::collections::{BTreeMap, BTreeSet};

use shard_protocol::{CellHandle, Epoch, Leak, Row, RowBatch, RowHandle, RowMac, declassify};

/// Cells that rows are spread over.
pub const CELLS: u64 = 64;

/// Rows by handle, each with the number of its version.
pub type Versions = BTreeMap<u64, u32>;

/// The content of a row, from its name, its version and its epoch: nothing is stored to know it.
pub fn row(handle: u64, version: u32, epoch: Epoch, width: usize) -> Row {
    let mut state = handle ^ u64::from(version).rotate_left(40) ^ epoch.0.rotate_left(20);
    let coordinates = (0..width).map(|_| (mix(&mut state) >> 47) as i32 - (1 << 16)).collect();
    Row {
        cell: declassify(CellHandle(handle % CELLS), Leak::CellMembership),
        handle: RowHandle(handle),
        coordinates,
    }
}

/// The MAC that goes with it.
pub fn mac(handle: u64, version: u32, epoch: Epoch) -> RowMac {
    let mut mac = [0; 16];
    mac[..8].copy_from_slice(&handle.to_le_bytes());
    mac[8..12].copy_from_slice(&version.to_le_bytes());
    mac[12..].copy_from_slice(&(epoch.0 as u32).to_le_bytes());
    RowMac(mac)
}

/// Splitmix64.
pub fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A batch of rows with its MACs, as they are published.
pub fn batch(versions: &Versions, epoch: Epoch, width: usize) -> (RowBatch, Vec<RowMac>) {
    let rows = versions.iter().map(|(&handle, &version)| row(handle, version, epoch, width));
    let macs = versions.iter().map(|(&handle, &version)| mac(handle, version, epoch)).collect();
    let batch = RowBatch::new(
        declassify(epoch, Leak::CollectionShape),
        declassify(width, Leak::CollectionShape),
        declassify(rows.collect(), Leak::StoredRows),
    );
    (batch, macs)
}

/// A change that was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Rows inserted or replaced.
    Upsert(Versions),
    /// Rows removed.
    Delete(BTreeSet<u64>),
}

impl Change {
    /// Rows that it is about.
    pub fn rows(&self) -> usize {
        match self {
            Self::Upsert(versions) => versions.len(),
            Self::Delete(handles) => handles.len(),
        }
    }
}

/// One writer's rows of one epoch: what was acknowledged, and the one change that may or may not
/// have happened when the server died.
#[derive(Default)]
pub struct Ledger {
    rows: Versions,
    doubt: Option<Change>,
}

/// What a server got wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Acknowledged rows that are not there as they were acknowledged.
    pub lost: usize,
    /// Rows that are there although they were deleted, or never written.
    pub resurrected: usize,
    /// Changes that happened by half.
    pub torn: usize,
}

impl std::ops::AddAssign for Faults {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.resurrected += other.resurrected;
        self.torn += other.torn;
    }
}

impl Ledger {
    /// A ledger of rows that were acknowledged.
    pub fn of(rows: Versions) -> Self {
        Self { rows, doubt: None }
    }

    /// Rows that are acknowledged.
    pub fn rows(&self) -> &Versions {
        &self.rows
    }

    /// Forgets everything: its epoch is gone.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes a change about to be sent.
    pub fn begin(&mut self, change: Change) {
        self.doubt = Some(change);
    }

    /// Notes that the change was acknowledged. Returns how many rows it was about.
    pub fn acknowledge(&mut self) -> usize {
        let Some(change) = self.doubt.take() else { return 0 };
        let rows = change.rows();
        self.apply(&change);
        rows
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Upsert(versions) => self.rows.extend(versions),
            Change::Delete(handles) => self.rows.retain(|handle, _| !handles.contains(handle)),
        }
    }

    /// Compares with what the server holds now, and settles what was in doubt by it.
    pub fn settle(&mut self, observed: &BTreeMap<u64, RowMac>, epoch: Epoch) -> Faults {
        let before = self.faults(observed, epoch);
        let Some(change) = self.doubt.take() else { return before };
        // The change happened, or it did not; of the two the one that explains more.
        let acknowledged = self.rows.clone();
        self.apply(&change);
        let after = self.faults(observed, epoch);
        let count = |faults: &Faults| faults.lost + faults.resurrected;
        let (least, happened) =
            if count(&after) <= count(&before) { (after, true) } else { (before, false) };
        if !happened {
            self.rows = acknowledged;
        }
        let halves = count(&least) > 0 && count(&least) < change.rows() && count(&before) > 0;
        Faults { torn: usize::from(halves), ..least }
    }

    fn faults(&self, observed: &BTreeMap<u64, RowMac>, epoch: Epoch) -> Faults {
        let as_acknowledged = |(handle, version): (&u64, &u32)| {
            observed.get(handle) == Some(&mac(*handle, *version, epoch))
        };
        Faults {
            lost: self.rows.iter().filter(|row| !as_acknowledged(*row)).count(),
            resurrected: observed.keys().filter(|handle| !self.rows.contains_key(handle)).count(),
            torn: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch(1);

    fn observed(rows: &[(u64, u32)]) -> BTreeMap<u64, RowMac> {
        rows.iter().map(|&(handle, version)| (handle, mac(handle, version, EPOCH))).collect()
    }

    fn ledger(rows: &[(u64, u32)]) -> Ledger {
        Ledger::of(rows.iter().copied().collect())
    }

    #[test]
    fn what_was_acknowledged_must_be_there_and_nothing_else() {
        let faults = |seen: &[(u64, u32)]| ledger(&[(1, 1), (2, 1)]).settle(&observed(seen), EPOCH);
        assert_eq!(faults(&[(1, 1), (2, 1)]), Faults::default());
        assert_eq!(faults(&[(1, 1)]), Faults { lost: 1, ..Faults::default() });
        assert_eq!(faults(&[(1, 0), (2, 1)]), Faults { lost: 1, ..Faults::default() });
        let more = faults(&[(1, 1), (2, 1), (3, 1)]);
        assert_eq!(more, Faults { resurrected: 1, ..Faults::default() });
    }

    #[test]
    fn a_change_in_doubt_may_have_happened_or_not_but_not_by_half() {
        let change = Change::Upsert([(2, 2), (3, 1)].into());
        let settled = |seen: &[(u64, u32)]| {
            let mut ledger = ledger(&[(1, 1), (2, 1)]);
            ledger.begin(change.clone());
            let faults = ledger.settle(&observed(seen), EPOCH);
            (faults, ledger.rows().len())
        };
        assert_eq!(settled(&[(1, 1), (2, 1)]), (Faults::default(), 2));
        assert_eq!(settled(&[(1, 1), (2, 2), (3, 1)]), (Faults::default(), 3));
        assert_eq!(settled(&[(1, 1), (2, 2)]).0.torn, 1);
    }

    #[test]
    fn a_deletion_that_was_acknowledged_stays() {
        let mut ledger = ledger(&[(1, 1), (2, 1)]);
        ledger.begin(Change::Delete([1].into()));
        assert_eq!(ledger.acknowledge(), 1);
        let faults = ledger.settle(&observed(&[(1, 1), (2, 1)]), EPOCH);
        assert_eq!(faults, Faults { resurrected: 1, ..Faults::default() });
    }
}
