//! Ciphertexts as bare bytes: any of the right length must be usable, any other must be refused.

use std::sync::LazyLock;

use bolero::check;
use shard_fuzz::opened::Searches;
use shard_fuzz::{messages, stretch};
use shard_protocol::BlindAnswer;
use shard_rlwe::blind::{Block, BlockName, CheckSums, Grid, Tag};
use shard_rlwe::{Ciphertext, Evaluator, Layout, Parameters, Response, Seed};

const ITERATIONS: usize = 2000;

fn shape() -> (Parameters, Layout) {
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), messages::WIDTH, 1).expect("a width of six");
    (parameters, layout)
}

#[test]
fn any_bytes_of_the_right_length_are_a_ciphertext() {
    let (parameters, layout) = shape();
    let length = Ciphertext::byte_len(&parameters);
    let operand = [i32::MAX, i32::MIN, 0, 1, -1, 7];
    check!().with_iterations(ITERATIONS).with_max_len(256).for_each(|noise: &[u8]| {
        assert!(Ciphertext::from_bytes(&parameters, noise).is_err(), "far too short");
        let bytes = stretch(noise, length);
        let ciphertext = Ciphertext::from_bytes(&parameters, &bytes).expect("the right length");
        assert_eq!(ciphertext.as_bytes(), bytes);
        let evaluator = Evaluator::new(parameters.clone(), layout.clone());
        let seed = Seed(stretch(noise, 32).try_into().expect("32 bytes"));
        let Ok(queries) = evaluator.prepare(&seed, &[ciphertext], 1) else { return };
        let responses = evaluator.respond(&queries, &[vec![&operand[..]]]).expect("one operand");
        assert_eq!(responses.len(), 1);
    });
}

#[test]
fn any_bytes_that_are_a_response_can_be_opened() {
    let (parameters, layout) = shape();
    let (_, key) = messages::request();
    check!().with_iterations(ITERATIONS).with_max_len(256).for_each(|noise: &[u8]| {
        let used = 1 + usize::from(noise.first().copied().unwrap_or(0)) % layout.slots();
        let bytes = stretch(noise, Response::byte_len(&parameters, used));
        assert!(Response::from_bytes(&parameters, &layout, used, noise).is_err(), "too short");
        if let Ok(response) = Response::from_bytes(&parameters, &layout, used, &bytes) {
            assert_eq!(response.as_bytes(), bytes);
            let limit = 1_i64 << (parameters.response_bits() - 1);
            let opened = key.open(&response);
            assert_eq!(opened.len(), used);
            assert!(opened.iter().all(|value| (-limit..limit).contains(value)));
        }
    });
}

static SEARCHES: LazyLock<Searches> = LazyLock::new(Searches::default);

/// Or refused, where a word is not below the modulus: as a block of rows, as one of checks and as a query.
#[test]
fn any_residues_are_a_block_and_a_query() {
    let (keys, server) = (&SEARCHES.keys, &SEARCHES.server);
    let (shape, tag) = (*keys.shape(), Tag::from_bytes([9; Tag::BYTES]));
    let name =
        BlockName { context: b"", block: 0, revision: 1, grid: Grid::for_length(&shape, 1.0) };
    let mut taken = 0;
    check!().with_iterations(ITERATIONS / 4).with_max_len(256).for_each(|noise: &[u8]| {
        assert!(Block::from_bytes(shape.tiles(), noise).is_none(), "far too short");
        let bytes = stretch(noise, shape.block_bytes());
        let block = Block::from_bytes(shape.tiles(), &bytes);
        assert_eq!(server.prepare(&bytes).is_ok(), block.is_some());
        let (Some(block), Ok(query)) = (block, server.prepare(&bytes)) else { return };
        taken += 1;
        assert_eq!(block.to_bytes(), bytes);
        assert_eq!(server.answer(&[&block], &[&query])[0].len(), shape.answer_bytes(1));
        assert!(keys.open_block(&name, &tag, &block).is_none(), "nobody stored it");
        assert_eq!(keys.hint(&block).len(), shape.hint_bytes());
        let mut sums = CheckSums::empty(keys, 1);
        sums.add(keys, 0, &block);
        let sealed = sums.seal(keys, b"", 1);
        assert_eq!(sealed.len(), shape.checks());
        let swapped: Vec<_> = sealed.iter().map(|(tag, _)| (tag, &block)).collect();
        assert!(CheckSums::open(keys, b"", 1, 1, &swapped).is_none(), "not what was sealed");
    });
    assert!(taken > 0, "some noise has words below the modulus");
}

#[test]
fn any_bytes_of_the_right_length_are_a_hint_and_an_answer_that_can_be_opened() {
    let (keys, length) = (&SEARCHES.keys, SEARCHES.answer_bytes());
    let tag = Tag::from_bytes([9; Tag::BYTES]);
    let places = 2 * keys.shape().rows_per_block();
    check!().with_iterations(ITERATIONS / 4).with_max_len(256).for_each(|noise: &[u8]| {
        assert!(keys.block_secrets(&tag, noise).is_err(), "far too short");
        assert!(keys.block_secrets(&tag, &stretch(noise, keys.shape().hint_bytes())).is_ok());
        let answers = BlindAnswer::new(vec![stretch(noise, length); 2]);
        for (scores, taken) in SEARCHES.open(&answers) {
            assert!(!taken, "nobody computed it");
            assert!(scores.len() == places && scores.iter().all(|score| score.is_finite()));
        }
    });
}
