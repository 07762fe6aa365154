//! Scripts of edits, so that a fuzzer's bytes land where they matter.

/// Bytes of one edit: what, where (two bytes), with which value.
pub(crate) const EDIT_BYTES: usize = 4;

/// Bytes of the header of a message: magic, version, kind.
const HEADER_BYTES: usize = 8;

/// Applies the edits of a script to sound bytes. The empty script changes nothing, a last edit
/// that is cut short is ignored, and no edit makes the result grow by more than 256 bytes.
///
/// Half of the edits fall into the 128 bytes behind the header: that is where counts and shapes
/// are, while most of a message is ciphertext that may hold anything, and a broken header only
/// ends the matter early. Few of them change the length, which is nearly always found out.
pub fn damage(sound: &[u8], script: &[u8]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for &[operation, low, high, value] in script.as_chunks::<EDIT_BYTES>().0 {
        let place = usize::from(u16::from_le_bytes([low, high]));
        let near = operation & 0x80 == 0 && bytes.len() > HEADER_BYTES;
        let first = if near { HEADER_BYTES } else { 0 };
        let range = if near { (bytes.len() - first).min(128) } else { bytes.len() };
        if range == 0 {
            return bytes;
        }
        edit(&mut bytes, operation % 16, first + place % range, value);
    }
    bytes
}

fn edit(bytes: &mut Vec<u8>, operation: u8, at: usize, value: u8) {
    let stretch = at..(at + usize::from(value)).min(bytes.len());
    match operation {
        0..3 => bytes[at] = value,
        3..6 => bytes[at] ^= 1 << (value % 8),
        6..8 => bytes[at] = bytes[at].wrapping_add(1),
        8..10 => bytes[at] = bytes[at].wrapping_sub(1),
        // A whole 32-bit count: small, or close below 2^32.
        10..13 => {
            let count = i32::from(value as i8).to_le_bytes();
            bytes.iter_mut().skip(at).zip(count).for_each(|(byte, new)| *byte = new);
        }
        13 => bytes.truncate(at),
        14 => drop(bytes.drain(stretch)),
        // Says a stretch twice, as a repeated row or cell would.
        _ => {
            let twice = bytes[stretch].to_vec();
            bytes.splice(at..at, twice);
        }
    }
}

/// Exactly `length` bytes: the noise over and over, or zeros where there is none.
pub fn stretch(noise: &[u8], length: usize) -> Vec<u8> {
    noise.iter().copied().cycle().chain(std::iter::repeat(0)).take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_do_what_they_say() {
        let sound = [10, 20, 30, 40, 50];
        let edited = |operation: u8, at: u8, value: u8| damage(&sound, &[operation, at, 0, value]);
        assert_eq!(damage(&sound, &[]), sound);
        assert_eq!(edited(0, 1, 9), [10, 9, 30, 40, 50]);
        assert_eq!(edited(3, 2, 0), [10, 20, 31, 40, 50]);
        assert_eq!(edited(6, 0, 0), [11, 20, 30, 40, 50]);
        assert_eq!(edited(8, 0, 0), [9, 20, 30, 40, 50]);
        assert_eq!(edited(10, 1, 0xff), [10, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(edited(13, 3, 0), [10, 20, 30]);
        assert_eq!(edited(14, 1, 3), [10, 50]);
        assert_eq!(edited(15, 3, 9), [10, 20, 30, 40, 50, 40, 50]);
        assert!(damage(&sound, &[13, 0, 0, 0, 0, 0, 0, 0]).is_empty());
    }

    #[test]
    fn near_edits_spare_the_header_and_far_ones_need_not() {
        let sound = [0; 300];
        assert_eq!(damage(&sound, &[0, 0, 0, 1])[8], 1);
        assert_eq!(damage(&sound, &[0, 128, 0, 1])[8], 1);
        assert_eq!(damage(&sound, &[0x80, 0, 0, 1])[0], 1);
        assert_eq!(damage(&sound, &[0x80, 43, 1, 1])[299], 1);
    }

    #[test]
    fn stretching_repeats_noise_and_makes_do_without() {
        assert_eq!(stretch(&[1, 2], 5), [1, 2, 1, 2, 1]);
        assert_eq!(stretch(&[], 3), [0, 0, 0]);
    }
}
