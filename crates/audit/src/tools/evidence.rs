//! How hard a figure is to explain by chance, in digits.
//!
//! Evidence of `e` digits means that chance alone gives a figure at least as far off with a probability
//! of at most `10^-e`. All of it comes from bounds on tails, with `x` the natural logarithm of one over
//! the bound:
//!
//! | figure | bound |
//! |---|---|
//! | `h` hits where chance gives `m` | Chernoff: `x = h ln(h/m) - h + m` |
//! | area under a curve of `m` and `n` scores | normal, with the rank sum's variance `(m + n + 1) / (12 m n)` |
//! | sum `t` of `k` squares of standard normals | Laurent and Massart: `x = ((sqrt(2t - k) - sqrt k) / 2)^2` above `k`, `((k - t) / (2 sqrt k))^2` below |
//! | largest distance `D` of two distribution functions, one of `n` draws | Dvoretzky, Kiefer, Wolfowitz and Massart: `x = 2 n D^2 - ln 2` |

use std::f64::consts::{LN_2, LN_10};

/// Digits from which on a figure is not put down to chance. An audit has a few hundred figures, so it
/// raises a false alarm once in some millions of runs.
pub const ALARM: f64 = 9.0;

fn digits(nats: f64) -> f64 {
    (nats / LN_10).max(0.0)
}

/// That `hits` are more than the `expected` number that guessing gives. For trials that are independent,
/// or whose successes make others less likely.
pub fn of_hits(hits: f64, expected: f64) -> f64 {
    if hits <= expected {
        return 0.0;
    }
    digits(hits * (hits / expected.max(f64::MIN_POSITIVE)).ln() - hits + expected)
}

/// That an area under the curve of so many scores of either kind is above a half.
pub fn of_area(area: f64, same: usize, different: usize) -> f64 {
    let (m, n) = (same as f64, different as f64);
    if m * n == 0.0 || area <= 0.5 {
        return 0.0;
    }
    let deviations = (area - 0.5) / ((m + n + 1.0) / (12.0 * m * n)).sqrt();
    digits(deviations * deviations / 2.0)
}

/// That a sum of `count` squares of standard normals is too large, or too small, to be one.
pub fn of_squares(sum: f64, count: usize) -> f64 {
    let k = count as f64;
    let root = if sum >= k {
        ((2.0 * sum - k).sqrt() - k.sqrt()) / 2.0
    } else {
        (k - sum) / (2.0 * k.sqrt())
    };
    digits(root * root - LN_2)
}

/// That `count` draws whose distribution function is this far from another are not draws from that.
pub fn of_distance(distance: f64, count: usize) -> f64 {
    digits(2.0 * count as f64 * distance * distance - LN_2)
}

/// That the strongest of several pieces of evidence is any, having been chosen among them.
pub fn of_strongest(digits: f64, among: usize) -> f64 {
    (digits - (among.max(1) as f64).log10()).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::matrix::Matrix;
    use crate::tools::statistics::{area_under_curve, below, generator};

    /// Each bound against the share of trials that reach it: never more than it says, and not so far
    /// below that nothing would ever be found.
    fn assert_bounds(name: &str, evidence: impl Fn(u64) -> f64) {
        let trials = 4_000;
        let found: Vec<f64> = (0..trials).map(evidence).collect();
        for digits in [1.0, 2.0] {
            let share = found.iter().filter(|&&e| e >= digits).count() as f64 / trials as f64;
            let bound = 10_f64.powf(-digits);
            let deviation = (bound / trials as f64).sqrt();
            assert!(share <= bound + 4.0 * deviation, "{name}: {share} at {digits} digits");
        }
        let half = found.iter().filter(|&&e| e >= 0.3).count();
        assert!(half > trials as usize / 100, "{name}: {half} of {trials} above 0.3 digits");
    }

    #[test]
    fn chance_reaches_no_evidence_more_often_than_it_says() {
        assert_bounds("hits", |seed| {
            let rng = &mut generator(seed, 1);
            of_hits((0..500).filter(|_| below(100, rng) == 0).count() as f64, 5.0)
        });
        assert_bounds("area", |seed| {
            let scores = Matrix::normal(1, 70, &mut generator(seed, 2));
            let (same, different) = scores.values().split_at(30);
            of_area(area_under_curve(same, different), 30, 40)
        });
        assert_bounds("squares", |seed| {
            let values = Matrix::normal(1, 20, &mut generator(seed, 3));
            of_squares(values.values().iter().map(|x| x * x).sum(), 20)
        });
        assert_bounds("distance", |seed| {
            let rng = &mut generator(seed, 4);
            let mut draws: Vec<f64> =
                (0..100).map(|_| below(1 << 40, rng) as f64 / (1_u64 << 40) as f64).collect();
            draws.sort_unstable_by(f64::total_cmp);
            let gap =
                |(at, x): (usize, &f64)| (x - at as f64 / 100.0).max((at + 1) as f64 / 100.0 - x);
            of_distance(draws.iter().enumerate().map(gap).fold(0.0, f64::max), 100)
        });
    }

    #[test]
    fn what_is_far_off_is_evident() {
        assert!(
            of_hits(100.0, 1.0) > 100.0 && of_hits(1.0, 1.0) == 0.0 && of_hits(3.0, 0.0) > ALARM
        );
        assert!(of_area(1.0, 200, 200) > ALARM && of_area(0.4, 200, 200) == 0.0);
        assert!(of_squares(2_000.0, 1_000) > ALARM && of_squares(300.0, 1_000) > ALARM);
        assert!(of_distance(0.1, 10_000) > ALARM && of_distance(0.001, 10_000) == 0.0);
        assert_eq!(of_strongest(11.0, 100), 9.0);
    }
}
