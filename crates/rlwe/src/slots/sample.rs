//! Seeds into polynomials of the chain: uniform, ternary, centred binomial.
//!
//! The same expansion as the coefficient layout's (AES-256 in counter mode, one stream per
//! polynomial), over several primes.

use aes::Aes256;
use ctr::cipher::{KeyIvInit, StreamCipher};
use zeroize::Zeroizing;

use crate::sample::ETA;

/// What a stream is expanded for. The number is the first word of its counter block.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Public uniform halves of keys.
    Uniform = 0x51,
    /// The ternary secret.
    Secret = 0x52,
    /// Errors of keys.
    KeyError = 0x53,
    /// The ternary masks of public-key encryption.
    Mask = 0x54,
    /// Errors of ciphertexts.
    Error = 0x55,
}

/// AES-256-CTR words of one stream.
pub(super) struct Expander(ctr::Ctr128BE<Aes256>);

impl Expander {
    /// Stream number `index` for one purpose.
    pub(super) fn new(key: &[u8; 32], purpose: Purpose, index: u32) -> Self {
        let mut block = [0_u8; 16]; // purpose, index, then a 64-bit block counter from zero
        block[..4].copy_from_slice(&(purpose as u32).to_be_bytes());
        block[4..8].copy_from_slice(&index.to_be_bytes());
        Self(ctr::Ctr128BE::new(key.into(), &block.into()))
    }

    fn words(&mut self, count: usize) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(vec![0_u8; count * 8]);
        self.0.apply_keystream(&mut bytes);
        bytes
    }

    /// Fills a row with values uniform below `prime`; words that round above it are skipped.
    pub(super) fn uniform(&mut self, prime: u64, row: &mut [u64]) {
        let shift = prime.leading_zeros();
        let mut filled = 0;
        while filled < row.len() {
            let bytes = self.words(row.len() - filled);
            for value in as_words(&bytes).map(|w| w >> shift).filter(|&v| v < prime) {
                row[filled] = value;
                filled += 1;
            }
        }
    }

    /// Coefficients uniform in `{-1, 0, 1}`: `floor(3 w / 2^64) - 1` for a word `w`, constant
    /// in time, off uniform by less than `2^-62`.
    pub(super) fn ternary(&mut self, count: usize) -> Zeroizing<Vec<i64>> {
        let bytes = self.words(count);
        Zeroizing::new(as_words(&bytes).map(|w| ((u128::from(w) * 3) >> 64) as i64 - 1).collect())
    }

    /// Coefficients of the centred binomial distribution.
    pub(super) fn error(&mut self, count: usize) -> Zeroizing<Vec<i64>> {
        let mask = (1_u64 << ETA) - 1;
        let bytes = self.words(count);
        let difference = |w: u64| {
            i64::from((w & mask).count_ones()) - i64::from(((w >> ETA) & mask).count_ones())
        };
        Zeroizing::new(as_words(&bytes).map(difference).collect())
    }
}

fn as_words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("chunks of eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::ERROR_VARIANCE;

    fn moments(values: &[i64]) -> (f64, f64) {
        let count = values.len() as f64;
        let mean = values.iter().sum::<i64>() as f64 / count;
        (mean, values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>() / count)
    }

    #[test]
    fn errors_and_secrets_have_their_variances_and_no_bias() {
        let (mean, variance) = moments(&Expander::new(&[3; 32], Purpose::Error, 0).error(1 << 17));
        assert!(mean.abs() < 0.05 && (variance / ERROR_VARIANCE - 1.0).abs() < 0.03);
        let (mean, variance) =
            moments(&Expander::new(&[3; 32], Purpose::Secret, 0).ternary(1 << 17));
        assert!(mean.abs() < 0.01 && (variance * 1.5 - 1.0).abs() < 0.02);
    }

    #[test]
    fn uniform_rows_stay_below_their_prime_and_reach_both_ends() {
        for prime in [0x0fff_ffff_fffc_0001_u64, (1 << 40) - 87, 12_289] {
            let mut row = vec![0; 1 << 15];
            Expander::new(&[5; 32], Purpose::Uniform, 7).uniform(prime, &mut row);
            assert!(row.iter().all(|&v| v < prime));
            let share = |low: u64| {
                row.iter().filter(|&&v| v >= low && v - low < prime / 8).count() as f64 / 32_768.0
            };
            for eighth in 0..8 {
                assert!((share(prime / 8 * eighth) - 0.125).abs() < 0.012, "{prime} {eighth}");
            }
        }
    }

    #[test]
    fn purposes_and_indices_give_different_streams() {
        let first = |purpose, index| Expander::new(&[1; 32], purpose, index).error(32).to_vec();
        assert_ne!(first(Purpose::Mask, 0), first(Purpose::Error, 0));
        assert_ne!(first(Purpose::Error, 0), first(Purpose::Error, 1));
    }
}
