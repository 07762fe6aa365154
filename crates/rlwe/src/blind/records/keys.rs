//! The client's side: hints, queries, and what opens their answers.

use rayon::prelude::*;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::super::keys::{EpochKey, Prf, evaluations_of, take_pad};
use super::super::modulus::{DEGREE, MODULUS, Switch, add, reduce, reduce_signed, transform};
use super::super::query::{EncryptedQuery, QueryEntropy};
use super::super::shape::{HINT_BITS, SCORE_BITS};
use super::super::words::Block;
use super::server::place;
use super::{RecordShape, WORD_BITS};
use crate::pack::{PackError, pack, packed_len, unpack};
use crate::sample::{Stream, each_error, fill_trits};
use crate::simd::dispatch;

/// `Delta = round(q / p)`: what a word counts in an answer.
const DELTA: u64 = (MODULUS + (1 << (WORD_BITS - 1))) >> WORD_BITS;

/// What all fetches of an epoch have in common, expanded.
pub struct RecordKeys {
    shape: RecordShape,
    /// Goes into the secrets of queries, so that those of two epochs have nothing in common.
    query_key: Zeroizing<[u8; 32]>,
    /// `a2[t]`, and `a2'[t]` at rank two, as evaluations.
    matrix: Vec<Vec<Vec<u64>>>,
}

impl Drop for RecordKeys {
    fn drop(&mut self) {
        self.matrix.zeroize();
    }
}

/// What is left of a fetch's secret: it opens the answer to that fetch and nothing else.
#[derive(ZeroizeOnDrop)]
pub struct FetchOpening {
    /// `s2`, and `s2'` at rank two, in the order in which a hint is multiplied with it: the number of
    /// coefficient `i` of a hint that coefficient 0 of the product counts.
    secrets: Vec<Vec<i8>>,
}

impl std::fmt::Debug for FetchOpening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FetchOpening(..)")
    }
}

impl RecordKeys {
    /// Expands the key of an epoch for records of a shape. Nothing of it is used for rows.
    pub fn expand(key: &EpochKey, shape: RecordShape) -> Self {
        let matrix = |secret| key.uniform(&format!("record matrix {secret}"), shape.tiles());
        let matrix = (0..shape.query_rank().secrets()).map(matrix).collect();
        Self { shape, query_key: key.derive("record queries"), matrix }
    }

    /// How slots lie in columns.
    pub fn shape(&self) -> &RecordShape {
        &self.shape
    }

    /// The hint of a segment, on all cores: `H[k] = sum_t DB[k,t] a2[t]` for every word of its slots, which
    /// are given one after the other.
    ///
    /// # Panics
    /// If there are more slots than a segment has.
    pub fn hint(&self, slots: &[u8]) -> Vec<u8> {
        let slot_bytes = self.shape.slot_bytes();
        assert!(slots.len() <= self.shape.columns() * slot_bytes, "a segment of slots");
        let switch = Switch::to(HINT_BITS);
        let each = self.shape.word_hint_bytes();
        let mut hint = vec![0; self.shape.hint_bytes()];
        hint.par_chunks_mut(each).enumerate().for_each(|(word, hint)| {
            let mut sums = vec![vec![0; DEGREE]; self.matrix.len()];
            let mut values = vec![0; DEGREE];
            for (t, slots) in slots.chunks(DEGREE * slot_bytes).enumerate() {
                values.fill(0);
                for (column, slot) in slots.chunks_exact(slot_bytes).enumerate() {
                    let (at, value) = place(column, [slot[2 * word], slot[2 * word + 1]]);
                    values[at] = value;
                }
                transform().forward(&mut values);
                for (sum, column) in sums.iter_mut().zip(&self.matrix) {
                    transform().multiply_accumulate(sum, &values, &column[t]);
                }
            }
            let mut packed = Vec::with_capacity(each);
            for sum in &mut sums {
                transform().inverse(sum);
                pack(sum.iter().map(|&value| switch.apply(value)), HINT_BITS, &mut packed);
            }
            hint.copy_from_slice(&packed);
        });
        hint
    }

    /// Encrypts the unit vector of a column. As for searches, secrets and errors come from fresh
    /// randomness and what is encrypted together.
    ///
    /// # Panics
    /// If a segment has no such column.
    pub fn encrypt(&self, entropy: QueryEntropy, column: usize) -> (EncryptedQuery, FetchOpening) {
        assert!(column < self.shape.columns(), "a column of a segment");
        let key = self.fetch_key(entropy, column);
        let mut block = Block::zero(self.shape.tiles());
        let mut opening = FetchOpening { secrets: Vec::new() };
        let mut secrets = Vec::new();
        for at in 0..self.matrix.len() {
            let mut trits = Zeroizing::new([0_i8; DEGREE]);
            fill_trits(&mut trits[..], &key, Stream::Trits(at as u32));
            secrets.push(evaluations_of(&trits));
            // Coefficient 0 of s H is s_0 H_0 - sum_i s_(N - i) H_i.
            let mut reversed = trits.iter().rev().map(|trit| -trit).collect::<Vec<i8>>();
            reversed.rotate_right(1);
            reversed[0] = trits[0];
            opening.secrets.push(reversed);
        }
        let mut values = Zeroizing::new(vec![0_u64; DEGREE]);
        for t in 0..self.shape.tiles() {
            // Without a branch or an address that depends on the column.
            for (j, value) in values.iter_mut().enumerate() {
                let is_wanted = u64::from(t * DEGREE + j == column);
                *value = DELTA & is_wanted.wrapping_neg();
            }
            each_error(&mut values[..], &key, Stream::Error(t as u32), 0, |value, error| {
                *value = reduce_signed(*value as i64 + error);
            });
            transform().forward(&mut values);
            take_pad(&mut values, t, &self.matrix, &secrets);
            block.put(t, &values);
        }
        (EncryptedQuery(block), opening)
    }

    /// `PRF(randomness; key of the epoch, what is encrypted)`.
    fn fetch_key(&self, entropy: QueryEntropy, column: usize) -> Zeroizing<[u8; 32]> {
        let mut prf = Prf::new(&entropy.0);
        prf.input(&self.query_key[..]);
        prf.number(self.shape.tiles() as u64);
        prf.number(column as u64);
        Zeroizing::new(prf.finish())
    }

    /// Opens the answer of every segment with its hint, on all cores: the slot in the wanted column of each,
    /// or zeros where a segment has no such column. The hints must have been sealed by whoever holds the
    /// key: they are multiplied with the secret of the fetch.
    ///
    /// # Errors
    /// When the answer or a hint has another length than the shape's.
    pub fn open(
        &self,
        opening: &FetchOpening,
        answer: &[u8],
        hints: &[impl AsRef<[u8]> + Sync],
    ) -> Result<Vec<Zeroizing<Vec<u8>>>, PackError> {
        let length = |expected: usize, actual: usize| {
            if expected == actual { Ok(()) } else { Err(PackError::Length { expected, actual }) }
        };
        length(self.shape.answer_bytes(), answer.len())?;
        length(self.shape.segments(), hints.len())?;
        let answers = answer.chunks_exact(self.shape.segment_answer_bytes());
        let mut slots = Vec::with_capacity(hints.len());
        for (answer, hint) in answers.zip(hints) {
            length(self.shape.hint_bytes(), hint.as_ref().len())?;
            slots.push(self.open_segment(opening, answer, hint.as_ref())?);
        }
        Ok(slots)
    }

    fn open_segment(
        &self,
        opening: &FetchOpening,
        answer: &[u8],
        hint: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, PackError> {
        let values = self.residues(opening, answer, hint)?;
        let words = values.iter().flat_map(|&value| word_of(value).to_le_bytes());
        Ok(Zeroizing::new(words.collect()))
    }

    /// `Delta` times every word of the slot, with the error.
    fn residues(
        &self,
        opening: &FetchOpening,
        answer: &[u8],
        hint: &[u8],
    ) -> Result<Zeroizing<Vec<u64>>, PackError> {
        let switch = Switch::to(SCORE_BITS);
        let mut values = Zeroizing::new(vec![0; self.shape.words()]);
        unpack(answer, SCORE_BITS, self.shape.words(), |at, value| {
            values[at] = switch.lift(value)
        })?;
        let hints = hint.par_chunks_exact(self.shape.word_hint_bytes());
        values.par_iter_mut().zip(hints).try_for_each_init(
            || vec![0; DEGREE],
            |coefficients, (value, hint)| {
                *value = add(*value, opening.product(hint, coefficients)?);
                Ok(())
            },
        )?;
        Ok(values)
    }

    /// The words of a segment's slot as they are before they are rounded.
    #[cfg(test)]
    pub(super) fn opened_words(
        &self,
        opening: &FetchOpening,
        answer: &[u8],
        hint: &[u8],
    ) -> Vec<f64> {
        let values = self.residues(opening, answer, hint).unwrap();
        let unit = 2_f64.powi(WORD_BITS as i32) / MODULUS as f64;
        values.iter().map(|&value| value as f64 * unit).collect()
    }
}

impl FetchOpening {
    /// Coefficient 0 of `s2 H[k]`, by one inner product for each secret, in a time that depends on none.
    fn product(&self, hint: &[u8], coefficients: &mut [u64]) -> Result<u64, PackError> {
        let switch = Switch::to(HINT_BITS);
        let mut all = 0_i64;
        for (secret, hint) in
            self.secrets.iter().zip(hint.chunks_exact(packed_len(DEGREE, HINT_BITS)))
        {
            unpack(hint, HINT_BITS, DEGREE, |at, value| coefficients[at] = value)?;
            let mut sum = 0_i64;
            dispatch(
                #[inline(always)]
                || {
                    // 2^11 numbers below 2^48.
                    for (&trit, &value) in secret.iter().zip(coefficients.iter()) {
                        sum += i64::from(trit) * switch.lift(value) as i64;
                    }
                },
            );
            all += sum;
        }
        // Above -2^60: a multiple of q makes it positive.
        Ok(reduce((i128::from(all) + (i128::from(MODULUS) << 13)) as u128))
    }
}

/// `round(x / Delta) mod p`, with `x` taken between `-q / 2` and `q / 2`: a word counts `Delta` and not `q / p`,
/// so the room for errors is the same on both sides of every word, but for the `p Delta - q < 2^14` where they
/// wrap around.
fn word_of(residue: u64) -> u16 {
    let centred =
        if residue > MODULUS / 2 { residue as i64 - MODULUS as i64 } else { residue as i64 };
    (centred + DELTA as i64 / 2).div_euclid(DELTA as i64) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_the_same_room_on_both_sides() {
        let (delta, room) = (DELTA as i64, DELTA as i64 / 2 - (1 << 14));
        for word in [i16::MIN, -32_767, -2, -1, 0, 1, 2, 12_345, 32_766, i16::MAX] {
            for error in [-room, -1, 0, 1, room] {
                let residue = (i64::from(word) * delta + error).rem_euclid(MODULUS as i64);
                assert_eq!(word_of(residue as u64), word as u16, "{word} and {error}");
            }
        }
    }
}
