//! What a search needs of a commit and keeps for the next: sets of checks, hints, and secrets of blocks, cell by
//! cell.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;
use shard_protocol::{CommitName, Transport};
use shard_rlwe::blind::{self, BlockSecrets, Checker};

use super::BlindCollection;
use super::checks::{CheckSet, Checks, SETS};
use super::search::BlindSearcher;
use crate::error::ClientError;
use crate::progress::UNWATCHED;
use crate::search::Cost;

/// What outlives a search of one commit.
pub(super) struct Ready {
    pub(super) commit: CommitName,
    /// By cell.
    pub(super) cells: Vec<ReadyCell>,
    /// Blocks whose secrets the budget still has room for.
    pub(super) room: AtomicUsize,
}

/// What outlives a search of one cell.
pub(super) struct ReadyCell {
    pub(super) sets: Vec<CheckSet>,
    /// The set in use.
    pub(super) checking: Mutex<Option<Checking>>,
    /// Of its first blocks, as many as the budget allowed when it was first asked for. Hints of all its blocks
    /// are here then.
    pub(super) kept: OnceLock<Vec<BlockSecrets>>,
}

/// A part of a collection that is searched: the blocks of some cells.
pub(super) struct Searched<'a> {
    pub(super) collection: &'a BlindCollection,
    pub(super) ready: Arc<Ready>,
    /// The cells, in ascending order.
    pub(super) cells: Vec<u32>,
    /// The numbers of their blocks, in the order of the answer.
    pub(super) numbers: Vec<u32>,
    /// For each cell, where its blocks stand in the answer.
    pub(super) positions: Vec<Vec<usize>>,
    /// For each cell, where its checks begin in the answer.
    pub(super) checks: Vec<usize>,
    /// Blocks of the answer, checks included.
    pub(super) blocks: usize,
}

impl<'a> Searched<'a> {
    pub(super) fn new(collection: &'a BlindCollection, ready: Arc<Ready>, cells: Vec<u32>) -> Self {
        let mut numbers: Vec<u32> =
            cells.iter().flat_map(|&cell| collection.blocks_of(cell)).copied().collect();
        numbers.sort_unstable();
        let at = |number: &u32| numbers.binary_search(number).expect("a block of an asked cell");
        let positions =
            cells.iter().map(|&cell| collection.blocks_of(cell).iter().map(at).collect()).collect();
        let mut blocks = numbers.len();
        let mut checks = Vec::with_capacity(cells.len());
        for &cell in &cells {
            checks.push(blocks);
            blocks +=
                ready.cells[cell as usize].sets.iter().map(|set| set.tags.len()).sum::<usize>();
        }
        Self { collection, ready, cells, numbers, positions, checks, blocks }
    }

    pub(super) fn ready_cell(&self, at: usize) -> &ReadyCell {
        &self.ready.cells[self.cells[at] as usize]
    }

    /// The secrets that are kept, block by block.
    pub(super) fn kept(&self) -> Vec<Option<&BlockSecrets>> {
        let mut kept = vec![None; self.numbers.len()];
        for (at, positions) in self.positions.iter().enumerate() {
            let secrets = self.ready_cell(at).kept.get().into_iter().flatten();
            for (&position, secrets) in positions.iter().zip(secrets) {
                kept[position] = Some(secrets);
            }
        }
        kept
    }

    /// The row of a place of the answer.
    pub(super) fn row(&self, place: usize) -> usize {
        let per_block = self.collection.shape().rows_per_block();
        self.numbers[place / per_block] as usize * per_block + place % per_block
    }
}

/// A set of checks in use.
#[derive(Clone)]
pub(super) struct Checking {
    pub(super) set: u64,
    /// Where its blocks begin among those of its cell's checks.
    pub(super) first: usize,
    pub(super) checker: Arc<Checker>,
}

impl<T: Transport<Error: Into<ClientError>>> BlindSearcher<T> {
    /// Never uses a set again.
    pub(super) fn retire(&self, ready: &ReadyCell, set: u64) {
        if !self.hints.is_retired(set) {
            self.hints.retire(set);
        }
        let mut checking = ready.checking.lock().unwrap_or_else(PoisonError::into_inner);
        checking.take_if(|checking| checking.set == set);
    }

    /// Makes the next search fetch what it needs.
    pub(super) fn forget(&self, ready: &Arc<Ready>) {
        let mut held = self.ready.write().unwrap_or_else(PoisonError::into_inner);
        held.take_if(|held| Arc::ptr_eq(held, ready));
    }

    pub(super) fn block_secrets(
        &self,
        collection: &BlindCollection,
        number: u32,
    ) -> Result<BlockSecrets, ClientError> {
        let number = number as usize;
        let tag = &collection.blocks()[number].tag;
        let hint = self.hints.of(collection, number)?;
        collection.keys().block_secrets(tag, &hint).map_err(|_| ClientError::Forged)
    }

    /// Fetches what a search of this commit needs, unless it is here.
    pub(super) fn ready(
        &self,
        collection: &BlindCollection,
        cost: &mut Cost,
    ) -> Result<Arc<Ready>, ClientError> {
        let held = self.ready.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(ready) = held.filter(|ready| ready.commit == collection.commit()) {
            return Ok(ready);
        }
        let (cells, bytes) = self.fetch_sets(collection)?;
        cost.bytes_once = bytes;
        let ready_cell =
            |sets| ReadyCell { sets, checking: Mutex::new(None), kept: OnceLock::new() };
        let each =
            (collection.shape().query_rank().secrets() + blind::BLOCK_RANK) * blind::DEGREE * 6;
        let ready = Arc::new(Ready {
            commit: collection.commit(),
            cells: cells.into_iter().map(ready_cell).collect(),
            room: AtomicUsize::new(self.budget / each),
        });
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) = Some(ready.clone());
        Ok(ready)
    }

    /// Fetches the hints of cells that are asked for the first time, and keeps of them what there is room for.
    pub(super) fn prepare_cells(
        &self,
        searched: &Searched<'_>,
        cost: &mut Cost,
    ) -> Result<(), ClientError> {
        let (collection, ready) = (searched.collection, &searched.ready);
        let is_new = |cell: &u32| ready.cells[*cell as usize].kept.get().is_none();
        let new: Vec<u32> = searched.cells.iter().copied().filter(is_new).collect();
        let numbers: Vec<u32> =
            new.iter().flat_map(|&cell| collection.blocks_of(cell)).copied().collect();
        if numbers.is_empty() {
            return Ok(());
        }
        let fetched = self.hints.fetch(collection, &numbers, &self.transport, UNWATCHED);
        cost.bytes_once += fetched.inspect_err(|_| self.forget(ready))?;
        for cell in new {
            let blocks = collection.blocks_of(cell);
            let take = |room: usize| Some(room - room.min(blocks.len()));
            let room = ready.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            let room = room.unwrap_or_default().min(blocks.len());
            let kept: Result<Vec<_>, ClientError> = blocks[..room]
                .par_iter()
                .map(|&number| self.block_secrets(collection, number))
                .collect();
            // Another search may have been faster.
            let _ = ready.cells[cell as usize].kept.set(kept.inspect_err(|_| self.forget(ready))?);
        }
        Ok(())
    }

    /// The sets of every cell; none of one without blocks.
    fn fetch_sets(
        &self,
        collection: &BlindCollection,
    ) -> Result<(Vec<Vec<CheckSet>>, usize), ClientError> {
        let sealed = self.hints.checks(collection, &self.transport)?;
        let opened = Checks::open(collection.sealer(), collection.commit(), &sealed);
        let checks = opened.ok_or(ClientError::Forged)?;
        let shape = collection.shape();
        let listed = checks.cells.iter().map(|checks| checks.cell);
        let sound = checks.revision == collection.revision().0
            && checks.has_cells == collection.cells().is_some()
            && listed.eq(collection.used_cells())
            && checks.cells.iter().all(|cell| cell.sets.len() == SETS)
            && checks.sets().all(|set| set.tags.len() == shape.checks());
        if !sound {
            return Err(ClientError::Forged);
        }
        let mut sets: Vec<Vec<CheckSet>> = Vec::new();
        sets.resize_with(collection.cell_count(), Vec::new);
        for cell in checks.cells {
            sets[cell.cell as usize] = cell.sets;
        }
        Ok((sets, sealed.len()))
    }

    /// For every cell that is searched, the first set that no alarm has retired.
    pub(super) fn checking(&self, searched: &Searched<'_>) -> Result<Vec<Checking>, ClientError> {
        let of_cell = |&cell: &u32| {
            self.checking_of(searched.collection, cell, &searched.ready.cells[cell as usize])
        };
        searched.cells.iter().map(of_cell).collect()
    }

    fn checking_of(
        &self,
        collection: &BlindCollection,
        cell: u32,
        ready: &ReadyCell,
    ) -> Result<Checking, ClientError> {
        let mut held = ready.checking.lock().unwrap_or_else(PoisonError::into_inner);
        // Another searcher of these hints may have retired it.
        if let Some(checking) = held.as_ref().filter(|held| !self.hints.is_retired(held.set)) {
            return Ok(checking.clone());
        }
        let mut first = 0;
        for set in &ready.sets {
            if self.hints.is_retired(set.number) {
                first += set.tags.len();
                continue;
            }
            let (keys, blocks) = (collection.keys(), collection.blocks_of(cell));
            let checker = match collection.cells() {
                Some(_) => Checker::of_blocks(keys, set.number, &set.tags, blocks),
                None => Checker::new(keys, set.number, &set.tags, blocks.len()),
            };
            let checking = Checking { set: set.number, first, checker: Arc::new(checker) };
            *held = Some(checking.clone());
            return Ok(checking);
        }
        Err(ClientError::ChecksRetired)
    }
}
