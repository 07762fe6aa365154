//! Blind collections: their blocks, expanded in memory, and searches over them.
//!
//! The engine keeps blocks as blobs and knows which commit is searched; here are the blocks of that
//! commit, ready to be multiplied. A publish is one step for whoever searches: the list of the new
//! commit takes the place of the old one, blocks that are in both are shared, and searches under way
//! end on the list they began with.
//!
//! Where several servers work on one engine, each holds a share of the blocks, and a search is over all of
//! them.
//!
//! `load` (from blobs to memory, and activation), `read` (many blobs at once), `error`, `memory` (what blocks
//! take of it), `search`, `passes` (searches that share one), `records` (the same for sealed records), `share`
//! (who holds what), `peers` (searches over what others hold).

mod error;
mod load;
mod memory;
mod passes;
mod peers;
mod read;
mod records;
mod search;
mod share;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

use shard_protocol::{BlobName, BlockList, CollectionName, CommitName, Epoch, Table};
use shard_rlwe::blind::{PreparedQuery, Server as Evaluator, Shape};

pub use error::BlockError;
use memory::{HeldBlock, Memory};
use passes::{Passes, Tally};
pub use peers::{Asked, PartQuery, PeerError, Peers};
use records::HeldRecords;
pub use search::RESIDUE_SECONDS;
pub use share::View;

use crate::ServerError;

/// Memory for the blocks of all collections, unless told otherwise.
pub const BLOCK_BYTES: usize = 8 << 30;

/// What is held of blind collections, and what was searched of them since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockCounts {
    /// Collections whose blocks are in memory.
    pub collections: usize,
    /// Memory of all blocks and records: theirs, those of earlier commits that searches under way still
    /// use, those that are being loaded, and those of a load that was cut short.
    pub bytes: usize,
    /// Passes over the blocks or the records of a collection.
    pub passes: u64,
    /// Queries that were answered by them.
    pub queries: u64,
    /// Time of all passes, each from its beginning to its end.
    pub pass_time: Duration,
}

/// The blocks and records of one commit: all of them, or the share of this server.
pub(crate) struct Held {
    epoch: Epoch,
    commit: CommitName,
    /// The servers among which it was divided.
    view: Arc<View>,
    names: Vec<[u8; 16]>,
    blocks: Vec<Option<Arc<HeldBlock>>>,
    /// Which blocks this server answers as long as all others are there.
    own: Vec<u32>,
    /// The numbers of the blocks of every cell, checks included, where blocks are grouped by cell.
    cells: Option<Vec<Vec<u32>>>,
    evaluator: Evaluator,
    passes: Passes<PreparedQuery>,
    records: Option<HeldRecords>,
}

impl Held {
    fn shape(&self) -> &Shape {
        self.evaluator.shape()
    }

    fn bytes(&self) -> usize {
        let records = self.records.as_ref().map_or(0, HeldRecords::bytes);
        self.blocks.iter().flatten().count() * self.shape().block_bytes() + records
    }

    fn records(&self) -> Result<&HeldRecords, ServerError> {
        self.records.as_ref().ok_or(ServerError::NoRecords(self.commit))
    }

    /// Blocks, or segments of records, held here or not.
    fn units(&self, table: Table) -> Result<usize, ServerError> {
        Ok(match table {
            Table::Rows => self.blocks.len(),
            Table::Records => self.records()?.segments().len(),
        })
    }

    /// Bytes of the answer of a unit.
    fn unit_bytes(&self, table: Table) -> Result<usize, ServerError> {
        Ok(match table {
            Table::Rows => self.shape().answer_bytes(1),
            Table::Records => self.records()?.unit_bytes(),
        })
    }

    /// The blobs of what is not held here, with their lengths.
    fn not_held(&self) -> HashMap<BlobName, usize> {
        let each = self.shape().block_bytes();
        let blocks = self.names.iter().zip(&self.blocks).filter(|(_, block)| block.is_none());
        let blocks = blocks.map(|(name, _)| (BlobName::block(*name), each));
        let pages = self.records.iter().flat_map(HeldRecords::not_held);
        blocks.chain(pages).collect()
    }

    /// Whether all of some units are held here.
    fn has(&self, table: Table, units: &[u32]) -> bool {
        let is_held = |&unit: &u32| match table {
            Table::Rows => self.blocks.get(unit as usize).is_some_and(Option::is_some),
            Table::Records => self.records.as_ref().is_some_and(|records| {
                records.segments().get(unit as usize).is_some_and(Option::is_some)
            }),
        };
        units.iter().all(is_held)
    }
}

/// The blocks of all collections.
pub(crate) struct Blocks {
    memory: Arc<Memory>,
    held: RwLock<HashMap<CollectionName, Arc<Held>>>,
    /// What was loaded of a commit before something of it was missing: mostly the next commit has it too. Without
    /// this, a server that loads for longer than it takes to publish would begin anew with every publish.
    begun: Mutex<HashMap<CollectionName, Arc<Held>>>,
    /// Collections that somebody changes.
    changing: Mutex<HashSet<CollectionName>>,
    changed: Condvar,
    tally: Arc<Tally>,
}

/// Held by whoever changes which commit of a collection is searched, from before the engine is asked to
/// after the list in memory was changed: both then go the same way.
pub(crate) struct Changing<'a> {
    blocks: &'a Blocks,
    collection: CollectionName,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut all = self.blocks.changing.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.collection);
        drop(all);
        self.blocks.changed.notify_all();
    }
}

impl Blocks {
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            memory: Memory::new(budget),
            held: RwLock::default(),
            begun: Mutex::default(),
            changing: Mutex::default(),
            changed: Condvar::new(),
            tally: Arc::default(),
        }
    }

    /// Keeps everybody else from changing what is searched of a collection.
    pub(crate) fn change(&self, collection: &CollectionName) -> Changing<'_> {
        let all = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let others = |all: &mut HashSet<CollectionName>| all.contains(collection);
        let waited = self.changed.wait_while(all, others);
        waited.unwrap_or_else(PoisonError::into_inner).insert(collection.clone());
        Changing { blocks: self, collection: collection.clone() }
    }

    fn find(&self, collection: &CollectionName) -> Option<Arc<Held>> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).get(collection).cloned()
    }

    /// The blocks of a commit, if they are those that are held.
    fn at(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        commit: CommitName,
    ) -> Option<Arc<Held>> {
        self.find(collection).filter(|held| (held.epoch, held.commit) == (epoch, commit))
    }

    /// Which collections have blocks here, or had some of them loaded.
    fn collections(&self) -> BTreeSet<CollectionName> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.keys().chain(begun.keys()).cloned().collect()
    }

    /// Remembers what was loaded of a commit that could not be loaded whole.
    fn begin(&self, collection: &CollectionName, begun: Arc<Held>) {
        let mut all = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let last = all.insert(collection.clone(), begun);
        drop(all);
        drop(last); // frees memory: not under the lock
    }

    fn begun(&self, collection: &CollectionName) -> Option<Arc<Held>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).get(collection).cloned()
    }

    fn forget_begun(&self, collection: &CollectionName) {
        let mut all = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = all.remove(collection);
        drop(all);
        drop(begun); // frees memory: not under the lock
    }

    /// Frees what was begun of all collections. Returns whether there was something.
    fn forget_all_begun(&self) -> bool {
        let mut all = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = std::mem::take(&mut *all);
        drop(all);
        !begun.is_empty()
    }

    /// Puts blocks in the place of those of the same collection.
    fn keep(&self, collection: &CollectionName, held: Arc<Held>) {
        self.forget_begun(collection);
        let mut all = self.held.write().unwrap_or_else(PoisonError::into_inner);
        let last = all.insert(collection.clone(), held);
        drop(all);
        drop(last); // frees memory: not under the lock
    }

    /// Forgets the blocks of a collection, which are free once the searches under way are done; returns
    /// them.
    pub(crate) fn forget(&self, collection: &CollectionName) -> Option<Arc<Held>> {
        self.forget_begun(collection);
        let mut all = self.held.write().unwrap_or_else(PoisonError::into_inner);
        all.remove(collection)
    }

    pub(crate) fn counts(&self) -> BlockCounts {
        let collections = self.held.read().unwrap_or_else(PoisonError::into_inner).len();
        BlockCounts {
            collections,
            bytes: self.memory.used(),
            passes: self.tally.passes.load(Ordering::Relaxed),
            queries: self.tally.queries.load(Ordering::Relaxed),
            pass_time: Duration::from_micros(self.tally.microseconds.load(Ordering::Relaxed)),
        }
    }

    /// The blocks of a list, in its order, with the records of the commit.
    fn of(
        &self,
        commit: CommitName,
        list: &BlockList,
        (view, own): (Arc<View>, Vec<u32>),
        blocks: Vec<Option<Arc<HeldBlock>>>,
        records: Option<HeldRecords>,
    ) -> Arc<Held> {
        Arc::new(Held {
            epoch: list.epoch(),
            commit,
            view,
            names: list.names().to_vec(),
            blocks,
            own,
            cells: list.cells().map(by_cell),
            evaluator: Evaluator::new(*list.shape()),
            passes: Passes::new(self.tally.clone()),
            records,
        })
    }
}

/// The numbers of the blocks of every cell, in ascending order.
fn by_cell(cells: &[u32]) -> Vec<Vec<u32>> {
    let count = cells.iter().max().map_or(0, |&last| last as usize + 1);
    let mut numbers = vec![Vec::new(); count];
    for (number, &cell) in (0..).zip(cells) {
        numbers[cell as usize].push(number);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn changes_wait_for_those_of_the_same_collection_and_for_no_others() {
        let blocks = Blocks::new(0);
        let name = |text: &str| -> CollectionName { text.parse().unwrap() };
        let first = blocks.change(&name("a"));
        drop(blocks.change(&name("b")));
        let (begun, begins) = mpsc::channel();
        thread::scope(|scope| {
            let waits = || {
                let _second = blocks.change(&name("a"));
                begun.send(()).unwrap();
            };
            scope.spawn(waits);
            let early = begins.recv_timeout(Duration::from_millis(50));
            assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout));
            drop(first);
            begins.recv().unwrap();
        });
        assert!(blocks.changing.lock().unwrap().is_empty());
    }
}
