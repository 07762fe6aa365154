//! What the clients do until the server dies under them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use shard_client::remote::Remote;
use shard_protocol::{
    ActivateEpoch, Advance, CommitName, DeleteRows, Epoch, Leak, PublishRows, Revision, RowHandle,
    RowMac, declassify,
};

use super::check::{Failure, ask, macs, misscored, state};
use super::ledger::{Change, Faults, Ledger, Versions, batch, mix};

/// All changes are of one commit: a server takes changes of the one it holds as often as it likes.
const COMMIT: CommitName = CommitName([1; 16]);

/// Leads to it where nothing was published.
pub const FIRST: Advance = Advance { from: None, to: COMMIT, revision: Revision(1), turn: 0 };

/// Changes what is published of it.
pub const LATER: Advance = Advance { from: Some(COMMIT), ..FIRST };

/// Rows of one change, at most.
const CHANGE: u64 = 200;

/// Rows of one message while a server is filled.
const FILL: usize = 2000;

/// Rows of one message of a new epoch.
const EPOCH_BATCH: usize = 500;

/// Rows whose scores are compared after a crash.
const SAMPLE: usize = 64;

/// Where the handles of a writer begin: they differ in the highest bits.
fn first_handle(writer: u64) -> u64 {
    writer << 56
}

/// Changes rows of its own.
pub struct Writer {
    number: u64,
    width: usize,
    random: u64,
    next: u64,
    ledger: Ledger,
}

impl Writer {
    pub fn new(number: u64, width: usize, random: u64) -> Self {
        Self { number, width, random, next: first_handle(number), ledger: Ledger::default() }
    }

    /// Inserts the first rows.
    pub fn fill(
        &mut self,
        server: &Remote,
        rows: usize,
        progress: &dyn Fn(usize),
    ) -> Result<usize> {
        let mut filled = 0;
        while filled < rows {
            let count = FILL.min(rows - filled) as u64;
            let new: Versions = (self.next..self.next + count).map(|handle| (handle, 0)).collect();
            self.next += count;
            self.send(server, Change::Upsert(new), FIRST)?;
            filled += count as usize;
            progress(count as usize);
        }
        Ok(filled)
    }

    /// Changes rows until the server is gone; the change under way then stays in doubt. Returns
    /// how many rows' changes were acknowledged. A server that refuses is at fault.
    pub fn work(&mut self, server: &Remote, over: &AtomicBool) -> Result<usize> {
        let mut acknowledged = 0;
        while !over.load(Ordering::Relaxed) {
            let change = self.next_change();
            match self.send(server, change, LATER) {
                Ok(rows) => acknowledged += rows,
                Err(Failure::Gone(_)) => break,
                Err(refused) => return Err(refused.into()),
            }
        }
        Ok(acknowledged)
    }

    fn next_change(&mut self) -> Change {
        let count = 1 + mix(&mut self.random) % CHANGE;
        if mix(&mut self.random).is_multiple_of(3) && self.ledger.rows().len() > SAMPLE {
            let gone: BTreeSet<u64> = (0..count / 2 + 1).filter_map(|_| self.known()).collect();
            return Change::Delete(gone);
        }
        let mut rows = Versions::new();
        for _ in 0..count {
            // Half of them new, half in place of older ones.
            match (mix(&mut self.random) % 2, self.known()) {
                (0, Some(handle)) => rows.insert(handle, self.ledger.rows()[&handle] + 1),
                _ => {
                    self.next += 1;
                    rows.insert(self.next - 1, 0)
                }
            };
        }
        Change::Upsert(rows)
    }

    /// A row that was acknowledged, at random.
    fn known(&mut self) -> Option<u64> {
        let start = first_handle(self.number);
        let from = start + mix(&mut self.random) % (self.next - start).max(1);
        let rows = self.ledger.rows();
        rows.range(from..).next().or_else(|| rows.iter().next()).map(|(handle, _)| *handle)
    }

    fn send(
        &mut self,
        server: &Remote,
        change: Change,
        advance: Advance,
    ) -> Result<usize, Failure> {
        let message = match &change {
            Change::Upsert(rows) => publish(rows, Epoch(1), self.width, advance),
            Change::Delete(handles) => DeleteRows::new(
                declassify(advance, Leak::CollectionShape),
                declassify(Epoch(1), Leak::CollectionShape),
                declassify(handles.iter().map(|h| RowHandle(*h)).collect(), Leak::StoredRows),
            )
            .encode(),
        };
        self.ledger.begin(change);
        ask(server, message)?;
        Ok(self.ledger.acknowledge())
    }

    /// Compares its rows with all rows of the collection.
    pub fn settle(&mut self, all: &BTreeMap<u64, RowMac>) -> Faults {
        let start = first_handle(self.number);
        let own: BTreeMap<u64, RowMac> = all
            .range(start..first_handle(self.number + 1))
            .map(|(handle, mac)| (*handle, *mac))
            .collect();
        self.ledger.settle(&own, Epoch(1))
    }

    /// Some of its rows.
    pub fn sample(&self, random: &mut u64) -> Versions {
        let rows: Vec<(&u64, &u32)> = self.ledger.rows().iter().collect();
        let pick = |_| rows[(mix(random) % rows.len() as u64) as usize];
        (0..SAMPLE).map(pick).map(|(handle, version)| (*handle, *version)).collect()
    }
}

/// Gives a collection new epochs.
pub struct Rekeyer {
    rows: usize,
    width: usize,
    /// The epoch that is searched, as far as was acknowledged.
    current: Epoch,
    /// What was acknowledged of the next one.
    next: Ledger,
    /// Whether the activation of the next one was sent and not answered.
    in_doubt: bool,
}

/// What a rekeyer did.
#[derive(Default)]
pub struct Rekeyed {
    /// Rows acknowledged.
    pub rows: usize,
    /// Epochs activated.
    pub activated: usize,
}

impl Rekeyer {
    pub fn new(rows: usize, width: usize) -> Self {
        Self { rows, width, current: Epoch(0), next: Ledger::default(), in_doubt: false }
    }

    fn next_number(&self) -> Epoch {
        Epoch(self.current.0 + 1)
    }

    /// New epochs until the server is gone. A server that refuses is at fault.
    pub fn work(&mut self, server: &Remote, over: &AtomicBool) -> Result<Rekeyed> {
        let mut done = Rekeyed::default();
        while !over.load(Ordering::Relaxed) {
            match self.next_epoch(server, &mut done.rows) {
                Ok(()) => done.activated += 1,
                Err(Failure::Gone(_)) => break,
                Err(refused) => return Err(refused.into()),
            }
        }
        Ok(done)
    }

    /// Publishes the next epoch whole, in one go with what is there of it, and activates it.
    pub fn next_epoch(&mut self, server: &Remote, acknowledged: &mut usize) -> Result<(), Failure> {
        let next = self.next_number();
        let advance = if self.current == Epoch(0) { FIRST } else { LATER };
        let missing: Vec<(u64, u32)> = self
            .versions()
            .into_iter()
            .filter(|(handle, _)| !self.next.rows().contains_key(handle))
            .collect();
        for rows in missing.chunks(EPOCH_BATCH) {
            let rows: Versions = rows.iter().copied().collect();
            let message = publish(&rows, next, self.width, advance);
            self.next.begin(Change::Upsert(rows));
            ask(server, message)?;
            *acknowledged += self.next.acknowledge();
        }
        self.in_doubt = true;
        activate(server, next, advance)?;
        self.begin_epoch(next);
        Ok(())
    }

    fn begin_epoch(&mut self, epoch: Epoch) {
        self.current = epoch;
        self.next.clear();
        self.in_doubt = false;
    }

    fn versions(&self) -> Versions {
        (0..self.rows as u64).map(|handle| (handle, 0)).collect()
    }

    /// The epoch that was activated last must be there whole, the ones before it gone, and of the
    /// next one what was acknowledged.
    pub fn settle(&mut self, server: &Remote) -> Result<Faults> {
        let state = state(server)?;
        let mut faults = Faults::default();
        if self.in_doubt && state.current == Some(self.next_number()) {
            self.begin_epoch(self.next_number());
        }
        self.in_doubt = false;
        let older = state.epochs.iter().filter(|stored| stored.epoch < self.current);
        faults.resurrected += older.map(|stored| stored.rows as usize).sum::<usize>();
        if state.current != Some(self.current) {
            faults.lost += self.rows;
            return Ok(faults);
        }
        let mut current = Ledger::of(self.versions());
        faults += current.settle(&macs(server, self.current)?, self.current);
        let next = self.next_number();
        faults += self.next.settle(&macs(server, next)?, next);
        // The rows themselves, not only their MACs.
        let sample = self.versions().into_iter().take(SAMPLE).collect();
        faults.lost += misscored(server, &sample, self.current, self.width)?;
        Ok(faults)
    }
}

/// The message that publishes rows.
pub fn publish(rows: &Versions, epoch: Epoch, width: usize, advance: Advance) -> Vec<u8> {
    let (batch, macs) = batch(rows, epoch, width);
    let macs = declassify(macs, Leak::StoredRows);
    PublishRows::new(declassify(advance, Leak::CollectionShape), batch, macs).encode()
}

/// Publishes the first rows.
pub fn publish_rows(
    server: &Remote,
    rows: &Versions,
    epoch: Epoch,
    width: usize,
) -> Result<(), Failure> {
    ask(server, publish(rows, epoch, width, FIRST)).map(drop)
}

/// Makes an epoch the current one.
pub fn activate(server: &Remote, epoch: Epoch, advance: Advance) -> Result<(), Failure> {
    let (advance, epoch) =
        (declassify(advance, Leak::CollectionShape), declassify(epoch, Leak::CollectionShape));
    ask(server, ActivateEpoch::new(advance, epoch).encode()).map(drop)
}

/// What the server acknowledged to its operator.
#[derive(Default)]
pub struct OperatorCalls {
    pub compactions: usize,
    /// Names of the snapshots.
    pub snapshots: Vec<String>,
}

/// Takes a snapshot and compacts over and over, until a call fails; `first` is the number of the
/// snapshot. Why a call fails is not told apart: a server that always fails shows in the counts.
pub fn operate(server: &Remote, first: usize, over: &AtomicBool) -> OperatorCalls {
    let mut done = OperatorCalls::default();
    while !over.load(Ordering::Relaxed) {
        let name = format!("snapshot-{}", first + done.snapshots.len());
        // Which comes first alternates, so that kills fall into both.
        let order = if first.is_multiple_of(2) { [true, false] } else { [false, true] };
        for snapshot in order {
            if snapshot && done.snapshots.is_empty() {
                if server.snapshot(&name).is_err() {
                    return done;
                }
                done.snapshots.push(name.clone());
            } else if !snapshot {
                if server.compact().is_err() {
                    return done;
                }
                done.compactions += 1;
            }
        }
    }
    done
}

/// Checks every snapshot that was acknowledged, and removes all: they would fill the disk.
/// Returns the problems found.
pub fn verify_snapshots(directory: &Path, acknowledged: &[String]) -> Result<usize> {
    let snapshots = directory.join("snapshots");
    let mut problems = 0;
    for name in acknowledged {
        let found = shard_store::verify(&snapshots.join(name))
            .with_context(|| format!("the snapshot {name} was acknowledged"))?;
        problems += found.problems.len();
    }
    match fs::remove_dir_all(&snapshots) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", snapshots.display()))
        }
        _ => Ok(problems),
    }
}
