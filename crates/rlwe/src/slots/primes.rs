//! The primes of a chain, found from their sizes.

use super::parameters::SlotsParameterError;
use crate::parameters::RingDegree;

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
        let prime =
            tfhe_ntt::prime::largest_prime_in_arithmetic_progression64(order, 1, low, below)
                .ok_or(SlotsParameterError::NoPrime { bits, order })?;
        primes.push(prime);
    }
    Ok(primes)
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
                assert!(tfhe_ntt::prime::is_prime64(prime));
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
