//! Seeds, samples, intervals and the area under a curve.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// The generator of one purpose under one seed, the same on every machine.
pub fn generator(seed: u64, purpose: u64) -> ChaCha8Rng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = ChaCha8Rng::from_seed(bytes);
    rng.set_stream(purpose);
    rng
}

/// A uniform index in `0..count`; the bias is below `count / 2^64`.
///
/// # Panics
/// When the count is zero.
pub fn below(count: usize, rng: &mut impl Rng) -> usize {
    assert!(count > 0, "something to choose from");
    ((u128::from(rng.next_u64()) * count as u128) >> 64) as usize
}

/// The first `count` of a random order of `0..of`, or all of them.
pub fn sample(of: usize, count: usize, rng: &mut impl Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..of).collect();
    let count = count.min(of);
    for at in 0..count {
        order.swap(at, at + below(of - at, rng));
    }
    order.truncate(count);
    order
}

/// The mean; zero of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// A percentile interval of 95 % of the mean over targets within seeds: each repetition draws
/// seeds with replacement, then targets of each drawn seed with replacement.
///
/// # Panics
/// When there is no seed, or a seed without targets.
pub fn hierarchical_interval(by_seed: &[Vec<f64>], repetitions: usize, seed: u64) -> [f64; 2] {
    assert!(!by_seed.is_empty() && by_seed.iter().all(|s| !s.is_empty()), "targets of every seed");
    let mut rng = generator(seed, u64::MAX);
    let mut means: Vec<f64> = (0..repetitions.max(1))
        .map(|_| {
            let drawn = (0..by_seed.len()).map(|_| {
                let targets = &by_seed[below(by_seed.len(), &mut rng)];
                let sum: f64 =
                    (0..targets.len()).map(|_| targets[below(targets.len(), &mut rng)]).sum();
                sum / targets.len() as f64
            });
            let drawn: Vec<f64> = drawn.collect();
            mean(&drawn)
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    [quantile(&means, 0.025), quantile(&means, 0.975)]
}

/// [`hierarchical_interval`] of one seed.
///
/// # Panics
/// When there is no value.
pub fn interval(values: &[f64], repetitions: usize, seed: u64) -> [f64; 2] {
    hierarchical_interval(&[values.to_vec()], repetitions, seed)
}

/// The `fraction` quantile of sorted values, interpolated linearly.
///
/// # Panics
/// When there is no value.
pub fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let (low, high) = (position.floor() as usize, position.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (position - low as f64)
}

/// The area under the receiver operating curve: the chance that a score of `same` is above one
/// of `different`, ties counting half.
pub fn area_under_curve(same: &[f64], different: &[f64]) -> f64 {
    if same.is_empty() || different.is_empty() {
        return 0.5;
    }
    let mut all: Vec<(f64, bool)> = same.iter().map(|&s| (s, true)).collect();
    all.extend(different.iter().map(|&s| (s, false)));
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    // The sum of the ranks of `same`, tied scores sharing the mean of their ranks.
    let mut ranks = 0.0;
    let mut at = 0;
    for tied in all.chunk_by(|a, b| a.0 == b.0) {
        let rank = at as f64 + (tied.len() + 1) as f64 / 2.0;
        ranks += rank * tied.iter().filter(|(_, same)| *same).count() as f64;
        at += tied.len();
    }
    let (m, n) = (same.len() as f64, different.len() as f64);
    (ranks - m * (m + 1.0) / 2.0) / (m * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_is_the_chance_of_the_right_order() {
        assert_eq!(area_under_curve(&[3.0, 4.0], &[1.0, 2.0]), 1.0);
        assert_eq!(area_under_curve(&[1.0], &[2.0]), 0.0);
        assert_eq!(area_under_curve(&[1.0, 2.0], &[1.0, 2.0]), 0.5);
        assert_eq!(area_under_curve(&[2.0, 5.0], &[1.0, 3.0, 4.0]), 4.0 / 6.0);
    }

    #[test]
    fn samples_are_distinct_and_repeatable() {
        let mut drawn = sample(50, 20, &mut generator(1, 2));
        assert_eq!(drawn, sample(50, 20, &mut generator(1, 2)));
        assert_ne!(drawn, sample(50, 20, &mut generator(1, 3)));
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 20);
        assert_eq!(sample(3, 9, &mut generator(1, 2)).len(), 3);
    }

    #[test]
    fn intervals_hold_the_mean_and_widen_with_the_spread_of_seeds() {
        let flat = hierarchical_interval(&[vec![0.5; 40], vec![0.5; 40]], 200, 7);
        assert_eq!(flat, [0.5, 0.5]);
        let [low, high] = hierarchical_interval(&[vec![0.0; 40], vec![1.0; 40]], 500, 7);
        assert!(low < 0.1 && high > 0.9, "{low} {high}");
    }

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), 3.0);
    }
}
