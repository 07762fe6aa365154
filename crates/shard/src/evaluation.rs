//! The systems that are compared: raw search, its two controls, Shard with and without encryption,
//! and the baselines that were asked for, all over the documents of one vault.

use anyhow::Result;
use rayon::prelude::*;
use serde::{Serialize, Serializer};
use shard_audit::baselines::{Baseline, Run, evaluate_baseline};
use shard_audit::quality::{Bootstrap, Qrels, SystemQuality, evaluate};
use shard_client::{Answer, Collection, Hit, LayoutChoice, SearchOptions, Searcher};
use shard_geometry::{Ranked, VectorSet, dot_f64, exact_top_k, exact_top_k_f64};
use shard_protocol::RowBatch;
use shard_rlwe::Objective;

use crate::Embedded;
use crate::baselines::protect;

/// Documents ranked for a query: Recall@100 looks no further.
const DEPTH: usize = 100;

/// Scores this close count as tied where two rankings are compared: a few times the precision
/// that scores are asked for.
pub const TIE: f64 = 5e-6;

/// Everything needed to compare.
pub struct Comparison<'a> {
    pub collection: &'a Collection,
    /// The documents' own vectors, for raw search.
    pub vectors: &'a VectorSet,
    /// What the server holds, for Shard without encryption.
    pub published: &'a RowBatch,
    pub searcher: &'a Searcher<Embedded>,
    pub queries: &'a VectorSet,
    pub query_ids: &'a [String],
    pub qrels: &'a Qrels,
    pub candidates: usize,
    pub objective: Option<Objective>,
    pub layout: LayoutChoice,
    /// Other ways to protect the vectors.
    pub baselines: &'a [Baseline],
    /// Candidates of baselines that make a shortlist.
    pub baseline_candidates: usize,
}

/// Quality of each system.
#[derive(Serialize)]
pub struct Quality {
    pub raw: SystemQuality,
    pub centred_full: SystemQuality,
    pub corrected_half: SystemQuality,
    pub shard_plain: SystemQuality,
    pub shard_encrypted: SystemQuality,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "by_name")]
    pub baselines: Vec<(Baseline, SystemQuality)>,
}

impl Quality {
    pub fn lines(&self) -> Vec<(String, &SystemQuality)> {
        let own = [
            ("raw exact search", &self.raw),
            ("  query centred (control)", &self.centred_full),
            ("  half of the dimensions (control)", &self.corrected_half),
            ("Shard, not encrypted", &self.shard_plain),
            ("Shard, encrypted", &self.shard_encrypted),
        ];
        let own = own.into_iter().map(|(name, quality)| (name.to_owned(), quality));
        let baselines = self
            .baselines
            .iter()
            .map(|(baseline, quality)| (format!("{baseline} (baseline)"), quality));
        own.chain(baselines).collect()
    }
}

/// Baselines as an object with a field for each.
fn by_name<S: Serializer>(
    baselines: &[(Baseline, SystemQuality)],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(baselines.iter().map(|(baseline, quality)| (baseline.to_string(), quality)))
}

/// What came of a comparison.
pub struct Outcome {
    pub quality: Quality,
    /// The encrypted answers, by query; their hits are all candidates.
    pub answers: Vec<Answer>,
    /// Fraction of queries whose encrypted top 10 is that of the same shortlist without
    /// encryption, documents within [`TIE`] counting as tied.
    pub top10_identical: f64,
    /// The same without ties.
    pub top10_strict: f64,
    /// Largest distance of an encrypted score from the exact inner product.
    pub max_abs_error: f64,
    /// Queries that had no judged document.
    pub left_out: usize,
}

impl Comparison<'_> {
    /// Runs every system on every query. `progress` hears of each query that Shard searched under
    /// encryption, and of each that a baseline did.
    pub fn run(&self, progress: &(dyn Fn() + Sync)) -> Result<Outcome> {
        let pca = self.collection.model().pca();
        let raw = self.exact(|query| Ok(exact_top_k(self.vectors, query, DEPTH)?))?;
        // (q - mu) . (x - mu) orders documents as (q - mu) . x does.
        let centred = self.exact(|query| {
            let shifted = query.iter().zip(pca.mean()).map(|(q, mu)| f64::from(*q) - mu);
            Ok(exact_top_k_f64(self.vectors, &shifted.collect::<Vec<_>>(), DEPTH)?)
        })?;
        // q^T V_k V_k^T (x - mu) orders documents as (V_k V_k^T q) . x does.
        let half = self.exact(|query| {
            let width = pca.width();
            let kept = &pca.uncentred(query)[..width / 2];
            let mut projected = vec![0.0; width];
            for (coordinate, direction) in kept.iter().zip(pca.basis().chunks_exact(width)) {
                projected.iter_mut().zip(direction).for_each(|(p, v)| *p += coordinate * v);
            }
            Ok(exact_top_k_f64(self.vectors, &projected, DEPTH)?)
        })?;

        let options = SearchOptions {
            top: self.candidates,
            candidates: Some(self.candidates),
            objective: self.objective,
            layout: self.layout.clone(),
            ..SearchOptions::default()
        };
        let plain: Vec<Vec<Hit>> = (0..self.queries.rows())
            .into_par_iter()
            .map(|row| {
                self.collection.search_in_the_clear(self.published, self.queries.row(row), &options)
            })
            .collect::<Result<_, _>>()?;
        let mut answers = Vec::with_capacity(self.queries.rows());
        for row in 0..self.queries.rows() {
            answers.push(self.searcher.search(self.collection, self.queries.row(row), &options)?);
            progress();
        }

        let raw = evaluate(self.qrels, &raw)?;
        let against = |run: &Run| -> Result<SystemQuality> {
            Ok(SystemQuality::against(&raw, &evaluate(self.qrels, run)?, Bootstrap::default())?)
        };
        let baseline = |&baseline: &Baseline| -> Result<(Baseline, SystemQuality)> {
            Ok((baseline, against(&self.baseline_run(baseline, progress)?)?))
        };
        let quality = Quality {
            raw: SystemQuality::baseline(&raw),
            centred_full: against(&centred)?,
            corrected_half: against(&half)?,
            shard_plain: against(&self.names(plain.iter().map(Vec::as_slice)))?,
            shard_encrypted: against(
                &self.names(answers.iter().map(|answer| answer.hits.as_slice())),
            )?,
            baselines: self.baselines.iter().map(baseline).collect::<Result<_>>()?,
        };
        let same = |tie| {
            let pairs = answers.iter().zip(&plain);
            let same = pairs.filter(|(ours, theirs)| same_top10(&ours.hits, theirs, tie)).count();
            same as f64 / answers.len() as f64
        };
        Ok(Outcome {
            quality,
            top10_identical: same(TIE),
            top10_strict: same(0.0),
            max_abs_error: self.max_abs_error(&answers),
            answers,
            left_out: raw.left_out,
        })
    }

    fn exact(&self, search: impl Fn(&[f32]) -> Result<Vec<Ranked>> + Sync) -> Result<Run> {
        let ranked = (0..self.queries.rows())
            .into_par_iter()
            .map(|row| search(self.queries.row(row)))
            .collect::<Result<Vec<_>>>()?;
        let index = self.collection.index();
        let names = |ranking: &Vec<Ranked>| {
            ranking.iter().map(|found| index.id(found.row).to_owned()).collect()
        };
        Ok(self.query_ids.iter().cloned().zip(ranked.iter().map(names)).collect())
    }

    fn baseline_run(&self, baseline: Baseline, progress: &(dyn Fn() + Sync)) -> Result<Run> {
        let index = self.collection.index();
        evaluate_baseline(
            &protect(baseline, self.vectors)?,
            self.queries,
            self.query_ids,
            &|row| index.id(row).to_owned(),
            DEPTH,
            self.baseline_candidates,
            progress,
        )
    }

    /// Hits by id, cut to the depth that is measured.
    fn names<'r>(&self, rankings: impl Iterator<Item = &'r [Hit]>) -> Run {
        let names =
            |ranking: &[Hit]| ranking.iter().take(DEPTH).map(|hit| hit.id.clone()).collect();
        self.query_ids.iter().cloned().zip(rankings.map(names)).collect()
    }

    fn max_abs_error(&self, answers: &[Answer]) -> f64 {
        let worst_of = |(row, answer): (usize, &Answer)| {
            let query = self.queries.row(row);
            let error =
                |hit: &Hit| (hit.score - dot_f64(query, self.vectors.row(hit.row as usize))).abs();
            answer.hits.iter().map(error).fold(0.0, f64::max)
        };
        answers.iter().enumerate().map(worst_of).fold(0.0, f64::max)
    }
}

/// Whether the first ten agree, position by position, up to documents whose exact scores are no
/// further apart than `tie`.
fn same_top10(ours: &[Hit], theirs: &[Hit], tie: f64) -> bool {
    let exact = |row| theirs.iter().find(|hit| hit.row == row).map(|hit| hit.score);
    let agree = |(ours, theirs): (&Hit, &Hit)| {
        ours.row == theirs.row
            || exact(ours.row).is_some_and(|score| (score - theirs.score).abs() <= tie)
    };
    ours.len() == theirs.len() && ours.iter().zip(theirs).take(10).all(agree)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(rows: &[(u32, f64)]) -> Vec<Hit> {
        rows.iter().map(|&(row, score)| Hit { id: row.to_string(), row, score }).collect()
    }

    #[test]
    fn only_documents_within_the_tie_may_swap() {
        let exact = ranking(&[(1, 0.9), (2, 0.5), (3, 0.499_999)]);
        let swapped = ranking(&[(1, 0.9), (3, 0.5), (2, 0.5)]);
        assert!(same_top10(&exact, &exact, 0.0));
        assert!(!same_top10(&swapped, &exact, 0.0) && same_top10(&swapped, &exact, TIE));
        assert!(!same_top10(&ranking(&[(2, 0.9), (1, 0.5), (3, 0.4)]), &exact, TIE));
        assert!(!same_top10(&exact[..2], &exact, TIE));
    }
}
