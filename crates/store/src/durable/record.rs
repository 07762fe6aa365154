//! Records of the row file, byte for byte as `docs/FORMAT.md` has them; without the checksum that
//! ends each.

use std::sync::Arc;

use shard_protocol::{CellHandle, CommitName, Epoch, Revision, RowMac};

use super::key::CollectionId;
use crate::rules::Lineage;

/// What the file knows about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct State {
    /// Grows with every change: tells after a failed commit whether it took place.
    pub sequence: u64,
    /// Number of the next collection.
    pub next_collection: u64,
    /// Rows deleted or replaced since the last compaction.
    pub erasable_rows: u64,
    /// Their bytes and those of blobs.
    pub erasable_bytes: u64,
    /// Whether a whole epoch or collection went since the last compaction.
    pub erased: bool,
}

impl State {
    pub(super) fn encode(&self) -> Vec<u8> {
        let words = [self.sequence, self.next_collection, self.erasable_rows, self.erasable_bytes];
        let mut body: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        body.push(self.erased.into());
        body
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let (words, rest) = little_words::<4>(body)?;
        let [sequence, next_collection, erasable_rows, erasable_bytes] = words;
        let erased = flag(rest)?;
        Some(Self { sequence, next_collection, erasable_rows, erasable_bytes, erased })
    }
}

/// A collection, as the file has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CollectionRecord {
    pub id: CollectionId,
    pub lineage: Lineage,
    pub current: Option<Epoch>,
    /// Number of blobs.
    pub blobs: u64,
}

impl CollectionRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        let current = self.current.map_or(0, |epoch| epoch.0);
        let Lineage { revision, commit, unfinished, turn } = self.lineage;
        let words = [self.id.0, revision.0, self.blobs, current, turn];
        let mut body: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        body.push(self.current.is_some().into());
        for commit in [commit, unfinished] {
            body.push(commit.is_some().into());
            body.extend(commit.unwrap_or_default().0);
        }
        body
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let ([id, revision, blobs, current, turn], rest) = little_words::<5>(body)?;
        let (searched, rest) = rest.split_at_checked(1)?;
        let current = flag(searched)?.then_some(Epoch(current));
        let (commit, unfinished) = rest.split_at_checked(COMMIT_BYTES)?;
        let (commit, unfinished) = (decode_commit(commit)?, decode_commit(unfinished)?);
        let lineage = Lineage { revision: Revision(revision), commit, unfinished, turn };
        Some(Self { id: CollectionId(id), lineage, current, blobs })
    }
}

/// Bytes of a commit that may be none: a flag and the name.
const COMMIT_BYTES: usize = 17;

fn decode_commit(bytes: &[u8]) -> Option<Option<CommitName>> {
    let (there, name) = bytes.split_at_checked(1)?;
    let name = CommitName(name.try_into().ok()?);
    Some(flag(there)?.then_some(name))
}

/// An epoch, as the file has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EpochRecord {
    pub width: usize,
    pub rows: u64,
    /// Blocks of an epoch that has no rows. Where there are none, the record is as it was before
    /// there were blocks.
    pub blocks: u64,
}

impl EpochRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        let blocks = (self.blocks > 0).then_some(self.blocks);
        let words = [self.width as u64, self.rows].into_iter().chain(blocks);
        words.flat_map(u64::to_le_bytes).collect()
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let ([width, rows], rest) = little_words::<2>(body)?;
        let width = usize::try_from(width).ok()?;
        let blocks = match rest {
            [] => 0,
            blocks => decode_word(blocks).filter(|&blocks| blocks > 0)?,
        };
        Some(Self { width, rows, blocks })
    }
}

/// Where a row is and the MAC of its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NameRecord {
    pub cell: CellHandle,
    pub mac: RowMac,
}

impl NameRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        [&self.cell.0.to_le_bytes()[..], &self.mac.0].concat()
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let ([cell], mac) = little_words::<1>(body)?;
        Some(Self { cell: CellHandle(cell), mac: RowMac(mac.try_into().ok()?) })
    }
}

/// One word: the revision of a tombstone, the length of a blob.
pub(super) fn decode_word(body: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(body.try_into().ok()?))
}

/// Bytes of a row's record besides its coordinates: the norm and the checksum.
const ROW_OVERHEAD: usize = 8;

/// Bytes of the record of a row.
pub(super) fn row_bytes(width: usize) -> u64 {
    (ROW_OVERHEAD + 4 * width) as u64
}

/// `|z|`, recorded beside the row.
pub(super) fn norm(coordinates: impl Iterator<Item = i32>) -> f32 {
    coordinates.map(|z| f64::from(z) * f64::from(z)).sum::<f64>().sqrt() as f32
}

pub(super) fn encode_row(coordinates: &[i32]) -> Vec<u8> {
    let mut body = Vec::with_capacity(ROW_OVERHEAD + 4 * coordinates.len());
    body.extend(norm(coordinates.iter().copied()).to_le_bytes());
    coordinates.iter().for_each(|z| body.extend(z.to_le_bytes()));
    body
}

/// The recorded norm and the coordinates of a row.
pub(super) fn split_row(body: &[u8]) -> Option<(f32, impl ExactSizeIterator<Item = i32> + '_)> {
    let (norm, coordinates) = body.split_first_chunk()?;
    let (coordinates, rest) = coordinates.as_chunks();
    rest.is_empty()
        .then(|| (f32::from_le_bytes(*norm), coordinates.iter().map(|z| i32::from_le_bytes(*z))))
}

pub(super) fn decode_row(body: &[u8], width: usize) -> Option<Arc<[i32]>> {
    let (_, coordinates) = split_row(body)?;
    (coordinates.len() == width).then(|| coordinates.collect())
}

fn little_words<const WORDS: usize>(body: &[u8]) -> Option<([u64; WORDS], &[u8])> {
    let (head, rest) = body.split_at_checked(8 * WORDS)?;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(head.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    Some((words, rest))
}

fn flag(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use shard_protocol::RowHandle;

    use super::super::key::{STATE_KEY, Table};
    use super::*;

    #[test]
    fn records_come_back() {
        let state = State { sequence: 9, erased: true, erasable_bytes: 7, ..State::default() };
        assert_eq!(State::decode(&state.encode()), Some(state));
        let id = CollectionId(3);
        for current in [None, Some(Epoch(0)), Some(Epoch(u64::MAX))] {
            for commit in [None, Some(CommitName([7; 16]))] {
                let unfinished = Some(CommitName([0; 16]));
                let lineage = Lineage { revision: Revision(5), commit, unfinished, turn: 6 };
                let record = CollectionRecord { id, lineage, current, blobs: 2 };
                assert_eq!(CollectionRecord::decode(&record.encode()), Some(record.clone()));
                let short = &record.encode()[..74];
                assert_eq!(CollectionRecord::decode(short), None);
            }
        }
        for record in [(2, 1, 0), (384, 0, 1575), (2, 0, u64::MAX)] {
            let (width, rows, blocks) = record;
            let record = EpochRecord { width, rows, blocks };
            assert_eq!(EpochRecord::decode(&record.encode()), Some(record));
            assert_eq!(EpochRecord::decode(&[&record.encode()[..], &[0]].concat()), None);
        }
        let none = [&EpochRecord { width: 2, rows: 1, blocks: 0 }.encode()[..], &[0; 8]].concat();
        assert_eq!(EpochRecord::decode(&none), None, "one record has one encoding");
        let name = NameRecord { cell: CellHandle(8), mac: RowMac([4; 16]) };
        assert_eq!(NameRecord::decode(&name.encode()), Some(name));
        let row = encode_row(&[3, -4]);
        assert_eq!(split_row(&row).unwrap().0, 5.0);
        assert_eq!(decode_row(&row, 2).as_deref(), Some(&[3, -4][..]));
        assert_eq!(decode_row(&row, 3), None);
    }

    /// The bytes of `docs/FORMAT.md`, with checksums from another program.
    #[test]
    fn records_are_those_of_the_format() {
        let (id, epoch) = (CollectionId(1), Epoch(2));
        let ends = |table: Table, key: &[u8], body: Vec<u8>, sum: u32| {
            assert_eq!(table.seal(key, body).last_chunk(), Some(&sum.to_le_bytes()), "{table:?}");
        };
        let row = encode_row(&[3, -4]);
        assert_eq!(row, [0, 0, 0xa0, 0x40, 3, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff]);
        ends(Table::Rows, &id.row(epoch, CellHandle(3), RowHandle(4)), row, 0x1345_cfdf);
        let name = NameRecord { cell: CellHandle(3), mac: RowMac([9; 16]) };
        ends(Table::Names, &id.named(epoch, RowHandle(4)), name.encode(), 0x2aea_1d4c);
        let commit = Some(CommitName([9; 16]));
        let lineage = Lineage { revision: Revision(7), commit, unfinished: None, turn: 4 };
        let collection = CollectionRecord { id, lineage, current: Some(epoch), blobs: 0 };
        ends(Table::Collections, b"main", collection.encode(), 0xa5fc_1a27);
        let record = EpochRecord { width: 2, rows: 1, blocks: 0 };
        ends(Table::Epochs, &id.epoch(epoch), record.encode(), 0x656d_17ed);
        let state = State { sequence: 5, next_collection: 2, ..State::default() };
        ends(Table::State, STATE_KEY, state.encode(), 0xa4e3_e5c2);
    }
}
