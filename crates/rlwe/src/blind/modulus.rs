//! Arithmetic modulo the prime of blind collections, `2^48 - 2^14 + 1`.

use std::sync::OnceLock;

use crate::ntt::{Backend, Ntt};
use crate::parameters::RingDegree;
use crate::prime::invert;

/// The prime `q`: a word is six bytes, a product of two fits the 52-bit multiply-add with room for
/// every sum that is taken, and `2^48 = 2^14 - 1 (mod q)` makes reduction shifts and adds.
pub const MODULUS: u64 = 0xffff_ffff_c001;

/// Bits of [`MODULUS`].
pub const MODULUS_BITS: u32 = 48;

/// The ring degree `N` of blind collections.
pub const DEGREE: usize = 2048;

/// `2^48 mod q`.
const EXCESS: u128 = (1 << MODULUS_BITS) - MODULUS as u128;

const MASK: u128 = (1 << MODULUS_BITS) - 1;

/// The residue of any number below `2^116`: each of three folds takes the bits above the 48th, times
/// `2^14 - 1`, to those below.
#[inline(always)]
pub(super) fn reduce(value: u128) -> u64 {
    let once = (value >> MODULUS_BITS) * EXCESS + (value & MASK); // below 2^83
    let twice = (once >> MODULUS_BITS) * EXCESS + (once & MASK); // below 2^50
    let folded = ((twice >> MODULUS_BITS) * EXCESS + (twice & MASK)) as u64; // below 2^48 + 2^16
    folded.min(folded.wrapping_sub(MODULUS))
}

/// `a b mod q`.
#[inline(always)]
pub(super) fn multiply(a: u64, b: u64) -> u64 {
    reduce(u128::from(a) * u128::from(b))
}

/// `a + b mod q` for reduced operands.
#[inline(always)]
pub(super) fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    sum.min(sum.wrapping_sub(MODULUS))
}

/// `a - b mod q` for reduced operands.
#[inline(always)]
pub(super) fn subtract(a: u64, b: u64) -> u64 {
    add(a, MODULUS - b)
}

/// The residue of a number between `-q` and `q`, without a branch on its sign.
#[inline(always)]
pub(super) fn reduce_signed(value: i64) -> u64 {
    (value + ((value >> 63) & MODULUS as i64)) as u64
}

/// The representative of a residue between `-q / 2` and `q / 2`.
#[inline(always)]
pub(super) fn centred(residue: u64) -> i64 {
    residue as i64 - (MODULUS as i64 & -i64::from(residue > MODULUS / 2))
}

/// `round(2^bits c / q) mod 2^bits`, by one multiplication with `round(2^(64 + bits) / q)`: before
/// rounding the result is off by at most `q / 2^65`. `bits` is at most 32.
#[derive(Clone, Copy)]
pub(super) struct Switch {
    reciprocal: u64,
    bits: u32,
}

impl Switch {
    pub(super) fn to(bits: u32) -> Self {
        let (numerator, q) = (1_u128 << (64 + bits), u128::from(MODULUS));
        Self { reciprocal: ((numerator + q / 2) / q) as u64, bits }
    }

    #[inline(always)]
    pub(super) fn apply(self, residue: u64) -> u64 {
        let scaled = u128::from(residue) * u128::from(self.reciprocal) + (1 << 63);
        (scaled >> 64) as u64 & ((1 << self.bits) - 1)
    }

    /// `floor(y q / 2^bits)`: the residue that switched to `y`, to within `q / 2^bits`. With
    /// `q = 2^48 - e` it is `2^(48 - bits) y - ceil(y e / 2^bits)`, which fits a word.
    #[inline(always)]
    pub(super) fn lift(self, switched: u64) -> u64 {
        let whole = switched << (MODULUS_BITS - self.bits);
        whole - ((switched * EXCESS as u64 + (1 << self.bits) - 1) >> self.bits)
    }
}

/// The transform of degree [`DEGREE`].
pub(super) fn transform() -> &'static dyn Ntt {
    static TRANSFORM: OnceLock<Box<dyn Ntt>> = OnceLock::new();
    &**TRANSFORM.get_or_init(|| {
        let degree = RingDegree::new(DEGREE).expect("2048 is a supported degree");
        Backend::from_environment().unwrap_or_default().build_over(degree, MODULUS)
    })
}

/// `n^-1 mod q`.
pub(super) fn inverse_of(n: usize) -> u64 {
    invert(n as u64, MODULUS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prime::is_prime;
    use proptest::prelude::*;

    #[test]
    fn the_modulus_is_a_prime_with_a_transform() {
        assert!(is_prime(MODULUS));
        assert_eq!(MODULUS % (2 * DEGREE as u64), 1);
        assert_eq!(MODULUS.ilog2() + 1, MODULUS_BITS);
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_wide_integers(
            value in 0_u128..1 << 116, a in 0..MODULUS, b in 0..MODULUS, bits in 12_u32..=32,
        ) {
            let q = u128::from(MODULUS);
            prop_assert_eq!(u128::from(reduce(value)), value % q);
            prop_assert_eq!(u128::from(multiply(a, b)), u128::from(a) * u128::from(b) % q);
            prop_assert_eq!(add(a, b), (a + b) % MODULUS);
            prop_assert_eq!(add(subtract(a, b), b), a);
            prop_assert_eq!(reduce_signed(centred(a)), a);
            prop_assert!(centred(a).unsigned_abs() <= MODULUS / 2);
            let switch = Switch::to(bits);
            let exact = |y: u64| ((u128::from(y) * q) >> bits) as u64;
            prop_assert_eq!(switch.lift(a >> (48 - bits)), exact(a >> (48 - bits)));
            let off = centred(subtract(switch.lift(switch.apply(a)), a)).unsigned_abs();
            prop_assert!(off <= (MODULUS >> bits) / 2 + 2, "{} at {} bits", off, bits);
        }

        #[test]
        fn the_edges_reduce(low in 0_u128..3, multiple in 0_u128..1 << 60) {
            let value = multiple * u128::from(MODULUS) + low;
            prop_assert_eq!(u128::from(reduce(value)), low);
        }
    }
}
