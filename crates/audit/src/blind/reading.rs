//! Ciphertexts as an attacker may read them.
//!
//! A server needs no key to take a stored polynomial from evaluations to coefficients, so both are
//! attacked. Where no pad hid it, coordinate `j` of a row would stand at one coefficient of one
//! polynomial ([`Shape::place`]), and nothing else there. Evaluations mix all rows of a block; those
//! that an answer folds into a row's score are taken for it. Words are centred and divided by the
//! modulus.

use rayon::prelude::*;
use shard_rlwe::blind::{Block, MODULUS, SCORE_BITS, Shape};

use crate::tools::matrix::Matrix;

/// The polynomials of some blocks as they are stored, one piece each.
pub fn as_stored(blocks: &[Block]) -> Vec<Vec<u64>> {
    pieces(blocks, Block::evaluations)
}

/// The polynomials of some blocks as coefficients, one piece each.
pub fn as_coefficients(blocks: &[Block]) -> Vec<Vec<u64>> {
    pieces(blocks, Block::coefficients)
}

fn pieces(blocks: &[Block], of: impl Fn(&Block, usize) -> Vec<u64> + Sync) -> Vec<Vec<u64>> {
    let each =
        blocks.par_iter().flat_map_iter(|block| (0..block.polynomials()).map(|at| of(block, at)));
    each.collect()
}

/// How ciphertexts are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// As they are stored.
    Words,
    /// After the inverse transform.
    Coefficients,
}

impl Domain {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Coefficients, Self::Words];

    /// In settings of findings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Coefficients => "coefficients",
        }
    }

    /// The polynomials of some blocks, one piece each.
    pub fn pieces(self, blocks: &[Block]) -> Vec<Vec<u64>> {
        match self {
            Self::Words => as_stored(blocks),
            Self::Coefficients => as_coefficients(blocks),
        }
    }

    /// Which word of its polynomial is read for a coordinate of a row, and whether it is negated.
    fn place(self, shape: &Shape, row: usize, coordinate: usize) -> (usize, bool) {
        match self {
            Self::Words => (row * shape.tile() + coordinate % shape.tile(), false),
            Self::Coefficients => shape.place(row, coordinate),
        }
    }
}

/// Rows of some blocks, each by its block and its place there.
///
/// # Panics
/// When a block is not of the shape, or a row is in none.
pub fn rows(domain: Domain, shape: &Shape, blocks: &[Block], members: &[(usize, usize)]) -> Matrix {
    let (tiles, pieces) = (shape.tiles(), domain.pieces(blocks));
    let row = |&(block, row): &(usize, usize)| {
        let pieces = &pieces[block * tiles..(block + 1) * tiles];
        (0..shape.dimension()).map(move |coordinate| {
            let (place, negated) = domain.place(shape, row, coordinate);
            let value = centred(pieces[coordinate / shape.tile()][place], MODULUS);
            if negated { -value } else { value }
        })
    };
    Matrix::new(shape.dimension(), members.iter().flat_map(row).collect())
}

/// Encrypted queries, whose coordinate `j` of a tile stands at `X^j`.
///
/// # Panics
/// When a query is not of the shape.
pub fn queries(domain: Domain, shape: &Shape, queries: &[Block]) -> Matrix {
    let (tiles, tile, pieces) = (shape.tiles(), shape.tile(), domain.pieces(queries));
    let query = |pieces: &[Vec<u64>]| {
        let word = |at: usize| centred(pieces[at / tile][at % tile], MODULUS);
        (0..shape.dimension()).map(word).collect::<Vec<f64>>()
    };
    Matrix::new(shape.dimension(), pieces.chunks(tiles).flat_map(query).collect())
}

/// The words of an answer: one for every place of every block, little-endian.
pub fn answer_words(answer: &[u8]) -> Vec<u64> {
    const { assert!(SCORE_BITS == 24) };
    let (words, _) = answer.as_chunks::<3>();
    words.iter().map(|&[a, b, c]| u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16).collect()
}

/// An answer as it is compared.
pub fn answer_values(words: &[u64]) -> Vec<f64> {
    words.iter().map(|&word| centred(word, 1 << SCORE_BITS)).collect()
}

/// `a - b` of rows that were read, modulo the modulus, which is one after division.
///
/// # Panics
/// When they are not as many and as wide.
pub fn differences(a: &Matrix, b: &Matrix) -> Matrix {
    assert_eq!((a.rows(), a.width()), (b.rows(), b.width()), "rows to compare");
    let values = a.values().iter().zip(b.values()).map(|(a, b)| (a - b) - (a - b).round());
    Matrix::new(a.width(), values.collect())
}

/// A residue between minus a half and a half of the modulus, which counts as one.
fn centred(word: u64, modulus: u64) -> f64 {
    let share = word as f64 / modulus as f64;
    if share > 0.5 { share - 1.0 } else { share }
}

#[cfg(test)]
mod tests {
    use shard_rlwe::blind::{BlockName, DEGREE, EpochKey, Grid, Keys, QueryRank};

    use super::*;

    /// A block of polynomials of these evaluations: eight points of each in turn, four low bytes of each
    /// word and then two high ones.
    fn block_of(polynomials: &[Vec<u64>]) -> Block {
        let mut bytes = Vec::with_capacity(Block::byte_len(polynomials.len()));
        for at in (0..DEGREE).step_by(8) {
            for words in polynomials.iter().map(|words| &words[at..at + 8]) {
                words.iter().for_each(|word| bytes.extend(&word.to_le_bytes()[..4]));
                words.iter().for_each(|word| bytes.extend(&word.to_le_bytes()[4..6]));
            }
        }
        Block::from_bytes(polynomials.len(), &bytes).expect("reduced words")
    }

    fn times(a: u64, b: u64) -> u64 {
        (u128::from(a) * u128::from(b) % u128::from(MODULUS)) as u64
    }

    fn power(base: u64, exponent: usize) -> u64 {
        let bits = (0..usize::BITS).rev().map(|bit| exponent >> bit & 1 == 1);
        bits.fold(1, |so_far, set| times(times(so_far, so_far), if set { base } else { 1 }))
    }

    /// `1 / x` of every point `x` of the transform. What is one at point `x` and zero at the others has the
    /// coefficients `x^-k / N`.
    fn inverse_points() -> Vec<u64> {
        let unit = |at: usize| {
            let words = (0..DEGREE).map(|point| u64::from(point == at)).collect();
            times(block_of(&[words]).coefficients(0)[1], DEGREE as u64)
        };
        (0..DEGREE).into_par_iter().map(unit).collect()
    }

    /// Two contents under one pad, which no block ever has: coefficients, read as rows, differ by exactly
    /// the difference of the rows. By the scheme coordinate `j` of row `r` is the factor of `X^(w r - j)` in
    /// polynomial `j / w`, `j` counted within the tile; the difference is evaluated at every point and
    /// added to what is stored.
    #[test]
    fn rows_are_read_where_they_would_stand() {
        let (width, tile) = (40, 16);
        let shape = Shape::new(width, tile, QueryRank::One).expect("a shape");
        let keys = Keys::expand(&EpochKey::new([1; 32]), shape);
        let grid = Grid::for_length(&shape, 1.0);
        let name = BlockName { context: b"reading", block: 0, revision: 1, grid };
        let (_, before) = keys.encrypt_block(&name, &vec![3; shape.rows_per_block() * width]);
        let members = [(0, 0), (0, 5), (0, 127)];
        let added = |row: usize, j: usize| (1_000 * (row + 1) + j) as u64;
        let inverse = inverse_points();
        let mut words = as_stored(std::slice::from_ref(&before));
        for (_, row) in members {
            for j in 0..width {
                // X^k = (1 / X)^(2N - k), also where k is negative.
                let exponent = 2 * DEGREE - tile * row + j % tile;
                for (word, &point) in words[j / tile].iter_mut().zip(&inverse) {
                    *word = (*word + times(added(row, j), power(point, exponent))) % MODULUS;
                }
            }
        }
        let after = block_of(&words);
        let read = |domain, block| rows(domain, &shape, std::slice::from_ref(block), &members);
        let of = |domain| differences(&read(domain, &after), &read(domain, &before));
        let [coefficients, stored] = Domain::ALL.map(of);
        for (at, (_, row)) in members.into_iter().enumerate() {
            for j in 0..width {
                let found = coefficients.row(at)[j] * MODULUS as f64;
                assert!((found - added(row, j) as f64).abs() < 0.5, "{row}, {j}: {found}");
            }
        }
        // Evaluations have a part of every row. Those that are taken for a row are its own.
        assert!(stored.values().iter().all(|x| (x * MODULUS as f64).abs() > 1e6));
        let fifth = read(Domain::Words, &after).row(1)[20];
        assert_eq!(fifth, centred(words[1][5 * 16 + 4], MODULUS));
    }

    #[test]
    fn answers_and_differences_wrap_around() {
        assert_eq!(answer_words(&[1, 0, 0, 0xff, 0xff, 0xff]), [1, 0xff_ffff]);
        assert_eq!(answer_values(&[0, 1 << 23, (1 << 24) - 1]), [0.0, 0.5, -1.0 / 2_f64.powi(24)]);
        let (a, b) = (Matrix::new(2, vec![0.45, 0.1]), Matrix::new(2, vec![-0.45, 0.2]));
        let found = differences(&a, &b);
        assert!((found.values()[0] + 0.1).abs() < 1e-12 && (found.values()[1] + 0.1).abs() < 1e-12);
    }
}
