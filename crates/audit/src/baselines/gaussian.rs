//! The analytic Gaussian mechanism of Balle and Wang, as a release of vectors.
//!
//! Two collections are adjacent when one row is replaced. Rows are clipped to norm `B`, so the joint
//! release moves by at most `Delta = 2 B`; independent normal noise of deviation `sigma` on every
//! coordinate then gives `(epsilon, delta)`-differential privacy exactly when
//!
//! ```text
//! delta >= Phi(Delta/(2 sigma) - epsilon sigma/Delta) - e^epsilon Phi(-Delta/(2 sigma) - epsilon sigma/Delta) .
//! ```
//!
//! Normalising the noisy rows is post-processing. What it is not: privacy of membership (identifiers
//! and the number of rows are public), or of queries; and every further release adds to the loss.

use anyhow::{Result, ensure};
use rayon::prelude::*;
use shard_geometry::VectorSet;
use shard_geometry::gaussian::Normals;

use crate::tools::mills::{density, mills_ratio};
use crate::tools::statistics::generator;

/// Rows are clipped to this norm: what an encoder of unit vectors promises, with room for rounding.
pub const CLIP: f64 = 1.000001;

/// How far the joint release can move when one row is replaced.
pub const SENSITIVITY: f64 = 2.0 * CLIP;

/// The probability that the guarantee may fail with, as in the paper.
pub const DELTA: f64 = 1e-6;

/// The upper half of the numbers of streams that noise comes from, which no other purpose has.
const PURPOSE: u64 = 0x6a55;

/// Rows whose noise comes from one stream of random words.
const STREAM_ROWS: usize = 64;

/// `delta` of a Gaussian release of this deviation at this `epsilon`.
///
/// With `a = Delta/(2 sigma)`, `b = epsilon sigma/Delta` and the Mills ratio `R`,
/// `e^epsilon phi(a + b) = phi(a - b)`, so that
/// `delta = phi(b - a) (R(b - a) - R(b + a))`, or `1 - phi(a - b) (R(a - b) + R(a + b))` where
/// `a > b`: no power of `e^epsilon` is ever formed.
pub fn delta_of(sigma: f64, epsilon: f64, sensitivity: f64) -> f64 {
    let (a, b) = (sensitivity / (2.0 * sigma), epsilon * sigma / sensitivity);
    let beyond = mills_ratio(a + b);
    if b >= a {
        density(b - a) * (mills_ratio(b - a) - beyond)
    } else {
        1.0 - density(a - b) * (mills_ratio(a - b) + beyond)
    }
}

/// The least deviation that gives `(epsilon, delta)`-differential privacy, by bisection: `delta`
/// falls as `sigma` grows.
///
/// # Errors
/// When a number is not positive and finite, or `delta` not below one.
pub fn calibrate(epsilon: f64, delta: f64, sensitivity: f64) -> Result<f64> {
    check(epsilon, "epsilon")?;
    check(sensitivity, "the sensitivity")?;
    check(delta, "delta")?;
    ensure!(delta < 1.0, "delta is {delta}, expected a probability below one");
    Ok(bisect(sensitivity, |sigma| delta_of(sigma, epsilon, sensitivity) > delta))
}

/// The least `epsilon` that so many releases of this deviation together have at this `delta`: the
/// inverse of [`calibrate`]. Zero when even `epsilon = 0` holds.
///
/// `r` independent releases of deviation `sigma` amount to one of deviation `sigma / sqrt(r)`: their
/// mean is a sufficient statistic.
///
/// # Errors
/// When a number is not positive and finite, or `releases` is zero.
pub fn epsilon_of(sigma: f64, releases: u32, delta: f64, sensitivity: f64) -> Result<f64> {
    check(sigma, "sigma")?;
    check(delta, "delta")?;
    check(sensitivity, "the sensitivity")?;
    ensure!(releases > 0, "a loss is of at least one release");
    let together = sigma / f64::from(releases).sqrt();
    if delta_of(together, 0.0, sensitivity) <= delta {
        return Ok(0.0);
    }
    Ok(bisect(1.0, |epsilon| delta_of(together, epsilon, sensitivity) > delta))
}

fn check(value: f64, name: &str) -> Result<()> {
    ensure!(value > 0.0 && value.is_finite(), "{name} is {value}, expected a positive number");
    Ok(())
}

/// The smallest positive number for which `too_small` is false, to the last bits.
fn bisect(start: f64, too_small: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (start, start);
    while too_small(high) {
        high *= 2.0;
    }
    while !too_small(low) && low > f64::MIN_POSITIVE {
        low *= 0.5;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        *(if too_small(middle) { &mut low } else { &mut high }) = middle;
    }
    high
}

/// A release: every row clipped, with noise of this deviation, at norm one again.
///
/// # Panics
/// Never: finite rows and noise make finite vectors.
pub fn release(vectors: &VectorSet, sigma: f64, seed: u64) -> VectorSet {
    let width = vectors.width();
    let mut values = vectors.values().to_vec();
    values.par_chunks_mut(STREAM_ROWS * width).enumerate().for_each(|(block, rows)| {
        let mut rng = generator(seed, (PURPOSE << 32) | block as u64);
        let mut normals = Normals::new(&mut rng);
        for row in rows.chunks_exact_mut(width) {
            let clip = (CLIP / norm(row.iter().map(|&x| f64::from(x)))).min(1.0);
            let noisy: Vec<f64> =
                row.iter().map(|&x| clip * f64::from(x) + sigma * normals.draw()).collect();
            let length = norm(noisy.iter().copied());
            if length > 0.0 {
                row.iter_mut().zip(noisy).for_each(|(x, noisy)| *x = (noisy / length) as f32);
            }
        }
    });
    VectorSet::new(width, values).expect("unit vectors are finite")
}

fn norm(row: impl Iterator<Item = f64>) -> f64 {
    row.map(|x| x * x).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_the_paper_to_the_printed_digits() {
        let sigma = |epsilon| calibrate(epsilon, DELTA, SENSITIVITY).unwrap();
        assert_eq!(format!("{:.4}", sigma(1.0)), "8.4494");
        assert_eq!(format!("{:.5}", sigma(512.0)), "0.07240");
        assert_eq!(format!("{:.6}", sigma(32768.0)), "0.007959");
        // The same equation solved with 40 digits.
        for (epsilon, expected) in
            [(1.0, 8.44936622801145), (512.0, 0.07239512435915856), (32768.0, 0.007958795070825665)]
        {
            assert!((sigma(epsilon) / expected - 1.0).abs() < 1e-11, "{epsilon}");
        }
    }

    #[test]
    fn calibration_recovers_delta_and_epsilon() {
        for epsilon in [0.01, 0.5, 1.0, 8.0, 512.0, 32768.0, 1e6] {
            let sigma = calibrate(epsilon, DELTA, SENSITIVITY).unwrap();
            let delta = delta_of(sigma, epsilon, SENSITIVITY);
            assert!((delta / DELTA - 1.0).abs() < 1e-6, "{epsilon}: {delta}");
            let back = epsilon_of(sigma, 1, DELTA, SENSITIVITY).unwrap();
            assert!((back / epsilon - 1.0).abs() < 1e-6, "{epsilon}: {back}");
        }
    }

    #[test]
    fn equation_agrees_with_its_integral() {
        // delta is the integral of max(0, p - e^epsilon p') over the two shifted densities.
        let (sigma, epsilon, sensitivity) = (1.3, 0.7_f64, 2.0);
        let step = 1e-4;
        let integral: f64 = (-200_000..200_000)
            .map(|at| {
                let x = f64::from(at) * step;
                let p = density((x - sensitivity) / sigma) / sigma;
                let q = density(x / sigma) / sigma;
                (p - epsilon.exp() * q).max(0.0) * step
            })
            .sum();
        assert!((integral - delta_of(sigma, epsilon, sensitivity)).abs() < 1e-7);
        assert!((delta_of(1e-3, 0.7, 2.0) - 1.0).abs() < 1e-12 && delta_of(1e3, 0.7, 2.0) == 0.0);
    }

    #[test]
    fn releases_compose_and_losses_add_up_slower_than_epsilons() {
        let sigma = calibrate(1.0, DELTA, SENSITIVITY).unwrap();
        let four = epsilon_of(sigma, 4, DELTA, SENSITIVITY).unwrap();
        let halved = epsilon_of(sigma / 2.0, 1, DELTA, SENSITIVITY).unwrap();
        assert_eq!(four, halved);
        assert!(four > 2.0 && four < 4.0, "{four}");
        assert_eq!(epsilon_of(1e9, 1, DELTA, SENSITIVITY).unwrap(), 0.0);
    }

    #[test]
    fn budgets_that_are_none_are_refused() {
        for (epsilon, delta) in [(0.0, 0.1), (f64::NAN, 0.1), (1.0, 0.0), (1.0, 1.0)] {
            assert!(calibrate(epsilon, delta, 2.0).is_err());
        }
        assert!(epsilon_of(1.0, 0, 0.1, 2.0).is_err());
    }

    #[test]
    fn rows_are_clipped_turned_by_the_noise_and_left_at_norm_one() {
        // Long rows are clipped to unit rows: the noise rotates them as far.
        let mut values = vec![0.0; 2 * 100 * 16];
        values
            .chunks_exact_mut(16)
            .enumerate()
            .for_each(|(at, row)| row[0] = if at < 100 { 9.0 } else { 1.0 });
        let vectors = VectorSet::new(16, values).unwrap();
        let sigma = 0.1;
        let noisy = release(&vectors, sigma, 3);
        assert!(noisy.norms().iter().all(|norm| (norm - 1.0).abs() < 1e-6));
        // Before normalising the first coordinate is one; the others are noise of this deviation.
        let ratios = (0..200).flat_map(|row| {
            let row = noisy.row(row);
            row[1..].iter().map(|x| f64::from(x / row[0])).collect::<Vec<_>>()
        });
        let variance = ratios.map(|x| x * x).sum::<f64>() / (200.0 * 15.0);
        assert!((variance.sqrt() / sigma - 1.0).abs() < 0.08, "{variance}");
        assert_eq!(noisy, release(&vectors, sigma, 3));
        assert_ne!(noisy, release(&vectors, sigma, 4));
    }
}
