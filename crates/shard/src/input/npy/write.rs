//! NumPy arrays of vectors, written.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use shard_geometry::VectorSet;

use super::halves::exact_half;
use crate::Error;

/// Bytes before the header's text, in version 1 of the format.
const PREAMBLE: usize = 10;

/// The width of the floats in an array that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatBits {
    /// 16 bits each.
    Sixteen,
    /// 32 bits each.
    ThirtyTwo,
}

impl FloatBits {
    /// As a number.
    pub fn bits(self) -> u32 {
        match self {
            Self::Sixteen => 16,
            Self::ThirtyTwo => 32,
        }
    }
}

/// Writes vectors to a file as 32-bit floats.
pub fn write_npy(path: &Path, vectors: &VectorSet) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        write_floats(&mut file, vectors, FloatBits::ThirtyTwo)?;
        file.flush()
    };
    write().map_err(Error::cannot_write(path))
}

/// Writes vectors in the form of `.npy` without a loss: as 16-bit floats where every value is
/// exactly one, else as 32-bit floats.
pub fn npy_to(mut writer: impl Write, vectors: &VectorSet) -> io::Result<FloatBits> {
    let short = vectors.values().iter().all(|&value| exact_half(value).is_some());
    let width = if short { FloatBits::Sixteen } else { FloatBits::ThirtyTwo };
    write_floats(&mut writer, vectors, width)?;
    Ok(width)
}

fn write_floats(writer: &mut impl Write, vectors: &VectorSet, width: FloatBits) -> io::Result<()> {
    let descr = match width {
        FloatBits::Sixteen => "<f2",
        FloatBits::ThirtyTwo => "<f4",
    };
    let shape = format!("({}, {})", vectors.rows(), vectors.width());
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // The data begin at a multiple of 64 bytes, as NumPy has it.
    let length = (PREAMBLE + header.len() + 1).next_multiple_of(64) - PREAMBLE;
    writer.write_all(b"\x93NUMPY\x01\x00")?;
    writer.write_all(&(length as u16).to_le_bytes())?;
    writeln!(writer, "{header:<0$}", length - 1)?;
    let mut values = vectors.values().iter();
    match width {
        FloatBits::Sixteen => values.try_for_each(|&value| {
            let half = exact_half(value).expect("16 bits were found to be enough");
            writer.write_all(&half.to_le_bytes())
        }),
        FloatBits::ThirtyTwo => values.try_for_each(|value| writer.write_all(&value.to_le_bytes())),
    }
}
