//! What the tables and channels of this folder share: Shard without its keys, rankings by name, and
//! corpora.

use anyhow::{Result, ensure};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use rayon::prelude::*;
use shard_geometry::{FlatRouter, Pca, RouteQuery, TuneRequest, VectorSet, Work, top_k, tune};

use super::protected::Run;
use crate::subject::{Corpus, coordinates};
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, for_each_block, nearest_others};

/// The seed of the paper's tables.
pub(super) const SEED: u64 = 2026;

/// Resamples behind every interval of this folder's channels.
pub(super) const RESAMPLES: usize = 2000;

/// Documents ranked for a query: Recall@100 looks no further.
pub(super) const DEPTH: usize = 100;

/// Candidates of Shard in the paper's tables of utility.
pub(super) const SHARD_CANDIDATES: usize = 200;

/// Scores are rounded to this grid, so that rows that tie in exact arithmetic tie here.
const SCORE_GRID: f64 = 1.0 / (1_u64 << 40) as f64;

/// Shard as it ranks, without keys and encryption: both cancel in every score.
pub(super) struct PlainShard {
    pub(super) pca: Pca,
    pub(super) coordinates: Matrix,
    prefix_width: usize,
    prefixes: Vec<f32>,
    residual_norms: Vec<f32>,
    residual_weight: f64,
}

impl PlainShard {
    /// The collection's model with a prefix of `prefix_width` coordinates.
    pub(super) fn fit(vectors: &VectorSet, prefix_width: usize) -> Result<Self> {
        ensure!(
            (1..=vectors.width()).contains(&prefix_width),
            "a prefix of {prefix_width} coordinates"
        );
        let pca = Pca::fit(vectors)?;
        let coordinates = coordinates(&pca, vectors);
        let prefixes = coordinates.iter().flat_map(|row| &row[..prefix_width]).map(|&x| x as f32);
        let prefixes = prefixes.collect();
        let norm = |row: &[f64]| row.iter().map(|r| r * r).sum::<f64>().sqrt() as f32;
        let residual_norms = coordinates.iter().map(|row| norm(&row[prefix_width..])).collect();
        let residual_weight = residual_weight(vectors, &pca, prefix_width)?;
        Ok(Self { pca, coordinates, prefix_width, prefixes, residual_norms, residual_weight })
    }

    /// The prefixes of all documents, as they are routed by.
    pub(super) fn prefixes(&self) -> &[f32] {
        &self.prefixes
    }

    /// The rows that the client of Shard asks about, for every query.
    pub(super) fn shortlists(
        &self,
        queries: &VectorSet,
        candidates: usize,
    ) -> Result<Vec<Vec<u32>>> {
        let routed: Vec<RouteQuery> = (0..queries.rows())
            .into_par_iter()
            .map(|row| {
                let coordinates = self.pca.uncentred(queries.row(row));
                RouteQuery::new(&coordinates, self.prefix_width, self.residual_weight)
            })
            .collect();
        let router = FlatRouter::new(self.prefix_width, &self.prefixes, &self.residual_norms)?;
        Ok(router.shortlist(&routed, candidates)?)
    }

    /// The best `depth` of each shortlist by `<u_q, u_i> + <r_q, r_i>`, the query uncentred.
    pub(super) fn search(
        &self,
        queries: &VectorSet,
        candidates: usize,
        depth: usize,
    ) -> Result<Vec<Vec<u32>>> {
        let shortlists = self.shortlists(queries, candidates)?;
        let rank = |(row, shortlist): (usize, &Vec<u32>)| {
            let query = self.pca.uncentred(queries.row(row));
            let scores = shortlist.iter().map(|&row| {
                let terms = query.iter().zip(self.coordinates.row(row as usize));
                let score: f64 = terms.map(|(q, x)| q * x).sum();
                (row, on_grid(score))
            });
            top_k(scores, depth).iter().map(|hit| hit.row).collect()
        };
        Ok(shortlists.par_iter().enumerate().map(rank).collect())
    }
}

/// The weight of residuals that a fit with this prefix width chooses. Without a residual there is
/// nothing to weigh.
fn residual_weight(vectors: &VectorSet, pca: &Pca, prefix_width: usize) -> Result<f64> {
    if prefix_width == vectors.width() {
        return Ok(0.0);
    }
    let request = TuneRequest { d_pub: Some(prefix_width), ..TuneRequest::default() };
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    Ok(tune(vectors, pca, None, request, &mut rng, Work::unwatched())?.weight)
}

/// A score on [`SCORE_GRID`].
fn on_grid(score: f64) -> f64 {
    (score / SCORE_GRID).round() * SCORE_GRID
}

/// For every query the best `depth` rows by `q . x`, ties by row order: exact search for many
/// queries at once.
pub(super) fn best_by_product(queries: &Matrix, rows: &Matrix, depth: usize) -> Vec<Vec<u32>> {
    let mut found = Vec::with_capacity(queries.rows());
    for_each_block(queries, rows, Metric::Product, |_, scores| {
        found.par_extend((0..scores.rows()).into_par_iter().map(|at| {
            let scores = (0..).zip(scores.row(at).iter().map(|&score| on_grid(score)));
            top_k(scores, depth).iter().map(|hit| hit.row).collect::<Vec<u32>>()
        }));
    });
    found
}

/// Ranked rows under the names of a corpus.
pub(super) fn named(corpus: &Corpus, rankings: &[Vec<u32>]) -> Run {
    let names =
        |rows: &Vec<u32>| rows.iter().map(|&row| corpus.ids[row as usize].clone()).collect();
    corpus.query_ids.iter().cloned().zip(rankings.iter().map(names)).collect()
}

/// The `k` nearest other rows of each probe, by distance. Distances survive centring and rotation,
/// so what is near in the whole space and in a part of it is asked in the same way.
pub(super) fn other_neighbours(rows: &Matrix, probes: &[usize], k: usize) -> Vec<Vec<u32>> {
    nearest_others(rows, probes, k, Metric::Distance)
}

/// Some rows as a set of vectors.
pub(super) fn vectors_of(rows: &Matrix) -> Result<VectorSet> {
    let values = rows.values().iter().map(|&x| x as f32).collect();
    Ok(VectorSet::new(rows.width(), values)?)
}

/// Some rows of a set.
pub(super) fn select(vectors: &VectorSet, rows: &[usize]) -> Result<VectorSet> {
    let values = rows.iter().flat_map(|&row| vectors.row(row)).copied().collect();
    Ok(VectorSet::new(vectors.width(), values)?)
}

/// The corpus with the most documents, of this encoder if it has any.
pub(super) fn largest<'c>(corpora: &'c [Corpus], encoder: &str) -> Option<&'c Corpus> {
    corpora.iter().max_by_key(|corpus| (corpus.encoder == encoder, corpus.vectors.rows()))
}

/// Corpora with judgements that people made; those of `wiki100k` are derived.
pub(super) fn judged(corpora: &[Corpus]) -> impl Iterator<Item = &Corpus> {
    corpora.iter().filter(|corpus| !corpus.qrels.is_empty() && corpus.name != "wiki100k")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::sample::mixture;
    use shard_geometry::exact_top_k;

    #[test]
    fn shard_with_every_row_as_candidate_ranks_as_exact_search_does() {
        let (vectors, queries) = (mixture(120, 12, 1), mixture(6, 12, 2));
        let shard = PlainShard::fit(&vectors, 3).unwrap();
        let found = shard.search(&queries, 120, 20).unwrap();
        for (row, found) in found.iter().enumerate() {
            let exact = exact_top_k(&vectors, queries.row(row), 20).unwrap();
            assert_eq!(found, &exact.iter().map(|hit| hit.row).collect::<Vec<_>>());
        }
        let [queries_wide, rows] = [&queries, &vectors].map(Matrix::from_vectors);
        assert_eq!(best_by_product(&queries_wide, &rows, 20), found);
        let short = shard.search(&queries, 5, 20).unwrap();
        assert!(short.iter().all(|rows| rows.len() == 5));
        assert!(PlainShard::fit(&vectors, 0).is_err());
    }
}
