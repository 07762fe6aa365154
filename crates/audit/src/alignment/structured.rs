//! Known pairs against structured keys, using what they are made of.
//!
//! A structured key of a width `d` that is a power of two is `T = F P_3 F P_2 F P_1`: signed
//! permutations `P` and the normalised Walsh-Hadamard transform `F`. `F` is public and its own
//! inverse, so the attacker undoes the last one: `F z = A r` with `A = P_3 F P_2 F P_1`, and the
//! entries of `A` are not just any numbers:
//! - one round: `A = P_1`. Each coordinate of `F z` is one of `r` up to sign; one pair shows which.
//! - two rounds: `A = P_2 F P_1` has entries `+-1/sqrt(d)`. Pairs fix `A` on their span, and the
//!   rest must keep every entry within those bounds. Projecting onto both conditions in turn finds
//!   the one matrix that meets them once `m > d/2` (Mangasarian and Recht, *Probability of unique
//!   integer solution to a system of linear equations*, 2011).
//! - three rounds, the key in use: entries are multiples of `2/d`, with a spread of `sqrt(d)/2` such
//!   steps. The same alternation with rounding has to come within half a step of every entry.
//!
//! At other widths a round is two overlapping transforms with secret signs between them; only the
//! very last can be undone, and no such grid is left. There only the generic estimators are known to work.

use anyhow::Result;

use super::axes::Known;
use super::estimators::{Estimator, Pairs};
use super::partial::{FEWEST_ROWS, not_measured};
use super::trial::{Attack, Disclosure, Draw, Trial, measure};
use crate::finding::{Finding, Plot, Section, Series, Verdict};
use crate::subject::{KeyFamily, Subject, protect};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, sample};

mod solver;
pub use solver::solve;
use solver::{ROUNDS, rotated};

/// The channel's name.
const CHANNEL: &str = "structured-keys";

/// The widest key that is solved, to stay quick.
const WIDEST: usize = 128;

/// `|found - truth| / |truth|` over all rows.
fn relative_error(found: &Matrix, truth: &Matrix) -> f64 {
    let off: f64 = found.values().iter().zip(truth.values()).map(|(a, b)| (a - b).powi(2)).sum();
    let size: f64 = truth.values().iter().map(|x| x * x).sum();
    if size > 0.0 { (off / size).sqrt() } else { 0.0 }
}

/// How many pairs structured keys withstand, with and without use of their structure.
///
/// # Errors
/// When a decomposition does not converge.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new(CHANNEL, "The structure of fast keys");
    let known = Known::of(subject).filter(|known| known.rows.rows() >= FEWEST_ROWS);
    let Some(known) = known.filter(|known| known.residuals.width() >= 4) else {
        section.notes.push(not_measured());
        return Ok(section);
    };
    by_rounds(subject, &known, &mut section, progress)?;
    against_haar(subject, &known, &mut section, progress)?;
    Ok(section)
}

/// Keys of one, two and three rounds at a width that is a power of two.
fn by_rounds(
    subject: &Subject,
    known: &Known,
    section: &mut Section,
    progress: &dyn Fn(&str),
) -> Result<()> {
    let of_release = known.residuals.width();
    let full = 1 << of_release.min(WIDEST).ilog2();
    // As many pairs as coordinates, and some rows to judge by.
    let width = full.min(1 << (known.rows.rows() / 2).ilog2());
    let rng = &mut generator(subject.seed, 740);
    let drawn = sample(known.residuals.rows(), width + 20, rng);
    let native = known.residuals.part(&drawn, 0..width);
    let held_out: Vec<usize> = (width..native.rows()).collect();
    let truth = native.select(&held_out);
    let mut budgets = vec![1, width / 4, width / 2, width * 5 / 8, width * 3 / 4, width * 7 / 8];
    budgets.extend([width - 2, width - 1, width]);
    budgets.sort_unstable();
    budgets.dedup();
    let mut lines = Vec::new();
    for rounds in 1..=ROUNDS {
        progress(&format!("structured keys of {rounds} rounds"));
        let rows = rotated(&native, rounds, rng);
        let attacked = rows.select(&held_out);
        let mut firsts = [None; 2];
        let mut points = [Vec::new(), Vec::new()];
        for &count in &budgets {
            let pairs = Pairs::of(&native, &rows, &(0..count).collect::<Vec<_>>());
            let estimates = [
                solve(&pairs, &attacked, rounds)?,
                Estimator::LeastSquares.fit(&pairs)?.apply(&attacked),
            ];
            for (at, estimate) in estimates.iter().enumerate() {
                let error = relative_error(estimate, &truth);
                let setting = format!(
                    "rounds={rounds},width={width},attack={},pairs={count}",
                    ["structure", "ols"][at]
                );
                let finding = Finding::new(CHANNEL, setting, "relative_error", error).chance(1.0);
                section.findings.push(finding.on(subject.seed, known.rows.rows()));
                points[at].push((count as f64, error, None));
                if error < 1e-4 && firsts[at].is_none() {
                    firsts[at] = Some(count);
                }
            }
        }
        for (name, points) in ["structure", "ols"].into_iter().zip(points) {
            lines.push(Series { name: format!("{name}, {rounds} rounds"), points });
        }
        let solved = |first: Option<usize>| match first {
            Some(pairs) => format!("solved exactly from {pairs} pairs"),
            None => format!("not solved with {width} pairs"),
        };
        section.notes.push(format!(
            "Keys of width {width}, rounds: {rounds}. With their structure: {}; by least squares: {}.",
            solved(firsts[0]),
            solved(firsts[1])
        ));
        let [structure, Some(generic)] = firsts else { continue };
        // Where structure does not solve the key, least squares is still there.
        let saved = 1.0 - structure.unwrap_or(generic).min(generic) as f64 / generic as f64;
        let setting = format!("rounds={rounds},width={width}");
        let finding = Finding::new(CHANNEL, &setting, "share_of_pairs_saved", saved).chance(0.0);
        let finding = finding.on(subject.seed, known.rows.rows());
        if rounds == ROUNDS && subject.keys == KeyFamily::Structured && width == of_release {
            section.verdict = Some(Verdict::of(&finding, 1.0));
            section.headline = Some(section.findings.len());
        }
        section.findings.push(finding);
    }
    if section.verdict.is_none() {
        section.notes.push(match subject.keys {
            KeyFamily::Orthogonal => {
                "No verdict: your release uses Haar keys, which have no structure to use.".into()
            }
            KeyFamily::Structured => format!(
                "No verdict: the keys of your release are {of_release} wide, and our attack is \
                 for powers of two up to {WIDEST}. The figures are about narrower keys."
            ),
        });
    }
    section.notes.push(
        "The key in use has three rounds; fewer are measured to see the margin. Closed means that \
         its structure gave our attack nothing beyond what pairs give against any orthogonal key, \
         which the channel of partial alignment measures; it does not mean that pairs are harmless, \
         nor that no better attack on three rounds exists. \
         The budgets are a grid, so savings of a few pairs do not show."
            .into(),
    );
    section.plots.push(Plot {
        name: CHANNEL.into(),
        title: "Structured keys: error by known pairs".into(),
        x_label: "known pairs".into(),
        y_label: "relative error".into(),
        logarithmic: true,
        series: lines,
    });
    Ok(())
}

/// Generic attacks on structured keys at the real width, beside Haar keys.
fn against_haar(
    subject: &Subject,
    known: &Known,
    section: &mut Section,
    progress: &dyn Fn(&str),
) -> Result<()> {
    if known.most_in_a_cell < 3 {
        section.notes.push("Every row has its own key: there are no pairs within a cell.".into());
        return Ok(());
    }
    progress("structured keys beside Haar keys");
    let all: Vec<usize> = (0..known.rows.rows()).collect();
    let draw = Draw::new(&all, 96, 4_000, 10_000, &mut generator(subject.seed, 741));
    let stored = draw.stored();
    for family in [KeyFamily::Structured, KeyFamily::Orthogonal] {
        let real = family == subject.keys;
        let trial = if real {
            Trial::on(known, &draw)?
        } else {
            let residuals = known.residuals.select(&stored);
            let cells: Vec<u32> = stored.iter().map(|&row| known.cells[row]).collect();
            let rng = &mut generator(subject.seed, 742);
            let release = protect(&residuals, &cells, family, rng);
            let gallery = known.residuals.select(&draw.gallery);
            Trial::new(&draw, release.rows, residuals, cells, gallery)?
        };
        let name = match family {
            KeyFamily::Structured => "structured",
            KeyFamily::Orthogonal => "haar",
        };
        let origin = if real { "release" } else { "anew" };
        for budget in [8, 32] {
            let attack = Attack::Estimate(Estimator::LeastSquares);
            let trials = std::slice::from_ref(&trial);
            let measured = measure(trials, attack, Disclosure::Targeted, budget)?;
            let setting = format!("keys={name},protected={origin},disclosure=targeted,");
            let finding = measured.finding(CHANNEL, &setting);
            section.findings.push(finding.on(subject.seed, known.rows.rows()));
        }
    }
    if subject.keys != KeyFamily::Structured {
        section.notes.push(
            "Your release uses Haar keys; structured ones are measured on your data protected anew."
                .into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
