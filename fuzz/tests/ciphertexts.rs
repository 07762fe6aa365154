//! Ciphertexts as bare bytes: any of the right length must be usable, any other must be refused.

use bolero::check;
use shard_fuzz::{messages, stretch};
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
