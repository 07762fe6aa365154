//! Whether words are what uniform noise would be: the tests that ciphertexts have to pass.
//!
//! Words come in pieces of one length, polynomials here. If all were independent and uniform over
//! `[0, q)`, then
//!
//! - `distribution`: their distribution function is that of `[0, q)` (Kolmogorov and Smirnov);
//! - `bytes`, `bits`: every byte takes its values, and every bit is set, equally often (chi-square);
//! - `neighbours`: words a few places apart in a piece are not correlated;
//! - `differences`: the difference of a piece and the next is uniform, and so is that of a piece and the
//!   first (Kolmogorov and Smirnov);
//! - `near-pairs`: no two pieces, wherever they are, differ by little in many places;
//! - `repeats`: words come twice as often as `n (n - 1) / (2 q)` says.
//!
//! The distribution that noise is compared with is the exact one, which is as good as a second sample of
//! any size. What is found of a fault: a pad that is used twice leaves pieces that differ by little, a
//! pad that is missing leaves small words, a ciphertext that is repeated leaves words that are.

use rayon::prelude::*;

use super::evidence::{of_distance, of_hits, of_squares, of_strongest};

/// Places apart at which words of a piece are compared.
const LAGS: usize = 8;

/// Words of a piece by which all pairs of pieces are compared.
const COMPARED: usize = 64;

/// Two words are near if their difference is this share of the modulus or less: one pair in 256 is.
const NEAR: u64 = 512;

/// Most pieces that are looked at: all pairs of them are.
pub const MOST_PIECES: usize = 4_096;

/// What a test found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tested {
    /// Its name, in kebab case.
    pub test: &'static str,
    /// Digits of evidence that the words are no uniform noise.
    pub evidence: f64,
}

/// Runs every test on pieces of words below a modulus that is a power of two, or less by one in a
/// billion at most: their bits are then as good as fair. Words are counted over at most
/// [`MOST_PIECES`] pieces.
///
/// # Panics
/// When there is no word, pieces differ in length, a word is not below the modulus, or the modulus is
/// not as said.
pub fn against_noise(modulus: u64, pieces: &[Vec<u64>]) -> Vec<Tested> {
    let pieces = &pieces[..pieces.len().min(MOST_PIECES)];
    let length = pieces.first().map_or(0, Vec::len);
    assert!(length > 0 && pieces.iter().all(|piece| piece.len() == length), "pieces of one length");
    let full = modulus.next_power_of_two();
    assert!(full - modulus <= full >> 30, "a modulus close to a power of two");
    let mut sorted: Vec<u64> = pieces.concat();
    sorted.par_sort_unstable();
    assert!(sorted.last().is_some_and(|&last| last < modulus), "words below the modulus");
    let words = full.ilog2();
    let tested = |test, evidence| Tested { test, evidence };
    vec![
        tested("distribution", distribution(&sorted, modulus)),
        tested("bytes", bytes(&sorted, words)),
        tested("bits", bits(&sorted, words)),
        tested("neighbours", neighbours(pieces, modulus)),
        tested("differences", differences(pieces, modulus)),
        tested("near-pairs", near_pairs(pieces, modulus)),
        tested("repeats", repeats(&sorted, modulus)),
    ]
}

/// The strongest evidence of all tests.
pub fn strongest(tested: &[Tested]) -> f64 {
    tested.iter().map(|tested| tested.evidence).fold(0.0, f64::max)
}

/// `D = max |F_n(x) - x / q|` over sorted words.
fn distribution(sorted: &[u64], modulus: u64) -> f64 {
    let (n, q) = (sorted.len() as f64, modulus as f64);
    let gap = |(at, &word): (usize, &u64)| {
        let (below, x) = (at as f64 / n, (word as f64 + 0.5) / q);
        (x - below).abs().max((below + 1.0 / n - x).abs())
    };
    of_distance(sorted.iter().enumerate().map(gap).fold(0.0, f64::max), sorted.len())
}

/// `sum (n_v - n / 256)^2 / (n / 256)` over the values of every byte.
fn bytes(words: &[u64], bits: u32) -> f64 {
    let positions = (bits / 8) as usize;
    let mut counts = vec![[0_u64; 256]; positions];
    for word in words {
        for (counts, byte) in counts.iter_mut().zip(word.to_le_bytes()) {
            counts[usize::from(byte)] += 1;
        }
    }
    let expected = words.len() as f64 / 256.0;
    let squares =
        counts.iter().flatten().map(|&count| (count as f64 - expected).powi(2) / expected);
    // Too few words make the counts no normals.
    if expected < 16.0 { 0.0 } else { of_squares(squares.sum(), 255 * positions) }
}

/// `sum (2 n_b - n)^2 / n` over bits.
fn bits(words: &[u64], bits: u32) -> f64 {
    let mut counts = vec![0_u64; bits as usize];
    for word in words {
        counts.iter_mut().enumerate().for_each(|(bit, count)| *count += word >> bit & 1);
    }
    let n = words.len() as f64;
    of_squares(counts.iter().map(|&set| (2.0 * set as f64 - n).powi(2) / n).sum(), counts.len())
}

/// `sum z_l^2` over lags `l`, with `z_l = sum_i u_i u_(i+l) / sqrt(n / 144)` of words centred and divided
/// by the modulus, whose variance is a twelfth.
fn neighbours(pieces: &[Vec<u64>], modulus: u64) -> f64 {
    let centred = |&word: &u64| (word as f64 + 0.5) / modulus as f64 - 0.5;
    let sums = pieces.par_iter().map(|piece| {
        let values: Vec<f64> = piece.iter().map(centred).collect();
        let lag = |lag: usize| {
            let products = values.iter().zip(values.get(lag..).unwrap_or_default());
            products.map(|(a, b)| a * b).sum::<f64>()
        };
        let sums: [f64; LAGS] = std::array::from_fn(|at| lag(at + 1));
        sums
    });
    let sums = sums.reduce(|| [0.0; LAGS], |a, b| std::array::from_fn(|at| a[at] + b[at]));
    let length = pieces[0].len();
    let squares = sums.iter().enumerate().filter(|(at, _)| at + 1 < length).map(|(at, sum)| {
        let n = (pieces.len() * (length - at - 1)) as f64;
        sum * sum * 144.0 / n
    });
    let count = LAGS.min(length - 1);
    if count == 0 { 0.0 } else { of_squares(squares.sum(), count) }
}

/// The distribution of differences modulo `q`: those of independent pieces are uniform and independent.
fn differences(pieces: &[Vec<u64>], modulus: u64) -> f64 {
    if pieces.len() < 2 {
        return 0.0;
    }
    let between = |pairs: &mut dyn Iterator<Item = (&Vec<u64>, &Vec<u64>)>| {
        let words = pairs.flat_map(|(a, b)| a.iter().zip(b).map(|(&a, &b)| minus(b, a, modulus)));
        let mut words: Vec<u64> = words.collect();
        words.par_sort_unstable();
        distribution(&words, modulus)
    };
    let with_next = between(&mut pieces.iter().zip(&pieces[1..]));
    let with_first = between(&mut pieces[1..].iter().map(|piece| (&pieces[0], piece)));
    of_strongest(with_next.max(with_first), 2)
}

/// The pair of pieces with the most words that are near each other.
fn near_pairs(pieces: &[Vec<u64>], modulus: u64) -> f64 {
    let bound = modulus / NEAR;
    let compared = pieces[0].len().min(COMPARED);
    let most = |at: usize| {
        let near = |other: &Vec<u64>| {
            let words = pieces[at][..compared].iter().zip(other);
            let near = words.filter(|&(&a, &b)| {
                let difference = minus(a, b, modulus);
                difference.min(modulus - difference) <= bound
            });
            near.count()
        };
        pieces[at + 1..].iter().map(near).max().unwrap_or(0)
    };
    let most = (0..pieces.len()).into_par_iter().map(most).max().unwrap_or(0);
    let expected = compared as f64 * 2.0 / NEAR as f64;
    of_strongest(of_hits(most as f64, expected), pieces.len() * (pieces.len() - 1) / 2)
}

/// Pairs of equal words.
fn repeats(sorted: &[u64], modulus: u64) -> f64 {
    let pairs = |equal: &[u64]| equal.len() as f64 * (equal.len() as f64 - 1.0) / 2.0;
    let found: f64 = sorted.chunk_by(|a, b| a == b).map(pairs).sum();
    of_hits(found, pairs(sorted) / modulus as f64)
}

/// `a - b mod q`.
fn minus(a: u64, b: u64, modulus: u64) -> u64 {
    if a >= b { a - b } else { a + modulus - b }
}

#[cfg(test)]
mod tests;
