//! The primes of a chain, found from their sizes.

use super::parameters::SlotsParameterError;
use crate::parameters::RingDegree;
use crate::prime::is_prime;

/// The largest unused prime of each size, in order.
pub(super) fn find_primes(
    degree: RingDegree,
    chain: &[u32],
) -> Result<Vec<u64>, SlotsParameterError> {
    let order = 2 * degree.coefficients() as u64;
    let mut primes: Vec<u64> = Vec::with_capacity(chain.len());
    for &bits in chain {
        let (low, high) = (1_u64 << (bits - 1), (1_u64 << bits) - 1);
        let taken = primes.iter().filter(|&&q| q >= low && q <= high).min();
        let below = taken.map_or(high, |q| q - 1);
        let prime = largest_prime(order, low, below);
        primes.push(prime.ok_or(SlotsParameterError::NoPrime { bits, order })?);
    }
    Ok(primes)
}

/// The largest prime in `[low, high]` that is 1 modulo `order`.
fn largest_prime(order: u64, low: u64, high: u64) -> Option<u64> {
    let first = high - (high - 1) % order;
    let candidates = std::iter::successors(Some(first), |candidate| candidate.checked_sub(order));
    candidates.take_while(|&candidate| candidate >= low).find(|&candidate| is_prime(candidate))
}

#[cfg(test)]
mod tests {
    use super::super::parameters::SlotsParameters;
    use super::*;

    #[test]
    fn primes_have_their_sizes_are_distinct_and_split_the_ring() {
        let chains: [(usize, &[u32]); 4] = [
            (4096, &[40, 29, 40]),
            (8192, &[60, 40, 40, 60]),
            (8192, &[60, 40, 60]),
            (16_384, &[60, 40, 40, 40, 40, 60]),
        ];
        for (n, chain) in chains {
            let degree = RingDegree::new(n).unwrap();
            let set = SlotsParameters::with_scale(degree, chain, chain[1]).unwrap();
            for (index, (&prime, &bits)) in set.primes().iter().zip(chain).enumerate() {
                assert_eq!(64 - prime.leading_zeros(), bits);
                assert_eq!(prime % (2 * n as u64), 1);
                assert!(!set.primes()[..index].contains(&prime));
                assert!(is_prime(prime));
            }
        }
    }

    #[test]
    fn no_larger_candidate_is_a_prime() {
        let by_division = |n: u64| (2..n).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
        for (order, low, high) in [(128, 1 << 19, (1 << 20) - 1), (65_536, 1 << 23, 14_000_000)] {
            let expected = (low..=high).rev().find(|n| n % order == 1 && by_division(*n));
            assert_eq!(largest_prime(order, low, high), expected);
        }
    }

    /// Both sides derive the primes, so a build with the library and one without must agree.
    #[cfg(feature = "tfhe")]
    #[test]
    fn primes_are_those_of_the_transform_library() {
        use tfhe_ntt::prime::largest_prime_in_arithmetic_progression64;
        for (bits, order) in (20..=60).flat_map(|bits| [(bits, 128), (bits, 16_384)]) {
            let (low, mut high) = (1_u64 << (bits - 1), (1_u64 << bits) - 1);
            for _ in 0..3 {
                let expected = largest_prime_in_arithmetic_progression64(order, 1, low, high);
                assert_eq!(largest_prime(order, low, high), expected);
                high = expected.map_or(high, |prime| prime - 1);
            }
        }
    }

    #[test]
    fn primes_that_do_not_exist_are_refused() {
        let degree = RingDegree::new(32_768).unwrap();
        assert_eq!(
            SlotsParameters::with_scale(degree, &[20; 16], 20),
            Err(SlotsParameterError::NoPrime { bits: 20, order: 65_536 })
        );
    }
}
