//! The transform against its definition, against `tfhe-ntt`, and at the edges of its bounds.

use proptest::prelude::*;

use super::*;
use crate::prime::power;

const DEGREES: [usize; 10] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768];

fn kernels(n: usize) -> [PortableNtt; 2] {
    [PortableNtt::integer(n, MODULUS), PortableNtt::fused(n, MODULUS)]
}

/// Well-mixed residues.
fn residues(n: usize, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state ^ (state >> 29)) % MODULUS
    };
    std::iter::repeat_with(next).take(n).collect()
}

/// Residues that make every sum and product as large as it gets, then mixed ones.
fn inputs(n: usize) -> Vec<Vec<u64>> {
    let alternating = (0..n).map(|i| if i % 2 == 0 { MODULUS - 1 } else { 0 }).collect();
    let unit = |at: usize| (0..n).map(|i| u64::from(i == at)).collect::<Vec<_>>();
    vec![
        vec![0; n],
        vec![MODULUS - 1; n],
        vec![MODULUS / 2; n],
        vec![MODULUS / 2 + 1; n],
        alternating,
        unit(0),
        unit(1),
        unit(n - 1),
        residues(n, 1),
        residues(n, 2),
    ]
}

#[test]
fn the_root_is_the_documented_one() {
    assert_eq!(root_of_unity(65_536, MODULUS), 26_113_207_984);
}

#[test]
fn position_j_holds_the_value_at_an_odd_power_of_the_root() {
    for n in [64, 256] {
        let psi = root_of_unity(2 * n as u64, MODULUS);
        for coefficients in inputs(n) {
            let value_at = |x: u64| {
                let step = |sum: u64, &c: &u64| (multiply(sum, x, MODULUS) + c) % MODULUS;
                coefficients.iter().rev().fold(0, step)
            };
            let root = |j: usize| power(psi, 2 * reverse(j, n) as u64 + 1, MODULUS);
            let expected: Vec<u64> = (0..n).map(|j| value_at(root(j))).collect();
            for kernel in kernels(n) {
                let mut values = coefficients.clone();
                kernel.forward(&mut values);
                assert_eq!(values, expected);
            }
        }
    }
}

#[test]
fn both_kernels_undo_themselves_and_agree_at_every_degree() {
    for n in DEGREES {
        let [integer, fused] = kernels(n);
        for input in inputs(n) {
            let (mut a, mut b) = (input.clone(), input.clone());
            integer.forward(&mut a);
            fused.forward(&mut b);
            assert_eq!(a, b, "forward, {n}");
            integer.inverse(&mut a);
            assert_eq!(a, input, "integer, {n}");
            fused.inverse(&mut b);
            assert_eq!(b, input, "fused, {n}");
        }
    }
}

/// Extreme evaluations do not come from extreme coefficients, so the inverse has its own test.
#[test]
fn both_kernels_invert_extreme_evaluations_alike() {
    for n in DEGREES {
        let [integer, fused] = kernels(n);
        for input in inputs(n) {
            let (mut a, mut b) = (input.clone(), input);
            integer.inverse(&mut a);
            fused.inverse(&mut b);
            assert_eq!(a, b, "{n}");
        }
    }
}

#[cfg(feature = "tfhe")]
#[test]
fn every_value_equals_that_of_tfhe_at_every_degree() {
    for n in DEGREES {
        let reference = crate::ntt::TfheNtt::new(RingDegree::new(n).unwrap());
        for kernel in kernels(n) {
            for input in inputs(n) {
                let (mut ours, mut theirs) = (input.clone(), input.clone());
                kernel.forward(&mut ours);
                reference.forward(&mut theirs);
                assert_eq!(ours, theirs, "forward, {n}");
                (ours, theirs) = (input.clone(), input.clone());
                kernel.inverse(&mut ours);
                reference.inverse(&mut theirs);
                assert_eq!(ours, theirs, "inverse, {n}");
                let right = residues(n, 3);
                kernel.multiply_accumulate(&mut ours, &input, &right);
                reference.multiply_accumulate(&mut theirs, &input, &right);
                assert_eq!(ours, theirs, "multiply-accumulate, {n}");
            }
        }
    }
}

/// The recurrences of the `fused` module, stage by stage: no value may reach `8q`.
#[test]
fn lazy_values_stay_exact_at_every_degree() {
    let product = |b: f64| 0.5 + 3.0 * b / 16.0;
    for n in DEGREES {
        let stages = n.trailing_zeros();
        let mut bound = 1.0;
        for stage in 0..stages {
            let reduced = if stage < stages - 3 { stage % 4 == 3 } else { stage == stages - 3 };
            bound = if reduced { 0.5 } else { bound } + product(bound);
            assert!(bound < 6.0, "forward, {n}: {bound}");
        }
        bound = 1.0;
        for stage in 0..stages {
            let sum: f64 = 2.0 * bound;
            assert!(sum < 8.0, "inverse, {n}: {sum}");
            let kept = if stage % 2 == 1 { 0.5 } else { sum };
            bound = kept.max(product(sum));
        }
    }
}

proptest! {
    #[test]
    fn multiply_accumulate_agrees_with_wide_arithmetic(
        triples in prop::collection::vec(
            prop::array::uniform3(prop_oneof![
                Just(0), Just(1), Just(MODULUS - 1), Just(MODULUS / 2), 0..MODULUS
            ]),
            64,
        ),
    ) {
        let column = |i: usize| triples.iter().map(|t| t[i]).collect::<Vec<u64>>();
        let expected: Vec<u64> =
            triples.iter().map(|t| (multiply(t[0], t[1], MODULUS) + t[2]) % MODULUS).collect();
        for kernel in kernels(64) {
            let mut sum = column(2);
            kernel.multiply_accumulate(&mut sum, &column(0), &column(1));
            prop_assert_eq!(&sum, &expected);
        }
    }
}
