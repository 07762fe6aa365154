//! The paired bootstrap.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

/// How to resample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bootstrap {
    /// Number of resamples.
    pub resamples: u32,
    /// Seed of the resampling; the same seed gives the same interval on every machine.
    pub seed: u64,
}

impl Default for Bootstrap {
    /// 10,000 resamples from seed 2026.
    fn default() -> Self {
        Self { resamples: 10_000, seed: 2026 }
    }
}

/// Samples that cannot be resampled in pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// The two systems were not measured on the same queries.
    #[error("expected one value per query from both systems, found {baseline} and {system}")]
    Unpaired {
        /// Values of the baseline.
        baseline: usize,
        /// Values of the system.
        system: usize,
    },
    /// There is no query.
    #[error("expected at least one query, found none")]
    NoQueries,
    /// There is no resample.
    #[error("expected at least one resample, found none")]
    NoResamples,
    /// A value is NaN or infinite.
    #[error("the values of query {query} are not finite")]
    NotFinite {
        /// Its position.
        query: usize,
    },
}

/// The percentile 95 % interval `[lo, hi]` of the mean of `d_q = system_q - baseline_q` over queries.
///
/// Resample `b` draws `n` queries with replacement, the same for both systems, and takes the mean
/// `m_b = (1/n) sum_j d_{q(b,j)}`; the interval runs from the 2.5th to the 97.5th percentile of the `m_b`, with
/// linear interpolation between order statistics.
///
/// Resample `b` has ChaCha8 stream number `b` under the seed to itself, so the result depends neither on the
/// number of threads nor on how they share the work.
///
/// # Errors
/// Samples of different length, no query, no resample, or a value that is not finite.
pub fn paired_bootstrap(
    baseline: &[f64],
    system: &[f64],
    bootstrap: Bootstrap,
) -> Result<[f64; 2], BootstrapError> {
    if baseline.len() != system.len() {
        return Err(BootstrapError::Unpaired { baseline: baseline.len(), system: system.len() });
    }
    if baseline.is_empty() {
        return Err(BootstrapError::NoQueries);
    }
    if bootstrap.resamples == 0 {
        return Err(BootstrapError::NoResamples);
    }
    let differences: Vec<f64> =
        system.iter().zip(baseline).map(|(system, baseline)| system - baseline).collect();
    if let Some(query) = differences.iter().position(|difference| !difference.is_finite()) {
        return Err(BootstrapError::NotFinite { query });
    }

    let origin = ChaCha8Rng::from_seed(seed_bytes(bootstrap.seed));
    let mut means: Vec<f64> = (0..u64::from(bootstrap.resamples))
        .into_par_iter()
        .map(|resample| {
            let mut rng = origin.clone();
            rng.set_stream(resample);
            resampled_mean(&differences, &mut rng)
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    Ok([percentile(&means, 0.025), percentile(&means, 0.975)])
}

/// The seed as the first eight bytes of a ChaCha key: written out rather than left to `seed_from_u64`, whose
/// expansion may change between releases of the crate.
fn seed_bytes(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}

fn resampled_mean(differences: &[f64], rng: &mut impl Rng) -> f64 {
    let count = differences.len();
    (0..count).map(|_| differences[index_below(count, rng)]).sum::<f64>() / count as f64
}

/// A uniform index in `0..count` by Lemire's multiplication: the high word of `x * count` for a random 64-bit
/// `x`, drawn again in the `2^64 mod count` cases that would favour some indices.
fn index_below(count: usize, rng: &mut impl Rng) -> usize {
    let count = count as u64;
    let surplus = count.wrapping_neg() % count;
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(count);
        if product as u64 >= surplus {
            return (product >> 64) as usize;
        }
    }
}

/// The `fraction` quantile of sorted values, interpolated linearly at position `fraction * (n - 1)`.
fn percentile(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (position - below as f64) * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn few(seed: u64) -> Bootstrap {
        Bootstrap { resamples: 500, seed }
    }

    #[test]
    fn the_interval_is_the_same_on_one_thread_and_on_five() {
        let baseline: Vec<f64> = (0..97).map(|query| f64::from(query % 7) / 7.0).collect();
        let system: Vec<f64> = (0..97).map(|query| f64::from(query % 5) / 5.0).collect();
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| paired_bootstrap(&baseline, &system, Bootstrap::default()).unwrap())
        };
        assert_eq!(on(1), on(5));
    }

    #[test]
    fn the_default_interval_is_pinned() {
        let system: Vec<f64> = (0..40).map(|query| f64::from(query * query % 11) / 16.0).collect();
        let [lo, hi] = paired_bootstrap(&[0.0; 40], &system, Bootstrap::default()).unwrap();
        assert_eq!([lo, hi], [0.192_187_5, 0.301_562_5]);
    }

    #[test]
    fn the_interval_has_the_width_the_central_limit_theorem_gives() {
        // Half the differences 0, half 1: the mean has deviation 0.5 / sqrt(n).
        let system: Vec<f64> = (0..400).map(|query| f64::from(query % 2)).collect();
        let [lo, hi] = paired_bootstrap(&[0.0; 400], &system, Bootstrap::default()).unwrap();
        let half = 1.96 * 0.5 / 20.0;
        assert!((lo - (0.5 - half)).abs() < 0.003, "{lo}");
        assert!((hi - (0.5 + half)).abs() < 0.003, "{hi}");
    }

    #[test]
    fn equal_systems_have_the_interval_zero() {
        let values = [0.25, 0.5, 0.125];
        assert_eq!(paired_bootstrap(&values, &values, few(1)), Ok([0.0, 0.0]));
    }

    #[test]
    fn another_seed_gives_another_interval() {
        let system: Vec<f64> = (0..31).map(|query| f64::from(query).sqrt()).collect();
        let interval = |seed| paired_bootstrap(&[0.0; 31], &system, few(seed)).unwrap();
        assert_ne!(interval(1), interval(2));
    }

    #[test]
    fn samples_that_do_not_pair_are_refused() {
        let refused = |baseline: &[f64], system: &[f64], resamples| {
            paired_bootstrap(baseline, system, Bootstrap { resamples, seed: 1 }).unwrap_err()
        };
        assert_eq!(
            refused(&[1.0], &[1.0, 2.0], 9),
            BootstrapError::Unpaired { baseline: 1, system: 2 }
        );
        assert_eq!(refused(&[], &[], 9), BootstrapError::NoQueries);
        assert_eq!(refused(&[1.0], &[1.0], 0), BootstrapError::NoResamples);
        assert_eq!(
            refused(&[1.0, f64::NAN], &[1.0, 1.0], 9),
            BootstrapError::NotFinite { query: 1 }
        );
    }

    /// Gives out chosen words, so that the rejection step can be seen.
    struct Words(Vec<u64>);

    impl rand_core::TryRng for Words {
        type Error = std::convert::Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            self.try_next_u64().map(|word| word as u32)
        }
        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(self.0.remove(0))
        }
        fn try_fill_bytes(&mut self, destination: &mut [u8]) -> Result<(), Self::Error> {
            destination.fill(0);
            Ok(())
        }
    }

    #[test]
    fn a_word_in_the_surplus_is_drawn_again() {
        // 2^64 mod 3 = 1, so only the word whose product is 0 in the low half is rejected.
        let mut words = Words(vec![0, u64::MAX]);
        assert_eq!(index_below(3, &mut words), 2);
        assert!(words.0.is_empty());
        // A power of two divides 2^64: nothing is rejected.
        assert_eq!(index_below(4, &mut Words(vec![0])), 0);
    }

    #[test]
    fn percentiles_interpolate_between_order_statistics() {
        let values = [0.0, 1.0, 2.0, 3.0, 4.0];
        assert_eq!(percentile(&values, 0.5), 2.0);
        assert!((percentile(&values, 0.025) - 0.1).abs() < 1e-12);
        assert!((percentile(&values, 0.975) - 3.9).abs() < 1e-12);
        assert_eq!(percentile(&[7.0], 0.975), 7.0);
    }

    proptest! {
        #[test]
        fn the_interval_lies_within_the_differences(differences in prop::collection::vec(-1.0..1.0f64, 1..40), seed: u64) {
            let [lo, hi] = paired_bootstrap(&vec![0.0; differences.len()], &differences, few(seed)).unwrap();
            let least = differences.iter().copied().fold(f64::INFINITY, f64::min);
            let most = differences.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(least - 1e-12 <= lo && lo <= hi && hi <= most + 1e-12);
        }

        #[test]
        fn indices_stay_below_the_count(count in 1..usize::MAX, seed: u64) {
            let mut rng = ChaCha8Rng::from_seed(seed_bytes(seed));
            prop_assert!(index_below(count, &mut rng) < count);
        }
    }
}
