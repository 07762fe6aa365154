//! Blind collections: their blocks, expanded in memory, and searches over them.
//!
//! The engine keeps blocks as blobs and knows which commit is searched; here are the blocks of that
//! commit, ready to be multiplied. A publish is one step for whoever searches: the list of the new
//! commit takes the place of the old one, blocks that are in both are shared, and searches under way
//! end on the list they began with.
//!
//! `load` (from blobs to memory, and activation), `search`, `passes` (searches that share one).

mod load;
mod passes;
mod search;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use shard_protocol::{BlockList, CollectionName, CommitName, Epoch};
use shard_rlwe::blind::{Block, PreparedQuery, Server as Evaluator, Shape};

pub use load::BlockError;
use passes::{Passes, Tally};

/// Memory for the blocks of all collections, unless told otherwise.
pub const BLOCK_BYTES: usize = 8 << 30;

/// What is held of blind collections, and what was searched of them since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockCounts {
    /// Collections whose blocks are in memory.
    pub collections: usize,
    /// Memory of their blocks.
    pub bytes: usize,
    /// Passes over the blocks of a collection.
    pub passes: u64,
    /// Queries that were answered by them.
    pub queries: u64,
}

/// The blocks of one commit.
struct Held {
    epoch: Epoch,
    commit: CommitName,
    names: Vec<[u8; 16]>,
    blocks: Vec<Arc<Block>>,
    evaluator: Evaluator,
    passes: Passes<PreparedQuery>,
}

impl Held {
    fn shape(&self) -> &Shape {
        self.evaluator.shape()
    }

    fn is(&self, epoch: Epoch, commit: CommitName) -> bool {
        (self.epoch, self.commit) == (epoch, commit)
    }

    fn bytes(&self) -> usize {
        self.blocks.len() * self.shape().block_bytes()
    }
}

/// The blocks of all collections.
pub(crate) struct Blocks {
    budget: usize,
    held: RwLock<HashMap<CollectionName, Arc<Held>>>,
    /// Held by whoever changes which commit of a collection is searched, from before the engine is
    /// asked to after the list in memory was changed: both then go the same way.
    changing: Mutex<()>,
    tally: Arc<Tally>,
}

impl Blocks {
    pub(crate) fn new(budget: usize) -> Self {
        Self { budget, held: RwLock::default(), changing: Mutex::default(), tally: Arc::default() }
    }

    /// Keeps everybody else from changing what is searched.
    pub(crate) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, collection: &CollectionName) -> Option<Arc<Held>> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).get(collection).cloned()
    }

    /// Puts blocks in the place of those of the same collection.
    fn keep(&self, collection: &CollectionName, held: Arc<Held>) {
        let mut all = self.held.write().unwrap_or_else(PoisonError::into_inner);
        let last = all.insert(collection.clone(), held);
        drop(all);
        drop(last); // frees memory: not under the lock
    }

    /// Frees the blocks of a collection.
    pub(crate) fn forget(&self, collection: &CollectionName) {
        let mut all = self.held.write().unwrap_or_else(PoisonError::into_inner);
        let last = all.remove(collection);
        drop(all);
        drop(last);
    }

    /// Memory of all collections but one.
    fn bytes_besides(&self, collection: &CollectionName) -> usize {
        let all = self.held.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(name, _)| *name != collection).map(|(_, held)| held.bytes()).sum()
    }

    pub(crate) fn counts(&self) -> BlockCounts {
        let all = self.held.read().unwrap_or_else(PoisonError::into_inner);
        BlockCounts {
            collections: all.len(),
            bytes: all.values().map(|held| held.bytes()).sum(),
            passes: self.tally.passes.load(Ordering::Relaxed),
            queries: self.tally.queries.load(Ordering::Relaxed),
        }
    }

    /// The blocks of a list, in its order.
    fn of(&self, commit: CommitName, list: &BlockList, blocks: Vec<Arc<Block>>) -> Arc<Held> {
        Arc::new(Held {
            epoch: list.epoch(),
            commit,
            names: list.names().to_vec(),
            blocks,
            evaluator: Evaluator::new(*list.shape()),
            passes: Passes::new(self.tally.clone()),
        })
    }
}
