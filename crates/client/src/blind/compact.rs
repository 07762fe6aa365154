//! Rows moved together, so that there are no more blocks than they need.

use rand_core::CryptoRng;
use shard_rlwe::blind::Shape;

use super::block::{BLOCKS_AT_ONCE, BlockRows, write_places, write_vectors};
use super::metadata::move_fields;
use super::records::move_records;
use super::{BlindCollection, BlindHead};
use crate::collection::Journal;
use crate::error::ClientError;
use crate::progress::{Progress, Watch};
use crate::vault::{Slot, Vault};

/// What a compaction did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compacted {
    /// Blocks that went.
    pub removed: usize,
    /// Blocks left.
    pub blocks: usize,
}

/// Moves the rows of a blind collection together, those of every cell in the order of their places, so that
/// it has as few blocks as its rows need. Every block is then written anew, with a grid for the rows that are
/// there; so the next publish replaces all of them, and says nothing of where rows had gone, except, where
/// there are cells, how many blocks each of them lost. Where no block would go, nothing changes.
///
/// # Errors
/// When the vault is empty, rotated, a query vault or being written to, or the disk refuses. Nothing
/// has changed then.
pub fn compact(
    vault: &mut Vault,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<Compacted, ClientError> {
    vault.require_owner("be compacted")?;
    let mut transaction = vault.transaction(rng)?;
    let collection = BlindCollection::read(transaction.vault(), transaction.before())?;
    let BlindHead { shape, blocks: held, rows, .. } = *collection.head();
    let parts = plan(&collection);
    let needed = parts.iter().map(|part| part.targets.len() as u32).sum::<u32>();
    let removed = (held - needed) as usize;
    if removed == 0 {
        return Ok(Compacted { removed, blocks: held as usize });
    }
    let longest = collection.measure_longest(transaction.before())?;
    let fresh = BlindHead::for_length(shape, longest);
    let head = BlindHead { blocks: needed, rows, ..fresh };

    let mut progress = Progress { done: 0, total: held.into() };
    for part in &parts {
        let mut filling = Filling::new(part, shape);
        for some in part.sources.chunks(BLOCKS_AT_ONCE) {
            // A block is full only after as many were read, so each is read before it is written.
            for block in BlockRows::read(transaction.before(), &collection, some)? {
                block.rows().for_each(|(id, vector)| filling.put(id, vector));
            }
            if some.last() == part.sources.last() {
                filling.finish();
            }
            let done = std::mem::take(&mut filling.done);
            write_places(&mut transaction, &collection.keys, head.grid, &done, rng)?;
            write_vectors(&mut transaction, &done.iter().collect::<Vec<_>>(), rng)?;
            progress.done += some.len() as u64;
            if watch(progress).is_break() {
                return Err(ClientError::Cancelled);
            }
        }
    }
    for number in needed..held {
        transaction.remove(Slot::Places(number))?;
        transaction.remove(Slot::Vectors(number))?;
    }
    let moved = moves(&collection, &parts);
    move_records(&mut transaction, &collection, &moved, rng)?;
    move_fields(&mut transaction, &collection, &moved, rng)?;
    transaction.put(Slot::Blind, &head.encode(), rng)?;
    // The documents are those there were.
    Journal::nothing().record(&mut transaction, rng)?;
    transaction.commit(rng)?;
    Ok(Compacted { removed, blocks: needed as usize })
}

/// The blocks of a cell, and those that its rows go to.
struct Part {
    cell: Option<u32>,
    sources: Vec<u32>,
    /// Numbers of blocks, as many as its rows need.
    targets: Vec<u32>,
}

/// Which blocks rows are moved to, cell after cell: so that numbers without a gap are left, and every block
/// is read before another is written in its place.
///
/// A cell writes to its own blocks first, from the lowest, each after as many of them were read. Whoever has
/// more of the numbers that are left than it needs does not take any of another; it comes first, so what it
/// leaves was read when the others take it.
fn plan(collection: &BlindCollection) -> Vec<Part> {
    let per_block = collection.shape().rows_per_block();
    let need = |cell: u32| collection.rows_of(cell).div_ceil(per_block);
    let cells = collection.used_cells();
    let needed = cells.iter().map(|&cell| need(cell)).sum::<usize>() as u32;
    let (mut parts, mut gaps) = (Vec::new(), Vec::new());
    for cell in cells {
        let sources = collection.blocks_of(cell).to_vec();
        let mut targets: Vec<u32> =
            sources.iter().copied().filter(|number| *number < needed).collect();
        gaps.extend(targets.split_off(need(cell).min(targets.len())));
        let named = collection.cells().map(|_| cell);
        parts.push((need(cell), Part { cell: named, sources, targets }));
    }
    parts.sort_by_key(|(need, part)| part.targets.len() < *need);
    let mut gaps = gaps.into_iter();
    for (need, part) in &mut parts {
        let missing = *need - part.targets.len();
        part.targets.extend(gaps.by_ref().take(missing));
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

/// Where every row goes, and where it was.
fn moves(collection: &BlindCollection, parts: &[Part]) -> Vec<(u32, u32)> {
    let per_block = collection.shape().rows_per_block() as u32;
    let mut moves = Vec::with_capacity(collection.rows());
    for part in parts {
        let places = |number: &u32| *number * per_block..(*number + 1) * per_block;
        let used = |row: &u32| collection.id(*row as usize).is_some();
        let before = part.sources.iter().flat_map(places).filter(used);
        moves.extend(part.targets.iter().flat_map(places).zip(before));
    }
    moves
}

/// The blocks of a cell while rows are put into them.
struct Filling<'a> {
    part: &'a Part,
    shape: Shape,
    /// Targets that were begun.
    begun: usize,
    block: Option<BlockRows>,
    /// Rows in the block.
    filled: usize,
    done: Vec<BlockRows>,
}

impl<'a> Filling<'a> {
    fn new(part: &'a Part, shape: Shape) -> Self {
        Self { part, shape, begun: 0, block: None, filled: 0, done: Vec::new() }
    }

    fn put(&mut self, id: &str, vector: &[f32]) {
        let block = self.block.get_or_insert_with(|| {
            self.begun += 1;
            BlockRows::empty(self.part.targets[self.begun - 1], self.part.cell, &self.shape)
        });
        block.put(self.filled, id, vector);
        self.filled += 1;
        if self.filled == self.shape.rows_per_block() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        self.done.extend(self.block.take());
        self.filled = 0;
    }
}
