//! Vectors from a NumPy array.

use std::fs::File;
use std::io::{BufRead, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use half::f16;
use shard_geometry::VectorSet;

use super::Documents;
use super::collect::coordinate;
use super::error::{InputError, InputProblem, Record};
use crate::Error;

fn malformed(words: impl Into<String>) -> InputError {
    InputProblem::Malformed(words.into()).into()
}

/// Bytes before the header's text, in version 1 of the format.
const PREAMBLE: usize = 10;

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
pub(super) struct Array(VectorSet);

impl Array {
    /// Calls the rows `0`, `1` and so on.
    pub(super) fn with_row_numbers(self) -> Documents {
        let ids = (0..self.0.rows()).map(|row| row.to_string()).collect();
        Documents { ids, vectors: self.0 }
    }

    /// Gives the rows their ids, which [`super::ids::read`] has found distinct and not empty.
    pub(super) fn with_ids(
        self,
        ids: Vec<String>,
        of: Option<&Path>,
    ) -> Result<Documents, InputError> {
        let vectors = self.0;
        if ids.len() != vectors.rows() {
            let (vectors, ids, of) = (vectors.rows(), ids.len(), of.map(Path::to_owned));
            return Err(InputProblem::IdCount { vectors, ids, of }.into());
        }
        Ok(Documents { ids, vectors })
    }
}

/// Reads a little-endian array of 16, 32 or 64-bit floats in C order.
///
/// The length of the file is compared with what the header announces before anything of that size is allocated,
/// and must match it exactly: a file cut short or with something after the data is not the file that was written.
pub(super) fn read(
    mut reader: impl BufRead + Seek,
    dimensions: Dimensions,
) -> Result<Array, InputError> {
    let header = Header::parse(&header_text(&mut reader)?)?;
    let element = Element::of(&header.descr)?;
    let (rows, width) = match (header.shape.as_slice(), dimensions) {
        (&[rows, width], _) => (rows, width),
        (&[width], Dimensions::OneOrTwo) => (1, width),
        (shape, dimensions) => {
            let wanted = match dimensions {
                Dimensions::Two => "two-dimensional",
                Dimensions::OneOrTwo => "one- or two-dimensional",
            };
            return Err(malformed(format!("expected a {wanted} array, found shape {shape:?}")));
        }
    };
    if header.fortran_order {
        return Err(malformed(
            "the array is in Fortran order; save it with numpy.ascontiguousarray",
        ));
    }
    if rows == 0 || width == 0 {
        return Err(malformed(format!("there are no vectors: the shape is {:?}", header.shape)));
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
        return Err(malformed(format!(
            "the file {problem}: {rows} rows of {width} values are {announced} bytes, found {present}"
        )));
    }
    // A file of that many bytes exists, so neither number can be out of range.
    let (rows, width) = (rows as usize, width as usize);
    let values = match element {
        Element::Half => decode(reader, rows, width, |bytes| f16::from_le_bytes(bytes).to_f64()),
        Element::Single => {
            decode(reader, rows, width, |bytes| f64::from(f32::from_le_bytes(bytes)))
        }
        Element::Double => decode(reader, rows, width, f64::from_le_bytes),
    }?;
    Ok(Array(VectorSet::new(width, values).map_err(InputProblem::from)?))
}

/// Reads the preamble and the text of the header, whose length is bounded before it is believed.
/// The header of a plain array is a short dictionary with one tuple; eighteen digits in all keep
/// any product of them below 10^18 < 2^64.
fn header_text(reader: &mut impl BufRead) -> Result<String, InputError> {
    const LONGEST: usize = 10_000; // NumPy's own limit.
    const DIGITS: usize = 18;
    const BRACKETS: usize = 8;

    let mut start = [0; 8];
    reader
        .read_exact(&mut start)
        .map_err(|_| malformed("not a NumPy array: the file is too short"))?;
    if &start[..6] != b"\x93NUMPY" {
        return Err(malformed("not a NumPy array: the first bytes are not its signature"));
    }
    let mut length = [0; 4];
    let length_bytes = match start[6] {
        1 => 2,
        2 | 3 => 4,
        version => {
            let words = format!("not a NumPy array: version {version} of the format is unknown");
            return Err(malformed(words));
        }
    };
    reader
        .read_exact(&mut length[..length_bytes])
        .map_err(|_| malformed("not a NumPy array: the file is too short"))?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(malformed(format!(
            "not a plain NumPy array: expected a header of at most {LONGEST} bytes, found {length}"
        )));
    }
    let mut text = vec![0; length];
    reader
        .read_exact(&mut text)
        .map_err(|_| malformed("not a NumPy array: the header is cut short"))?;
    let count = |wanted: fn(&u8) -> bool| text.iter().filter(|byte| wanted(byte)).count();
    if count(u8::is_ascii_digit) > DIGITS || count(|byte| b"([{".contains(byte)) > BRACKETS {
        return Err(malformed(
            "not a plain NumPy array: the type or the shape is too long for a table of floats",
        ));
    }
    String::from_utf8(text).map_err(|_| malformed("not a NumPy array: the header is no text"))
}

/// What the header says: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }`.
struct Header {
    /// The type, as Python writes it.
    descr: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl Header {
    fn parse(text: &str) -> Result<Self, InputError> {
        Self::read(text)
            .ok_or_else(|| malformed("not a NumPy array: the header is not that of an array"))
    }

    fn read(text: &str) -> Option<Self> {
        let fields = text.trim().strip_prefix('{')?.strip_suffix('}')?;
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        for field in split_at_commas(fields)? {
            let (key, value) = field.split_once(':')?;
            let value = value.trim();
            match key.trim().trim_matches(['\'', '"']) {
                "descr" if descr.is_none() && !value.is_empty() => descr = Some(value.to_owned()),
                "fortran_order" if fortran_order.is_none() => {
                    fortran_order = Some(match value {
                        "True" => true,
                        "False" => false,
                        _ => return None,
                    });
                }
                "shape" if shape.is_none() => {
                    let sizes = value.strip_prefix('(')?.strip_suffix(')')?;
                    let sizes = split_at_commas(sizes)?;
                    shape =
                        Some(sizes.iter().map(|size| size.parse().ok()).collect::<Option<_>>()?);
                }
                _ => return None,
            }
        }
        Some(Self { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

/// The parts between commas that stand in no bracket and no quotes; the last may be left empty.
fn split_at_commas(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut depth, mut quote, mut start) = (Vec::new(), 0_usize, None, 0);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.checked_sub(1)?,
            (None, ',') if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    parts.extend((!last.is_empty()).then_some(last));
    (depth == 0 && quote.is_none()).then_some(parts)
}

/// The element types that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Half,
    Single,
    Double,
}

impl Element {
    fn of(descr: &str) -> Result<Self, InputError> {
        match descr.trim_matches(['\'', '"']) {
            "<f2" => Ok(Self::Half),
            "<f4" => Ok(Self::Single),
            "<f8" => Ok(Self::Double),
            _ => Err(malformed(format!(
                "expected little-endian floats ('<f2', '<f4' or '<f8'), found {descr}"
            ))),
        }
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
) -> Result<Vec<f32>, InputError> {
    let mut values = Vec::with_capacity(rows * width);
    let mut bytes = vec![0; width * BYTES];
    for row in 0..rows {
        let read = reader.read_exact(&mut bytes);
        read.map_err(|error| Record::Row(row).with(InputProblem::Io(error)))?;
        let (elements, _) = bytes.as_chunks::<BYTES>();
        for (column, &element) in elements.iter().enumerate() {
            let narrow = coordinate(value(element));
            values.push(narrow.map_err(|problem| Record::Row(row).at(column, problem))?);
        }
    }
    Ok(values)
}

/// Writes vectors as 32-bit floats.
pub fn write_npy(path: &Path, vectors: &VectorSet) -> Result<(), Error> {
    // The data begin at a multiple of 64 bytes, as NumPy has it.
    let (rows, width) = (vectors.rows(), vectors.width());
    let header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}");
    let length = (PREAMBLE + header.len() + 1).next_multiple_of(64) - PREAMBLE;
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(b"\x93NUMPY\x01\x00")?;
        file.write_all(&(length as u16).to_le_bytes())?;
        writeln!(file, "{header:<0$}", length - 1)?;
        vectors.values().iter().try_for_each(|value| file.write_all(&value.to_le_bytes()))?;
        file.flush()
    };
    write().map_err(Error::cannot_write(path))
}

#[cfg(test)]
mod tests;
