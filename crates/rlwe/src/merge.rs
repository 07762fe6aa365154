//! Folding many products into one ciphertext.
//!
//! Two ciphertexts `A` and `B` whose useful coefficients are the multiples of a stride `S`
//! become one whose useful coefficients are the multiples of `S / 2`. With `T = X^(S/2) B` and
//! the automorphism `sigma: X -> X^(1 + 2N/S)`, which fixes `X^S` and negates `X^(S/2)`,
//!
//! ```text
//! merge(A, B) = (A + T) / 2 + sigma((A - T) / 2) .
//! ```
//!
//! At a multiple of `S` this is `A` (`T` cancels), at an odd multiple of `S / 2` it is `T` (`A`
//! cancels). Halving is modulo `q`, so useful values pass unchanged and the noise of one level
//! is not amplified by the next: after `v` levels it is that of the products plus `v` times
//! that of one key switch. A tree over `M` leaves takes `M - 1` merges; a leaf without a partner
//! passes unchanged, since nothing between its targets is read.
//!
//! `sigma` turns an encryption under `s` into one under `sigma(s)`; a key-switching key, an
//! encryption of `2^(w j) sigma(s)` under `s` for each digit `j`, turns it back. These keys make
//! one assumption more than encryption itself does: that publishing encryptions of functions of
//! `s` under `s` is safe (circular security).

use std::sync::Arc;

use rayon::prelude::*;

use crate::buffers::Buffer;
use crate::ciphertext::Seed;
use crate::galois::{Automorphism, monomial, permute_coefficients};
use crate::layout::Layout;
use crate::pack::{PackError, pack, packed_len, unpack};
use crate::parameters::{MODULUS, MODULUS_BITS, RingDegree};
use crate::ring::{Coefficients, Evaluations, Poly, Ring, add, negate, reduce_signed};
use crate::sample::{Entropy, Stream, add_error, uniform};
use crate::secret::SecretKey;
use crate::simd::dispatch;

/// Bits of a digit of the decomposition.
const DIGIT_BITS: u32 = 17;

/// Below this many levels a block of leaves is folded by one core.
const SEQUENTIAL_LEVELS: u32 = 3;

/// Digits that cover the modulus.
pub(crate) const DIGITS: usize = MODULUS_BITS.div_ceil(DIGIT_BITS) as usize;

/// Variance of the noise that one key switch adds to a coefficient: `digits` inner products of
/// balanced digits with fresh errors.
pub(crate) fn key_switch_variance(degree: RingDegree) -> f64 {
    let digit = 4_f64.powi(DIGIT_BITS as i32) / 12.0;
    DIGITS as f64 * degree.coefficients() as f64 * digit * crate::sample::ERROR_VARIANCE
}

/// Which merges a set of keys can do: strides `2^top`, `2^(top - 1)`, ..., `levels` of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MergeSpan {
    /// `log2` of the largest stride.
    pub top: u32,
    /// Number of strides.
    pub levels: u32,
}

impl MergeSpan {
    /// The merges that a layout needs for this many operands; `None` when it needs none.
    pub fn of(layout: &Layout, operands: usize) -> Option<Self> {
        let levels = layout.levels(operands.min(layout.capacity()));
        (levels > 0).then(|| Self { top: layout.stride().ilog2(), levels })
    }

    /// The smallest span that covers both.
    pub fn union(self, other: Self) -> Self {
        let top = self.top.max(other.top);
        let bottom = (self.top - self.levels).min(other.top - other.levels);
        Self { top, levels: top - bottom }
    }

    /// Whether it covers another.
    pub fn covers(self, other: Self) -> bool {
        self.union(other) == self
    }

    /// Whether the strides exist in a ring and the span is not empty.
    pub fn fits(self, degree: RingDegree) -> bool {
        (1..=self.top).contains(&self.levels) && self.top <= degree.log2()
    }

    /// Bytes of the keys on the wire, apart from their seed.
    pub fn byte_len(self, degree: RingDegree) -> usize {
        self.levels as usize * DIGITS * packed_len(degree.coefficients(), MODULUS_BITS)
    }
}

/// Key-switching keys as they travel: the uniform halves are expanded from the seed.
#[derive(Clone, PartialEq, Eq)]
pub struct MergeKeys {
    degree: RingDegree,
    span: MergeSpan,
    seed: Seed,
    packed: Vec<u8>,
}

impl MergeKeys {
    /// Keys for a span under a secret. Randomness that nothing else may use.
    pub(crate) fn generate(
        ring: &Ring,
        secret: &SecretKey,
        span: MergeSpan,
        entropy: &Entropy,
    ) -> Self {
        let n = ring.degree().coefficients();
        let polys: Vec<Vec<u8>> = (0..span.levels as usize * DIGITS)
            .into_par_iter()
            .map(|index| {
                let (level, digit) = (index / DIGITS, index % DIGITS);
                let g = galois_element(ring.degree(), span.top - level as u32);
                let number = index as u32;
                let a = uniform(ring.degree(), &entropy.public, Stream::MergeUniform(number));
                let mut product = Poly::<Evaluations>::zero(ring.degree());
                ring.multiply_accumulate(product.values_mut(), a.values(), secret.evaluations());
                let mut b = ring.inverse(product);
                b.values_mut().iter_mut().for_each(|v| *v = negate(*v));
                add_error(b.values_mut(), &entropy.secret, Stream::MergeError(number));
                let weight = 1_i64 << (DIGIT_BITS * digit as u32);
                secret.permuted(g, |target, s| {
                    let value = &mut b.values_mut()[target];
                    *value = add(*value, reduce_signed(weight * i64::from(s)));
                });
                let mut packed = Vec::with_capacity(packed_len(n, MODULUS_BITS));
                pack(b.values().iter().copied(), MODULUS_BITS, &mut packed);
                packed
            })
            .collect();
        Self { degree: ring.degree(), span, seed: Seed(entropy.public), packed: polys.concat() }
    }

    /// Takes keys from the wire.
    pub fn from_bytes(
        degree: RingDegree,
        span: MergeSpan,
        seed: Seed,
        bytes: &[u8],
    ) -> Result<Self, PackError> {
        let expected = span.byte_len(degree);
        if bytes.len() != expected {
            return Err(PackError::Length { expected, actual: bytes.len() });
        }
        Ok(Self { degree, span, seed, packed: bytes.to_vec() })
    }

    /// Ring degree.
    pub fn degree(&self) -> RingDegree {
        self.degree
    }

    /// What they can merge.
    pub fn span(&self) -> MergeSpan {
        self.span
    }

    /// Seed of the uniform halves.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The wire form of the other halves.
    pub fn as_bytes(&self) -> &[u8] {
        &self.packed
    }

    /// Expands and transforms the keys, on all cores.
    pub fn prepare(&self) -> PreparedMergeKeys {
        let ring = Ring::shared(self.degree);
        let size = packed_len(self.degree.coefficients(), MODULUS_BITS);
        let digits: Vec<Digit> = self
            .packed
            .par_chunks_exact(size)
            .enumerate()
            .map(|(index, packed)| {
                let mut b = Poly::<Coefficients>::zero(self.degree);
                let values = b.values_mut();
                // Every value is accepted; those between q and 2^50 are reduced.
                unpack(packed, MODULUS_BITS, values.len(), |i, v| values[i] = add(v, 0))
                    .expect("the length was checked when the keys were made");
                let stream = Stream::MergeUniform(index as u32);
                Digit { b: ring.forward(b), a: uniform(self.degree, &self.seed.0, stream) }
            })
            .collect();
        let mut digits = digits.into_iter();
        let levels = (0..self.span.levels)
            .map(|level| {
                let stride = self.span.top - level;
                let g = galois_element(self.degree, stride);
                Level {
                    g,
                    automorphism: Automorphism::new(self.degree.coefficients(), g),
                    shift: monomial(&ring, 1 << (stride - 1)),
                    digits: digits.by_ref().take(DIGITS).collect(),
                }
            })
            .collect();
        PreparedMergeKeys { ring, span: self.span, levels }
    }
}

impl std::fmt::Debug for MergeKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MergeKeys({:?}, {} bytes)", self.span, self.packed.len())
    }
}

/// `1 + 2N / S` for the stride `S = 2^log_stride`.
fn galois_element(degree: RingDegree, log_stride: u32) -> usize {
    1 + ((2 * degree.coefficients()) >> log_stride)
}

struct Digit {
    b: Poly<Evaluations>,
    a: Poly<Evaluations>,
}

/// Keys of one stride, ready for use.
struct Level {
    g: usize,
    automorphism: Automorphism,
    /// `X^(S/2)`.
    shift: Poly<Evaluations>,
    digits: Vec<Digit>,
}

/// Keys ready for use. They hold no secret: they allow merging, not decryption.
pub struct PreparedMergeKeys {
    ring: Arc<Ring>,
    span: MergeSpan,
    levels: Vec<Level>,
}

/// A ciphertext `(c0, c1)` as evaluations.
pub(crate) struct Pair {
    pub(crate) c0: Buffer,
    pub(crate) c1: Buffer,
}

impl PreparedMergeKeys {
    /// What they can merge.
    pub fn span(&self) -> MergeSpan {
        self.span
    }

    /// The degree they are for.
    pub fn degree(&self) -> RingDegree {
        self.ring.degree()
    }

    /// Memory they hold, for a budget.
    pub fn bytes(&self) -> usize {
        let n = self.ring.degree().coefficients();
        self.levels.len() * ((2 * DIGITS + 1) * n * 8 + n * 4)
    }

    /// Folds `count` leaves into one, whose targets are those of [`Layout::targets`]. Depth
    /// first, so that what is merged was made last and is still in the cache; on all cores.
    pub(crate) fn fold(
        &self,
        count: usize,
        log_stride: u32,
        leaf: &(impl Fn(usize) -> Pair + Sync),
    ) -> Pair {
        let first_level = (self.span.top - log_stride) as usize;
        let levels = count.next_power_of_two().ilog2();
        self.fold_block(0, levels, count, first_level, leaf)
    }

    /// Folds the leaves from `first` to `first + 2^levels`, as far as they exist; leaf `first` does.
    fn fold_block(
        &self,
        first: usize,
        levels: u32,
        count: usize,
        first_level: usize,
        leaf: &(impl Fn(usize) -> Pair + Sync),
    ) -> Pair {
        if levels == 0 {
            return leaf(first);
        }
        let half = |first| self.fold_block(first, levels - 1, count, first_level, leaf);
        let middle = first + (1 << (levels - 1));
        if middle >= count {
            return half(first);
        }
        let (left, right) = if levels > SEQUENTIAL_LEVELS {
            rayon::join(|| half(first), || half(middle))
        } else {
            (half(first), half(middle))
        };
        self.merge(&self.levels[first_level + levels as usize - 1], left, right)
    }

    fn merge(&self, keys: &Level, left: Pair, right: Pair) -> Pair {
        let ring = &self.ring;
        let (Pair { c0: mut e0, c1: mut e1 }, Pair { c0: mut d0, c1: mut d1 }) = (left, right);
        for (e, d) in [(&mut e0, &mut d0), (&mut e1, &mut d1)] {
            let mut shifted = ring.zeroed_buffer();
            ring.multiply_accumulate(&mut shifted, keys.shift.values(), d);
            halve_sum_and_difference(e, d, &shifted);
        }
        keys.automorphism.add_to(&d0, &mut e0, add);
        ring.inverse_in_place(&mut d1);
        let mut digits: [Buffer; DIGITS] = std::array::from_fn(|_| ring.buffer());
        decompose(keys.g, &d1, digits.each_mut().map(|digit| &mut digit[..]));
        for (digit, key) in digits.iter_mut().zip(&keys.digits) {
            ring.forward_in_place(digit);
            ring.multiply_accumulate(&mut e0, key.b.values(), digit);
            ring.multiply_accumulate(&mut e1, key.a.values(), digit);
        }
        Pair { c0: e0, c1: e1 }
    }
}

/// `(sum, difference) <- ((a + t) / 2, (a - t) / 2)`, `a` in `sum`.
fn halve_sum_and_difference(sum: &mut [u64], difference: &mut [u64], t: &[u64]) {
    dispatch(
        #[inline(always)]
        || {
            for ((sum, difference), &t) in sum.iter_mut().zip(difference.iter_mut()).zip(t) {
                let a = *sum;
                *sum = halve(add(a, t));
                *difference = halve(add(a, negate(t)));
            }
        },
    );
}

/// `a / 2` modulo `q`: the even one of `a` and `a + q`, halved.
#[inline(always)]
fn halve(a: u64) -> u64 {
    (a + (MODULUS & (a & 1).wrapping_neg())) >> 1
}

/// Balanced digits of `sigma(c)`: `c = sum_j d_j 2^(17 j)` with `|d_j| <= 2^16` for all but the
/// last, which takes what is left.
fn decompose(g: usize, c: &[u64], mut digits: [&mut [u64]; DIGITS]) {
    const HALF: i64 = 1 << (DIGIT_BITS - 1);
    permute_coefficients(g, c, |target, value| {
        let mut rest = value as i64 - (MODULUS as i64 & -i64::from(value > MODULUS / 2));
        for digit in &mut digits[..DIGITS - 1] {
            let low = ((rest + HALF) & (2 * HALF - 1)) - HALF;
            digit[target] = reduce_signed(low);
            rest = (rest - low) >> DIGIT_BITS;
        }
        digits[DIGITS - 1][target] = reduce_signed(rest);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn digits_recompose_and_are_small(value in 0..MODULUS) {
            let mut digits = [0_u64; DIGITS];
            decompose(1, &[value], digits.each_mut().map(std::slice::from_mut));
            let signed: Vec<i64> = digits
                .iter()
                .map(|&d| if d > MODULUS / 2 { d as i64 - MODULUS as i64 } else { d as i64 })
                .collect();
            let sum: i64 = signed.iter().enumerate().map(|(j, d)| d << (DIGIT_BITS * j as u32)).sum();
            prop_assert_eq!(reduce_signed(sum), value);
            prop_assert!(signed.iter().all(|d| d.abs() <= 1 << (DIGIT_BITS - 1)));
        }

        #[test]
        fn halving_undoes_doubling(a in 0..MODULUS) {
            prop_assert_eq!(add(halve(a), halve(a)), a);
        }
    }

    #[test]
    fn spans_cover_what_they_should() {
        let wide = MergeSpan { top: 11, levels: 7 };
        let narrow = MergeSpan { top: 9, levels: 5 };
        assert!(wide.covers(narrow) && !narrow.covers(wide));
        assert_eq!(narrow.union(wide), wide);
        assert!(
            wide.fits(RingDegree::N2048)
                && !MergeSpan { top: 12, levels: 1 }.fits(RingDegree::N2048)
        );
        assert!(!MergeSpan { top: 5, levels: 6 }.fits(RingDegree::N2048));
        assert!(!MergeSpan { top: 5, levels: 0 }.fits(RingDegree::N2048));
    }
}
