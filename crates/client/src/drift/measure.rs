//! The figures themselves.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use shard_geometry::tune::{NEIGHBOURS, SampleQuery, noisy_row};
use shard_geometry::{CellLists, FlatRouter, Projected, Ranked, VectorSet, dot_f64, top_k};

use super::Balance;
use crate::error::ClientError;
use crate::index::Index;
use crate::model::Model;

/// The most queries that recall is measured on.
pub(super) const SAMPLE: usize = 200;

/// Rows of a task: few enough that their vectors stay in the cache while all queries meet them.
const BLOCK: usize = 512;

/// A direction whose variance is below this part of the largest is one in which the fitted documents
/// did not vary: what is left is the rounding of their single precision, about 2^-48.
const NO_VARIANCE: f64 = 1e-12;

/// Parts of the energy `|x - mu|^2` of a document.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Energy {
    /// In the residual.
    pub(crate) outside_prefix: f32,
    /// In directions in which the fitted documents did not vary.
    pub(crate) outside_basis: f32,
}

impl Energy {
    /// The mean of some; none have no energy anywhere.
    pub(super) fn mean<'a>(energies: impl Iterator<Item = &'a Self>) -> Self {
        let (mut prefix, mut basis, mut count) = (0.0, 0.0, 0_usize);
        for energy in energies {
            prefix += f64::from(energy.outside_prefix);
            basis += f64::from(energy.outside_basis);
            count += 1;
        }
        let count = count.max(1) as f64;
        Self { outside_prefix: (prefix / count) as f32, outside_basis: (basis / count) as f32 }
    }
}

/// The energies of documents, one by one.
pub(crate) fn energies(model: &Model, documents: &Projected) -> Vec<Energy> {
    let variances = model.pca().variances();
    let floor = NO_VARIANCE * variances.first().copied().unwrap_or(0.0);
    let known = variances.partition_point(|&variance| variance > floor);
    let energy = |coordinates: &[f32]| {
        // Not `sum`, which makes -0 of nothing.
        let square = |x: &f32| f64::from(*x) * f64::from(*x);
        let of = |coordinates: &[f32]| coordinates.iter().fold(0.0, |sum, x| sum + square(x));
        let whole = of(coordinates);
        // A document that is the mean has no energy to be anywhere.
        let part = |some: &[f32]| if whole > 0.0 { (of(some) / whole) as f32 } else { 0.0 };
        Energy {
            outside_prefix: part(model.split().halves(coordinates).1),
            outside_basis: part(&coordinates[known..]),
        }
    };
    documents.values().par_chunks_exact(documents.width()).map(energy).collect()
}

/// How even the cells are.
pub(super) fn balance(lists: &CellLists) -> Balance {
    let (cells, rows) = (lists.count() as f64, lists.rows() as f64);
    let parts = || lists.iter().map(|members| members.len() as f64 / rows);
    let entropy: f64 = parts().filter(|part| *part > 0.0).map(|part| -part * part.ln()).sum();
    Balance { imbalance: parts().fold(0.0, f64::max) * cells, effective: entropy.exp() / cells }
}

/// The part of the true neighbours of a sample that the model's shortlist holds: documents with the
/// noise of [`mod@shard_geometry::tune`], their ten best by exact inner product, and the prefixes as
/// the router meets them.
pub(super) fn recall(
    model: &Model,
    index: &Index,
    vectors: &VectorSet,
) -> Result<f64, ClientError> {
    let sample = sample(model, index, vectors);
    let prefixes: Vec<f32> =
        sample.iter().flat_map(|query| model.project_query(&query.vector).1).collect();
    let router = FlatRouter::new(model.split().prefix(), index.prefixes())?;
    // One more, since a query must not find the document it was made from.
    let lists = router.shortlist(&prefixes, model.candidates() + 1)?;
    let (mut held, mut wanted) = (0, 0);
    for ((query, list), neighbours) in sample.iter().zip(lists).zip(neighbours(vectors, &sample)) {
        let others = list.into_iter().filter(|row| Some(*row) != query.own_row);
        let shortlist: Vec<u32> = others.take(model.candidates()).collect();
        held += neighbours.iter().filter(|near| shortlist.contains(&near.row)).count();
        wanted += neighbours.len();
    }
    // A document alone has no neighbours to lose.
    Ok(if wanted == 0 { 1.0 } else { held as f64 / wanted as f64 })
}

/// Documents with noise. Which, and what noise, follows from a hash of their ids: after a change of
/// a few documents nearly all queries are the same, so what recall has lost is not an accident of
/// the sample.
fn sample(model: &Model, index: &Index, vectors: &VectorSet) -> Vec<SampleQuery> {
    let seed = model.settings().seed.to_le_bytes();
    let hash = |id: &str| {
        let hash = Sha256::new().chain_update(seed).chain_update(id).finalize();
        <[u8; 32]>::from(hash)
    };
    let mut chosen: Vec<([u8; 32], usize)> =
        index.ids().iter().enumerate().map(|(row, id)| (hash(id), row)).collect();
    chosen.sort_unstable();
    chosen.truncate(SAMPLE);
    let query =
        |(hash, row)| noisy_row(vectors, model.pca(), row, &mut ChaCha20Rng::from_seed(hash));
    chosen.into_iter().map(query).collect()
}

/// The rows with the largest inner products with each query, itself left out. All queries meet a
/// block of rows before the next is read, so the vectors cross the memory bus once.
fn neighbours(vectors: &VectorSet, sample: &[SampleQuery]) -> Vec<Vec<Ranked>> {
    let width = vectors.width();
    let nearest_of = |block: usize, rows: &[f32]| -> Vec<Vec<Ranked>> {
        let first = (block * BLOCK) as u32;
        let nearest = |query: &SampleQuery| {
            let others = (first..)
                .zip(rows.chunks_exact(width))
                .filter(|(row, _)| Some(*row) != query.own_row);
            top_k(others.map(|(row, x)| (row, dot_f64(x, &query.vector))), NEIGHBOURS)
        };
        sample.iter().map(nearest).collect()
    };
    let best = |a: Vec<Ranked>, b: Vec<Ranked>| {
        top_k(a.into_iter().chain(b).map(|near| (near.row, near.score)), NEIGHBOURS)
    };
    vectors
        .values()
        .par_chunks(BLOCK * width)
        .enumerate()
        .map(|(block, rows)| nearest_of(block, rows))
        .reduce(
            || vec![Vec::new(); sample.len()],
            |a, b| a.into_iter().zip(b).map(|(a, b)| best(a, b)).collect(),
        )
}
