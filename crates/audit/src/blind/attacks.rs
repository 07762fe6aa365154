//! What is tried on ciphertexts: the attacks of the other channels, on rows as they are read.
//!
//! All take every row of the newest release for a document of the same number. An attack returns
//! nothing where there is too little to attack.

use std::collections::BTreeMap;

use anyhow::Result;

use super::limit::Try;
use super::{Changes, Requests};
use crate::alignment::estimators::Estimator;
use crate::alignment::span::Matcher;
use crate::alignment::trial::{Attack, Disclosure, Draw, Trial, hits};
use crate::alignment::unsupervised::{align_moments, refine};
use crate::linkage::game::{Grant, Truth};
use crate::linkage::linker::{Linker, Pair, play};
use crate::linkage::membership::scores;
use crate::linkage::same_key::neighbours_under_key;
use crate::subject::Subject;
use crate::tools::evidence::of_hits;
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, nearest_others, places};
use crate::tools::statistics::{generator, interval, mean, sample};
use crate::view::Release;

/// An attack on rows as they are read.
pub type OnRows = fn(&Subject) -> Result<Vec<Try>>;

/// The fewest rows that are attacked.
const FEWEST_ROWS: usize = 60;

/// Neighbours that are looked for.
const DEPTH: usize = 10;

/// Rows that are looked up.
const TARGETS: usize = 300;

/// Candidates in a gallery.
const GALLERY: usize = 5_000;

/// Pairs that are known where they may be anywhere.
const SPREAD_PAIRS: usize = 2_000;

/// Neighbours among rows as they are read: in the whole collection, and in a block, whose rows are
/// hidden by one pair of secrets.
///
/// Some documents are neighbours of many, and so are some rows of noise. Guessing is therefore to name
/// row `r` as often as the attacker does, and whoever is asked about: with `t_r` and `f_r` the probes
/// whose true and found neighbours include `r`, it finds `sum_r t_r f_r / probes` of them. In a block,
/// where the attacker names `DEPTH` of the `n - 1` other rows, it finds that share of those that are true.
///
/// # Errors
/// None so far.
pub fn neighbours(subject: &Subject) -> Result<Vec<Try>> {
    let (release, count) = (subject.release(), subject.vectors.rows());
    // Documents that are all alike have no neighbours, only an order.
    let alike = mean(&subject.coordinates.norms()) <= 1e-6 * mean(&subject.vectors.norms());
    if count < FEWEST_ROWS || alike {
        return Ok(Vec::new());
    }
    let probes = sample(count, 1_000, &mut generator(subject.seed, 900));
    let truth = nearest_others(&subject.vectors, &probes, DEPTH, Metric::Cosine);
    let everywhere = nearest_others(&release.rows, &probes, DEPTH, Metric::Cosine);
    let in_block = neighbours_under_key(release, &probes);
    let times = |lists: &[Vec<u32>]| {
        let mut times = vec![0.0; count];
        lists.iter().flatten().for_each(|&row| times[row as usize] += 1.0);
        times
    };
    let named = times(&truth).into_iter().zip(times(&everywhere));
    let blind_everywhere = named.map(|(t, f)| t * f).sum::<f64>() / probes.len() as f64;
    let members = release.members();
    let blind_in_block: f64 = probes
        .iter()
        .zip(&truth)
        .zip(&in_block)
        .map(|((&probe, truth), found)| {
            let own = release.cells[probe];
            let true_ones = truth.iter().filter(|&&row| release.cells[row as usize] == own).count();
            let others = members[own as usize].len() - 1;
            (true_ones * found.len()) as f64 / others.max(1) as f64
        })
        .sum();
    let judged = |setting: &str, found: &[Vec<u32>], blind: f64| {
        let found_of = |(truth, found): (&Vec<u32>, &Vec<u32>)| {
            truth.iter().filter(|row| found.contains(row)).count() as f64
        };
        let each: Vec<f64> = truth.iter().zip(found).map(found_of).collect();
        let share: Vec<f64> = each.iter().map(|found| found / DEPTH as f64).collect();
        Try {
            setting: setting.to_owned(),
            metric: "nn_overlap_at_10",
            value: mean(&share),
            interval: interval(&share, 200, subject.seed),
            chance: blind / (DEPTH * probes.len()) as f64,
            evidence: of_hits(each.iter().sum(), blind),
        }
    };
    Ok(vec![
        judged("among=all-rows", &everywhere, blind_everywhere),
        judged("among=rows-of-a-block", &in_block, blind_in_block),
    ])
}

/// Known pairs: those of a row's own block, all that there are, and pairs from anywhere as if one key
/// hid all rows.
///
/// # Errors
/// When a decomposition does not converge.
pub fn known_pairs(subject: &Subject) -> Result<Vec<Try>> {
    const IN_BLOCK: [Attack; 2] =
        [Attack::Estimate(Estimator::LeastSquares), Attack::Match(Matcher::Gram)];
    const ANYWHERE: [Attack; 1] = [Attack::Estimate(Estimator::LeastSquares)];
    let (cells, one) = (subject.release().cells.clone(), vec![0; subject.vectors.rows()]);
    let most = subject.release().members().iter().map(Vec::len).max().unwrap_or(0);
    let mut tries = Vec::new();
    for (name, cells, attacks, disclosure, pairs) in [
        ("same-block", cells, &IN_BLOCK[..], Disclosure::Targeted, most.saturating_sub(1)),
        ("anywhere", one, &ANYWHERE[..], Disclosure::Diffuse, SPREAD_PAIRS),
    ] {
        let Some(trial) = trial(subject, &cells)? else { return Ok(tries) };
        for &attack in attacks {
            let outcome = trial.play(attack, disclosure, pairs)?;
            let setting = format!("attack={},known={name}", attack.name());
            let chance = mean(&outcome.chances);
            tries.push(Try::of_hits(setting, &hits(&outcome.places, 1), chance));
        }
    }
    Ok(tries)
}

/// A game on the rows of a release, hidden by one key in each cell.
fn trial(subject: &Subject, cells: &[u32]) -> Result<Option<Trial>> {
    let count = subject.vectors.rows();
    if count < FEWEST_ROWS {
        return Ok(None);
    }
    let rows: Vec<usize> = (0..count).collect();
    let draw = Draw::new(&rows, TARGETS, GALLERY, usize::MAX, &mut generator(subject.seed, 901));
    let stored = draw.stored();
    let trial = Trial::new(
        &draw,
        subject.release().rows.select(&stored),
        subject.coordinates.select(&stored),
        stored.iter().map(|&row| cells[row]).collect(),
        subject.coordinates.select(&draw.gallery),
    )?;
    Ok(Some(trial))
}

/// A reference corpus that holds the documents: rows are looked up in it as they are read, by angle and
/// by length.
///
/// # Errors
/// When a decomposition does not converge.
pub fn reference(subject: &Subject) -> Result<Vec<Try>> {
    let count = subject.vectors.rows();
    let Some(trial) = trial(subject, &vec![0; count])? else { return Ok(Vec::new()) };
    let by_norm = trial.play(Attack::Norm, Disclosure::Diffuse, 0)?;
    let chance = mean(&by_norm.chances);
    let targets = sample(count, TARGETS.min(count / 3), &mut generator(subject.seed, 902));
    let rows = subject.release().rows.select(&targets);
    let by_angle = places(&rows, &subject.coordinates, &targets, Metric::Cosine);
    Ok(vec![
        Try::of_hits("attack=as-read", &hits(&by_angle, 1), 1.0 / count as f64),
        Try::of_hits("attack=norm", &hits(&by_norm.places, 1), chance),
    ])
}

/// No known pair: the cloud of rows is laid over that of half of the documents, and the other half is
/// looked up; before that, as if rows were the vectors themselves.
///
/// # Errors
/// When a decomposition does not converge.
pub fn unsupervised(subject: &Subject) -> Result<Vec<Try>> {
    let count = subject.vectors.rows();
    if count < FEWEST_ROWS {
        return Ok(Vec::new());
    }
    let rng = &mut generator(subject.seed, 903);
    let order = sample(count, count, rng);
    let (auxiliary, released) = order.split_at(count / 2);
    let released = &released[..released.len().min(GALLERY)];
    let (rows, gallery) =
        (subject.release().rows.select(released), subject.coordinates.select(released));
    let auxiliary = subject.coordinates.select(auxiliary);
    let targets: Vec<usize> = (0..released.len().min(TARGETS)).collect();
    let attacked = rows.select(&targets);
    let chance = 1.0 / released.len() as f64;
    let moments = align_moments(&rows, &auxiliary)?;
    let by_moments = places(&moments.apply(&attacked), &gallery, &targets, Metric::Cosine);
    let refined = refine(moments, &rows, &auxiliary, rng)?;
    let by_refined = places(&refined.apply(&attacked), &gallery, &targets, Metric::Cosine);
    let as_read = places(&attacked, &gallery, &targets, Metric::Cosine);
    Ok(vec![
        Try::of_hits("attack=as-read", &hits(&as_read, 1), chance),
        Try::of_hits("attack=moments", &hits(&by_moments, 1), chance),
        Try::of_hits("attack=refined", &hits(&by_refined, 1), chance),
    ])
}

/// The same documents in another epoch, each release in an order of its own.
///
/// # Errors
/// None so far.
pub fn releases(subject: &Subject) -> Result<Vec<Try>> {
    let [first, .., second] = subject.view.releases.as_slice() else { return Ok(Vec::new()) };
    let count = second.rows.rows();
    if count < FEWEST_ROWS || first.rows.rows() != count {
        return Ok(Vec::new());
    }
    let rng = &mut generator(subject.seed, 904);
    let orders = [(); 2].map(|()| sample(count, count, rng));
    let truth = Truth::new(&orders[0], &orders[1]);
    let pair = Pair::new(part(first, &orders[0]), part(second, &orders[1]));
    let linkers = [Linker::CrossKeyCosine, Linker::Norm, Linker::Gram, Linker::Combined];
    let mut tries = Vec::new();
    for linker in linkers {
        if let Some(outcome) = play(&pair, linker, Grant::Nothing, &truth, rng) {
            let setting = format!("linker={}", linker.name());
            tries.push(Try::of_hits(setting, &outcome.hits, outcome.chance));
        }
    }
    Ok(tries)
}

fn part(release: &Release, rows: &[usize]) -> Release {
    let cells = rows.iter().map(|&row| release.cells[row]).collect();
    Release { rows: release.rows.select(rows), cells, prefixes: None }
}

/// Half of the documents are stored and half are not: which a suspect is, by the nearest row as it is
/// read, and by the nearest length.
///
/// # Errors
/// None so far.
pub fn membership(subject: &Subject) -> Result<Vec<Try>> {
    let count = subject.vectors.rows();
    if count < FEWEST_ROWS {
        return Ok(Vec::new());
    }
    let order = sample(count, count, &mut generator(subject.seed, 905));
    let (members, outsiders) = order.split_at(count / 2);
    let suspects = members.len().min(1_000);
    let unit = |rows: Matrix| {
        let norms = rows.norms();
        let size = mean(&norms).max(f64::MIN_POSITIVE);
        let values = rows.values().iter().map(|x| x / size).collect();
        Matrix::new(rows.width(), values)
    };
    let stored = unit(subject.release().rows.select(members));
    let native = |documents: &[usize]| subject.coordinates.select(documents);
    let all = unit(native(&[&members[..suspects], &outsiders[..suspects]].concat()));
    let (inside, outside): (Vec<usize>, Vec<usize>) =
        ((0..suspects).collect(), (suspects..2 * suspects).collect());
    let norms = |rows: &Matrix| Matrix::new(1, rows.norms());
    let tries =
        [("view=as-read", stored.clone(), all.clone()), ("view=norm", norms(&stored), norms(&all))];
    let judged = |(setting, stored, all): (&str, Matrix, Matrix)| {
        let score = |suspects: &[usize]| scores(&all.select(suspects), &stored, None);
        Try::of_area(setting, &score(&inside), &score(&outside), subject.seed)
    };
    Ok(tries.into_iter().map(judged).collect())
}

/// Which rows of a block that was written again were replaced: by the length of the difference.
pub fn changes(changes: &Changes, seed: u64) -> Vec<Try> {
    let norms = changes.differences.norms();
    let of = |kind: bool| -> Vec<f64> {
        let rows = norms.iter().zip(&changes.changed).filter(|(_, changed)| **changed == kind);
        rows.map(|(norm, _)| *norm).collect()
    };
    let (replaced, kept) = (of(true), of(false));
    if replaced.len() < 8 || kept.len() < 8 {
        return Vec::new();
    }
    vec![Try::of_area("attack=difference", &replaced, &kept, seed)]
}

/// The same difference if what is stored of a row that stays had a correlation of `level` before and
/// after: `2 (1 - level)` of its square would be left.
pub fn planted_changes(changes: &Changes, level: f64) -> Changes {
    let mut differences = changes.differences.clone();
    let left = (1.0 - level).sqrt();
    for (row, _) in changes.changed.iter().enumerate().filter(|(_, changed)| !**changed) {
        differences.row_mut(row).iter_mut().for_each(|x| *x *= left);
    }
    Changes { differences, changed: changes.changed.clone() }
}

/// Whether two documents of one cell are more alike than two of different cells. No document is in two pairs
/// of a kind.
pub fn likeness_in_cells(subject: &Subject, cells: &[u32]) -> Option<Try> {
    /// The fewest pairs of either kind.
    const FEWEST: usize = 8;
    let order = sample(cells.len(), cells.len(), &mut generator(subject.seed, 907));
    let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    order.iter().for_each(|&row| members.entry(cells[row]).or_default().push(row));
    let vectors = subject.vectors.clone().normalised();
    let alike = |pair: &[usize]| -> f64 {
        vectors.row(pair[0]).iter().zip(vectors.row(pair[1])).map(|(x, y)| x * y).sum()
    };
    let same: Vec<f64> =
        members.values().flat_map(|rows| rows.chunks_exact(2)).map(alike).collect();
    let in_two = |pair: &&[usize]| cells[pair[0]] != cells[pair[1]];
    let different: Vec<f64> = order.chunks_exact(2).filter(in_two).map(alike).collect();
    (same.len() >= FEWEST && different.len() >= FEWEST)
        .then(|| Try::of_area("attack=same-cell", &same, &different, subject.seed))
}

/// Whether two requests are for one query, by the angle between what the server has of them; and, where
/// it is as wide as a query, which query of a list it is.
pub fn requests(queries: &Matrix, [first, second]: &[Matrix; 2], seed: u64) -> Vec<Try> {
    let count = queries.rows();
    if count < 8 {
        return Vec::new();
    }
    let (a, b) = (first.clone().normalised(), second.clone().normalised());
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let pairs = |shift: usize| -> Vec<f64> {
        (0..count).map(|at| product(a.row(at), b.row((at + shift) % count))).collect()
    };
    let mut tries = vec![Try::of_area("attack=same-query", &pairs(0), &pairs(1), seed)];
    if first.width() == queries.width() {
        let own: Vec<usize> = (0..count).collect();
        let found = places(first, queries, &own, Metric::Cosine);
        tries.push(Try::of_hits("attack=which-query", &hits(&found, 1), 1.0 / count as f64));
    }
    tries
}

/// Requests that leak their query.
pub fn planted_requests(requests: &Requests, readings: &[Matrix; 2], level: f64) -> [Matrix; 2] {
    [0, 1].map(|at| super::limit::mixed(&readings[at], &requests.queries, level))
}
