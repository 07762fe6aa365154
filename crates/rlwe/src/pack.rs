//! Dense bit packing: `count` values of `bits` bits each, little-endian, zero-padded to a byte.

/// Why packed bytes were refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
pub enum PackError {
    /// Too short or too long for the number of values.
    #[error("{actual} bytes where {expected} were expected")]
    Length {
        /// Bytes that the values take.
        expected: usize,
        /// Bytes given.
        actual: usize,
    },
    /// Bits after the last value are set.
    #[error("padding bits are not zero")]
    Padding,
}

/// Bytes that `count` values of `bits` bits take.
pub fn packed_len(count: usize, bits: u32) -> usize {
    (count * bits as usize).div_ceil(8)
}

/// Appends the packed form of `values` (each below `2^bits`, `bits <= 56`).
pub(crate) fn pack(values: impl Iterator<Item = u64>, bits: u32, out: &mut Vec<u8>) {
    let (mut window, mut filled) = (0_u64, 0_u32);
    for value in values {
        debug_assert!(bits <= 56 && value >> bits == 0);
        window |= value << filled;
        filled += bits;
        if filled >= 64 {
            out.extend_from_slice(&window.to_le_bytes());
            filled -= 64;
            // The part of `value` that did not fit; `bits - filled` is below 64 because some did.
            window = if filled == 0 { 0 } else { value >> (bits - filled) };
        }
    }
    out.extend_from_slice(&window.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Reads `count` values of `bits` bits and hands each to `sink` with its index.
pub(crate) fn unpack(
    bytes: &[u8],
    bits: u32,
    count: usize,
    mut sink: impl FnMut(usize, u64),
) -> Result<(), PackError> {
    let expected = packed_len(count, bits);
    if bytes.len() != expected {
        return Err(PackError::Length { expected, actual: bytes.len() });
    }
    let mask = (1_u64 << bits) - 1;
    let spare = expected * 8 - count * bits as usize;
    if spare > 0 && bytes[expected - 1] >> (8 - spare) != 0 {
        return Err(PackError::Padding);
    }
    // A value starts at most 7 bits into its first byte, so 56 + 7 bits fit one 8-byte load.
    let whole = if expected >= 8 { ((expected - 8) * 8 / bits as usize + 1).min(count) } else { 0 };
    for index in 0..whole {
        let start = index * bits as usize;
        let word: [u8; 8] = bytes[start / 8..start / 8 + 8].try_into().expect("eight bytes");
        sink(index, (u64::from_le_bytes(word) >> (start % 8)) & mask);
    }
    for index in whole..count {
        let start = index * bits as usize;
        let tail = &bytes[start / 8..];
        let mut word = [0_u8; 8];
        let taken = tail.len().min(8);
        word[..taken].copy_from_slice(&tail[..taken]);
        sink(index, (u64::from_le_bytes(word) >> (start % 8)) & mask);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unpacking_returns_what_was_packed(
            bits in 1_u32..=56,
            words in prop::collection::vec(any::<u64>(), 0..200),
        ) {
            let values: Vec<u64> = words.iter().map(|w| w & ((1 << bits) - 1)).collect();
            let mut bytes = Vec::new();
            pack(values.iter().copied(), bits, &mut bytes);
            prop_assert_eq!(bytes.len(), packed_len(values.len(), bits));
            // Oracle: bit i of the stream is bit (i mod bits) of value (i / bits).
            for bit in 0..values.len() * bits as usize {
                let expected = values[bit / bits as usize] >> (bit % bits as usize) & 1;
                prop_assert_eq!(u64::from(bytes[bit / 8] >> (bit % 8) & 1), expected);
            }
            let mut back = vec![0; values.len()];
            unpack(&bytes, bits, values.len(), |i, v| back[i] = v).unwrap();
            prop_assert_eq!(back, values);
        }
    }

    #[test]
    fn wrong_length_and_set_padding_are_refused() {
        assert_eq!(
            unpack(&[0; 3], 26, 1, |_, _| ()),
            Err(PackError::Length { expected: 4, actual: 3 })
        );
        assert_eq!(unpack(&[0, 0, 0, 0x04], 26, 1, |_, _| ()), Err(PackError::Padding));
        assert_eq!(unpack(&[0, 0, 0, 0x02], 26, 1, |_, _| ()), Ok(()));
    }
}
