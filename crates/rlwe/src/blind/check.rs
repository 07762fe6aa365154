//! Checks: sums of all blocks under secret turns, which the server evaluates without knowing them.
//!
//! For each of a few checks, `D[t] = sum_i y_i b[i,t]` with `y_i = ±X^(w rho_i)`, a secret turn of every
//! block. Products are linear, so `sum_i y_i R[i] = sum_t D[t] b2[t]` at the wanted places, up to the
//! rounding of answers. `D` is stored beside the blocks, minus a pad that is never used for another:
//! to the server it is noise like they are, and its answer needs no bytes but those of one block.
//!
//! A single score that is moved by more than twice the [`tolerance`](super::tolerance) fails every check; a
//! combination over several blocks passes one with a chance of one in `2P`. Half the modulus added to
//! two blocks passes all of them and is found by the range of scores instead.
//!
//! # Blocks in cells
//!
//! Where a search asks for the blocks of some cells only, every cell has sums of its own, `D_c[t] = sum of
//! y_i b[i,t]` over the blocks `i` of cell `c`, under a set of its own: its turns come from another seed, so
//! what an alarm says of one cell's turns says nothing of another's. Which blocks belong to a cell the client
//! knows from its own sealed index, and so also where each of them stands in an answer; the server's list is
//! not asked. Then, for every asked cell by itself:
//!
//! - An answer of another block (of another cell, of another revision, of another place in this one) is a
//!   deviation `d_i` of that block's answer, like any other number that the server makes up. The check of
//!   cell `c` sees `sum_i y_i d_i` over the blocks of `c`, and the deviations were chosen without `y`.
//! - So a deviation in cell `c` passes the checks of `c` with the chance that the module's first paragraphs
//!   state for a whole collection, whatever happens in other cells. An answer that is false anywhere is false
//!   in some cell, and passes only if that one passes: asking for more cells does not add to the chance.
//! - Swapping blocks between two asked cells is a deviation in both. So is a cell that is answered in place of
//!   another: with as many blocks it is a deviation of each of them, which the check finds, and with more or
//!   fewer, like a cell left out, an answer of another length, which is refused before it is looked at.
//! - Every cell has two sets, and so bears two alarms. A server that tries its luck with every cell of a commit
//!   has twice as many tries as there are cells: with 4,096 of them one passes with a chance of about `2^-29`,
//!   where a single try has `2^-42`.
//! - The tolerance follows the number of blocks of the cell, not of the collection, so it is smaller.
//!
//! The client takes nothing of an answer unless all asked cells pass, and it retires the sets of all of them
//! together: which one failed shows in nothing that it does.

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::evaluate::{Answer, Forged};
use super::keys::{Keys, Prf};
use super::modulus::{DEGREE, MODULUS, add, centred, subtract, transform};
use super::query::Opening;
use super::scale::tolerance_in_steps;
use super::shape::SCORE_BITS;
use super::words::Block;
use crate::sample::{Stream, fill_uniform, fill_words, word_at};

/// The seed of a check's pad: a PRF over the sums and everything that describes them. Secret.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct CheckTag([u8; 32]);

impl CheckTag {
    /// A tag that was kept, sealed.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes to keep, sealed.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for CheckTag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CheckTag(..)")
    }
}

/// How one block is turned in one check: `±X^(w places)`.
#[derive(Clone, Copy)]
struct Turn {
    places: usize,
    negated: bool,
}

impl Turn {
    fn from_word(word: u64, places: usize) -> Self {
        let index = word as usize % (2 * places); // a power of two: no bias
        Self { places: index % places, negated: index >= places }
    }
}

/// The sums of all blocks, one for each check of a set.
pub struct CheckSums {
    /// By check, then tile.
    sums: Vec<Vec<Vec<u64>>>,
    set: u64,
}

impl Keys {
    /// The seed of the turns of a set of checks. A set is retired by the first alarm.
    fn turn_seed(&self, set: u64) -> Zeroizing<[u8; 32]> {
        let mut prf = Prf::new(&self.turn_key);
        prf.number(set);
        Zeroizing::new(prf.finish())
    }

    fn check_tag(
        &self,
        context: &[u8],
        revision: u64,
        set: u64,
        check: usize,
        sums: &[Vec<u64>],
    ) -> CheckTag {
        let mut prf = Prf::new(&self.check_key);
        prf.number(context.len() as u64);
        prf.input(context);
        [revision, set, check as u64, self.shape.tile() as u64, self.shape.dimension() as u64]
            .into_iter()
            .for_each(|number| prf.number(number));
        for values in sums {
            values.iter().for_each(|&value| prf.number(value));
        }
        CheckTag(prf.finish())
    }

    fn pad(&self, tag: &CheckTag, tile: usize, values: &mut [u64]) {
        fill_uniform(values, &tag.0, Stream::Uniform(tile as u32), MODULUS);
    }
}

impl CheckSums {
    /// The sums of no block.
    pub fn empty(keys: &Keys, set: u64) -> Self {
        let tiles = || vec![vec![0; DEGREE]; keys.shape.tiles()];
        Self { sums: (0..keys.shape.checks()).map(|_| tiles()).collect(), set }
    }

    /// Adds a block that is stored as this number.
    pub fn add(&mut self, keys: &Keys, number: u32, block: &Block) {
        self.change(keys, number, block, false);
    }

    /// Takes a block out that was stored as this number.
    pub fn remove(&mut self, keys: &Keys, number: u32, block: &Block) {
        self.change(keys, number, block, true);
    }

    fn change(&mut self, keys: &Keys, number: u32, block: &Block, removed: bool) {
        let seed = keys.turn_seed(self.set);
        let turned = |check: usize| {
            let word = word_at(&seed, Stream::Turns(check as u32), number as usize);
            let turn = Turn::from_word(word, keys.shape.rows_per_block());
            let mut monomial = vec![0; DEGREE];
            monomial[turn.places * keys.shape.tile()] =
                if turn.negated ^ removed { MODULUS - 1 } else { 1 };
            transform().forward(&mut monomial);
            monomial
        };
        let turns: Vec<Vec<u64>> = (0..self.sums.len()).map(turned).collect();
        let mut values = vec![0; DEGREE];
        for t in 0..keys.shape.tiles() {
            block.take(t, &mut values);
            for (sums, turn) in self.sums.iter_mut().zip(&turns) {
                transform().multiply_accumulate(&mut sums[t], &values, turn);
            }
        }
    }

    /// The padded blocks to store, with the tags that take the pads off.
    pub fn seal(&self, keys: &Keys, context: &[u8], revision: u64) -> Vec<(CheckTag, Block)> {
        let seal = |(check, sums): (usize, &Vec<Vec<u64>>)| {
            let tag = keys.check_tag(context, revision, self.set, check, sums);
            let mut block = Block::zero(sums.len());
            let mut values = vec![0; DEGREE];
            for (t, sums) in sums.iter().enumerate() {
                keys.pad(&tag, t, &mut values);
                values
                    .iter_mut()
                    .zip(sums)
                    .for_each(|(value, &sum)| *value = subtract(sum, *value));
                block.put(t, &values);
            }
            (tag, block)
        };
        self.sums.iter().enumerate().map(seal).collect()
    }

    /// The sums of stored blocks; `None` if they are not what was stored under these tags.
    pub fn open(
        keys: &Keys,
        context: &[u8],
        revision: u64,
        set: u64,
        stored: &[(&CheckTag, &Block)],
    ) -> Option<Self> {
        let tiles = keys.shape.tiles();
        if stored.len() != keys.shape.checks() {
            return None;
        }
        let mut sums = Vec::with_capacity(stored.len());
        for (check, (tag, block)) in stored.iter().enumerate() {
            if block.polynomials() != tiles {
                return None;
            }
            let open = |t: usize| {
                let (mut values, mut pad) = (vec![0; DEGREE], vec![0; DEGREE]);
                block.take(t, &mut values);
                keys.pad(tag, t, &mut pad);
                values.iter_mut().zip(&pad).for_each(|(value, &pad)| *value = add(*value, pad));
                values
            };
            let opened: Vec<Vec<u64>> = (0..tiles).map(open).collect();
            let again = keys.check_tag(context, revision, set, check, &opened);
            if !bool::from(subtle::ConstantTimeEq::ct_eq(&again.0[..], &tag.0[..])) {
                return None;
            }
            sums.push(opened);
        }
        Some(Self { sums, set })
    }
}

/// Checks the answers of a revision.
pub struct Checker {
    /// The turns of every block, by check.
    turns: Vec<Vec<Turn>>,
    /// The pads of the checks.
    pads: Vec<Block>,
}

impl Checker {
    /// The checks of a set over the first so many blocks: those of a collection without cells.
    pub fn new(keys: &Keys, set: u64, tags: &[CheckTag], blocks: usize) -> Self {
        let words = |seed: &[u8; 32], stream: Stream| {
            let mut words = Zeroizing::new(vec![0_u64; blocks]);
            fill_words(&mut words, seed, stream);
            words
        };
        Self::with_words(keys, set, tags, words)
    }

    /// The checks of a set over the blocks of these numbers: those of a cell.
    pub fn of_blocks(keys: &Keys, set: u64, tags: &[CheckTag], numbers: &[u32]) -> Self {
        let words = |seed: &[u8; 32], stream: Stream| {
            Zeroizing::new(
                numbers.iter().map(|&number| word_at(seed, stream, number as usize)).collect(),
            )
        };
        Self::with_words(keys, set, tags, words)
    }

    fn with_words(
        keys: &Keys,
        set: u64,
        tags: &[CheckTag],
        words: impl Fn(&[u8; 32], Stream) -> Zeroizing<Vec<u64>>,
    ) -> Self {
        let seed = keys.turn_seed(set);
        let places = keys.shape.rows_per_block();
        let turns = |check: usize| {
            let words = words(&seed, Stream::Turns(check as u32));
            words.iter().map(|&word| Turn::from_word(word, places)).collect()
        };
        let pad = |tag: &CheckTag| {
            let mut block = Block::zero(keys.shape.tiles());
            let mut values = vec![0; DEGREE];
            for t in 0..keys.shape.tiles() {
                keys.pad(tag, t, &mut values);
                block.put(t, &values);
            }
            block
        };
        Self { turns: (0..tags.len()).map(turns).collect(), pads: tags.iter().map(pad).collect() }
    }

    /// Whether an answer is that of the stored blocks. The answers of its checks begin at block
    /// `first`; those of other sets may stand beside them.
    pub fn check(
        &self,
        keys: &Keys,
        opening: &Opening,
        answer: &Answer,
        first: usize,
    ) -> Result<(), Forged> {
        let blocks: Vec<usize> = (0..self.turns.first().map_or(0, Vec::len)).collect();
        self.check_at(keys, opening, answer, &blocks, first)
    }

    /// The same where the blocks stand at these places of the answer, in the order in which the checks know
    /// them.
    pub fn check_at(
        &self,
        keys: &Keys,
        opening: &Opening,
        answer: &Answer,
        blocks: &[usize],
        first: usize,
    ) -> Result<(), Forged> {
        let bound = (tolerance_in_steps(self.turns.first().map_or(0, Vec::len)) * MODULUS as f64
            / 2_f64.powi(SCORE_BITS as i32)) as u64;
        let places = keys.shape.rows_per_block();
        let mut within = true;
        let pads: Vec<&Block> = self.pads.iter().collect();
        keys.fold.products(&pads, &[&opening.sent], |_, check, products| {
            let mut sum = vec![0; places];
            for (&block, turn) in blocks.iter().zip(&self.turns[check]) {
                add_turned(&mut sum, answer.block(block), *turn);
            }
            for (at, &sum) in sum.iter().enumerate() {
                let expected = add(answer.block(first + check)[at], products[at]);
                within &= centred(subtract(sum, expected)).unsigned_abs() <= bound;
            }
        });
        if within { Ok(()) } else { Err(Forged) }
    }
}

/// `sum += ±Y^k values` modulo `Y^P + 1`.
fn add_turned(sum: &mut [u64], values: &[u64], turn: Turn) {
    let (ahead, wrapped) = values.split_at(values.len() - turn.places);
    let (low, high) = sum.split_at_mut(turn.places);
    let signed = |sums: &mut [u64], values: &[u64], negated: bool| {
        for (sum, &value) in sums.iter_mut().zip(values) {
            *sum = if negated { subtract(*sum, value) } else { add(*sum, value) };
        }
    };
    signed(high, ahead, turn.negated);
    signed(low, wrapped, !turn.negated);
}
