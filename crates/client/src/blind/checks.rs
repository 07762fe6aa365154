//! The checks of a published commit, as clients get them: sealed beside the blocks.

use rayon::prelude::*;
use shard_protocol::CommitName;
use shard_rlwe::EntropyError;
use shard_rlwe::blind::{Block, BlockName, CheckSums, CheckTag, Keys, Tag};
use zeroize::Zeroizing;

use super::BlindCollection;
use super::seal::{Sealer, Subject};
use crate::payload::{PayloadError, Reader, Writer};

const VERSION: u16 = 1;

/// Sets of checks that are published: one that is used, and a spare for after an alarm.
pub(crate) const SETS: usize = 2;

/// Blocks that are encrypted together before their sums are taken.
pub(crate) const TOGETHER: usize = 64;

/// The numbers of the sets that a commit begins with, where it does not go on from those before. They
/// follow from its random name: whoever publishes the commit, and however often, makes the same checks.
pub(crate) fn fresh_sets(commit: CommitName) -> [u64; SETS] {
    let (first, _) = commit.0.split_first_chunk().expect("a name has sixteen bytes");
    let first = u64::from_le_bytes(*first);
    std::array::from_fn(|set| first.wrapping_add(set as u64))
}

/// One set of checks. It is never used again once it was retired.
pub(crate) struct CheckSet {
    pub(crate) number: u64,
    pub(crate) tags: Vec<CheckTag>,
}

/// What clients need to check answers of a commit, and an owner to go on from it.
pub(crate) struct Checks {
    /// The revision of the commit.
    pub(crate) revision: u64,
    pub(crate) sets: Vec<CheckSet>,
    /// The revision and the tag of every block.
    pub(crate) blocks: Vec<(u64, Tag)>,
}

impl Checks {
    pub(crate) fn seal(
        &self,
        sealer: &Sealer,
        commit: CommitName,
    ) -> Result<Vec<u8>, EntropyError> {
        let mut writer = Writer::new(VERSION);
        let tags =
            self.sets.iter().map(|set| set.tags.len() + 1).sum::<usize>() + self.blocks.len();
        writer.bytes.reserve(64 + 48 * tags); // secrets are not to be left behind by a longer buffer
        writer.u64(self.revision);
        writer.u64(self.sets.len() as u64);
        for set in &self.sets {
            writer.u64(set.number);
            writer.u64(set.tags.len() as u64);
            set.tags.iter().for_each(|tag| writer.bytes.extend_from_slice(tag.expose()));
        }
        writer.u64(self.blocks.len() as u64);
        for (revision, tag) in &self.blocks {
            writer.u64(*revision);
            writer.bytes.extend_from_slice(tag.expose());
        }
        sealer.seal(Subject::Checks(commit), &Zeroizing::new(writer.bytes))
    }

    /// `None` when it was not sealed for this commit.
    pub(crate) fn open(sealer: &Sealer, commit: CommitName, sealed: &[u8]) -> Option<Self> {
        let plain = sealer.open(Subject::Checks(commit), sealed)?;
        Self::decode(&plain).ok()
    }

    fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let revision = reader.u64()?;
        let mut sets = Vec::new();
        for _ in 0..reader.size()?.min(bytes.len()) {
            let number = reader.u64()?;
            let tags = (0..reader.size()?).map(|_| Ok(CheckTag::from_bytes(reader.array()?)));
            sets.push(CheckSet { number, tags: tags.collect::<Result<_, PayloadError>>()? });
        }
        let blocks = (0..reader.size()?)
            .map(|_| Ok((reader.u64()?, Tag::from_bytes(reader.array()?))))
            .collect::<Result<_, PayloadError>>()?;
        reader.finish()?;
        Ok(Self { revision, sets, blocks })
    }
}

/// The sums of some sets, by the number of each.
pub(crate) struct Sums(pub(crate) Vec<(u64, CheckSums)>);

impl Sums {
    /// Of no block.
    pub(crate) fn empty(keys: &Keys, sets: &[u64]) -> Self {
        Self(sets.iter().map(|&set| (set, CheckSums::empty(keys, set))).collect())
    }

    /// Adds blocks, on all cores.
    pub(crate) fn add(&mut self, keys: &Keys, blocks: &[(u32, &Block)]) {
        self.each(blocks, |sums, number, block| sums.add(keys, number, block));
    }

    /// Takes blocks out, on all cores.
    pub(crate) fn remove(&mut self, keys: &Keys, blocks: &[(u32, &Block)]) {
        self.each(blocks, |sums, number, block| sums.remove(keys, number, block));
    }

    fn each(
        &mut self,
        blocks: &[(u32, &Block)],
        change: impl Fn(&mut CheckSums, u32, &Block) + Sync,
    ) {
        self.0.par_iter_mut().for_each(|(_, sums)| {
            blocks.iter().for_each(|(number, block)| change(sums, *number, block));
        });
    }

    /// The padded blocks to store, set by set, and the tags that clients get.
    pub(crate) fn seal(&self, collection: &BlindCollection) -> (Vec<CheckSet>, Vec<Block>) {
        let (mut sets, mut blocks) = (Vec::new(), Vec::new());
        for (number, sums) in &self.0 {
            let sealed =
                sums.seal(collection.keys(), collection.context(), collection.revision().0);
            let (tags, padded): (Vec<_>, Vec<_>) = sealed.into_iter().unzip();
            sets.push(CheckSet { number: *number, tags });
            blocks.extend(padded);
        }
        (sets, blocks)
    }
}

/// The name of a block of an earlier revision, on the grid of now: one of another grid does not open.
pub(crate) fn name_at(collection: &BlindCollection, number: u32, revision: u64) -> BlockName<'_> {
    BlockName { context: collection.context(), block: number, revision, grid: collection.grid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_come_back_from_their_seal_and_from_no_other_commit() {
        let sealer = Sealer::new(&[3; 32]);
        let tag = |byte| CheckTag::from_bytes([byte; 32]);
        let checks = Checks {
            revision: 9,
            sets: vec![
                CheckSet { number: 5, tags: vec![tag(1), tag(2)] },
                CheckSet { number: 6, tags: vec![tag(3), tag(4)] },
            ],
            blocks: vec![(1, Tag::from_bytes([7; 32])), (9, Tag::from_bytes([8; 32]))],
        };
        let commit = CommitName([4; 16]);
        let sealed = checks.seal(&sealer, commit).unwrap();
        let again = Checks::open(&sealer, commit, &sealed).unwrap();
        assert_eq!((again.revision, again.sets[1].number), (9, 6));
        assert_eq!(again.sets[1].tags[1].expose(), &[4; 32]);
        assert_eq!((again.blocks[1].0, again.blocks[1].1.expose()), (9, &[8; 32]));
        assert!(Checks::open(&sealer, CommitName([5; 16]), &sealed).is_none());
        assert!(Checks::open(&sealer, commit, &sealed[..60]).is_none());
    }
}
