//! Documents whose scores readers know, looked for.
//!
//! Whoever searches checks answers by canaries, documents whose scores it knows. A server that can tell
//! them answers for them truthfully and lies about the rest. Each trick gives every row a number, from
//! the stored rows and a log of requests in which queries are repeated:
//!
//! | trick | number |
//! |---|---|
//! | `share` | how many requests name the row |
//! | `instability` | in how many of two all but equal requests only one names it |
//! | `company` | how much requests that name it have in common beside it |
//! | `twin` | how many requests it has in common with the row that has most |
//! | `equal-length` | how near the length of another row is to its own |
//! | `length` | its length |
//! | `nearest` | the largest cosine with a row of its cell |
//! | `mean` | the mean cosine with the rows of its cell |
//! | `one-per-cell` | whether it is the oddest of its cell by the three tricks on use and equal length |
//! | `older-release` | how near the length of a row of an older release is to its own |
//!
//! Which trick is best, and whether canaries have the large or the small numbers, is learned from one
//! half of the rows, where the attacker is told which are canaries; the figure is of the other half.
//! `together` is the linear discriminant of all tricks, learned in the same way.

use std::collections::{BTreeSet, HashMap};

use rand_core::Rng;
use rayon::prelude::*;

use super::candidates::jaccard;
use super::game::REPETITIONS;
use super::without_rows;
use crate::finding::{Finding, Section};
use crate::subject::Subject;
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{
    area_interval, area_under_curve, below, generator, mean, sample, wilson_interval,
};
use crate::view::{Release, SeenRequest};

const NAME: &str = "canaries";

const TITLE: &str = "Whether documents that check answers can be told";

/// Fewest canaries, and fewest documents, that a figure is given for.
const FEWEST: usize = 20;

/// What two requests have in common at least that are taken for one query's.
const REPEATED: f64 = 0.5;

/// Pairs of requests that are looked at for each row.
const PAIRS: usize = 16;

/// Orders of rows by which repeated requests are found.
const ORDERS: u64 = 3;

/// Numbers of all rows by one trick.
struct Trick {
    name: &'static str,
    numbers: Vec<f64>,
}

/// Whether the server can tell canaries from other documents.
///
/// # Errors
/// None so far.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> anyhow::Result<Section> {
    if let Some(note) = without_rows(subject) {
        let mut section = Section::new(NAME, TITLE);
        section.notes.push(note);
        return Ok(section);
    }
    progress("canaries");
    let older = subject.view.releases.len().checked_sub(2);
    let older = older.map(|at| &subject.view.releases[at]);
    Ok(look(subject.release(), older, &subject.view.requests, &subject.canaries, subject.seed))
}

/// Looks for canaries among the rows of a release, with an older one and a log of requests where there
/// are such. `is_canary` has the truth, row by row, of which the attacker is told one half.
pub fn look(
    release: &Release,
    older: Option<&Release>,
    requests: &[SeenRequest],
    is_canary: &[bool],
    seed: u64,
) -> Section {
    let mut section = Section::new(NAME, TITLE);
    let rows = release.rows.rows();
    let canaries = is_canary.iter().filter(|&&is| is).count();
    if canaries < FEWEST || rows - canaries < FEWEST {
        section.notes.push(format!(
            "Not measured: {canaries} canaries among {rows} rows are too few to count."
        ));
        return section;
    }
    if requests.is_empty() {
        section.notes.push(
            "No requests were recorded: only stored rows were looked at. Sample queries would show \
             whether canaries are used as other documents are."
                .to_owned(),
        );
    }
    section.findings = findings(&tricks(release, older, requests, seed), is_canary, seed);
    section.rest_on(1.0, |finding| finding.part("trick").is_some() && finding.metric == "auc");
    section.notes.push(format!(
        "{canaries} of {rows} rows are canaries, documents that a key chose; {} requests were looked at. \
         The attacker is told half of the canaries and looks for the others, by the trick that found \
         the first half best and by all of them together.",
        requests.len()
    ));
    section
}

/// All tricks that what the server has allows.
fn tricks(
    release: &Release,
    older: Option<&Release>,
    requests: &[SeenRequest],
    seed: u64,
) -> Vec<Trick> {
    let rows = release.rows.rows();
    let norms = release.rows.norms();
    let mut tricks = vec![
        Trick { name: "equal-length", numbers: nearest_numbers(&norms, &norms, true) },
        Trick { name: "length", numbers: norms.clone() },
    ];
    if let Some(older) = older {
        let numbers = nearest_numbers(&norms, &older.rows.norms(), false);
        tricks.push(Trick { name: "older-release", numbers });
    }
    let [nearest, mean] = cosines_in_cells(release);
    if nearest.iter().any(|cosine| *cosine != nearest[0]) {
        tricks.push(Trick { name: "nearest", numbers: nearest });
        tricks.push(Trick { name: "mean", numbers: mean });
    }
    if !requests.is_empty() {
        let mut share = vec![0.0; rows];
        requests.iter().flat_map(|request| &request.candidates).for_each(|&row| share[row] += 1.0);
        tricks.push(Trick { name: "share", numbers: share });
        tricks.push(Trick { name: "instability", numbers: instability(rows, requests, seed) });
        let named = named_by(rows, requests);
        tricks.push(Trick { name: "company", numbers: company(&named, requests, seed) });
        tricks.push(Trick { name: "twin", numbers: twins(&named, requests) });
        let odd = |name| tricks.iter().find(|trick| trick.name == name).expect("it was just made");
        let signs = [("equal-length", 1.0), ("instability", 1.0), ("company", -1.0)];
        let ranked: Vec<Vec<f64>> = signs
            .map(|(name, sign)| ranks(odd(name).numbers.iter().map(|number| sign * number)))
            .into();
        let sums: Vec<f64> =
            (0..rows).map(|row| ranked.iter().map(|ranks| ranks[row]).sum()).collect();
        let mut numbers = vec![0.0; rows];
        for members in release.members() {
            let oddest = members.iter().copied().max_by(|&a, &b| sums[a].total_cmp(&sums[b]));
            oddest.into_iter().for_each(|row| numbers[row] = 1.0);
        }
        tricks.push(Trick { name: "one-per-cell", numbers });
    }
    tricks
}

/// The rank of each number, from 0 for the smallest.
fn ranks(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<(f64, usize)> = numbers.zip(0..).collect();
    sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0.0; sorted.len()];
    let mut at = 0;
    for equal in sorted.chunk_by(|a, b| a.0 == b.0) {
        equal.iter().for_each(|&(_, row)| ranks[row] = at as f64);
        at += equal.len();
    }
    ranks
}

/// `-ln` of the relative distance to the nearest of other numbers; `own` says that a number is among
/// them itself.
fn nearest_numbers(numbers: &[f64], others: &[f64], own: bool) -> Vec<f64> {
    let mut sorted = others.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let nearest = |&number: &f64| {
        let at = sorted.partition_point(|other| *other < number);
        let around = sorted[at.saturating_sub(2)..].iter().take(5);
        let mut gaps: Vec<f64> = around.map(|other| (other - number).abs()).collect();
        gaps.sort_unstable_by(f64::total_cmp);
        let gap = gaps.get(usize::from(own)).copied().unwrap_or(number);
        -(gap / number.max(f64::MIN_POSITIVE)).max(1e-9).ln()
    };
    numbers.iter().map(nearest).collect()
}

/// The largest and the mean cosine of every row with others of its cell; zero for a row alone.
fn cosines_in_cells(release: &Release) -> [Vec<f64>; 2] {
    let mut out = [vec![0.0; release.rows.rows()], vec![0.0; release.rows.rows()]];
    for members in release.members().iter().filter(|members| members.len() > 1) {
        // Of a cell of thousands some will do to be compared with.
        let step = members.len().div_ceil(2048);
        let others: Vec<usize> = members.iter().copied().step_by(step).collect();
        let [rows, beside] = [members, &others].map(|rows| release.rows.select(rows).normalised());
        let cosines = rows.times_transposed(&beside);
        for (&row, cosines) in members.iter().zip(cosines.iter()) {
            let pairs = cosines.iter().zip(&others).filter(|(_, other)| **other != row);
            let apart: Vec<f64> = pairs.map(|(cosine, _)| *cosine).collect();
            out[0][row] = apart.iter().copied().fold(-1.0, f64::max);
            out[1][row] = mean(&apart);
        }
    }
    out
}

/// For every row, in what share of repeated requests that name it one did not.
fn instability(rows: usize, requests: &[SeenRequest], seed: u64) -> Vec<f64> {
    let (mut seen, mut differing) = (vec![0.0; rows], vec![0.0; rows]);
    for order in 0..ORDERS {
        let mut rng = generator(seed, 170 + order);
        let order: Vec<u64> = (0..rows).map(|_| rng.next_u64()).collect();
        // Requests with much in common often have their first row in common.
        let mut last: HashMap<usize, &[usize]> = HashMap::new();
        for request in requests.iter().map(|request| &request.candidates[..]) {
            let Some(&first) = request.iter().min_by_key(|&&row| order[row]) else { continue };
            let Some(before) = last.insert(first, request) else { continue };
            if jaccard(before, request) < REPEATED {
                continue;
            }
            let [one, other]: [BTreeSet<usize>; 2] =
                [before, request].map(|rows| rows.iter().copied().collect());
            one.union(&other).for_each(|&row| seen[row] += 1.0);
            one.symmetric_difference(&other).for_each(|&row| differing[row] += 1.0);
        }
    }
    let all = differing.iter().sum::<f64>() / seen.iter().sum::<f64>().max(1.0);
    let of = |(differing, seen): (&f64, &f64)| if *seen > 0.0 { differing / seen } else { all };
    differing.iter().zip(&seen).map(of).collect()
}

/// The requests that name each row, in order.
fn named_by(rows: usize, requests: &[SeenRequest]) -> Vec<Vec<u32>> {
    let mut named: Vec<Vec<u32>> = vec![Vec::new(); rows];
    for (at, request) in (0..).zip(requests) {
        request.candidates.iter().for_each(|&row| named[row].push(at));
    }
    named
}

/// For every row, the largest share of requests that it has in common with another row of the first
/// request that names it.
fn twins(named: &[Vec<u32>], requests: &[SeenRequest]) -> Vec<f64> {
    let shared = |one: &[u32], other: &[u32]| {
        let (mut at, mut both) = (0, 0);
        for request in one {
            while at < other.len() && other[at] < *request {
                at += 1;
            }
            both += usize::from(other.get(at) == Some(request));
        }
        both as f64 / (one.len() + other.len() - both).max(1) as f64
    };
    let twin = |(row, own): (usize, &Vec<u32>)| {
        let first = own.first().map_or(&[][..], |&at| &requests[at as usize].candidates);
        let others = first.iter().filter(|&&other| other != row);
        others.map(|&other| shared(own, &named[other])).fold(0.0, f64::max)
    };
    named.par_iter().enumerate().map(twin).collect()
}

/// For every row, how much two requests that name it have in common, on average; for a row that is
/// named less than twice, what it is for the others.
fn company(named: &[Vec<u32>], requests: &[SeenRequest], seed: u64) -> Vec<f64> {
    let of: Vec<Option<f64>> = named
        .par_iter()
        .enumerate()
        .map(|(row, named)| {
            if named.len() < 2 {
                return None;
            }
            let mut rng = generator(seed, 1_000 + row as u64);
            let pairs = (0..PAIRS).map(|_| {
                let two = sample(named.len(), 2, &mut rng);
                let [one, other] =
                    [two[0], two[1]].map(|at| &requests[named[at] as usize].candidates[..]);
                jaccard(one, other)
            });
            Some(mean(&pairs.collect::<Vec<f64>>()))
        })
        .collect();
    let usual = mean(&of.iter().flatten().copied().collect::<Vec<f64>>());
    of.into_iter().map(|own| own.unwrap_or(usual)).collect()
}

/// The figures of every trick on the half that nothing was learned from.
fn findings(tricks: &[Trick], is_canary: &[bool], seed: u64) -> Vec<Finding> {
    let mut rng = generator(seed, 171);
    // Alternating within each kind, in a random order: the halves are alike.
    let mut learns = vec![false; is_canary.len()];
    let mut next = [below(2, &mut rng) == 0; 2];
    for row in sample(is_canary.len(), is_canary.len(), &mut rng) {
        let kind = usize::from(is_canary[row]);
        learns[row] = next[kind];
        next[kind] = !next[kind];
    }
    let of = |numbers: &[f64], half: bool, canary: bool| -> Vec<f64> {
        let rows =
            (0..numbers.len()).filter(|&row| learns[row] == half && is_canary[row] == canary);
        rows.map(|row| numbers[row]).collect()
    };
    let learned =
        |numbers: &[f64]| area_under_curve(&of(numbers, true, true), &of(numbers, true, false));
    let figures = |setting: String, numbers: &[f64], sign: f64| {
        let [same, different] = [true, false].map(|canary| -> Vec<f64> {
            of(numbers, false, canary).into_iter().map(|number| sign * number).collect()
        });
        let base = same.len() as f64 / (same.len() + different.len()) as f64;
        let hits = hits_at_the_top(&same, &different);
        let rows = same.len() + different.len();
        [
            Finding::new(NAME, setting.clone(), "auc", area_under_curve(&same, &different))
                .ci95(area_interval(&same, &different, REPETITIONS, seed))
                .chance(0.5)
                .on(seed, rows),
            Finding::new(NAME, setting, "precision", hits / same.len() as f64)
                .ci95(wilson_interval(hits.round() as usize, same.len()))
                .chance(base)
                .on(seed, rows),
        ]
    };
    let areas: Vec<f64> = tricks.iter().map(|trick| learned(&trick.numbers)).collect();
    let best = (0..tricks.len())
        .max_by(|&a, &b| (areas[a] - 0.5).abs().total_cmp(&(areas[b] - 0.5).abs()))
        .expect("there are tricks");
    let sign = |area: f64| if area < 0.5 { -1.0 } else { 1.0 };
    let told = Matrix::new(
        tricks.len(),
        (0..is_canary.len()).flat_map(|row| tricks.iter().map(move |t| t.numbers[row])).collect(),
    );
    let together = discriminant(&told, &learns, is_canary);
    let mut all = Vec::new();
    all.extend(figures("trick=best".to_owned(), &tricks[best].numbers, sign(areas[best])));
    all.extend(figures("trick=together".to_owned(), &together, 1.0));
    for (trick, area) in tricks.iter().zip(areas) {
        all.extend(figures(format!("single={}", trick.name), &trick.numbers, sign(area)));
    }
    all
}

/// How many of the largest numbers, as many as there are canaries, are canaries'. Of equal numbers
/// at the end a share.
fn hits_at_the_top(same: &[f64], different: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> = same.iter().map(|&s| (s, true)).collect();
    all.extend(different.iter().map(|&s| (s, false)));
    all.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let (mut left, mut hits) = (same.len(), 0.0);
    for equal in all.chunk_by(|a, b| a.0 == b.0) {
        let taken = left.min(equal.len());
        let share = taken as f64 / equal.len() as f64;
        hits += share * equal.iter().filter(|(_, same)| *same).count() as f64;
        left -= taken;
    }
    hits
}

/// The linear discriminant `w = S^-1 (m_1 - m_0)` of standardised numbers, learned from some rows, for
/// all of them. `S` is the pooled covariance, with a hundredth of the unit matrix on top.
fn discriminant(numbers: &Matrix, learns: &[bool], is_canary: &[bool]) -> Vec<f64> {
    let width = numbers.width();
    let standard = {
        let means = numbers.column_means();
        let centred = numbers.clone().minus(&means);
        let scale: Vec<f64> = (0..width)
            .map(|at| mean(&centred.iter().map(|row| row[at] * row[at]).collect::<Vec<_>>()).sqrt())
            .map(|deviation| if deviation > 0.0 { 1.0 / deviation } else { 0.0 })
            .collect();
        let values = centred.iter().flat_map(|row| row.iter().zip(&scale).map(|(x, s)| x * s));
        Matrix::new(width, values.collect())
    };
    let rows = |canary: bool| {
        let all = 0..learns.len();
        let chosen: Vec<usize> =
            all.filter(|&row| learns[row] && is_canary[row] == canary).collect();
        standard.select(&chosen)
    };
    let (canaries, documents) = (rows(true), rows(false));
    let means = [canaries.column_means(), documents.column_means()];
    let mut system = vec![vec![0.0; width + 1]; width];
    for (at, equation) in system.iter_mut().enumerate() {
        equation[at] = 0.01;
        equation[width] = means[0][at] - means[1][at];
    }
    for (part, mean) in [canaries, documents].into_iter().zip(&means) {
        let count = learns.iter().filter(|&&learns| learns).count() as f64;
        for row in part.minus(mean).iter() {
            for (a, equation) in row.iter().zip(&mut system) {
                row.iter().zip(equation).for_each(|(b, entry)| *entry += a * b / count);
            }
        }
    }
    let weights = solved(system);
    standard.iter().map(|row| row.iter().zip(&weights).map(|(x, w)| x * w).sum()).collect()
}

/// Solves equations with a positive definite matrix, the right side last.
fn solved(mut system: Vec<Vec<f64>>) -> Vec<f64> {
    let width = system.len();
    for pivot in 0..width {
        let leading = system[pivot].clone();
        for (at, equation) in system.iter_mut().enumerate().filter(|(at, _)| *at != pivot) {
            let factor = equation[pivot] / leading[pivot];
            debug_assert!(factor.is_finite(), "equation {at}");
            equation.iter_mut().zip(&leading).for_each(|(x, l)| *x -= factor * l);
        }
    }
    (0..width).map(|at| system[at][width] / system[at][at]).collect()
}

#[cfg(test)]
mod tests;
