//! The systems that are compared: raw search, its two controls, Shard with and without encryption,
//! and the baselines that were asked for, all over the documents of one vault.

mod blind;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rayon::prelude::*;
use serde::{Serialize, Serializer};
use shard_audit::baselines::{Baseline, CANDIDATES, Run, evaluate_baseline};
use shard_audit::quality::{Bootstrap, evaluate};
pub use shard_audit::quality::{
    Delta, EvaluateError, Evaluation as Judged, Measures, Qrels, QrelsError, SystemQuality,
    evaluate as judge,
};
use shard_client::{Answer, ClientError, Progress, Protection, SearchOptions, UNWATCHED, Watch};
use shard_geometry::{VectorSet, dot_f64, exact_top_k, exact_top_k_f64};
use shard_protocol::RowBatch;
use shard_server::Embedded;

use crate::baselines::protect;
use crate::input::shown;
use crate::{Documents, Error, Searcher, Vault};

/// Documents ranked for a query: Recall@100 looks no further.
const DEPTH: usize = 100;

/// Scores this close count as tied where two rankings are compared: a few times the precision
/// that scores are asked for.
pub const TIE: f64 = 5e-6;

/// How to compare.
#[derive(Clone)]
pub struct EvaluateOptions<'a> {
    /// How Shard searches; all candidates are returned, whatever `top` says. `candidates` is also
    /// the length of the shortlists of baselines that make one, [`CANDIDATES`] when `None`.
    pub search: SearchOptions,
    /// Other ways to protect the vectors.
    pub baselines: &'a [Baseline],
    /// Follows the queries that Shard searches under encryption, and those of each baseline; may end
    /// the work.
    pub watch: &'a Watch<'a>,
}

impl Default for EvaluateOptions<'_> {
    fn default() -> Self {
        Self { search: SearchOptions::default(), baselines: &[], watch: UNWATCHED }
    }
}

impl Vault {
    /// Searches for judged queries with every system, and compares each with raw exact search of
    /// the documents' own vectors.
    ///
    /// # Errors
    /// When the vault is empty or a query vault, the queries have another width than the
    /// documents, none of them is judged, or no document judged relevant for them is in the vault.
    pub fn evaluate(
        &self,
        queries: &Documents,
        qrels: &Qrels,
        options: &EvaluateOptions<'_>,
    ) -> Result<Evaluation, Error> {
        let documents = self.documents()?;
        check_judged(qrels, queries.ids(), documents.ids())?;
        if self.settings()?.protection == Protection::Blind {
            let searcher = self.embedded()?;
            return blind::compare(&documents, &searcher, queries, qrels, options);
        }
        let rows = self.published_rows()?;
        let searcher = self.searcher(Embedded::serving(rows.clone()))?;
        Comparison {
            vectors: documents.vectors(),
            ids: documents.ids(),
            published: &rows,
            searcher: &searcher,
            queries: queries.vectors(),
            query_ids: queries.ids(),
            qrels,
            options,
            done: AtomicU64::new(0),
        }
        .run()
    }
}

/// Refuses judgements that name no document of the vault: every figure would be zero. That no query
/// has any is said by the measures.
fn check_judged(qrels: &Qrels, queries: &[String], documents: &[String]) -> Result<(), Error> {
    let judged = queries.iter().filter_map(|query| qrels.judgements(query)).flatten();
    let judged = judged.filter(|&(_, &relevance)| relevance > 0).map(|(id, _)| id.as_str());
    let judged: BTreeSet<&str> = judged.collect();
    let (Some(example), Some(held)) = (judged.first(), documents.first()) else { return Ok(()) };
    if documents.iter().any(|id| judged.contains(id.as_str())) {
        return Ok(());
    }
    Err(Error::NoneJudged {
        judged: judged.len(),
        documents: documents.len(),
        example: shown(example),
        held: shown(held),
    })
}

/// Everything needed to compare.
struct Comparison<'a> {
    vectors: &'a VectorSet,
    ids: &'a [String],
    /// What the server holds, for Shard without encryption.
    published: &'a RowBatch,
    searcher: &'a Searcher<Embedded>,
    queries: &'a VectorSet,
    query_ids: &'a [String],
    qrels: &'a Qrels,
    options: &'a EvaluateOptions<'a>,
    done: AtomicU64,
}

/// Quality of each system.
#[derive(Serialize)]
pub struct Quality {
    /// Exact search of the vectors as they are.
    pub raw: SystemQuality,
    /// Shard with rotated rows.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub rotated: Option<RotatedQuality>,
    /// Shard, blind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard_blind: Option<SystemQuality>,
    /// Other ways to protect the vectors.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "by_name")]
    pub baselines: Vec<(Baseline, SystemQuality)>,
}

/// Quality of the paper's construction, with its controls.
#[derive(Serialize)]
pub struct RotatedQuality {
    /// A control: scores of the centred query.
    pub centred_full: SystemQuality,
    /// A control: scores in the first half of the principal coordinates.
    pub corrected_half: SystemQuality,
    /// Shard's shortlists, scored in the clear.
    pub shard_plain: SystemQuality,
    /// Shard.
    pub shard_encrypted: SystemQuality,
}

impl Quality {
    /// Every system under a name for people, raw search first.
    pub fn lines(&self) -> Vec<(String, &SystemQuality)> {
        let mut own = vec![("raw exact search", &self.raw)];
        if let Some(rotated) = &self.rotated {
            own.extend([
                ("  query centred (control)", &rotated.centred_full),
                ("  half of the dimensions (control)", &rotated.corrected_half),
                ("Shard, not encrypted", &rotated.shard_plain),
                ("Shard, encrypted", &rotated.shard_encrypted),
            ]);
        }
        own.extend(self.shard_blind.as_ref().map(|blind| ("Shard, blind", blind)));
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
#[derive(Serialize)]
pub struct Evaluation {
    /// Quality of each system.
    #[serde(flatten)]
    pub quality: Quality,
    /// The encrypted answers, by query; their hits are all candidates.
    #[serde(skip)]
    pub answers: Vec<Answer>,
    /// Queries that were judged.
    pub queries: usize,
    /// Queries that had no judged document.
    pub left_out: usize,
    /// Length of Shard's shortlist; documents that a search of a blind collection scores.
    pub candidates: usize,
    /// Coordinates that route, of a rotated collection.
    pub d_pub: Option<usize>,
    /// Cells that a search of a blind collection asks for, unless it asks for all documents.
    pub cells: Option<usize>,
    /// Of a blind collection, the share of the raw top 10 that is in its top 10.
    pub recall10: Option<f64>,
    /// Fraction of queries whose encrypted top 10 is that of the same shortlist without
    /// encryption, documents within [`TIE`] counting as tied.
    pub top10_identical: f64,
    /// The same without ties.
    pub top10_strict: f64,
    /// Largest distance of an encrypted score from the exact inner product.
    pub max_abs_error: f64,
}

/// A document by its row, and its score.
type Scored = (u32, f64);

impl Comparison<'_> {
    /// Runs every system on every query.
    fn run(&self) -> Result<Evaluation, Error> {
        let collection = self.searcher.collection().rotated();
        let collection = collection.expect("only rotated collections are compared here");
        let pca = collection.model().pca();
        let raw = self.exact(|query| {
            Ok(exact_top_k(self.vectors, query, DEPTH)?.iter().map(|hit| hit.row).collect())
        })?;
        // (q - mu) . (x - mu) orders documents as (q - mu) . x does.
        let centred = self.exact(|query| {
            let shifted = query.iter().zip(pca.mean()).map(|(q, mu)| f64::from(*q) - mu);
            self.top(&shifted.collect::<Vec<_>>())
        })?;
        // q^T V_k V_k^T (x - mu) orders documents as (V_k V_k^T q) . x does.
        let half = self.exact(|query| {
            let width = pca.width();
            let kept = &pca.uncentred(query)[..width / 2];
            let mut projected = vec![0.0; width];
            for (coordinate, direction) in kept.iter().zip(pca.basis().chunks_exact(width)) {
                projected.iter_mut().zip(direction).for_each(|(p, v)| *p += coordinate * v);
            }
            self.top(&projected)
        })?;

        let search = &self.options.search;
        let candidates = search.candidates.unwrap_or(collection.model().candidates());
        let options =
            SearchOptions { top: candidates, candidates: Some(candidates), ..search.clone() };
        let plain: Vec<Vec<Scored>> = (0..self.queries.rows())
            .into_par_iter()
            .map(|row| {
                let query = self.queries.row(row);
                let hits = collection.search_in_the_clear(self.published, query, &options)?;
                Ok(hits.iter().map(|hit| (hit.row, hit.score)).collect())
            })
            .collect::<Result<_, Error>>()?;
        let mut answers = Vec::with_capacity(self.queries.rows());
        for row in 0..self.queries.rows() {
            answers.push(self.searcher.search(self.queries.row(row), &options)?);
            self.count_one()?;
        }
        let encrypted: Vec<Vec<Scored>> = answers
            .iter()
            .map(|answer| answer.hits.iter().map(|hit| (hit.row, hit.score)).collect())
            .collect();

        let raw = evaluate(self.qrels, &raw)?;
        let against = |run: &Run| -> Result<SystemQuality, Error> {
            let found = evaluate(self.qrels, run)?;
            SystemQuality::against(&raw, &found, Bootstrap::default()).map_err(Error::audit)
        };
        let baseline = |&baseline: &Baseline| -> Result<(Baseline, SystemQuality), Error> {
            Ok((baseline, against(&self.baseline_run(baseline)?)?))
        };
        let ranked = |found: &[Vec<Scored>]| {
            self.name(found.iter().map(|hits| hits.iter().map(|hit| hit.0).collect()))
        };
        let rotated = RotatedQuality {
            centred_full: against(&centred)?,
            corrected_half: against(&half)?,
            shard_plain: against(&ranked(&plain))?,
            shard_encrypted: against(&ranked(&encrypted))?,
        };
        let quality = Quality {
            raw: SystemQuality::baseline(&raw),
            rotated: Some(rotated),
            shard_blind: None,
            baselines: self.options.baselines.iter().map(baseline).collect::<Result<_, _>>()?,
        };
        let same = |tie| {
            let pairs = encrypted.iter().zip(&plain);
            let same = pairs.filter(|(ours, theirs)| same_top10(ours, theirs, tie)).count();
            same as f64 / answers.len() as f64
        };
        Ok(Evaluation {
            quality,
            queries: answers.len() - raw.left_out,
            left_out: raw.left_out,
            candidates,
            d_pub: Some(collection.model().split().prefix()),
            cells: None,
            recall10: None,
            top10_identical: same(TIE),
            top10_strict: same(0.0),
            max_abs_error: self.max_abs_error(&encrypted),
            answers,
        })
    }

    fn count_one(&self) -> Result<(), ClientError> {
        let done = 1 + self.done.fetch_add(1, Ordering::Relaxed);
        let total = (self.queries.rows() * (1 + self.options.baselines.len())) as u64;
        match (self.options.watch)(Progress { done, total }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(ClientError::Cancelled),
        }
    }

    /// The best documents by inner product with a vector in double precision.
    fn top(&self, query: &[f64]) -> Result<Vec<u32>, Error> {
        let found = exact_top_k_f64(self.vectors, query, DEPTH)?;
        Ok(found.iter().map(|hit| hit.row).collect())
    }

    fn exact(
        &self,
        search: impl Fn(&[f32]) -> Result<Vec<u32>, Error> + Sync,
    ) -> Result<Run, Error> {
        let ranked = (0..self.queries.rows())
            .into_par_iter()
            .map(|row| search(self.queries.row(row)))
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(self.name(ranked.into_iter()))
    }

    fn baseline_run(&self, baseline: Baseline) -> Result<Run, Error> {
        // A baseline goes through all of its queries; a break ends the evaluation after it.
        let stopped = AtomicBool::new(false);
        let count = || {
            if self.count_one().is_err() {
                stopped.store(true, Ordering::Relaxed);
            }
        };
        let run = evaluate_baseline(
            &protect(baseline, self.vectors)?,
            self.queries,
            self.query_ids,
            &|row| self.ids[row as usize].clone(),
            DEPTH,
            self.options.search.candidates.unwrap_or(CANDIDATES),
            &count,
        )
        .map_err(Error::audit)?;
        if stopped.into_inner() { Err(ClientError::Cancelled.into()) } else { Ok(run) }
    }

    /// Rankings by id, cut to the depth that is measured.
    fn name(&self, rankings: impl Iterator<Item = Vec<u32>>) -> Run {
        let id = |row: u32| self.ids[row as usize].clone();
        let names = |ranking: Vec<u32>| ranking.into_iter().take(DEPTH).map(id).collect();
        self.query_ids.iter().cloned().zip(rankings.map(names)).collect()
    }

    fn max_abs_error(&self, encrypted: &[Vec<Scored>]) -> f64 {
        let error = |query: &[f32], &(row, score): &Scored| {
            (score - dot_f64(query, self.vectors.row(row as usize))).abs()
        };
        let worst = |(row, hits): (usize, &Vec<Scored>)| {
            let query = self.queries.row(row);
            hits.iter().map(|hit| error(query, hit)).fold(0.0, f64::max)
        };
        encrypted.iter().enumerate().map(worst).fold(0.0, f64::max)
    }
}

/// Whether the first ten agree, position by position, up to documents whose exact scores are no
/// further apart than `tie`.
fn same_top10(ours: &[Scored], theirs: &[Scored], tie: f64) -> bool {
    let exact = |row| theirs.iter().find(|hit| hit.0 == row).map(|hit| hit.1);
    let agree = |(ours, theirs): (&Scored, &Scored)| {
        ours.0 == theirs.0 || exact(ours.0).is_some_and(|score| (score - theirs.1).abs() <= tie)
    };
    ours.len() == theirs.len() && ours.iter().zip(theirs).take(10).all(agree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_documents_within_the_tie_may_swap() {
        let exact = [(1, 0.9), (2, 0.5), (3, 0.499_999)];
        let swapped = [(1, 0.9), (3, 0.5), (2, 0.5)];
        assert!(same_top10(&exact, &exact, 0.0));
        assert!(!same_top10(&swapped, &exact, 0.0) && same_top10(&swapped, &exact, TIE));
        assert!(!same_top10(&[(2, 0.9), (1, 0.5), (3, 0.4)], &exact, TIE));
        assert!(!same_top10(&exact[..2], &exact, TIE));
    }
}
