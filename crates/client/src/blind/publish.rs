//! What a publish of a blind collection sends: the blocks that are new, their hints, and checks over all
//! of them.
//!
//! A block is stored under a name that follows from its tag, so one that is there already is not made
//! again. The sums of the checks are taken from what the server has of the commit before, if that is
//! this epoch's and every part of it proves to be what was stored: then only the blocks that changed are
//! encrypted. Otherwise all of them are, from the vectors of the vault. Where blocks are grouped by cell, all
//! this is so for every cell by itself, one after the other, and a cell in which nothing changed keeps the
//! checks that it has.

use std::collections::{BTreeMap, HashMap, HashSet};

use rayon::prelude::*;
use shard_protocol::{
    Blob, BlobName, BlockList, CommitName, FetchShared, Leak, Limits, PutBlob, PutBlobs, declassify,
};
use shard_rlwe::blind::{Block, CheckSums};

use super::checks::{
    CellChecks, CheckSet, CheckedBlock, Checks, SETS, Sums, TOGETHER, fresh_sets, name_at,
};
use super::seal::{SEAL_BYTES, Subject};
use super::{BlindCollection, BlockPlaces, contradiction};
use crate::error::ClientError;
use crate::progress::{Progress, Watch};
use crate::transport::{Asking, Channel, accepted, exchange, fetch_blobs};
use crate::vault::Snapshot;

/// Bytes of blobs that one message carries.
const MESSAGE_BYTES: usize = 16 << 20;

/// The blocks of a commit that the server does not have in full, with their hints, by name and length.
pub(crate) fn missing_blocks(
    collection: &BlindCollection,
    kept: &BTreeMap<BlobName, u64>,
) -> impl Iterator<Item = u32> {
    let shape = collection.shape();
    let (block, hint) = (shape.block_bytes(), shape.hint_bytes() + SEAL_BYTES);
    let is_kept = move |name: BlobName, length: usize| kept.get(&name) == Some(&(length as u64));
    let blocks = (0..).zip(collection.blocks());
    let missing = blocks.filter(move |(_, held)| {
        let name = held.file_name();
        !is_kept(BlobName::block(name), block) || !is_kept(BlobName::hint(name), hint)
    });
    missing.map(|(number, _)| number)
}

/// What was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SentBlocks {
    /// Blocks sent.
    pub(crate) blocks: usize,
    /// Bytes of blocks, hints and checks.
    pub(crate) bytes: u64,
}

/// Sends everything of a commit but the step that makes it the one that is searched. `kept` are the blobs
/// that the server has, `before` the commit it is at, `retired` sets of checks that are not to be used.
pub(crate) fn send_blocks(
    snapshot: &Snapshot,
    collection: &BlindCollection,
    kept: &BTreeMap<BlobName, u64>,
    before: Option<CommitName>,
    retired: &[u64],
    transport: &dyn Channel,
    watch: &Watch<'_>,
) -> Result<SentBlocks, ClientError> {
    let missing = missing_blocks(collection, kept).collect();
    let sent = SentBlocks::default();
    let mut sending = Sending { snapshot, collection, kept, transport, sent, missing };
    let earlier = before.and_then(|commit| sending.earlier(commit).transpose()).transpose()?;
    let has_cells = collection.cells().is_some();
    let earlier = earlier.filter(|earlier| earlier.has_cells == has_cells);
    let mut parts = sending.parts(earlier.as_ref(), retired);
    let total = parts.iter().map(|part| part.changed.len() as u64).sum();
    let mut telling = Telling { watch, progress: Progress { done: 0, total } };
    let mut cells = Vec::with_capacity(parts.len());
    for part in &mut parts {
        cells.push(sending.checks_of(part, earlier.as_ref(), before, &mut telling)?);
    }
    sending.send_missing()?;
    sending.finish(cells)?;
    Ok(sending.sent)
}

/// The blocks of a cell, and what happened to them since the checks of before.
struct Part<'a> {
    cell: u32,
    /// The checks to go on from.
    earlier: Option<&'a CellChecks>,
    /// The numbers of blocks that were not in the cell as they are now, or are not any more; all that there
    /// are now where there is nothing to go on from.
    changed: Vec<u32>,
}

/// Says how many blocks are done.
struct Telling<'a> {
    watch: &'a Watch<'a>,
    progress: Progress,
}

impl Telling<'_> {
    fn tell(&mut self, blocks: usize) -> Result<(), ClientError> {
        self.progress.done += blocks as u64;
        let ended = (self.watch)(self.progress).is_break();
        if ended { Err(ClientError::Cancelled) } else { Ok(()) }
    }
}

struct Sending<'a> {
    snapshot: &'a Snapshot,
    collection: &'a BlindCollection,
    kept: &'a BTreeMap<BlobName, u64>,
    transport: &'a dyn Channel,
    sent: SentBlocks,
    /// Blocks that the server does not have in full.
    missing: HashSet<u32>,
}

impl Sending<'_> {
    /// The checks of the commit that the server is at; `None` when it has none of this epoch.
    fn earlier(&self, commit: CommitName) -> Result<Option<Checks>, ClientError> {
        let name = BlobName::checks(commit);
        if !self.kept.contains_key(&name) {
            return Ok(None);
        }
        let limits = Limits::default();
        let message = FetchShared::new(declassify(name, Leak::SealedBlobs)).encode();
        let answer = exchange(self.transport, message, &limits)?;
        let sealed = Blob::decode(&answer, &limits)?.sealed;
        Ok(Checks::open(self.collection.sealer(), commit, &sealed))
    }

    /// Every cell that has blocks, in ascending order.
    fn parts<'c>(&self, earlier: Option<&'c Checks>, retired: &[u64]) -> Vec<Part<'c>> {
        let mut before: HashMap<u32, Vec<u32>> = HashMap::new();
        for (number, block) in (0..).zip(earlier.iter().flat_map(|earlier| &earlier.blocks)) {
            before.entry(block.cell).or_default().push(number);
        }
        let is_good = |checks: &&CellChecks| {
            checks.sets.len() == SETS
                && checks.sets.iter().all(|set| !retired.contains(&set.number))
        };
        let part = |cell: u32| {
            let good = earlier.and_then(|earlier| earlier.of(cell)).filter(is_good);
            let now = self.collection.blocks_of(cell);
            let changed = match earlier.filter(|_| good.is_some()) {
                Some(earlier) => {
                    let then = before.get(&cell).into_iter().flatten();
                    let mut all: Vec<u32> = now.iter().chain(then).copied().collect();
                    all.sort_unstable();
                    all.dedup();
                    all.retain(|&number| self.differs(earlier, cell, number));
                    all
                }
                None => now.to_vec(),
            };
            Part { cell, earlier: good, changed }
        };
        self.collection.used_cells().into_iter().map(part).collect()
    }

    /// Whether a block of a number is in a cell in another way than before.
    fn differs(&self, earlier: &Checks, cell: u32, number: u32) -> bool {
        let now = self.in_cell(cell, number).map(|block| block.tag.expose());
        now != in_cell(earlier, cell, number).map(|block| block.tag.expose())
    }

    /// The block of a number, if it is in a cell.
    fn in_cell(&self, cell: u32, number: u32) -> Option<&BlockPlaces> {
        let block = self.collection.blocks().get(number as usize);
        block.filter(|block| block.cell.unwrap_or(0) == cell)
    }

    /// The checks of a cell, sent: those of before where nothing changed in a cell of several, otherwise those
    /// of before with what changed, or new ones.
    fn checks_of(
        &mut self,
        part: &mut Part<'_>,
        earlier: Option<&Checks>,
        before: Option<CommitName>,
        telling: &mut Telling<'_>,
    ) -> Result<CellChecks, ClientError> {
        let mut sums = None;
        if let (Some(checks), Some(earlier)) = (part.earlier, earlier) {
            if earlier.has_cells && part.changed.is_empty() && self.has_checks(checks) {
                return Ok(checks.clone());
            }
            sums = self.go_on(earlier, checks, &part.changed, telling)?;
        }
        let sums = match sums {
            Some(sums) => sums,
            // Checks are made once for a commit.
            None if before == Some(self.collection.commit()) => {
                return Err(ClientError::StaleChecks);
            }
            None => {
                if part.earlier.take().is_some() {
                    part.changed = self.collection.blocks_of(part.cell).to_vec();
                    telling.progress.total += part.changed.len() as u64;
                }
                self.begin_anew(part, telling)?
            }
        };
        self.send_checks(part.cell, &sums)
    }

    /// Whether the server has the checks of a cell.
    fn has_checks(&self, checks: &CellChecks) -> bool {
        let bytes = self.collection.shape().block_bytes() as u64;
        let names = checks.sets.iter().flat_map(check_names).map(BlobName::block);
        names.into_iter().all(|name| self.kept.get(&name) == Some(&bytes))
    }

    /// The sums of the earlier commit, with the blocks that changed since; those are sent. `None` when
    /// the server does not have what it should have of that commit.
    fn go_on(
        &mut self,
        earlier: &Checks,
        checks: &CellChecks,
        changed: &[u32],
        telling: &mut Telling<'_>,
    ) -> Result<Option<Sums>, ClientError> {
        let (collection, keys) = (self.collection, self.collection.keys());
        let Some(mut sums) = self.earlier_sums(checks)? else { return Ok(None) };
        let cell = checks.cell;
        for numbers in changed.chunks(TOGETHER) {
            let gone: Vec<(u32, &CheckedBlock)> = numbers
                .iter()
                .filter_map(|&number| Some((number, in_cell(earlier, cell, number)?)))
                .collect();
            let names: Vec<BlobName> = gone
                .iter()
                .map(|(_, block)| BlobName::block(super::block_file_name(&block.tag)))
                .collect();
            let Some(old) = self.fetch_blocks(&names)? else { return Ok(None) };
            let genuine = gone.par_iter().zip(&old).all(|((number, block), stored)| {
                let name = name_at(collection, *number, block.revision);
                keys.open_block(&name, &block.tag, stored).is_some()
            });
            if !genuine {
                return Ok(None);
            }
            let pairs: Vec<(u32, &Block)> = gone.iter().map(|gone| gone.0).zip(&old).collect();
            sums.remove(keys, &pairs);
            let come: Vec<u32> = numbers
                .iter()
                .copied()
                .filter(|&number| self.in_cell(cell, number).is_some())
                .collect();
            let made = self.encrypt(&come)?;
            let pairs: Vec<(u32, &Block)> = come.iter().copied().zip(&made).collect();
            sums.add(keys, &pairs);
            self.send(&come, &made)?;
            telling.tell(numbers.len())?;
        }
        Ok(Some(sums))
    }

    fn earlier_sums(&self, earlier: &CellChecks) -> Result<Option<Sums>, ClientError> {
        let collection = self.collection;
        let mut opened = Vec::new();
        for set in &earlier.sets {
            let names: Vec<BlobName> = check_names(set).map(BlobName::block).collect();
            let Some(blocks) = self.fetch_blocks(&names)? else { return Ok(None) };
            let stored: Vec<_> = set.tags.iter().zip(&blocks).collect();
            let (keys, context) = (collection.keys(), collection.context());
            match CheckSums::open(keys, context, earlier.revision, set.number, &stored) {
                Some(sums) => opened.push((set.number, sums)),
                None => return Ok(None),
            }
        }
        Ok(Some(Sums(opened)))
    }

    /// Encrypts every block of a cell, sends those that the server does not have, and takes sums of all under
    /// the turns of this commit.
    fn begin_anew(
        &mut self,
        part: &Part<'_>,
        telling: &mut Telling<'_>,
    ) -> Result<Sums, ClientError> {
        let keys = self.collection.keys();
        let mut sums = Sums::empty(keys, &fresh_sets(self.collection.commit(), part.cell));
        for numbers in part.changed.chunks(TOGETHER) {
            let made = self.encrypt(numbers)?;
            let pairs: Vec<(u32, &Block)> = numbers.iter().copied().zip(&made).collect();
            sums.add(keys, &pairs);
            self.send(numbers, &made)?;
            telling.tell(numbers.len())?;
        }
        Ok(sums)
    }

    /// Blocks of the collection as it is now, on all cores.
    fn encrypt(&self, numbers: &[u32]) -> Result<Vec<Block>, ClientError> {
        let collection = self.collection;
        let rows =
            numbers.iter().map(|&number| collection.integers(self.snapshot, number as usize));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let encrypt = |(&number, rows): (&u32, &zeroize::Zeroizing<Vec<i32>>)| {
            let (tag, block) =
                collection.keys().encrypt_block(&collection.block_name(number), rows);
            // A vault whose vectors are not those of its tags would publish what no client can open.
            let recorded = &collection.blocks()[number as usize].tag;
            (tag.expose() == recorded.expose()).then_some(block)
        };
        let made: Option<Vec<Block>> = numbers.par_iter().zip(&rows).map(encrypt).collect();
        let problem = "the vectors of a block are not those of its tag";
        made.ok_or_else(|| contradiction("vectors", problem))
    }

    /// Sends those of some blocks that the server does not have, with their hints.
    fn send(&mut self, numbers: &[u32], blocks: &[Block]) -> Result<(), ClientError> {
        let (collection, missing) = (self.collection, &self.missing);
        let blobs = |(&number, block): (&u32, &Block)| {
            if !missing.contains(&number) {
                return Ok(Vec::new());
            }
            let name = collection.blocks()[number as usize].file_name();
            let hint = collection.keys().hint(block);
            let sealed = collection.sealer().seal(Subject::Hint(name), &hint)?;
            let block = (BlobName::block(name), block.to_bytes());
            Ok(vec![block, (BlobName::hint(name), sealed)])
        };
        let made: Result<Vec<Vec<_>>, ClientError> =
            numbers.par_iter().zip(blocks).map(blobs).collect();
        self.put(made?.concat())?;
        self.sent.blocks += numbers.iter().filter(|number| self.missing.remove(number)).count();
        Ok(())
    }

    /// Sends what the server lacks of blocks that did not change.
    fn send_missing(&mut self) -> Result<(), ClientError> {
        let missing: Vec<u32> = self.missing.iter().copied().collect();
        for numbers in missing.chunks(TOGETHER) {
            let made = self.encrypt(numbers)?;
            self.send(numbers, &made)?;
        }
        Ok(())
    }

    fn put(&mut self, blobs: Vec<(BlobName, Vec<u8>)>) -> Result<(), ClientError> {
        let mut message = Vec::new();
        let mut bytes = 0;
        for (name, blob) in blobs {
            if bytes + blob.len() > MESSAGE_BYTES && !message.is_empty() {
                self.put_message(std::mem::take(&mut message))?;
                bytes = 0;
            }
            bytes += blob.len();
            message.push((name, blob));
        }
        if message.is_empty() { Ok(()) } else { self.put_message(message) }
    }

    fn put_message(&mut self, blobs: Vec<(BlobName, Vec<u8>)>) -> Result<(), ClientError> {
        let message = PutBlobs::new(declassify(blobs, Leak::SealedBlobs)).encode();
        self.sent.bytes += message.len() as u64;
        accepted(self.transport, message, &Limits::default())
    }

    /// Sends the checks of a cell.
    fn send_checks(&mut self, cell: u32, sums: &Sums) -> Result<CellChecks, ClientError> {
        let (sets, padded) = sums.seal(self.collection);
        let names = sets.iter().flat_map(check_names).map(BlobName::block);
        let blobs = names.zip(&padded).map(|(name, block)| (name, block.to_bytes()));
        let is_missing =
            |blob: &(BlobName, Vec<u8>)| self.kept.get(&blob.0) != Some(&(blob.1.len() as u64));
        self.put(blobs.filter(is_missing).collect())?;
        Ok(CellChecks { cell, revision: self.collection.revision().0, sets })
    }

    /// Sends what says which checks and blocks belong together.
    fn finish(&mut self, cells: Vec<CellChecks>) -> Result<(), ClientError> {
        let collection = self.collection;
        let commit = collection.commit();
        let blocks = collection.blocks();
        let of_checks = cells.iter().flat_map(|checks| {
            let names = checks.sets.iter().flat_map(check_names);
            names.map(move |name| (name, checks.cell))
        });
        let of_checks: Vec<([u8; 16], u32)> = of_checks.collect();
        let checked = |block: &BlockPlaces| CheckedBlock {
            revision: block.revision,
            tag: block.tag.clone(),
            cell: block.cell.unwrap_or(0),
        };
        let checks = Checks {
            revision: collection.revision().0,
            has_cells: collection.cells().is_some(),
            cells,
            blocks: blocks.iter().map(checked).collect(),
        };
        let checks = checks.seal(collection.sealer(), commit)?;
        let of_blocks = blocks.iter().map(|block| (block.file_name(), block.cell.unwrap_or(0)));
        let (names, in_cells): (Vec<[u8; 16]>, Vec<u32>) =
            of_blocks.chain(of_checks.iter().copied()).unzip();
        let mut list = BlockList::new(
            declassify(collection.epoch(), Leak::CollectionShape),
            declassify(*collection.shape(), Leak::CollectionShape),
            declassify(of_checks.len(), Leak::CollectionShape),
            declassify(names, Leak::BlockChanges),
        );
        if collection.cells().is_some() {
            let in_cells = declassify(in_cells, Leak::CellMembership);
            list = list.and_then(|list| list.with_cells(in_cells));
        }
        let list = list.map_err(|error| ClientError::Setting(error.to_string()))?;
        self.put(vec![(BlobName::checks(commit), checks)])?;
        let commit = declassify(commit, Leak::CollectionShape);
        let message = PutBlob::block_list(commit, &list).encode();
        accepted(self.transport, message, &Limits::default())
    }

    /// Blocks by name; `None` when the server does not have one of them as it should be.
    fn fetch_blocks(&self, names: &[BlobName]) -> Result<Option<Vec<Block>>, ClientError> {
        let tiles = self.collection.shape().tiles();
        let mut blocks = Vec::with_capacity(names.len());
        while blocks.len() < names.len() {
            for blob in fetch_blobs(self.transport, Asking::Owner, &names[blocks.len()..])? {
                match blob.and_then(|bytes| Block::from_bytes(tiles, &bytes)) {
                    Some(block) => blocks.push(block),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(blocks))
    }
}

/// The block of a number as it was, if it was in a cell.
fn in_cell(earlier: &Checks, cell: u32, number: u32) -> Option<&CheckedBlock> {
    earlier.blocks.get(number as usize).filter(|block| block.cell == cell)
}

/// The names under which the checks of a set are stored.
pub(crate) fn check_names(set: &CheckSet) -> impl Iterator<Item = [u8; 16]> {
    set.tags.iter().map(|tag| super::places::stored_name(tag.expose()))
}
