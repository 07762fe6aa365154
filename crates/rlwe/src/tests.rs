//! Whole requests: encrypt, evaluate, open, compared with exact inner products.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// A small deterministic source of test values in [-1, 1).
struct Values(u64);

impl Values {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// A vector of the given Euclidean norm.
    fn vector(&mut self, width: usize, norm: f64) -> Vec<f64> {
        let raw: Vec<f64> = (0..width).map(|_| self.next()).collect();
        let length = raw.iter().map(|x| x * x).sum::<f64>().sqrt();
        raw.iter().map(|x| x / length * norm).collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// What one run yields: `(score, exact)` pairs and the scale it ran at.
struct Outcome {
    scores: Vec<(f64, f64)>,
    scale: ScoreScale,
}

/// Queries `queries` (all of one norm) against `groups` of real operands, under a key of its own
/// or, when the layout merges, under a session's.
fn run(
    parameters: &Parameters,
    layout: &Layout,
    queries: &[Vec<f64>],
    groups: &[Vec<Vec<f64>>],
) -> Outcome {
    let largest = groups.iter().flatten().map(|z| dot(z, z).sqrt()).fold(0.0, f64::max);
    let operand_scale = OperandScale::for_norm(largest);
    let operands: Vec<Vec<Vec<i32>>> = groups
        .iter()
        .map(|g| g.iter().map(|z| operand_scale.quantise(z).unwrap()).collect())
        .collect();
    let bound = operands.iter().flatten().map(|z| OperandBound::of(z)).reduce(OperandBound::max);
    let bound = bound.unwrap_or(OperandBound::new(0.0));
    let total: usize = groups.iter().map(Vec::len).sum();
    let scale = ScoreScale::for_query(parameters, layout, &queries[0], operand_scale, bound, total);
    let encoded = layout.encode_queries(&queries.concat(), scale.query());
    let entropy = || Entropy::from_os().unwrap();

    let mut evaluator = Evaluator::new(parameters.clone(), layout.clone());
    type Open = Box<dyn Fn(&Response) -> Vec<i64>>;
    let (open, seed, ciphertexts): (Open, _, _) = match MergeSpan::of(layout, total) {
        None => {
            let (key, seed, sent) = RequestKey::fresh(parameters, entropy()).encrypt(&encoded);
            (Box::new(move |response| key.open(response)), seed, sent)
        }
        Some(span) => {
            let (mut key, keys) = SessionKey::fresh(parameters.degree(), span, 1, entropy());
            let wire = MergeKeys::from_bytes(keys.degree(), span, *keys.seed(), keys.as_bytes());
            evaluator = evaluator.with_merge_keys(Arc::new(wire.unwrap().prepare()));
            let (seed, sent) = key.encrypt(parameters, &encoded, entropy()).unwrap();
            let parameters = parameters.clone();
            (Box::new(move |response| key.open(&parameters, response)), seed, sent)
        }
    };
    let ciphertexts: Vec<Ciphertext> = ciphertexts
        .iter()
        .map(|c| Ciphertext::from_bytes(parameters, c.as_bytes()).unwrap())
        .collect();

    let prepared = evaluator.prepare(&seed, &ciphertexts, queries.len()).unwrap();
    let borrowed: Vec<Vec<&[i32]>> =
        operands.iter().map(|g| g.iter().map(Vec::as_slice).collect()).collect();
    let responses = evaluator.respond(&prepared, &borrowed).unwrap();

    let mut opened = Vec::new();
    for (index, response) in responses.iter().enumerate() {
        let used = layout.used_slots(index, total);
        let wire = Response::from_bytes(parameters, layout, used, response.as_bytes()).unwrap();
        opened.extend(open(&wire));
    }
    let exact = queries.iter().zip(groups).flat_map(|(t, g)| g.iter().map(move |z| dot(t, z)));
    let scores = opened.iter().map(|&v| scale.to_score(v)).zip(exact).collect();
    Outcome { scores, scale }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn encrypted_scores_are_the_inner_products(
        width in 1_usize..3000,
        extra_tiles in 0_usize..3,
        blocks in 1_usize..9,
        merged in any::<bool>(),
        sizes in prop::collection::vec(0_usize..12, 1..6),
        query_norm in prop_oneof![Just(0.0), Just(1.0), 1e-3..1e3],
        operand_norm in prop_oneof![Just(0.0), Just(1.0), 1e-6..1e6],
        seed in any::<u64>(),
    ) {
        let parameters = Parameters::default();
        let fewest = Layout::fewest_tiles(parameters.degree(), width).unwrap().tiles();
        let tiles = fewest + extra_tiles;
        let Ok(layout) = Layout::packed(parameters.degree(), width, tiles, blocks, merged) else {
            return Ok(());
        };
        let mut values = Values(seed);
        let query = values.vector(width, query_norm);
        let queries: Vec<Vec<f64>> = sizes.iter().map(|_| query.clone()).collect();
        let groups: Vec<Vec<Vec<f64>>> = sizes
            .iter()
            .map(|&n| (0..n).map(|_| { let norm = operand_norm * values.next().abs(); values.vector(width, norm) }).collect())
            .collect();
        let outcome = run(&parameters, &layout, &queries, &groups);
        prop_assert_eq!(outcome.scores.len(), sizes.iter().sum::<usize>());
        for (score, exact) in &outcome.scores {
            prop_assert!((score - exact).abs() <= outcome.scale.error_bound(), "{} {}", score, exact);
        }
    }
}

/// The largest possible score, either sign, at every kind of norm: a wrapped score would be off
/// by the whole range.
#[test]
fn no_score_wraps_when_query_and_operand_are_parallel() {
    let parameters = Parameters::default();
    for (width, norm) in [(32, 1.0), (288, 1.0), (288, 37.5), (2304, 1e-9), (288, 3e12)] {
        let layout = Layout::fewest_tiles(parameters.degree(), width).unwrap();
        let query = Values(width as u64).vector(width, norm);
        let opposite: Vec<f64> = query.iter().map(|x| -x).collect();
        let operands = vec![query.clone(), opposite];
        let outcome = run(&parameters, &layout, &[query], &[operands]);
        for (score, exact) in outcome.scores {
            assert!((score / exact - 1.0).abs() < 1e-5, "{width} {norm}: {score} for {exact}");
        }
    }
}

/// All slots of all responses filled with operands of the largest norm: the error deviation is
/// the model's, not merely below it.
#[test]
fn measured_error_follows_the_noise_model() {
    for (upload, response, width, tiles, merged) in [
        (50, 32, 256, 1, false),
        (45, 26, 256, 1, false),
        (38, 26, 512, 1, false),
        (50, 20, 64, 1, false),
        (45, 26, 2048, 4, false),
        (50, 32, 512, 1, true),
        (45, 28, 256, 2, true),
    ] {
        let parameters = Parameters::new(RingDegree::N2048, upload, response).unwrap();
        let layout = Layout::packed(parameters.degree(), width, tiles, 1, merged).unwrap();
        let mut values = Values(u64::from(upload));
        let mut squares = 0.0;
        let mut count = 0.0;
        let mut deviation = 0.0;
        for _ in 0..6 {
            let query = values.vector(width, 1.0);
            let group: Vec<Vec<f64>> =
                (0..layout.slots() * 12).map(|_| values.vector(width, 0.999)).collect();
            let outcome = run(&parameters, &layout, &[query], &[group]);
            deviation = outcome.scale.deviation();
            for (score, exact) in outcome.scores {
                squares += (score - exact).powi(2);
                count += 1.0;
            }
        }
        let measured = (squares / count).sqrt();
        let ratio = measured / deviation;
        assert!((0.85..1.15).contains(&ratio), "upload {upload}, response {response}: {ratio}");
    }
}

#[test]
fn default_parameters_reach_the_stated_precision() {
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), 288, 1).unwrap();
    let mut values = Values(1);
    let query = values.vector(288, 1.0);
    let group: Vec<Vec<f64>> = (0..700).map(|_| values.vector(288, 1.0)).collect();
    let outcome = run(&parameters, &layout, &[query], &[group]);
    let worst = outcome.scores.iter().map(|(s, e)| (s - e).abs()).fold(0.0, f64::max);
    assert!(worst < 2e-6, "{worst}");
}

#[test]
fn two_requests_for_one_query_share_no_bytes() {
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), 16, 1).unwrap();
    let query = layout.encode_query(&[0.1; 16], 1e6);
    let encrypt = || RequestKey::fresh(&parameters, Entropy::from_os().unwrap()).encrypt(&query);
    let ((_, seed_a, a), (_, seed_b, b)) = (encrypt(), encrypt());
    assert_ne!(seed_a, seed_b);
    let equal = a[0].as_bytes().iter().zip(b[0].as_bytes()).filter(|(x, y)| x == y).count();
    assert!(equal < a[0].as_bytes().len() / 100, "{equal} equal bytes");
}

#[test]
fn mismatched_evaluations_are_errors() {
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), 16, 2).unwrap();
    let evaluator = Evaluator::new(parameters.clone(), layout.clone());
    let key = RequestKey::fresh(&parameters, Entropy::from_os().unwrap());
    let (_, seed, ciphertexts) = key.encrypt(&layout.encode_query(&[0.1; 16], 1e6));
    assert_eq!(
        evaluator.prepare(&seed, &ciphertexts[..1], 1).err(),
        Some(EvaluateError::Ciphertexts { queries: 1, expected: 2, actual: 1 })
    );
    let queries = evaluator.prepare(&seed, &ciphertexts, 1).unwrap();
    assert_eq!(
        evaluator.respond(&queries, &[vec![&[0; 15]]]).err(),
        Some(EvaluateError::OperandWidth { expected: 16, actual: 15 })
    );
    assert!(Ciphertext::from_bytes(&parameters, &[0; 10]).is_err());
}

#[test]
fn merging_needs_keys_that_cover_the_layout() {
    let parameters = Parameters::default();
    let layout = Layout::packed(parameters.degree(), 2048, 1, 1, true).unwrap();
    let entropy = || Entropy::from_os().unwrap();
    let span = MergeSpan { top: 10, levels: 2 }; // the layout's stride is 2^11
    let (mut key, keys) = SessionKey::fresh(parameters.degree(), span, 2, entropy());
    let query = layout.encode_query(&[0.1; 2048], 1e6);
    let (seed, sent) = key.encrypt(&parameters, &query, entropy()).unwrap();
    let evaluator = Evaluator::new(parameters.clone(), layout);
    let prepared = evaluator.prepare(&seed, &sent, 1).unwrap();
    let operand = [1; 2048];
    let alone = evaluator.respond(&prepared, &[vec![&operand]]);
    assert!(alone.is_ok(), "a single product needs no merging");
    let pair = [vec![&operand[..], &operand[..]]];
    assert_eq!(evaluator.respond(&prepared, &pair).err(), Some(EvaluateError::MergeKeys));
    let evaluator = evaluator.with_merge_keys(Arc::new(keys.prepare()));
    assert_eq!(evaluator.respond(&prepared, &pair).err(), Some(EvaluateError::MergeKeys));
    assert!(MergeKeys::from_bytes(parameters.degree(), span, *keys.seed(), &[0; 3]).is_err());
}

#[test]
fn a_session_ends_after_its_requests() {
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), 16, 1).unwrap();
    let entropy = || Entropy::from_os().unwrap();
    let span = MergeSpan { top: 5, levels: 1 };
    let (mut key, _) = SessionKey::fresh(parameters.degree(), span, 2, entropy());
    let query = layout.encode_query(&[0.1; 16], 1e6);
    let (first, _) = key.encrypt(&parameters, &query, entropy()).unwrap();
    let (second, _) = key.encrypt(&parameters, &query, entropy()).unwrap();
    assert_ne!(first, second);
    assert_eq!(
        (key.remaining(), key.encrypt(&parameters, &query, entropy()).err()),
        (0, Some(SessionSpent))
    );
}

#[test]
fn operand_scale_keeps_norms_below_its_limit_and_refuses_overflow() {
    for norm in [1e-30, 0.3, 1.0, 2.0, 1e20] {
        let scale = OperandScale::for_norm(norm);
        let scaled = norm * 2_f64.powi(scale.exponent());
        assert!(scaled <= 2_f64.powi(OPERAND_BITS) && scaled > 2_f64.powi(OPERAND_BITS - 1));
    }
    assert_eq!(OperandScale::for_norm(0.0).exponent(), 0);
    let scale = OperandScale::for_norm(1.0);
    assert!(scale.quantise(&[500.0, 0.0]).is_ok());
    assert!(scale.quantise(&[600.0, 0.0]).is_err());
    assert!(scale.quantise(&[f64::NAN]).is_err());
}

/// The seed expansion, the order of the transform and the wire forms are fixed forever.
/// Generator: this test with `Entropy::fixed`, query `t_j = j - 8`, operand `z_j = 3 j - 20`.
#[test]
fn golden_request_and_response_do_not_change() {
    fn checksum(bytes: &[u8]) -> u64 {
        // FNV-1a: a fingerprint, not a MAC.
        bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
    }
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), 16, 1).unwrap();
    let query: Vec<f64> = (0..16).map(|j| f64::from(j) - 8.0).collect();
    let operand: Vec<i32> = (0..16).map(|j| 3 * j - 20).collect();
    let key = RequestKey::fresh(&parameters, Entropy::fixed([1; 32], [2; 32]));
    let (key, seed, ciphertexts) = key.encrypt(&layout.encode_query(&query, 1e9));
    let evaluator = Evaluator::new(parameters.clone(), layout.clone());
    let queries = evaluator.prepare(&seed, &ciphertexts, 1).unwrap();
    let responses = evaluator.respond(&queries, &[vec![&operand]]).unwrap();
    assert_eq!(checksum(ciphertexts[0].as_bytes()), GOLDEN_CIPHERTEXT);
    assert_eq!(checksum(responses[0].as_bytes()), GOLDEN_RESPONSE);
    let exact: f64 = query.iter().zip(&operand).map(|(t, z)| t * f64::from(*z)).sum();
    let opened = key.open(&responses[0])[0] as f64 * MODULUS as f64 / 2_f64.powi(26) / 1e9;
    assert!((opened / exact - 1.0).abs() < 1e-3, "{opened} for {exact}");
}

const GOLDEN_CIPHERTEXT: u64 = 6_166_141_666_422_974_280;
const GOLDEN_RESPONSE: u64 = 12_606_829_183_977_211_186;
