//! The scheme as a whole: errors against formulas, scores against exact products.

mod wire;

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::noise::NOISE_DEVIATIONS;
use super::*;
use crate::{Entropy, RingDegree};

/// The paper's two sets, a small secure one and a small insecure one.
fn sets() -> Vec<SlotsParameters> {
    let small = SlotsParameters::with_scale(RingDegree::N4096, &[40, 29, 40], 29).unwrap();
    let toy = SlotsParameters::toy(512, &[60, 40, 40, 40, 60], 40);
    vec![SlotsParameters::paper(), SlotsParameters::paper_baseline(), small, toy]
}

fn entropy(seed: u8) -> Entropy {
    Entropy::fixed([seed; 32], [seed ^ 0x5a; 32])
}

/// A vector of unit norm with coordinates uniform in a cube.
fn unit(rng: &mut impl Rng, width: usize) -> Vec<f64> {
    let raw: Vec<f64> = (0..width).map(|_| rng.next_u32() as f64 / 2_f64.powi(31) - 1.0).collect();
    let norm = raw.iter().map(|v| v * v).sum::<f64>().sqrt().max(1e-9);
    raw.iter().map(|v| v / norm).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Measured deviation of slots from what they should be.
fn deviation(got: &[f64], wanted: &[f64]) -> f64 {
    let squares: f64 = got.iter().zip(wanted).map(|(g, w)| (g - w).powi(2)).sum();
    (squares / got.len() as f64).sqrt()
}

#[track_caller]
fn assert_within(measured: f64, predicted: f64, factor: f64) {
    assert!(
        measured < predicted * factor && measured > predicted / factor,
        "measured {measured:.3e}, predicted {predicted:.3e}"
    );
}

#[test]
fn noise_of_every_operation_follows_its_formula() {
    for parameters in sets() {
        let noise = SlotsNoise::new(&parameters);
        let slots = parameters.slots();
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let (client, server) = ClientContext::generate(&parameters, 4, entropy(1)).unwrap();
        // Operands with entries of one magnitude spread the noise of a product evenly, so that
        // the deviation over all slots can be compared with the formula.
        let entry = 10.0 / (slots as f64).sqrt();
        let query: Vec<f64> = (0..slots).map(|j| (j as f64).cos() * entry).collect();
        let operand: Vec<f64> =
            (0..slots).map(|_| if rng.next_u32() & 1 == 0 { entry } else { -entry }).collect();
        let product: Vec<f64> = query.iter().zip(&operand).map(|(a, b)| a * b).collect();
        let norm = |v: &[f64]| dot(v, v).sqrt();

        let fresh = client.encrypt(std::slice::from_ref(&query), entropy(2)).unwrap().remove(0);
        let variance = noise.fresh();
        let predicted = noise.slot_deviation(variance, fresh.scale());
        assert_within(deviation(&client.decrypt(&fresh).unwrap(), &query), predicted, 1.25);

        let multiplied = server.multiply_plain(&fresh, &operand, 0).unwrap();
        let variance = noise.multiplied(variance, norm(&query), norm(&operand));
        let predicted = noise.slot_deviation(variance, multiplied.scale());
        assert_within(deviation(&client.decrypt(&multiplied).unwrap(), &product), predicted, 1.25);

        let dropped = parameters.primes()[parameters.data_primes() - 1];
        let rescaled = server.rescale(multiplied).unwrap();
        let variance = noise.rescaled(variance, dropped);
        let predicted = noise.slot_deviation(variance, rescaled.scale());
        let clean = client.decrypt(&rescaled).unwrap();
        assert_within(deviation(&clean, &product), predicted, 1.25);

        // The noise of one rotation alone: against what was decrypted before it.
        let rotated = client.decrypt(&server.rotate(&rescaled, 2).unwrap()).unwrap();
        let moved: Vec<f64> = (0..slots).map(|j| clean[(j + 2) % slots]).collect();
        let predicted = noise.slot_deviation(noise.rotated(0.0), rescaled.scale());
        assert_within(deviation(&rotated, &moved), predicted, 1.25);

        let summed = client.decrypt(&server.rotate_and_sum(rescaled.clone(), 4).unwrap()).unwrap();
        let sums: Vec<f64> =
            (0..slots).map(|j| (0..4).map(|i| clean[(j + i) % slots]).sum()).collect();
        let predicted = noise.slot_deviation(noise.summation(4), rescaled.scale());
        assert_within(deviation(&summed, &sums), predicted, 1.25);
    }
}

#[test]
fn fresh_ciphertexts_decrypt_within_the_error_bound() {
    for parameters in sets() {
        let noise = SlotsNoise::new(&parameters);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let (client, _) = ClientContext::generate(&parameters, 1, entropy(3)).unwrap();
        let vectors: Vec<_> = (0..3).map(|_| unit(&mut rng, parameters.slots())).collect();
        let bound = NOISE_DEVIATIONS * noise.slot_deviation(noise.fresh(), parameters.scale());
        let ciphertexts = client.encrypt(&vectors, entropy(4)).unwrap();
        for (ciphertext, vector) in ciphertexts.iter().zip(&vectors) {
            let got = client.decrypt(ciphertext).unwrap();
            assert!(got.iter().zip(vector).all(|(g, v)| (g - v).abs() < bound));
            assert!((client.decrypt_slot(ciphertext, 5).unwrap() - got[5]).abs() < bound);
        }
    }
}

/// Runs one request and returns the worst error over its candidates, with the predicted deviation.
fn worst_error(layout: &SlotsLayout, cells: usize, rows: usize, seed: u64) -> (f64, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (client, context) = SlotsClient::generate(layout.clone(), entropy(5)).unwrap();
    let server = SlotsServer::from_bytes(layout.clone(), &context.to_bytes()).unwrap();
    let queries: Vec<_> = (0..cells).map(|_| unit(&mut rng, layout.width())).collect();
    let rows: Vec<_> = (0..rows).map(|_| unit(&mut rng, layout.width())).collect();
    let candidates: Vec<_> = rows
        .iter()
        .map(|row| Candidate {
            cell: rng.next_u32() as usize % cells,
            row,
            prefix_score: f64::from(rng.next_u32() % 1000) / 500.0 - 1.0,
        })
        .collect();
    let sent = client.encrypt_queries(&queries, entropy(seed as u8)).unwrap();
    assert_eq!(sent.len(), layout.query_ciphertexts(cells));
    let responses = server.score(&sent, &candidates).unwrap();
    assert_eq!(responses.len(), candidates.len());
    let errors = responses.iter().zip(&candidates).map(|(response, candidate)| {
        let exact = dot(&queries[candidate.cell], candidate.row) + candidate.prefix_score;
        (client.open(response, candidate.cell).unwrap() - exact).abs()
    });
    let worst = errors.fold(0.0, f64::max);
    (worst, SlotsNoise::new(layout.parameters()).score_deviation(1.0, 1.0, layout.span()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn scores_equal_exact_products_within_the_predicted_error(
        set in 0_usize..4,
        width in 1_usize..300,
        blocks in 1_usize..9,
        cells in 1_usize..12,
        seed in any::<u64>(),
    ) {
        let parameters = sets().swap_remove(set);
        let width = width.min(parameters.slots());
        let widest = SlotsLayout::widest(parameters.clone(), width).unwrap();
        let layout = SlotsLayout::new(parameters, width, blocks.min(widest.blocks())).unwrap();
        let (worst, deviation) = worst_error(&layout, cells, 3, seed);
        prop_assert!(worst < NOISE_DEVIATIONS * deviation, "{:e} against a deviation of {:e}", worst, deviation);
    }
}

#[test]
fn the_papers_layouts_stay_below_two_millionths() {
    for (parameters, width, blocks) in [
        (SlotsParameters::paper(), 288, 1),
        (SlotsParameters::paper(), 288, 8),
        (SlotsParameters::paper(), 576, 4),
        (SlotsParameters::paper_baseline(), 192, 1),
    ] {
        let layout = SlotsLayout::new(parameters, width, blocks).unwrap();
        let (worst, deviation) = worst_error(&layout, 5, 16, 9);
        assert!(worst < 2e-6, "{worst:e} for width {width} in {blocks} blocks");
        // The model fits: the worst of 16 errors is one to five deviations.
        assert!(worst > 0.5 * deviation && worst < 5.0 * deviation, "{worst:e}, {deviation:e}");
    }
}

#[test]
fn two_encryptions_of_one_vector_share_no_row() {
    let parameters = SlotsParameters::toy(256, &[60, 40, 60], 40);
    let (client, _) = ClientContext::generate(&parameters, 1, entropy(9)).unwrap();
    let pair = client.encrypt(&[vec![1.0; 4], vec![1.0; 4]], entropy(10)).unwrap();
    let other = client.encrypt(&[vec![1.0; 4]], entropy(11)).unwrap();
    assert_ne!(pair[0].c1.values(), pair[1].c1.values());
    assert_ne!(pair[0].c0.values(), pair[1].c0.values());
    assert_ne!(pair[0].c1.values(), other[0].c1.values());
}

#[test]
fn the_largest_norms_that_are_accepted_do_not_wrap() {
    for parameters in sets() {
        let layout = SlotsLayout::new(parameters.clone(), 2, 1).unwrap();
        let (client, context) = SlotsClient::generate(layout.clone(), entropy(18)).unwrap();
        let server = SlotsServer::new(layout, context).unwrap();
        let side = parameters.max_norm() * 0.999 / 2_f64.sqrt();
        let prefix_score = parameters.max_score() * 0.499;
        let sent = client.encrypt_queries(&[vec![side, -side]], entropy(19)).unwrap();
        for sign in [1.0, -1.0] {
            let row = [side * sign, -side * sign];
            let prefix_score = prefix_score * sign;
            let responses =
                server.score(&sent, &[Candidate { cell: 0, row: &row, prefix_score }]).unwrap();
            let exact = sign * (2.0 * side * side) + prefix_score;
            let got = client.open(&responses[0], 0).unwrap();
            assert!((got / exact - 1.0).abs() < 1e-4, "{got:e} for {exact:e}");
        }
    }
}
