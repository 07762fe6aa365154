//! Unbiased integers and samples from raw words.

use rand_core::Rng;

/// A uniform integer in `0..bound` by Lemire's multiplication with rejection.
///
/// `bound` is positive.
pub(crate) fn below(bound: u64, rng: &mut impl Rng) -> u64 {
    debug_assert!(bound > 0);
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(bound);
        let low = product as u64;
        // Of the 2^64 words, the lowest `2^64 mod bound` of each run would make some results likelier than others.
        if low >= bound || low >= bound.wrapping_neg() % bound {
            return (product >> 64) as u64;
        }
    }
}

/// A uniform number in `[0, 1)` on the grid of `2^-53`.
pub(crate) fn unit(rng: &mut impl Rng) -> f64 {
    const STEP: f64 = 1.0 / (1u64 << 53) as f64;
    (rng.next_u64() >> 11) as f64 * STEP
}

/// Puts the items in a uniformly random order by Fisher and Yates.
pub(crate) fn shuffle<T>(items: &mut [T], rng: &mut impl Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(last as u64 + 1, rng) as usize);
    }
}

/// `count` distinct numbers below `total` in ascending order, every subset equally likely; all when `count >= total`.
pub(crate) fn sample(total: usize, count: usize, rng: &mut impl Rng) -> Vec<usize> {
    if count >= total {
        return (0..total).collect();
    }
    // Floyd's algorithm: `count` draws, whatever the total.
    let mut chosen = std::collections::BTreeSet::new();
    for limit in total - count..total {
        let pick = below(limit as u64 + 1, rng) as usize;
        if !chosen.insert(pick) {
            chosen.insert(limit);
        }
    }
    chosen.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    use super::*;

    #[test]
    fn permutations_of_three_are_equally_likely() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut order = [0, 1, 2];
            shuffle(&mut order, &mut rng);
            *counts.entry(order).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 6);
        // Five standard deviations of a binomial(6000, 1/6).
        assert!(counts.values().all(|&count| count.abs_diff(1000) < 145), "{counts:?}");
    }

    #[test]
    fn samples_are_distinct_sorted_and_cover_the_range() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut seen = [0u32; 20];
        for _ in 0..4000 {
            let chosen = sample(20, 5, &mut rng);
            assert_eq!(chosen.len(), 5);
            assert!(chosen.is_sorted_by(|a, b| a < b));
            chosen.iter().for_each(|&at| seen[at] += 1);
        }
        assert!(seen.iter().all(|&count| count.abs_diff(1000) < 140), "{seen:?}");
        assert_eq!(sample(3, 7, &mut rng), [0, 1, 2]);
    }

    #[test]
    fn bounded_integers_reject_the_biased_words() {
        struct Words(Vec<u64>);
        impl rand_core::TryRng for Words {
            type Error = core::convert::Infallible;
            fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
                Ok(self.try_next_u64()? as u32)
            }
            fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
                Ok(self.0.pop().expect("the test supplies enough words"))
            }
            fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
                bytes.fill(0);
                Ok(())
            }
        }
        // 2^64 mod 3 = 1, so the word 0 (low half 0) is rejected for a bound of 3 and kept for a bound of 4.
        assert_eq!(below(3, &mut Words(vec![u64::MAX, 0])), 2);
        assert_eq!(below(4, &mut Words(vec![u64::MAX, 0])), 0);
    }
}
