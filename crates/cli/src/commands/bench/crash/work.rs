//! What the clients do until the server dies under them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use shard_client::Transport;
use shard_client::remote::Remote;
use shard_protocol::{
    ActivateEpoch, ContentTag, DeleteRows, Epoch, Leak, PublishRows, Revision, RowHandle,
    declassify,
};

use super::check::{ask, state, tags};
use super::ledger::{Change, Faults, Ledger, Versions, batch, mix, tag};

/// All changes are of one revision: a server takes changes of the latest as often as it likes.
const REVISION: Revision = Revision(1);

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
        server: &dyn Transport,
        rows: usize,
        progress: &dyn Fn(usize),
    ) -> Result<usize> {
        let mut filled = 0;
        while filled < rows {
            let count = FILL.min(rows - filled) as u64;
            let new: Versions = (self.next..self.next + count).map(|handle| (handle, 0)).collect();
            self.next += count;
            self.send(server, Change::Upsert(new))?;
            filled += count as usize;
            progress(count as usize);
        }
        Ok(filled)
    }

    /// Changes rows until a call fails. Returns how many rows' changes were acknowledged.
    pub fn work(&mut self, server: &dyn Transport, over: &AtomicBool) -> usize {
        let mut acknowledged = 0;
        while !over.load(Ordering::Relaxed) {
            let change = self.next_change();
            match self.send(server, change) {
                Ok(rows) => acknowledged += rows,
                Err(_) => break, // the server is gone; the change stays in doubt
            }
        }
        acknowledged
    }

    fn next_change(&mut self) -> Change {
        let count = 1 + mix(&mut self.random) % CHANGE;
        if mix(&mut self.random) % 3 == 0 && self.ledger.held().len() > SAMPLE {
            let gone: BTreeSet<u64> = (0..count / 2 + 1).filter_map(|_| self.known()).collect();
            return Change::Delete(gone);
        }
        let mut rows = Versions::new();
        for _ in 0..count {
            // Half of them new, half in place of older ones.
            match (mix(&mut self.random) % 2, self.known()) {
                (0, Some(handle)) => rows.insert(handle, self.ledger.held()[&handle] + 1),
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
        let held = self.ledger.held();
        held.range(from..).next().or_else(|| held.iter().next()).map(|(handle, _)| *handle)
    }

    fn send(&mut self, server: &dyn Transport, change: Change) -> Result<usize> {
        let message = match &change {
            Change::Upsert(rows) => publish(rows, Epoch(1), self.width),
            Change::Delete(handles) => DeleteRows::new(
                declassify(REVISION, Leak::CollectionShape),
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
    pub fn settle(&mut self, all: &BTreeMap<u64, ContentTag>) -> Faults {
        let start = first_handle(self.number);
        let own: BTreeMap<u64, ContentTag> = all
            .range(start..first_handle(self.number + 1))
            .map(|(handle, tag)| (*handle, *tag))
            .collect();
        self.ledger.settle(&own, Epoch(1))
    }

    /// Some of its rows.
    pub fn sample(&self, random: &mut u64) -> Versions {
        let held: Vec<(&u64, &u32)> = self.ledger.held().iter().collect();
        let pick = |_| held[(mix(random) % held.len() as u64) as usize];
        (0..SAMPLE).map(pick).map(|(handle, version)| (*handle, *version)).collect()
    }
}

/// Gives a collection new epochs.
pub struct Rekeyer {
    rows: usize,
    width: usize,
    /// The epoch that is searched, as far as was acknowledged.
    current: Epoch,
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
        Self { rows, width, current: Epoch(0), in_doubt: false }
    }

    /// New epochs until a call fails.
    pub fn work(&mut self, server: &dyn Transport, over: &AtomicBool) -> Rekeyed {
        let mut done = Rekeyed::default();
        while !over.load(Ordering::Relaxed) {
            match self.next_epoch(server, over) {
                Ok(rows) => {
                    done.rows += rows;
                    done.activated += 1;
                }
                Err(_) => break, // the server is gone
            }
        }
        done
    }

    /// Publishes the next epoch whole and activates it.
    pub fn next_epoch(&mut self, server: &dyn Transport, over: &AtomicBool) -> Result<usize> {
        let next = Epoch(self.current.0 + 1);
        let all: Vec<(u64, u32)> = self.versions().into_iter().collect();
        for rows in all.chunks(EPOCH_BATCH) {
            if over.load(Ordering::Relaxed) {
                anyhow::bail!("the round is over");
            }
            publish_rows(server, &rows.iter().copied().collect(), next, self.width)?;
        }
        self.in_doubt = true;
        activate(server, next)?;
        self.in_doubt = false;
        self.current = next;
        Ok(all.len())
    }

    fn versions(&self) -> Versions {
        (0..self.rows as u64).map(|handle| (handle, 0)).collect()
    }

    /// The epoch that was activated last must be there whole, and the ones before it gone.
    pub fn settle(&mut self, server: &dyn Transport) -> Result<Faults> {
        let state = state(server)?;
        let mut faults = Faults::default();
        if self.in_doubt && state.current == Some(Epoch(self.current.0 + 1)) {
            self.current = Epoch(self.current.0 + 1);
        }
        self.in_doubt = false;
        let older = state.epochs.iter().filter(|held| held.epoch < self.current);
        faults.resurrected += older.map(|held| held.rows as usize).sum::<usize>();
        if state.current != Some(self.current) {
            faults.lost += self.rows;
            return Ok(faults);
        }
        let observed = tags(server, self.current)?;
        let right = |(handle, version): (u64, u32)| {
            observed.get(&handle) == Some(&tag(handle, version, self.current))
        };
        let versions = self.versions();
        faults.resurrected += observed.len().saturating_sub(versions.len());
        faults.lost += versions.into_iter().filter(|&row| !right(row)).count();
        Ok(faults)
    }
}

/// The message that publishes rows.
pub fn publish(rows: &Versions, epoch: Epoch, width: usize) -> Vec<u8> {
    let (batch, tags) = batch(rows, epoch, width);
    let tags = declassify(tags, Leak::StoredRows);
    PublishRows::new(declassify(REVISION, Leak::CollectionShape), batch, tags).encode()
}

/// Publishes rows.
pub fn publish_rows(
    server: &dyn Transport,
    rows: &Versions,
    epoch: Epoch,
    width: usize,
) -> Result<()> {
    ask(server, publish(rows, epoch, width)).map(drop)
}

/// Makes an epoch the current one.
pub fn activate(server: &dyn Transport, epoch: Epoch) -> Result<()> {
    let (revision, epoch) =
        (declassify(REVISION, Leak::CollectionShape), declassify(epoch, Leak::CollectionShape));
    ask(server, ActivateEpoch::new(revision, epoch).encode()).map(drop)
}

/// What the server did for its own sake.
#[derive(Default)]
pub struct Upkeep {
    pub compactions: usize,
    pub snapshots: usize,
}

/// A snapshot, and compactions one after the other, until a call fails.
pub fn upkeep(server: &Remote, snapshot: &str, over: &AtomicBool) -> Upkeep {
    let mut done = Upkeep::default();
    while !over.load(Ordering::Relaxed) {
        if server.compact().is_err() {
            break; // the server is gone
        }
        done.compactions += 1;
        if done.snapshots == 0 {
            if server.snapshot(snapshot).is_err() {
                break;
            }
            done.snapshots += 1;
        }
    }
    done
}

/// Removes the snapshots under a server's directory: they would fill the disk.
pub fn forget_snapshots(directory: &Path) -> Result<()> {
    let snapshots = directory.join("snapshots");
    match fs::remove_dir_all(&snapshots) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", snapshots.display()))
        }
        _ => Ok(()),
    }
}
