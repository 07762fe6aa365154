//! The documents' own vectors.

use std::collections::BTreeMap;

use shard_geometry::VectorSet;

use super::BlindCollection;
use crate::error::ClientError;
use crate::vault::{Slot, Snapshot};

/// The length of a vector.
pub(super) fn length(vector: &[f32]) -> f64 {
    vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}

/// The length of the longest of some vectors.
pub(super) fn longest_of(vectors: &[f32], width: usize) -> f64 {
    vectors.chunks_exact(width).map(length).fold(0.0, f64::max)
}

impl BlindCollection {
    /// The vectors of rows, in their order. Reads the blocks they are in.
    pub(super) fn vectors_of(
        &self,
        snapshot: &Snapshot,
        rows: &[u32],
    ) -> Result<Vec<f32>, ClientError> {
        let (width, per_block) = (self.head.shape.dimension(), self.head.shape.rows_per_block());
        // By block: which of the rows are in it, and where.
        let mut wanted: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
        for (at, &row) in rows.iter().enumerate() {
            let (block, place) = (row / per_block as u32, row as usize % per_block);
            wanted.entry(block).or_default().push((at, place));
        }
        let numbers: Vec<u32> = wanted.keys().copied().collect();
        let mut vectors = vec![0.0; rows.len() * width];
        // Of a block no more is kept than what is wanted.
        let decode = |number: u32, bytes: &[u8]| {
            let all = self.blocks[number as usize].spread(bytes, &self.head.shape)?;
            let some = wanted[&number].iter().flat_map(|(_, place)| &all[place * width..][..width]);
            Ok(some.copied().collect())
        };
        snapshot.each(Slot::Vectors, &numbers, decode, |number, some: Vec<f32>| {
            for ((at, _), vector) in wanted[&number].iter().zip(some.chunks_exact(width)) {
                vectors[at * width..][..width].copy_from_slice(vector);
            }
            Ok::<_, ClientError>(())
        })?;
        Ok(vectors)
    }

    /// The length of the longest row.
    pub(super) fn measure_longest(&self, snapshot: &Snapshot) -> Result<f64, ClientError> {
        let numbers: Vec<u32> = (0..self.head.blocks).collect();
        let shape = &self.head.shape;
        let measure = |number: u32, bytes: &[u8]| {
            let vectors = self.blocks[number as usize].spread(bytes, shape)?;
            Ok(longest_of(&vectors, shape.dimension()))
        };
        let mut longest = 0.0_f64;
        snapshot.each(Slot::Vectors, &numbers, measure, |_, length| {
            longest = longest.max(length);
            Ok::<_, ClientError>(())
        })?;
        Ok(longest)
    }
}

/// The documents of a commit whose ids are wanted: ids and vectors, unless there are none.
pub(crate) fn documents_of(
    snapshot: &Snapshot,
    collection: &BlindCollection,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(Vec<String>, Option<VectorSet>), ClientError> {
    let wanted = collection.ids().filter(|(_, id)| is_wanted(id));
    let (rows, ids): (Vec<u32>, Vec<String>) = wanted.map(|(row, id)| (row, id.to_owned())).unzip();
    if rows.is_empty() {
        return Ok((ids, None));
    }
    let values = collection.vectors_of(snapshot, &rows)?;
    Ok((ids, Some(VectorSet::new(collection.head.shape.dimension(), values)?)))
}
