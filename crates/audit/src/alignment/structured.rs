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
//! very last can be undone, and no such grid is left. There the generic estimators are all we know.

use anyhow::Result;
use rand_core::Rng;
use shard_geometry::StructuredKey;

use super::estimators::{CUTOFF, Estimator, Factors, Pairs, matrix};
use super::partial::{FEWEST_ROWS, Known, not_measured};
use super::trial::{Attack, Disclosure, Draw, Trial, measure};
use crate::finding::{Finding, Plot, Section, Series, Verdict};
use crate::subject::{KeyFamily, Subject, protect};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{below, generator, sample};

/// The channel's name.
const CHANNEL: &str = "structured-keys";

/// The widest key that is solved, to stay quick.
const WIDEST: usize = 128;

/// Projections onto both conditions.
const ALTERNATIONS: usize = 400;

/// Rounds of the key in use.
const ROUNDS: usize = 3;

/// The Walsh-Hadamard transform of a power of two of numbers, divided by the root of their number.
fn hadamard(x: &mut [f64]) {
    let mut half = 1;
    while half < x.len() {
        for block in x.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                (*low, *high) = (*low + *high, *low - *high);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (x.len() as f64).sqrt();
    x.iter_mut().for_each(|x| *x *= scale);
}

/// Turns rows under a fresh key of so many rounds; three are the key in use.
fn turned(residuals: &Matrix, rounds: usize, rng: &mut impl Rng) -> Matrix {
    let mut rows = residuals.clone();
    let width = rows.width();
    if rounds == ROUNDS {
        StructuredKey::sample(width, rng).apply_many(rows.values_mut());
        return rows;
    }
    for _ in 0..rounds {
        let order = sample(width, width, rng);
        let signs: Vec<f64> = (0..width).map(|_| [1.0, -1.0][below(2, rng)]).collect();
        for row in rows.values_mut().chunks_exact_mut(width) {
            let mut moved: Vec<f64> =
                order.iter().zip(&signs).map(|(&at, s)| s * row[at]).collect();
            hadamard(&mut moved);
            row.copy_from_slice(&moved);
        }
    }
    rows
}

/// Solves for `A` from pairs, knowing the number of rounds; rows of the result estimate residuals
/// of `rows`.
///
/// # Errors
/// When a decomposition does not converge.
///
/// # Panics
/// When the width is no power of two.
pub fn solve(pairs: &Pairs, rows: &Matrix, rounds: usize) -> Result<Matrix> {
    let width = rows.width();
    assert!(width.is_power_of_two(), "a transform of a power of two");
    let undone = |of: &Matrix| {
        let mut out = of.clone();
        out.values_mut().chunks_exact_mut(width).for_each(hadamard);
        out
    };
    let known = Pairs { residuals: pairs.residuals.clone(), rows: undone(&pairs.rows) };
    let key = if rounds == 1 { signed_permutation(&known) } else { entries(&known, rounds)? };
    // r = A^T F z, as rows.
    Ok(undone(rows).times(&key))
}

/// The signed permutation that fits best: to every coordinate of the rows, the one of the
/// residuals that it is nearest to, up to sign.
fn signed_permutation(pairs: &Pairs) -> Matrix {
    let width = pairs.rows.width();
    let column = |of: &Matrix, at: usize| -> Vec<f64> { of.iter().map(|row| row[at]).collect() };
    let natives: Vec<Vec<f64>> = (0..width).map(|at| column(&pairs.residuals, at)).collect();
    let mut key = Matrix::zeros(width, width);
    for to in 0..width {
        let stored = column(&pairs.rows, to);
        let off = |from: usize, sign: f64| -> f64 {
            stored.iter().zip(&natives[from]).map(|(z, r)| (z - sign * r).powi(2)).sum()
        };
        let candidates = (0..width).flat_map(|from| [(from, 1.0), (from, -1.0)]);
        let best = candidates.min_by(|&(a, s), &(b, t)| off(a, s).total_cmp(&off(b, t)));
        let (from, sign) = best.expect("a coordinate");
        key.row_mut(to)[from] = sign;
    }
    key
}

/// Alternates between the matrices that agree with the pairs and those with possible entries.
fn entries(pairs: &Pairs, rounds: usize) -> Result<Matrix> {
    let width = pairs.rows.width();
    // With R = U diag(s) B^T the pairs fix A B = Y^T U diag(s)^-1, and nothing else of A.
    let factors = Factors::of(pairs.residuals.as_faer(), CUTOFF)?;
    let mut fixed = pairs.rows.as_faer().transpose() * &factors.u;
    for (at, s) in factors.s.iter().enumerate() {
        fixed.col_mut(at).iter_mut().for_each(|x| *x /= s);
    }
    let (fixed, basis) = (matrix(fixed.as_ref()), matrix(factors.v.as_ref()));
    let back = matrix(factors.v.transpose());
    let bound = 1.0 / (width as f64).sqrt();
    let step = 2.0 / width as f64;
    let possible = |x: f64| match rounds {
        2 => x.clamp(-bound, bound),
        _ => (x / step).round() * step,
    };
    let mut key = fixed.times(&back);
    for _ in 0..ALTERNATIONS {
        let mut moved = key.clone();
        moved.values_mut().iter_mut().for_each(|x| *x = possible(*x));
        let mut off = fixed.clone();
        let reached = moved.times(&basis);
        off.values_mut().iter_mut().zip(reached.values()).for_each(|(f, r)| *f -= r);
        let correction = off.times(&back);
        moved.values_mut().iter_mut().zip(correction.values()).for_each(|(x, c)| *x += c);
        let change = moved.values().iter().zip(key.values()).map(|(a, b)| (a - b).abs());
        let settled = change.fold(0.0, f64::max) < 1e-12;
        key = moved;
        if settled {
            break;
        }
    }
    // The last word is a possible matrix: near the right one it is the right one.
    let nearest = |x: f64| if rounds == 2 { bound.copysign(x) } else { possible(x) };
    key.values_mut().iter_mut().for_each(|x| *x = nearest(*x));
    Ok(key)
}

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
    let full = 1 << known.residuals.width().min(WIDEST).ilog2();
    // As many pairs as coordinates, and some rows to judge by.
    let width = full.min(1 << (known.rows.rows() / 2).ilog2());
    let rng = &mut generator(subject.seed, 740);
    let drawn = sample(known.residuals.rows(), width + 20, rng);
    let native = known.residuals.columns(0..width).select(&drawn);
    let held_out: Vec<usize> = (width..native.rows()).collect();
    let truth = native.select(&held_out);
    let mut budgets = vec![1, width / 4, width / 2, width * 5 / 8, width * 3 / 4, width * 7 / 8];
    budgets.extend([width - 2, width - 1, width]);
    budgets.dedup();
    let mut lines = Vec::new();
    for rounds in 1..=ROUNDS {
        progress(&format!("structured keys of {rounds} rounds"));
        let rows = turned(&native, rounds, rng);
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
        // A key that nothing solves takes as many pairs as it has coordinates.
        let [structure, generic] = firsts.map(|first| first.unwrap_or(width) as f64);
        let saved = 1.0 - structure / generic;
        let setting = format!("rounds={rounds},width={width}");
        let finding = Finding::new(CHANNEL, &setting, "share_of_pairs_saved", saved).chance(0.0);
        section.findings.push(finding.on(subject.seed, known.rows.rows()));
        section.notes.push(format!(
            "Keys of width {width}, rounds: {rounds}. With their structure our attack solves one \
             exactly from {structure} pairs; least squares needs {generic}."
        ));
        if rounds == ROUNDS {
            section.headline = Some(section.findings.len() - 1);
            section.verdict = Some(match saved {
                s if s < 0.1 => Verdict::Closed,
                s if s < 0.9 => Verdict::Reduced,
                _ => Verdict::Open,
            });
        }
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
            known.trial(&draw)?
        } else {
            let residuals = known.residuals.select(&stored);
            let cells: Vec<u32> = stored.iter().map(|&row| known.cells[row]).collect();
            let rng = &mut generator(subject.seed, 742);
            let release = protect(&residuals, &cells, family, rng);
            let gallery = known.residuals.select(&draw.gallery);
            Trial::new(release.rows, residuals, cells, draw.targets.len(), gallery)?
        };
        let name = match family {
            KeyFamily::Structured => "structured",
            KeyFamily::Orthogonal => "haar",
        };
        let origin = if real { "release" } else { "anew" };
        let chance = 1.0 / trial.candidates() as f64;
        for budget in [8, 32] {
            let attack = Attack::Estimate(Estimator::LeastSquares);
            let trials = std::slice::from_ref(&trial);
            let measured = measure(trials, attack, Disclosure::Targeted, budget, subject.seed)?;
            let setting = format!("keys={name},protected={origin},disclosure=targeted,");
            let finding = measured.finding(CHANNEL, &setting, chance);
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
mod tests {
    use super::*;
    use shard_geometry::gaussian::Normals;

    fn normal(rows: usize, width: usize, seed: u64) -> Matrix {
        let mut matrix = Matrix::zeros(rows, width);
        Normals::new(&mut generator(seed, 0)).fill(matrix.values_mut());
        matrix
    }

    /// Relative errors with the structure and by least squares.
    fn errors(rounds: usize, width: usize, pairs: usize) -> (f64, f64) {
        let native = normal(width + 10, width, 5);
        let rows = turned(&native, rounds, &mut generator(6, 0));
        let shown = Pairs::of(&native, &rows, &(0..pairs).collect::<Vec<_>>());
        let held_out: Vec<usize> = (width..width + 10).collect();
        let (attacked, truth) = (rows.select(&held_out), native.select(&held_out));
        let generic = Estimator::LeastSquares.fit(&shown).expect("a map").apply(&attacked);
        let solved = solve(&shown, &attacked, rounds).expect("a key");
        (relative_error(&solved, &truth), relative_error(&generic, &truth))
    }

    #[test]
    fn one_pair_solves_one_round() {
        let (structure, generic) = errors(1, 64, 1);
        assert!(structure < 1e-9 && generic > 0.9, "{structure} {generic}");
    }

    #[test]
    fn three_quarters_of_the_pairs_solve_two_rounds() {
        let (structure, generic) = errors(2, 32, 24);
        assert!(structure < 1e-9 && generic > 0.2, "{structure} {generic}");
        let (structure, _) = errors(2, 32, 8);
        assert!(structure > 0.2, "{structure}");
    }

    #[test]
    fn the_key_in_use_has_the_entries_that_the_attack_expects() {
        let (structure, generic) = errors(3, 32, 32);
        assert!(structure < 1e-9 && generic < 1e-9, "{structure} {generic}");
        let (structure, _) = errors(3, 32, 8);
        assert!(structure > 0.5, "{structure}");
    }

    #[test]
    fn rows_that_no_key_made_are_not_solved() {
        let (native, rows) = (normal(40, 16, 1), normal(40, 16, 2));
        let shown = Pairs::of(&native, &rows, &(0..30).collect::<Vec<_>>());
        let held_out: Vec<usize> = (30..40).collect();
        for rounds in 1..=ROUNDS {
            let found = solve(&shown, &rows.select(&held_out), rounds).expect("a key");
            assert!(relative_error(&found, &native.select(&held_out)) > 0.8);
        }
    }
}
