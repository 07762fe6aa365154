//! Made-up documents.
//!
//! A server that answers falsely and watches what the client does next learns about the key of
//! the request. So some rows of a collection are no documents, and whoever searches has their
//! vectors: when one of these *canaries* is among the candidates, its score is known beforehand.
//! A server must not be able to tell them, so a canary is a vector like those of documents, and
//! everything else follows from the vector as it does for a document: prefix, residual, cell, key,
//! and above all when it is asked for.
//!
//! With `y = V^T (x - mu) = [u | r]`, a canary is made after a document `i` in the company of the
//! `n` documents of its cell whose prefixes are nearest to its own, itself among them. Their mean is
//! `m`:
//!
//! ```text
//! u = m + a (u_i - m) + sqrt(1 - a^2) sum_l g_l (u_l - m) / sqrt(n - 1) ,
//! r = p m + b (r_i - m) + sqrt(1 - b^2) sigma g ,             all g standard normal,
//! a = max_j cos(u_k - m, u_j - m) ,  b = max_j cos(r_k, r_j) ,  k drawn at random;
//! ```
//!
//! for `b` the whole cell is looked at, where it is at hand. So it is as near to a document as documents are to each other. The spread of a prefix has the
//! covariance of the cell; that of a residual has its variances `sigma^2` only, because a row in the
//! span of others could be told. The mean of a few residuals is longer than the true one by their
//! spread, so it counts by
//!
//! ```text
//! p = <r_k, r_l> / |m|^2 ,   the mean over pairs k != l,   at least b - 1/2 :
//! ```
//!
//! a canary then has, on average, the inner products with rows of its cell that documents have. The
//! residual, and at last `x = mu + V y`, are brought to lengths drawn from the smoothed distributions
//! of the company's:
//!
//! ```text
//! ln |x| = e + (ln |x_l| - e + h g) / sqrt(1 + (h / s)^2) ,   h = s n^(-1/5) ,
//! ```
//!
//! where `e` and `s` are mean and deviation of the logarithms.

use half::f16;
use rand_core::Rng;
use rayon::prelude::*;
use shard_geometry::VectorSet;
use shard_geometry::gaussian::Normals;

use crate::model::Model;

/// Documents of a company, at most: few enough to be alike, enough for a covariance.
const MOST_COMPANY: usize = 48;

/// What the whole collection counts in the deviations of a cell, in documents.
const PRIOR: f64 = 1.0;

/// How much of the mean a residual may lose at most beside what the document that it is made after
/// brings.
const MOST_PULL: f64 = 0.5;

/// Documents of a cell whose nearest are looked for.
const ASKED_OF_CELL: usize = 64;

/// The largest cosine of a canary with its model: a document twice has no counterpart.
const CLOSEST: f64 = 0.995;

/// Documents that are near each other. A canary is made after the first.
pub(crate) struct Company<'a> {
    model: &'a Model,
    /// `V^T (x - mu) - m` of each.
    centred: Vec<Vec<f64>>,
    mean: Vec<f64>,
    deviations: Vec<f64>,
    /// `p`.
    weight: f64,
    lengths: Vec<f64>,
    residual_lengths: Vec<f64>,
}

impl<'a> Company<'a> {
    /// Of these documents.
    pub(crate) fn new(model: &'a Model, vectors: &VectorSet) -> Self {
        let count = vectors.rows() as f64;
        let prefix = model.split().prefix();
        let mut centred: Vec<Vec<f64>> = (0..vectors.rows())
            .into_par_iter()
            .map(|row| model.pca().centred(vectors.row(row)))
            .collect();
        let residual_lengths: Vec<f64> =
            centred.iter().map(|y| square(&y[prefix..]).sqrt()).collect();
        let mut mean = vec![0.0; vectors.width()];
        for y in &centred {
            mean.iter_mut().zip(y).for_each(|(m, y)| *m += y / count);
        }
        let mut squares: Vec<f64> =
            model.pca().variances().iter().map(|variance| PRIOR * variance.max(0.0)).collect();
        for y in &mut centred {
            for ((y, m), square) in y.iter_mut().zip(&mean).zip(&mut squares) {
                *y -= m;
                *square += *y * *y;
            }
        }
        let freedom = count - 1.0 + PRIOR;
        let deviations = squares.iter().map(|square| (square / freedom).sqrt()).collect();
        // sum over k != l of <r_k, r_l> = |sum r|^2 - sum |r|^2.
        let of_mean = square(&mean[prefix..]);
        let products =
            (count * of_mean - square(&residual_lengths) / count) / (count - 1.0).max(1.0);
        let weight = products / of_mean.max(f64::MIN_POSITIVE);
        let lengths = vectors.norms();
        Self { model, centred, mean, deviations, weight, lengths, residual_lengths }
    }

    /// A made-up document after the first of them. `nearness` has `b` of some documents of the cell; the
    /// company's are taken if it has none.
    pub(crate) fn draw(&self, nearness: &[f64], rng: &mut impl Rng) -> Vec<f32> {
        let prefix = self.model.split().prefix();
        let [a, mut b] = self.nearness(rng);
        if !nearness.is_empty() {
            b = nearness[below(nearness.len(), rng)];
        }
        let [length, residual_length] =
            [&self.lengths, &self.residual_lengths].map(|lengths| smoothed(lengths, rng));
        let mut coordinates = self.mean.clone();
        let weight = self.weight.max(b - MOST_PULL);
        coordinates[prefix..].iter_mut().for_each(|m| *m *= weight);
        let mut spread = self.spread(rng);
        spread[..prefix].iter_mut().for_each(|g| *g *= (1.0 - a * a).sqrt());
        spread[prefix..].iter_mut().for_each(|g| *g *= (1.0 - b * b).sqrt());
        let own = self.centred[0].iter().zip(spread).enumerate();
        for (y, (k, (own, spread))) in coordinates.iter_mut().zip(own) {
            *y += if k < prefix { a } else { b } * own + spread;
        }
        let scale = residual_length / square(&coordinates[prefix..]).sqrt().max(f64::MIN_POSITIVE);
        coordinates[prefix..].iter_mut().for_each(|y| *y *= scale);
        let pca = self.model.pca();
        let mut vector = pca.mean().to_vec();
        for (y, axis) in coordinates.iter().zip(pca.basis().chunks_exact(vector.len())) {
            vector.iter_mut().zip(axis).for_each(|(x, v)| *x += y * v);
        }
        let scale = length / square(&vector).sqrt().max(f64::MIN_POSITIVE);
        fitting(self.model, vector.iter().map(|x| half(x * scale)).collect())
    }

    /// A prefix with the company's covariance, and a residual with its variances.
    fn spread(&self, rng: &mut impl Rng) -> Vec<f64> {
        let prefix = self.model.split().prefix();
        let mut normals = Normals::new(rng);
        let mut spread: Vec<f64> = self.deviations.iter().map(|d| d * normals.draw()).collect();
        if self.centred.len() > 1 {
            spread[..prefix].fill(0.0);
            let scale = 1.0 / (self.centred.len() as f64 - 1.0).sqrt();
            for y in &self.centred {
                let g = scale * normals.draw();
                spread[..prefix].iter_mut().zip(y).for_each(|(s, y)| *s += g * y);
            }
        }
        spread
    }

    /// The residual of one of them.
    fn residual(&self, row: usize) -> Vec<f64> {
        let prefix = self.model.split().prefix();
        self.centred[row][prefix..].iter().zip(&self.mean[prefix..]).map(|(y, m)| y + m).collect()
    }

    /// The largest cosine of a random document with another, of their prefixes and of their residuals.
    fn nearness(&self, rng: &mut impl Rng) -> [f64; 2] {
        let own = below(self.centred.len(), rng);
        let prefix = self.model.split().prefix();
        let others = || (0..self.centred.len()).filter(|&other| other != own);
        let (u, r) = (&self.centred[own][..prefix], self.residual(own));
        let of_prefixes = others().map(|other| cosine(u, &self.centred[other][..prefix]));
        let of_residuals = others().map(|other| cosine(&r, &self.residual(other)));
        [of_prefixes.fold(0.0, f64::max), of_residuals.fold(0.0, f64::max)].map(|c| c.min(CLOSEST))
    }
}

/// One of some lengths, smoothed. None is above the longest, by which scores are rounded: what would be is
/// as far below it.
fn smoothed(lengths: &[f64], rng: &mut impl Rng) -> f64 {
    let chosen = lengths[below(lengths.len(), rng)];
    let logs = || lengths.iter().filter(|length| **length > 0.0).map(|length| length.ln());
    let count = logs().count() as f64;
    let mean = logs().sum::<f64>() / count;
    let deviation = (logs().map(|l| (l - mean) * (l - mean)).sum::<f64>() / count).sqrt();
    if chosen == 0.0 || deviation.is_nan() || deviation == 0.0 {
        return chosen;
    }
    let width = count.powf(-0.2);
    let moved = chosen.ln() - mean + width * deviation * Normals::new(rng).draw();
    let drawn = mean + moved / (1.0 + width * width).sqrt();
    let longest = logs().fold(f64::NEG_INFINITY, f64::max);
    (longest - (longest - drawn).abs()).exp()
}

/// `b` of some documents of a cell: the largest cosine of its residual with another.
pub(crate) fn nearness_in_cell(model: &Model, vectors: &VectorSet, rng: &mut impl Rng) -> Vec<f64> {
    let cell = Company::new(model, vectors);
    let residuals: Vec<Vec<f64>> = (0..vectors.rows()).map(|row| cell.residual(row)).collect();
    let chosen: Vec<usize> = (0..ASKED_OF_CELL).map(|_| below(residuals.len(), rng)).collect();
    let nearest = |own: usize| {
        let others = residuals.iter().enumerate().filter(|(other, _)| *other != own);
        let cosines = others.map(|(_, other)| cosine(&residuals[own], other));
        cosines.fold(0.0, f64::max).min(CLOSEST)
    };
    chosen.into_par_iter().map(nearest).collect()
}

/// The rows whose prefixes are nearest to one, for the company of a document that is not among them.
pub(crate) fn nearest<'p>(
    prefix: &[f32],
    others: impl Iterator<Item = (usize, &'p [f32])>,
) -> Vec<usize> {
    let apart = |other: &[f32]| prefix.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum();
    let mut all: Vec<(f32, usize)> = others.map(|(row, other)| (apart(other), row)).collect();
    if all.len() >= MOST_COMPANY {
        all.select_nth_unstable_by(MOST_COMPANY - 1, |a, b| a.0.total_cmp(&b.0));
        all.truncate(MOST_COMPANY - 1);
    }
    all.into_iter().map(|(_, row)| row).collect()
}

/// A vector that is shortened until the fixed point of the model's rows has room for its residual. That
/// of a vector of zeros is no longer than the mean, for which there is room.
pub(crate) fn fitting(model: &Model, mut vector: Vec<f32>) -> Vec<f32> {
    let fits = |vector: &[f32]| {
        let residual = square(&model.pca().centred(vector)[model.split().prefix()..]).sqrt();
        model.operand_scale().check_norm(residual * (1.0 + 1e-6)).is_ok()
    };
    while !fits(&vector) {
        vector.iter_mut().for_each(|x| *x = half(f64::from(*x) * 0.9));
    }
    vector
}

/// A random number below a bound.
pub(crate) fn below(bound: usize, rng: &mut impl Rng) -> usize {
    ((u128::from(rng.next_u64()) * bound as u128) >> 64) as usize
}

/// Whether something of this probability happens.
pub(crate) fn happens(probability: f64, rng: &mut impl Rng) -> bool {
    rng.next_u64() as f64 * 2_f64.powi(-64) < probability
}

/// In half precision if it has the range: nobody else made the document, so nothing is lost.
fn half(x: f64) -> f32 {
    let half = f16::from_f64(x).to_f32();
    if half.is_finite() && (half != 0.0 || x == 0.0) { half } else { x as f32 }
}

fn square(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let product: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    product / (square(a) * square(b)).sqrt().max(f64::MIN_POSITIVE)
}
