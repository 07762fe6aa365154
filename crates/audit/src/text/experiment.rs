//! An owner's collection in the geometries of the paper's Experiment 29, and what the observer makes
//! of its fullest cell under each key.

use anyhow::Context;
use shard_geometry::{Cells, Pca, VectorSet};

use super::decoder::Decoder;
use super::tokens::{VocabularyLimits, Words};
use super::views::{Attack, CellView, MOST_PAIRS, mean_norm, targets_of, without_residual};
use crate::alignment::affine::Affine;
use crate::subject::{KeyFamily, coordinates};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, sample};

/// Of all randomness.
pub(super) const SEED: u64 = 2026;

/// Keys for each geometry.
const KEYS: u64 = 2;

/// `(d / d_pub, C)`.
pub(super) const GEOMETRIES: [(usize, usize); 2] = [(4, 16), (2, 32)];

/// An owner's collection, and the decoder of an attacker who has another.
pub(super) struct Experiment {
    setting: String,
    pub(super) coordinates: Matrix,
    pub(super) texts: Vec<Words>,
    pub(super) frame: Affine,
    pub(super) decoder: Decoder,
    /// Coordinates of the attacker's own vectors, and their texts.
    others: Matrix,
    other_texts: Vec<Words>,
}

/// The marks of a view: for every key, those of every target.
pub(super) struct Judged<const N: usize> {
    pub(super) view: &'static str,
    pub(super) pairs: usize,
    pub(super) by_key: Vec<Vec<[f64; N]>>,
}

fn train(vectors: &Matrix, texts: &[Words]) -> anyhow::Result<Decoder> {
    Decoder::train(vectors, texts, VocabularyLimits::default(), SEED)
}

/// Rows of the cell under attack.
pub(super) struct Cell {
    pub(super) targets: Vec<usize>,
    known: Vec<usize>,
}

impl Experiment {
    pub(super) fn prepare(
        setting: String,
        owned: &VectorSet,
        texts: Vec<Words>,
        others: &VectorSet,
        other_texts: Vec<Words>,
    ) -> anyhow::Result<Self> {
        let pca = Pca::fit(owned)?;
        let others = coordinates(&pca, others);
        let decoder = train(&others, &other_texts)?;
        let (coordinates, frame) = (coordinates(&pca, owned), Affine::from_coordinates(&pca));
        Ok(Self { setting, coordinates, texts, frame, decoder, others, other_texts })
    }

    pub(super) fn prefix_width(&self, geometry: usize) -> usize {
        (self.coordinates.width() / GEOMETRIES[geometry].0).max(1)
    }

    /// A decoder for prefixes alone.
    pub(super) fn prefix_decoder(&self, geometry: usize) -> anyhow::Result<Decoder> {
        train(&without_residual(&self.others, self.prefix_width(geometry)), &self.other_texts)
    }

    /// Targets and known pairs from the cell with most rows that count.
    pub(super) fn cell(
        &self,
        geometry: usize,
        counts: impl Fn(usize) -> bool,
    ) -> anyhow::Result<Cell> {
        let prefix_width = self.prefix_width(geometry);
        let prefixes: Vec<f32> =
            self.coordinates.columns(0..prefix_width).values().iter().map(|&x| x as f32).collect();
        let mut rng = generator(SEED, 2 + geometry as u64);
        let count = GEOMETRIES[geometry].1.min(self.coordinates.rows());
        let (_, cells) = Cells::fit(&prefixes, prefix_width, count, &mut rng)?;
        let mut members = vec![Vec::new(); count];
        cells.iter().enumerate().for_each(|(row, &cell)| members[cell as usize].push(row));
        let weight = |rows: &&Vec<usize>| rows.iter().filter(|&&row| counts(row)).count();
        let members = members.iter().max_by_key(weight).context("a cell")?;

        let shuffled = sample(members.len(), members.len(), &mut rng);
        let shuffled: Vec<usize> = shuffled.into_iter().map(|at| members[at]).collect();
        let most = targets_of(members.len());
        let targets: Vec<usize> =
            shuffled.iter().copied().filter(|&row| counts(row)).take(most).collect();
        let known =
            shuffled.into_iter().filter(|row| !targets.contains(row)).take(MOST_PAIRS).collect();
        Ok(Cell { targets, known })
    }

    /// Estimates of the targets by view and pairs, for one key; raw and exact key are controls.
    fn estimates(
        &self,
        geometry: usize,
        cell: &Cell,
        key: u64,
    ) -> Vec<(&'static str, usize, Matrix)> {
        let (prefix_width, width) = (self.prefix_width(geometry), self.coordinates.width());
        let truth = self.coordinates.select(&cell.targets);
        let known = self.coordinates.select(&cell.known);
        let mut rng = generator(SEED + key, 100 + geometry as u64);
        let key = KeyFamily::Orthogonal.sample(width - prefix_width, &mut rng);
        let protect = |rows: &Matrix| {
            let mut residuals = rows.columns(prefix_width..width);
            key.apply_many(residuals.values_mut());
            residuals
        };
        let view = CellView {
            stored: protect(&truth),
            prefixes: Some(truth.columns(0..prefix_width)),
            known: (known.rows() > 0).then(|| (protect(&known), known)),
            prefix_width,
            width,
            residual_norm: mean_norm(&self.others.columns(prefix_width..width)),
        };
        let mut opened = truth.clone();
        for row in 0..opened.rows() {
            let residual = &mut opened.row_mut(row)[prefix_width..];
            residual.copy_from_slice(view.stored.row(row));
            key.apply_inverse(residual);
        }
        let mut estimates = vec![("raw", 0, truth), ("exact-key", 0, opened)];
        estimates.extend(
            Attack::grid()
                .into_iter()
                .filter_map(|attack| Some((attack.name(), attack.pairs(), view.estimate(attack)?))),
        );
        estimates
    }

    /// A view's setting.
    pub(super) fn setting(&self, geometry: usize, view: &str, pairs: usize) -> String {
        let (prefix_width, cells) = (self.prefix_width(geometry), GEOMETRIES[geometry].1);
        format!("{},d_pub={prefix_width},cells={cells},view={view},pairs={pairs}", self.setting)
    }

    /// What `judge` makes of every view, key by key.
    pub(super) fn each_view<const N: usize>(
        &self,
        geometry: usize,
        cell: &Cell,
        judge: impl Fn(&Matrix) -> Vec<[f64; N]>,
    ) -> Vec<Judged<N>> {
        let keys: Vec<_> = (0..KEYS).map(|key| self.estimates(geometry, cell, key)).collect();
        let views = keys[0].iter().enumerate().map(|(at, &(view, pairs, _))| {
            let by_key = keys.iter().map(|estimates| judge(&estimates[at].2)).collect();
            Judged { view, pairs, by_key }
        });
        views.collect()
    }
}
