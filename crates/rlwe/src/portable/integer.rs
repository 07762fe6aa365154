//! Integer arithmetic: lazy butterflies with precomputed quotients (Shoup, Harvey).
//!
//! Values stay in `[0, 4q)` on the way forward and in `[0, 2q)` on the way back, and are reduced
//! once at the end; `4q < 2^52` leaves room to spare in 64 bits.

use super::Roots;
use crate::parameters::MODULUS;

/// A constant to multiply by, `w`, with `floor(2^64 w / q)`.
#[derive(Clone, Copy)]
struct Factor {
    value: u64,
    quotient: u64,
}

impl Factor {
    fn new(value: u64) -> Self {
        Self { value, quotient: ((u128::from(value) << 64) / u128::from(MODULUS)) as u64 }
    }

    /// `w x - floor(x floor(2^64 w / q) / 2^64) q`, congruent to `w x` and in `[0, 2q)` for any
    /// `x`: both floors together take away less than two from the true quotient.
    #[inline(always)]
    fn multiply(self, x: u64) -> u64 {
        let quotient = ((u128::from(x) * u128::from(self.quotient)) >> 64) as u64;
        x.wrapping_mul(self.value).wrapping_sub(quotient.wrapping_mul(MODULUS))
    }
}

/// The factors of a degree, in the order of [`Roots`].
pub(super) struct Tables {
    forward: Vec<Factor>,
    inverse: Vec<Factor>,
    normalisation: Factor,
    last_inverse: Factor,
}

impl Tables {
    pub(super) fn new(roots: &Roots) -> Self {
        Self {
            forward: roots.forward.iter().copied().map(Factor::new).collect(),
            inverse: roots.inverse.iter().copied().map(Factor::new).collect(),
            normalisation: Factor::new(roots.normalisation),
            last_inverse: Factor::new(roots.last_inverse()),
        }
    }
}

const TWICE: u64 = 2 * MODULUS;

/// `x`, or `x - bound` where that is not negative, without a branch.
#[inline(always)]
fn subtract_once(x: u64, bound: u64) -> u64 {
    x.min(x.wrapping_sub(bound))
}

/// Coefficients to evaluations: `(x, y) -> (x + w y, x - w y)`.
pub(super) fn forward(values: &mut [u64], tables: &Tables) {
    let n = values.len();
    let mut size = n;
    while size > 1 {
        let factors = &tables.forward[n / size..];
        for (block, &w) in values.chunks_exact_mut(size).zip(factors) {
            let (low, high) = block.split_at_mut(size / 2);
            for (x, y) in low.iter_mut().zip(high) {
                let (a, b) = (subtract_once(*x, TWICE), w.multiply(*y));
                (*x, *y) = (a + b, a + TWICE - b);
            }
        }
        size /= 2;
    }
    values.iter_mut().for_each(|v| *v = subtract_once(subtract_once(*v, TWICE), MODULUS));
}

/// Evaluations to coefficients: `(x, y) -> (x + y, w (x - y))`.
pub(super) fn inverse(values: &mut [u64], tables: &Tables) {
    let n = values.len();
    let mut size = 2;
    while size < n {
        let factors = &tables.inverse[n / size..];
        for (block, &w) in values.chunks_exact_mut(size).zip(factors) {
            let (low, high) = block.split_at_mut(size / 2);
            for (x, y) in low.iter_mut().zip(high) {
                let (a, b) = (*x, *y);
                (*x, *y) = (subtract_once(a + b, TWICE), w.multiply(a + TWICE - b));
            }
        }
        size *= 2;
    }
    let (low, high) = values.split_at_mut(n / 2);
    for (x, y) in low.iter_mut().zip(high) {
        let (a, b) = (*x, *y);
        *x = subtract_once(tables.normalisation.multiply(a + b), MODULUS);
        *y = subtract_once(tables.last_inverse.multiply(a + TWICE - b), MODULUS);
    }
}

/// `floor(2^113 / q)`, below `2^64` because `q` is above `2^49`.
const RECIPROCAL: u64 = ((1_u128 << 113) / MODULUS as u128) as u64;

/// `accumulator += left * right`, by Barrett: for a product below `2^101` the quotient
/// `floor(floor(p / 2^49) RECIPROCAL / 2^64)` is at most two short, so the rest is below `3q`.
pub(super) fn multiply_accumulate(accumulator: &mut [u64], left: &[u64], right: &[u64]) {
    for ((sum, &a), &b) in accumulator.iter_mut().zip(left).zip(right) {
        let product = u128::from(a) * u128::from(b) + u128::from(*sum);
        let quotient = (((product >> 49) * u128::from(RECIPROCAL)) >> 64) as u64;
        let rest = (product as u64).wrapping_sub(quotient.wrapping_mul(MODULUS));
        *sum = subtract_once(subtract_once(rest, TWICE), MODULUS);
    }
}
