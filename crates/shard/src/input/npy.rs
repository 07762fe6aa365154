//! Vectors from a NumPy array.

use std::fs::File;
use std::io::{BufRead, BufWriter, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use half::f16;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar, WriterBuilder};
use shard_geometry::VectorSet;

use super::collect::coordinate;
use super::{Documents, first_line};

/// How many dimensions an array may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dimensions {
    /// A row per vector.
    Two,
    /// Or a single vector.
    OneOrTwo,
}

/// An array whose rows have no ids yet: at least one row and one column, all values finite.
#[derive(Debug)]
pub(super) struct Array {
    rows: usize,
    width: usize,
    values: Vec<f32>,
}

impl Array {
    /// Calls the rows `0`, `1` and so on.
    pub(super) fn with_row_numbers(self) -> Documents {
        let ids = (0..self.rows).map(|row| row.to_string()).collect();
        Documents { ids, width: self.width, values: self.values }
    }

    /// Gives the rows their ids, which [`super::ids::read`] has found distinct and not empty.
    pub(super) fn with_ids(self, ids: Vec<String>) -> Result<Documents> {
        if ids.len() != self.rows {
            bail!("expected {} ids, one a row, found {}", self.rows, ids.len());
        }
        Ok(Documents { ids, width: self.width, values: self.values })
    }
}

/// Reads a little-endian array of 16, 32 or 64-bit floats in C order.
///
/// The length of the file is compared with what the header announces before anything of that size is allocated,
/// and must match it exactly: a file cut short or with something after the data is not the file that was written.
pub(super) fn read(mut reader: impl BufRead + Seek, dimensions: Dimensions) -> Result<Array> {
    check_preamble(&mut reader)?;
    let header = NpyHeader::from_reader(&mut reader)
        .map_err(|error| anyhow!("not a NumPy array: {}", first_line(&error)))?;
    let element = Element::of(&header.dtype())?;
    let (rows, width) = match (header.shape(), dimensions) {
        (&[rows, width], _) => (rows, width),
        (&[width], Dimensions::OneOrTwo) => (1, width),
        (shape, Dimensions::Two) => {
            bail!("expected a two-dimensional array, found shape {shape:?}")
        }
        (shape, Dimensions::OneOrTwo) => {
            bail!("expected a one- or two-dimensional array, found shape {shape:?}")
        }
    };
    if header.order() == Order::Fortran {
        bail!("the array is in Fortran order; save it with numpy.ascontiguousarray");
    }
    if rows == 0 || width == 0 {
        bail!("there are no vectors: the shape is {:?}", header.shape());
    }

    let start = reader.stream_position()?;
    let present = reader.seek(SeekFrom::End(0))?.saturating_sub(start);
    reader.seek(SeekFrom::Start(start))?;
    let announced = u128::from(rows) * u128::from(width) * element.bytes() as u128;
    if u128::from(present) != announced {
        let problem = if u128::from(present) < announced {
            "is cut short"
        } else {
            "has bytes after the data"
        };
        bail!(
            "the file {problem}: {rows} rows of {width} values are {announced} bytes, found {present}"
        );
    }
    // A file of that many bytes exists, so neither number can be out of range.
    let (rows, width) = (usize::try_from(rows)?, usize::try_from(width)?);
    let values = match element {
        Element::Half => decode(reader, rows, width, |bytes| f16::from_le_bytes(bytes).to_f64()),
        Element::Single => {
            decode(reader, rows, width, |bytes| f64::from(f32::from_le_bytes(bytes)))
        }
        Element::Double => decode(reader, rows, width, f64::from_le_bytes),
    }?;
    Ok(Array { rows, width, values })
}

/// Looks at the header before the parser does, and goes back to the start.
///
/// The parser believes the header's own length, recurses into brackets and multiplies the shape without a check,
/// so a damaged file could make it allocate gigabytes, run out of stack or overflow. The header of a plain array
/// is a short dictionary with one tuple; eighteen digits in all keep any product of them below 10^18 < 2^64.
fn check_preamble(reader: &mut (impl BufRead + Seek)) -> Result<()> {
    const LONGEST: usize = 10_000; // NumPy's own limit.
    const DIGITS: usize = 18;
    const BRACKETS: usize = 8;

    let mut start = [0; 8];
    reader
        .read_exact(&mut start)
        .map_err(|_| anyhow!("not a NumPy array: the file is too short"))?;
    if &start[..6] != b"\x93NUMPY" {
        bail!("not a NumPy array: the first bytes are not its signature");
    }
    let mut length = [0; 4];
    let length_bytes = if start[6] == 1 { 2 } else { 4 };
    reader
        .read_exact(&mut length[..length_bytes])
        .map_err(|_| anyhow!("not a NumPy array: the file is too short"))?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        bail!(
            "not a plain NumPy array: expected a header of at most {LONGEST} bytes, found {length}"
        );
    }
    let mut text = vec![0; length];
    reader
        .read_exact(&mut text)
        .map_err(|_| anyhow!("not a NumPy array: the header is cut short"))?;
    let count = |wanted: fn(&u8) -> bool| text.iter().filter(|byte| wanted(byte)).count();
    if count(u8::is_ascii_digit) > DIGITS || count(|byte| b"([{".contains(byte)) > BRACKETS {
        bail!("not a plain NumPy array: the type or the shape is too long for a table of floats");
    }
    reader.seek(SeekFrom::Start(0))?;
    Ok(())
}

/// The element types that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Half,
    Single,
    Double,
}

impl Element {
    fn of(dtype: &DType) -> Result<Self> {
        if let DType::Plain(scalar) = dtype
            && (scalar.type_char(), scalar.endianness()) == (TypeChar::Float, Endianness::Little)
        {
            match scalar.size_field() {
                2 => return Ok(Self::Half),
                4 => return Ok(Self::Single),
                8 => return Ok(Self::Double),
                _ => {}
            }
        }
        bail!("expected little-endian floats ('<f2', '<f4' or '<f8'), found {}", dtype.descr())
    }

    fn bytes(self) -> usize {
        match self {
            Self::Half => 2,
            Self::Single => 4,
            Self::Double => 8,
        }
    }
}

/// Reads row by row, so that beside the result only one row's bytes are held.
fn decode<const BYTES: usize>(
    mut reader: impl BufRead,
    rows: usize,
    width: usize,
    value: impl Fn([u8; BYTES]) -> f64,
) -> Result<Vec<f32>> {
    let mut values = Vec::with_capacity(rows * width);
    let mut bytes = vec![0; width * BYTES];
    for row in 0..rows {
        reader.read_exact(&mut bytes).map_err(|error| anyhow!("row {row}: {error}"))?;
        let (elements, _) = bytes.as_chunks::<BYTES>();
        for (column, &element) in elements.iter().enumerate() {
            let narrow = coordinate(value(element))
                .map_err(|problem| anyhow!("row {row}, column {column}: {problem}"))?;
            values.push(narrow);
        }
    }
    Ok(values)
}

/// Writes vectors as 32-bit floats.
pub fn write_npy(path: &Path, vectors: &VectorSet) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let file = BufWriter::new(File::create(path)?);
        let mut writer = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&[vectors.rows() as u64, vectors.width() as u64])
            .writer(file)
            .begin_nd()?;
        writer.extend(vectors.values().iter().copied())?;
        writer.finish()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests;
