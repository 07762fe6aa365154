//! How long a shortlist has to be.
//!
//! The paper takes for `global` the fewest candidates `K` at which a search through codes is as good
//! as one that scores all rows, within the interval over five seeds of keys and codebooks. Shard's
//! shortlists come from prefixes and have no seed: there the interval is the paired one over queries.
//! A search is as good where its interval reaches up to that of all rows. What a fit of Shard chooses by itself stands beside it.

use anyhow::Result;
use rayon::prelude::*;
use shard_geometry::{TuneRequest, VectorSet, Work, tune};

use super::baseline::Baseline;
use super::measure::{PlainShard, SEED, judged, named};
use super::protected::Protected;
use crate::finding::{Finding, Plot, Section, Series};
use crate::quality::{Bootstrap, Evaluation, compare, evaluate};
use crate::subject::Corpus;
use crate::tools::statistics::{generator, mean};

const NAME: &str = "candidates";

/// Numbers of candidates that are tried.
const TRIED: [usize; 7] = [10, 20, 40, 80, 160, 320, 640];

/// Seeds of keys and codebooks, as many as in the paper.
const SEEDS: u64 = 5;

/// The 97.5 % quantile of Student's law with four degrees of freedom.
const STUDENT: f64 = 2.776;

/// What the paper chose.
const PAPER: f64 = 40.0;

/// Documents that are ranked.
const DEPTH: usize = 10;

/// The choice of the number of candidates, for every corpus that people judged.
///
/// # Errors
/// When a corpus cannot be protected or searched.
pub fn reproduce_candidates(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new(NAME, "How many candidates a search needs");
    section.notes = vec![
        "The paper chose 40 for its baseline on a million documents; ours are thousands, and codes of \
         few documents are finer."
            .into(),
        "global: mean nDCG@10 over five seeds of keys and codebooks, with Student's interval; chosen \
         is the fewest candidates whose interval reaches the nDCG@10 of scoring all rows. shard: the \
         difference from scoring all rows with a paired bootstrap; chosen is the fewest candidates \
         whose interval reaches zero. tuned_candidates is what a fit of Shard chooses without judgements."
            .into(),
    ];
    let mut lines = Vec::new();
    for corpus in judged(corpora) {
        progress(&format!("candidates: {} / {}", corpus.name, corpus.encoder));
        let setting = format!("dataset={},encoder={}", corpus.name, corpus.encoder);
        let line = of_global(corpus, &format!("{setting},system=global"), &mut section)?;
        if corpus.encoder == "minilm" {
            lines.push(Series { name: corpus.name.clone(), points: line });
        }
        of_shard(corpus, &format!("{setting},system=shard"), &mut section)?;
    }
    if !lines.is_empty() {
        section.plots.push(Plot {
            name: NAME.into(),
            title: "Quality by the length of the shortlist from codes".into(),
            x_label: "candidates".into(),
            y_label: "nDCG@10".into(),
            logarithmic: true,
            series: lines,
        });
    }
    Ok(section)
}

type Points = Vec<(f64, f64, Option<[f64; 2]>)>;

fn of_global(corpus: &Corpus, setting: &str, section: &mut Section) -> Result<Points> {
    let rows = corpus.vectors.rows();
    let protected: Vec<Protected> = (0..SEEDS)
        .into_par_iter()
        .map(|seed| Baseline::Global.protect(&corpus.vectors, SEED + seed))
        .collect::<Result<_>>()?;
    let ndcg = |protected: &Protected, candidates: usize| -> Result<f64> {
        let found = search(&corpus.queries, |query| {
            let hits = protected.search_in_the_clear(query, DEPTH, candidates)?;
            Ok(hits.iter().map(|hit| hit.row).collect())
        })?;
        Ok(evaluate(&corpus.qrels, &named(corpus, &found))?.mean().ndcg10)
    };
    // Every seed scores the same projection of all rows.
    let all = ndcg(&protected[0], rows)?;
    let finding = |setting: String, metric: &str, value: f64| {
        Finding::new(NAME, setting, metric, value).on(SEED, rows)
    };
    section.findings.push(finding(format!("{setting},candidates=all"), "ndcg_at_10", all));
    let mut points = Points::new();
    for candidates in TRIED.into_iter().filter(|&candidates| candidates < rows) {
        let values: Vec<f64> =
            protected.iter().map(|one| ndcg(one, candidates)).collect::<Result<_>>()?;
        let interval = student(&values);
        points.push((candidates as f64, mean(&values), Some(interval)));
        let setting = format!("{setting},candidates={candidates}");
        section.findings.push(finding(setting, "ndcg_at_10", mean(&values)).ci95(interval));
    }
    if let Some(chosen) = fewest(&points, all) {
        let finding = finding(setting.to_owned(), "chosen_candidates", chosen);
        section.findings.push(finding.paper(PAPER));
    }
    Ok(points)
}

fn of_shard(corpus: &Corpus, setting: &str, section: &mut Section) -> Result<()> {
    let vectors = &corpus.vectors;
    let prefix = (vectors.width() / 4).max(1);
    let shard = PlainShard::fit(vectors, prefix)?;
    let ranked = |candidates: usize| -> Result<Evaluation> {
        let found = shard.search(&corpus.queries, candidates, DEPTH)?;
        Ok(evaluate(&corpus.qrels, &named(corpus, &found))?)
    };
    let all = ranked(vectors.rows())?;
    let finding = |setting: String, metric: &str, value: f64| {
        Finding::new(NAME, setting, metric, value).on(SEED, vectors.rows())
    };
    let mut points = Points::new();
    for candidates in TRIED.into_iter().filter(|&candidates| candidates < vectors.rows()) {
        let delta = compare(&all, &ranked(candidates)?, Bootstrap::default())?;
        points.push((candidates as f64, delta.delta_ndcg10, Some(delta.ci95)));
        let setting = format!("{setting},candidates={candidates}");
        section
            .findings
            .push(finding(setting, "delta_ndcg_at_10", delta.delta_ndcg10).ci95(delta.ci95));
    }
    if let Some(chosen) = fewest(&points, 0.0) {
        section.findings.push(finding(setting.to_owned(), "chosen_candidates", chosen));
    }
    let request = TuneRequest { d_pub: Some(prefix), ..TuneRequest::default() };
    let mut rng = generator(SEED, 1);
    let tuned = tune(vectors, &shard.pca, None, request, &mut rng, Work::unwatched())?;
    let tuned = finding(setting.to_owned(), "tuned_candidates", tuned.candidates as f64);
    section.findings.push(tuned);
    Ok(())
}

/// The fewest candidates whose interval reaches the quality of all rows.
fn fewest(points: &Points, all: f64) -> Option<f64> {
    // Rounding in a sum over queries is no difference.
    let reaches = |point: &&(f64, f64, Option<[f64; 2]>)| {
        point.2.is_some_and(|[_, high]| high >= all - 1e-12)
    };
    points.iter().find(reaches).map(|point| point.0)
}

fn search(
    queries: &VectorSet,
    find: impl Fn(&[f32]) -> Result<Vec<u32>> + Sync,
) -> Result<Vec<Vec<u32>>> {
    (0..queries.rows()).into_par_iter().map(|row| find(queries.row(row))).collect()
}

/// Student's interval of 95 % of the mean of five values, `mean -+ t s / sqrt(5)`.
fn student(values: &[f64]) -> [f64; 2] {
    debug_assert_eq!(values.len() as u64, SEEDS, "the quantile is that of five values");
    let (mean, count) = (mean(values), values.len() as f64);
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    let reach = STUDENT * (squares / (count - 1.0) / count).sqrt();
    [mean - reach, mean + reach]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::sample::judged_corpus;

    #[test]
    fn long_shortlists_are_as_good_as_all_rows_and_short_ones_are_not() {
        let section = reproduce_candidates(&[judged_corpus(400, 16, 30)], &|_| ()).unwrap();
        let value = |setting: &str, metric: &str| {
            let named = |f: &&Finding| f.setting.ends_with(setting) && f.metric == metric;
            section.findings.iter().find(named).map(|finding| finding.value)
        };
        let many = value("system=global,candidates=320", "ndcg_at_10").unwrap();
        let all = value("system=global,candidates=all", "ndcg_at_10").unwrap();
        assert!((many - all).abs() < 0.01, "{many} {all}");
        assert!(value("system=global", "chosen_candidates").unwrap() <= 320.0);
        let lost = value("system=shard,candidates=10", "delta_ndcg_at_10").unwrap();
        assert!(lost < 0.0, "{lost}");
        assert!(value("system=shard", "chosen_candidates").unwrap() > 10.0);
        assert!(value("system=shard", "tuned_candidates").unwrap() >= 10.0);
    }

    #[test]
    fn the_fewest_that_reach_all_are_chosen() {
        let points = vec![
            (10.0, 0.2, Some([0.1, 0.3])),
            (20.0, 0.4, Some([0.35, 0.45])),
            (40.0, 0.5, Some([0.48, 0.52])),
        ];
        let chosen = [0.25, 0.44, 0.5, 0.6].map(|all| fewest(&points, all));
        assert_eq!(chosen, [Some(10.0), Some(20.0), Some(40.0), None]);
    }

    #[test]
    fn students_interval_is_that_of_the_tables() {
        // Of 1..5 the deviation is sqrt(2.5), so the reach is 2.776 sqrt(0.5).
        let [low, high] = student(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!(
            (high - 3.0 - 2.776 * 0.5_f64.sqrt()).abs() < 1e-12 && (low + high - 6.0).abs() < 1e-12
        );
        assert_eq!(student(&[0.5; 5]), [0.5, 0.5]);
    }
}
