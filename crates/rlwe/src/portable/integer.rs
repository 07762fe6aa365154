//! Integer arithmetic: lazy butterflies with precomputed quotients (Shoup, Harvey).
//!
//! Values stay in `[0, 4q)` on the way forward and in `[0, 2q)` on the way back, and are reduced
//! once at the end; `q < 2^62` makes `4q` fit 64 bits.

use super::Roots;

/// A constant to multiply by, `w`, with `floor(2^64 w / q)`.
#[derive(Clone, Copy)]
struct Factor {
    value: u64,
    quotient: u64,
}

impl Factor {
    fn new(value: u64, q: u64) -> Self {
        Self { value, quotient: ((u128::from(value) << 64) / u128::from(q)) as u64 }
    }

    /// `w x - floor(x floor(2^64 w / q) / 2^64) q`, congruent to `w x` and in `[0, 2q)` for any
    /// `x`: both floors together take away less than two from the true quotient.
    #[inline(always)]
    fn multiply(self, x: u64, q: u64) -> u64 {
        let quotient = ((u128::from(x) * u128::from(self.quotient)) >> 64) as u64;
        x.wrapping_mul(self.value).wrapping_sub(quotient.wrapping_mul(q))
    }
}

/// The factors of a degree and a prime, in the order of [`Roots`].
pub(super) struct Tables {
    modulus: u64,
    /// `floor(2^(63 + b) / q)` for a prime of `b` bits: below `2^64`, because `q > 2^(b - 1)`.
    reciprocal: u64,
    forward: Vec<Factor>,
    inverse: Vec<Factor>,
    normalisation: Factor,
    last_inverse: Factor,
}

impl Tables {
    /// # Panics
    /// When the prime has more than 62 bits; parameter sets have none above 60.
    pub(super) fn new(roots: &Roots) -> Self {
        let q = roots.modulus;
        assert!(q < 1 << 62, "4q must fit 64 bits, q is {q}");
        let factors = |roots: &[u64]| roots.iter().map(|&root| Factor::new(root, q)).collect();
        Self {
            modulus: q,
            reciprocal: ((1_u128 << (64 + q.ilog2())) / u128::from(q)) as u64,
            forward: factors(&roots.forward),
            inverse: factors(&roots.inverse),
            normalisation: Factor::new(roots.normalisation, q),
            last_inverse: Factor::new(roots.last_inverse(), q),
        }
    }
}

/// `x`, or `x - bound` where that is not negative, without a branch.
#[inline(always)]
fn subtract_once(x: u64, bound: u64) -> u64 {
    x.min(x.wrapping_sub(bound))
}

/// Coefficients to evaluations: `(x, y) -> (x + w y, x - w y)`.
pub(super) fn forward(values: &mut [u64], tables: &Tables) {
    let (n, q, twice) = (values.len(), tables.modulus, 2 * tables.modulus);
    let mut size = n;
    while size > 1 {
        let factors = &tables.forward[n / size..];
        for (block, &w) in values.chunks_exact_mut(size).zip(factors) {
            let (low, high) = block.split_at_mut(size / 2);
            for (x, y) in low.iter_mut().zip(high) {
                let (a, b) = (subtract_once(*x, twice), w.multiply(*y, q));
                (*x, *y) = (a + b, a + twice - b);
            }
        }
        size /= 2;
    }
    values.iter_mut().for_each(|v| *v = subtract_once(subtract_once(*v, twice), q));
}

/// Evaluations to coefficients: `(x, y) -> (x + y, w (x - y))`.
pub(super) fn inverse(values: &mut [u64], tables: &Tables) {
    let (n, q, twice) = (values.len(), tables.modulus, 2 * tables.modulus);
    let mut size = 2;
    while size < n {
        let factors = &tables.inverse[n / size..];
        for (block, &w) in values.chunks_exact_mut(size).zip(factors) {
            let (low, high) = block.split_at_mut(size / 2);
            for (x, y) in low.iter_mut().zip(high) {
                let (a, b) = (*x, *y);
                (*x, *y) = (subtract_once(a + b, twice), w.multiply(a + twice - b, q));
            }
        }
        size *= 2;
    }
    let (low, high) = values.split_at_mut(n / 2);
    for (x, y) in low.iter_mut().zip(high) {
        let (a, b) = (*x, *y);
        *x = subtract_once(tables.normalisation.multiply(a + b, q), q);
        *y = subtract_once(tables.last_inverse.multiply(a + twice - b, q), q);
    }
}

/// `accumulator += left * right`, by Barrett: for a prime of `b` bits and `p < q^2` the quotient
/// `floor(floor(p / 2^(b - 1)) reciprocal / 2^64)` is at most two short, so the rest is below
/// `3q`.
pub(super) fn multiply_accumulate(
    accumulator: &mut [u64],
    left: &[u64],
    right: &[u64],
    tables: &Tables,
) {
    let (q, reciprocal) = (tables.modulus, u128::from(tables.reciprocal));
    let shift = q.ilog2();
    for ((sum, &a), &b) in accumulator.iter_mut().zip(left).zip(right) {
        let product = u128::from(a) * u128::from(b) + u128::from(*sum);
        // Below 2^(b + 1), so one word.
        let leading = (product >> shift) as u64;
        let quotient = ((u128::from(leading) * reciprocal) >> 64) as u64;
        let rest = (product as u64).wrapping_sub(quotient.wrapping_mul(q));
        *sum = subtract_once(subtract_once(rest, 2 * q), q);
    }
}
