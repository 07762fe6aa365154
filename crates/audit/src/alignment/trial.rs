//! One game: an attacker is shown some pairs in order, and places held-out rows in a gallery.
//!
//! The attacker's side is [`Attack`]; the judge's is [`Trial::play`], which alone knows that row
//! `i` of the targets belongs to row `i` of the gallery.

use std::collections::HashMap;

use anyhow::Result;
use rand_core::Rng;
use rayon::prelude::*;

use super::axes::Known;
use super::estimators::{Estimator, Factors, Pairs, divided};
use super::model::{FEWEST_PAIRS, LinearModel};
use super::span::{Matcher, Span, places_by_norm, scale_by_pairs};
use crate::finding::Finding;
use crate::tools::matrix::{Matrix, cosines};
use crate::tools::neighbours::{Metric, places_allowed};
use crate::tools::statistics::{mean, sample};

/// Pairs of one cell that are used, in widths: further exact rows add nothing.
const USEFUL_WIDTHS: usize = 4;

/// What the attacker does with the pairs of a cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Attack {
    /// Estimate residuals, then match them with whole candidates by cosine.
    Estimate(Estimator),
    /// Match what the pairs determine.
    Match(Matcher),
    /// Match norms, with no use of the pairs.
    Norm,
    /// Match by a linear model with noise.
    Model,
}

impl Attack {
    /// In settings of findings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Estimate(estimator) => estimator.name(),
            Self::Match(Matcher::Span) => "span",
            Self::Match(Matcher::Gram) => "gram",
            Self::Norm => "norm",
            Self::Model => "model",
        }
    }
}

/// Where pairs come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disclosure {
    /// So many of the whole collection, wherever they fall.
    Diffuse,
    /// So many of every target's own cell.
    Targeted,
}

impl Disclosure {
    /// In settings of findings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Diffuse => "diffuse",
            Self::Targeted => "targeted",
        }
    }
}

/// Which rows play which part.
#[derive(Clone, Debug)]
pub struct Draw {
    /// Held-out rows.
    pub targets: Vec<usize>,
    /// Rows that pairs are shown of, in order; none is a target.
    pub disclosed: Vec<usize>,
    /// The gallery, targets first.
    pub gallery: Vec<usize>,
}

impl Draw {
    /// Draws from the rows named. No more than a third become targets.
    pub fn new(
        rows: &[usize],
        targets: usize,
        gallery: usize,
        disclosed: usize,
        rng: &mut impl Rng,
    ) -> Self {
        let order = sample(rows.len(), rows.len(), rng);
        let (targets, others) = order.split_at(targets.min(rows.len() / 3));
        let name = |places: &[usize]| places.iter().map(|&at| rows[at]).collect::<Vec<_>>();
        let targets = name(targets);
        let decoys = sample(others.len(), gallery.saturating_sub(targets.len()), rng);
        let decoys = decoys.into_iter().map(|at| rows[others[at]]);
        Self {
            gallery: targets.iter().copied().chain(decoys).collect(),
            disclosed: name(&others[..disclosed.min(others.len())]),
            targets,
        }
    }

    /// Targets and disclosed rows: those that a trial needs the stored form of.
    pub fn stored(&self) -> Vec<usize> {
        self.targets.iter().chain(&self.disclosed).copied().collect()
    }
}

/// A drawn game.
#[derive(Clone, Debug)]
pub struct Trial {
    rows: Matrix,
    residuals: Matrix,
    cells: Vec<u32>,
    targets: usize,
    gallery: Matrix,
    /// The place in the gallery of each row, if it has one.
    in_gallery: Vec<Option<usize>>,
    /// Directions in which residuals vary at all.
    live: usize,
    /// Whether [`Matcher::Gram`] goes by the norm in a cell without a pair.
    by_norms: bool,
}

/// How an attack did on each target.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The place of the right candidate, from zero.
    pub places: Vec<f64>,
    /// The cosine of the estimate with the truth; zero of a target whose cell has no pair.
    pub cosines: Option<Vec<f64>>,
    /// Pairs in the target's cell.
    pub pairs: Vec<f64>,
    /// One in the candidates for the target.
    pub chances: Vec<f64>,
    /// One where they determine the whole key.
    pub full_rank: Option<Vec<f64>>,
}

impl Outcome {
    /// The places of targets, cell by cell.
    fn keep(&mut self, found: Vec<(Vec<usize>, Vec<f64>)>) {
        let found = found.into_iter().flat_map(|(targets, places)| targets.into_iter().zip(places));
        found.for_each(|(target, place)| self.places[target] = place);
    }
}

impl Trial {
    /// A game about `rows`, `residuals` and `cells` in the order of [`Draw::stored`] and a `gallery` in
    /// that of the draw.
    ///
    /// # Errors
    /// When a singular value decomposition does not converge.
    ///
    /// # Panics
    /// When there are not as many of each.
    pub fn new(
        draw: &Draw,
        rows: Matrix,
        residuals: Matrix,
        cells: Vec<u32>,
        gallery: Matrix,
    ) -> Result<Self> {
        let stored = draw.stored();
        assert!([rows.rows(), residuals.rows(), cells.len()] == [stored.len(); 3], "one of each");
        assert_eq!(gallery.rows(), draw.gallery.len(), "the gallery of the draw");
        let places: HashMap<usize, usize> =
            draw.gallery.iter().enumerate().map(|(place, &row)| (row, place)).collect();
        let in_gallery = stored.iter().map(|row| places.get(row).copied()).collect();
        let square = gallery.as_faer().transpose() * gallery.as_faer();
        let live = Factors::of(square.as_ref(), 1e-12)?.rank();
        let targets = draw.targets.len();
        Ok(Self { rows, residuals, cells, targets, gallery, in_gallery, live, by_norms: false })
    }

    /// A game on rows of a release, in which [`Matcher::Gram`] uses what it has of every row: the
    /// norm alone where the cell has no pair.
    ///
    /// # Errors
    /// When a singular value decomposition does not converge.
    pub(super) fn on(known: &Known, draw: &Draw) -> Result<Self> {
        let stored = draw.stored();
        let trial = Self::new(
            draw,
            known.rows.select(&stored),
            known.residuals.select(&stored),
            stored.iter().map(|&row| known.cells[row]).collect(),
            known.residuals.select(&draw.gallery),
        )?;
        Ok(Self { by_norms: true, ..trial })
    }

    /// Number of targets.
    pub fn targets(&self) -> usize {
        self.targets
    }

    /// Disclosed rows of every cell, at a budget.
    fn anchors(&self, disclosure: Disclosure, budget: usize) -> Vec<Vec<usize>> {
        let count = self.cells.iter().max().map_or(0, |&last| last as usize + 1);
        let mut anchors = vec![Vec::new(); count];
        let useful = USEFUL_WIDTHS * self.rows.width().max(self.residuals.width());
        let (all, in_cell) = match disclosure {
            Disclosure::Diffuse => (budget, useful),
            Disclosure::Targeted => (usize::MAX, budget.min(useful)),
        };
        for row in (self.targets..self.rows.rows()).take(all) {
            let cell: &mut Vec<usize> = &mut anchors[self.cells[row] as usize];
            if cell.len() < in_cell {
                cell.push(row);
            }
        }
        anchors
    }

    /// Pairs in the cell of every target.
    fn in_cell_pairs(&self, anchors: &[Vec<usize>]) -> Vec<f64> {
        (0..self.targets).map(|at| anchors[self.cells[at] as usize].len() as f64).collect()
    }

    /// The cell of which each row of the gallery is a known pair. Such a row cannot be the target and
    /// is no candidate: of any, where pairs are spread; of targets of its cell, where each cell is
    /// attacked with pairs of its own.
    fn shown(&self, anchors: &[Vec<usize>]) -> Vec<Option<u32>> {
        let mut shown = vec![None; self.gallery.rows()];
        for (cell, anchors) in anchors.iter().enumerate() {
            for place in anchors.iter().filter_map(|&row| self.in_gallery[row]) {
                shown[place] = Some(cell as u32);
            }
        }
        shown
    }

    fn places_by_norm(&self, is_candidate: impl Fn(usize, usize) -> bool + Sync) -> Vec<f64> {
        let all: Vec<usize> = (0..self.targets).collect();
        places_by_norm(&self.rows.select(&all), &self.gallery, &all, is_candidate)
    }

    /// Lets the attack have the pairs of a budget, and judges it.
    ///
    /// # Errors
    /// When a singular value decomposition does not converge.
    pub fn play(&self, attack: Attack, disclosure: Disclosure, budget: usize) -> Result<Outcome> {
        let anchors = self.anchors(disclosure, budget);
        let shown = self.shown(&anchors);
        let is_candidate = |target: usize, place: usize| match (disclosure, shown[place]) {
            (_, None) => true,
            (Disclosure::Diffuse, Some(_)) => false,
            (Disclosure::Targeted, Some(cell)) => cell != self.cells[target],
        };
        let candidates =
            |target| (0..shown.len()).filter(|&place| is_candidate(target, place)).count() as f64;
        let mut by_cell = vec![Vec::new(); anchors.len()];
        (0..self.targets).for_each(|target| by_cell[self.cells[target] as usize].push(target));
        let mut outcome = Outcome {
            places: vec![self.gallery.rows() as f64; self.targets],
            cosines: None,
            pairs: self.in_cell_pairs(&anchors),
            chances: (0..self.targets).map(|target| 1.0 / candidates(target)).collect(),
            full_rank: None,
        };
        let all: Vec<usize> = (0..self.targets).collect();
        let games = by_cell.into_par_iter().zip(&anchors);
        let games = games.filter(|(targets, anchors)| !targets.is_empty() && !anchors.is_empty());
        match attack {
            Attack::Norm => {
                outcome.places = self.places_by_norm(is_candidate);
            }
            Attack::Match(matcher) => {
                if self.by_norms && matcher == Matcher::Gram {
                    outcome.places = self.places_by_norm(is_candidate);
                }
                let scale = scale_by_pairs(&self.rows, &self.residuals, &anchors.concat());
                let found = games.map(|(targets, anchors)| -> Result<_> {
                    let pairs = Pairs::of(&self.residuals, &self.rows, anchors);
                    let span = Span::of(&pairs.scaled(scale))?;
                    let rows = divided(self.rows.select(&targets), scale);
                    let allowed = |at: usize, place| is_candidate(targets[at], place);
                    let places = span.places(&rows, &self.gallery, &targets, matcher, allowed);
                    Ok((targets, places))
                });
                outcome.keep(found.collect::<Result<Vec<_>>>()?);
            }
            Attack::Model => {
                let games = games.filter(|(_, anchors)| anchors.len() >= FEWEST_PAIRS);
                let found = games.map(|(targets, anchors)| -> Result<_> {
                    let pairs = Pairs::of(&self.residuals, &self.rows, anchors);
                    let model = LinearModel::fit(&pairs)?;
                    let rows = model.of_rows(&self.rows.select(&targets));
                    let gallery = model.of_natives(&self.gallery);
                    let allowed = |at: usize, place| is_candidate(targets[at], place);
                    let places =
                        places_allowed(&rows, &gallery, &targets, Metric::Distance, allowed);
                    Ok((targets, places))
                });
                outcome.keep(found.collect::<Result<Vec<_>>>()?);
            }
            Attack::Estimate(estimator) => {
                let estimates = games.map(|(targets, anchors)| -> Result<_> {
                    let map = estimator.fit(&Pairs::of(&self.residuals, &self.rows, anchors))?;
                    Ok((map.apply(&self.rows.select(&targets)), map.rank(), targets))
                });
                let mut estimated = Matrix::zeros(self.targets.max(1), self.residuals.width());
                let mut full = vec![0.0; self.targets];
                for (estimates, rank, targets) in estimates.collect::<Result<Vec<_>>>()? {
                    for (estimate, target) in estimates.iter().zip(targets) {
                        estimated.row_mut(target).copy_from_slice(estimate);
                        full[target] = f64::from(rank >= self.live);
                    }
                }
                // Without a pair the estimate is zero, which ties with every candidate: a miss.
                outcome.places =
                    places_allowed(&estimated, &self.gallery, &all, Metric::Cosine, is_candidate);
                let truth = self.residuals.select(&all);
                outcome.cosines = Some(cosines(&estimated, &truth));
                outcome.full_rank = Some(full);
            }
        }
        Ok(outcome)
    }
}

/// One for every place among the first `k`, else zero. A place that rests on a tie is the mean
/// of those it may be, so a tie over the last of the `k` is a miss.
pub fn hits(places: &[f64], k: usize) -> Vec<f64> {
    places.iter().map(|&place| f64::from(place + 1.0 <= k as f64)).collect()
}

/// An attack at a budget over several trials.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The attack.
    pub attack: Attack,
    /// Pairs shown, of the collection or of every cell.
    pub budget: usize,
    /// Recall at 1.
    pub recall: f64,
    /// One for each target that was found, of all trials.
    pub hits: Vec<f64>,
    /// One in the candidates, on average.
    pub chance: f64,
    /// The mean cosine of estimates.
    pub cosine: Option<f64>,
    /// Pairs in a target's cell, on average.
    pub pairs: f64,
    /// The share of targets whose cell's key is fully determined.
    pub full_rank: Option<f64>,
}

/// Plays an attack in every trial.
///
/// # Errors
/// When a singular value decomposition does not converge.
///
/// # Panics
/// When there is no trial, or one without targets.
pub fn measure(
    trials: &[Trial],
    attack: Attack,
    disclosure: Disclosure,
    budget: usize,
) -> Result<Measured> {
    let outcomes: Vec<Outcome> =
        trials.iter().map(|trial| trial.play(attack, disclosure, budget)).collect::<Result<_>>()?;
    let pooled = |values: Vec<Option<&Vec<f64>>>| {
        values.into_iter().collect::<Option<Vec<_>>>().map(|all| {
            let all: Vec<f64> = all.into_iter().flatten().copied().collect();
            mean(&all)
        })
    };
    let of_all = |values: fn(&Outcome) -> &Vec<f64>| {
        pooled(outcomes.iter().map(|o| Some(values(o))).collect()).unwrap_or(0.0)
    };
    let hits: Vec<f64> = outcomes.iter().flat_map(|o| hits(&o.places, 1)).collect();
    Ok(Measured {
        attack,
        budget,
        recall: mean(&hits),
        hits,
        chance: of_all(|o| &o.chances),
        cosine: pooled(outcomes.iter().map(|o| o.cosines.as_ref()).collect()),
        pairs: of_all(|o| &o.pairs),
        full_rank: pooled(outcomes.iter().map(|o| o.full_rank.as_ref()).collect()),
    })
}

impl Measured {
    /// Recall at 1 as a finding; `setting` is put before the attack and the budget.
    pub fn finding(&self, channel: &str, setting: &str) -> Finding {
        let setting = format!("{setting}attack={},pairs={}", self.attack.name(), self.budget);
        Finding::share(channel, setting, "recall_at_1", &self.hits).chance(self.chance)
    }
}
