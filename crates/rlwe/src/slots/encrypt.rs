//! Public-key encryption, decryption.
//!
//! As in SEAL, a fresh ciphertext is made under all primes and divided by the special one:
//!
//! ```text
//! c0 = round( (b u + e0) / P ) + m ,   c1 = round( (a u + e1) / P ) ,
//! ```
//!
//! with `u` ternary. The division shrinks `e u + e0 + e1 s` to nothing; what is left is its own
//! rounding, `(1 + |s|^2) / 12` per coefficient instead of `(1 + 4N/3) eta / 2`.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::embedding::EncodeBuffers;
use super::evaluate::{SlotsCiphertext, SlotsError};
use super::keys::ClientContext;
use super::modulus::{lift, subtract_scaled};
use super::rns::RnsPoly;
use super::sample::{Expander, Purpose};
use crate::sample::Entropy;

impl ClientContext {
    /// Encrypts real vectors, each into the slots from zero on, on all cores. The entropy serves
    /// this batch alone.
    pub fn encrypt(
        &self,
        vectors: &[Vec<f64>],
        entropy: Entropy,
    ) -> Result<Vec<SlotsCiphertext>, SlotsError> {
        vectors
            .par_iter()
            .enumerate()
            .map(|(index, vector)| {
                let mut message = Zeroizing::new(EncodeBuffers::new(self.tables.rns.n()));
                self.tables.encode(vector, 0, &mut message)?;
                Ok(self.encrypt_message(&message.coefficients, &entropy, index as u32))
            })
            .collect()
    }

    fn encrypt_message(&self, message: &[i64], entropy: &Entropy, index: u32) -> SlotsCiphertext {
        let rns = &self.tables.rns;
        let n = rns.n();
        let mask = Expander::new(&entropy.secret, Purpose::Mask, index).ternary(n);
        let mask = Zeroizing::new(rns.embed(&mask, rns.rings().iter()));
        let mut errors = Expander::new(&entropy.secret, Purpose::Error, index);
        let c0 = self.mask_and_divide(&self.public.b, &mask, &errors.error(n), Some(message));
        let c1 = self.mask_and_divide(&self.public.a, &mask, &errors.error(n), None);
        SlotsCiphertext { c0, c1, scale: self.tables.parameters.scale() }
    }

    /// `round((key mask + error) / P) + message` over the data primes, with one transform per
    /// prime: error, remainder and message are joined as coefficients,
    /// `(key mask - NTT([r]_P - error - P message)) / P`.
    fn mask_and_divide(
        &self,
        key: &RnsPoly,
        mask: &RnsPoly,
        error: &[i64],
        message: Option<&[i64]>,
    ) -> RnsPoly {
        let rns = &self.tables.rns;
        let special = rns.ring(rns.special());
        let p = special.modulus();
        let mut product = RnsPoly::zero(rns.n(), rns.rings().len());
        product.multiply_accumulate(key, mask, rns.rings().iter());

        let (_, remainder) = product.split_last();
        special.inverse(remainder);
        for (value, &e) in remainder.iter_mut().zip(error) {
            *value = p.add(*value, p.reduce_signed(e));
        }
        let remainder = remainder.to_vec();
        product.drop_last();

        let mut joined = Zeroizing::new(vec![0; rns.n()]);
        for (index, row) in product.rows_mut().enumerate() {
            let ring = rns.ring(index);
            let q = ring.modulus();
            lift(&remainder, p, q, &mut joined);
            for (value, &e) in joined.iter_mut().zip(error) {
                *value = q.subtract(*value, q.reduce_signed(e));
            }
            if let Some(message) = message {
                let factor = q.factor(p.value());
                for (value, &m) in joined.iter_mut().zip(message) {
                    *value = q.subtract(*value, q.scale(q.reduce_signed(m), factor));
                }
            }
            ring.forward(&mut joined);
            subtract_scaled(row, &joined, q, rns.inverse(rns.special(), index));
        }
        product
    }

    /// Real parts of all slots.
    pub fn decrypt(&self, ciphertext: &SlotsCiphertext) -> Result<Vec<f64>, SlotsError> {
        let coefficients = self.decrypt_coefficients(ciphertext)?;
        Ok(self.tables.embedding.decode(&coefficients, ciphertext.scale))
    }

    /// The real part of one slot.
    pub fn decrypt_slot(
        &self,
        ciphertext: &SlotsCiphertext,
        slot: usize,
    ) -> Result<f64, SlotsError> {
        let coefficients = self.decrypt_coefficients(ciphertext)?;
        Ok(self.tables.embedding.decode_slot(&coefficients, slot, ciphertext.scale))
    }

    /// `c0 + c1 s`, as centred integers modulo the product of the ciphertext's primes.
    fn decrypt_coefficients(&self, ciphertext: &SlotsCiphertext) -> Result<Vec<f64>, SlotsError> {
        self.tables.check_ciphertext(ciphertext)?;
        let rns = &self.tables.rns;
        let mut message = Zeroizing::new(ciphertext.c0.clone());
        for (index, row) in message.rows_mut().enumerate() {
            let ring = rns.ring(index);
            ring.multiply_accumulate(row, ciphertext.c1.row(index), self.secret.row(index));
            ring.inverse(row);
        }
        Ok(self.compose(&message))
    }

    /// Residues to centred integers by mixed radix (Garner): with
    /// `x = v_0 + v_1 q_0 + v_2 q_0 q_1 + ..`,
    ///
    /// ```text
    /// v_i = (.. ((x_i - v_0) / q_0 - v_1) / q_1 ..) / q_(i-1)  (mod q_i) .
    /// ```
    ///
    /// When the top digit says `x > Q/2`, the value is `x - Q`, whose digits are the
    /// complements: `-(1 + sum (q_i - 1 - v_i) ..)`. Either way only digits that matter are
    /// non-zero, so the sum in `f64` keeps its relative precision.
    fn compose(&self, message: &RnsPoly) -> Vec<f64> {
        let rns = &self.tables.rns;
        let level = message.level();
        let primes = &self.tables.parameters.primes()[..level];
        let mut digits = vec![0_u64; level];
        (0..rns.n())
            .map(|k| {
                for i in 0..level {
                    let q = rns.ring(i).modulus();
                    let mut value = message.row(i)[k];
                    for (j, &digit) in digits[..i].iter().enumerate() {
                        value = q.scale(q.subtract(value, q.reduce(digit)), rns.inverse(j, i));
                    }
                    digits[i] = value;
                }
                let negative = digits[level - 1] > primes[level - 1] / 2;
                let join = |sum: f64, (&v, &q): (&u64, &u64)| {
                    let digit = if negative { q - 1 - v } else { v };
                    sum * q as f64 + digit as f64
                };
                let magnitude = digits.iter().zip(primes).rev().fold(0.0, join);
                if negative { -(magnitude + 1.0) } else { magnitude }
            })
            .collect()
    }
}
