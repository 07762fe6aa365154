//! Rows put into places, and places freed: blocks that nothing happens to are neither read nor
//! written, unless a row is too long for the grid.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rand_core::CryptoRng;
use shard_geometry::VectorSet;
use zeroize::Zeroizing;

use super::block::{BLOCKS_AT_ONCE, BlockRows, write_places, write_vectors};
use super::vectors::longest_of;
use super::{BlindCollection, BlindHead};
use crate::error::ClientError;
use crate::vault::{Slot, Transaction};

/// A blind collection that is being changed.
pub(crate) struct BlindChange<'v> {
    transaction: Transaction<'v>,
    collection: BlindCollection,
    /// What happens to places, by block and place in it.
    edits: BTreeMap<u32, BTreeMap<usize, Edit>>,
    /// Ids of the documents that are put.
    incoming: Vec<String>,
    /// Their vectors.
    vectors: Zeroizing<Vec<f32>>,
    /// Which of them are new.
    appended: Vec<usize>,
    deleted: Vec<String>,
}

/// What happens to a place.
#[derive(Clone, Copy)]
enum Edit {
    Free,
    /// It gets this one of the incoming documents.
    Put(usize),
}

impl<'v> BlindChange<'v> {
    /// Begins to change a collection.
    pub(crate) fn begin(transaction: Transaction<'v>) -> Result<Self, ClientError> {
        let collection = BlindCollection::read(transaction.vault(), transaction.before())?;
        Ok(Self {
            transaction,
            collection,
            edits: BTreeMap::new(),
            incoming: Vec::new(),
            vectors: Zeroizing::new(Vec::new()),
            appended: Vec::new(),
            deleted: Vec::new(),
        })
    }

    /// Every row before the change, with its id.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, &str)> {
        self.collection.ids()
    }

    /// The width of the documents.
    pub(crate) fn width(&self) -> usize {
        self.collection.shape().dimension()
    }

    /// The vectors of rows, in their order.
    pub(crate) fn vectors_of(&self, rows: &[u32]) -> Result<Vec<f32>, ClientError> {
        self.collection.vectors_of(self.transaction.before(), rows)
    }

    /// Frees the places of rows.
    pub(crate) fn remove(&mut self, rows: &[u32]) {
        for &row in rows {
            self.deleted.extend(self.collection.id(row as usize).map(str::to_owned));
            self.edit(row, Edit::Free);
        }
    }

    /// Puts documents, each in the place that it has or in a free one. Called once for a change.
    pub(crate) fn put(&mut self, ids: Vec<String>, vectors: VectorSet, existing: &[Option<u32>]) {
        for (at, row) in existing.iter().enumerate() {
            match row {
                Some(row) => self.edit(*row, Edit::Put(at)),
                None => self.appended.push(at),
            }
        }
        self.incoming = ids;
        self.vectors = Zeroizing::new(vectors.into_values());
    }

    fn edit(&mut self, row: u32, edit: Edit) {
        let per_block = self.collection.shape().rows_per_block();
        let (block, place) = (row / per_block as u32, row as usize % per_block);
        self.edits.entry(block).or_default().insert(place, edit);
    }

    /// Documents after the change.
    pub(crate) fn documents(&self) -> usize {
        self.collection.rows() + self.appended.len() - self.deleted.len()
    }

    /// Whether anything changes.
    pub(crate) fn is_any(&self) -> bool {
        !self.edits.is_empty() || !self.appended.is_empty()
    }

    /// The transaction, and the ids of documents that were put and deleted.
    pub(crate) fn into_parts(self) -> (Transaction<'v>, Vec<String>, Vec<String>) {
        (self.transaction, self.incoming, self.deleted)
    }

    /// Writes what changed.
    pub(crate) fn write(&mut self, rng: &mut impl CryptoRng) -> Result<(), ClientError> {
        let mut head = *self.collection.head();
        head.rows = self.documents() as u64;
        self.find_places(&mut head)?;
        let all_anew = head.admit(longest_of(&self.vectors, self.width()));
        let numbers: Vec<u32> = if all_anew {
            (0..head.blocks).collect()
        } else {
            self.edits.keys().copied().collect()
        };
        for some in numbers.chunks(BLOCKS_AT_ONCE) {
            let blocks = self.edited(some)?;
            write_places(&mut self.transaction, &self.collection.keys, head.grid, &blocks, rng)?;
            let is_edited = |block: &&BlockRows| self.edits.contains_key(&block.number);
            let edited: Vec<&BlockRows> = blocks.iter().filter(is_edited).collect();
            write_vectors(&mut self.transaction, &edited, rng)?;
        }
        Ok(self.transaction.put(Slot::Blind, &head.encode(), rng)?)
    }

    /// Finds places for the new rows: in the blocks with most free places first, so that few blocks
    /// change, then in new blocks.
    fn find_places(&mut self, head: &mut BlindHead) -> Result<(), ClientError> {
        let mut waiting = &self.appended[..];
        if waiting.is_empty() {
            return Ok(());
        }
        let mut roomy: Vec<(u32, Vec<usize>)> =
            (0..head.blocks).map(|block| (block, self.free_places(block))).collect();
        roomy.sort_by_key(|(_, places)| Reverse(places.len()));
        let mut roomy = roomy.into_iter().filter(|(_, places)| !places.is_empty());
        while !waiting.is_empty() {
            let (block, places) = match roomy.next() {
                Some(known) => known,
                None => (head.add_block()?, (0..head.shape.rows_per_block()).collect()),
            };
            let (now, later) = waiting.split_at(places.len().min(waiting.len()));
            let put = places.into_iter().zip(now.iter().map(|&at| Edit::Put(at)));
            self.edits.entry(block).or_default().extend(put);
            waiting = later;
        }
        Ok(())
    }

    /// The places of a block that are free when everything was freed.
    fn free_places(&self, block: u32) -> Vec<usize> {
        let edits = self.edits.get(&block);
        let is_freed =
            |place: &usize| matches!(edits.and_then(|edits| edits.get(place)), Some(Edit::Free));
        let ids = self.collection.blocks()[block as usize].ids().enumerate();
        ids.filter(|(place, id)| id.is_none() || is_freed(place)).map(|(place, _)| place).collect()
    }

    /// Some blocks as they will be.
    fn edited(&self, numbers: &[u32]) -> Result<Vec<BlockRows>, ClientError> {
        let width = self.width();
        let mut blocks = BlockRows::read(self.transaction.before(), &self.collection, numbers)?;
        for block in &mut blocks {
            for (&place, edit) in self.edits.get(&block.number).into_iter().flatten() {
                match *edit {
                    Edit::Free => block.free(place),
                    Edit::Put(at) => {
                        let vector = &self.vectors[at * width..][..width];
                        block.put(place, &self.incoming[at], vector);
                    }
                }
            }
        }
        Ok(blocks)
    }
}
