//! Searches: every block of a commit, or of the cells that are asked for, is multiplied with every query.

use std::sync::Arc;

use shard_protocol::{
    BlindAnswer, BlindQuery, CollectionName, CollectionState, CommitName, DecodeError, Epoch, Table,
};
use shard_rlwe::blind::{Block, DEGREE, PreparedQuery};
use shard_store::StoreError;

use super::Held;
use crate::{Server, ServerError, Stages, timed};

/// Seconds of one core that one residue of a block and one query are counted with, where a server refuses what
/// would take too long.
pub const RESIDUE_SECONDS: f64 = 0.55e-9;

/// Blocks of a part of a pass: half a millisecond of one core, at the width of usual embeddings.
const PART: usize = 32;

impl Server {
    /// Scores all blocks of a commit, or those of the cells that are asked for, for the queries of a message,
    /// or multiplies all its records with them. Searches of all blocks that come while others are computed
    /// share a pass over them.
    pub fn search(
        &self,
        collection: &CollectionName,
        query: &BlindQuery,
    ) -> Result<BlindAnswer, ServerError> {
        self.search_in_stages(collection, query, &mut Stages::default())
    }

    pub(crate) fn search_in_stages(
        &self,
        collection: &CollectionName,
        query: &BlindQuery,
        stages: &mut Stages,
    ) -> Result<BlindAnswer, ServerError> {
        let (epoch, commit) = (query.epoch(), query.commit());
        let held = timed(&mut stages.engine, || self.searched(collection, epoch, commit))?;
        let units = match query.cells() {
            Some(cells) => held.blocks_of(cells)?,
            None => (0..held.units(query.table())? as u32).collect(),
        };
        match query.table() {
            Table::Rows => self.admit_search(&held, units.len(), query.queries().len())?,
            Table::Records => self.admit_fetch(held.records()?, query.queries().len())?,
        }
        let answers = timed(&mut stages.score, || match &self.peers {
            Some(peers) => self.answer_together(&**peers, collection, &held, query, &units),
            None => self.products(&held, query, &units),
        })?;
        Ok(BlindAnswer::new(answers))
    }

    /// The products of some units, which are held, with the queries of a message: unit after unit, in the
    /// order given.
    pub(super) fn products(
        &self,
        held: &Held,
        query: &BlindQuery,
        units: &[u32],
    ) -> Result<Vec<Vec<u8>>, ServerError> {
        match query.table() {
            Table::Rows => self.search_blocks(held, query.queries(), units),
            Table::Records => self.fetch_units(held.records()?, query.queries(), units),
        }
    }

    fn search_blocks(
        &self,
        held: &Held,
        queries: &[Vec<u8>],
        units: &[u32],
    ) -> Result<Vec<Vec<u8>>, ServerError> {
        let prepare = |bytes: &Vec<u8>| held.evaluator.prepare(bytes);
        let queries: Vec<PreparedQuery> = queries.iter().map(prepare).collect::<Result<_, _>>()?;
        let parts = units.len().div_ceil(PART);
        let block = |&unit: &u32| {
            let block = held.blocks[unit as usize].as_ref();
            &block.expect("a block that is held").value
        };
        let work = |part: usize, queries: &[&PreparedQuery]| {
            let units = units.chunks(PART).nth(part).expect("as many as there are");
            let blocks: Vec<&Block> = units.iter().map(block).collect();
            held.evaluator.answer_part(&blocks, queries)
        };
        // Passes are shared by those who ask for the same.
        Ok(if units == held.own && self.may_wait() {
            held.passes.answer(queries, parts, work)
        } else {
            held.passes.alone(&queries, parts, work)
        })
    }

    /// Whether this thread may wait for others that search. In a pool of threads that belong to many,
    /// those others could be waiting for this one.
    pub(super) fn may_wait(&self) -> bool {
        self.has_own_pools || rayon::current_thread_index().is_none()
    }

    /// Refuses a search of so many blocks that would take too long, or whose answer would.
    fn admit_search(&self, held: &Held, blocks: usize, queries: usize) -> Result<(), ServerError> {
        let residues = blocks * held.shape().tiles() * DEGREE;
        self.admit_products(residues, queries, held.shape().answer_bytes(blocks))
    }

    /// Refuses products of queries with so many residues that would take too long, or whose answers of so
    /// many bytes would.
    pub(super) fn admit_products(
        &self,
        residues: usize,
        queries: usize,
        answer_bytes: usize,
    ) -> Result<(), ServerError> {
        let actual = ((residues * queries) as f64 * RESIDUE_SECONDS * 1e3) as usize;
        let limit = self.request_milliseconds;
        if actual > limit {
            return Err(ServerError::TooCostly { actual, limit });
        }
        let (actual, limit) = ((queries * answer_bytes) as u64, self.limits.bytes as u64);
        if actual > limit {
            let what = "bytes of the answer";
            return Err(DecodeError::Limit { what, actual, limit }.into());
        }
        Ok(())
    }

    /// The blocks of a commit, if it is the one that is searched.
    pub(super) fn searched(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        commit: CommitName,
    ) -> Result<Arc<Held>, ServerError> {
        if let Some(held) = self.blocks.at(collection, epoch, commit) {
            return Ok(held);
        }
        // Only the engine knows why not. Whoever asks for the commit that it holds waits for an
        // activation that is about to end, or loads the blocks; nobody else has to.
        expect(&self.rows.describe(collection)?, collection, epoch, commit)?;
        let _changing = self.blocks.change(collection);
        expect(&self.rows.describe(collection)?, collection, epoch, commit)?;
        self.load_held(collection, epoch, commit)
    }
}

impl Held {
    /// The numbers of the blocks of some cells, checks included, in the order of the list.
    fn blocks_of(&self, cells: &[u32]) -> Result<Vec<u32>, ServerError> {
        let invalid = |what| ServerError::from(DecodeError::Invalid(what));
        let all = self.cells.as_ref();
        let all = all.ok_or_else(|| invalid("cells of a collection without cells"))?;
        let mut numbers = Vec::new();
        for &cell in cells {
            let of_cell = all.get(cell as usize).filter(|numbers| !numbers.is_empty());
            let of_cell = of_cell.ok_or_else(|| invalid("a cell that has no blocks"))?;
            numbers.extend_from_slice(of_cell);
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Refuses what a collection does not hold, by what it holds.
fn expect(
    state: &CollectionState,
    collection: &CollectionName,
    asked: Epoch,
    commit: CommitName,
) -> Result<(), ServerError> {
    if state.epochs.is_empty() {
        return Err(StoreError::UnknownCollection(collection.clone()).into());
    }
    match state.current {
        Some(current) if asked < current => {
            return Err(StoreError::Replaced { asked, current }.into());
        }
        _ => {}
    }
    let held = state.epochs.iter().find(|held| held.epoch == asked);
    let held = held.ok_or(StoreError::UnknownEpoch(asked))?;
    if state.current != Some(asked) {
        return Err(StoreError::Pending(asked).into());
    }
    if held.blocks == 0 {
        return Err(ServerError::NoBlocks(asked));
    }
    match state.commit {
        Some(held) if held == commit => Ok(()),
        Some(held) => Err(ServerError::Commit { asked: commit, held }),
        None => {
            let what = format!("no record of the commit that epoch {asked} is at");
            Err(StoreError::Damaged { what }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use shard_protocol::{EpochState, RefusalCode};

    use super::*;

    #[test]
    fn only_the_commit_that_is_held_is_searched() {
        let (epoch, commit) = (Epoch(3), CommitName([1; 16]));
        let asked = |held: Option<CommitName>| {
            let epochs = vec![EpochState { epoch, width: 4, rows: 0, blocks: 1 }];
            let state = CollectionState {
                commit: held,
                current: Some(epoch),
                epochs,
                ..CollectionState::default()
            };
            let outcome = expect(&state, &CollectionName::default(), epoch, commit);
            outcome.map_err(|error| error.code())
        };
        assert_eq!(asked(Some(commit)), Ok(()));
        assert_eq!(asked(Some(CommitName([2; 16]))), Err(RefusalCode::Stale));
        assert_eq!(asked(None), Err(RefusalCode::Damaged));
    }
}
