//! From blobs to memory: when a commit is activated, when a server starts, when a search comes first.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use shard_protocol::{Advance, BlobName, BlockList, CollectionName, CommitName, Epoch, Table};
use shard_store::StoreError;

use super::memory::HeldBlock;
use super::read::read_block;
use super::records::HeldRecords;
use super::{BlockError, Held, View};
use crate::{Server, ServerError};

/// How long the memory of blocks is waited for that searches under way still use: longer than a search may
/// take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Names of blobs that the engine is asked for at once.
const BLOBS_AT_ONCE: usize = 8192;

/// What is loaded besides a server's share.
enum Extra<'a> {
    None,
    /// What was held before.
    AsBefore,
    /// These units of a table, and what was held before of it and of the other.
    Units(Table, &'a [u32]),
}

impl Extra<'_> {
    fn names(&self, table: Table, unit: u32) -> bool {
        matches!(self, Self::Units(of, units) if *of == table && units.binary_search(&unit).is_ok())
    }
}

impl Server {
    /// Makes an epoch the one that is searched, at a commit: an epoch of blocks where there is a list
    /// of the commit's blocks, one of rows otherwise.
    ///
    /// Blocks are loaded beside those they replace, which are searched until the engine has reached the
    /// commit. Where there is no room for both, they are only read, to see that they are sound; once the
    /// engine has reached the commit the old ones are freed, and only then the new ones are loaded.
    pub(crate) fn activate(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
    ) -> Result<(), ServerError> {
        let _changing = self.blocks.change(collection);
        let activated = self.try_to_activate(collection, advance, epoch);
        if let Err(error) = &activated
            && (self.peers.is_none() || matches!(error, ServerError::Blocks(_)))
        {
            // Whoever publishes sends what is missing, or gives up. Beside others, what the engine did not
            // answer may be of a commit that this server has to follow.
            self.blocks.forget_begun(collection);
        }
        activated
    }

    fn try_to_activate(
        &self,
        collection: &CollectionName,
        advance: &Advance,
        epoch: Epoch,
    ) -> Result<(), ServerError> {
        let commit = advance.to;
        let Some(list) = self.block_list(collection, commit)? else {
            self.rows.activate(collection, advance, epoch)?;
            self.blocks.forget(collection);
            return Ok(());
        };
        if list.epoch() != epoch {
            let listed = list.epoch();
            return Err(BlockError::Epoch { commit, listed, asked: epoch }.into());
        }
        let (width, blocks) = (list.shape().dimension(), list.names().len() as u64);
        let reach = || self.rows.activate_blocks(collection, advance, epoch, width, blocks);
        match self.load(collection, commit, &list) {
            Ok(held) => {
                self.check_rest(collection, &held)?;
                reach()?;
                self.blocks.keep(collection, held);
            }
            Err(ServerError::Blocks(BlockError::TooLarge { needed, left, .. }))
                if needed <= left =>
            {
                let names = list.names().iter().map(|&name| BlobName::block(name)).collect();
                self.read_all(collection, commit, names, |_, name, bytes| {
                    read_block(commit, name, list.shape().tiles(), &bytes).map(drop)
                })?;
                if let Some(records) = self.record_list(collection, commit, epoch)? {
                    self.check_pages(collection, commit, &records)?;
                }
                reach()?;
                // The commit is reached, whatever becomes of this: the next search tries again.
                let _ = self.load_held(collection, epoch, commit);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Refuses a commit of which something is not there that others are to load. That it is what was
    /// written is the engine's business.
    fn check_rest(&self, collection: &CollectionName, held: &Held) -> Result<(), ServerError> {
        let mut missing = held.not_held();
        let mut after: Option<BlobName> = None;
        while !missing.is_empty() {
            let page = self.rows.blobs(collection, after.as_ref(), BLOBS_AT_ONCE)?;
            for (name, length) in &page {
                if let Some(expected) = missing.get(name) {
                    let (expected, actual) = (*expected, *length as usize);
                    if actual != expected {
                        let (commit, name) = (held.commit, name.clone());
                        let error = BlockError::Malformed { commit, name, expected, actual };
                        return Err(error.into());
                    }
                    missing.remove(name);
                }
            }
            after = page.last().map(|(name, _)| name.clone());
            if page.len() < BLOBS_AT_ONCE {
                break;
            }
        }
        match missing.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(BlockError::Missing { commit: held.commit, name }.into()),
        }
    }

    /// Forgets the epochs and the commit of a collection.
    pub(crate) fn reset(
        &self,
        collection: &CollectionName,
        from: Option<CommitName>,
    ) -> Result<(), ServerError> {
        let _changing = self.blocks.change(collection);
        self.rows.reset(collection, from)?;
        self.blocks.forget(collection);
        Ok(())
    }

    /// Loads the blocks of every collection into memory. Returns which collections could not be loaded,
    /// and why; a search of one of them tries again.
    pub fn load_blocks(&self) -> Result<Vec<(CollectionName, ServerError)>, ServerError> {
        let mut failed = Vec::new();
        for collection in self.rows.collections()? {
            if let Err(error) = self.load_current(&collection) {
                failed.push((collection, error));
            }
        }
        Ok(failed)
    }

    /// Whether some collection may have blocks to load: whether it has a list of any commit's.
    #[cfg(feature = "http")]
    pub(crate) fn any_block_list(&self) -> Result<bool, ServerError> {
        let before = BlobName::before_block_lists();
        for collection in self.rows.collections()? {
            let next = self.rows.blobs(&collection, Some(&before), 1)?;
            if next.first().is_some_and(|(name, _)| name.is_block_list()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Loads the blocks of a collection's current commit, if it has blocks and they are not loaded, and lets go
    /// of what it has none of any longer: another server may have dropped or reset it.
    fn load_current(&self, collection: &CollectionName) -> Result<(), ServerError> {
        let _changing = self.blocks.change(collection);
        let state = self.rows.describe(collection)?;
        let current = state.epochs.iter().find(|held| Some(held.epoch) == state.current);
        match (state.commit, current) {
            (Some(commit), Some(held)) if held.blocks > 0 => {
                self.load_held(collection, held.epoch, commit)?;
            }
            _ => drop(self.blocks.forget(collection)),
        }
        Ok(())
    }

    /// The blocks of a commit that the engine holds, loaded if they are not. What is wrong with them now
    /// was sound when the commit was activated. To be called while nobody else changes it.
    pub(super) fn load_held(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        commit: CommitName,
    ) -> Result<Arc<Held>, ServerError> {
        if let Some(held) = self.blocks.at(collection, epoch, commit) {
            // What was begun of the same commit is what another share has more of it.
            if self.blocks.begun(collection).is_some_and(|begun| begun.commit != commit) {
                self.blocks.forget_begun(collection);
            }
            return Ok(held);
        }
        let damaged = |what: String| ServerError::from(StoreError::Damaged { what });
        let list = self.block_list(collection, commit)?;
        let list = list.ok_or_else(|| damaged(format!("no list of the blocks of {commit}")))?;
        // Beside what is held of another commit, which mostly has the same blocks, if there is room for both.
        let mut loaded = self.load(collection, commit, &list);
        if let Err(ServerError::Blocks(BlockError::TooLarge { .. })) = loaded {
            self.free(collection);
            loaded = self.load(collection, commit, &list);
        }
        let held = loaded.map_err(|error| match error {
            ServerError::Blocks(error @ BlockError::TooLarge { .. }) => error.into(),
            ServerError::Blocks(error) => damaged(error.to_string()),
            other => other,
        })?;
        self.blocks.keep(collection, held.clone());
        Ok(held)
    }

    /// Frees the blocks of a commit that is not searched any more, and waits for those who still do.
    fn free(&self, collection: &CollectionName) {
        let Some(held) = self.blocks.forget(collection) else { return };
        let since = Instant::now();
        while Arc::strong_count(&held) > 1 && since.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The list of a commit's blocks, if there is one.
    fn block_list(
        &self,
        collection: &CollectionName,
        commit: CommitName,
    ) -> Result<Option<BlockList>, ServerError> {
        match self.rows.blob(collection, &BlobName::blocks(commit)) {
            Ok(bytes) => Ok(Some(BlockList::decode(&bytes, &self.limits)?)),
            Err(StoreError::UnknownBlob(_) | StoreError::UnknownCollection(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The blocks of a list and the records of its commit: those that are held under the same names, and
    /// the others from their blobs. Refused before anything is read where the budget has no room for them.
    fn load(
        &self,
        collection: &CollectionName,
        commit: CommitName,
        list: &BlockList,
    ) -> Result<Arc<Held>, ServerError> {
        self.load_share(collection, commit, list, &Extra::None)
    }

    /// The share of this server among those that it sees, and what is wanted besides.
    fn load_share(
        &self,
        collection: &CollectionName,
        commit: CommitName,
        list: &BlockList,
        extra: &Extra<'_>,
    ) -> Result<Arc<Held>, ServerError> {
        match self.try_to_load(collection, commit, list, extra) {
            // What was begun is there to save time, and nobody's memory is refused for it.
            Err(ServerError::Blocks(BlockError::TooLarge { needed, budget, .. }))
                if needed <= budget && self.blocks.forget_all_begun() =>
            {
                self.try_to_load(collection, commit, list, extra)
            }
            tried => tried,
        }
    }

    fn try_to_load(
        &self,
        collection: &CollectionName,
        commit: CommitName,
        list: &BlockList,
        extra: &Extra<'_>,
    ) -> Result<Arc<Held>, ServerError> {
        let (tiles, each) = (list.shape().tiles(), list.shape().block_bytes());
        let records = self.record_list(collection, commit, list.epoch())?;
        let last = self.blocks.find(collection);
        let view = self.view();
        let wanted = |table: Table, units: usize| -> Vec<bool> {
            let share = view.of(collection, table);
            let is_held = |unit: u32| {
                let of_last = || match (extra, &last) {
                    (Extra::AsBefore | Extra::Units(..), Some(last)) => last.has(table, &[unit]),
                    _ => false,
                };
                share.is_held(unit) || extra.names(table, unit) || of_last()
            };
            (0..units as u32).map(is_held).collect()
        };
        let blocks_wanted = wanted(Table::Rows, list.names().len());
        let begun = self.blocks.begun(collection);
        let known: Vec<&Held> = last.iter().chain(&begun).map(|held| &**held).collect();
        let shared: HashMap<[u8; 16], &Arc<HeldBlock>> = known
            .iter()
            .flat_map(|held| held.names.iter().copied().zip(&held.blocks))
            .filter_map(|(name, held)| Some((name, held.as_ref()?)))
            .filter(|(_, held)| held.value.polynomials() == tiles)
            .collect();
        let known_records: Vec<&HeldRecords> =
            known.iter().filter_map(|held| held.records.as_ref()).collect();
        let mut blocks: Vec<Option<Arc<HeldBlock>>> = Vec::with_capacity(list.names().len());
        let mut new = Vec::new();
        for (number, (name, wanted)) in list.names().iter().zip(&blocks_wanted).enumerate() {
            let held = shared.get(name).filter(|_| *wanted);
            blocks.push(held.map(|&held| held.clone()));
            if *wanted && held.is_none() {
                new.push(number);
            }
        }
        let segments_wanted =
            wanted(Table::Records, records.as_ref().map_or(0, |list| list.shape().segments()));
        let of_records = records
            .as_ref()
            .map_or(0, |records| HeldRecords::new_bytes(records, &known_records, &segments_wanted));
        let memory = &self.blocks.memory;
        let mut reserved = memory
            .reserve(new.len().saturating_mul(each).saturating_add(of_records))
            .map_err(|left| {
                let segments = segments_wanted.iter().enumerate().filter(|(_, wanted)| **wanted);
                let of_records = records.as_ref().map_or(0, |list| {
                    segments.map(|(number, _)| list.shape().segment_bytes(number)).sum()
                });
                let blocks = blocks_wanted.iter().filter(|wanted| **wanted).count();
                BlockError::TooLarge {
                    needed: blocks.saturating_mul(each).saturating_add(of_records),
                    left: left + last.as_ref().map_or(0, |held| held.bytes()),
                    budget: memory.budget,
                }
            })?;
        let names = new.iter().map(|&number| BlobName::block(list.names()[number])).collect();
        let mut loaded = self.read_all(collection, commit, names, |at, name, bytes| {
            let block = read_block(commit, name, tiles, &bytes)?;
            blocks[new[at]] = Some(Arc::new(reserved.hold(block, each)));
            Ok(())
        });
        let own = view.of(collection, Table::Rows).own(list.names().len());
        let records = records.map(|list| {
            let own = view.of(collection, Table::Records).own(list.shape().segments());
            let mut held = HeldRecords::none_of(&list, own, self.blocks.tally.clone());
            if loaded.is_ok() {
                let wanted = &segments_wanted;
                loaded = self.load_records(
                    (collection, commit),
                    &mut held,
                    &known_records,
                    wanted,
                    &mut reserved,
                );
            }
            held
        });
        let held = self.blocks.of(commit, list, (view, own), blocks, records);
        match loaded {
            Ok(()) => Ok(held),
            Err(error) => {
                self.blocks.begin(collection, held);
                Err(error)
            }
        }
    }

    /// What is held with some units besides, which are loaded if they are not: another server counts on
    /// this one for them.
    pub(super) fn with_units(
        &self,
        collection: &CollectionName,
        held: Arc<Held>,
        table: Table,
        units: &[u32],
    ) -> Result<Arc<Held>, ServerError> {
        if held.has(table, units) {
            return Ok(held);
        }
        let (epoch, commit) = (held.epoch, held.commit);
        // Whoever changes the collection may wait until nobody uses it.
        drop(held);
        let _changing = self.blocks.change(collection);
        let Some(held) = self.blocks.at(collection, epoch, commit) else {
            let why = format!("{collection} has moved on from commit {commit}");
            return Err(ServerError::Unreachable(why));
        };
        // Another search may have loaded them meanwhile.
        if held.has(table, units) {
            return Ok(held);
        }
        self.load_again(collection, &held, &Extra::Units(table, units))
    }

    /// Loads of every collection what this server is to hold among those of [`Peers::next_view`](crate::Peers).
    /// What was held before stays where `tidy` does not say that nobody counts on it any more. Returns which
    /// collections could not be loaded, and why.
    pub fn share_all(&self, tidy: bool) -> Vec<(CollectionName, ServerError)> {
        let share = |collection| {
            let shared = self.share_again(&collection, tidy);
            shared.err().map(|error| (collection, error))
        };
        self.blocks.collections().into_iter().filter_map(share).collect()
    }

    /// Loads the commits that collections are at: of those named, or of all. Returns which could not be loaded,
    /// and why.
    ///
    /// # Errors
    /// When the engine does not say which there are.
    pub fn follow(
        &self,
        some: Option<&[CollectionName]>,
    ) -> Result<Vec<(CollectionName, ServerError)>, ServerError> {
        let all = match some {
            Some(some) => some.to_vec(),
            None => {
                let mut all = self.rows.collections()?;
                all.extend(self.blocks.collections());
                all.sort_unstable();
                all.dedup();
                all
            }
        };
        let follow = |collection: CollectionName| {
            let moment = self.revisions.moment();
            let followed = self.load_current(&collection).and_then(|()| {
                let state = self.rows.describe(&collection)?;
                if !state.epochs.is_empty() {
                    self.revisions.reached(&collection, state.revision, moment);
                }
                Ok(())
            });
            followed.err().map(|error| (collection, error))
        };
        Ok(all.into_iter().filter_map(follow).collect())
    }

    /// Loads the share of a view that is another than the one that a collection was divided by. What was held
    /// before stays where `tidy` does not say that nobody counts on it any more.
    fn share_again(&self, collection: &CollectionName, tidy: bool) -> Result<(), ServerError> {
        let _changing = self.blocks.change(collection);
        let Some(held) = self.blocks.find(collection) else { return Ok(()) };
        if tidy || held.view != self.view() {
            let extra = if tidy { Extra::None } else { Extra::AsBefore };
            self.load_again(collection, &held, &extra)?;
        }
        Ok(())
    }

    fn load_again(
        &self,
        collection: &CollectionName,
        held: &Arc<Held>,
        extra: &Extra<'_>,
    ) -> Result<Arc<Held>, ServerError> {
        let missing =
            || BlockError::Missing { commit: held.commit, name: BlobName::blocks(held.commit) };
        let list = self.block_list(collection, held.commit)?.ok_or_else(missing)?;
        let loaded = self.load_share(collection, held.commit, &list, extra)?;
        self.blocks.keep(collection, loaded.clone());
        Ok(loaded)
    }

    /// The servers among which blocks are divided now.
    fn view(&self) -> Arc<View> {
        self.peers.as_ref().map_or_else(|| Arc::new(View::alone()), |peers| peers.next_view())
    }
}
