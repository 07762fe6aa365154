//! What a publish of a blind collection sends: the blocks that are new, their hints, and checks over all
//! of them.
//!
//! A block is stored under a name that follows from its tag, so one that is there already is not made
//! again. The sums of the checks are taken from what the server has of the commit before, if that is
//! this epoch's and every part of it proves to be what was stored: then only the blocks that changed are
//! encrypted. Otherwise all of them are, from the vectors of the vault.

use std::collections::{BTreeMap, HashSet};

use rayon::prelude::*;
use shard_protocol::{
    Blob, BlobName, BlockList, CommitName, FetchShared, Leak, Limits, PutBlob, PutBlobs, declassify,
};
use shard_rlwe::blind::{Block, CheckSums};

use super::checks::{CheckSet, Checks, SETS, Sums, TOGETHER, fresh_sets, name_at};
use super::seal::{SEAL_BYTES, Subject};
use super::{BlindCollection, contradiction};
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
    let earlier = earlier.filter(|earlier| {
        earlier.sets.len() == SETS && earlier.sets.iter().all(|set| !retired.contains(&set.number))
    });
    let sums = match earlier {
        Some(earlier) => sending.go_on(&earlier, watch)?,
        None => None,
    };
    let sums = match sums {
        Some(sums) => sums,
        // Checks are made once for a commit.
        None if before == Some(collection.commit()) => return Err(ClientError::StaleChecks),
        None => sending.begin_anew(watch)?,
    };
    sending.send_missing()?;
    sending.finish(&sums)?;
    Ok(sending.sent)
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

    /// The sums of the earlier commit, with the blocks that changed since; those are sent. `None` when
    /// the server does not have what it should have of that commit.
    fn go_on(&mut self, earlier: &Checks, watch: &Watch<'_>) -> Result<Option<Sums>, ClientError> {
        let (collection, keys) = (self.collection, self.collection.keys());
        let Some(mut sums) = self.earlier_sums(earlier)? else { return Ok(None) };
        let blocks = collection.blocks();
        let changed = |number: &u32| {
            let (now, then) = (blocks.get(*number as usize), earlier.blocks.get(*number as usize));
            now.map(|block| block.tag.expose()) != then.map(|(_, tag)| tag.expose())
        };
        let all = blocks.len().max(earlier.blocks.len()) as u32;
        let changed: Vec<u32> = (0..all).filter(changed).collect();
        let mut progress = Progress { done: 0, total: changed.len() as u64 };
        for numbers in changed.chunks(TOGETHER) {
            let gone: Vec<u32> =
                numbers.iter().copied().filter(|&n| (n as usize) < earlier.blocks.len()).collect();
            let names: Vec<BlobName> = gone
                .iter()
                .map(|&n| BlobName::block(super::block_file_name(&earlier.blocks[n as usize].1)))
                .collect();
            let Some(old) = self.fetch_blocks(&names)? else { return Ok(None) };
            let genuine = gone.par_iter().zip(&old).all(|(&number, block)| {
                let (revision, tag) = &earlier.blocks[number as usize];
                keys.open_block(&name_at(collection, number, *revision), tag, block).is_some()
            });
            if !genuine {
                return Ok(None);
            }
            let pairs: Vec<(u32, &Block)> = gone.iter().copied().zip(&old).collect();
            sums.remove(keys, &pairs);
            let come: Vec<u32> =
                numbers.iter().copied().filter(|&n| (n as usize) < blocks.len()).collect();
            let made = self.encrypt(&come)?;
            let pairs: Vec<(u32, &Block)> = come.iter().copied().zip(&made).collect();
            sums.add(keys, &pairs);
            self.send(&come, &made)?;
            progress.done += numbers.len() as u64;
            if watch(progress).is_break() {
                return Err(ClientError::Cancelled);
            }
        }
        Ok(Some(sums))
    }

    fn earlier_sums(&self, earlier: &Checks) -> Result<Option<Sums>, ClientError> {
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

    /// Encrypts every block, sends those that the server does not have, and takes sums of all under the
    /// turns of this commit.
    fn begin_anew(&mut self, watch: &Watch<'_>) -> Result<Sums, ClientError> {
        let keys = self.collection.keys();
        let mut sums = Sums::empty(keys, &fresh_sets(self.collection.commit()));
        let all: Vec<u32> = (0..self.collection.blocks().len() as u32).collect();
        let mut progress = Progress { done: 0, total: all.len() as u64 };
        for numbers in all.chunks(TOGETHER) {
            let made = self.encrypt(numbers)?;
            let pairs: Vec<(u32, &Block)> = numbers.iter().copied().zip(&made).collect();
            sums.add(keys, &pairs);
            self.send(numbers, &made)?;
            progress.done += numbers.len() as u64;
            if watch(progress).is_break() {
                return Err(ClientError::Cancelled);
            }
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

    /// Sends the checks and what says which blocks belong together.
    fn finish(&mut self, sums: &Sums) -> Result<(), ClientError> {
        let collection = self.collection;
        let commit = collection.commit();
        let (sets, padded) = sums.seal(collection);
        let names: Vec<[u8; 16]> = sets.iter().flat_map(check_names).collect();
        let blobs = names.iter().zip(&padded);
        let blobs = blobs.map(|(&name, block)| (BlobName::block(name), block.to_bytes()));
        let is_missing =
            |blob: &(BlobName, Vec<u8>)| self.kept.get(&blob.0) != Some(&(blob.1.len() as u64));
        self.put(blobs.filter(is_missing).collect())?;
        let blocks = collection.blocks();
        let checks = Checks {
            revision: collection.revision().0,
            sets,
            blocks: blocks.iter().map(|block| (block.revision, block.tag.clone())).collect(),
        };
        let checks = checks.seal(collection.sealer(), commit)?;
        let all = blocks.iter().map(|block| block.file_name()).chain(names.iter().copied());
        let list = BlockList::new(
            declassify(collection.epoch(), Leak::CollectionShape),
            declassify(*collection.shape(), Leak::CollectionShape),
            declassify(names.len(), Leak::CollectionShape),
            declassify(all.collect(), Leak::BlockChanges),
        );
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

/// The names under which the checks of a set are stored.
pub(crate) fn check_names(set: &CheckSet) -> impl Iterator<Item = [u8; 16]> {
    set.tags.iter().map(|tag| super::places::stored_name(tag.expose()))
}
