//! The linkage game: two releases under independent keys, each in an order of its own, and a
//! judge who knows which rows are of one document.
//!
//! Attacks are given the two [`Release`]s and [`Group`]s of rows that may be matched; what a
//! [`Truth`] holds never reaches them.

use std::collections::{HashMap, HashSet};

use anyhow::Context;
use rand_core::Rng;
use shard_geometry::{Pca, VectorSet};

use crate::subject::{KeyFamily, Subject, cells_of, coordinates, protect};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{area_under_curve, below, generator, mean, quantile, sample};
use crate::view::Release;

/// Repetitions of every bootstrap of this family. Rates over thousands of rows have narrow
/// intervals, whose ends 200 repetitions place well within their width.
pub const REPETITIONS: usize = 200;

/// Same-document pairs, and as many of different documents, that an area under the curve is
/// taken from.
const AREA_PAIRS: usize = 4_000;

/// Documents to make releases from.
#[derive(Clone, Debug)]
pub struct Population {
    /// `u` of each.
    pub prefixes: Matrix,
    /// `r` of each.
    pub residuals: Matrix,
    /// The cell of each.
    pub cells: Vec<u32>,
    /// How releases of it are keyed.
    pub family: KeyFamily,
    /// The document of each.
    names: Vec<usize>,
}

impl Population {
    /// At most `limit` random rows with their own principal axes, a prefix of a quarter of the
    /// width, and `cells` cells. Of rows with the very same vector one is taken: nothing tells such
    /// documents apart, so no match between them is right or wrong.
    ///
    /// # Errors
    /// When the vectors have no principal axes, or are fewer than the cells.
    pub fn fit(vectors: &VectorSet, limit: usize, cells: usize, seed: u64) -> anyhow::Result<Self> {
        let mut rng = generator(seed, 1);
        let mut chosen = sample(vectors.rows(), limit, &mut rng);
        let mut seen: HashSet<Vec<u32>> = HashSet::new();
        chosen.retain(|&row| seen.insert(vectors.row(row).iter().map(|x| x.to_bits()).collect()));
        let values = chosen.iter().flat_map(|&row| vectors.row(row).iter().copied()).collect();
        let vectors = VectorSet::new(vectors.width(), values).context("documents to release")?;
        let coordinates = coordinates(&Pca::fit(&vectors)?, &vectors);
        let prefix_width = (vectors.width() / 4).max(1);
        let prefixes = coordinates.columns(0..prefix_width);
        let cells = cells_of(&prefixes, cells, &mut rng)?;
        let residuals = coordinates.columns(prefix_width..vectors.width());
        let names = (0..residuals.rows()).collect();
        Ok(Self { prefixes, residuals, cells, family: KeyFamily::Orthogonal, names })
    }

    /// The stored rows of an audit, to make other releases like the real one from.
    pub fn of(subject: &Subject) -> Self {
        Self::of_rows(subject.release(), &subject.documents, subject.keys)
    }

    /// Stored rows, with the document of each. A row under a key and another key on top is a row under
    /// a key, so releases of stored rows are what a change of keys makes of them.
    pub fn of_rows(release: &Release, documents: &[usize], family: KeyFamily) -> Self {
        let nothing = || Matrix::zeros(documents.len(), 1);
        Self {
            prefixes: release.prefixes.clone().unwrap_or_else(nothing),
            residuals: release.rows.clone(),
            cells: release.cells.clone(),
            family,
            names: documents.to_vec(),
        }
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A release of some documents under fresh keys, in a random order, with the prefixes as they
    /// are.
    ///
    /// With one key for each document, a Haar key rotates its row to a uniformly random direction
    /// and does nothing else, so the direction is drawn: `z = |r| g / |g|` with `g` standard
    /// normal has the law of `H r`, without a QR for each row.
    pub fn release(&self, documents: &[usize], keying: Keying, rng: &mut impl Rng) -> Snapshot {
        let order = sample(documents.len(), documents.len(), rng);
        let documents: Vec<usize> = order.into_iter().map(|at| documents[at]).collect();
        let names = documents.iter().map(|&document| self.names[document]).collect();
        let residuals = self.residuals.select(&documents);
        let own: Vec<u32> = (0..documents.len() as u32).collect();
        let shared: Vec<u32> = documents.iter().map(|&document| self.cells[document]).collect();
        let mut release = match (keying, self.family) {
            (Keying::Cells, family) => protect(&residuals, &shared, family, rng),
            (_, KeyFamily::Orthogonal) => {
                Release { rows: random_directions(&residuals, rng), cells: own, prefixes: None }
            }
            (_, family) => protect(&residuals, &own, family, rng),
        };
        if keying == Keying::MicroInCells {
            release.cells = shared;
        }
        release.prefixes = Some(self.prefixes.select(&documents));
        Snapshot { release, documents: names }
    }
}

/// How much longer rows are than residuals, for an attacker who knows no row: the ratio of the median norms of stored rows and of
/// native vectors of the same kind. A power of two that the spread of norms allows, by three standard
/// errors of a median, is taken instead, since fixed points are such.
pub fn scale_of_norms(stored: &[f64], native: &[f64]) -> f64 {
    let sorted = |norms: &[f64]| {
        let mut norms: Vec<f64> = norms.iter().copied().filter(|norm| norm.is_normal()).collect();
        norms.sort_unstable_by(f64::total_cmp);
        norms
    };
    let (stored, native) = (sorted(stored), sorted(native));
    if stored.is_empty() || native.is_empty() {
        return 1.0;
    }
    let ratio = quantile(&stored, 0.5) / quantile(&native, 0.5);
    let power = ratio.log2().round().exp2();
    // Of a normal law the standard error of a median is 0.93 of the quartiles' distance / sqrt(n).
    let quartiles = (quantile(&native, 0.75) - quantile(&native, 0.25)) / quantile(&native, 0.5);
    let error = 0.93 * quartiles / (stored.len().min(native.len()) as f64).sqrt();
    if (ratio / power - 1.0).abs() < (3.0 * error).max(1e-3) { power } else { ratio }
}

/// Whether rows are stored in fixed point: as whole numbers.
pub(super) fn is_fixed_point(release: &Release) -> bool {
    release.rows.values().iter().all(|x| x.fract() == 0.0)
}

/// Rounds rows to fixed point.
pub(super) fn round_to_fixed_point(release: &mut Release) {
    release.rows.values_mut().iter_mut().for_each(|x| *x = x.round());
}

fn random_directions(rows: &Matrix, rng: &mut impl Rng) -> Matrix {
    let mut directions = Matrix::normal(rows.rows(), rows.width(), rng).normalised();
    for (at, norm) in rows.norms().into_iter().enumerate() {
        directions.row_mut(at).iter_mut().for_each(|x| *x *= norm);
    }
    directions
}

/// A release, and beside it what only a judge may see.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What the server has.
    pub release: Release,
    /// The document of each row.
    pub documents: Vec<usize>,
}

/// Which rows share a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keying {
    /// Those of one cell.
    Cells,
    /// None.
    Micro,
    /// None, while the server knows the cells of the rows from their public prefixes: these are
    /// then the cells of the release.
    MicroInCells,
}

impl Keying {
    /// That of a release: micro-keys if no two rows share one.
    pub fn of(release: &Release) -> Self {
        let alone = release.members().iter().all(|rows| rows.len() <= 1);
        if alone { Self::Micro } else { Self::Cells }
    }

    /// As settings spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cells => "cell",
            Self::Micro | Self::MicroInCells => "micro",
        }
    }

    /// What the attacker is granted in the paper's games: the correspondence of cells where there
    /// are any, nothing otherwise.
    pub fn grant(self) -> Grant {
        match self {
            Self::Cells | Self::MicroInCells => Grant::CellLabels,
            Self::Micro => Grant::Nothing,
        }
    }
}

/// What an attacker knows of how rows of two releases correspond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grant {
    /// Nothing: a row may be any of the other release.
    Nothing,
    /// Cells have the same numbers in both.
    CellLabels,
}

/// Rows of the first release, and those of the second that they may be matched with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Of the first release.
    pub first: Vec<usize>,
    /// Of the second.
    pub second: Vec<usize>,
}

/// The groups that a grant leaves; none lacks rows of either release.
pub fn groups(first: &Release, second: &Release, grant: Grant) -> Vec<Group> {
    let all = |release: &Release| (0..release.rows.rows()).collect::<Vec<_>>();
    let groups: Vec<Group> = match grant {
        Grant::Nothing => vec![Group { first: all(first), second: all(second) }],
        Grant::CellLabels => {
            let pairs = first.members().into_iter().zip(second.members());
            pairs.map(|(first, second)| Group { first, second }).collect()
        }
    };
    groups.into_iter().filter(|g| !g.first.is_empty() && !g.second.is_empty()).collect()
}

/// For each row of one release, the row of the other with the same document: the judge's.
#[derive(Clone, Debug)]
pub struct Truth(Vec<Option<usize>>);

impl Truth {
    /// From the documents of the rows of both releases.
    pub fn new(first: &[usize], second: &[usize]) -> Self {
        let rows: HashMap<usize, usize> = second.iter().copied().zip(0..).collect();
        Self(first.iter().map(|document| rows.get(document).copied()).collect())
    }

    /// `(row, its match)` of all documents that both have.
    pub fn common(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.0.iter().enumerate().filter_map(|(row, other)| Some((row, (*other)?)))
    }

    /// The same of some rows only; the others count as not common.
    pub fn among(&self, rows: &[usize]) -> Self {
        let mut truth = vec![None; self.0.len()];
        rows.iter().for_each(|&row| truth[row] = self.0[row]);
        Self(truth)
    }

    /// Precision and recall of pairs that were taken for matches.
    pub fn precision_and_recall(&self, pairs: &[(usize, usize)]) -> [f64; 2] {
        let right = pairs.iter().filter(|&&(row, other)| self.0[row] == Some(other)).count();
        let share = |of: usize| right as f64 / of.max(1) as f64;
        [share(pairs.len()), share(self.common().count())]
    }

    /// One for each common document that was guessed, zero for each that was not.
    pub fn hits(&self, guesses: &[Option<usize>]) -> Vec<f64> {
        let hit = |(row, other)| f64::from(u8::from(guesses[row] == Some(other)));
        self.common().map(hit).collect()
    }

    /// The mean chance of a blind guess within the groups.
    pub fn chance(&self, groups: &[Group]) -> f64 {
        let candidates = self.candidates(groups);
        let chance =
            |(row, _): (usize, usize)| candidates[row].map_or(0.0, |rows| 1.0 / rows.len() as f64);
        let chances: Vec<f64> = self.common().map(chance).collect();
        mean(&chances)
    }

    /// The rows that each row may be matched with.
    fn candidates<'a>(&self, groups: &'a [Group]) -> Vec<Option<&'a Vec<usize>>> {
        let mut candidates = vec![None; self.0.len()];
        for group in groups {
            group.first.iter().for_each(|&row| candidates[row] = Some(&group.second));
        }
        candidates
    }

    /// The area under the curve of telling pairs of one document from pairs of two documents that
    /// the groups allow, by the distance of their features.
    pub fn area(
        &self,
        first: &Matrix,
        second: &Matrix,
        groups: &[Group],
        rng: &mut impl Rng,
    ) -> f64 {
        let candidates = self.candidates(groups);
        let common: Vec<(usize, usize)> = self.common().collect();
        let (mut same, mut different) = (Vec::new(), Vec::new());
        for at in sample(common.len(), AREA_PAIRS, rng) {
            let (row, own) = common[at];
            let Some(candidates) = candidates[row].filter(|candidates| candidates.len() > 1) else {
                continue;
            };
            let mut other = candidates[below(candidates.len(), rng)];
            while other == own {
                other = candidates[below(candidates.len(), rng)];
            }
            same.push(-squared_distance(first.row(row), second.row(own)));
            different.push(-squared_distance(first.row(row), second.row(other)));
        }
        area_under_curve(&same, &different)
    }
}

/// `|x - y|^2`.
pub fn squared_distance(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_come_from_norms_of_whatever_rows() {
        let norms: Vec<f64> =
            (0..400).map(|at| 1.0 + 0.1 * f64::from(at * 37 % 101).sin()).collect();
        let (stored, native) = norms.split_at(200);
        for scale in [1.0, 1_048_576.0, 0.75, 3.0] {
            let stored: Vec<f64> = stored.iter().rev().map(|norm| scale * norm).collect();
            let found = scale_of_norms(&stored, native) / scale;
            let power = scale.log2().fract() == 0.0;
            assert!((found - 1.0).abs() < if power { 1e-12 } else { 0.05 }, "{scale} {found}");
        }
        assert_eq!(scale_of_norms(&[], native), 1.0);
    }
}
