//! Known pairs against one rotation of all rows: why a single key is not enough.
//!
//! The baseline keeps the first `k = d/2` principal coordinates and rotates all of them by one Haar
//! rotation, `z_i = Q V_k^T (x_i - mu)`. From `m` pairs the attacker solves
//! `min_W |Z W - Y|_F` over orthogonal `W`, `W = A B^T` where `Z^T Y = A S B^T`, and looks for the
//! rotated-back rows among native ones. With `m = 0` the rows are taken as they are.

use std::collections::HashSet;

use anyhow::{Context, Result};
use shard_geometry::{OrthogonalKey, Pca};

use super::estimators::{Estimator, Pairs};
use super::trial::{Draw, hits};
use crate::finding::{Finding, Plot, Section, Series, Verdict};
use crate::subject::{Corpus, Subject, coordinates};
use crate::tools::matrix::{Matrix, cosines};
use crate::tools::neighbours::{Metric, places_allowed};
use crate::tools::statistics::{generator, hierarchical_interval, mean};

/// Held-out rows that are looked for.
const PROBES: usize = 400;

/// Rows that they are looked for among.
const GALLERY: usize = 10_000;

/// Rotation seeds of the table.
const TABLE_SEEDS: u64 = 5;

/// Rotation seeds of the channel, which must be quick.
const CHANNEL_SEEDS: u64 = 2;

/// The paper's rows: pairs, cosine, relative error, recall at 1 and at 10. 192 is its `k`.
const PAPER: [(usize, f64, f64, f64, f64); 6] = [
    (0, -0.004, 1.417, 0.000, 0.001),
    (10, 0.098, 1.343, 0.005, 0.039),
    (50, 0.377, 1.116, 0.722, 0.925),
    (100, 0.621, 0.870, 1.000, 1.000),
    (192, 1.000, 1.8e-5, 1.000, 1.000),
    (500, 1.000, 4.9e-7, 1.000, 1.000),
];

/// The baseline's store: the first `k` coordinates under one Haar rotation.
pub(super) struct Rotated {
    pub(super) rows: Matrix,
    pub(super) native: Matrix,
}

impl Rotated {
    pub(super) fn new(native: Matrix, seed: u64) -> Self {
        let key = OrthogonalKey::sample(native.width(), &mut generator(seed, 700));
        let mut rows = native.clone();
        key.apply_many(rows.values_mut());
        Self { rows, native }
    }
}

/// Rotates rows back by the map fitted to the pairs; without pairs they stay as they are.
pub(super) fn rotated_back(
    rows: &Matrix,
    pairs: Option<&Pairs>,
    estimator: Estimator,
) -> Result<Matrix> {
    pairs.map_or_else(|| Ok(rows.clone()), |pairs| Ok(estimator.fit(pairs)?.apply(rows)))
}

/// What the baseline would give away if the owner used it instead.
///
/// # Errors
/// When a decomposition does not converge.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section =
        Section::new("global-procrustes", "The baseline: one rotation for the whole collection");
    let kept = subject.coordinates.width() / 2;
    if kept == 0 || subject.coordinates.rows() < 60 {
        section.notes.push("Not measured: it needs 60 rows of two coordinates.".into());
        return Ok(section);
    }
    let native = subject.coordinates.columns(0..kept);
    measure(&mut section, &native, subject.seed, CHANNEL_SEEDS, progress)?;
    section.notes.push(
        "This is not your release: it is what would leak if your vectors were stored under one \
         secret rotation, as simpler schemes do. About as many known pairs as there are \
         coordinates undo the rotation exactly, and far fewer are enough to name rows."
            .into(),
    );
    let recalls = section.findings.iter().enumerate();
    let recalls = recalls.filter(|(_, f)| f.metric == "recall_at_1");
    // With one key for all, as many pairs as coordinates are no more than a leak of some documents.
    let best = recalls.max_by(|a, b| a.1.value.total_cmp(&b.1.value));
    if let Some((at, verdict)) = best.map(|(at, f)| (at, Verdict::of(f, 1.0))) {
        (section.verdict, section.headline) = (Some(verdict), Some(at));
    }
    Ok(section)
}

/// "Known-plaintext Procrustes attack", on the largest collection of MiniLM vectors at hand.
///
/// # Errors
/// When there is no collection, or a decomposition does not converge.
pub fn reproduce_procrustes(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new("procrustes", "Known-plaintext Procrustes on one rotation");
    let corpus = corpora
        .iter()
        .max_by_key(|corpus| (corpus.encoder == "minilm", corpus.vectors.rows()))
        .context("the Procrustes attack needs a collection")?;
    let all = coordinates(&Pca::fit(&corpus.vectors)?, &corpus.vectors);
    let native = all.columns(0..all.width() / 2);
    measure(&mut section, &native, 0, TABLE_SEEDS, progress)?;
    section.notes.push(format!(
        "{} with {} vectors, k = {}, in place of e5-small. `procrustes` completes the rotation \
         arbitrarily outside the span of the pairs, as the paper's does; `procrustes-dropped` \
         leaves the completion out. Rows are exact in double precision, so the error at full rank \
         is smaller than the paper's in single precision.",
        corpus.name,
        corpus.encoder,
        native.width()
    ));
    Ok(section)
}

/// Scores of one seed.
struct Scores {
    cosine: Vec<f64>,
    error: Vec<f64>,
    first: Vec<f64>,
    tenth: Vec<f64>,
}

fn measure(
    section: &mut Section,
    native: &Matrix,
    seed: u64,
    seeds: u64,
    progress: &dyn Fn(&str),
) -> Result<()> {
    let (rows, kept) = (native.rows(), native.width());
    let all: Vec<usize> = (0..rows).collect();
    let channel = section.name.clone();
    let mut lines = Vec::new();
    let games: Vec<(Draw, Rotated)> = (seed..seed + seeds)
        .map(|seed| {
            let draw = Draw::new(&all, PROBES, GALLERY, 500, &mut generator(seed, 701));
            // Only rows that take part are rotated.
            let taking_part = Rotated::new(native.select(&draw.stored()), seed);
            (draw, taking_part)
        })
        .collect();
    for estimator in [Estimator::Procrustes, Estimator::ProcrustesDropped] {
        progress(&format!("one rotation: {}", estimator.name()));
        let mut points = Vec::new();
        let mut budgets = vec![0, 10, 50, 100, kept, 500];
        budgets.sort_unstable();
        budgets.dedup();
        for pairs in budgets.into_iter().filter(|&pairs| pairs <= games[0].0.disclosed.len()) {
            let scores: Vec<Scores> = games
                .iter()
                .map(|(draw, rotated)| score(native, draw, rotated, pairs, estimator))
                .collect::<Result<_>>()?;
            let paper = PAPER.iter().find(|row| match row.0 {
                192 => pairs == kept,
                other => pairs == other,
            });
            let paper = paper.filter(|_| estimator == Estimator::Procrustes);
            let candidates = games[0].0.gallery.len() as f64;
            let setting = format!("attack={},pairs={pairs}", estimator.name());
            let mut record =
                |metric: &str, pick: fn(&Scores) -> &Vec<f64>, chance: Option<f64>, paper| {
                    let by_seed: Vec<Vec<f64>> = scores.iter().map(|s| pick(s).clone()).collect();
                    let finding = if metric.starts_with("recall") {
                        Finding::share(&channel, &setting, metric, &by_seed.concat())
                    } else {
                        let value = mean(&by_seed.concat());
                        let interval = hierarchical_interval(&by_seed, 500, seed);
                        Finding::new(&channel, &setting, metric, value).ci95(interval)
                    };
                    let (value, interval) = (finding.value, finding.ci95);
                    let finding = Finding { chance, ..finding.paper(paper).on(seed, rows) };
                    section.findings.push(finding);
                    (value, interval)
                };
            record("cosine", |s| &s.cosine, Some(0.0), paper.map(|row| row.1));
            record("relative_error", |s| &s.error, None, paper.map(|row| row.2));
            let chance = Some(1.0 / candidates);
            let (value, interval) =
                record("recall_at_1", |s| &s.first, chance, paper.map(|row| row.3));
            record("recall_at_10", |s| &s.tenth, Some(10.0 / candidates), paper.map(|row| row.4));
            points.push((pairs as f64, value, interval));
        }
        lines.push(Series { name: estimator.name().into(), points });
    }
    section.plots.push(Plot {
        name: section.name.clone(),
        title: "One rotation for all rows: recovery by known pairs".into(),
        x_label: "known pairs".into(),
        y_label: "recall at 1".into(),
        logarithmic: true,
        series: lines,
    });
    Ok(())
}

/// Attacks the probes of one game with its first pairs, and judges.
fn score(
    native: &Matrix,
    draw: &Draw,
    rotated: &Rotated,
    pairs: usize,
    estimator: Estimator,
) -> Result<Scores> {
    let probes: Vec<usize> = (0..draw.targets.len()).collect();
    let shown: Vec<usize> = (probes.len()..probes.len() + pairs).collect();
    let shown = (pairs > 0).then(|| Pairs::of(&rotated.native, &rotated.rows, &shown));
    let found = rotated_back(&rotated.rows.select(&probes), shown.as_ref(), estimator)?;
    let truth = rotated.native.select(&probes);
    // A known pair is no candidate any more.
    let known: HashSet<usize> = draw.disclosed[..pairs].iter().copied().collect();
    let allowed = |_, place: usize| !known.contains(&draw.gallery[place]);
    let gallery = native.select(&draw.gallery);
    let places = places_allowed(&found, &gallery, &probes, Metric::Cosine, allowed);
    let error = found.iter().zip(truth.iter()).map(|(found, truth)| {
        let off: f64 = found.iter().zip(truth).map(|(a, b)| (a - b) * (a - b)).sum();
        let size: f64 = truth.iter().map(|x| x * x).sum();
        if size > 0.0 { (off / size).sqrt() } else { 0.0 }
    });
    Ok(Scores {
        error: error.collect(),
        cosine: cosines(&found, &truth),
        first: hits(&places, 1),
        tenth: hits(&places, 10),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::matrix::normal;

    fn recall(native: &Matrix, rotated: &Rotated, draw: &Draw, pairs: usize) -> (f64, f64) {
        let scores = score(native, draw, rotated, pairs, Estimator::Procrustes).expect("a score");
        (mean(&scores.first), mean(&scores.error))
    }

    #[test]
    fn as_many_pairs_as_coordinates_undo_a_rotation() {
        let native = normal(400, 24, 1);
        let all: Vec<usize> = (0..400).collect();
        let draw = Draw::new(&all, 50, 400, 24, &mut generator(2, 0));
        let rotated = Rotated::new(native.select(&draw.stored()), 3);
        let (first, error) = recall(&native, &rotated, &draw, 24);
        assert_eq!(first, 1.0);
        assert!(error < 1e-4, "{error}");
        let (none, _) = recall(&native, &rotated, &draw, 0);
        assert!(none < 0.1, "{none}");
    }

    #[test]
    fn rows_that_have_nothing_to_do_with_the_vectors_are_placed_by_chance() {
        let native = normal(400, 24, 1);
        let all: Vec<usize> = (0..400).collect();
        let draw = Draw::new(&all, 100, 400, 40, &mut generator(2, 0));
        let noise = Rotated { rows: normal(140, 24, 9), native: native.select(&draw.stored()) };
        let (first, error) = recall(&native, &noise, &draw, 40);
        assert!(first < 0.04 && error > 0.5, "{first} {error}");
    }
}
