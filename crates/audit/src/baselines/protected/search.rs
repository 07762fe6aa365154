//! Searching a protected collection, with and without encryption, and rankings to judge.

use anyhow::Result;
use rayon::prelude::*;
use shard_geometry::{
    OrthogonalKey, QuantizedMetric, Ranked, VectorSet, check_vector, exact_top_k, exact_top_k_f64,
    top_k,
};

use super::{Kept, Protected, Stored};
use crate::baselines::encrypted::Operands;
use crate::tools::matrix::Matrix;

impl Protected {
    /// The best `k` rows for a query, as a user of the baseline would have them: `global` takes
    /// `candidates` rows from its codes and scores them under encryption, the others rank all rows.
    ///
    /// # Errors
    /// When the query has another width or a value that is not finite, or the operating system gives
    /// no randomness.
    pub fn search(&self, query: &[f32], k: usize, candidates: usize) -> Result<Vec<Ranked>> {
        self.rank(query, k, candidates, |operands, query, rows| {
            Ok(operands.encrypted_scores(query, rows)?.rounded())
        })
    }

    /// The same without encryption: what the encrypted search is compared with.
    ///
    /// # Errors
    /// When the query has another width or a value that is not finite.
    pub fn search_in_the_clear(
        &self,
        query: &[f32],
        k: usize,
        candidates: usize,
    ) -> Result<Vec<Ranked>> {
        self.rank(query, k, candidates, |operands, query, rows| Ok(operands.scores(query, rows)))
    }

    fn rank(
        &self,
        query: &[f32],
        k: usize,
        candidates: usize,
        score: impl Fn(&Operands, &[f64], &[u32]) -> Result<Vec<f64>>,
    ) -> Result<Vec<Ranked>> {
        match (&self.stored, &self.kept) {
            (Stored::Rows(rows), Kept::Projection(projection)) => {
                check_vector(projection.width(), query)?;
                let query = Matrix::new(query.len(), query.iter().map(|&q| f64::from(q)).collect());
                Ok(exact_top_k_f64(rows, query.times_transposed(projection).values(), k)?)
            }
            (Stored::Rows(rows), Kept::Asymmetric { pca, key }) => {
                check_vector(pca.width(), query)?;
                let mut query = pca.uncentred(query);
                key.apply_to_query(&mut query);
                Ok(exact_top_k_f64(rows, &query, k)?)
            }
            (Stored::Rows(rows), _) => Ok(exact_top_k(rows, query, k)?),
            (Stored::Codes(codes), Kept::Rotation { pca, key }) => {
                check_vector(pca.width(), query)?;
                let query = single(&rotate(key, pca.uncentred(query)));
                let metric = QuantizedMetric::InnerProduct;
                Ok(codes.quantizer.shortlist(&codes.rows, &query, metric, k)?)
            }
            (Stored::Scored { operands, codes }, Kept::Rotation { pca, key }) => {
                check_vector(pca.width(), query)?;
                // The router is centred, the scoring query is not: the paper's correction.
                let router = single(&rotate(key, pca.centred(query)));
                let metric = QuantizedMetric::Distance;
                let shortlist =
                    codes.quantizer.shortlist(&codes.rows, &router, metric, candidates.max(1))?;
                let rows: Vec<u32> = shortlist.iter().map(|hit| hit.row).collect();
                let scores = score(operands, &rotate(key, pca.uncentred(query)), &rows)?;
                Ok(top_k(rows.into_iter().zip(scores), k))
            }
            (Stored::Codes(_) | Stored::Scored { .. }, _) => {
                unreachable!("codes are of rotated rows")
            }
        }
    }
}

/// `R` times the first coordinates.
fn rotate(key: &OrthogonalKey, mut coordinates: Vec<f64>) -> Vec<f64> {
    coordinates.truncate(key.width());
    key.apply(&mut coordinates);
    coordinates
}

fn single(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&x| x as f32).collect()
}

/// Rankings by name, query by query: what [`evaluate`](crate::quality::evaluate) takes.
pub type Run = Vec<(String, Vec<String>)>;

/// Searches with every query and names what was found. `progress` is called for each query.
///
/// # Errors
/// As [`Protected::search`].
///
/// # Panics
/// When there is not a name for each query.
pub fn evaluate_baseline(
    protected: &Protected,
    queries: &VectorSet,
    query_ids: &[String],
    name: &(dyn Fn(u32) -> String + Sync),
    depth: usize,
    candidates: usize,
    progress: &(dyn Fn() + Sync),
) -> Result<Run> {
    assert_eq!(queries.rows(), query_ids.len(), "a name for each query");
    let search = |(row, id): (usize, &String)| {
        let hits = protected.search(queries.row(row), depth, candidates)?;
        progress();
        Ok((id.clone(), hits.iter().map(|hit| name(hit.row)).collect()))
    };
    query_ids.par_iter().enumerate().map(search).collect()
}
