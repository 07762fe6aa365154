//! Responses: switched to a small power-of-two modulus, cut to what the client reads.

use crate::layout::Layout;
use crate::pack::{PackError, pack, packed_len, unpack};
use crate::parameters::{MODULUS, Parameters};

/// A response ciphertext: all of `c1` and only the used coefficients of `c0`, each as
/// `round(2^p c / q) mod 2^p`, packed.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    packed: Vec<u8>,
    /// Coefficients of `c0` that are present, in order.
    used: Vec<usize>,
}

impl Response {
    /// Bytes of a response with this many used slots.
    pub fn byte_len(parameters: &Parameters, used_slots: usize) -> usize {
        packed_len(parameters.degree().coefficients(), parameters.response_bits())
            + packed_len(used_slots, parameters.response_bits())
    }

    /// Switches `(c0, c1)` from `q` to `2^p`.
    pub(crate) fn switch(
        parameters: &Parameters,
        layout: &Layout,
        used_slots: usize,
        c0: &[u64],
        c1: &[u64],
    ) -> Self {
        let bits = parameters.response_bits();
        let switch = ModulusSwitch::new(bits);
        let used = layout.targets(used_slots);
        let mut packed = Vec::with_capacity(Self::byte_len(parameters, used_slots));
        pack(c1.iter().map(|&c| switch.apply(c)), bits, &mut packed);
        pack(used.iter().map(|&k| switch.apply(c0[k])), bits, &mut packed);
        Self { packed, used }
    }

    /// Takes bytes from the wire for a response that should have `used_slots` slots.
    pub fn from_bytes(
        parameters: &Parameters,
        layout: &Layout,
        used_slots: usize,
        bytes: &[u8],
    ) -> Result<Self, PackError> {
        let expected = Self::byte_len(parameters, used_slots);
        if bytes.len() != expected {
            return Err(PackError::Length { expected, actual: bytes.len() });
        }
        let split = Self::byte_len(parameters, 0);
        // Reading once here refuses set padding bits, so later reads cannot fail.
        unpack(&bytes[split..], parameters.response_bits(), used_slots, |_, _| ())?;
        Ok(Self { packed: bytes.to_vec(), used: layout.targets(used_slots) })
    }

    /// The wire form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.packed
    }

    pub(crate) fn used_coefficients(&self) -> impl Iterator<Item = usize> {
        self.used.iter().copied()
    }

    pub(crate) fn c1(&self, parameters: &Parameters) -> Vec<u32> {
        let split = Self::byte_len(parameters, 0);
        self.part(parameters, &self.packed[..split], parameters.degree().coefficients())
    }

    pub(crate) fn c0(&self, parameters: &Parameters) -> Vec<u32> {
        let split = Self::byte_len(parameters, 0);
        self.part(parameters, &self.packed[split..], self.used.len())
    }

    fn part(&self, parameters: &Parameters, bytes: &[u8], count: usize) -> Vec<u32> {
        let mut values = vec![0_u32; count];
        unpack(bytes, parameters.response_bits(), count, |i, v| values[i] = v as u32)
            .expect("lengths and padding were checked when the response was made");
        values
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Response({} bytes, {} slots)", self.packed.len(), self.used.len())
    }
}

/// `c -> round(2^p c / q) mod 2^p` by one multiplication with `round(2^(64 + p) / q)`. The
/// reciprocal is off by at most one half, so the result is off the exact quotient by at most
/// `q / 2^65 < 2^-15` before rounding.
struct ModulusSwitch {
    reciprocal: u64,
    mask: u64,
}

impl ModulusSwitch {
    fn new(bits: u32) -> Self {
        let numerator = 1_u128 << (64 + bits);
        let q = u128::from(MODULUS);
        Self { reciprocal: ((numerator + q / 2) / q) as u64, mask: (1 << bits) - 1 }
    }

    #[inline(always)]
    fn apply(&self, c: u64) -> u64 {
        let scaled = u128::from(c) * u128::from(self.reciprocal) + (1 << 63);
        (scaled >> 64) as u64 & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn switching_rounds_to_the_nearest_multiple(c in 0..MODULUS, bits in 12_u32..=32) {
            let switched = ModulusSwitch::new(bits).apply(c);
            let exact = c as f64 / MODULUS as f64 * 2_f64.powi(bits as i32);
            let distance = (switched as f64 - exact).rem_euclid(2_f64.powi(bits as i32));
            let distance = distance.min(2_f64.powi(bits as i32) - distance);
            prop_assert!(distance <= 0.5 + 1e-4, "{}", distance);
        }
    }

    #[test]
    fn wrong_length_or_padding_is_refused() {
        let parameters = Parameters::toy(64, 50, 26);
        let layout = Layout::new(parameters.degree(), 10, 1).unwrap();
        let good = vec![0_u8; Response::byte_len(&parameters, 3)];
        assert!(Response::from_bytes(&parameters, &layout, 3, &good).is_ok());
        assert!(Response::from_bytes(&parameters, &layout, 2, &good).is_err());
        let mut bad = good.clone();
        *bad.last_mut().unwrap() = 0x80;
        assert_eq!(Response::from_bytes(&parameters, &layout, 3, &bad), Err(PackError::Padding));
    }
}
