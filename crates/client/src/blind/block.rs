//! A block while it is written.

use rand_core::CryptoRng;
use shard_rlwe::blind::{Grid, Shape};
use zeroize::Zeroizing;

use super::{BlindCollection, BlockKeys, BlockPlaces};
use crate::collection::encode_vectors;
use crate::error::ClientError;
use crate::vault::{Slot, Snapshot, Transaction};

/// Blocks that are in memory at once: enough for every core, few enough to stay there.
pub(super) const BLOCKS_AT_ONCE: usize = 256;

/// The rows of a block.
pub(super) struct BlockRows {
    pub(super) number: u32,
    /// The cell whose rows it has, where blocks are grouped by cell.
    pub(super) cell: Option<u32>,
    /// The id of every place, unless it is free.
    ids: Vec<Option<String>>,
    /// Place after place, with zeros where one is free.
    vectors: Zeroizing<Vec<f32>>,
    width: usize,
}

impl BlockRows {
    /// A block of a cell, or of none, whose places are all free.
    pub(super) fn empty(number: u32, cell: Option<u32>, shape: &Shape) -> Self {
        let (places, width) = (shape.rows_per_block(), shape.dimension());
        let vectors = Zeroizing::new(vec![0.0; places * width]);
        Self { number, cell, ids: vec![None; places], vectors, width }
    }

    /// Some blocks of a collection, in order; one that it does not have is empty and in no cell.
    pub(super) fn read(
        snapshot: &Snapshot,
        collection: &BlindCollection,
        numbers: &[u32],
    ) -> Result<Vec<Self>, ClientError> {
        let shape = collection.shape();
        let known = numbers.partition_point(|&number| number < collection.head.blocks);
        let mut blocks = Vec::with_capacity(numbers.len());
        let decode = |number: u32, bytes: &[u8]| {
            let places = &collection.blocks[number as usize];
            let vectors = places.spread(bytes, shape)?;
            let ids = places.ids().map(|id| id.map(str::to_owned)).collect();
            Ok(Self { number, cell: places.cell, ids, vectors, width: shape.dimension() })
        };
        snapshot.each(Slot::Vectors, &numbers[..known], decode, |_, block| {
            blocks.push(block);
            Ok::<_, ClientError>(())
        })?;
        blocks.extend(numbers[known..].iter().map(|&number| Self::empty(number, None, shape)));
        Ok(blocks)
    }

    /// Puts a row into a place.
    pub(super) fn put(&mut self, place: usize, id: &str, vector: &[f32]) {
        self.ids[place] = Some(id.to_owned());
        self.vectors[place * self.width..][..self.width].copy_from_slice(vector);
    }

    /// Frees a place.
    pub(super) fn free(&mut self, place: usize) {
        self.ids[place] = None;
        self.vectors[place * self.width..][..self.width].fill(0.0);
    }

    /// The rows, in the order of their places.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, &[f32])> {
        let all = self.ids.iter().zip(self.vectors.chunks_exact(self.width));
        all.filter_map(|(id, vector)| Some((id.as_deref()?, vector)))
    }

    /// What a client is to know of it, under a tag for exactly these rows.
    fn places(&self, keys: &BlockKeys, revision: u64, grid: Grid) -> BlockPlaces {
        let integers: Zeroizing<Vec<i32>> = Zeroizing::new(grid.encode(&self.vectors).collect());
        let tag = keys.keys.tag(&keys.name(self.number, revision, grid), &integers);
        let rows = self.ids.iter().zip(integers.chunks_exact(self.width));
        let rows = rows.map(|(id, row)| Some((id.as_deref()?, keys.keys.likeness(row))));
        BlockPlaces::new(revision, tag, rows).in_cell(self.cell)
    }

    /// The value of its vectors.
    fn stored_vectors(&self) -> Zeroizing<Vec<u8>> {
        let rows = self.rows().flat_map(|(_, vector)| vector).copied();
        let values: Zeroizing<Vec<f32>> = Zeroizing::new(rows.collect());
        Zeroizing::new(encode_vectors(&values, self.width))
    }
}

/// Writes the places of blocks, tagged as of the commit to come.
pub(super) fn write_places(
    transaction: &mut Transaction<'_>,
    keys: &BlockKeys,
    grid: Grid,
    blocks: &[BlockRows],
    rng: &mut impl CryptoRng,
) -> Result<(), ClientError> {
    let revision = transaction.generation();
    let value = |block: &BlockRows| {
        (Slot::Places(block.number), block.places(keys, revision, grid).encode())
    };
    Ok(transaction.put_many(blocks, value, rng)?)
}

/// Writes the vectors of blocks.
pub(super) fn write_vectors(
    transaction: &mut Transaction<'_>,
    blocks: &[&BlockRows],
    rng: &mut impl CryptoRng,
) -> Result<(), ClientError> {
    let value = |block: &&BlockRows| (Slot::Vectors(block.number), block.stored_vectors());
    Ok(transaction.put_many(blocks, value, rng)?)
}
