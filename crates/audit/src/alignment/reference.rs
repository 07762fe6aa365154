//! Finding stored rows in a reference corpus: when the corpus overlaps the collection, a turned
//! row becomes a text.
//!
//! The attacker has native vectors and texts of a reference corpus and some known pairs, turns
//! rows back as far as the pairs allow, and reads the text of the nearest reference vector.
//! An overlapping reference holds the targets among decoys; a disjoint one holds decoys only and
//! is scored by the Jaccard overlap of token sets, `|A and B| / |A or B|`. Where the server holds
//! prefixes, they are looked up as they are, with no pair at all.

use std::collections::HashSet;

use anyhow::Result;
use rayon::prelude::*;
use shard_geometry::top_k;

use super::estimators::{Estimator, Pairs};
use super::partial::{FEWEST_ROWS, Known, not_measured};
use super::span::{Matcher, Span};
use super::trial::Draw;
use crate::finding::{Finding, Section, Verdict};
use crate::subject::Subject;
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, for_each_block};
use crate::tools::statistics::{generator, interval, mean};

mod table;
pub use table::reproduce_reference;

/// What the lookup found for one target.
#[derive(Clone, PartialEq, Debug)]
pub struct Lookup {
    /// The nearest rows of the overlapping reference, nearest first, at most ten.
    pub overlapping: Vec<u32>,
    /// The nearest row of the disjoint reference, if it has any.
    pub disjoint: Option<u32>,
}

/// Looks every estimate up in a reference whose first `targets` rows are the targets themselves:
/// with those rows, and without.
///
/// # Panics
/// When the widths differ.
pub fn look_up(
    estimates: &Matrix,
    reference: &Matrix,
    targets: usize,
    metric: Metric,
) -> Vec<Lookup> {
    let mut found = Vec::with_capacity(estimates.rows());
    for_each_block(estimates, reference, metric, |_, scores| {
        let block: Vec<Lookup> = (0..scores.rows())
            .into_par_iter()
            .map(|at| {
                let row = || scores.row(at).iter().enumerate().map(|(row, &s)| (row as u32, s));
                let nearest = top_k(row(), 10);
                let decoys = top_k(row().skip(targets), 1);
                Lookup {
                    overlapping: nearest.iter().map(|hit| hit.row).collect(),
                    disjoint: decoys.first().map(|hit| hit.row),
                }
            })
            .collect();
        found.extend(block);
    });
    found
}

/// Lower-case words and numbers.
fn tokens(text: &str) -> HashSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// `|A and B| / |A or B|` of token sets; zero of two empty texts.
pub fn jaccard(a: &str, b: &str) -> f64 {
    let (a, b) = (tokens(a), tokens(b));
    let shared = a.intersection(&b).count();
    let all = a.len() + b.len() - shared;
    if all == 0 { 0.0 } else { shared as f64 / all as f64 }
}

/// How lookups did, target by target.
struct Judged {
    first: Vec<f64>,
    tenth: Vec<f64>,
    overlapping: Option<Vec<f64>>,
    disjoint: Option<Vec<f64>>,
}

/// Counts what was found; `names[row]` is the document of each row of the reference, and target
/// `i` is its row `numbers[i]`.
fn judge(
    lookups: &[Lookup],
    numbers: &[usize],
    names: &[usize],
    texts: Option<&[String]>,
) -> Judged {
    let found = || lookups.iter().zip(numbers);
    let within = |k: usize| {
        found().map(move |(l, &own)| {
            f64::from(l.overlapping.iter().take(k).any(|&row| row as usize == own))
        })
    };
    let overlap = |pick: fn(&Lookup) -> Option<u32>| {
        texts.map(|texts| {
            let text = |row: usize| texts[names[row]].as_str();
            let pairs = found().map(|(l, &own)| (pick(l), own));
            let scores = pairs
                .map(|(row, own)| row.map_or(0.0, |row| jaccard(text(own), text(row as usize))));
            scores.collect()
        })
    };
    Judged {
        first: within(1).collect(),
        tenth: within(10).collect(),
        overlapping: overlap(|l| l.overlapping.first().copied()),
        disjoint: overlap(|l| l.disjoint),
    }
}

impl Judged {
    /// Metrics, their values, and the level of chance of each where it is known.
    fn scores(&self, candidates: usize) -> Vec<(&'static str, &Vec<f64>, Option<f64>)> {
        let chance = 1.0 / candidates.max(1) as f64;
        let mut scores = vec![
            ("recall_at_1", &self.first, Some(chance)),
            ("recall_at_10", &self.tenth, Some((10.0 * chance).min(1.0))),
        ];
        scores.extend(self.overlapping.as_ref().map(|s| ("jaccard_overlapping", s, None)));
        scores.extend(self.disjoint.as_ref().map(|s| ("jaccard_disjoint", s, None)));
        scores
    }
}

/// The attacker on rows of one cell: brings rows and reference into a form that can be compared.
fn comparable(
    rows: &Matrix,
    reference: &Matrix,
    pairs: Option<&Pairs>,
    published: bool,
) -> Result<(Matrix, Matrix, Metric)> {
    Ok(match pairs {
        None => {
            let norms = |of: &Matrix| Matrix::new(1, of.norms());
            (norms(rows), norms(reference), Metric::Distance)
        }
        Some(pairs) if published => {
            let map = Estimator::LeastSquares.fit(pairs)?;
            (map.apply(rows), reference.clone(), Metric::Cosine)
        }
        Some(pairs) => {
            let span = Span::of(pairs)?;
            let rows = span.of_rows(rows, Matcher::Gram);
            (rows, span.of_residuals(reference, Matcher::Gram), Metric::Distance)
        }
    })
}

/// Rows of the owner's release looked up in a reference that holds their documents.
///
/// # Errors
/// When a decomposition does not converge.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    const CHANNEL: &str = "reference-lookup";
    let mut section = Section::new(CHANNEL, "Finding rows in a reference corpus");
    let Some(known) = Known::of(subject).filter(|known| known.rows.rows() >= FEWEST_ROWS) else {
        section.notes.push(not_measured());
        return Ok(section);
    };
    let all: Vec<usize> = (0..known.rows.rows()).collect();
    let draw = Draw::new(&all, 200, 10_000, usize::MAX, &mut generator(subject.seed, 710));
    let reference = known.residuals.select(&draw.gallery);
    let names: Vec<usize> = draw.gallery.iter().map(|&row| known.documents[row]).collect();
    let micro = known.most_in_a_cell <= 1;
    let games = [("norm", 0), ("gram", 1), ("gram", 8), ("ols", 8), ("gram", 32), ("ols", 32)];
    for (attack, pairs) in games.into_iter().filter(|&(_, pairs)| pairs == 0 || !micro) {
        progress(&format!("reference lookup: {attack}, {pairs} pairs in the cell"));
        let (lookups, numbers) = in_cells(&known, &draw, &reference, pairs, attack == "ols")?;
        let judged = judge(&lookups, &numbers, &names, subject.texts.as_deref());
        // Targets in a cell with no pair are misses.
        let missed = draw.targets.len() - numbers.len();
        let setting = format!("attack={attack},in_cell_pairs={pairs},reference={}", names.len());
        for (metric, values, chance) in judged.scores(names.len()) {
            let values: Vec<f64> =
                values.iter().copied().chain(std::iter::repeat_n(0.0, missed)).collect();
            let finding = Finding::new(CHANNEL, &setting, metric, mean(&values))
                .ci95(interval(&values, 500, subject.seed))
                .on(subject.seed, known.rows.rows());
            section.findings.push(Finding { chance, ..finding });
        }
    }
    if subject.texts.is_none() {
        section.notes.push("No texts were given, so token overlap is not measured.".into());
    }
    section.notes.push(
        "Whoever has a list of texts that includes yours, and the same encoder, can look up which \
         stored row is which text. The length of a row does it without a known pair where lengths \
         are exact; each known pair in a row's cell adds an exact inner product. Against a list \
         that does not include your texts, only similar texts are found (`jaccard_disjoint`)."
            .into(),
    );
    let recalls = section.findings.iter().enumerate().filter(|(_, f)| f.metric == "recall_at_1");
    // The first of the best: attacks are in the order of what they ask for.
    let best = recalls.fold(None::<(usize, f64)>, |best, (at, f)| match best {
        Some((_, value)) if value >= f.value || value >= 0.9 => best,
        _ => Some((at, f.value)),
    });
    if let Some((at, value)) = best {
        let chance = section.findings[at].chance.unwrap_or(0.0);
        section.headline = Some(at);
        section.verdict = Some(match value {
            v if v >= 0.9 => Verdict::Open,
            v if v > 5.0 * chance + 0.01 => Verdict::Reduced,
            _ => Verdict::Closed,
        });
    }
    Ok(section)
}

/// Looks targets up cell by cell, with the first disclosed pairs of each; says which targets of
/// the draw the lookups are of.
fn in_cells(
    known: &Known,
    draw: &Draw,
    reference: &Matrix,
    pairs: usize,
    published: bool,
) -> Result<(Vec<Lookup>, Vec<usize>)> {
    let cells: HashSet<u32> = draw.targets.iter().map(|&row| known.cells[row]).collect();
    let mut cells: Vec<u32> = cells.into_iter().collect();
    cells.sort_unstable();
    // Without pairs the key of a cell plays no part, and all cells are one.
    let cells = if pairs == 0 { vec![None] } else { cells.into_iter().map(Some).collect() };
    let (mut lookups, mut numbers) = (Vec::new(), Vec::new());
    for cell in cells {
        let of_cell = |row: usize| cell.is_none_or(|cell| known.cells[row] == cell);
        let own: Vec<usize> =
            (0..draw.targets.len()).filter(|&at| of_cell(draw.targets[at])).collect();
        let shown: Vec<usize> =
            draw.disclosed.iter().copied().filter(|&row| of_cell(row)).take(pairs).collect();
        if pairs > 0 && shown.is_empty() {
            continue;
        }
        let granted = (pairs > 0).then(|| Pairs::of(&known.residuals, &known.rows, &shown));
        let rows: Vec<usize> = own.iter().map(|&at| draw.targets[at]).collect();
        let rows = known.rows.select(&rows);
        let (rows, native, metric) = comparable(&rows, reference, granted.as_ref(), published)?;
        lookups.extend(look_up(&rows, &native, draw.targets.len(), metric));
        numbers.extend(own);
    }
    Ok((lookups, numbers))
}

/// Stored prefixes looked up in a reference that holds their documents.
///
/// # Errors
/// None at present.
pub fn prefix_channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    const CHANNEL: &str = "prefix-lookup";
    let mut section = Section::new(CHANNEL, "Finding rows by their public prefix");
    let release = subject.release();
    let known: Vec<(usize, usize)> = (subject.documents.iter().enumerate())
        .filter_map(|(row, document)| Some((row, (*document)?)))
        .collect();
    let Some(prefixes) = &release.prefixes else {
        section.notes.push(
            "The server holds no prefixes: routing happens on the client, and there is nothing to \
             look up. A release with public prefixes would be found in an overlapping reference \
             with no known pair."
                .into(),
        );
        let finding = Finding::new(CHANNEL, "prefix=none", "recall_at_1", 0.0);
        let finding = finding.chance(1.0 / known.len().max(1) as f64);
        section.findings.push(finding.on(subject.seed, known.len()));
        (section.verdict, section.headline) = (Some(Verdict::Closed), Some(0));
        return Ok(section);
    };
    if known.len() < FEWEST_ROWS || prefixes.width() != subject.public {
        section.notes.push("Not measured: too few rows, or prefixes of another width.".into());
        return Ok(section);
    }
    progress("prefix lookup");
    let places: Vec<usize> = (0..known.len()).collect();
    let draw = Draw::new(&places, 500, 10_000, 0, &mut generator(subject.seed, 711));
    let stored: Vec<usize> = draw.targets.iter().map(|&at| known[at].0).collect();
    let names: Vec<usize> = draw.gallery.iter().map(|&at| known[at].1).collect();
    let reference = subject.prefixes().select(&names);
    // Cosine needs no scale, should the prefixes be in fixed point.
    let lookups =
        look_up(&prefixes.select(&stored), &reference, draw.targets.len(), Metric::Cosine);
    let own: Vec<usize> = (0..draw.targets.len()).collect();
    let judged = judge(&lookups, &own, &names, subject.texts.as_deref());
    for (metric, values, chance) in judged.scores(names.len()) {
        let setting = format!("prefix=public,pairs=0,reference={}", names.len());
        let finding = Finding::new(CHANNEL, setting, metric, mean(values))
            .ci95(interval(values, 500, subject.seed))
            .on(subject.seed, known.len());
        section.findings.push(Finding { chance, ..finding });
    }
    section.notes.push(
        "The prefix is stored as it is, so a list of texts that includes yours names the rows at \
         once; no key of a cell changes that."
            .into(),
    );
    let open = section.findings[0].value >= 0.9;
    section.verdict = Some(if open { Verdict::Open } else { Verdict::Reduced });
    section.headline = Some(0);
    Ok(section)
}

#[cfg(test)]
mod tests;
