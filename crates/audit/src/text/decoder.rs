//! A text inverter that adapts to a corpus: ridge regression from a vector to the words of its text,
//! with a logistic link.
//!
//! The attacker has texts and their vectors, and others' vectors. With `X` the attacker's `n`
//! vectors less their mean, `Y` the 0/1 indicators of words and `p` their shares, ridge regression
//! has the weights `W = (X^T X + a I)^-1 X^T (Y - p)`. Scored as they are, they never bring a rare
//! word above a threshold that common words need. For word `w` they are also the direction of its
//! linear discriminant: `W_w = p_w (1 - p_w) S^-1 D_w`, with `S = (X^T X + a I) / n` and `D_w` the
//! mean of vectors whose text has the word less the mean of the others. So the score is that
//! discriminant's log-odds,
//!
//! `l_w(x) = ln(p_w / (1 - p_w)) + s_w D_w^T S^-1 (x - mean - s_w (1/2 - p_w) D_w)`,
//!
//! where `s_w = n_w / (n_w + k)` draws the difference of means towards none for a word in few
//! texts. A vector that says nothing scores every word by its share, or below. Words with
//! `l >= ln(t / (1 - t))` are emitted. `a`, `k` and `t` are those with the best mean token-F1 on a
//! part of the attacker's own corpus that was not fitted to. One eigendecomposition of `X^T X`
//! serves every `a`, and `a > 0` keeps directions without variance from being inverted.
//!
//! Chance is the decoder that ignores the vector: it emits the words with `p >= t'`, for its own
//! best `t'`.

use anyhow::{Context, ensure};
use rayon::prelude::*;
use shard_geometry::{Eigen, eigen};

use super::bleu::Bigrams;
use super::tokens::{Overlap, Vocabulary, VocabularyLimits, Words, distinct};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, mean, sample};

/// Fewest texts to learn from.
pub const FEWEST_TEXTS: usize = 20;

/// Most texts to calibrate with, and their share of the corpus.
const HELD_OUT: usize = 500;
const HELD_OUT_SHARE: usize = 10;

/// Penalties `a` tried, in units of the mean eigenvalue of `X^T X`.
const PENALTIES: [f64; 4] = [0.03, 0.1, 0.3, 1.0];

/// Texts `k` tried, which a word must be in for its difference of means to count half; the last
/// leaves little but the prior.
const HALF_COUNTS: [f64; 5] = [10.0, 30.0, 100.0, 300.0, 10_000.0];

/// Probabilities from which on a word is emitted, tried; rising.
const THRESHOLDS: [f64; 16] =
    [0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225, 0.25, 0.3, 0.35, 0.4, 0.5];

/// A trained inverter.
#[derive(Clone, Debug)]
pub struct Decoder {
    vocabulary: Vocabulary,
    bigrams: Bigrams,
    mean: Vec<f64>,
    /// `s_w S^-1 D_w`: one row for each word.
    weights: Matrix,
    /// What is added to the product of each word's weights with a vector less the mean.
    offsets: Vec<f64>,
    /// In log-odds.
    threshold: f64,
    blind: Vec<u32>,
}

impl Decoder {
    /// Learns from the attacker's own vectors and texts.
    ///
    /// # Errors
    /// When there are fewer texts than [`FEWEST_TEXTS`], not one for each vector, or no word is in
    /// enough of them.
    pub fn train(
        vectors: &Matrix,
        texts: &[Words],
        limits: VocabularyLimits,
        seed: u64,
    ) -> anyhow::Result<Self> {
        ensure!(vectors.rows() == texts.len(), "a text for each vector of the attacker's corpus");
        ensure!(texts.len() >= FEWEST_TEXTS, "a decoder learns from {FEWEST_TEXTS} texts or more");
        let order = sample(texts.len(), texts.len(), &mut generator(seed, TRAINING));
        let (held_out, fitted) = order.split_at((texts.len() / HELD_OUT_SHARE).min(HELD_OUT));
        let held_out_texts = select(texts, held_out);
        let fitted_texts = select(texts, fitted);

        let vocabulary = Vocabulary::learn(&fitted_texts, limits);
        ensure!(!vocabulary.is_empty(), "no word is in {} texts or more", limits.floor);
        let fit = Fit::new(&vectors.select(fitted), &fitted_texts, &vocabulary)?;

        let rotated = fit.rotate(&vectors.select(held_out));
        let calibrate = |scores: &Matrix| best_threshold(scores, &held_out_texts, &vocabulary);
        let mut best: Option<(f64, f64, Link)> = None;
        for penalty in PENALTIES {
            let products = fit.shrunk(rotated.clone(), penalty).times_transposed(&fit.products);
            for half_count in HALF_COUNTS {
                let link = fit.link(&vocabulary, penalty, half_count);
                let (threshold, f1) = calibrate(&link.log_odds(products.clone()));
                if best.as_ref().is_none_or(|best| f1 > best.1) {
                    best = Some((threshold, f1, link));
                }
            }
        }
        let (threshold, _, link) = best.context("settings to try")?;

        let prior: Vec<f64> = vocabulary.shares().iter().map(|&p| log_odds(p)).collect();
        let (blind_threshold, _) =
            calibrate(&Matrix::new(vocabulary.len(), prior.repeat(held_out.len())));
        let blind = emitted(&prior, blind_threshold);
        let bigrams = Bigrams::learn(&fitted_texts, &vocabulary);
        let weights = link.weights(&fit);
        let (mean, offsets) = (fit.mean, link.offsets);
        Ok(Self { vocabulary, bigrams, mean, weights, offsets, threshold, blind })
    }

    /// What it can emit.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The words it reads out of each vector, by falling score.
    ///
    /// # Panics
    /// When the vectors are not as wide as those it learnt from.
    pub fn read(&self, vectors: &Matrix) -> Vec<Vec<u32>> {
        let products = vectors.clone().minus(&self.mean).times_transposed(&self.weights);
        let scores = products.plus(&self.offsets);
        let scores: Vec<&[f64]> = scores.iter().collect();
        scores.into_par_iter().map(|scores| emitted(scores, self.threshold)).collect()
    }

    /// What it emits without a vector: the most frequent words.
    pub fn blind(&self) -> &[u32] {
        &self.blind
    }

    /// Emitted words as a sentence.
    pub fn sentence(&self, emitted: &[u32]) -> Vec<&str> {
        self.bigrams.order(emitted).into_iter().map(|word| self.vocabulary.word(word)).collect()
    }
}

/// The purpose of the split's randomness.
const TRAINING: u64 = 0x7465_7874;

/// The spectral form of the regression: `X^T X = Q diag(l) Q^T`, `B = (Y - p)^T X Q`, by which
/// `W^T = B diag(1 / (l + a)) Q^T` and `D_w^T S^-1 D_w = n B_w diag(1 / (l + a)) B_w^T / v_w^2` for
/// `v_w = n p_w (1 - p_w)`.
struct Fit {
    rows: usize,
    mean: Vec<f64>,
    /// `Q`.
    basis: Matrix,
    eigenvalues: Vec<f64>,
    /// `B`.
    products: Matrix,
}

impl Fit {
    fn new(vectors: &Matrix, texts: &[Words], vocabulary: &Vocabulary) -> anyhow::Result<Self> {
        let (rows, width) = (vectors.rows(), vectors.width());
        let mean = vectors.column_means();
        let centred = vectors.clone().minus(&mean);
        let gram = centred.as_faer().transpose() * centred.as_faer();
        let square = |entry: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            (0..width * width).map(|at| entry(at / width, at % width)).collect()
        };
        let lower = square(&|row, column| gram[(row, column)]);
        let Eigen { values, vectors } =
            eigen(&lower, width).context("the attacker's covariance has no eigendecomposition")?;
        let basis = Matrix::new(width, square(&|row, column| vectors[column * width + row]));
        let eigenvalues: Vec<f64> = values.iter().map(|value| value.max(0.0)).collect();
        ensure!(eigenvalues.iter().sum::<f64>() > 0.0, "the attacker's vectors are all the same");

        // The rows of X sum to zero, so the prior in Y - p adds nothing.
        let mut products = Matrix::zeros(vocabulary.len(), width);
        for (row, text) in centred.iter().zip(texts) {
            for word in vocabulary.indicators(text) {
                let sum = products.row_mut(word as usize);
                sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
        }
        let products = products.times(&basis);
        Ok(Self { rows, mean, basis, eigenvalues, products })
    }

    /// `(x - mean) Q` of every row.
    fn rotate(&self, vectors: &Matrix) -> Matrix {
        vectors.clone().minus(&self.mean).times(&self.basis)
    }

    fn alpha(&self, penalty: f64) -> f64 {
        penalty * mean(&self.eigenvalues)
    }

    /// Every row times `diag(1 / (l + a))`.
    fn shrunk(&self, mut rotated: Matrix, penalty: f64) -> Matrix {
        let alpha = self.alpha(penalty);
        let width = rotated.width();
        for row in rotated.values_mut().chunks_exact_mut(width) {
            row.iter_mut().zip(&self.eigenvalues).for_each(|(x, l)| *x /= l + alpha);
        }
        rotated
    }

    /// The link of every word.
    fn link(&self, vocabulary: &Vocabulary, penalty: f64, half_count: f64) -> Link {
        let (rows, alpha) = (self.rows as f64, self.alpha(penalty));
        let of_word = |(share, products): (&f64, &[f64])| {
            // A word of all texts has no difference of means, and odds that must stay finite.
            let p = share.clamp(0.5 / rows, 1.0 - 0.5 / rows);
            let spread = p * (1.0 - p);
            let trust = share * rows / (share * rows + half_count);
            let squares = products.iter().zip(&self.eigenvalues).map(|(b, l)| b * b / (l + alpha));
            let distance = squares.sum::<f64>() / (rows * spread * spread);
            (trust / spread, log_odds(p) - trust * trust * (0.5 - p) * distance)
        };
        let (scales, offsets) =
            vocabulary.shares().iter().zip(self.products.iter()).map(of_word).unzip();
        Link { penalty, scales, offsets }
    }

    /// `W^T`.
    fn ridge(&self, penalty: f64) -> Matrix {
        self.shrunk(self.products.clone(), penalty).times_transposed(&self.basis)
    }
}

/// From `(x - mean) W` to log-odds: a scale and an offset for each word.
struct Link {
    penalty: f64,
    scales: Vec<f64>,
    offsets: Vec<f64>,
}

impl Link {
    fn log_odds(&self, mut products: Matrix) -> Matrix {
        let width = products.width();
        for row in products.values_mut().chunks_exact_mut(width) {
            row.iter_mut().zip(&self.scales).for_each(|(x, scale)| *x *= scale);
        }
        products.plus(&self.offsets)
    }

    /// `s_w S^-1 D_w` of every word.
    fn weights(&self, fit: &Fit) -> Matrix {
        let mut weights = fit.ridge(self.penalty);
        for (word, &scale) in self.scales.iter().enumerate() {
            weights.row_mut(word).iter_mut().for_each(|x| *x *= scale);
        }
        weights
    }
}

fn log_odds(probability: f64) -> f64 {
    (probability / (1.0 - probability)).ln()
}

fn select(texts: &[Words], rows: &[usize]) -> Vec<Words> {
    rows.iter().map(|&row| texts[row].clone()).collect()
}

/// Words that score `threshold` or more, by falling score.
fn emitted(scores: &[f64], threshold: f64) -> Vec<u32> {
    let mut words: Vec<u32> =
        (0..scores.len() as u32).filter(|&word| scores[word as usize] >= threshold).collect();
    words.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]));
    words
}

/// The threshold of log-odds with the best mean token-F1, and that F1.
fn best_threshold(scores: &Matrix, texts: &[Words], vocabulary: &Vocabulary) -> (f64, f64) {
    let thresholds = THRESHOLDS.map(log_odds);
    let passed = |score: f64| thresholds.partition_point(|&threshold| threshold <= score);
    let rows: Vec<(&[f64], &Words)> = scores.iter().zip(texts).collect();
    let by_row: Vec<[f64; THRESHOLDS.len()]> = rows
        .into_par_iter()
        .map(|(scores, text)| {
            // Words by the number of thresholds they pass: all, and those of the text.
            let mut counts = [[0; 2]; THRESHOLDS.len() + 1];
            scores.iter().for_each(|&score| counts[passed(score)][0] += 1);
            for word in vocabulary.indicators(text) {
                counts[passed(scores[word as usize])][1] += 1;
            }
            let total = distinct(text).len();
            let (mut emitted, mut right) = (0, 0);
            let mut f1 = [0.0; THRESHOLDS.len()];
            for at in (0..THRESHOLDS.len()).rev() {
                emitted += counts[at + 1][0];
                right += counts[at + 1][1];
                f1[at] = Overlap::of_counts(right, emitted, total).f1;
            }
            f1
        })
        .collect();
    let means = (0..THRESHOLDS.len())
        .map(|at| mean(&by_row.iter().map(|f1| f1[at]).collect::<Vec<f64>>()))
        .enumerate();
    let (at, f1) = means.max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are thresholds");
    (thresholds[at], f1)
}

#[cfg(test)]
mod tests;
