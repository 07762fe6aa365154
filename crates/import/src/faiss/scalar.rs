//! The scalar quantiser: a code of one or two bytes per value, decoded as FAISS does.

use std::io::Read;

use super::index::Unread;
use crate::bytes::{Bytes, Malformed};

/// How a value lies in its code.
#[derive(Clone, Copy)]
enum Code {
    /// One of 255 steps between bounds of its own dimension, or with one pair of bounds for all.
    Steps {
        uniform: bool,
    },
    Half,
    Brain,
    /// The byte itself, less an offset.
    Byte {
        offset: f32,
    },
}

/// What decodes values.
pub(super) struct ScalarQuantiser {
    code: Code,
    dimension: usize,
    /// Lower bounds, then widths.
    trained: Vec<f32>,
}

impl ScalarQuantiser {
    pub(super) fn read<R: Read>(bytes: &mut Bytes<R>, dimension: usize) -> Result<Self, Unread> {
        let kind = bytes.i32()?;
        bytes.skip(2, 4)?;
        let (width, size) = (bytes.count()?, bytes.count()?);
        let count = bytes.count()?;
        let trained = bytes.f32s(count)?;
        let (code, per_value, bounds) = match kind {
            0 => (Code::Steps { uniform: false }, 1, 2 * dimension),
            2 => (Code::Steps { uniform: true }, 1, 2),
            4 => (Code::Half, 2, trained.len()),
            5 => (Code::Byte { offset: 0.0 }, 1, trained.len()),
            7 => (Code::Brain, 2, trained.len()),
            8 => (Code::Byte { offset: 128.0 }, 1, trained.len()),
            _ => {
                return Err(Unread::Unsupported(
                    "the index keeps fewer than eight bits of each value, and the original vectors are not \
                     in the file"
                        .into(),
                ));
            }
        };
        if width != dimension || size != per_value * dimension || trained.len() != bounds {
            return Err(Malformed::new("a scalar quantiser of another shape than the index").into());
        }
        Ok(Self { code, dimension, trained })
    }

    pub(super) fn decode(&self, codes: &[u8]) -> Vec<f32> {
        let two = |make: fn(u16) -> f32| {
            codes.as_chunks::<2>().0.iter().map(|&code| make(u16::from_le_bytes(code))).collect()
        };
        match self.code {
            Code::Half => two(|bits| half::f16::from_bits(bits).to_f32()),
            Code::Brain => two(|bits| half::bf16::from_bits(bits).to_f32()),
            Code::Byte { offset } => codes.iter().map(|&code| f32::from(code) - offset).collect(),
            Code::Steps { uniform } => {
                let (low, wide) = self.trained.split_at(self.trained.len() / 2);
                let decode = |(at, &code): (usize, &u8)| {
                    let column = if uniform { 0 } else { at % self.dimension };
                    low[column] + (f32::from(code) + 0.5) / 255.0 * wide[column]
                };
                codes.iter().enumerate().map(decode).collect()
            }
        }
    }
}
