//! Residues in six bytes each, eight side by side.

use super::modulus::{DEGREE, MODULUS, multiply, transform};
use crate::sample::wipe;
use crate::simd::dispatch;

/// Residues that are computed with at once: a register of AVX-512, two of AVX2.
pub(super) const LANES: usize = 8;

/// Eight residues as the processor wants them.
pub(super) type Lanes = [u64; LANES];

/// Eight residues as they are kept: 48 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Words {
    pub(super) low: [u32; LANES],
    pub(super) high: [u16; LANES],
}

impl Words {
    /// Bytes of eight residues, in memory, on disk and on the wire.
    pub const BYTES: usize = 6 * LANES;

    #[inline(always)]
    pub(super) fn pack(lanes: &Lanes) -> Self {
        Self { low: lanes.map(|value| value as u32), high: lanes.map(|value| (value >> 32) as u16) }
    }

    #[inline(always)]
    pub(super) fn unpack(&self) -> Lanes {
        std::array::from_fn(|l| u64::from(self.low[l]) | u64::from(self.high[l]) << 32)
    }

    fn to_bytes(self, out: &mut Vec<u8>) {
        self.low.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        self.high.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
    }

    fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (low, high) = bytes.split_at(4 * LANES);
        Self {
            low: std::array::from_fn(|l| u32::from_le_bytes(low.as_chunks().0[l])),
            high: std::array::from_fn(|l| u16::from_le_bytes(high.as_chunks().0[l])),
        }
    }
}

/// Polynomials as evaluations, in the order in which products read them: for every eight points,
/// those of all polynomials, one after the other.
#[derive(Clone, PartialEq, Eq)]
pub struct Block {
    words: Vec<Words>,
    polynomials: usize,
}

impl Block {
    pub(super) fn zero(polynomials: usize) -> Self {
        Self { words: vec![Words::default(); DEGREE / LANES * polynomials], polynomials }
    }

    /// How many polynomials it has.
    pub fn polynomials(&self) -> usize {
        self.polynomials
    }

    pub(super) fn words(&self) -> &[Words] {
        &self.words
    }

    /// Sets polynomial number `at` to reduced evaluations.
    pub(super) fn put(&mut self, at: usize, evaluations: &[u64]) {
        dispatch(
            #[inline(always)]
            || {
                let places = self.words[at..].iter_mut().step_by(self.polynomials);
                for (place, lanes) in places.zip(evaluations.as_chunks().0) {
                    *place = Words::pack(lanes);
                }
            },
        );
    }

    /// Writes the evaluations of polynomial number `at`.
    pub(super) fn take(&self, at: usize, evaluations: &mut [u64]) {
        dispatch(
            #[inline(always)]
            || {
                let places = self.words[at..].iter().step_by(self.polynomials);
                for (place, lanes) in places.zip(evaluations.as_chunks_mut().0) {
                    *lanes = place.unpack();
                }
            },
        );
    }

    /// The evaluations of polynomial number `at`: the words as they are stored.
    ///
    /// # Panics
    /// If the block does not have that many.
    pub fn evaluations(&self, at: usize) -> Vec<u64> {
        assert!(at < self.polynomials, "polynomial {at} of {}", self.polynomials);
        let mut values = vec![0; DEGREE];
        self.take(at, &mut values);
        values
    }

    /// The coefficients of polynomial number `at`. It takes no key, so a server can compute them.
    ///
    /// # Panics
    /// If the block does not have that many.
    pub fn coefficients(&self, at: usize) -> Vec<u64> {
        let mut values = self.evaluations(at);
        transform().inverse(&mut values);
        values
    }

    /// Bytes of a block of so many polynomials.
    pub fn byte_len(polynomials: usize) -> usize {
        DEGREE / LANES * polynomials * Words::BYTES
    }

    /// As it is sent and stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::byte_len(self.polynomials));
        self.words.iter().for_each(|words| words.to_bytes(&mut bytes));
        bytes
    }

    /// A block of so many polynomials from its bytes; `None` if they are too few or too many, or a
    /// word is not below the modulus.
    pub fn from_bytes(polynomials: usize, bytes: &[u8]) -> Option<Self> {
        if polynomials == 0 || bytes.len() != Self::byte_len(polynomials) {
            return None;
        }
        let words: Vec<Words> = bytes.as_chunks().0.iter().map(Words::from_bytes).collect();
        let reduced = |words: &Words| words.unpack().iter().all(|&value| value < MODULUS);
        words.iter().all(reduced).then_some(Self { words, polynomials })
    }

    /// Overwrites it with zeros.
    pub(super) fn wipe(&mut self) {
        wipe(&mut self.words);
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} polynomials)", self.polynomials)
    }
}

/// The other factor of products: polynomials as evaluations in the order of a [`Block`], in whole
/// words, divided by the width of a tile: what folding multiplies by is taken out beforehand.
#[derive(Clone)]
pub struct Factor {
    pub(super) lanes: Vec<Lanes>,
    polynomials: usize,
}

impl Factor {
    pub(super) fn zero(polynomials: usize) -> Self {
        Self { lanes: vec![[0; LANES]; DEGREE / LANES * polynomials], polynomials }
    }

    /// How many polynomials it has.
    pub(super) fn polynomials(&self) -> usize {
        self.polynomials
    }

    /// Sets polynomial number `at` to reduced evaluations, times `scale`.
    pub(super) fn put(&mut self, at: usize, evaluations: &[u64], scale: u64) {
        let places = self.lanes[at..].iter_mut().step_by(self.polynomials);
        for (place, lanes) in places.zip(evaluations.as_chunks().0) {
            *place = lanes.map(|value| multiply(value, scale));
        }
    }
}

impl zeroize::Zeroize for Factor {
    fn zeroize(&mut self) {
        self.lanes.iter_mut().for_each(zeroize::Zeroize::zeroize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluations(seed: u64) -> Vec<u64> {
        (0..DEGREE as u64)
            .map(|i| (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) % MODULUS)
            .collect()
    }

    #[test]
    fn polynomials_come_back_from_words_and_from_bytes() {
        let mut block = Block::zero(3);
        (0..3).for_each(|at| block.put(at, &evaluations(at as u64)));
        let bytes = block.to_bytes();
        assert_eq!(bytes.len(), 3 * DEGREE * 6);
        let again = Block::from_bytes(3, &bytes).unwrap();
        assert_eq!(again, block);
        for at in 0..3 {
            let mut taken = vec![0; DEGREE];
            again.take(at, &mut taken);
            assert_eq!(taken, evaluations(at as u64));
            assert_eq!(again.evaluations(at), taken);
            let mut transformed = again.coefficients(at);
            transform().forward(&mut transformed);
            assert_eq!(transformed, taken);
        }
    }

    #[test]
    fn bytes_that_are_no_block_are_refused() {
        let bytes = Block::zero(2).to_bytes();
        assert!(Block::from_bytes(2, &bytes[1..]).is_none());
        assert!(Block::from_bytes(1, &bytes).is_none());
        assert!(Block::from_bytes(0, &[]).is_none());
        let mut above = bytes;
        above[..4].copy_from_slice(&(MODULUS as u32).to_le_bytes());
        above[32..34].copy_from_slice(&((MODULUS >> 32) as u16).to_le_bytes());
        assert!(Block::from_bytes(2, &above).is_none());
    }
}
