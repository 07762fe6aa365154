//! Which automorphisms rotate slots.

/// `5^step mod 2N`: the automorphism that moves slot `j + step` to slot `j`.
pub(super) fn galois_element(n: usize, step: usize) -> usize {
    let order = 2 * n;
    (0..step % (n / 2)).fold(1, |g, _| g * 5 % order)
}

#[cfg(test)]
mod tests {
    use super::super::parameters::SlotsParameters;
    use super::super::rns::Rns;
    use crate::galois::Automorphism;
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
            let automorphism = Automorphism::new(64, g);
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
            for g in [5, 25, 2 * n - 1] {
                let poly = rns.embed(&x, rns.rings().iter());
                let expected = rns.embed(&substitute(&x, g), rns.rings().iter());
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
