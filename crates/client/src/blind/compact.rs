//! Rows moved together, so that there are no more blocks than they need.

use rand_core::CryptoRng;

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

/// Moves the rows of a blind collection together, in the order of their places, so that it has as
/// few blocks as its rows need. Every block is then written anew, with a grid for the rows that are
/// there; so the next publish replaces all of them, and says nothing of where rows had gone. Where no
/// block would go, nothing changes.
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
    let needed = shape.blocks(collection.rows()) as u32;
    let removed = (held - needed) as usize;
    if removed == 0 {
        return Ok(Compacted { removed, blocks: held as usize });
    }
    let longest = collection.measure_longest(transaction.before())?;
    let fresh = BlindHead::for_length(shape, longest);
    let head = BlindHead { blocks: needed, rows, ..fresh };

    let numbers: Vec<u32> = (0..held).collect();
    let per_block = shape.rows_per_block();
    let mut filling = BlockRows::empty(0, &shape);
    let mut filled = 0;
    for some in numbers.chunks(BLOCKS_AT_ONCE) {
        // A block is full only after as many were read, so each is read before it is written.
        let mut done: Vec<BlockRows> = Vec::with_capacity(some.len());
        for block in BlockRows::read(transaction.before(), &collection, some)? {
            for (id, vector) in block.rows() {
                filling.put(filled, id, vector);
                filled += 1;
                if filled == per_block {
                    let next = BlockRows::empty(filling.number + 1, &shape);
                    done.push(std::mem::replace(&mut filling, next));
                    filled = 0;
                }
            }
        }
        let is_last = some.last() == numbers.last();
        if is_last && filled > 0 {
            done.push(std::mem::replace(&mut filling, BlockRows::empty(needed, &shape)));
        }
        write_places(&mut transaction, &collection.keys, head.grid, &done, rng)?;
        write_vectors(&mut transaction, &done.iter().collect::<Vec<_>>(), rng)?;
        let progress = Progress {
            done: some.last().map_or(0, |&last| u64::from(last) + 1),
            total: held.into(),
        };
        if watch(progress).is_break() {
            return Err(ClientError::Cancelled);
        }
    }
    for number in needed..held {
        transaction.remove(Slot::Places(number))?;
        transaction.remove(Slot::Vectors(number))?;
    }
    move_records(&mut transaction, &collection, rng)?;
    move_fields(&mut transaction, &collection, rng)?;
    transaction.put(Slot::Blind, &head.encode(), rng)?;
    // The documents are those there were.
    Journal::nothing().record(&mut transaction, rng)?;
    transaction.commit(rng)?;
    Ok(Compacted { removed, blocks: needed as usize })
}
