//! Real ciphertexts of chosen collections and query streams look like noise, and every fault that is
//! planted in them is found.
//!
//! Blocks come from a fixed key, so their tests cannot fail by chance; queries take fresh randomness.
//! Each test that runs on them alarms by chance once in `10^9` runs, and there are fewer than a hundred.

use rand_core::Rng;
use shard_rlwe::blind::{
    Block, BlockName, EpochKey, Grid, Keys, MODULUS, QueryEntropy, QueryRank, Shape,
};

use super::super::evidence::ALARM;
use super::super::statistics::generator;
use super::*;
use crate::blind::reading::{as_coefficients, as_stored};

const WIDTH: usize = 48;

/// A collection of rows of one length, encrypted as a publish does.
struct World {
    shape: Shape,
    keys: Keys,
    grid: Grid,
}

impl World {
    fn new() -> Self {
        let shape = Shape::new(WIDTH, 32, QueryRank::One).expect("a shape");
        let keys = Keys::expand(&EpochKey::new([9; 32]), shape);
        Self { shape, keys, grid: Grid::for_length(&shape, 1.0) }
    }

    fn integers(&self, rows: &[Vec<f32>]) -> Vec<i32> {
        let mut integers: Vec<i32> = rows.iter().flat_map(|row| self.grid.encode(row)).collect();
        integers.resize(self.shape.rows_per_block() * WIDTH, 0);
        integers
    }

    fn block(&self, number: u32, revision: u64, rows: &[Vec<f32>]) -> Block {
        let name = BlockName { context: b"noise", block: number, revision, grid: self.grid };
        self.keys.encrypt_block(&name, &self.integers(rows)).1
    }

    fn query(&self, query: &[f32]) -> Block {
        let entropy = QueryEntropy::from_os().expect("randomness");
        let (sent, _) = self.keys.encrypt_query(entropy, query, self.grid, 1.0);
        Block::from_bytes(self.shape.tiles(), &sent.to_bytes()).expect("a query")
    }
}

fn row(seed: u64) -> Vec<f32> {
    let values: Vec<f32> =
        (0..WIDTH).map(|at| ((seed * 131 + at as u64 * 17) as f32).sin()).collect();
    let norm = values.iter().map(|x| x * x).sum::<f32>().sqrt();
    values.iter().map(|x| x / norm).collect()
}

/// Words of some blocks, both as they are stored and as coefficients: every test must pass on each.
fn assert_noise(name: &str, blocks: &[Block]) {
    for (read_as, pieces) in
        [("words", as_stored(blocks)), ("coefficients", as_coefficients(blocks))]
    {
        for Tested { test, evidence } in against_noise(MODULUS, &pieces) {
            assert!(evidence < ALARM, "{name} as {read_as}: {test} has {evidence} digits");
        }
    }
}

/// Which tests find a fault.
fn found(pieces: &[Vec<u64>]) -> Vec<&'static str> {
    let tested = against_noise(MODULUS, pieces).into_iter();
    tested.filter(|tested| tested.evidence >= ALARM).map(|tested| tested.test).collect()
}

#[test]
fn blocks_of_chosen_collections_are_noise() {
    let world = World::new();
    let places = world.shape.rows_per_block();
    let zeros = vec![vec![0.0; WIDTH]; places];
    let equal = vec![row(1); places];
    let tiny: Vec<Vec<f32>> = (0..places as u64 / 2).map(row).collect();
    let beside_itself = [&tiny[..], &tiny[..]].concat();
    for (name, rows) in [("zeros", &zeros), ("equal", &equal), ("duplicates", &beside_itself)] {
        // The same rows in many blocks, and in one block revision after revision.
        let blocks: Vec<Block> = (0..40).map(|number| world.block(number, 1, rows)).collect();
        assert_noise(name, &blocks);
        let revisions: Vec<Block> =
            (0..40).map(|revision| world.block(0, revision, rows)).collect();
        assert_noise(&format!("{name}, revised"), &revisions);
    }
    // All of them side by side.
    let all = [&zeros, &equal, &beside_itself, &tiny];
    let mixed = (0..40).map(|number| world.block(number, 1, all[number as usize % 4]));
    assert_noise("mixed", &mixed.collect::<Vec<_>>());
}

#[test]
fn the_same_query_a_thousand_times_is_noise() {
    let world = World::new();
    let stream: Vec<Block> = (0..1_000).map(|_| world.query(&row(3))).collect();
    assert_noise("one query", &stream);
    let nothing: Vec<Block> = (0..100).map(|_| world.query(&[0.0; WIDTH])).collect();
    assert_noise("a query of zeros", &nothing);
}

/// Uniform words, to plant faults in.
fn noise(pieces: usize, length: usize) -> Vec<Vec<u64>> {
    let rng = &mut generator(11, 0);
    let mut word = || ((u128::from(rng.next_u64()) * u128::from(MODULUS)) >> 64) as u64;
    (0..pieces).map(|_| (0..length).map(|_| word()).collect()).collect()
}

#[test]
fn noise_itself_passes_whatever_its_size() {
    for (pieces, length) in [(1, 1), (1, 5_000), (2, 2_048), (600, 64), (40, 2_048)] {
        assert_eq!(found(&noise(pieces, length)), [""; 0], "{pieces} x {length}");
    }
    // The answers of a server have 24 bits.
    let rng = &mut generator(12, 0);
    let answers: Vec<Vec<u64>> =
        (0..100).map(|_| (0..2_000).map(|_| rng.next_u64() >> 40).collect()).collect();
    assert!(strongest(&against_noise(1 << 24, &answers)) < ALARM);
}

/// A block of other rows under the pad of the first: what would be stored if pads did not depend on the
/// rows. In coefficients, the difference of the two is the difference of the rows.
fn under_one_pad(world: &World, before: &[Vec<f32>], after: &[Vec<f32>]) -> Vec<Vec<u64>> {
    let mut again = as_coefficients(&[world.block(7, 1, before)]);
    let (before, after) = (world.integers(before), world.integers(after));
    for at in 0..before.len() {
        let (place, negated) = world.shape.place(at / WIDTH, at % WIDTH);
        let change = i64::from(after[at]) - i64::from(before[at]);
        let word = &mut again[at % WIDTH / world.shape.tile()][place];
        let change = if negated { -change } else { change };
        *word = (*word as i64 + change).rem_euclid(MODULUS as i64) as u64;
    }
    again
}

#[test]
fn a_pad_that_is_used_twice_is_found_wherever_it_is() {
    let world = World::new();
    let places = world.shape.rows_per_block() as u64;
    let (before, after): (Vec<_>, Vec<_>) = (0..places).map(|at| (row(at), row(at + 500))).unzip();
    let others: Vec<Block> = (0..60).map(|number| world.block(number, 1, &before)).collect();
    let mut pieces = as_coefficients(&others);
    assert_eq!(found(&pieces), [""; 0]);
    pieces.extend(under_one_pad(&world, &before, &after));
    // Coefficients beside the rows are errors alone, which are of the pad: the same words again.
    assert_eq!(found(&pieces), ["near-pairs", "repeats"]);
    // Side by side the differences show it as well.
    let pair = [as_coefficients(&others[7..8]), under_one_pad(&world, &before, &after)].concat();
    let (first, second) = (pair[0].clone(), pair[2].clone());
    assert!(found(&[first, second]).contains(&"differences"));
    // Nothing but the very same words shows it where they are stored as evaluations.
    let twice = [as_stored(&others), as_stored(&others[..1])].concat();
    let tests = found(&twice);
    assert!(tests.contains(&"near-pairs") && tests.contains(&"repeats"), "{tests:?}");
}

#[test]
fn a_secret_of_a_query_that_is_used_twice_is_found() {
    let world = World::new();
    let mut pieces = as_coefficients(&(0..50).map(|at| world.query(&row(at))).collect::<Vec<_>>());
    assert_eq!(found(&pieces), [""; 0]);
    // b2 + (M2' - M2): another query, its errors even the same. The scale is that of a query.
    let scale = world.grid.query_scale(1.0);
    let mut again = pieces[0].clone();
    for (word, (new, old)) in again.iter_mut().zip(row(900).into_iter().zip(row(0))) {
        let change = (f64::from(new - old) * scale).round() as i64;
        *word = (*word as i64 + change).rem_euclid(MODULUS as i64) as u64;
    }
    pieces.push(again);
    assert!(found(&pieces).contains(&"near-pairs"));
}

#[test]
fn a_missing_mask_a_biased_word_and_a_pattern_are_found() {
    // Errors alone, as if nothing masked them, in one word of fifty.
    let mut unmasked = noise(40, 2_048);
    for piece in &mut unmasked {
        piece.iter_mut().step_by(50).enumerate().for_each(|(at, word)| *word = at as u64 % 20);
    }
    let tests = found(&unmasked);
    assert!(tests.contains(&"distribution") && tests.contains(&"repeats"), "{tests:?}");
    // One bit of the word that is set in 55 of 100.
    let mut biased = noise(40, 2_048);
    let rng = &mut generator(13, 0);
    for word in biased.iter_mut().flatten() {
        *word |= u64::from(rng.next_u32().is_multiple_of(10)) << 17;
    }
    assert_eq!(found(&biased), ["bytes", "bits"]);
    // Words that repeat a twentieth of the one before.
    let mut dragging = noise(40, 2_048);
    for piece in &mut dragging {
        for at in 1..piece.len() {
            piece[at] = (piece[at] / 20 * 19 + piece[at - 1] / 20) % MODULUS;
        }
    }
    assert!(found(&dragging).contains(&"neighbours"));
    // Words that never reach the last tenth of the range.
    let mut short = noise(40, 2_048);
    short.iter_mut().flatten().for_each(|word| *word = *word / 10 * 9);
    assert!(found(&short).contains(&"distribution"));
}
