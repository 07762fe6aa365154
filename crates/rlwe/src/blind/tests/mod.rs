//! The construction as a whole, against exact inner products.

mod forgeries;

use proptest::prelude::*;

use super::*;
use crate::sample::{Stream, fill_words};

/// A collection in memory, with everything that both sides have.
struct World {
    keys: Keys,
    server: Server,
    grid: Grid,
    longest: f64,
    rows: Vec<Vec<f32>>,
    blocks: Vec<Block>,
    tags: Vec<Tag>,
    secrets: Vec<BlockSecrets>,
    checks: Vec<(CheckTag, Block)>,
}

const CONTEXT: &[u8] = b"collection, epoch 1";

/// Rows of normal-like coordinates, each of its own length.
fn rows(count: usize, dimension: usize, seed: u64, length: impl Fn(usize) -> f64) -> Vec<Vec<f32>> {
    let mut words = vec![0; count * dimension];
    fill_words(&mut words, &[seed as u8; 32], Stream::Turns(seed as u32));
    let normal =
        |word: &u64| (0..4).map(|k| f64::from((word >> (16 * k)) as u16)).sum::<f64>() - 131_070.0;
    let row = |(at, words): (usize, &[u64])| {
        let values: Vec<f64> = words.iter().map(normal).collect();
        let norm = values.iter().map(|x| x * x).sum::<f64>().sqrt().max(1.0);
        values.iter().map(|x| (x / norm * length(at)) as f32).collect()
    };
    words.chunks(dimension).enumerate().map(row).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
}

fn norm(a: &[f32]) -> f64 {
    dot(a, a).sqrt()
}

impl World {
    fn new(shape: Shape, rows: Vec<Vec<f32>>) -> Self {
        let keys = Keys::expand(&EpochKey::new([7; 32]), shape);
        let longest = rows.iter().map(|row| norm(row)).fold(0.0, f64::max);
        let longest = if longest > 0.0 { longest } else { 1.0 };
        let grid = Grid::for_length(&shape, longest);
        let mut world = Self {
            server: Server::new(shape),
            grid,
            longest,
            blocks: Vec::new(),
            tags: Vec::new(),
            secrets: Vec::new(),
            checks: Vec::new(),
            keys,
            rows,
        };
        for block in 0..shape.blocks(world.rows.len()) as u32 {
            let (tag, stored) =
                world.keys.encrypt_block(&world.name(block), &world.integers(block));
            let secrets = world.keys.block_secrets(&tag, &world.keys.hint(&stored)).unwrap();
            world.blocks.push(stored);
            world.tags.push(tag);
            world.secrets.push(secrets);
        }
        world.checks = world.sums().seal(&world.keys, CONTEXT, 1);
        world
    }

    fn name(&self, block: u32) -> BlockName<'static> {
        BlockName { context: CONTEXT, block, revision: 1, grid: self.grid }
    }

    fn integers(&self, block: u32) -> Vec<i32> {
        let shape = self.keys.shape();
        let first = block as usize * shape.rows_per_block();
        let held = self.rows.iter().skip(first).take(shape.rows_per_block());
        let mut integers: Vec<i32> = held.flat_map(|row| self.grid.encode(row)).collect();
        integers.resize(shape.rows_per_block() * shape.dimension(), 0);
        integers
    }

    fn sums(&self) -> CheckSums {
        let mut sums = CheckSums::empty(&self.keys, 3);
        for (number, block) in self.blocks.iter().enumerate() {
            sums.add(&self.keys, number as u32, block);
        }
        sums
    }

    fn checker(&self) -> Checker {
        let tags: Vec<CheckTag> = self.checks.iter().map(|check| check.0.clone()).collect();
        Checker::new(&self.keys, 3, &tags, self.blocks.len())
    }

    fn stored(&self) -> Vec<&Block> {
        self.blocks.iter().chain(self.checks.iter().map(|check| &check.1)).collect()
    }

    fn ask(&self, query: &[f32]) -> (Opening, Vec<u8>) {
        let entropy = QueryEntropy::from_os().unwrap();
        let (sent, opening) = self.keys.encrypt_query(entropy, query, self.grid, self.longest);
        let prepared = self.server.prepare(&sent.to_bytes()).unwrap();
        let answer = self.server.answer(&self.stored(), &[&prepared]).remove(0);
        (opening, answer)
    }

    /// Check, then range, then scores.
    fn open(&self, opening: &Opening, bytes: &[u8]) -> Result<Vec<f64>, Forged> {
        let answer = Answer::from_bytes(self.keys.shape(), self.stored().len(), bytes).unwrap();
        self.checker().check(&self.keys, opening, &answer, self.blocks.len())?;
        let secrets: Vec<&BlockSecrets> = self.secrets.iter().collect();
        let mut products = vec![Vec::new(); secrets.len()];
        self.keys
            .secret_products(opening, &secrets, |block, values| products[block] = values.to_vec());
        let mut scores = Vec::new();
        for (block, products) in products.iter().enumerate() {
            opening.open(&answer, block, products, &mut scores)?;
        }
        Ok(scores)
    }
}

fn shape(dimension: usize, tile: usize) -> Shape {
    Shape::new(dimension, tile, QueryRank::One).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn scores_are_inner_products_whatever_the_shape_and_the_lengths(
        count in 1_usize..300,
        dimension in prop_oneof![2_usize..40, Just(384), Just(1000), Just(4096)],
        tile in prop::sample::select(TILES.to_vec()),
        rank in prop::sample::select(vec![QueryRank::One, QueryRank::Two]),
        spread in 0_i32..12,
        query_length in prop::sample::select(vec![1e-20_f64, 1e-3, 1.0, 1e10, 1e18]),
        seed in any::<u8>(),
    ) {
        let count = count.min(200_000 / dimension).max(1);
        let length = |at: usize| 2_f64.powi((at as i32 * 7) % (spread + 1) - spread / 2);
        let shape = Shape::new(dimension, tile, rank).unwrap();
        let world = World::new(shape, rows(count, dimension, seed.into(), length));
        let query = rows(1, dimension, u64::from(seed) + 1, |_| query_length).remove(0);
        let (opening, answer) = world.ask(&query);
        let scores = world.open(&opening, &answer).unwrap();
        let unit = world.longest * norm(&query);
        let precision = Precision::of(&shape, world.grid, world.longest);
        for (at, row) in world.rows.iter().enumerate() {
            let exact = dot(row, &query);
            let off = (scores[at] - exact).abs() / unit;
            prop_assert!(off <= 7.0 * precision.opened, "{} is {} for {}", at, scores[at], exact);
            let per_block = shape.rows_per_block();
            let (tag, place) = (&world.tags[at / per_block], at % per_block);
            let refined = world.keys.refine(&opening, tag, place, scores[at]);
            let off = (refined - exact).abs() / unit;
            prop_assert!(off <= 7.0 * precision.refined, "refined {} for {}", refined, exact);
        }
        // Free slots are zero.
        for &free in &scores[world.rows.len()..] {
            prop_assert!(free.abs() / unit <= 7.0 * precision.opened);
        }
    }
}

#[test]
fn the_measured_error_follows_the_formula() {
    for tile in [8, 32, 128] {
        let shape = shape(96, tile);
        let world = World::new(shape, rows(2048, 96, 5, |_| 1.0));
        let (mut opened, mut refined, mut count) = (0.0, 0.0, 0.0);
        for query in rows(6, 96, 6, |_| 1.0) {
            let (opening, answer) = world.ask(&query);
            let scores = world.open(&opening, &answer).unwrap();
            for (at, row) in world.rows.iter().enumerate() {
                let exact = dot(row, &query);
                let block = at / shape.rows_per_block();
                let place = at % shape.rows_per_block();
                let finer = world.keys.refine(&opening, &world.tags[block], place, scores[at]);
                opened += (scores[at] - exact).powi(2);
                refined += (finer - exact).powi(2);
                count += 1.0;
            }
        }
        let precision = Precision::of(&shape, world.grid, world.longest);
        let ratios = [
            (opened / count).sqrt() / precision.opened,
            (refined / count).sqrt() / precision.refined,
        ];
        assert!(ratios.iter().all(|ratio| (ratio - 1.0_f64).abs() < 0.05), "{tile}: {ratios:?}");
    }
}

#[test]
fn queries_that_share_a_pass_get_the_answers_they_get_alone() {
    let world = World::new(shape(40, 16), rows(700, 40, 9, |_| 1.0));
    let prepared: Vec<PreparedQuery> = rows(9, 40, 10, |_| 1.0)
        .iter()
        .map(|query| {
            let entropy = QueryEntropy::from_os().unwrap();
            let (sent, _) = world.keys.encrypt_query(entropy, query, world.grid, world.longest);
            world.server.prepare(&sent.to_bytes()).unwrap()
        })
        .collect();
    let blocks = world.stored();
    for together in 1..=prepared.len() {
        let queries: Vec<&PreparedQuery> = prepared[..together].iter().collect();
        let answers = world.server.answer(&blocks, &queries);
        for (query, answer) in queries.iter().zip(&answers) {
            assert_eq!(answer, &world.server.answer_part(&blocks, &[query])[0]);
        }
    }
}

#[test]
fn stored_blocks_open_to_what_was_stored_and_to_nothing_else() {
    let world = World::new(shape(20, 8), rows(600, 20, 11, |_| 1.0));
    for block in 0..world.blocks.len() {
        let (name, tag) = (world.name(block as u32), &world.tags[block]);
        let opened = world.keys.open_block(&name, tag, &world.blocks[block]).unwrap();
        assert_eq!(*opened, world.integers(block as u32));
    }
    let (name, tag) = (world.name(0), &world.tags[0]);
    let refused = |name: BlockName<'_>, tag: &Tag, block: &Block| {
        assert!(world.keys.open_block(&name, tag, block).is_none());
    };
    refused(name, tag, &world.blocks[1]);
    refused(name, &world.tags[1], &world.blocks[0]);
    refused(BlockName { revision: 2, ..name }, tag, &world.blocks[0]);
    refused(BlockName { block: 1, ..name }, tag, &world.blocks[0]);
    refused(BlockName { context: b"another", ..name }, tag, &world.blocks[0]);
    refused(
        BlockName { grid: Grid::for_length(world.keys.shape(), 2.0), ..name },
        tag,
        &world.blocks[0],
    );
    // Every single word matters, those beside the rows included (20 coordinates in tiles of 8).
    for tile in 0..3 {
        let mut changed = world.blocks[0].clone();
        let mut values = vec![0; DEGREE];
        changed.take(tile, &mut values);
        values[77] = (values[77] + 1) % MODULUS;
        changed.put(tile, &values);
        refused(name, tag, &changed);
    }
}

/// Two contents under one pad would show their difference.
#[test]
fn whatever_differs_the_pads_differ() {
    let shape = shape(20, 8);
    let world = World::new(shape, rows(200, 20, 12, |_| 1.0));
    let name = world.name(0);
    let integers = world.integers(0);
    let mut other = integers.clone();
    other[17] += 1;
    let coarser = Grid::for_length(&shape, 2.0);
    let doubled: Vec<i32> =
        world.rows[..].iter().take(256).flat_map(|row| coarser.encode(row)).collect();
    let doubled = [doubled, vec![0; 256 * 20 - 200 * 20]].concat();
    let variants = [
        world.keys.encrypt_block(&name, &integers),
        // After a restored backup or on a fork: the same revision, other rows.
        world.keys.encrypt_block(&name, &other),
        // The same rows in the next revision.
        world.keys.encrypt_block(&BlockName { revision: 2, ..name }, &integers),
        // The same rows in another block, at another scale, in another collection.
        world.keys.encrypt_block(&BlockName { block: 1, ..name }, &integers),
        world.keys.encrypt_block(&BlockName { grid: coarser, ..name }, &doubled),
        world.keys.encrypt_block(&BlockName { context: b"another", ..name }, &integers),
        Keys::expand(&EpochKey::new([8; 32]), shape).encrypt_block(&name, &integers),
    ];
    for (at, (tag, block)) in variants.iter().enumerate() {
        for (other_tag, other_block) in &variants[..at] {
            assert_ne!(tag.expose(), other_tag.expose());
            // Differences of blocks are differences of uniform words: none is small.
            let (mut values, mut others) = (vec![0; DEGREE], vec![0; DEGREE]);
            for tile in 0..shape.tiles() {
                block.take(tile, &mut values);
                other_block.take(tile, &mut others);
                let difference: Vec<u64> =
                    values.iter().zip(&others).map(|(&a, &b)| modulus::subtract(a, b)).collect();
                assert_uniform(&difference);
                let mut coefficients = difference;
                modulus::transform().inverse(&mut coefficients);
                assert_uniform(&coefficients);
            }
        }
    }
    // Exactly the same again is exactly the same: sending it twice shows nothing new.
    let (tag, block) = world.keys.encrypt_block(&name, &integers);
    assert_eq!((tag.expose(), &block), (variants[0].0.expose(), &variants[0].1));
}

/// Residues fill the range evenly: chi-squared over 64 parts, and both moments.
fn assert_uniform(values: &[u64]) {
    let mut counts = [0_f64; 64];
    values.iter().for_each(|&value| counts[(value >> (MODULUS_BITS - 6)) as usize] += 1.0);
    let expected = values.len() as f64 / 64.0;
    let chi: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
    assert!((20.0..130.0).contains(&chi), "chi-squared {chi} with 63 degrees of freedom");
    let mean = values.iter().map(|&v| v as f64 / MODULUS as f64).sum::<f64>() / values.len() as f64;
    let deviation = (1.0 / 12.0 / values.len() as f64).sqrt();
    assert!((mean - 0.5).abs() < 6.0 * deviation, "mean {mean}");
}

#[test]
fn chosen_collections_and_the_same_query_again_look_like_noise() {
    let shape = shape(16, 16);
    let same = rows(1, 16, 13, |_| 1.0).remove(0);
    for chosen in [vec![vec![0.0; 16]; 300], vec![same.clone(); 300]] {
        let world = World::new(shape, chosen);
        for block in world.stored() {
            let mut values = vec![0; DEGREE];
            block.take(0, &mut values);
            assert_uniform(&values);
            modulus::transform().inverse(&mut values);
            assert_uniform(&values);
        }
        let mut seen = Vec::new();
        for _ in 0..40 {
            let entropy = QueryEntropy::from_os().unwrap();
            let (sent, _) = world.keys.encrypt_query(entropy, &same, world.grid, world.longest);
            let mut values = vec![0; DEGREE];
            sent.0.take(0, &mut values);
            modulus::transform().inverse(&mut values);
            assert_uniform(&values);
            seen.extend(values);
        }
        assert_uniform(&seen);
    }
}

#[test]
fn a_random_state_used_twice_hides_two_queries_all_the_same() {
    let world = World::new(shape(16, 16), rows(10, 16, 14, |_| 1.0));
    let sent = |query: &[f32]| {
        let entropy = QueryEntropy::fixed([5; 32]);
        let (sent, _) = world.keys.encrypt_query(entropy, query, world.grid, world.longest);
        let mut values = vec![0; DEGREE];
        sent.0.take(0, &mut values);
        values
    };
    let queries = rows(2, 16, 15, |_| 1.0);
    let (one, two) = (sent(&queries[0]), sent(&queries[1]));
    let mut difference: Vec<u64> =
        one.iter().zip(&two).map(|(&a, &b)| modulus::subtract(a, b)).collect();
    modulus::transform().inverse(&mut difference);
    assert_uniform(&difference);
    assert_eq!(one, sent(&queries[0]));
}

#[test]
fn hints_and_answers_of_other_lengths_are_refused() {
    let world = World::new(shape(24, 64), rows(40, 24, 22, |_| 1.0));
    let hint = world.keys.hint(&world.blocks[0]);
    assert!(world.keys.block_secrets(&world.tags[0], &hint[1..]).is_err());
    let (_, answer) = world.ask(&rows(1, 24, 23, |_| 1.0)[0]);
    assert!(Answer::from_bytes(world.keys.shape(), 1, &answer).is_err());
    assert!(world.server.prepare(&[0; 12]).is_err());
}

/// Bytes that must not change: pads, hints and queries of another build would not fit these, nor answers of
/// another kernel.
#[test]
fn golden_vectors() {
    let mut world = World::new(shape(24, 32), rows(70, 24, 24, |_| 1.0));
    let entropy = QueryEntropy::fixed([3; 32]);
    let query = rows(1, 24, 25, |_| 1.0).remove(0);
    let (sent, opening) = world.keys.encrypt_query(entropy, &query, world.grid, world.longest);
    let prepared = world.server.prepare(&sent.to_bytes()).unwrap();
    let digest = |bytes: &[u8]| {
        let mut prf = keys::Prf::new(&[0; 32]);
        prf.input(bytes);
        u64::from_le_bytes(prf.finish()[..8].try_into().unwrap())
    };
    let found = [
        digest(world.tags[0].expose()),
        digest(&world.blocks[0].to_bytes()),
        digest(&world.keys.hint(&world.blocks[1])),
        digest(&world.checks[5].1.to_bytes()),
        digest(&sent.to_bytes()),
    ];
    let expected = [
        11_044_731_898_164_047_748,
        7_175_330_739_637_837_632,
        4_501_404_263_625_320_231,
        13_387_200_958_908_826_195,
        11_950_507_529_662_568_551,
    ];
    assert_eq!(found, expected);
    let answer = world.server.answer(&world.stored(), &[&prepared]).remove(0);
    let scores = world.open(&opening, &answer).unwrap();
    let places = world.keys.shape().rows_per_block();
    for kernel in kernel::Kernel::all() {
        world.server.fold = kernel::Fold::by(kernel, places);
        world.keys.fold = kernel::Fold::by(kernel, places);
        let answer = world.server.answer(&world.stored(), &[&prepared]).remove(0);
        assert_eq!(digest(&answer), 623_026_680_603_311_188, "{kernel:?}");
        // Clients take products by the same kernels.
        assert_eq!(world.open(&opening, &answer).as_ref(), Ok(&scores), "{kernel:?}");
    }
}
