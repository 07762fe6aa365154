//! Vectors from a NumPy array, and to one.

mod halves;
mod header;
mod write;

use std::io::{BufRead, Seek, SeekFrom};
use std::path::Path;

use shard_geometry::VectorSet;

use super::Documents;
use super::collect::coordinate;
use super::error::{InputError, InputProblem, Record};
use halves::half_precision;
use header::{Header, header_text};

pub use write::{FloatBits, npy_to, write_npy};

fn malformed(words: impl Into<String>) -> InputError {
    InputProblem::Malformed(words.into()).into()
}

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
        Documents { ids, vectors: self.0, records: Vec::new() }
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
        Ok(Documents { ids, vectors, records: Vec::new() })
    }
}

/// Reads an array of 16, 32 or 64-bit floats, in either byte order, row by row or column by column.
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
    if rows == 0 || width == 0 {
        return Err(malformed(format!("there are no vectors: the shape is {:?}", header.shape)));
    }

    let start = reader.stream_position()?;
    let present = reader.seek(SeekFrom::End(0))?.saturating_sub(start);
    reader.seek(SeekFrom::Start(start))?;
    let announced = u128::from(rows) * u128::from(width) * element.float.bytes() as u128;
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
    let table = Table { rows, width, by_column: header.fortran_order };
    let values = element.read_all(reader, table)?;
    Ok(Array(VectorSet::new(width, values).map_err(InputProblem::from)?))
}

/// The element types that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Element {
    float: Float,
    order: ByteOrder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Float {
    Half,
    Single,
    Double,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

impl Float {
    fn bytes(self) -> usize {
        match self {
            Self::Half => 2,
            Self::Single => 4,
            Self::Double => 8,
        }
    }
}

impl Element {
    fn of(descr: &str) -> Result<Self, InputError> {
        let (order, float) = match descr.trim_matches(['\'', '"']) {
            "<f2" => (ByteOrder::Little, Float::Half),
            "<f4" => (ByteOrder::Little, Float::Single),
            "<f8" => (ByteOrder::Little, Float::Double),
            ">f2" => (ByteOrder::Big, Float::Half),
            ">f4" => (ByteOrder::Big, Float::Single),
            ">f8" => (ByteOrder::Big, Float::Double),
            _ => {
                return Err(malformed(format!(
                    "expected floats of 16, 32 or 64 bits ('<f2', '<f4', '<f8', '>f2', '>f4' or \
                     '>f8'), found {descr}"
                )));
            }
        };
        Ok(Self { float, order })
    }

    fn read_all(self, reader: impl BufRead, table: Table) -> Result<Vec<f32>, InputError> {
        match (self.float, self.order) {
            (Float::Half, ByteOrder::Little) => {
                table.read(reader, |bytes| half_precision(u16::from_le_bytes(bytes)))
            }
            (Float::Half, ByteOrder::Big) => {
                table.read(reader, |bytes| half_precision(u16::from_be_bytes(bytes)))
            }
            (Float::Single, ByteOrder::Little) => {
                table.read(reader, |bytes| f64::from(f32::from_le_bytes(bytes)))
            }
            (Float::Single, ByteOrder::Big) => {
                table.read(reader, |bytes| f64::from(f32::from_be_bytes(bytes)))
            }
            (Float::Double, ByteOrder::Little) => table.read(reader, f64::from_le_bytes),
            (Float::Double, ByteOrder::Big) => table.read(reader, f64::from_be_bytes),
        }
    }
}

/// How the values of an array follow each other in the file.
#[derive(Debug, Clone, Copy)]
struct Table {
    rows: usize,
    width: usize,
    /// Column after column (Fortran order) instead of row after row (C order).
    by_column: bool,
}

impl Table {
    /// Reads row by row, or column by column, so that beside the result only the bytes of one are
    /// held.
    fn read<const BYTES: usize>(
        self,
        mut reader: impl BufRead,
        value: impl Fn([u8; BYTES]) -> f64,
    ) -> Result<Vec<f32>, InputError> {
        let Self { rows, width, by_column } = self;
        let (runs, length) = if by_column { (width, rows) } else { (rows, width) };
        let mut values = vec![0.0; rows * width];
        let mut bytes = vec![0; length * BYTES];
        for run in 0..runs {
            reader.read_exact(&mut bytes)?;
            let (elements, _) = bytes.as_chunks::<BYTES>();
            for (at, &element) in elements.iter().enumerate() {
                let (row, column) = if by_column { (at, run) } else { (run, at) };
                let narrow = coordinate(value(element));
                values[row * width + column] =
                    narrow.map_err(|problem| Record::Row(row).at(column, problem))?;
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests;
