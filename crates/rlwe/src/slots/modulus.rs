//! Arithmetic modulo one prime of the chain.

use crate::prime;
use crate::simd::dispatch;

/// A prime `q < 2^61` with its Barrett reciprocal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modulus {
    value: u64,
    /// `floor(2^64 / q)`.
    reciprocal: u64,
}

/// A constant `w` with `floor(w 2^64 / q)`, for one multiplication without a division (Shoup).
#[derive(Clone, Copy, Debug)]
pub(super) struct Factor {
    value: u64,
    quotient: u64,
}

#[inline(always)]
fn high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

impl Modulus {
    pub(super) fn new(value: u64) -> Self {
        debug_assert!(value > 2 && value < 1 << 61);
        Self { value, reciprocal: ((1_u128 << 64) / u128::from(value)) as u64 }
    }

    pub(super) fn value(self) -> u64 {
        self.value
    }

    /// `a - q` when `a >= q`, for `a < 2 q`, without a branch.
    #[inline(always)]
    fn correct(self, a: u64) -> u64 {
        a.min(a.wrapping_sub(self.value))
    }

    /// Any 64-bit word modulo `q`: the estimated quotient is short by at most one.
    #[inline(always)]
    pub(super) fn reduce(self, a: u64) -> u64 {
        self.correct(a.wrapping_sub(high(a, self.reciprocal).wrapping_mul(self.value)))
    }

    /// Any signed word modulo `q`.
    #[inline(always)]
    pub(super) fn reduce_signed(self, a: i64) -> u64 {
        let magnitude = self.reduce(a.unsigned_abs());
        // Secrets and errors come this way: a mask, not a branch.
        let negative = (a >> 63) as u64;
        magnitude ^ ((magnitude ^ self.negate(magnitude)) & negative)
    }

    #[inline(always)]
    pub(super) fn add(self, a: u64, b: u64) -> u64 {
        self.correct(a + b)
    }

    #[inline(always)]
    pub(super) fn subtract(self, a: u64, b: u64) -> u64 {
        self.correct(a + self.value - b)
    }

    #[inline(always)]
    pub(super) fn negate(self, a: u64) -> u64 {
        self.correct(self.value - a)
    }

    #[inline(always)]
    pub(super) fn scale(self, a: u64, factor: Factor) -> u64 {
        let quotient = high(a, factor.quotient);
        self.correct(a.wrapping_mul(factor.value).wrapping_sub(quotient.wrapping_mul(self.value)))
    }

    /// Prepares a constant.
    pub(super) fn factor(self, constant: u64) -> Factor {
        let value = self.reduce(constant);
        let quotient = ((u128::from(value) << 64) / u128::from(self.value)) as u64;
        Factor { value, quotient }
    }

    /// `a^-1 mod q = a^(q - 2) mod q`, for `a` not a multiple of `q`.
    pub(super) fn inverse(self, a: u64) -> u64 {
        prime::invert(self.reduce(a), self.value)
    }
}

/// Residues modulo `from`, read as centred integers in `(-from/2, from/2)`, modulo `to`.
///
/// Centring halves the deviation of what key switching and rescaling add, against the
/// unsigned lift.
pub(super) fn lift(source: &[u64], from: Modulus, to: Modulus, target: &mut [u64]) {
    dispatch(
        #[inline(always)]
        || {
            let half = from.value / 2;
            if half < to.value {
                for (out, &a) in target.iter_mut().zip(source) {
                    let centred = if a > half { a.wrapping_sub(from.value) } else { a };
                    *out = centred.min(centred.wrapping_add(to.value));
                }
            } else {
                let wrap = to.reduce(from.value);
                for (out, &a) in target.iter_mut().zip(source) {
                    let offset = if a > half { wrap } else { 0 };
                    *out = to.subtract(to.reduce(a), offset);
                }
            }
        },
    );
}

/// `values = (values - other) factor`, pointwise.
pub(super) fn subtract_scaled(values: &mut [u64], other: &[u64], q: Modulus, factor: Factor) {
    dispatch(
        #[inline(always)]
        || {
            for (value, &b) in values.iter_mut().zip(other) {
                *value = q.scale(*value + q.value - b, factor);
            }
        },
    );
}

/// `values = values factor`, pointwise.
pub(super) fn scale_row(values: &mut [u64], q: Modulus, factor: Factor) {
    dispatch(
        #[inline(always)]
        || values.iter_mut().for_each(|value| *value = q.scale(*value, factor)),
    );
}

/// `values += other`, pointwise.
pub(super) fn add_row(values: &mut [u64], other: &[u64], q: Modulus) {
    dispatch(
        #[inline(always)]
        || values.iter_mut().zip(other).for_each(|(value, &b)| *value = q.add(*value, b)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PRIMES: [u64; 4] = [0xfff_ffff_ffff_c001, (1 << 40) - 87, 0xffe8_0001, 1_032_193];

    fn element(q: u64) -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(1), Just(q / 2), Just(q / 2 + 1), Just(q - 1), 0..q]
    }

    proptest! {
        #[test]
        fn scalar_operations_agree_with_wide_arithmetic(
            (q, a, b) in prop::sample::select(&PRIMES[..])
                .prop_flat_map(|q| (Just(q), element(q), element(q))),
            word in any::<u64>(),
        ) {
            let m = Modulus::new(q);
            prop_assert_eq!(m.reduce(word), word % q);
            prop_assert_eq!(
                m.reduce_signed(word as i64),
                i128::from(word as i64).rem_euclid(i128::from(q)) as u64
            );
            prop_assert_eq!(m.add(a, b), ((u128::from(a) + u128::from(b)) % u128::from(q)) as u64);
            prop_assert_eq!(m.add(m.subtract(a, b), b), a);
            prop_assert_eq!(m.add(a, m.negate(a)), 0);
            let product = (u128::from(word) * u128::from(b) % u128::from(q)) as u64;
            prop_assert_eq!(m.scale(word, m.factor(b)), product);
        }

        #[test]
        fn lifting_keeps_the_centred_integer(
            (from, a) in prop::sample::select(&PRIMES[..]).prop_flat_map(|q| (Just(q), element(q))),
            to in prop::sample::select(&PRIMES[..]),
        ) {
            let mut out = [0];
            lift(&[a], Modulus::new(from), Modulus::new(to), &mut out);
            let centred = if a > from / 2 { a as i64 - from as i64 } else { a as i64 };
            prop_assert_eq!(out[0], centred.rem_euclid(to as i64) as u64);
        }
    }

    #[test]
    fn an_inverse_times_its_element_is_one() {
        // 2^40 - 87 and 2^20 - 3 are primes.
        for q in [(1_u64 << 40) - 87, (1 << 20) - 3] {
            let m = Modulus::new(q);
            for a in [1, 2, 12_345_678_901, q - 1] {
                assert_eq!(m.scale(m.inverse(a), m.factor(a)), 1);
            }
        }
    }
}
