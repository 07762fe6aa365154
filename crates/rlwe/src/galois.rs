//! Automorphisms `X -> X^g` of the ring, on evaluations and on coefficients.

use std::collections::HashMap;

use crate::parameters::MODULUS;
use crate::ring::{Coefficients, Evaluations, Poly, Ring, negate};

/// The automorphism `X -> X^g` for an odd `g`.
pub(crate) struct Automorphism {
    /// `sigma(f)` at evaluation `i` is `f` at evaluation `sources[i]`.
    sources: Vec<u32>,
}

impl Automorphism {
    /// Finds the permutation from the evaluations of `X`, which are the roots in the transform's
    /// own order: the value of `sigma(f)` at a root is that of `f` at the root's `g`-th power.
    pub(crate) fn new(ring: &Ring, g: usize) -> Self {
        let n = ring.degree().coefficients();
        debug_assert!(g % 2 == 1 && g < 2 * n);
        let roots = monomial(ring, 1);
        let index: HashMap<u64, u32> = roots.values().iter().copied().zip(0..).collect();
        let powers = roots.values().iter().map(|&root| power(root, g as u64));
        let sources = powers
            .map(|root| *index.get(&root).expect("an odd power of a primitive root is one"))
            .collect();
        Self { sources }
    }

    /// `out += sigma(f)` on evaluations.
    pub(crate) fn add_to(&self, f: &[u64], out: &mut [u64]) {
        for (out, &source) in out.iter_mut().zip(&self.sources) {
            *out = crate::ring::add(*out, f[source as usize]);
        }
    }
}

/// `X^exponent` as evaluations.
pub(crate) fn monomial(ring: &Ring, exponent: usize) -> Poly<Evaluations> {
    let n = ring.degree().coefficients();
    let mut poly = Poly::<Coefficients>::zero(ring.degree());
    poly.values_mut()[exponent % n] = if exponent % (2 * n) < n { 1 } else { negate(1) };
    ring.forward(poly)
}

/// Calls `sink(target, value)` for every coefficient of `sigma(f)`, `f` in coefficients: `f_i`
/// goes to `X^(g i mod 2N)`, negated past `N`.
#[inline(always)]
pub(crate) fn permute_coefficients(g: usize, f: &[u64], mut sink: impl FnMut(usize, u64)) {
    let n = f.len();
    let mut exponent = 0;
    for &value in f {
        if exponent < n {
            sink(exponent, value)
        } else {
            sink(exponent - n, negate(value))
        }
        exponent = (exponent + g) & (2 * n - 1);
    }
}

fn power(base: u64, mut exponent: u64) -> u64 {
    let multiply = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(MODULUS)) as u64;
    let (mut result, mut square) = (1, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, square);
        }
        square = multiply(square, square);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::RingDegree;

    #[test]
    fn permutation_of_evaluations_is_the_automorphism_on_coefficients() {
        for n in [64, 2048] {
            let ring = Ring::new(RingDegree::new(n).unwrap());
            let f: Vec<u64> =
                (0..n as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % MODULUS).collect();
            for g in [1, 3, 5, n + 1, 2 * n - 1] {
                let mut expected = vec![0; n];
                permute_coefficients(g, &f, |target, value| expected[target] = value);
                let evaluations = ring.forward(Poly::from_values(f.clone()));
                let mut out = Poly::<Evaluations>::zero(ring.degree());
                Automorphism::new(&ring, g).add_to(evaluations.values(), out.values_mut());
                assert_eq!(ring.inverse(out).values(), &expected[..], "n = {n}, g = {g}");
            }
        }
    }

    #[test]
    fn monomials_shift_and_negate() {
        let ring = Ring::new(RingDegree::new(64).unwrap());
        for exponent in [0, 1, 63, 64, 127] {
            let back = ring.inverse(monomial(&ring, exponent));
            let mut expected = vec![0; 64];
            expected[exponent % 64] = if exponent < 64 { 1 } else { MODULUS - 1 };
            assert_eq!(back.values(), &expected[..]);
        }
    }
}
