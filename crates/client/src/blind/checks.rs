//! The checks of a published commit, as clients get them: sealed beside the blocks.
//!
//! Every cell has sets of its own (`shard_rlwe::blind`, `check`, says why that is sound). The sets of a cell
//! in which nothing changed stay as they are, under the revision that made them.

use rayon::prelude::*;
use shard_protocol::CommitName;
use shard_rlwe::EntropyError;
use shard_rlwe::blind::{Block, BlockName, CheckSums, CheckTag, Keys, Tag};
use zeroize::Zeroizing;

use super::BlindCollection;
use super::seal::{Sealer, Subject};
use crate::payload::{PayloadError, Reader, Writer};

const VERSION: u16 = 1;

/// The version where blocks are grouped by cell.
const OF_CELLS: u16 = 2;

/// Sets of checks that are published: one that is used, and a spare for after an alarm.
pub(crate) const SETS: usize = 2;

/// Blocks that are encrypted together before their sums are taken.
pub(crate) const TOGETHER: usize = 64;

/// The numbers of the sets that a cell of a commit begins with, where it does not go on from those before.
/// They follow from the commit's random name: whoever publishes it, and however often, makes the same checks.
pub(crate) fn fresh_sets(commit: CommitName, cell: u32) -> [u64; SETS] {
    let (first, _) = commit.0.split_first_chunk().expect("a name has sixteen bytes");
    let first = u64::from_le_bytes(*first).wrapping_add(u64::from(cell) * SETS as u64);
    std::array::from_fn(|set| first.wrapping_add(set as u64))
}

/// One set of checks. It is never used again once it was retired.
#[derive(Clone)]
pub(crate) struct CheckSet {
    pub(crate) number: u64,
    pub(crate) tags: Vec<CheckTag>,
}

/// The checks of the blocks of a cell.
#[derive(Clone)]
pub(crate) struct CellChecks {
    pub(crate) cell: u32,
    /// The revision that made them.
    pub(crate) revision: u64,
    pub(crate) sets: Vec<CheckSet>,
}

/// A block that checks were made of.
pub(crate) struct CheckedBlock {
    /// The revision that wrote it.
    pub(crate) revision: u64,
    pub(crate) tag: Tag,
    /// Its cell; 0 where blocks are not grouped.
    pub(crate) cell: u32,
}

/// What clients need to check answers of a commit, and an owner to go on from it.
pub(crate) struct Checks {
    /// The revision of the commit.
    pub(crate) revision: u64,
    /// Whether blocks are grouped by cell; otherwise all are in cell 0.
    pub(crate) has_cells: bool,
    /// Those of every cell that has blocks, in ascending order.
    pub(crate) cells: Vec<CellChecks>,
    /// Every block.
    pub(crate) blocks: Vec<CheckedBlock>,
}

impl Checks {
    pub(crate) fn seal(
        &self,
        sealer: &Sealer,
        commit: CommitName,
    ) -> Result<Vec<u8>, EntropyError> {
        sealer.seal(Subject::Checks(commit), &self.encode())
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut writer = Writer::new(if self.has_cells { OF_CELLS } else { VERSION });
        let sets = self.sets().map(|set| set.tags.len() + 1).sum::<usize>();
        let fields = sets + self.cells.len() + self.blocks.len();
        writer.bytes.reserve(64 + 48 * fields); // secrets are not to be left behind by a longer buffer
        writer.u64(self.revision);
        if self.has_cells {
            writer.u64(self.cells.len() as u64);
        }
        for cell in &self.cells {
            if self.has_cells {
                writer.u64(cell.cell.into());
                writer.u64(cell.revision);
            }
            writer.u64(cell.sets.len() as u64);
            for set in &cell.sets {
                writer.u64(set.number);
                writer.u64(set.tags.len() as u64);
                set.tags.iter().for_each(|tag| writer.bytes.extend_from_slice(tag.expose()));
            }
        }
        writer.u64(self.blocks.len() as u64);
        for block in &self.blocks {
            writer.u64(block.revision);
            writer.bytes.extend_from_slice(block.tag.expose());
            if self.has_cells {
                writer.u64(block.cell.into());
            }
        }
        Zeroizing::new(writer.bytes)
    }

    /// The sets of all cells.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &CheckSet> {
        self.cells.iter().flat_map(|cell| &cell.sets)
    }

    /// Those of a cell.
    pub(crate) fn of(&self, cell: u32) -> Option<&CellChecks> {
        let at = self.cells.binary_search_by_key(&cell, |checks| checks.cell).ok()?;
        Some(&self.cells[at])
    }

    /// `None` when it was not sealed for this commit.
    pub(crate) fn open(sealer: &Sealer, commit: CommitName, sealed: &[u8]) -> Option<Self> {
        let plain = sealer.open(Subject::Checks(commit), sealed)?;
        Self::decode(&plain).ok()
    }

    fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        let (mut reader, version) = Reader::of_either(bytes, [OF_CELLS, VERSION])?;
        let has_cells = version == OF_CELLS;
        let revision = reader.u64()?;
        let count = if has_cells { reader.size()? } else { 1 };
        let mut cells: Vec<CellChecks> = Vec::new();
        for _ in 0..count.min(bytes.len()) {
            let (cell, made) =
                if has_cells { (cell_number(&mut reader)?, reader.u64()?) } else { (0, revision) };
            let mut sets = Vec::new();
            for _ in 0..reader.size()?.min(bytes.len()) {
                let number = reader.u64()?;
                let tags = (0..reader.size()?).map(|_| Ok(CheckTag::from_bytes(reader.array()?)));
                sets.push(CheckSet { number, tags: tags.collect::<Result<_, PayloadError>>()? });
            }
            if cells.last().is_some_and(|last| last.cell >= cell) {
                return Err(PayloadError::Invalid("its cells are not in order".into()));
            }
            cells.push(CellChecks { cell, revision: made, sets });
        }
        let block = |reader: &mut Reader<'_>| {
            let (revision, tag) = (reader.u64()?, Tag::from_bytes(reader.array()?));
            let cell = if has_cells { cell_number(reader)? } else { 0 };
            Ok(CheckedBlock { revision, tag, cell })
        };
        let blocks =
            (0..reader.size()?).map(|_| block(&mut reader)).collect::<Result<_, PayloadError>>()?;
        reader.finish()?;
        Ok(Self { revision, has_cells, cells, blocks })
    }
}

fn cell_number(reader: &mut Reader<'_>) -> Result<u32, PayloadError> {
    let cell = reader.u64()?;
    u32::try_from(cell).map_err(|_| PayloadError::Invalid(format!("a cell of number {cell}")))
}

/// The sums of a cell's sets, by the number of each.
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
    use proptest::prelude::*;

    use super::*;

    fn checks(has_cells: bool) -> Checks {
        let tag = |byte| CheckTag::from_bytes([byte; 32]);
        let set = |number, byte| CheckSet { number, tags: vec![tag(byte), tag(byte + 1)] };
        let cell = |cell| CellChecks {
            cell,
            revision: if has_cells { 7 } else { 9 },
            sets: vec![set(5, 1), set(6, 3)],
        };
        let block = |revision, byte, cell| CheckedBlock {
            revision,
            tag: Tag::from_bytes([byte; 32]),
            cell: if has_cells { cell } else { 0 },
        };
        let cells = if has_cells { vec![cell(2), cell(300)] } else { vec![cell(0)] };
        Checks { revision: 9, has_cells, cells, blocks: vec![block(1, 7, 300), block(9, 8, 2)] }
    }

    #[test]
    fn checks_come_back_from_their_seal_and_from_no_other_commit() {
        let sealer = Sealer::new(&[3; 32]);
        let commit = CommitName([4; 16]);
        for has_cells in [false, true] {
            let sealed = checks(has_cells).seal(&sealer, commit).unwrap();
            let again = Checks::open(&sealer, commit, &sealed).unwrap();
            let last = if has_cells { 300 } else { 0 };
            let cell = again.of(last).unwrap();
            assert_eq!((again.revision, cell.sets[1].number), (9, 6));
            assert_eq!(cell.revision, if has_cells { 7 } else { 9 });
            assert_eq!(cell.sets[1].tags[1].expose(), &[4; 32]);
            assert_eq!((again.blocks[1].revision, again.blocks[1].tag.expose()), (9, &[8; 32]));
            assert_eq!(again.blocks[0].cell, last);
            assert_eq!(again.of(2).is_some(), has_cells);
            assert!(Checks::open(&sealer, CommitName([5; 16]), &sealed).is_none());
            assert!(Checks::open(&sealer, commit, &sealed[..60]).is_none());
        }
    }

    fn refusal(bytes: &[u8]) -> PayloadError {
        Checks::decode(bytes).err().expect("damaged checks are refused")
    }

    #[test]
    fn checks_that_are_cut_short_or_go_on_are_refused() {
        for has_cells in [false, true] {
            let bytes = checks(has_cells).encode();
            for length in 0..bytes.len() {
                assert_eq!(refusal(&bytes[..length]), PayloadError::Truncated, "{length}");
            }
            let more = [bytes.as_slice(), &[0; 3]].concat();
            assert_eq!(refusal(&more), PayloadError::Trailing(3));
        }
    }

    #[test]
    fn checks_whose_cells_are_not_in_order_are_refused() {
        for numbers in [[300, 2], [2, 2]] {
            let mut checks = checks(true);
            checks.cells.iter_mut().zip(numbers).for_each(|(cell, number)| cell.cell = number);
            let refusal = refusal(&checks.encode());
            assert!(matches!(&refusal, PayloadError::Invalid(it) if it.contains("not in order")));
        }
    }

    #[test]
    fn counts_and_cells_that_are_too_large_are_refused() {
        // A version, a revision and the number of cells; of the first cell its number, its revision, the number
        // of sets, the first of them and its number of tags.
        let at = |field: usize| 2 + 8 * field;
        let written = |bytes: &[u8], field: usize, value: u64| {
            let mut bytes = bytes.to_vec();
            bytes[at(field)..at(field + 1)].copy_from_slice(&value.to_le_bytes());
            bytes
        };
        let bytes = checks(true).encode();
        let last_block = bytes.len() - (8 + 32 + 8);
        let blocks = last_block - (8 + 32 + 8) - 8;
        assert_eq!(bytes[blocks..blocks + 8], 2_u64.to_le_bytes(), "the number of blocks");
        for large in [1 << 32, 1 << 48, u64::MAX] {
            for count in [1, 4, 6] {
                refusal(&written(&bytes, count, large));
            }
            let number = refusal(&written(&bytes, 2, large));
            assert!(matches!(number, PayloadError::Invalid(it) if it.contains("a cell of number")));
            let mut many = bytes.to_vec();
            many[blocks..blocks + 8].copy_from_slice(&large.to_le_bytes());
            assert_eq!(refusal(&many), PayloadError::Truncated);
            let mut last = bytes.to_vec();
            let cell = last.len() - 8..;
            last[cell].copy_from_slice(&large.to_le_bytes());
            assert!(matches!(refusal(&last), PayloadError::Invalid(_)));
        }
    }

    proptest! {
        #[test]
        fn damaged_checks_are_refused_or_are_those_of_their_bytes(
            has_cells: bool,
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            length in any::<prop::sample::Index>(),
            is_cut: bool,
        ) {
            let mut bytes = checks(has_cells).encode().to_vec();
            for (at, byte) in edits {
                // Most bytes are tags, where anything goes; half of the edits are in the fields before them.
                let within = if byte % 2 == 0 { bytes.len() } else { 58 };
                let at = at.index(within);
                bytes[at] = byte;
            }
            if is_cut {
                bytes.truncate(length.index(bytes.len()));
            }
            if let Ok(decoded) = Checks::decode(&bytes) {
                let again = decoded.encode();
                prop_assert_eq!(again.as_slice(), bytes.as_slice());
            }
        }
    }

    #[test]
    fn no_two_cells_have_a_set_in_common() {
        let commit = CommitName([0xff; 16]);
        let sets: Vec<u64> = (0..50).flat_map(|cell| fresh_sets(commit, cell)).collect();
        let unique: std::collections::BTreeSet<u64> = sets.iter().copied().collect();
        assert_eq!(unique.len(), sets.len());
    }
}
