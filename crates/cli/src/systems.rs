//! The systems that are compared: raw search, its two foils, and Shard with and without
//! encryption, all over the documents of one vault.

use anyhow::Result;
use rayon::prelude::*;
use serde::Serialize;
use shard_audit::quality::{Bootstrap, Qrels, SystemQuality, evaluate};
use shard_client::{Answer, Collection, SearchOptions, Searcher};
use shard_geometry::{Ranked, VectorSet, dot_f64, exact_top_k, top_k};
use shard_protocol::RowBatch;
use shard_rlwe::Objective;

use crate::embedded::Embedded;

/// Documents ranked for a query: Recall@100 looks no further.
const DEPTH: usize = 100;

/// Everything needed to compare.
pub struct Comparison<'a> {
    pub collection: &'a Collection,
    /// The documents' own vectors, for raw search.
    pub vectors: &'a VectorSet,
    /// What the server holds, for Shard without encryption.
    pub release: &'a RowBatch,
    pub searcher: &'a Searcher<Embedded>,
    pub queries: &'a VectorSet,
    pub query_ids: &'a [String],
    pub qrels: &'a Qrels,
    pub candidates: usize,
    pub objective: Objective,
}

/// Quality of each system.
#[derive(Serialize)]
pub struct Quality {
    pub raw: SystemQuality,
    pub centred_full: SystemQuality,
    pub corrected_half: SystemQuality,
    pub shard_plain: SystemQuality,
    pub shard_encrypted: SystemQuality,
}

impl Quality {
    pub fn lines(&self) -> [(&'static str, &SystemQuality); 5] {
        [
            ("raw exact search", &self.raw),
            ("  query centred (control)", &self.centred_full),
            ("  half of the dimensions (control)", &self.corrected_half),
            ("Shard, not encrypted", &self.shard_plain),
            ("Shard, encrypted", &self.shard_encrypted),
        ]
    }
}

/// What came of a comparison.
pub struct Outcome {
    pub quality: Quality,
    /// The encrypted answers, by query; their hits are all candidates.
    pub answers: Vec<Answer>,
    /// Fraction of queries whose encrypted top 10 is that of the same shortlist without
    /// encryption, documents closer than the error bound counting as tied.
    pub top10_identical: f64,
    /// Largest distance of an encrypted score from the exact inner product.
    pub max_abs_error: f64,
    /// Queries that had no judged document.
    pub left_out: usize,
}

type Run = Vec<(String, Vec<String>)>;

impl Comparison<'_> {
    /// Runs every system on every query. `progress` hears of each query searched under
    /// encryption.
    pub fn run(&self, progress: &dyn Fn()) -> Result<Outcome> {
        let pca = self.collection.model().pca();
        let raw = self.exact(|query| Ok(exact_top_k(self.vectors, query, DEPTH)?))?;
        // (q - mu) . (x - mu) orders documents as (q - mu) . x does.
        let centred = self.exact(|query| {
            let shifted = query.iter().zip(pca.mean()).map(|(q, mu)| f64::from(*q) - mu);
            Ok(self.scan(&shifted.collect::<Vec<_>>()))
        })?;
        // q^T V_k V_k^T (x - mu) orders documents as (V_k V_k^T q) . x does.
        let half = self.exact(|query| {
            let width = pca.width();
            let kept = &pca.uncentred(query)[..width / 2];
            let mut projected = vec![0.0; width];
            for (coordinate, direction) in kept.iter().zip(pca.basis().chunks_exact(width)) {
                projected.iter_mut().zip(direction).for_each(|(p, v)| *p += coordinate * v);
            }
            Ok(self.scan(&projected))
        })?;

        let options = SearchOptions {
            top: self.candidates,
            candidates: Some(self.candidates),
            objective: self.objective,
            ..SearchOptions::default()
        };
        let plain: Vec<Vec<Ranked>> = (0..self.queries.rows())
            .into_par_iter()
            .map(|row| {
                self.collection.search_in_the_clear(self.release, self.queries.row(row), &options)
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
        let encrypted = answers.iter().map(|answer| answer.hits.as_slice());
        let quality = Quality {
            raw: SystemQuality::baseline(&raw),
            centred_full: against(&centred)?,
            corrected_half: against(&half)?,
            shard_plain: against(&self.name(plain.iter().map(Vec::as_slice)))?,
            shard_encrypted: against(&self.name(encrypted))?,
        };
        let identical = answers.iter().zip(&plain).filter(|(a, p)| same_top10(a, p)).count();
        Ok(Outcome {
            quality,
            top10_identical: identical as f64 / answers.len() as f64,
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
        Ok(self.name(ranked.iter().map(Vec::as_slice)))
    }

    /// Exact search with a query in double precision.
    fn scan(&self, query: &[f64]) -> Vec<Ranked> {
        let rows = self.vectors.values().chunks_exact(query.len());
        let scores = rows.map(|row| row.iter().zip(query).map(|(x, q)| f64::from(*x) * q).sum());
        top_k((0..).zip(scores), DEPTH)
    }

    /// Rankings by id, cut to the depth that is measured.
    fn name<'r>(&self, rankings: impl Iterator<Item = &'r [Ranked]>) -> Run {
        let index = self.collection.index();
        let names = |ranking: &[Ranked]| {
            ranking.iter().take(DEPTH).map(|hit| index.id(hit.row).to_owned()).collect()
        };
        self.query_ids.iter().cloned().zip(rankings.map(names)).collect()
    }

    fn max_abs_error(&self, answers: &[Answer]) -> f64 {
        let worst_of = |(row, answer): (usize, &Answer)| {
            let query = self.queries.row(row);
            let error = |hit: &Ranked| {
                (hit.score - dot_f64(query, self.vectors.row(hit.row as usize))).abs()
            };
            answer.hits.iter().map(error).fold(0.0, f64::max)
        };
        answers.iter().enumerate().map(worst_of).fold(0.0, f64::max)
    }
}

/// Whether the first ten agree, position by position, up to documents whose scores the
/// encrypted ranking is not meant to tell apart.
fn same_top10(encrypted: &Answer, plain: &[Ranked]) -> bool {
    let tie = 2.0 * (encrypted.error_bound + encrypted.precision / 2.0);
    let score_of = |row| plain.iter().find(|hit| hit.row == row).map(|hit| hit.score);
    encrypted.hits.iter().zip(plain).take(10).all(|(ours, theirs)| {
        ours.row == theirs.row
            || score_of(ours.row).is_some_and(|score| (score - theirs.score).abs() <= tie)
    })
}
