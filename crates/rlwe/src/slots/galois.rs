//! Automorphisms of the ring, which rotate slots.

use super::modulus::Modulus;

/// The automorphism `X -> X^g`, `g` odd, as a permutation of evaluations: the value of `f(X^g)`
/// at `psi^e` is the value of `f` at `psi^(e g)`.
pub(super) struct Automorphism {
    sources: Vec<u32>,
}

impl Automorphism {
    pub(super) fn new(n: usize, g: u64) -> Self {
        let log = n.trailing_zeros();
        let reverse = |k: u64| (k as u32).reverse_bits() >> (32 - log);
        let order = 2 * n as u64;
        let sources = (0..n as u64)
            .map(|k| {
                let exponent = (2 * u64::from(reverse(k)) + 1) * g % order;
                reverse((exponent - 1) / 2)
            })
            .collect();
        Self { sources }
    }

    /// `out = sigma(row)`.
    pub(super) fn apply(&self, row: &[u64], out: &mut [u64]) {
        for (out, &k) in out.iter_mut().zip(&self.sources) {
            *out = row[k as usize];
        }
    }

    /// `sum += sigma(row)`.
    pub(super) fn add_permuted(&self, sum: &mut [u64], row: &[u64], q: Modulus) {
        for (value, &k) in sum.iter_mut().zip(&self.sources) {
            *value = q.add(*value, row[k as usize]);
        }
    }
}

/// `5^step mod 2N`: the automorphism that moves slot `j + step` to slot `j`.
pub(super) fn galois_element(n: usize, step: usize) -> u64 {
    let order = 2 * n as u64;
    (0..step % (n / 2)).fold(1, |g, _| g * 5 % order)
}

#[cfg(test)]
mod tests {
    use super::super::parameters::SlotsParameters;
    use super::super::rns::Rns;
    use super::*;
    use proptest::prelude::*;

    /// `f(X^g)` modulo `X^N + 1` on coefficients, the oracle of the permutation.
    fn substitute(coefficients: &[i64], g: usize) -> Vec<i64> {
        let n = coefficients.len();
        let mut out = vec![0; n];
        for (i, &c) in coefficients.iter().enumerate() {
            let exponent = i * g % (2 * n);
            out[exponent % n] = if exponent < n { c } else { -c };
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn automorphisms_permute_evaluations(
            coefficients in prop::collection::vec(-1_000_000_i64..1_000_000, 64),
            half in 0_usize..64,
        ) {
            let (rns, g) = (Rns::new(&SlotsParameters::toy(64, &[60, 40, 60], 40)), 2 * half + 1);
            let poly = rns.embed(&coefficients, rns.rings().iter());
            let expected = rns.embed(&substitute(&coefficients, g), rns.rings().iter());
            let automorphism = Automorphism::new(64, g as u64);
            for (row, wanted) in poly.rows().zip(expected.rows()) {
                let mut permuted = vec![0; row.len()];
                automorphism.apply(row, &mut permuted);
                prop_assert_eq!(permuted, wanted);
            }
        }
    }

    #[test]
    fn transforms_of_every_size_keep_bit_reversed_order() {
        for (n, chain) in [(64, [60, 40, 60]), (4096, [50, 49, 51]), (8192, [60, 40, 60])] {
            let rns = Rns::new(&SlotsParameters::toy(n, &chain, 40));
            let mut x = vec![0_i64; n];
            x[1] = 1;
            for g in [5, 25, 2 * n as u64 - 1] {
                let poly = rns.embed(&x, rns.rings().iter());
                let expected = rns.embed(&substitute(&x, g as usize), rns.rings().iter());
                let automorphism = Automorphism::new(n, g);
                for (row, wanted) in poly.rows().zip(expected.rows()) {
                    let mut permuted = vec![0; row.len()];
                    automorphism.apply(row, &mut permuted);
                    assert_eq!(permuted, wanted, "degree {n}, element {g}");
                }
            }
        }
    }
}
