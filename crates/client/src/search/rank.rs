//! The second half of the journey: checking what came back, and putting it in order.

use shard_geometry::{dot_f64, top_k};
use shard_protocol::RowBatch;

use super::answer::Hit;
use super::options::SearchOptions;
use super::rotate::RotatedQuery;
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
        let rotated = self.rotate(query, &self.route(query, options)?);
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

    /// Holds scores against the inner products that they must be: those of canaries, whose vectors are in
    /// every vault, and in an owner's those of all documents, as the options say.
    pub(super) fn check_scores(
        &self,
        rotated: &RotatedQuery<'_>,
        scores: &[f64],
        with_prefix: bool,
        error_bound: f64,
        options: &SearchOptions,
    ) -> Result<(), ClientError> {
        let recompute = options.recompute && self.has_originals();
        let is_known = |row: u32| recompute || (options.canaries && self.index().is_canary(row));
        let rows: Vec<u32> = rotated.members().collect();
        let known: Vec<u32> = rows.iter().copied().filter(|&row| is_known(row)).collect();
        let mut vectors = self.vectors(&known)?.into_iter();
        // A third beyond the stated bound (eight deviations in coefficients): an honest server
        // trips this once in 10^14 scores.
        let tolerance = error_bound * 4.0 / 3.0 + self.prefix_rounding(rotated);
        let (mut checked, mut wrong) = (0, 0);
        for ((&row, score), prefix) in rows.iter().zip(scores).zip(&*rotated.prefix_scores) {
            if !is_known(row) {
                continue;
            }
            let Some(vector) = vectors.next().flatten() else { continue };
            let prefix = if with_prefix { 0.0 } else { *prefix };
            let expected = dot_f64(rotated.given, &vector) / rotated.scale;
            checked += 1;
            // Written so that a NaN trips it too.
            let near = (prefix + score + rotated.offset - expected).abs() <= tolerance;
            wrong += usize::from(!near);
        }
        if wrong > 0 { Err(ClientError::FalseAnswer { wrong, checked }) } else { Ok(()) }
    }

    /// `<u_q, u_i> + <r_q, r_i> + q . mu = q . x_i`, rounded to the grid, at the length of the query as
    /// it was given, best first.
    pub(super) fn rank(
        &self,
        rotated: &RotatedQuery<'_>,
        scores: &[f64],
        with_prefix: bool,
        grid: f64,
        top: usize,
    ) -> Vec<Hit> {
        let prefixes = rotated.prefix_scores.iter();
        let scored = rotated.members().zip(scores).zip(prefixes).map(|((row, score), prefix)| {
            let prefix = if with_prefix { 0.0 } else { *prefix };
            let score = prefix + score + rotated.offset;
            let score = if grid > 0.0 { (score / grid).round() * grid } else { score };
            (row, score * rotated.scale)
        });
        let hit = |row: u32, score| Hit { id: self.index().id(row).to_owned(), row, score };
        top_k(scored, top).into_iter().map(|found| hit(found.row, found.score)).collect()
    }

    /// What the rounding of the candidates' stored prefixes can do to a score.
    pub(super) fn prefix_rounding(&self, rotated: &RotatedQuery<'_>) -> f64 {
        let norm = rotated.prefix.iter().map(|u| u * u).sum::<f64>().sqrt();
        let errors = rotated.members().map(|row| self.index().prefix_error(row));
        norm * errors.fold(0.0, f64::max)
    }
}

/// The smallest power of two that is at least the error.
pub(crate) fn grid(error: f64) -> f64 {
    if error > 0.0 { 2_f64.powi(error.log2().ceil() as i32) } else { 0.0 }
}
