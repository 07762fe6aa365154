//! A stand-in for a text encoder, for experiments whose texts are made on the spot.
//!
//! `x(T) = n(b e_0 + sum_w (1 + ln tf_w) e_w / n)`, `n` the normalisation: every piece of text has
//! a fixed random unit vector, and all texts share the direction `e_0`, as vectors of real encoders
//! do. It is a random projection of a bag of words. It knows no meaning and no order, so it says
//! nothing about what a given encoder keeps of a name; it is honest in that a piece is in the
//! vector to the extent that it is in the text, and it is known to be readable: the positive
//! control that an experiment on identifiers needs.

use std::collections::HashMap;

use super::tokens::{Words, words};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::generator;

/// The share of the common direction, `b`.
const COMMON: f64 = 0.5;

/// Pieces of a text: words, with runs of digits cut into pairs as sub-word tokenisers do, so that
/// an unseen number consists of known pieces.
pub fn pieces(text: &str) -> Words {
    let mut pieces = Words::new();
    for word in words(text, usize::MAX) {
        let letters: Vec<char> = word.chars().collect();
        for run in letters.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
            let longest = if run[0].is_ascii_digit() { 2 } else { run.len() };
            pieces.extend(run.chunks(longest).map(|piece| piece.iter().collect::<String>()));
        }
    }
    pieces
}

/// Unit vectors of texts that are given as pieces.
pub fn encode(texts: &[Words], width: usize, seed: u64) -> Matrix {
    let mut directions: HashMap<&str, Vec<f64>> = HashMap::new();
    let common = direction("", width, seed);
    let mut out = Matrix::zeros(texts.len(), width);
    for (at, text) in texts.iter().enumerate() {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        let mut sorted: Vec<&str> = text.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        sorted.chunk_by(|a, b| a == b).for_each(|same| counts.push((same[0], same.len())));
        let weight = |count: usize| 1.0 + (count as f64).ln();
        let norm = counts.iter().map(|&(_, count)| weight(count).powi(2)).sum::<f64>().sqrt();
        let row = out.row_mut(at);
        row.iter_mut().zip(&common).for_each(|(x, e)| *x = COMMON * e);
        for (piece, count) in counts {
            let own = directions.entry(piece).or_insert_with(|| direction(piece, width, seed));
            let share = weight(count) / norm;
            row.iter_mut().zip(own.iter()).for_each(|(x, e)| *x += share * e);
        }
    }
    out.normalised()
}

/// The unit vector of a piece; nothing but the piece, the width and the seed matter.
fn direction(piece: &str, width: usize, seed: u64) -> Vec<f64> {
    // FNV-1a: the same on every machine, unlike the hashes of the standard library.
    let hash = piece.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Matrix::normal(1, width, &mut generator(seed, hash)).normalised().values().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_pairs_and_letters_in_words() {
        let expected = ["ann", "lee", "48", "21", "7", "mail", "44", "20", "p", "53"];
        assert_eq!(pieces("Ann.Lee48217@mail +44 20 p53"), expected);
    }

    #[test]
    fn texts_are_as_near_as_the_pieces_they_share() {
        let texts: Vec<Words> =
            ["red fox runs", "runs red fox", "red fox sleeps", "blue sky shines"]
                .iter()
                .map(|text| pieces(text))
                .collect();
        let vectors = encode(&texts, 256, 1);
        let products = vectors.times_transposed(&vectors);
        let first = products.row(0);
        assert!((first[0] - 1.0).abs() < 1e-12 && (first[1] - 1.0).abs() < 1e-12);
        assert!(first[1] > first[2] + 0.1 && first[2] > first[3] + 0.3, "{first:?}");
    }
}
