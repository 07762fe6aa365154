//! Where randomness comes from and how it becomes polynomials.
//!
//! Seeds are expanded with AES-256 in counter mode (four times faster than ChaCha20 where AES
//! instructions exist). Each polynomial has its own stream number, so one key never produces
//! the same words for two purposes.

use aes::Aes256;
use ctr::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::parameters::{MODULUS, RingDegree};
use crate::ring::{Evaluations, Poly, add, reduce_signed};
use crate::simd::dispatch;

/// Centred binomial parameter: the error is a sum of `ETA` differences of bits.
pub(crate) const ETA: u32 = 21;

/// Variance of one error coefficient, `ETA / 2` (a deviation of 3.24).
pub const ERROR_VARIANCE: f64 = ETA as f64 / 2.0;

/// The operating system gave no randomness.
#[derive(Debug, thiserror::Error)]
#[error("the operating system's random generator failed: {0}")]
pub struct EntropyError(#[from] getrandom::Error);

/// Fills bytes from the operating system's generator, for names that must not repeat.
pub fn fill_from_os(bytes: &mut [u8]) -> Result<(), EntropyError> {
    Ok(getrandom::fill(bytes)?)
}

/// Randomness for exactly one request: moved into a [`RequestKey`](crate::RequestKey), never
/// copied, never derived from a long-lived secret. A restored snapshot or a second client
/// therefore cannot repeat it.
#[derive(ZeroizeOnDrop)]
pub struct Entropy {
    pub(crate) public: [u8; 32],
    pub(crate) secret: [u8; 32],
}

impl Entropy {
    /// Fresh bytes from the operating system's generator.
    pub fn from_os() -> Result<Self, EntropyError> {
        let mut entropy = Self { public: [0; 32], secret: [0; 32] };
        getrandom::fill(&mut entropy.public)?;
        getrandom::fill(&mut entropy.secret)?;
        Ok(entropy)
    }

    /// Fixed bytes for golden vectors. A key made from them protects nothing.
    #[cfg(test)]
    pub fn fixed(public: [u8; 32], secret: [u8; 32]) -> Self {
        Self { public, secret }
    }
}

/// What an expanded stream is used for; part of the counter block.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    /// The uniform part of ciphertext number `i`.
    Uniform(u32),
    /// The ternary secret.
    Secret,
    /// The error of ciphertext number `i`.
    Error(u32),
    /// The uniform part of merge-key polynomial number `i`.
    MergeUniform(u32),
    /// The error of merge-key polynomial number `i`.
    MergeError(u32),
    /// Ternary secret number `i` of several.
    Trits(u32),
    /// Words that say how the terms of check number `i` are turned.
    Turns(u32),
}

/// AES-256-CTR words of one stream.
struct Expander(ctr::Ctr128BE<Aes256>);

impl Expander {
    fn new(key: &[u8; 32], stream: Stream) -> Self {
        let (purpose, index) = match stream {
            Stream::Uniform(index) => (1_u32, index),
            Stream::Secret => (2, 0),
            Stream::Error(index) => (3, index),
            Stream::MergeUniform(index) => (4, index),
            Stream::MergeError(index) => (5, index),
            Stream::Trits(index) => (6, index),
            Stream::Turns(index) => (7, index),
        };
        let mut block = [0_u8; 16]; // purpose, index, then a 64-bit block counter from zero
        block[..4].copy_from_slice(&purpose.to_be_bytes());
        block[4..8].copy_from_slice(&index.to_be_bytes());
        Self(ctr::Ctr128BE::new(key.into(), &block.into()))
    }

    /// Leaves words out.
    fn skip(&mut self, words: usize) {
        self.0.seek(words as u64 * 8);
    }

    /// Calls `sink(values, words)` for each run of values with as many of the next words. Words
    /// stay in a small buffer that is wiped at the end.
    fn fill<T>(&mut self, values: &mut [T], mut sink: impl FnMut(&mut [T], &[[u8; 8]])) {
        let mut bytes = [0_u8; RUN * 8];
        for run in values.chunks_mut(RUN) {
            let bytes = &mut bytes[..run.len() * 8];
            bytes.fill(0);
            self.0.apply_keystream(bytes);
            sink(run, bytes.as_chunks().0);
        }
        wipe(&mut bytes[..values.len().min(RUN) * 8]);
    }
}

/// Overwrites memory that is about to go. Much faster than one volatile write per byte; that the
/// writes happen is what `black_box` is for.
pub(crate) fn wipe<T: Copy + Default>(values: &mut [T]) {
    values.fill(T::default());
    std::hint::black_box(values);
}

/// Words expanded at once: enough to keep the cipher's pipeline full, few enough for the cache.
const RUN: usize = 256;

/// A uniform polynomial, sampled directly as evaluations: a uniform vector stays uniform under
/// the transform, so the transform is saved. Words at or above `q` are skipped.
pub(crate) fn uniform(degree: RingDegree, seed: &[u8; 32], stream: Stream) -> Poly<Evaluations> {
    let mut poly = Poly::zero(degree);
    fill_uniform(poly.values_mut(), seed, stream, MODULUS);
    poly
}

/// [`uniform`] into existing memory, for any prime.
pub(crate) fn fill_uniform(values: &mut [u64], seed: &[u8; 32], stream: Stream, modulus: u64) {
    let mut expander = Expander::new(seed, stream);
    let mut reduced = draw_candidates(&mut expander, values, modulus);
    let mut kept = 0;
    while !reduced {
        // Rare, one polynomial in 250,000: skip the words above `q` and draw as many more.
        let first = kept;
        for at in first..values.len() {
            if values[at] < modulus {
                values.swap(kept, at);
                kept += 1;
            }
        }
        reduced = draw_candidates(&mut expander, &mut values[kept..], modulus);
    }
}

/// The next words cut to the bits of `q`; whether all are below it.
fn draw_candidates(expander: &mut Expander, values: &mut [u64], modulus: u64) -> bool {
    let mut reduced = true;
    let unused = modulus.leading_zeros();
    expander.fill(values, |values, words| {
        dispatch(
            #[inline(always)]
            || {
                for (value, word) in values.iter_mut().zip(words) {
                    *value = u64::from_le_bytes(*word) >> unused;
                    reduced &= *value < modulus;
                }
            },
        );
    });
    reduced
}

/// A secret with coefficients uniform in `{-1, 0, 1}`: `floor(3 w / 2^64) - 1` for a word `w`,
/// constant in time, off uniform by less than `2^-62`.
pub(crate) fn ternary(degree: RingDegree, key: &[u8; 32]) -> Zeroizing<Vec<i8>> {
    let mut secret = Zeroizing::new(vec![0_i8; degree.coefficients()]);
    Expander::new(key, Stream::Secret).fill(&mut secret, |secret, words| {
        for (coefficient, word) in secret.iter_mut().zip(words) {
            *coefficient = ((u128::from(u64::from_le_bytes(*word)) * 3) >> 64) as i8 - 1;
        }
    });
    secret
}

/// Adds a centred binomial error to reduced coefficients in place.
pub(crate) fn add_error(values: &mut [u64], key: &[u8; 32], stream: Stream) {
    each_error(values, key, stream, 0, |value, error| *value = add(*value, reduce_signed(error)));
}

/// Hands every value its centred binomial error: to `values[k]` goes number `first + k` of the
/// stream, so that a part of a polynomial's errors can be had without the rest.
#[inline(always)]
pub(crate) fn each_error<T>(
    values: &mut [T],
    key: &[u8; 32],
    stream: Stream,
    first: usize,
    sink: impl Fn(&mut T, i64),
) {
    let mask = (1_u64 << ETA) - 1;
    let mut expander = Expander::new(key, stream);
    expander.skip(first);
    expander.fill(values, |values, words| {
        dispatch(
            #[inline(always)]
            || {
                for (value, word) in values.iter_mut().zip(words) {
                    let word = u64::from_le_bytes(*word);
                    let ones = (word & mask).count_ones() as i64;
                    let zeros = ((word >> ETA) & mask).count_ones() as i64;
                    sink(value, ones - zeros);
                }
            },
        );
    });
}

/// The first words of a stream.
pub(crate) fn fill_words(values: &mut [u64], key: &[u8; 32], stream: Stream) {
    fill_words_from(values, key, stream, 0);
}

/// One word of a stream, by its number.
pub(crate) fn word_at(key: &[u8; 32], stream: Stream, number: usize) -> u64 {
    let mut word = [0];
    fill_words_from(&mut word, key, stream, number);
    word[0]
}

fn fill_words_from(values: &mut [u64], key: &[u8; 32], stream: Stream, first: usize) {
    let mut expander = Expander::new(key, stream);
    expander.skip(first);
    expander.fill(values, |values, words| {
        values.iter_mut().zip(words).for_each(|(value, word)| *value = u64::from_le_bytes(*word));
    });
}

/// Trits that one byte gives: `3^5 = 243`.
const TRITS: usize = 5;

/// Uniform values in `{-1, 0, 1}`, five of each byte below 243; other bytes are skipped. A fortieth
/// of the words that [`ternary`] takes. What is skipped says nothing of what is kept, and the digits
/// are found without a branch or a table: value `k n + i` is digit `k` of byte `i`, where `n` bytes
/// are enough for all.
///
/// # Panics
/// For more than 2048 values.
pub(crate) fn fill_trits(values: &mut [i8], key: &[u8; 32], stream: Stream) {
    const MOST: usize = 2048_usize.div_ceil(TRITS);
    const DRAWN: usize = 512;
    let count = values.len().div_ceil(TRITS);
    let mut expander = Expander::new(key, stream);
    let (mut drawn, mut kept) = ([0_u8; DRAWN], [0_u8; MOST + DRAWN]);
    let mut filled = 0;
    while filled < count {
        drawn.fill(0);
        expander.0.apply_keystream(&mut drawn);
        for eight in drawn.as_chunks::<8>().0 {
            if eight.iter().all(|&byte| byte < 243) {
                kept[filled..filled + 8].copy_from_slice(eight);
                filled += 8;
            } else {
                for &byte in eight {
                    kept[filled] = byte;
                    filled += usize::from(byte < 243);
                }
            }
        }
    }
    for digits in values.chunks_mut(count) {
        dispatch(
            #[inline(always)]
            || {
                for (value, byte) in digits.iter_mut().zip(&mut kept) {
                    let third = ((u16::from(*byte) * 171) >> 9) as u8; // floor(byte / 3)
                    *value = (*byte - 3 * third) as i8 - 1;
                    *byte = third;
                }
            },
        );
    }
    wipe(&mut drawn);
    wipe(&mut kept[..filled]);
}

impl std::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entropy(..)")
    }
}

impl Zeroize for Entropy {
    fn zeroize(&mut self) {
        self.public.zeroize();
        self.secret.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn centred(value: u64) -> f64 {
        if value > MODULUS / 2 { value as f64 - MODULUS as f64 } else { value as f64 }
    }

    #[test]
    fn error_has_the_stated_variance_and_no_bias() {
        let n = 1 << 15;
        let mut values = vec![0_u64; n * 4];
        add_error(&mut values, &[7; 32], Stream::Error(0));
        let mean = values.iter().map(|&v| centred(v)).sum::<f64>() / values.len() as f64;
        let variance =
            values.iter().map(|&v| centred(v).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.05, "{mean}");
        assert!((variance / ERROR_VARIANCE - 1.0).abs() < 0.03, "{variance}");
        assert!(values.iter().all(|&v| centred(v).abs() <= f64::from(ETA)));
    }

    #[test]
    fn ternary_takes_each_value_a_third_of_the_time() {
        let secret = ternary(RingDegree::new(32_768).unwrap(), &[9; 32]);
        for wanted in [-1, 0, 1] {
            let share = secret.iter().filter(|&&v| v == wanted).count() as f64 / 32_768.0;
            assert!((share - 1.0 / 3.0).abs() < 0.015, "{wanted}: {share}");
        }
    }

    #[test]
    fn trits_take_each_value_a_third_of_the_time_wherever_they_are() {
        let mut trits = vec![0; 2048 * 16];
        for (run, trits) in trits.chunks_mut(2048).enumerate() {
            fill_trits(trits, &[9; 32], Stream::Trits(run as u32));
        }
        for part in trits.chunks(2048 * 4) {
            for wanted in [-1, 0, 1] {
                let share = part.iter().filter(|&&v| v == wanted).count() as f64 / 8192.0;
                assert!((share - 1.0 / 3.0).abs() < 0.03, "{wanted}: {share}");
            }
        }
        let (mut one, mut other) = ([0; 7], [0; 7]);
        fill_trits(&mut one, &[1; 32], Stream::Trits(0));
        fill_trits(&mut other, &[2; 32], Stream::Trits(0));
        assert_ne!(one, other);
    }

    #[test]
    fn uniform_fills_the_whole_range() {
        let poly = uniform(RingDegree::new(32_768).unwrap(), &[3; 32], Stream::Uniform(5));
        let mean = poly.values().iter().map(|&v| v as f64 / MODULUS as f64).sum::<f64>() / 32_768.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        for eighth in 0..8 {
            let low = MODULUS / 8 * eighth;
            let count =
                poly.values().iter().filter(|&&v| v >= low && v < low + MODULUS / 8).count();
            assert!((3700..4500).contains(&count), "{eighth}: {count}");
        }
    }

    #[test]
    fn streams_of_one_key_differ() {
        let degree = RingDegree::N2048;
        let words = |seed, stream| uniform(degree, &[seed; 32], stream).values().to_vec();
        let first = words(1, Stream::Uniform(0));
        assert_ne!(first, words(1, Stream::Uniform(1)));
        assert_ne!(first, words(2, Stream::Uniform(0)));
        assert_ne!(first, words(1, Stream::MergeUniform(0)));
    }

    #[test]
    fn operating_system_entropy_does_not_repeat() {
        let (a, b) = (Entropy::from_os().unwrap(), Entropy::from_os().unwrap());
        assert!(a.public != b.public && a.secret != b.secret && a.public != a.secret);
    }
}
