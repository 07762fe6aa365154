//! Seeds, samples, intervals and the area under a curve.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::mills::{density, mills_ratio};

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

/// Deviations to either side of the mean that hold 95 % of a normal variable.
const Z: f64 = 1.959_963_984_540_054;

/// The Wilson interval of 95 % of a share of `hits` in `of` independent trials: with `p = hits / of`
/// and `z = 1.96`,
///
/// ```text
/// (p + z^2/(2 n) -+ z sqrt(p (1 - p)/n + z^2/(4 n^2))) / (1 + z^2/n) .
/// ```
///
/// Unlike a bootstrap it does not shrink to a point where all trials came out alike. All there can be,
/// `[0, 1]`, of no trial.
pub fn wilson_interval(hits: usize, of: usize) -> [f64; 2] {
    if of == 0 {
        return [0.0, 1.0];
    }
    let (n, p) = (of as f64, hits as f64 / of as f64);
    let (centre, spread) =
        (p + Z * Z / (2.0 * n), Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt());
    let end = |end: f64| (end / (1.0 + Z * Z / n)).clamp(0.0, 1.0);
    // The ends are exact where rounding would leave them a hair inside.
    let low = if hits == 0 { 0.0 } else { end(centre - spread) };
    let high = if hits == of { 1.0 } else { end(centre + spread) };
    [low, high]
}

/// [`wilson_interval`] of trials that are one for a hit and zero otherwise.
pub fn interval_of_hits(hits: &[f64]) -> [f64; 2] {
    wilson_interval(hits.iter().filter(|&&hit| hit > 0.5).count(), hits.len())
}

/// The probability of at least `hits` in `of` independent trials that each succeed with probability `p`,
///
/// ```text
/// sum_{k = hits}^{n} C(n, k) p^k (1 - p)^(n - k) .
/// ```
///
/// Above the mean terms are summed upwards from the first, below it those of fewer hits downwards and
/// taken from one: the largest of a sum comes first, by logarithms, and the others follow by their ratio.
pub fn binomial_tail(hits: usize, of: usize, p: f64) -> f64 {
    if hits == 0 || p >= 1.0 {
        return 1.0;
    }
    if hits > of || p <= 0.0 {
        return 0.0;
    }
    let odds = p / (1.0 - p);
    let largest = |hits: usize| {
        let choose = (0..hits).map(|k| ((of - k) as f64).ln() - ((hits - k) as f64).ln());
        let log = hits as f64 * p.ln() + (of - hits) as f64 * (-p).ln_1p();
        (choose.sum::<f64>() + log).exp()
    };
    let sum = |first: f64, ratios: &mut dyn Iterator<Item = f64>| {
        let (mut term, mut sum) = (first, first);
        for ratio in ratios {
            term *= ratio;
            sum += term;
            if term < 1e-18 * sum {
                break;
            }
        }
        sum
    };
    if hits as f64 > of as f64 * p {
        let ratio = |k: usize| (of - k) as f64 / (k + 1) as f64 * odds;
        sum(largest(hits), &mut (hits..of).map(ratio)).min(1.0)
    } else {
        let ratio = |k: usize| k as f64 / (of - k + 1) as f64 / odds;
        1.0 - sum(largest(hits - 1), &mut (1..hits).rev().map(ratio)).min(1.0)
    }
}

/// The probability that a normal variable exceeds its mean by so many standard deviations or more.
pub fn tail(deviations: f64) -> f64 {
    if deviations < 0.0 {
        1.0 - tail(-deviations)
    } else {
        mills_ratio(deviations) * density(deviations)
    }
}

/// The number of standard deviations that a normal variable exceeds with probability `tail`, which is
/// at most one half; by bisection.
pub fn deviations(tail: f64) -> f64 {
    let (mut low, mut high) = (0.0, 38.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        *(if self::tail(middle) > tail { &mut low } else { &mut high }) = middle;
    }
    low
}

/// A percentile interval of 95 % of [`area_under_curve`]: each repetition draws scores of both kinds
/// with replacement.
///
/// Where no score is out of the common order, or all are tied, every repetition gives the same area `A`. So the
/// interval also holds what scores that were not seen may do to it. Of `n` scores, the fewer of the two kinds, a
/// share of up to `q = z^2/(n + z^2)` may be of another sort and none of them be among these (the Wilson interval
/// of no hit). Were those all below or all above the others, the area would be `A (1 - q)` or `A + q (1 - A)`.
pub fn area_interval(same: &[f64], different: &[f64], repetitions: usize, seed: u64) -> [f64; 2] {
    let mut rng = generator(seed, u64::MAX - 1);
    let mut drawn = |scores: &[f64]| -> Vec<f64> {
        (0..scores.len()).map(|_| scores[below(scores.len(), &mut rng)]).collect()
    };
    let areas = (0..repetitions.max(1)).map(|_| area_under_curve(&drawn(same), &drawn(different)));
    let mut areas: Vec<f64> = areas.collect();
    areas.sort_unstable_by(f64::total_cmp);
    let area = area_under_curve(same, different);
    let [_, unseen] = wilson_interval(0, same.len().min(different.len()));
    let low = quantile(&areas, 0.025).min(area - unseen * area);
    let high = quantile(&areas, 0.975).max(area + unseen * (1.0 - area));
    [low, high]
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
    fn wilson_intervals_are_the_roots_of_their_equation_and_never_points() {
        // The ends are the shares p at which hits / n is 1.96 deviations of a share p away.
        for (hits, of) in [(3, 10), (50, 100), (999, 1000)] {
            let share = hits as f64 / of as f64;
            for end in wilson_interval(hits, of) {
                let deviations = (share - end).abs() / (end * (1.0 - end) / of as f64).sqrt();
                assert!((deviations - 1.96).abs() < 1e-3, "{hits} {of} {end}");
            }
        }
        let ([none, above], [under, all]) = (wilson_interval(0, 100), wilson_interval(100, 100));
        assert!(none == 0.0 && (above - 0.037).abs() < 1e-3, "{above}");
        assert!(all == 1.0 && (under - 0.963).abs() < 1e-3, "{under}");
        assert_eq!(wilson_interval(0, 0), [0.0, 1.0]);
        assert_eq!(interval_of_hits(&[1.0, 0.0, 0.0]), wilson_interval(1, 3));
    }

    #[test]
    fn the_binomial_tail_is_that_of_every_outcome_counted() {
        for (of, p) in [(10_usize, 0.3_f64), (12, 0.01), (9, 0.9)] {
            for hits in 0..=of {
                let expected: f64 = (0..1_u32 << of)
                    .filter(|outcome| outcome.count_ones() as usize >= hits)
                    .map(|outcome| {
                        let ones = outcome.count_ones() as i32;
                        p.powi(ones) * (1.0 - p).powi(of as i32 - ones)
                    })
                    .sum();
                let tail = binomial_tail(hits, of, p);
                assert!((tail - expected).abs() < 1e-12, "{hits} of {of}: {tail} {expected}");
            }
        }
        assert_eq!((binomial_tail(3, 2, 0.5), binomial_tail(1, 2, 0.0)), (0.0, 0.0));
        assert!((binomial_tail(5_000, 10_000, 0.5) - 0.504).abs() < 1e-3);
        // Far below the mean no term is left of the first ones, and none is needed.
        assert_eq!((binomial_tail(6, 10_000, 0.5), binomial_tail(1, 5_000, 0.9)), (1.0, 1.0));
        assert!(binomial_tail(9_000, 10_000, 0.5) < 1e-300);
    }

    #[test]
    fn deviations_are_those_of_the_tables() {
        for (tail, expected) in
            [(0.5, 0.0), (0.05, 1.644_854), (0.025, 1.959_964), (1e-9, 5.997_807)]
        {
            assert!((deviations(tail) - expected).abs() < 1e-5, "{tail}");
        }
    }

    #[test]
    fn intervals_of_areas_hold_the_area_and_narrow_with_more_scores() {
        let scores = |count: usize, shift: f64| -> Vec<f64> {
            (0..count).map(|at| shift + (at * 37 % count) as f64 / count as f64).collect()
        };
        let width = |count: usize| {
            let (same, different) = (scores(count, 0.3), scores(count, 0.0));
            let [low, high] = area_interval(&same, &different, 200, 1);
            let area = area_under_curve(&same, &different);
            assert!(low < area && area < high, "{low} {area} {high}");
            high - low
        };
        assert!(width(800) < 0.6 * width(100));
    }

    #[test]
    fn no_interval_of_an_area_is_a_point() {
        let interval = |same: f64, different: f64, count: usize| {
            area_interval(&vec![same; count], &vec![different; count], 200, 1)
        };
        for count in [1, 2, 20, 100] {
            // Scores in order are as many trials that all succeeded; of tied ones half as much is unknown.
            let [low, high] = interval(1.0, 0.0, count);
            let [wilson, _] = wilson_interval(count, count);
            assert!(high == 1.0 && (low - wilson).abs() < 1e-12, "{count}: {low} {high}");
            let [low, high] = interval(0.0, 1.0, count);
            assert!(low == 0.0 && (high - (1.0 - wilson)).abs() < 1e-12, "{count}: {low} {high}");
            let [low, high] = interval(1.0, 1.0, count);
            let half = (1.0 - wilson) / 2.0;
            assert!((0.5 - low - half).abs() < 1e-12 && (high - 0.5 - half).abs() < 1e-12);
        }
        // Two scores of each kind, in order, are no proof that chance did not order them.
        assert!(interval(1.0, 0.0, 2)[0] < 0.5 && interval(1.0, 0.0, 20)[0] > 0.8);
    }

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), 3.0);
    }
}
