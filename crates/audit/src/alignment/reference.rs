//! Finding stored rows in a reference corpus: when the corpus overlaps the collection, a rotated
//! row becomes a text.
//!
//! The attacker has native vectors and texts of a reference corpus and some known pairs, rotates
//! rows back as far as the pairs allow, and reads the text of the nearest reference vector.
//! An overlapping reference holds the targets among decoys; a disjoint one holds decoys only and
//! is scored by the Jaccard overlap of token sets, `|A and B| / |A or B|`. Where the server holds
//! prefixes, they are looked up as they are, with no pair at all.
//!
//! The table grants the attacker the owner's principal axes; the channel also plays attackers who
//! have to fit axes of their own.

use std::collections::{BTreeMap, HashSet};

use anyhow::Result;
use rayon::prelude::*;
use shard_geometry::top_k;

use super::axes::{self, Axes, Known};
use super::estimators::{Estimator, Pairs, divided};
use super::foreign;
use super::partial::{FEWEST_ROWS, not_measured};
use super::span::{Matcher, Span, scale_by_pairs};
use super::trial::Draw;
use crate::finding::{FEW_PAIRS, Finding, Section, Verdict};
use crate::subject::{Given, Subject};
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, for_each_block};
use crate::tools::statistics::{below, generator, interval, mean};

mod table;
pub use table::reproduce_reference;

/// The channel's name.
const CHANNEL: &str = "reference-lookup";

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
                // From the last row to the first: a tie goes to a decoy, so that it is no success.
                let last = (scores.width() - 1) as u32;
                let scores = scores.row(at).iter().enumerate();
                let row = || scores.clone().map(|(row, &score)| (last - row as u32, score));
                let nearest = top_k(row(), 10);
                let decoys = top_k(row().skip(targets), 1);
                Lookup {
                    overlapping: nearest.iter().map(|hit| last - hit.row).collect(),
                    disjoint: decoys.first().map(|hit| last - hit.row),
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

/// The purpose of the randomness of blind guesses.
const BLIND: u64 = 0x626c_696e_0001;

/// How lookups did, target by target.
struct Judged {
    first: Vec<f64>,
    tenth: Vec<f64>,
    overlapping: Option<Vec<f64>>,
    disjoint: Option<Vec<f64>>,
    /// The overlap of a target's text with one drawn blindly from the reference.
    blind: Option<f64>,
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
    let blind = texts.map(|texts| {
        let rng = &mut generator(names.len() as u64, BLIND);
        let drawn = numbers.iter().map(|&own| {
            let other = names[below(names.len(), rng)];
            jaccard(&texts[names[own]], &texts[other])
        });
        mean(&drawn.collect::<Vec<_>>())
    });
    Judged {
        blind,
        first: within(1).collect(),
        tenth: within(10).collect(),
        overlapping: overlap(|l| l.overlapping.first().copied()),
        disjoint: overlap(|l| l.disjoint),
    }
}

impl Judged {
    /// Metrics, their values, and the level of chance of each where it is known.
    fn scores(&self, chance: f64) -> Vec<(&'static str, &Vec<f64>, Option<f64>)> {
        let mut scores = vec![
            ("recall_at_1", &self.first, Some(chance)),
            ("recall_at_10", &self.tenth, Some((10.0 * chance).min(1.0))),
        ];
        scores.extend(self.overlapping.as_ref().map(|s| ("jaccard_overlapping", s, self.blind)));
        scores.extend(self.disjoint.as_ref().map(|s| ("jaccard_disjoint", s, self.blind)));
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

/// The mean of a metric over targets: a share of hits, or the mean of an overlap.
fn measured(channel: &str, setting: &str, metric: &str, values: &[f64], seed: u64) -> Finding {
    if metric.starts_with("recall") {
        return Finding::share(channel, setting, metric, values);
    }
    Finding::new(channel, setting, metric, mean(values)).ci95(interval(values, 500, seed))
}

/// An attack of the channel, and pairs that it has in each cell.
type Attempt = (&'static str, usize);

/// Rows of the owner's release looked up in a reference that holds their documents.
///
/// # Errors
/// When a decomposition does not converge.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    const ALL: [Attempt; 6] =
        [("norm", 0), ("gram", 1), ("gram", 8), ("ols", 8), ("gram", 32), ("ols", 32)];
    const STRENGTHENED: [Attempt; 3] = [("norm", 0), ("gram", 1), ("ols", 32)];
    const WEAKENED: [Attempt; 3] = [("norm", 0), ("gram", 32), ("ols", 32)];
    let mut section = Section::new(CHANNEL, "Finding rows in a reference corpus");
    if let Some(given) = &subject.given {
        return in_given(subject, given, section, progress);
    }
    let Some(known) = Known::of(subject).filter(|known| known.rows.rows() >= FEWEST_ROWS) else {
        section.notes.push(not_measured());
        return Ok(section);
    };
    for (axes, known) in known.in_fitted_axes(subject) {
        let attempts: &[Attempt] = if axes == Axes::Reference { &ALL } else { &WEAKENED };
        play(subject, axes.setting(), &known, attempts, &mut section, progress)?;
    }
    play(subject, Axes::Owner.setting(), &known, &STRENGTHENED, &mut section, progress)?;
    if subject.texts.is_none() {
        section.notes.push("No texts were given, so token overlap is not measured.".into());
    }
    section.notes.push(format!(
        "An attacker who has a list of texts that includes yours, and the same encoder, can look up \
         which stored row is which text. The length of a row tells something without a known pair; \
         each known pair in a row's cell adds an inner product. The channel is open if {FEW_PAIRS} \
         pairs or fewer are enough. Against a list that does not include your texts, only similar texts \
         are found (`jaccard_disjoint`; chance is a text drawn blindly)."
    ));
    section.notes.push(axes::NOTE.into());
    section.rest_on(1.0, |f| f.metric == "recall_at_1" && axes::counts(f));
    Ok(section)
}

/// Rows that Shard did not make, in every reading.
fn in_given(
    subject: &Subject,
    given: &Given,
    mut section: Section,
    progress: &dyn Fn(&str),
) -> Result<Section> {
    const BY_LENGTH: [Attempt; 3] = [("norm", 0), ("gram", 8), ("gram", 32)];
    const BY_PAIRS: [Attempt; 1] = [("ols", 32)];
    if let Some(note) = foreign::unfit(given) {
        section.notes.push(note);
        return Ok(section);
    }
    for view in foreign::views(subject, given)? {
        let attempts: &[Attempt] = if view.has_lengths() { &BY_LENGTH } else { &BY_PAIRS };
        play(subject, &view.setting(), view.known(), attempts, &mut section, progress)?;
    }
    section.notes.push(
        "An attacker who has a list of texts that includes yours, and the same encoder, looks up which \
         row is which text, in every reading of the rows."
            .into(),
    );
    section.rest_on(1.0, |f| f.metric == "recall_at_1");
    Ok(section)
}

/// Attacks on rows seen in some way, which is the beginning of their settings.
fn play(
    subject: &Subject,
    seen: &str,
    known: &Known,
    attempts: &[Attempt],
    section: &mut Section,
    progress: &dyn Fn(&str),
) -> Result<()> {
    let all: Vec<usize> = (0..known.rows.rows()).collect();
    let draw = Draw::new(&all, 200, 10_000, usize::MAX, &mut generator(subject.seed, 710));
    let reference = known.residuals.select(&draw.gallery);
    let names: Vec<usize> = draw.gallery.iter().map(|&row| known.documents[row]).collect();
    let micro = known.most_in_a_cell <= 1;
    for &(attack, pairs) in attempts.iter().filter(|(_, pairs)| *pairs == 0 || !micro) {
        let setting = format!("{seen}attack={attack},pairs={pairs}");
        progress(&format!("reference lookup: {setting}"));
        let found = in_cells(known, &draw, &reference, pairs, attack == "ols")?;
        let judged = judge(&found.lookups, &found.numbers, &names, subject.texts.as_deref());
        // Targets that could not be looked up are misses.
        let missed = draw.targets.len() - found.numbers.len();
        let setting = format!("{setting},reference={}", names.len());
        for (metric, values, chance) in judged.scores(mean(&found.chances)) {
            let values: Vec<f64> =
                values.iter().copied().chain(std::iter::repeat_n(0.0, missed)).collect();
            let finding = measured(CHANNEL, &setting, metric, &values, subject.seed);
            let finding = finding.on(subject.seed, known.rows.rows());
            section.findings.push(Finding { chance, ..finding });
        }
        if pairs > 0 {
            let finding = Finding::new(CHANNEL, &setting, "in_cell_pairs", mean(&found.pairs));
            section.findings.push(finding.on(subject.seed, known.rows.rows()));
        }
    }
    Ok(())
}

/// Lookups cell by cell.
struct Found {
    lookups: Vec<Lookup>,
    /// Which target of the draw each is of.
    numbers: Vec<usize>,
    /// Pairs in the cell of every target of the draw.
    pairs: Vec<f64>,
    /// One in the candidates for each.
    chances: Vec<f64>,
}

/// Looks targets up cell by cell, with the first disclosed pairs of each. In a cell without one the
/// norm is left, which the published attack does not use.
fn in_cells(
    known: &Known,
    draw: &Draw,
    reference: &Matrix,
    pairs: usize,
    published: bool,
) -> Result<Found> {
    let mut of_cell: BTreeMap<u32, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (at, &row) in draw.targets.iter().enumerate() {
        // Without pairs the key of a cell plays no part, and all cells are one.
        let cell = if pairs == 0 { 0 } else { known.cells[row] };
        of_cell.entry(cell).or_default().0.push(at);
    }
    for &row in &draw.disclosed {
        if let Some((_, shown)) = of_cell.get_mut(&known.cells[row])
            && shown.len() < pairs
        {
            shown.push(row);
        }
    }
    let all: Vec<usize> = of_cell.values().flat_map(|(_, shown)| shown).copied().collect();
    let scale = scale_by_pairs(&known.rows, &known.residuals, &all);
    let mut found =
        Found { lookups: Vec::new(), numbers: Vec::new(), pairs: Vec::new(), chances: Vec::new() };
    for (own, shown) in of_cell.into_values() {
        let in_reference = |row: &&usize| draw.gallery.contains(row);
        let candidates = draw.gallery.len() - shown.iter().filter(in_reference).count();
        found.pairs.extend(own.iter().map(|_| shown.len() as f64));
        found.chances.extend(own.iter().map(|_| 1.0 / candidates as f64));
        if published && shown.is_empty() {
            continue;
        }
        let granted = (!shown.is_empty())
            .then(|| Pairs::of(&known.residuals, &known.rows, &shown).scaled(scale));
        let rows: Vec<usize> = own.iter().map(|&at| draw.targets[at]).collect();
        let rows = divided(known.rows.select(&rows), scale);
        // A known pair is no candidate any more.
        let shown: HashSet<usize> = shown.into_iter().collect();
        let left = (0..draw.gallery.len()).filter(|&at| !shown.contains(&draw.gallery[at]));
        let left: Vec<usize> = left.collect();
        let reference = reference.select(&left);
        let (rows, native, metric) = comparable(&rows, &reference, granted.as_ref(), published)?;
        let place = |row: u32| left[row as usize] as u32;
        let lookups = look_up(&rows, &native, draw.targets.len(), metric).into_iter();
        found.lookups.extend(lookups.map(|lookup| Lookup {
            overlapping: lookup.overlapping.into_iter().map(place).collect(),
            disjoint: lookup.disjoint.map(place),
        }));
        found.numbers.extend(own);
    }
    Ok(found)
}

/// Stored prefixes looked up in a reference that holds their documents.
///
/// # Errors
/// None at present.
pub fn prefix_channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    const CHANNEL: &str = "prefix-lookup";
    let mut section = Section::new(CHANNEL, "Finding rows by their public prefix");
    let release = subject.release();
    let rows = subject.documents.len();
    let Some(prefixes) = &release.prefixes else {
        section.notes.push(
            "The server holds no prefixes: routing happens on the client, and there is nothing to \
             look up. A release with public prefixes would be found in an overlapping reference \
             with no known pair."
                .into(),
        );
        let finding = Finding::new(CHANNEL, "prefix=none", "recall_at_1", 0.0);
        let finding = finding.chance(1.0 / rows.max(1) as f64).constructed();
        section.findings.push(finding.on(subject.seed, rows));
        (section.verdict, section.headline) = (Some(Verdict::Closed), Some(0));
        return Ok(section);
    };
    if rows < FEWEST_ROWS || prefixes.width() != subject.prefix_width {
        section.notes.push("Not measured: too few rows, or prefixes of another width.".into());
        return Ok(section);
    }
    progress("prefix lookup");
    let places: Vec<usize> = (0..rows).collect();
    let draw = Draw::new(&places, 500, 10_000, 0, &mut generator(subject.seed, 711));
    let names: Vec<usize> = draw.gallery.iter().map(|&row| subject.documents[row]).collect();
    let reference = subject.prefixes(&names);
    // Cosine needs no scale, should the prefixes be in fixed point.
    let lookups =
        look_up(&prefixes.select(&draw.targets), &reference, draw.targets.len(), Metric::Cosine);
    let own: Vec<usize> = (0..draw.targets.len()).collect();
    let judged = judge(&lookups, &own, &names, subject.texts.as_deref());
    for (metric, values, chance) in judged.scores(1.0 / names.len().max(1) as f64) {
        let setting = format!("prefix=public,pairs=0,reference={}", names.len());
        let finding = measured(CHANNEL, &setting, metric, values, subject.seed);
        let finding = finding.on(subject.seed, rows);
        section.findings.push(Finding { chance, ..finding });
    }
    section.rest_on(1.0, |f| f.metric == "recall_at_1");
    section.notes.push(match section.verdict {
        Some(Verdict::Open) => {
            "The prefix is stored as it is, so a list of texts that includes yours names the rows \
             at once; no key of a cell changes that."
                .into()
        }
        Some(Verdict::Reduced) => {
            "Prefixes are stored, and a list of texts that includes yours names some of the rows; \
             no key of a cell changes that."
                .into()
        }
        _ => "Prefixes are stored, but those of your documents were not found by them.".into(),
    });
    section.notes.push("The attacker is granted your principal axes.".into());
    Ok(section)
}

#[cfg(test)]
mod tests;
