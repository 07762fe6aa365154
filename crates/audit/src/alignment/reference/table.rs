//! The paper's table of reference lookup after alignment, and the lookup of prefixes.

use anyhow::Context;
use shard_geometry::Pca;

use super::*;
use crate::alignment::procrustes::{Rotated, rotated_back};
use crate::finding::{Plot, Series};
use crate::subject::{Corpus, coordinates};
use crate::tools::statistics::hierarchical_interval;

const TABLE: &str = "reference";

/// Rotation seeds.
const SEEDS: u64 = 5;

/// Rows that are looked up.
const TARGETS: usize = 500;

/// Rows that they are hidden among, where there are as many.
const DECOYS: usize = 100_000;

/// Pairs that undo a keyed prefix.
const PREFIX_ANCHORS: usize = 200;

/// Pairs, recall at 1 and at 10, Jaccard with an overlapping and with a disjoint reference.
const PAPER: [(usize, [f64; 4]); 6] = [
    (0, [0.000, 0.000, 0.006, 0.006]),
    (10, [0.000, 0.009, 0.009, 0.009]),
    (25, [0.044, 0.132, 0.055, 0.012]),
    (50, [0.535, 0.784, 0.543, 0.018]),
    (100, [0.998, 1.000, 0.999, 0.034]),
    (192, [1.000, 1.000, 1.000, 0.043]),
];

/// "Reference-corpus lookup attack", on the largest collection of MiniLM vectors at hand.
///
/// # Errors
/// When there is no collection, or a decomposition does not converge.
pub fn reproduce_reference(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new(TABLE, "Reference-corpus lookup after alignment");
    let corpus = corpora
        .iter()
        .max_by_key(|corpus| (corpus.encoder == "minilm", corpus.vectors.rows()))
        .context("reference lookup needs a collection")?;
    let all = coordinates(&Pca::fit(&corpus.vectors)?, &corpus.vectors);
    let kept = (all.width() / 2).max(1);
    let rows: Vec<usize> = (0..all.rows()).collect();
    let games: Vec<Draw> = (0..SEEDS)
        .map(|seed| Draw::new(&rows, TARGETS, TARGETS + DECOYS, 500, &mut generator(seed, 720)))
        .collect();
    let table = Table { corpus, games, rows: all.rows() };
    let native = all.columns(0..kept);
    let mut lines = Vec::new();
    for estimator in [Estimator::Procrustes, Estimator::LeastSquares] {
        let mut points = Vec::new();
        for (pairs, paper) in PAPER {
            // The paper's last row is at as many pairs as coordinates.
            let pairs = if pairs == 192 { kept } else { pairs };
            if table.games.iter().any(|draw| draw.disclosed.len() < pairs) {
                continue;
            }
            progress(&format!("reference: {}, {pairs} pairs", estimator.name()));
            let paper = (estimator == Estimator::Procrustes).then_some(paper);
            let setting = format!("space=half,attack={},pairs={pairs}", estimator.name());
            let attack = Lookups { native: &native, pairs, estimator };
            points.push(table.record(&mut section, &attack, &setting, paper)?);
        }
        lines.push(Series { name: estimator.name().into(), points });
    }
    section.plots.push(Plot {
        name: TABLE.into(),
        title: "Rows found in an overlapping reference corpus".into(),
        x_label: "known pairs".into(),
        y_label: "recall at 1".into(),
        logarithmic: true,
        series: lines,
    });
    drop(native);
    let prefix_width = (all.width() / 4).max(1);
    let prefixes = all.columns(0..prefix_width);
    drop(all);
    progress("reference: prefixes");
    let direct = Lookups { native: &prefixes, pairs: 0, estimator: Estimator::Procrustes };
    table.record_unkeyed(&mut section, &direct)?;
    if table.games.iter().all(|draw| draw.disclosed.len() >= PREFIX_ANCHORS) {
        let keyed = Lookups { pairs: PREFIX_ANCHORS, ..direct };
        let setting = format!("space=prefix,key=haar,pairs={PREFIX_ANCHORS}");
        let paper = [0.995, f64::NAN, f64::NAN, f64::NAN];
        table.record(&mut section, &keyed, &setting, Some(paper))?;
    }
    section.notes.push(format!(
        "{} with {} vectors in place of e5-small: {} targets among {} rows, k = {kept}, prefix \
         {prefix_width}. Known pairs are of rows that are not targets. `procrustes` completes the \
         rotation arbitrarily, as the paper's attack does; `ols` needs fewer pairs.",
        corpus.name,
        corpus.encoder,
        table.games[0].targets.len(),
        table.games[0].gallery.len()
    ));
    section.notes.push(match corpus.texts {
        Some(_) => {
            "Token overlap has no common level of chance: two passages of one language share \
                    their function words. What lookup by unaligned rows (pairs=0) finds is the \
                    level for these texts."
                .into()
        }
        None => "No texts, so token overlap is not measured.".into(),
    });
    Ok(section)
}

/// What is attacked and how.
#[derive(Clone, Copy)]
struct Lookups<'a> {
    native: &'a Matrix,
    pairs: usize,
    estimator: Estimator,
}

struct Table<'a> {
    corpus: &'a Corpus,
    games: Vec<Draw>,
    rows: usize,
}

impl Table<'_> {
    /// Attacks rows under one rotation per seed; the point of the plot.
    fn record(
        &self,
        section: &mut Section,
        attack: &Lookups<'_>,
        setting: &str,
        paper: Option<[f64; 4]>,
    ) -> Result<(f64, f64, Option<[f64; 2]>)> {
        let judged = self.games.iter().zip(0..).map(|(draw, seed)| {
            let rotated = Rotated::new(attack.native.select(&draw.stored()), seed);
            let count = draw.targets.len();
            let probes: Vec<usize> = (0..count).collect();
            let shown: Vec<usize> = (count..count + attack.pairs).collect();
            let pairs =
                (attack.pairs > 0).then(|| Pairs::of(&rotated.native, &rotated.rows, &shown));
            let rows = rotated.rows.select(&probes);
            let found = rotated_back(&rows, pairs.as_ref(), attack.estimator)?;
            Ok(self.judged(draw, &found, attack.native))
        });
        let judged = judged.collect::<Result<Vec<_>>>()?;
        Ok(self.write(section, &judged, setting, paper))
    }

    /// Looks prefixes up as they are stored.
    fn record_unkeyed(&self, section: &mut Section, attack: &Lookups<'_>) -> Result<()> {
        let judged: Vec<Judged> = self
            .games
            .iter()
            .map(|draw| self.judged(draw, &attack.native.select(&draw.targets), attack.native))
            .collect();
        self.write(section, &judged, "space=prefix,key=none,pairs=0", None);
        Ok(())
    }

    fn judged(&self, draw: &Draw, found: &Matrix, native: &Matrix) -> Judged {
        let count = draw.targets.len();
        let reference = native.select(&draw.gallery);
        let lookups = look_up(found, &reference, count, Metric::Cosine);
        let own: Vec<usize> = (0..count).collect();
        judge(&lookups, &own, &draw.gallery, self.corpus.texts.as_deref())
    }

    fn write(
        &self,
        section: &mut Section,
        judged: &[Judged],
        setting: &str,
        paper: Option<[f64; 4]>,
    ) -> (f64, f64, Option<[f64; 2]>) {
        let guess = 1.0 / self.games[0].gallery.len() as f64;
        let mut point = (0.0, 0.0, None);
        for at in 0..judged[0].scores(guess).len() {
            let (metric, _, chance) = judged[0].scores(guess)[at];
            let by_seed: Vec<Vec<f64>> =
                judged.iter().map(|judged| judged.scores(guess)[at].1.clone()).collect();
            let (value, range) = (mean(&by_seed.concat()), hierarchical_interval(&by_seed, 500, 0));
            let paper = paper.map(|row| row[at]).filter(|figure| figure.is_finite());
            let finding = Finding::new(TABLE, setting, metric, value).ci95(range).paper(paper);
            section.findings.push(Finding { chance, ..finding.on(0, self.rows) });
            if metric == "recall_at_1" {
                let pairs = setting.rsplit("pairs=").next().and_then(|pairs| pairs.parse().ok());
                point = (pairs.unwrap_or(0.0), value, Some(range));
            }
        }
        point
    }
}
