//! The judge: how much of the truth an estimate of vectors gives away, read by a decoder.

use std::collections::HashSet;

use super::bleu::bleu;
use super::decoder::Decoder;
use super::encoder::pieces;
use super::records::Record;
use super::tokens::{Overlap, Words, distinct};
use crate::alignment::affine::Affine;
use crate::finding::Finding;
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{hierarchical_interval, mean};

/// Words in at most this share of the attacker's texts are rare: those a reader learns from.
const RARE: f64 = 0.05;

/// Repetitions of the bootstrap over keys, then targets.
const REPETITIONS: usize = 500;

/// One figure of each [`METRICS`] for a target.
pub type Marks = [f64; METRICS.len()];

/// What is measured for each target: the cosine of the estimated vector with the true one, the
/// words read out of it, the share of the text's rare words among them, and the sentence they make.
pub const METRICS: [&str; 6] =
    ["cosine", "token_f1", "token_precision", "token_recall", "rare_word_recall", "bleu"];

/// Where the token-F1 is in [`Marks`].
pub const TOKEN_F1: usize = 1;

/// What the judge has: the truth about the targets.
#[derive(Clone, Debug)]
pub struct Trial<'a> {
    /// The attacker's decoder.
    pub decoder: &'a Decoder,
    /// From coordinates to vectors.
    pub frame: &'a Affine,
    /// The targets' coordinates.
    pub coordinates: Matrix,
    /// Their texts.
    pub texts: Vec<&'a Words>,
}

impl<'a> Trial<'a> {
    /// The same with another decoder.
    pub fn with(&self, decoder: &'a Decoder) -> Self {
        Self { decoder, ..self.clone() }
    }

    /// Marks of estimated coordinates, target by target.
    pub fn marks(&self, estimate: &Matrix) -> Vec<Marks> {
        self.score(estimate, &self.decoder.read(estimate))
    }

    /// Marks of knowing nothing: the mean of the owner's coordinates, which is zero, for a vector,
    /// and the most frequent words for a text.
    pub fn chance(&self) -> Marks {
        let nothing = Matrix::zeros(self.coordinates.rows(), self.coordinates.width());
        let blind = vec![self.decoder.blind().to_vec(); nothing.rows()];
        means(&[self.score(&nothing, &blind)])
    }

    fn score(&self, estimate: &Matrix, readings: &[Vec<u32>]) -> Vec<Marks> {
        let estimated = self.frame.apply(estimate).normalised();
        let truth = self.frame.apply(&self.coordinates).normalised();
        (readings.iter().zip(&self.texts).enumerate())
            .map(|(at, (reading, text))| {
                let cosine = estimated.row(at).iter().zip(truth.row(at)).map(|(a, b)| a * b).sum();
                let sentence = self.decoder.sentence(reading);
                let Overlap { precision, recall, f1 } = Overlap::of_words(&sentence, text);
                let reference: Vec<&str> = text.iter().map(String::as_str).collect();
                let rare = self.rare_recall(&sentence, text);
                [cosine, f1, precision, recall, rare, bleu(&sentence, &reference)]
            })
            .collect()
    }

    fn rare_recall(&self, emitted: &[&str], text: &Words) -> f64 {
        let vocabulary = self.decoder.vocabulary();
        let common = |word: &str| {
            vocabulary.number(word).is_some_and(|at| vocabulary.shares()[at as usize] > RARE)
        };
        let rare: HashSet<&str> = distinct(text).into_iter().filter(|word| !common(word)).collect();
        let found = emitted.iter().filter(|word| rare.contains(*word)).count();
        if rare.is_empty() { 0.0 } else { found as f64 / rare.len() as f64 }
    }
}

/// Whether all pieces of a record's name, e-mail address and telephone number are among the words
/// read. Which piece belongs where is granted: a set of words cannot tell.
pub fn secrets_found(decoder: &Decoder, reading: &[u32], record: &Record) -> [f64; 3] {
    let words: HashSet<&str> =
        reading.iter().map(|&word| decoder.vocabulary().word(word)).collect();
    [&record.name, &record.email, &record.phone].map(|secret| {
        f64::from(u8::from(pieces(secret).iter().all(|piece| words.contains(piece.as_str()))))
    })
}

/// The mean over keys and targets of every figure.
pub fn means<const N: usize>(by_key: &[Vec<[f64; N]>]) -> [f64; N] {
    std::array::from_fn(|metric| {
        let by_key: Vec<f64> = by_key.iter().map(|marks| mean(&column(marks, metric))).collect();
        mean(&by_key)
    })
}

/// A finding for every metric, with the interval over keys, then targets.
///
/// # Panics
/// When there is no key, or a key without targets.
pub fn findings<const N: usize>(
    channel: &str,
    setting: &str,
    metrics: &[&str; N],
    by_key: &[Vec<[f64; N]>],
    chance: &[f64; N],
    seed: u64,
) -> Vec<Finding> {
    let rows = by_key[0].len();
    let values = means(by_key);
    (0..N)
        .map(|metric| {
            let columns: Vec<Vec<f64>> = by_key.iter().map(|marks| column(marks, metric)).collect();
            Finding::new(channel, setting, metrics[metric], values[metric])
                .ci95(hierarchical_interval(&columns, REPETITIONS, seed))
                .chance(chance[metric])
                .on(seed, rows)
        })
        .collect()
}

fn column<const N: usize>(marks: &[[f64; N]], metric: usize) -> Vec<f64> {
    marks.iter().map(|marks| marks[metric]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::encoder::encode;
    use super::super::records::records;
    use super::super::tokens::VocabularyLimits;
    use super::*;

    #[test]
    fn a_secret_is_found_when_all_of_its_pieces_are() {
        let records = records(300, 1);
        let texts: Vec<Words> = records.iter().map(|record| pieces(&record.text)).collect();
        let limits = VocabularyLimits { floor: 1, ..VocabularyLimits::default() };
        let decoder = Decoder::train(&encode(&texts, 16, 1), &texts, limits, 1).expect("a decoder");
        let read = |text: &str| -> Vec<u32> {
            pieces(text).iter().filter_map(|piece| decoder.vocabulary().number(piece)).collect()
        };
        let record = &records[0];
        assert_eq!(secrets_found(&decoder, &read(&record.text), record), [1.0; 3]);
        assert_eq!(secrets_found(&decoder, &read(&record.name), record), [1.0, 0.0, 0.0]);
        let first = record.name.split(' ').next().expect("a first name");
        assert_eq!(secrets_found(&decoder, &read(first), record), [0.0; 3]);
    }

    #[test]
    fn means_are_over_targets_then_keys() {
        let by_key = [vec![[1.0], [3.0]], vec![[5.0], [5.0]]];
        assert_eq!(means(&by_key), [3.5]);
        let finding = &findings("c", "s", &["m"], &by_key, &[0.5], 9)[0];
        assert_eq!((finding.value, finding.chance, finding.rows), (3.5, Some(0.5), 2));
        assert!(finding.ci95.is_some_and(|[low, high]| low < 3.5 && high > 3.5));
    }
}
