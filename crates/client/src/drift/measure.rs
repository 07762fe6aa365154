//! The figures themselves.

use std::collections::HashSet;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use shard_geometry::tune::{NEIGHBOURS, SampleQuery, noisy_row, true_neighbours};
use shard_geometry::{FlatRouter, Pca, RouteQuery, VectorSet, Work};

use super::Balance;
use crate::error::ClientError;
use crate::index::Index;
use crate::model::Model;

/// The most queries that recall is measured on.
pub(super) const SAMPLE: usize = 200;

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
    /// How many directions the documents vary in that a model was fitted to.
    pub(crate) fn known_directions(pca: &Pca) -> usize {
        let variances = pca.variances();
        let floor = NO_VARIANCE * variances.first().copied().unwrap_or(0.0);
        variances.partition_point(|&variance| variance > floor)
    }

    /// Of a document in principal coordinates, of which the first `prefix` route and the first
    /// `known` are [directions that fitted documents vary in](Self::known_directions).
    pub(crate) fn of(coordinates: &[f64], prefix: usize, known: usize) -> Self {
        // Not `sum`, which makes -0 of nothing.
        let of = |some: &[f64]| some.iter().fold(0.0, |sum, x| sum + x * x);
        let whole = of(coordinates);
        // A document that is the mean has no energy to be anywhere.
        let part = |some: &[f64]| if whole > 0.0 { (of(some) / whole) as f32 } else { 0.0 };
        Self {
            outside_prefix: part(&coordinates[prefix..]),
            outside_basis: part(&coordinates[known..]),
        }
    }
}

/// Energies of many documents together. Sums are whole numbers of steps, so taking a document out
/// again leaves no rounding behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct EnergySum {
    pub(super) count: u64,
    pub(super) outside_prefix: u64,
    pub(super) outside_basis: u64,
}

impl EnergySum {
    /// Steps of one. Fewer than 2^32 documents add up to less than 2^62.
    const STEPS: f64 = (1_u64 << 30) as f64;

    pub(super) fn of(energies: &[Energy]) -> Self {
        let steps = |part: f32| (f64::from(part).clamp(0.0, 1.0) * Self::STEPS).round() as u64;
        energies.iter().fold(Self::default(), |sum, energy| Self {
            count: sum.count + 1,
            outside_prefix: sum.outside_prefix + steps(energy.outside_prefix),
            outside_basis: sum.outside_basis + steps(energy.outside_basis),
        })
    }

    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.outside_prefix += other.outside_prefix;
        self.outside_basis += other.outside_basis;
    }

    pub(super) fn remove(&mut self, other: Self) {
        debug_assert!(other.count <= self.count, "only documents that were counted are taken out");
        self.count = self.count.saturating_sub(other.count);
        self.outside_prefix = self.outside_prefix.saturating_sub(other.outside_prefix);
        self.outside_basis = self.outside_basis.saturating_sub(other.outside_basis);
    }

    /// Whether so many documents can have so much.
    pub(super) fn is_sum(&self) -> bool {
        let most = self.count.checked_mul(Self::STEPS as u64);
        most.is_some_and(|most| self.outside_prefix <= most && self.outside_basis <= most)
    }

    /// The means outside the prefix and outside the basis, if there are documents.
    pub(super) fn means(&self) -> Option<(f64, f64)> {
        let mean = |steps: u64| steps as f64 / Self::STEPS / self.count as f64;
        (self.count > 0).then(|| (mean(self.outside_prefix), mean(self.outside_basis)))
    }
}

/// How even the cells are.
pub(super) fn balance(members: &[usize]) -> Balance {
    let (cells, rows) = (members.len() as f64, members.iter().sum::<usize>() as f64);
    let parts = || members.iter().map(|&members| members as f64 / rows);
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
    let queries: Vec<RouteQuery> = sample
        .par_iter()
        .map(|query| model.route_query(&model.project_query(&query.vector)))
        .collect();
    let width = model.split().prefix();
    let router = FlatRouter::new(width, index.prefixes(), index.residual_norms())?;
    // One more, since a query must not find the document it was made from.
    let lists = router.shortlist(&queries, model.candidates() + 1)?;
    let neighbours = true_neighbours(vectors, &sample, NEIGHBOURS, Work::unwatched())?;
    let (mut held, mut wanted) = (0, 0);
    for ((query, list), neighbours) in sample.iter().zip(lists).zip(neighbours) {
        let others = list.into_iter().filter(|row| Some(*row) != query.own_row);
        let shortlist: HashSet<u32> = others.take(model.candidates()).collect();
        held += neighbours.iter().filter(|row| shortlist.contains(*row)).count();
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
        index.ids().enumerate().map(|(row, id)| (hash(id), row)).collect();
    chosen.sort_unstable();
    chosen.truncate(SAMPLE);
    let query =
        |(hash, row)| noisy_row(vectors, model.pca(), row, &mut ChaCha20Rng::from_seed(hash));
    chosen.into_iter().map(query).collect()
}
