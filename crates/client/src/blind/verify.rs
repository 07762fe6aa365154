//! Every value of a blind collection held against the others.

use std::collections::HashSet;

use subtle::ConstantTimeEq;

use super::metadata::verify_fields;
use super::records::verify_records;
use super::vectors::longest_of;
use super::{BlindCollection, contradiction};
use crate::error::ClientError;
use crate::progress::{Progress, Watch};
use crate::vault::{Slot, Snapshot, VaultAccess};

/// Ids without a double; in an owner's vault also: a vector for every row, none longer than the
/// longest, every tag that of the vectors, and every row in its own cell, as far as they are here.
pub(crate) fn verify(
    collection: &BlindCollection,
    snapshot: &Snapshot,
    watch: &Watch<'_>,
) -> Result<(), ClientError> {
    let mut ids = HashSet::with_capacity(collection.rows());
    if !collection.ids().all(|(_, id)| ids.insert(id)) {
        return Err(contradiction("places", "an id is there twice"));
    }
    let revision = collection.revision().0;
    if collection.blocks().iter().any(|block| block.revision > revision) {
        return Err(contradiction("places", "a block is of a later revision than the vault"));
    }
    verify_fields(collection)?;
    verify_records(collection, snapshot, watch)?;
    if collection.position().access() == VaultAccess::Query {
        return Ok(());
    }
    let numbers: Vec<u32> = snapshot.root().numbered(Slot::Vectors).collect();
    if !numbers.iter().copied().eq(0..collection.head().blocks) {
        return Err(contradiction("vectors", "its blocks are not those of the places"));
    }
    let mut here = Vec::with_capacity(numbers.len());
    for number in numbers {
        if !snapshot.lacks(Slot::Vectors(number))? {
            here.push(number);
        }
    }
    let total = u64::from(collection.head().blocks);
    let check = |number, bytes: &[u8]| check_block(collection, number, bytes);
    snapshot.each(Slot::Vectors, &here, check, |number, ()| {
        let progress = Progress { done: u64::from(number) + 1, total };
        if watch(progress).is_break() { Err(ClientError::Cancelled) } else { Ok(()) }
    })
}

/// The rows of a block are those of its vectors.
fn check_block(collection: &BlindCollection, number: u32, bytes: &[u8]) -> Result<(), ClientError> {
    let places = &collection.blocks()[number as usize];
    let vectors = places.spread(bytes, collection.shape())?;
    if longest_of(&vectors, collection.shape().dimension()) > collection.longest() {
        return Err(contradiction("head of the blocks", "a row is longer than the longest"));
    }
    let integers = collection.encode(&vectors);
    let tag = collection.keys().tag(&collection.block_name(number), &integers);
    if !bool::from(tag.expose().ct_eq(places.tag.expose())) {
        return Err(contradiction("places", "a tag is not that of its rows"));
    }
    if let Some((cells, cell)) = collection.cells().zip(places.cell) {
        let (width, ids) = (collection.shape().dimension(), places.ids());
        let used = vectors.chunks_exact(width).zip(ids).filter(|(_, id)| id.is_some());
        let rows: Vec<f32> = used.flat_map(|(row, _)| row).copied().collect();
        if cells.assign(&rows).iter().any(|own| *own != cell) {
            return Err(contradiction("places", "a row is in another cell than its own"));
        }
    }
    let rows = integers.chunks_exact(collection.shape().dimension()).enumerate();
    let alike = |(at, row)| places.likeness(at) == collection.keys().likeness(row);
    if !rows.filter(|(at, _)| places.id(*at).is_some()).all(alike) {
        return Err(contradiction("places", "a likeness is not that of its row"));
    }
    Ok(())
}
