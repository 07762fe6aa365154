//! The second half of the journey: checking what came back, and putting it in order.

use shard_geometry::top_k;
use shard_protocol::RowBatch;

use super::answer::Hit;
use super::options::SearchOptions;
use super::rotate::{Member, RotatedQuery};
use crate::collection::Collection;
use crate::error::ClientError;

impl Collection {
    /// The same search without encryption, on the rows the server would hold: what the
    /// encrypted one is compared with.
    pub fn search_in_the_clear(
        &self,
        rows: &RowBatch,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<Vec<Hit>, ClientError> {
        let rotated = self.rotate(query, &self.route(query, options)?, 0)?;
        let width = self.model().split().residual();
        let unit = 2_f64.powi(-self.model().operand_scale().exponent());
        let mut scores = Vec::new();
        for (cell, query) in rotated.cells.iter().zip(rotated.queries.chunks_exact(width)) {
            for (handle, _) in &cell.members {
                let at = rows
                    .rows()
                    .binary_search_by_key(handle, |row| row.handle)
                    .map_err(|_| ClientError::MissingRow(*handle))?;
                let stored = &rows.rows()[at].coordinates;
                let product: f64 = query.iter().zip(stored).map(|(t, z)| t * f64::from(*z)).sum();
                scores.push(product * unit);
            }
        }
        Ok(self.rank(&rotated, &scores, false, 0.0, options.top))
    }

    /// Holds the scores of canaries against what they must be.
    pub(super) fn check_canaries(
        &self,
        rotated: &RotatedQuery,
        scores: &[f64],
        with_prefix: bool,
        error_bound: f64,
    ) -> Result<(), ClientError> {
        let width = self.model().split().residual();
        let queries = rotated.queries.chunks_exact(width);
        let expected = rotated.cells.iter().zip(queries).flat_map(|(cell, query)| {
            cell.members.iter().map(move |(_, member)| match member {
                Member::Document(_) => None,
                Member::Canary(number) => {
                    let canary = &self.index().canaries()[*number as usize];
                    Some(canary.score(self.model(), query))
                }
            })
        });
        let mut checked = 0;
        let mut wrong = 0;
        for ((score, expected), prefix) in scores.iter().zip(expected).zip(&*rotated.prefix_scores)
        {
            let Some(expected) = expected else { continue };
            let expected = expected + if with_prefix { *prefix } else { 0.0 };
            checked += 1;
            // A third beyond the stated bound (eight deviations in coefficients): an honest
            // server trips this once in 10^14 scores. Written so that a NaN trips it too.
            let near = (score - expected).abs() <= error_bound * 4.0 / 3.0;
            wrong += usize::from(!near);
        }
        if wrong > 0 { Err(ClientError::FalseAnswer { wrong, checked }) } else { Ok(()) }
    }

    /// `<u_q, u_i> + <r_q, r_i> + q . mu = q . x_i`, rounded to the grid, at the length of the query as
    /// it was given, best first.
    pub(super) fn rank(
        &self,
        rotated: &RotatedQuery,
        scores: &[f64],
        with_prefix: bool,
        grid: f64,
        top: usize,
    ) -> Vec<Hit> {
        let prefixes = rotated.prefix_scores.iter();
        let scored =
            rotated.members().zip(scores).zip(prefixes).filter_map(|((member, score), prefix)| {
                let Member::Document(row) = member else { return None };
                let prefix = if with_prefix { 0.0 } else { *prefix };
                let score = prefix + score + rotated.offset;
                let score = if grid > 0.0 { (score / grid).round() * grid } else { score };
                Some((row, score * rotated.scale))
            });
        let hit = |row: u32, score| Hit { id: self.index().id(row).to_owned(), row, score };
        top_k(scored, top).into_iter().map(|found| hit(found.row, found.score)).collect()
    }

    /// What the rounding of the candidates' stored prefixes can do to a score.
    pub(super) fn prefix_rounding(&self, rotated: &RotatedQuery) -> f64 {
        let norm = rotated.prefix.iter().map(|u| u * u).sum::<f64>().sqrt();
        let errors = rotated.members().filter_map(|member| match member {
            Member::Document(row) => Some(self.index().prefix_error(row)),
            Member::Canary(_) => None,
        });
        norm * errors.fold(0.0, f64::max)
    }
}

/// The smallest power of two that is at least the error.
pub(crate) fn grid(error: f64) -> f64 {
    if error > 0.0 { 2_f64.powi(error.log2().ceil() as i32) } else { 0.0 }
}
