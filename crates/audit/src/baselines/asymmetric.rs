//! Keys that keep scores and nothing else: the paper's first suggestion for future work.
//!
//! Rows are stored as `z = A r` and queries sent as `t = A^-T r_q`, so `<t, z> = <r_q, r>` for any
//! invertible `A`, while lengths and inner products of rows change. Here `A = H D H'` with Haar
//! rotations `H`, `H'` and scales `D_jj = k^(u_j - 1/2)`, `u_j` uniform, so that the condition number
//! is below `k`; then `A^-T = H D^-1 H'`.
//!
//! What is left: with the rows of a cell as `Z = R A^T`, the projection onto their column space,
//! `Z (Z^T Z)^+ Z^T = R (R^T R)^+ R^T`, is the same under every `A`. With more rows than coordinates
//! its diagonal, the leverage of each row, and its rows take the place of lengths and inner products.
//! [`whitened`] stores rows so that their plain inner products are that projection.

use std::collections::HashMap;

use anyhow::{Result, ensure};
use rand_core::Rng;
use rayon::prelude::*;
use shard_geometry::OrthogonalKey;

use super::measure::{SEED, largest};
use crate::alignment::estimators::Estimator;
use crate::alignment::trial::{Attack, Disclosure, Draw, Trial, measure};
use crate::finding::{Finding, Section};
use crate::linkage::game::{Grant, Population, Truth};
use crate::linkage::linker::{Linker, Pair, play};
use crate::subject::Corpus;
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, interval, mean, sample};
use crate::view::Release;

/// The largest condition number of a key.
pub const CONDITION: f64 = 16.0;

const NAME: &str = "asymmetric";

/// Documents of a release.
const ROWS: usize = 10_000;

/// Numbers of cells: with 16 a cell has more rows than coordinates, with 64 fewer.
const CELLS: [usize; 2] = [16, 64];

/// Known pairs in the cell of a target.
const PAIRS: [usize; 3] = [8, 32, 128];

/// Targets and candidates of the attack with known pairs.
const TARGETS: usize = 256;
const GALLERY: usize = 5_000;

/// Directions with a smaller share of the largest singular value are rounding.
const CUTOFF: f64 = 1e-5;

/// Repetitions of the bootstrap.
const RESAMPLES: usize = 1000;

/// A key `A = H D H'`.
pub struct AsymmetricKey {
    outer: OrthogonalKey,
    scales: Vec<f64>,
    inner: OrthogonalKey,
}

/// Keys print as nothing.
impl std::fmt::Debug for AsymmetricKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "AsymmetricKey({} wide)", self.scales.len())
    }
}

impl AsymmetricKey {
    /// A random key of condition number at most `condition`.
    ///
    /// # Panics
    /// When the condition number is below one.
    pub fn sample(width: usize, condition: f64, rng: &mut impl Rng) -> Self {
        assert!(condition >= 1.0, "a condition number is at least one");
        let inner = OrthogonalKey::sample(width, rng);
        let outer = OrthogonalKey::sample(width, rng);
        let uniform = |rng: &mut _| (Rng::next_u64(rng) >> 11) as f64 / (1_u64 << 53) as f64;
        let scales = (0..width).map(|_| condition.powf(uniform(rng) - 0.5)).collect();
        Self { outer, scales, inner }
    }

    /// `A x`: what is stored of a row.
    ///
    /// # Panics
    /// When the width is another.
    pub fn apply(&self, x: &mut [f64]) {
        self.inner.apply(x);
        x.iter_mut().zip(&self.scales).for_each(|(x, scale)| *x *= scale);
        self.outer.apply(x);
    }

    /// `A^-T x`: what is sent of a query.
    ///
    /// # Panics
    /// When the width is another.
    pub fn apply_to_query(&self, x: &mut [f64]) {
        self.inner.apply(x);
        x.iter_mut().zip(&self.scales).for_each(|(x, scale)| *x /= scale);
        self.outer.apply(x);
    }
}

/// A release in which the rows of each cell are the left singular vectors of its stored rows, each
/// with as many coordinates as the widest cell needs: their inner products are the projection onto
/// the column space, which no linear key changes.
///
/// # Errors
/// When a singular value decomposition does not converge.
pub fn whitened(release: &Release) -> Result<Release> {
    let width = release.rows.width();
    let mut rows = Matrix::zeros(release.rows.rows(), width);
    let cells: Vec<(Vec<usize>, Matrix)> = release
        .members()
        .into_par_iter()
        .filter(|members| !members.is_empty())
        .map(|members| -> Result<_> {
            let stored = release.rows.select(&members);
            let svd = stored
                .as_faer()
                .thin_svd()
                .map_err(|error| anyhow::anyhow!("no singular values of a cell: {error:?}"))?;
            let values: Vec<f64> = svd.S().column_vector().iter().copied().collect();
            let least = CUTOFF * values.first().copied().unwrap_or(0.0);
            let rank = values.iter().filter(|&&value| value > least).count();
            let mut left = Matrix::zeros(members.len(), width);
            for row in 0..members.len() {
                let own = (0..rank).map(|column| svd.U()[(row, column)]);
                left.row_mut(row).iter_mut().zip(own).for_each(|(x, u)| *x = u);
            }
            Ok((members, left))
        })
        .collect::<Result<_>>()?;
    for (members, left) in &cells {
        members.iter().zip(left.iter()).for_each(|(&row, u)| rows.row_mut(row).copy_from_slice(u));
    }
    Ok(Release { rows, ..release.clone() })
}

/// Which keys a release has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keys {
    Orthogonal,
    Asymmetric,
}

impl Keys {
    fn name(self) -> &'static str {
        match self {
            Self::Orthogonal => "orthogonal",
            Self::Asymmetric => "asymmetric",
        }
    }

    fn condition(self) -> f64 {
        match self {
            Self::Orthogonal => 1.0,
            Self::Asymmetric => CONDITION,
        }
    }

    /// Rows under a fresh key for each cell, in single precision. A condition number of one leaves a
    /// rotation.
    fn protect(self, residuals: &Matrix, cells: &[u32], rng: &mut impl Rng) -> (Release, Held) {
        let width = residuals.width();
        let mut named: Vec<u32> = cells.to_vec();
        named.sort_unstable();
        named.dedup();
        let keys: Held = named
            .into_iter()
            .map(|cell| (cell, AsymmetricKey::sample(width, self.condition(), rng)))
            .collect();
        let mut rows = residuals.clone();
        rows.values_mut().par_chunks_exact_mut(width).zip(cells).for_each(|(row, cell)| {
            keys[cell].apply(row);
            row.iter_mut().for_each(|x| *x = f64::from(*x as f32));
        });
        (Release { rows, cells: cells.to_vec(), prefixes: None }, keys)
    }
}

type Held = HashMap<u32, AsymmetricKey>;

/// Asymmetric keys beside rotations: scores, linkage of two releases, known pairs.
///
/// # Errors
/// When no collection is large enough, or a decomposition does not converge.
pub fn reproduce_asymmetric(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new(NAME, "Keys that keep scores and no lengths");
    let corpus = largest(corpora, "minilm");
    let rows = corpus.map_or(0, |corpus| corpus.vectors.rows());
    ensure!(rows >= 2 * CELLS[1], "asymmetric keys need at least {} documents", 2 * CELLS[1]);
    let corpus = corpus.expect("a corpus with rows");
    section.notes = vec![
        format!(
            "The transform that the paper leaves to future work, which has no figure of it: condition \
             number at most {CONDITION}, two releases of {} documents of {} under independent keys, \
             rows in single precision, cell numbers granted.",
            rows.min(ROWS),
            corpus.name
        ),
        "Lengths and inner products of rows link few rows of such releases, though more than guessing. \
         Whitened rows are linked wherever a cell has more rows than coordinates: the leverage of a \
         row in its cell is the same under every linear key. With 64 cells that are some of the cells. \
         Known pairs determine a linear map as they do a rotation, and least squares needs a few more."
            .into(),
        "score_error_growth is by how much the product of the longest row and the query is larger \
         than with rotations: encrypted scores lose as much precision. score_error is of scores in \
         single precision."
            .into(),
    ];
    for count in CELLS {
        let population = Population::fit(&corpus.vectors, ROWS, count, SEED)?;
        for keys in [Keys::Orthogonal, Keys::Asymmetric] {
            progress(&format!("asymmetric: {count} cells, {} keys", keys.name()));
            let setting = format!("cells={count},keys={}", keys.name());
            of_keys(&population, keys, &setting, &mut section)?;
        }
    }
    Ok(section)
}

fn of_keys(
    population: &Population,
    keys: Keys,
    setting: &str,
    section: &mut Section,
) -> Result<()> {
    let rows = population.len();
    let mut rng = generator(SEED, 1);
    let (first, held) = keys.protect(&population.residuals, &population.cells, &mut rng);
    section.findings.extend(scores(population, &first, &held, setting));

    // The second release, in an order of its own.
    let order = sample(rows, rows, &mut rng);
    let residuals = population.residuals.select(&order);
    let cells: Vec<u32> = order.iter().map(|&row| population.cells[row]).collect();
    let (second, _) = keys.protect(&residuals, &cells, &mut rng);
    let own: Vec<usize> = (0..rows).collect();
    let truth = Truth::new(&own, &order);
    let white = Pair::new(whitened(&first)?, whitened(&second)?);
    let plain = Pair::new(first.clone(), second);
    for (form, pair) in [("stored", &plain), ("whitened", &white)] {
        for linker in [Linker::Norm, Linker::Gram] {
            let Some(outcome) = play(pair, linker, Grant::CellLabels, &truth, &mut rng) else {
                continue;
            };
            let setting = format!("{setting},rows={form},linker={}", linker.name());
            section.findings.push(
                Finding::share(NAME, setting, "recall_at_1", &outcome.hits)
                    .chance(outcome.chance)
                    .on(SEED, rows),
            );
        }
    }

    let draw = Draw::new(&own, TARGETS, GALLERY, rows, &mut rng);
    let stored = draw.stored();
    let trial = Trial::new(
        &draw,
        first.rows.select(&stored),
        population.residuals.select(&stored),
        stored.iter().map(|&row| population.cells[row]).collect(),
        population.residuals.select(&draw.gallery),
    )?;
    for pairs in PAIRS {
        let attack = Attack::Estimate(Estimator::LeastSquares);
        let measured = measure(std::slice::from_ref(&trial), attack, Disclosure::Targeted, pairs)?;
        section.findings.push(measured.finding(NAME, &format!("{setting},")).on(SEED, rows));
    }
    Ok(())
}

/// How true scores are, and how much precision encryption would lose, with some residuals as queries.
fn scores(population: &Population, release: &Release, keys: &Held, setting: &str) -> Vec<Finding> {
    let residuals = &population.residuals;
    let asked = sample(population.len(), TARGETS, &mut generator(SEED, 2));
    let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let longest = |rows: &Matrix| rows.norms().into_iter().fold(0.0, f64::max);
    let growth_of_rows = longest(&release.rows) / longest(residuals);
    let (mut error, mut growth) = (0.0_f64, Vec::new());
    for &query in &asked {
        let residual = residuals.row(query);
        // Against rows of its own cell, whose key the query is under.
        let cell = population.cells[query];
        let mut sent = residual.to_vec();
        keys[&cell].apply_to_query(&mut sent);
        growth.push(growth_of_rows * norm(&sent) / norm(residual));
        for row in (0..population.len()).filter(|&row| population.cells[row] == cell) {
            let exact = dot(residual, residuals.row(row));
            error = error.max((dot(&sent, release.rows.row(row)) - exact).abs());
        }
    }
    let finding = |metric: &str, value: f64| {
        Finding::new(NAME, setting, metric, value).on(SEED, population.len())
    };
    vec![
        finding("score_error", error),
        finding("score_error_growth", mean(&growth)).ci95(interval(&growth, RESAMPLES, SEED)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::sample::judged_corpus;
    use crate::tools::matrix::normal;

    #[test]
    fn scores_are_kept_and_lengths_are_not() {
        let key = AsymmetricKey::sample(12, 16.0, &mut generator(1, 0));
        let (row, query) = (normal(1, 12, 2), normal(1, 12, 3));
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let (mut stored, mut sent) = (row.row(0).to_vec(), query.row(0).to_vec());
        key.apply(&mut stored);
        key.apply_to_query(&mut sent);
        assert!((dot(&stored, &sent) - dot(row.row(0), query.row(0))).abs() < 1e-12);
        assert!((dot(&stored, &stored) / dot(row.row(0), row.row(0)) - 1.0).abs() > 1e-3);
        assert!(key.scales.iter().all(|&scale| (0.25..=4.0).contains(&scale)));
        assert!(!format!("{key:?}").contains("0."));
    }

    #[test]
    fn whitened_products_are_the_same_under_every_key_where_a_cell_has_rows_enough() {
        let residuals = normal(60, 8, 4);
        let cells: Vec<u32> = (0..60).map(|row| row % 2).collect();
        let of = |seed: u64| {
            let (release, _) =
                Keys::Asymmetric.protect(&residuals, &cells, &mut generator(seed, 0));
            let white = whitened(&release).unwrap();
            (release.rows.norms(), white.rows.norms())
        };
        let ((first, white), (second, other)) = (of(1), of(2));
        assert!(first.iter().zip(&second).any(|(a, b)| (a - b).abs() > 0.1));
        assert!(white.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-5));
        let spread =
            white.iter().copied().fold(0.0, f64::max) - white.iter().copied().fold(1.0, f64::min);
        assert!(spread > 0.1, "{spread}");
    }

    #[test]
    fn asymmetric_keys_stop_lengths_and_neither_leverage_nor_pairs() {
        let section = reproduce_asymmetric(&[judged_corpus(1200, 32, 3)], &|_| ()).unwrap();
        let value = |part: &str, metric: &str| {
            let named = |f: &&Finding| f.setting.contains(part) && f.metric == metric;
            section.findings.iter().find(named).expect(part).value
        };
        let linked = |rest: &str| value(&format!("cells=16,{rest}"), "recall_at_1");
        assert!(linked("keys=orthogonal,rows=stored,linker=norm") > 0.9);
        assert!(linked("keys=asymmetric,rows=stored,linker=norm") < 0.1);
        assert!(linked("keys=asymmetric,rows=whitened,linker=norm") > 0.9);
        assert!(linked("keys=asymmetric,attack=ols,pairs=128") > 0.9);
        assert!(value("keys=asymmetric", "score_error") < 1e-5);
        assert!((value("keys=orthogonal", "score_error_growth") - 1.0).abs() < 1e-5);
        assert!(value("keys=asymmetric", "score_error_growth") > 1.0);
        assert!(reproduce_asymmetric(&[], &|_| ()).is_err());
    }
}
