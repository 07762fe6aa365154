//! What lies between matrix products, in one pass over memory each.
//!
//! Loops over lanes that the compiler turns into vector instructions; `pulp` compiles each for several processors and
//! picks one at run time. Products and sums are not fused, so that the code is as fast where there are no fused
//! instructions.

use pulp::{Arch, Simd, WithSimd};

use super::configuration::Activation;
use super::layers::Norm;

/// Values that are summed side by side, then with each other.
const LANES: usize = 16;

/// Runs the loops of a closure that is `inline(always)` with the widest vectors of this processor.
fn dispatch(work: impl FnMut()) {
    /// Called by reference: a closure that is called by value goes through a function that is not inlined, and so is
    /// compiled for the least of all processors.
    struct Work<F>(F);
    impl<F: FnMut()> WithSimd for Work<F> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(mut self, _: S) {
            (self.0)();
        }
    }
    Arch::new().dispatch(Work(work));
}

/// Adds `row` to each row.
pub(super) fn add_to_rows(values: &mut [f32], row: &[f32]) {
    dispatch(
        #[inline(always)]
        || {
            for values in values.chunks_exact_mut(row.len()) {
                values.iter_mut().zip(row).for_each(|(value, add)| *value += add);
            }
        },
    );
}

/// `hidden <- norm(hidden + change + bias)`, row by row; an empty bias is none.
pub(super) fn add_and_normalize(hidden: &mut [f32], change: &[f32], bias: &[f32], norm: &Norm) {
    let width = norm.scale.len();
    dispatch(
        #[inline(always)]
        || {
            for (row, change) in hidden.chunks_exact_mut(width).zip(change.chunks_exact(width)) {
                row.iter_mut().zip(change).for_each(|(value, add)| *value += add);
                row.iter_mut().zip(bias).for_each(|(value, add)| *value += add);
                let mean = sum(row, |value| value) / width as f32;
                let variance = sum(row, |value| (value - mean) * (value - mean)) / width as f32;
                let scale = (variance + norm.epsilon).sqrt().recip();
                for ((value, weight), shift) in row.iter_mut().zip(&norm.scale).zip(&norm.shift) {
                    *value = (*value - mean) * scale * weight + shift;
                }
            }
        },
    );
}

/// `values <- f(values + bias)`, row by row.
pub(super) fn activate(activation: Activation, values: &mut [f32], bias: &[f32]) {
    dispatch(
        #[inline(always)]
        || {
            for row in values.chunks_exact_mut(bias.len()) {
                let row = row.iter_mut().zip(bias);
                match activation {
                    Activation::Gelu => row.for_each(|(value, add)| *value = gelu(*value + add)),
                    Activation::GeluTanh => {
                        row.for_each(|(value, add)| *value = gelu_tanh(*value + add))
                    }
                    Activation::Relu => {
                        row.for_each(|(value, add)| *value = (*value + add).max(0.0))
                    }
                }
            }
        },
    );
}

/// `e^(s - max)` for each score of a row, and their sum.
pub(super) fn exponentials(scores: &mut [f32], sums: &mut [f32]) {
    dispatch(
        #[inline(always)]
        || {
            let width = sums.len();
            for (row, total) in scores.chunks_exact_mut(width).zip(sums.iter_mut()) {
                let most = largest(row);
                row.iter_mut().for_each(|value| *value = exponential(*value - most));
                *total = sum(row, |value| value);
            }
        },
    );
}

#[inline(always)]
fn sum(values: &[f32], map: impl Fn(f32) -> f32) -> f32 {
    let (lanes, rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for lane in lanes {
        for (sum, &value) in sums.iter_mut().zip(lane) {
            *sum += map(value);
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|&value| map(value)).sum::<f32>()
}

#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    // `f32::max` also orders what is not a number, which costs instructions.
    let more = |a: f32, b: f32| if a > b { a } else { b };
    let (lanes, rest) = values.as_chunks::<LANES>();
    let mut most = [f32::NEG_INFINITY; LANES];
    for lane in lanes {
        for (most, &value) in most.iter_mut().zip(lane) {
            *most = more(*most, value);
        }
    }
    most.iter().chain(rest).copied().fold(f32::NEG_INFINITY, more)
}

/// `e^x` for `x <= 0`, within two units in the last place; 0 below -87.
///
/// `e^x = 2^k e^r` with `|r| <= ln(2) / 2`, and a polynomial for `e^r` (that of the Cephes library).
#[inline(always)]
fn exponential(x: f32) -> f32 {
    // Rounds to the nearest integer by the bits that are lost.
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23
    let under = x < -87.0;
    let x = if under { -87.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = x - k * (355.0 / 512.0) - k * -2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 5e-1;
    let e = p * r * r + r + 1.0;
    // The low bits of `shifted` are `k`; into the exponent with them.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    if under { 0.0 } else { e * power }
}

/// `erf(x)` within 5e-7, by the quotient of two polynomials in `x^2` (that of the Eigen library).
#[inline(always)]
fn error_function(x: f32) -> f32 {
    let x = if x < -4.0 { -4.0 } else { x };
    let x = if x > 4.0 { 4.0 } else { x };
    let y = x * x;
    let mut p = -2.726_142_3e-10;
    p = p * y + 2.770_681_4e-8;
    p = p * y + -2.101_024e-6;
    p = p * y + -5.692_506_4e-5;
    p = p * y + -7.349_906_3e-4;
    p = p * y + -2.954_6e-3;
    p = p * y + -1.609_603_3e-2;
    let mut q = -1.456_607_2e-5;
    q = q * y + -2.133_740_6e-4;
    q = q * y + -1.682_827_e-3;
    q = q * y + -7.373_329e-3;
    q = q * y + -1.426_473_9e-2;
    x * p / q
}

#[inline(always)]
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + error_function(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// `x / (1 + e^(-2 y))` with `y = sqrt(2 / pi) (x + 0.044715 x^3)`.
#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    let y = 1.595_769 * (x + 0.044_715 * x * x * x);
    let e = exponential(-y.abs());
    let positive = 1.0 / (1.0 + e);
    x * if y < 0.0 { e * positive } else { positive }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value between two, at a step.
    fn range(from: f64, to: f64) -> impl Iterator<Item = f32> {
        let steps = 200_000;
        (0..=steps)
            .map(move |step| (from + (to - from) * f64::from(step) / f64::from(steps)) as f32)
    }

    /// The series of the error function, in doubles; alternating, so only where it converges fast.
    fn series(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    #[test]
    fn the_exponential_is_that_of_the_library() {
        for x in range(-86.9, 0.0) {
            let exact = f64::from(x).exp();
            let error = (f64::from(exponential(x)) - exact).abs() / exact;
            assert!(error < 2.5e-7, "{x}: {error:e}");
        }
        assert_eq!(exponential(0.0), 1.0);
        assert_eq!(exponential(-1e30), 0.0);
        assert_eq!(exponential(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn the_error_function_is_that_of_its_series() {
        for x in range(-3.5, 3.5) {
            let error = (f64::from(error_function(x)) - series(x.into())).abs();
            assert!(error < 5e-7, "{x}: {error:e}");
        }
        for x in [4.0, 5.0, 1e30, f32::INFINITY] {
            assert!((error_function(x) - 1.0).abs() < 5e-7);
            assert!((error_function(-x) + 1.0).abs() < 5e-7);
        }
    }

    #[test]
    fn the_tanh_form_of_gelu_is_its_definition() {
        for x in range(-12.0, 12.0) {
            let wide = f64::from(x);
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044715 * wide.powi(3));
            let exact = 0.5 * wide * (1.0 + inner.tanh());
            assert!((f64::from(gelu_tanh(x)) - exact).abs() < 1e-6, "{x}");
        }
    }

    #[test]
    fn rows_of_any_width_are_normalized() {
        for width in [1, 15, 16, 17, 48] {
            let norm = Norm { scale: vec![2.0; width], shift: vec![1.0; width], epsilon: 1e-12 };
            let mut rows: Vec<f32> = (0..2 * width).map(|at| (at as f32).sin() * 3.0).collect();
            let change = vec![0.5; 2 * width];
            let bias: Vec<f32> = (0..width).map(|at| at as f32).collect();
            let slow: Vec<f64> = (0..2 * width)
                .map(|at| f64::from(rows[at]) + 0.5 + f64::from(bias[at % width]))
                .collect();
            add_and_normalize(&mut rows, &change, &bias, &norm);
            for (row, slow) in rows.chunks(width).zip(slow.chunks(width)) {
                let mean = slow.iter().sum::<f64>() / width as f64;
                let variance =
                    slow.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / width as f64;
                for (&value, slow) in row.iter().zip(slow) {
                    let exact = 2.0 * (slow - mean) / (variance + 1e-12).sqrt() + 1.0;
                    assert!((f64::from(value) - exact).abs() < 1e-5, "{width}: {value} {exact}");
                }
            }
        }
    }

    #[test]
    fn weights_are_exponentials_and_their_sums() {
        for width in [1, 15, 16, 17, 40] {
            let before: Vec<f32> = (0..width * width).map(|at| (at as f32).cos() * 9.0).collect();
            let (mut scores, mut sums) = (before.clone(), vec![0.0; width]);
            exponentials(&mut scores, &mut sums);
            for ((row, scores), sum) in before.chunks(width).zip(scores.chunks(width)).zip(sums) {
                let most = row.iter().copied().fold(f32::MIN, f32::max);
                let exact: Vec<f32> = row.iter().map(|value| (value - most).exp()).collect();
                assert!(scores.iter().zip(&exact).all(|(a, b)| (a - b).abs() < 1e-6));
                assert!((sum - exact.iter().sum::<f32>()).abs() < 1e-5);
            }
        }
    }
}
