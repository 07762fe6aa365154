//! Whether protected scores order documents as raw scores do.
//!
//! With one key per cell the score is `S(q, i) = <u_q, u_i> + <H_c r_q, H_c r_i>`, which in exact
//! arithmetic is `q . x_i - q . mu`. The table computes it in double precision, keys and all, for
//! every document, and counts the queries whose whole order is that of `q . x`. Scores of `global`,
//! which are computed under encryption, are compared with `q^T V_k V_k^T (x - mu)` by Pearson's
//! correlation and the largest error.

use anyhow::Result;
use rayon::prelude::*;
use shard_geometry::{OrthogonalKey, Pca, VectorSet};

use super::baseline::Baseline;
use super::measure::{RESAMPLES, SEED, judged};
use super::protected::CANDIDATES;
use crate::finding::{Finding, Section};
use crate::quality::pearson;
use crate::subject::{Corpus, cells_of, coordinates};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, interval, mean, sample};

const NAME: &str = "order";

/// Most queries of a collection.
const QUERIES: usize = 400;

/// Cells, each with a key of its own.
const CELLS: usize = 64;

/// Fewest documents in a cell, on average.
const CELL_ROWS: usize = 8;

/// The paper's largest error in double precision, its bounds on the correlation of decrypted and
/// exact scores and on their relative difference.
const PAPER_ERROR: f64 = 7.71e-16;
const PAPER_PEARSON: f64 = 0.9999;
const PAPER_RELATIVE_ERROR: f64 = 1e-3;

/// The order of protected scores, in double precision and under encryption, for every corpus.
///
/// # Errors
/// When a corpus has no principal axes, or the operating system gives no randomness.
pub fn reproduce_order(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new(NAME, "The order of protected scores");
    section.notes = vec![
        format!(
            "Double precision, {CELLS} cells with Haar keys (fewer in small collections), all documents, up \
             to {QUERIES} queries: the share of queries whose complete order is that of raw inner \
             products. Documents with the same raw score have no order. The error is of all scores, the \
             rounding of keys included, which the paper's check may not apply."
        ),
        format!(
            "Under encryption: scores of the {CANDIDATES} candidates of the baseline `global`, as the \
             client reads them, against the same scores in double precision. The paper states a \
             correlation above 0.9999 and a relative error below 0.001, and no figure. \
             pearson_deficit is one minus the lowest correlation of a query."
        ),
    ];
    for corpus in corpora.iter().filter(|corpus| corpus.queries.rows() > 0) {
        progress(&format!("order: {} / {}", corpus.name, corpus.encoder));
        let asked = sample(corpus.queries.rows(), QUERIES, &mut generator(SEED, 1));
        let (same, error) = in_double_precision(&corpus.vectors, &corpus.queries, &asked)?;
        let setting = format!("dataset={},encoder={},scores=float64", corpus.name, corpus.encoder);
        let rows = corpus.vectors.rows();
        let share = Finding::share(NAME, &setting, "identical_order", &same);
        section.findings.push(share.paper(1.0).on(SEED, rows));
        let error = Finding::new(NAME, &setting, "max_abs_error", error);
        section.findings.push(error.paper(PAPER_ERROR).on(SEED, rows));
    }
    for corpus in judged(corpora) {
        progress(&format!("order: {} / {}, encrypted", corpus.name, corpus.encoder));
        section.findings.extend(under_encryption(corpus)?);
    }
    Ok(section)
}

/// One for each query whose order is the same, and the largest difference of a score.
fn in_double_precision(
    vectors: &VectorSet,
    queries: &VectorSet,
    asked: &[usize],
) -> Result<(Vec<f64>, f64)> {
    let pca = Pca::fit(vectors)?;
    let width = vectors.width();
    let prefix = (width / 4).max(1).min(width - 1);
    let all = coordinates(&pca, vectors);
    let mut rng = generator(SEED, 2);
    let count = CELLS.min(vectors.rows() / CELL_ROWS).max(1);
    let cells = cells_of(&all.columns(0..prefix), count, &mut rng)?;
    let keys: Vec<OrthogonalKey> =
        (0..count).map(|_| OrthogonalKey::sample(width - prefix, &mut rng)).collect();
    let mut stored = all;
    stored
        .values_mut()
        .par_chunks_exact_mut(width)
        .zip(&cells)
        .for_each(|(row, &cell)| keys[cell as usize].apply(&mut row[prefix..]));
    let raw = Matrix::from_vectors(vectors);
    let compared = asked.par_iter().map(|&query| {
        let query = queries.row(query);
        let scoring = pca.uncentred(query);
        // u_q, and r_q under the key of each cell.
        let by_cell: Vec<Vec<f64>> = keys
            .iter()
            .map(|key| {
                let mut own = scoring.clone();
                key.apply(&mut own[prefix..]);
                own
            })
            .collect();
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let query: Vec<f64> = query.iter().map(|&q| f64::from(q)).collect();
        let offset = dot(&query, pca.mean());
        let mut scores: Vec<(f64, f64)> = raw
            .iter()
            .zip(stored.iter().zip(&cells))
            .map(|(x, (z, &cell))| (dot(&query, x), dot(&by_cell[cell as usize], z)))
            .collect();
        let difference = |&(raw, protected): &(f64, f64)| (raw - offset - protected).abs();
        let error = scores.iter().map(difference).fold(0.0, f64::max);
        (f64::from(same_order(&mut scores)), error)
    });
    let compared: Vec<(f64, f64)> = compared.collect();
    let error = compared.iter().map(|one| one.1).fold(0.0, f64::max);
    Ok((compared.into_iter().map(|one| one.0).collect(), error))
}

/// Whether the second of each pair falls wherever the first does. Equal firsts have no order.
fn same_order(scores: &mut [(f64, f64)]) -> bool {
    scores.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let mut least_so_far = f64::INFINITY;
    for tied in scores.chunk_by(|a, b| a.0 == b.0) {
        let most = tied.iter().map(|one| one.1).fold(f64::NEG_INFINITY, f64::max);
        if most >= least_so_far {
            return false;
        }
        least_so_far = tied.iter().map(|one| one.1).fold(f64::INFINITY, f64::min);
    }
    true
}

/// Decrypted scores of `global` beside exact ones.
fn under_encryption(corpus: &Corpus) -> Result<Vec<Finding>> {
    let vectors = &corpus.vectors;
    let protected = Baseline::Global.protect(vectors, SEED)?;
    let pca = Pca::fit(vectors)?;
    let kept = protected.release().rows.width();
    let asked = sample(corpus.queries.rows(), QUERIES, &mut generator(SEED, 1));
    let compared = asked.par_iter().map(|&query| -> Result<(f64, f64, f64)> {
        let query = corpus.queries.row(query);
        let scoring = pca.uncentred(query);
        let exact = |row: u32| -> f64 {
            let row = pca.centred(vectors.row(row as usize));
            scoring[..kept].iter().zip(&row[..kept]).map(|(q, x)| q * x).sum()
        };
        let hits = protected.search(query, CANDIDATES, CANDIDATES)?;
        let pairs: Vec<(f64, f64)> = hits.iter().map(|hit| (hit.score, exact(hit.row))).collect();
        let error = pairs.iter().map(|(found, exact)| (found - exact).abs()).fold(0.0, f64::max);
        let largest = pairs.iter().map(|(_, exact)| exact.abs()).fold(0.0, f64::max);
        Ok((pearson(&pairs), error, error / largest.max(f64::MIN_POSITIVE)))
    });
    let compared: Vec<(f64, f64, f64)> = compared.collect::<Result<_>>()?;
    let setting = format!(
        "dataset={},encoder={},scores=encrypted,candidates={CANDIDATES}",
        corpus.name, corpus.encoder
    );
    let finding = |metric: &str, value: f64| {
        Finding::new(NAME, &setting, metric, value).on(SEED, vectors.rows())
    };
    let correlations: Vec<f64> = compared.iter().map(|one| one.0).collect();
    let most = |of: fn(&(f64, f64, f64)) -> f64| compared.iter().map(of).fold(0.0, f64::max);
    Ok(vec![
        finding("pearson", mean(&correlations))
            .ci95(interval(&correlations, RESAMPLES, SEED))
            .paper(PAPER_PEARSON),
        finding("pearson_deficit", 1.0 - correlations.iter().copied().fold(1.0, f64::min))
            .paper(1.0 - PAPER_PEARSON),
        finding("max_abs_error", most(|one| one.1)),
        finding("max_relative_error", most(|one| one.2)).paper(PAPER_RELATIVE_ERROR),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::sample::judged_corpus;

    #[test]
    fn orders_are_the_same_but_for_ties() {
        assert!(same_order(&mut [(1.0, 5.0), (3.0, 7.0), (2.0, 6.0)]));
        assert!(!same_order(&mut [(1.0, 5.0), (3.0, 6.0), (2.0, 7.0)]));
        // A tie in the first is no order that the second could break.
        assert!(same_order(&mut [(2.0, 5.0), (2.0, 6.0), (1.0, 4.0)]));
        assert!(!same_order(&mut [(2.0, 5.0), (2.0, 3.0), (1.0, 4.0)]));
        assert!(!same_order(&mut [(2.0, 5.0), (1.0, 5.0)]), "a tie that was none");
    }

    #[test]
    fn keys_cancel_in_double_precision_and_encryption_is_close() {
        let corpora = [judged_corpus(300, 16, 20)];
        let section = reproduce_order(&corpora, &|_| ()).unwrap();
        let value = |part: &str, metric: &str| {
            let named = |f: &&Finding| f.setting.contains(part) && f.metric == metric;
            section.findings.iter().find(named).expect("a finding").value
        };
        assert_eq!(value("scores=float64", "identical_order"), 1.0);
        assert!(value("scores=float64", "max_abs_error") < 1e-14);
        assert!(value("scores=encrypted", "pearson_deficit") < 1.0 - PAPER_PEARSON);
        let error = value("scores=encrypted", "max_abs_error");
        assert!(error > 0.0 && error < 1e-4, "{error}");
        assert_eq!(section.findings.len(), 6);
    }
}
