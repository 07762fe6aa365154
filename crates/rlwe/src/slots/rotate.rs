//! Rotations: key switching by RNS digit, and sums over many slots.

use super::embedding::EncodeBuffers;
use super::evaluate::{SlotsCiphertext, SlotsError};
use super::keys::{GaloisKey, ServerContext, Tables};
use super::modulus::{add_row, lift, scale_row};
use super::rns::RnsPoly;

/// Buffers of one worker, reused from candidate to candidate: fresh pages for them would cost
/// a tenth of the time of a score.
pub(super) struct Scratch {
    pub(super) encoding: EncodeBuffers,
    /// An encoded operand.
    pub(super) operand: RnsPoly,
    /// One row of coefficients modulo another prime.
    pub(super) lifted: Vec<u64>,
    /// Digits of `c1` as coefficients.
    digits: RnsPoly,
    /// The switched halves over the extended basis, still times `P`.
    sum0: RnsPoly,
    sum1: RnsPoly,
    /// `P c0` over the extended basis.
    extended: RnsPoly,
}

impl Scratch {
    pub(super) fn new(tables: &Tables) -> Self {
        let (n, level) = (tables.rns.n(), tables.parameters.response_primes());
        let poly = |rows| RnsPoly::zero(n, rows);
        Self {
            encoding: EncodeBuffers::new(n),
            operand: poly(0),
            lifted: vec![0; n],
            digits: poly(level),
            sum0: poly(level + 1),
            sum1: poly(level + 1),
            extended: poly(level + 1),
        }
    }
}

impl ServerContext {
    /// Moves slot `j + step` to slot `j`, cyclically. The ciphertext has been rescaled once, and
    /// `step` is one of the powers of two below the span of the keys.
    pub fn rotate(
        &self,
        ciphertext: &SlotsCiphertext,
        step: usize,
    ) -> Result<SlotsCiphertext, SlotsError> {
        let level = self.check_level(ciphertext)?;
        let key = self.galois_key(step)?;
        let rns = &self.tables.rns;
        let mut scratch = Scratch::new(&self.tables);
        self.switch(&ciphertext.c1, key, &mut scratch);
        for sum in [&mut scratch.sum0, &mut scratch.sum1] {
            let (rows, remainder) = sum.split_last();
            rns.divide_and_round(rows, remainder, rns.special(), &mut scratch.lifted);
        }
        let mut rotated = SlotsCiphertext::empty(rns.n());
        rotated.c0.reset(level);
        rotated.c1.reset(level);
        rotated.scale = ciphertext.scale;
        for index in 0..level {
            let (q, sigma) = (rns.ring(index).modulus(), &key.automorphism);
            sigma.add_to(ciphertext.c0.row(index), rotated.c0.row_mut(index), |a, b| q.add(a, b));
            sigma.add_to(scratch.sum0.row(index), rotated.c0.row_mut(index), |a, b| q.add(a, b));
            sigma.add_to(scratch.sum1.row(index), rotated.c1.row_mut(index), |a, b| q.add(a, b));
        }
        Ok(rotated)
    }

    /// Slot `j` becomes the sum of slots `j .. j + span`, cyclically, by `log2 span` rotations.
    ///
    /// Only `c1` has to come back to the data primes at every step, to be decomposed for the
    /// next. `c0` stays multiplied by `P` over the extended basis,
    ///
    /// ```text
    /// P c0 <- P c0 + sigma(P c0 + <digits(c1), b>) ,   c1 <- c1 + sigma(round(<digits(c1), a> / P)) ,
    /// ```
    ///
    /// and is divided once at the end, which saves a quarter of the transforms of a step.
    pub fn rotate_and_sum(
        &self,
        mut ciphertext: SlotsCiphertext,
        span: usize,
    ) -> Result<SlotsCiphertext, SlotsError> {
        self.sum_in_place(&mut ciphertext, span, &mut Scratch::new(&self.tables))?;
        Ok(ciphertext)
    }

    pub(super) fn sum_in_place(
        &self,
        ciphertext: &mut SlotsCiphertext,
        span: usize,
        scratch: &mut Scratch,
    ) -> Result<(), SlotsError> {
        let level = self.check_level(ciphertext)?;
        if !span.is_power_of_two() || span > self.span() {
            return Err(SlotsError::Span { span, slots: self.span() });
        }
        let rns = &self.tables.rns;
        scratch.extended.row_mut(level).fill(0);
        for index in 0..level {
            let (row, q) = (scratch.extended.row_mut(index), rns.ring(index).modulus());
            row.copy_from_slice(ciphertext.c0.row(index));
            scale_row(row, q, q.factor(self.parameters().special_prime()));
        }
        for key in &self.galois[..span.ilog2() as usize] {
            self.switch(&ciphertext.c1, key, scratch);
            for (index, ring) in rns.extended(level).enumerate() {
                let (c0, sum0) = (scratch.extended.row_mut(index), scratch.sum0.row_mut(index));
                add_row(sum0, c0, ring.modulus());
                let q = ring.modulus();
                key.automorphism.add_to(sum0, c0, |a, b| q.add(a, b));
            }
            let (rows, remainder) = scratch.sum1.split_last();
            rns.divide_and_round(rows, remainder, rns.special(), &mut scratch.lifted);
            for index in 0..level {
                let (row, q) = (scratch.sum1.row(index), rns.ring(index).modulus());
                key.automorphism.add_to(row, ciphertext.c1.row_mut(index), |a, b| q.add(a, b));
            }
        }
        let (rows, remainder) = scratch.extended.split_last();
        rns.divide_and_round(rows, remainder, rns.special(), &mut scratch.lifted);
        for index in 0..level {
            ciphertext.c0.row_mut(index).copy_from_slice(scratch.extended.row(index));
        }
        Ok(())
    }

    /// `sum_j = sum_i [c1]_(q_i) key_ij` over the extended basis: what `c1 s` becomes under the
    /// permuted secret, times `P`.
    fn switch(&self, c1: &RnsPoly, key: &GaloisKey, scratch: &mut Scratch) {
        let rns = &self.tables.rns;
        let level = c1.level();
        for digit in 0..level {
            scratch.digits.row_mut(digit).copy_from_slice(c1.row(digit));
            rns.ring(digit).inverse(scratch.digits.row_mut(digit));
        }
        for (target, ring) in rns.extended(level).enumerate() {
            let (sum0, sum1) = (scratch.sum0.row_mut(target), scratch.sum1.row_mut(target));
            sum0.fill(0);
            sum1.fill(0);
            for (digit, (b, a)) in key.digits.iter().enumerate() {
                let value = if digit == target {
                    c1.row(digit) // already reduced and transformed
                } else {
                    let from = rns.ring(digit).modulus();
                    lift(scratch.digits.row(digit), from, ring.modulus(), &mut scratch.lifted);
                    ring.forward(&mut scratch.lifted);
                    &scratch.lifted
                };
                ring.multiply_accumulate(sum0, value, b.row(target));
                ring.multiply_accumulate(sum1, value, a.row(target));
            }
        }
    }

    fn galois_key(&self, step: usize) -> Result<&GaloisKey, SlotsError> {
        let known = step.is_power_of_two() && step < self.span();
        known.then(|| &self.galois[step.ilog2() as usize]).ok_or(SlotsError::Rotation(step))
    }

    fn check_level(&self, ciphertext: &SlotsCiphertext) -> Result<usize, SlotsError> {
        self.tables.check_ciphertext(ciphertext)?;
        let expected = self.parameters().response_primes();
        match ciphertext.level() {
            actual if actual == expected => Ok(expected),
            actual => Err(SlotsError::Level { expected, actual }),
        }
    }
}
