//! Projections to half of the coordinates, side by side: principal axes, a Haar basis, normal
//! entries.
//!
//! Each is judged by what it costs in quality, by the neighbours that its rows show, and by how many
//! rows an attacker with known pairs finds again, who fits a linear map from rows back to vectors.
//! The map cannot be exact, as a projection drops half of a vector; plain least squares would fit
//! what was dropped wherever there are about as many pairs as coordinates, so the fit has a penalty,
//! chosen by leaving out one pair at a time.

use anyhow::Result;
use rayon::prelude::*;
use shard_geometry::{Pca, VectorSet};

use super::baseline::Baseline;
use super::measure::{DEPTH, RESAMPLES, SEED, best_by_product, judged, named, other_neighbours};
use crate::alignment::estimators::Estimator;
use crate::alignment::trial::{Attack, Disclosure, Draw, Trial, measure};
use crate::finding::{Finding, Section};
use crate::quality::{Evaluation, evaluate, paired_bootstrap};
use crate::subject::{Corpus, coordinates};
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::shares;
use crate::tools::statistics::{generator, interval, mean, sample};

const NAME: &str = "projections";

/// Seeds of the random projections.
const SEEDS: [u64; 3] = [SEED, SEED + 1, SEED + 2];

/// Documents whose neighbours are looked for.
const PROBES: usize = 500;

/// Targets and candidates of the attack with known pairs.
const TARGETS: usize = 256;
const GALLERY: usize = 5_000;

/// Fewest documents that can be attacked.
const FEWEST_ROWS: usize = 64;

/// A linear map of vectors and of queries, of which inner products are taken.
struct Projected {
    rows: Matrix,
    queries: Matrix,
}

/// The projections by name: what each makes of a corpus under a seed. Principal axes have none.
const SYSTEMS: [(&str, Option<Baseline>); 3] = [
    ("pca-truncation", None),
    ("orthogonal-projection", Some(Baseline::OrthogonalProjection)),
    ("gaussian-projection", Some(Baseline::GaussianProjection)),
];

/// The projections of the paper's appendix, for every corpus that people judged.
///
/// # Errors
/// When a corpus cannot be projected, searched or attacked.
pub fn reproduce_projections(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new(NAME, "Projections to half of the coordinates");
    section.notes = vec![
        "The paper says of them that the choice is a matter of the encoder and no protection, and gives \
         no figure. Random projections over three seeds; differences of nDCG@10 are of the mean over \
         seeds, with a paired bootstrap over queries."
            .into(),
        "recall_at_1 is that of ridge regression from known pairs of vector and row, the penalty by \
         leave-one-out, among up to 5,000 candidates of which known pairs are none."
            .into(),
    ];
    for corpus in judged(corpora) {
        progress(&format!("projections: {} / {}", corpus.name, corpus.encoder));
        if corpus.vectors.rows() < FEWEST_ROWS {
            section.notes.push(format!("{} has too few documents.", corpus.name));
            continue;
        }
        section.findings.extend(of_corpus(corpus)?);
    }
    Ok(section)
}

fn of_corpus(corpus: &Corpus) -> Result<Vec<Finding>> {
    let vectors = &corpus.vectors;
    let native = Matrix::from_vectors(vectors);
    let judge = |projected: &Projected| -> Result<Evaluation> {
        let found = best_by_product(&projected.queries, &projected.rows, DEPTH);
        Ok(evaluate(&corpus.qrels, &named(corpus, &found))?)
    };
    let raw = Projected { rows: native.clone(), queries: Matrix::from_vectors(&corpus.queries) };
    let ndcg = |evaluation: &Evaluation| -> Vec<f64> {
        evaluation.measures.iter().map(|measures| measures.ndcg10).collect()
    };
    let raw_ndcg = ndcg(&judge(&raw)?);
    let probes = sample(vectors.rows(), PROBES, &mut generator(SEED, 1));
    let exact = other_neighbours(&native, &probes, 10);
    let mut findings = Vec::new();
    for (system, baseline) in SYSTEMS {
        let seeds = if baseline.is_some() { &SEEDS[..] } else { &SEEDS[..1] };
        let (mut by_query, mut overlap, mut trials) =
            (vec![0.0; raw_ndcg.len()], Vec::new(), Vec::new());
        for &seed in seeds {
            let projected = match baseline {
                Some(baseline) => random(baseline, corpus, seed)?,
                None => principal(vectors, &corpus.queries)?,
            };
            for (sum, own) in by_query.iter_mut().zip(ndcg(&judge(&projected)?)) {
                *sum += own / seeds.len() as f64;
            }
            overlap.extend(shares(&exact, &other_neighbours(&projected.rows, &probes, 10)));
            trials.push(trial(&native, &projected.rows, seed)?);
        }
        let setting = format!("dataset={},encoder={},system={system}", corpus.name, corpus.encoder);
        let finding = |metric: &str, value: f64| {
            Finding::new(NAME, &setting, metric, value).on(SEED, vectors.rows())
        };
        let delta = paired_bootstrap(&raw_ndcg, &by_query, Default::default())?;
        findings.push(finding("ndcg_at_10", mean(&by_query)));
        let difference = mean(&by_query) - mean(&raw_ndcg);
        findings.push(finding("delta_ndcg_at_10", difference).ci95(delta));
        findings.push(
            finding("nn_overlap_at_10", mean(&overlap))
                .ci95(interval(&overlap, RESAMPLES, SEED))
                .chance((10.0 / (vectors.rows() - 1) as f64).min(1.0)),
        );
        for pairs in [vectors.width() / 8, vectors.width() / 2] {
            let attack = Attack::Estimate(Estimator::RidgeValidated);
            let measured = measure(&trials, attack, Disclosure::Diffuse, pairs)?;
            findings.push(measured.finding(NAME, &format!("{setting},")).on(SEED, vectors.rows()));
        }
    }
    Ok(findings)
}

/// A baseline's projection of documents, and the same of queries.
fn random(baseline: Baseline, corpus: &Corpus, seed: u64) -> Result<Projected> {
    // The projection depends on the width and the seed alone, so both sides have the same.
    let of = |vectors: &VectorSet| -> Result<Matrix> {
        Ok(baseline.protect(vectors, seed)?.release().rows)
    };
    Ok(Projected { rows: of(&corpus.vectors)?, queries: of(&corpus.queries)? })
}

/// `V_k^T (x - mu)` of documents and `V_k^T q` of queries, `k = d/2`.
fn principal(vectors: &VectorSet, queries: &VectorSet) -> Result<Projected> {
    let pca = Pca::fit(vectors)?;
    let kept = (vectors.width() / 2).max(1);
    let of_queries = (0..queries.rows()).into_par_iter();
    let of_queries = of_queries.flat_map_iter(|row| pca.uncentred(queries.row(row)));
    let queries = Matrix::new(vectors.width(), of_queries.collect()).columns(0..kept);
    Ok(Projected { rows: coordinates(&pca, vectors).columns(0..kept), queries })
}

/// A game about vectors and what a projection stores of them, both centred: one key for all rows.
fn trial(native: &Matrix, rows: &Matrix, seed: u64) -> Result<Trial> {
    let centred = |matrix: &Matrix| {
        let mean = matrix.column_means();
        matrix.clone().minus(&mean)
    };
    let (native, rows) = (centred(native), centred(rows));
    let all: Vec<usize> = (0..native.rows()).collect();
    let draw = Draw::new(&all, TARGETS, GALLERY, native.width(), &mut generator(seed, 2));
    let stored = draw.stored();
    Trial::new(
        &draw,
        rows.select(&stored),
        native.select(&stored),
        vec![0; stored.len()],
        native.select(&draw.gallery),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::sample::judged_corpus;

    #[test]
    fn projections_lose_quality_and_hide_nothing_from_known_pairs() {
        let section = reproduce_projections(&[judged_corpus(400, 32, 40)], &|_| ()).unwrap();
        let value = |part: &str, metric: &str| {
            let named = |f: &&Finding| f.setting.contains(part) && f.metric == metric;
            section.findings.iter().find(named).expect("a finding").value
        };
        // Variance is in the first coordinates: principal axes keep more of it than random ones.
        let lost = |system: &str| value(&format!("system={system}"), "delta_ndcg_at_10");
        assert!(lost("pca-truncation") > lost("orthogonal-projection"));
        assert!(lost("orthogonal-projection") < -0.05 && lost("gaussian-projection") < -0.05);
        for (system, _) in SYSTEMS {
            let found = |pairs: usize| {
                let setting = format!("system={system},attack=ridge-cv,pairs={pairs}");
                section.findings.iter().find(|f| f.setting.ends_with(&setting)).expect("a finding")
            };
            // Half of the coordinates tell some rows of the sample apart, not all.
            let [few, enough] = [4, 16].map(found);
            assert!(enough.value > 20.0 * enough.chance.unwrap(), "{system} {}", enough.value);
            assert!(few.value < enough.value, "{system} {} {}", few.value, enough.value);
            assert!(value(&format!("system={system}"), "nn_overlap_at_10") > 0.2, "{system}");
        }
        let few = reproduce_projections(&[judged_corpus(40, 16, 5)], &|_| ()).unwrap();
        assert!(few.findings.is_empty() && few.notes.len() == 3);
    }
}
