//! Automorphisms `X -> X^g` of the ring, on evaluations and on coefficients.

use crate::ring::{Coefficients, Evaluations, Poly, Ring, negate};

/// The automorphism `X -> X^g` for an odd `g`, as a permutation of evaluations: the value of
/// `f(X^g)` at `psi^e` is that of `f` at `psi^(e g)`.
pub(crate) struct Automorphism {
    /// `sigma(f)` at position `i` is `f` at position `sources[i]`.
    sources: Vec<u32>,
}

impl Automorphism {
    /// For transforms in the order that [`Ntt`](crate::Ntt) promises: `psi^(2 rev(j) + 1)` at `j`.
    pub(crate) fn new(n: usize, g: usize) -> Self {
        debug_assert!(g % 2 == 1 && g < 2 * n);
        let shift = usize::BITS - n.ilog2();
        let reverse = |place: usize| place.reverse_bits() >> shift;
        let source = |place| reverse(((2 * reverse(place) + 1) * g % (2 * n)) / 2) as u32;
        Self { sources: (0..n).map(source).collect() }
    }

    /// `out = sigma(f)`.
    #[cfg(feature = "slots")]
    pub(crate) fn apply(&self, f: &[u64], out: &mut [u64]) {
        for (out, &source) in out.iter_mut().zip(&self.sources) {
            *out = f[source as usize];
        }
    }

    /// `out += sigma(f)` by the addition of some modulus.
    #[inline(always)]
    pub(crate) fn add_to(&self, f: &[u64], out: &mut [u64], add: impl Fn(u64, u64) -> u64) {
        for (out, &source) in out.iter_mut().zip(&self.sources) {
            *out = add(*out, f[source as usize]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{MODULUS, RingDegree};
    use crate::ring::add;

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
                Automorphism::new(n, g).add_to(evaluations.values(), out.values_mut(), add);
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
