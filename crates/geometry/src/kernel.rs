//! The inner loops. Each accumulates in a fixed number of lanes and adds the lanes up in a fixed order, without fused
//! multiply-add, so the bits are the same whichever instruction set `pulp` finds at run time.
//!
//! The `inline(always)` bodies are plain loops: inside [`dispatch`] the compiler vectorises them for the instruction
//! set that was found.

use pulp::{Arch, Simd, WithSimd};

/// Lanes of an `f64` accumulation.
pub(crate) const LANES: usize = 8;

/// Lanes of an `f32` accumulation.
const WIDE_LANES: usize = 16;

/// Queries that share one pass over the rows of a scan.
pub(crate) const QUERIES: usize = 4;

/// Runs a closure compiled for the best instruction set of this machine.
///
/// The closure must be `#[inline(always)]`, and is called by reference: `FnOnce` would insert a function that is
/// not always inlined, and the code it calls would be compiled for the smallest instruction set.
pub(crate) fn dispatch<R>(work: impl FnMut() -> R) -> R {
    struct Work<F>(F);
    impl<R, F: FnMut() -> R> WithSimd for Work<F> {
        type Output = R;
        #[inline(always)]
        fn with_simd<S: Simd>(mut self, _: S) -> R {
            (self.0)()
        }
    }
    Arch::new().dispatch(Work(work))
}

#[inline(always)]
pub(crate) fn sum_lanes(lanes: [f64; LANES]) -> f64 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// `sum_i combine(x_i, y_i)` in `f64`, in the lane order every `f64` kernel shares.
#[inline(always)]
fn accumulate<T: Copy>(x: &[T], y: &[T], combine: impl Fn(T, T) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (x_blocks, x_rest) = x.as_chunks::<LANES>();
    let (y_blocks, y_rest) = y.as_chunks::<LANES>();
    for (x, y) in x_blocks.iter().zip(y_blocks) {
        for lane in 0..LANES {
            lanes[lane] += combine(x[lane], y[lane]);
        }
    }
    for (lane, (&x, &y)) in lanes.iter_mut().zip(x_rest.iter().zip(y_rest)) {
        *lane += combine(x, y);
    }
    sum_lanes(lanes)
}

/// `<x, y>` of `f64` vectors.
#[inline(always)]
pub(crate) fn dot(x: &[f64], y: &[f64]) -> f64 {
    accumulate(x, y, |x, y| x * y)
}

/// `<x, y>` of `f32` vectors: every product is exact in `f64`, the sum is taken in `f64`.
#[inline(always)]
pub(crate) fn dot_f32(x: &[f32], y: &[f32]) -> f64 {
    accumulate(x, y, |x, y| f64::from(x) * f64::from(y))
}

/// `|x - y|^2` of `f32` vectors in `f64`. Zero exactly when the vectors are equal.
#[inline(always)]
pub(crate) fn squared_distance_f32(x: &[f32], y: &[f32]) -> f64 {
    accumulate(x, y, |x, y| {
        let difference = f64::from(x) - f64::from(y);
        difference * difference
    })
}

/// `|x - y|^2` in `f32`.
#[inline(always)]
pub(crate) fn squared_distance(x: &[f32], y: &[f32]) -> f32 {
    accumulate_wide(x, y, |x, y| (x - y) * (x - y))
}

/// `<x, y>` in `f32`.
#[inline(always)]
pub(crate) fn product(x: &[f32], y: &[f32]) -> f32 {
    accumulate_wide(x, y, |x, y| x * y)
}

/// [`product`] of `x` with each `y_j`, with the same bits; `x` is read once for all.
#[inline(always)]
pub(crate) fn products(x: &[f32], y: [&[f32]; QUERIES]) -> [f32; QUERIES] {
    let multiply = |x: f32, y: f32| x * y;
    let (x_blocks, x_rest) = x.as_chunks::<WIDE_LANES>();
    let [(a, a_rest), (b, b_rest), (c, c_rest), (d, d_rest)] =
        y.map(|y| y.as_chunks::<WIDE_LANES>());
    // One array per `y_j`: the compiler keeps these in registers, but not an array of arrays.
    let [mut to_a, mut to_b, mut to_c, mut to_d] = [[0.0; WIDE_LANES]; QUERIES];
    for ((((x, a), b), c), d) in x_blocks.iter().zip(a).zip(b).zip(c).zip(d) {
        add(&mut to_a, x, a, multiply);
        add(&mut to_b, x, b, multiply);
        add(&mut to_c, x, c, multiply);
        add(&mut to_d, x, d, multiply);
    }
    [
        finish(to_a, x_rest, a_rest, multiply),
        finish(to_b, x_rest, b_rest, multiply),
        finish(to_c, x_rest, c_rest, multiply),
        finish(to_d, x_rest, d_rest, multiply),
    ]
}

/// `sum_i combine(x_i, y_i)` in `f32`, in the lane order every `f32` kernel shares.
#[inline(always)]
fn accumulate_wide(x: &[f32], y: &[f32], combine: impl Fn(f32, f32) -> f32) -> f32 {
    let (x_blocks, x_rest) = x.as_chunks::<WIDE_LANES>();
    let (y_blocks, y_rest) = y.as_chunks::<WIDE_LANES>();
    let mut lanes = [0.0; WIDE_LANES];
    for (x, y) in x_blocks.iter().zip(y_blocks) {
        add(&mut lanes, x, y, &combine);
    }
    finish(lanes, x_rest, y_rest, combine)
}

#[inline(always)]
fn add<const L: usize>(
    lanes: &mut [f32; L],
    x: &[f32; L],
    y: &[f32; L],
    combine: impl Fn(f32, f32) -> f32,
) {
    for lane in 0..L {
        lanes[lane] += combine(x[lane], y[lane]);
    }
}

/// Adds up the lanes, and the values that did not fill a block of lanes.
#[inline(always)]
fn finish(
    lanes: [f32; WIDE_LANES],
    x: &[f32],
    y: &[f32],
    combine: impl Fn(f32, f32) -> f32,
) -> f32 {
    // Without this barrier the compiler cuts the loop over blocks into vectors of two lanes, to suit the sum below.
    let lanes = std::hint::black_box(lanes);
    let mut halves = [0.0; WIDE_LANES / 2];
    for (lane, half) in halves.iter_mut().enumerate() {
        *half = lanes[lane] + lanes[lane + WIDE_LANES / 2];
    }
    let (x_blocks, x_rest) = x.as_chunks();
    let (y_blocks, y_rest) = y.as_chunks();
    for (x, y) in x_blocks.iter().zip(y_blocks) {
        add(&mut halves, x, y, &combine);
    }
    let [a, b, c, d, e, f, g, h] = halves;
    let mut sum = ((a + e) + (c + g)) + ((b + f) + (d + h));
    for (&x, &y) in x_rest.iter().zip(y_rest) {
        sum += combine(x, y);
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs() -> impl Strategy<Value = Vec<(f32, f32)>> {
        prop::collection::vec((-1e3f32..1e3, -1e3f32..1e3), 0..70)
    }

    proptest! {
        #[test]
        fn kernels_agree_with_a_plain_sum(pairs in pairs()) {
            let (x, y): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
            let dot_oracle: f64 = pairs.iter().map(|&(x, y)| f64::from(x) * f64::from(y)).sum();
            let distance_oracle: f64 = pairs.iter().map(|&(x, y)| (f64::from(x) - f64::from(y)).powi(2)).sum();
            let size: f64 = pairs.iter().map(|&(x, y)| (f64::from(x) * f64::from(y)).abs()).sum();
            let wide: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
            let wide_y: Vec<f64> = y.iter().map(|&v| f64::from(v)).collect();

            prop_assert!((dot_f32(&x, &y) - dot_oracle).abs() <= 1e-13 * size);
            prop_assert_eq!(dot(&wide, &wide_y), dot_f32(&x, &y));
            prop_assert!((squared_distance_f32(&x, &y) - distance_oracle).abs() <= 1e-13 * distance_oracle);
            let to_y = squared_distance(&x, &y);
            prop_assert!((f64::from(to_y) - distance_oracle).abs() <= 1e-5 * distance_oracle);
            let (by_y, by_x) = (product(&x, &y), product(&x, &x));
            prop_assert!((f64::from(by_y) - dot_oracle).abs() <= 1e-5 * size);
            prop_assert_eq!(products(&x, [&y, &x, &y, &x]), [by_y, by_x, by_y, by_x]);
        }

        #[test]
        fn dispatched_kernels_have_the_same_bits(pairs in pairs()) {
            let (x, y): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
            let dispatched = dispatch(#[inline(always)] || {
                (dot_f32(&x, &y).to_bits(), squared_distance(&x, &y).to_bits(), product(&x, &y).to_bits())
            });
            let plain = (dot_f32(&x, &y).to_bits(), squared_distance(&x, &y).to_bits(), product(&x, &y).to_bits());
            prop_assert_eq!(dispatched, plain);
        }
    }
}
