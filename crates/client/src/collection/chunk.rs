//! Rows as they are stored: some hundred together, in two values.
//!
//! One value has what routing needs (ids, names, cells, norms, prefixes), the other the documents'
//! own vectors. Searching reads the first of every chunk and nothing else; a change of one document
//! writes both values of one chunk.
//!
//! A prefix is kept in fixed point of 24 bits under an exponent of its row,
//!
//! ```text
//! u_k = m_k 2^(e - 23) ,  m_k = round(u_k 2^(23 - e)) ,  |m_k| < 2^23 ,
//! ```
//!
//! so each coordinate is off by at most `2^(e - 24)`. Vectors are kept in half precision if that
//! loses nothing, else in single precision.

use std::ops::Range;

use half::f16;
use half::slice::HalfFloatSliceExt;
use shard_protocol::RowHandle;

use crate::payload::{PayloadError, Reader, Writer};

const ROUTING_VERSION: u16 = 1;
const VECTORS_VERSION: u16 = 1;

/// Bytes of vectors in a chunk, about: few enough that a change writes little, enough that a
/// million documents have some ten thousand chunks.
const CHUNK_BYTES: usize = 96 << 10;

/// Rows of a chunk at least and at most.
const FEWEST_ROWS: usize = 32;
const MOST_ROWS: usize = 128;

/// Rows of a full chunk of vectors like these.
pub(super) fn rows_per_chunk(values: &[f32], width: usize) -> usize {
    let bytes = if is_half(values) { 2 } else { 4 };
    (CHUNK_BYTES / (width * bytes).max(1)).clamp(FEWEST_ROWS, MOST_ROWS)
}

/// Ids of rows, one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ids {
    text: String,
    ends: Vec<u64>,
}

impl Ids {
    pub(crate) fn push(&mut self, id: &str) {
        self.text.push_str(id);
        self.ends.push(self.text.len() as u64);
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[at] as usize]
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|at| self.get(at))
    }

    fn append(&mut self, other: &Self) {
        let before = self.text.len() as u64;
        self.text.push_str(&other.text);
        self.ends.extend(other.ends.iter().map(|end| before + end));
    }
}

/// What routing needs of some rows, column by column.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RoutingRows {
    pub(crate) ids: Ids,
    pub(crate) handles: Vec<RowHandle>,
    /// Empty when every row has a key of its own.
    pub(crate) cells: Vec<u32>,
    /// Norms of the residuals, rounded up.
    pub(crate) residual_norms: Vec<f32>,
    /// Norms of the documents' own vectors.
    pub(crate) lengths: Vec<f32>,
    /// Whether a document came or changed after the model was fitted.
    pub(crate) late: Vec<bool>,
    pub(crate) prefix_width: usize,
    pub(crate) prefixes: Vec<f32>,
    has_cells: bool,
}

/// What is recorded of one row.
#[derive(Clone, Copy)]
pub(crate) struct RowRecord<'a> {
    pub(crate) id: &'a str,
    pub(crate) handle: RowHandle,
    /// `None` when the row has a key of its own.
    pub(crate) cell: Option<u32>,
    pub(crate) residual_norm: f32,
    pub(crate) length: f32,
    pub(crate) is_late: bool,
    pub(crate) prefix: &'a [f32],
}

impl RoutingRows {
    /// No rows.
    pub(crate) fn empty(prefix_width: usize, has_cells: bool) -> Self {
        Self {
            ids: Ids::default(),
            handles: Vec::new(),
            cells: Vec::new(),
            residual_norms: Vec::new(),
            lengths: Vec::new(),
            late: Vec::new(),
            prefix_width,
            prefixes: Vec::new(),
            has_cells,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.handles.len()
    }

    pub(crate) fn push(&mut self, row: &RowRecord<'_>) {
        debug_assert_eq!(row.prefix.len(), self.prefix_width);
        debug_assert_eq!(row.cell.is_some(), self.has_cells);
        self.ids.push(row.id);
        self.handles.push(row.handle);
        self.cells.extend(row.cell);
        self.residual_norms.push(row.residual_norm);
        self.lengths.push(row.length);
        self.late.push(row.is_late);
        self.prefixes.extend_from_slice(row.prefix);
    }

    pub(crate) fn row(&self, at: usize) -> RowRecord<'_> {
        RowRecord {
            id: self.ids.get(at),
            handle: self.handles[at],
            cell: self.cells.get(at).copied(),
            residual_norm: self.residual_norms[at],
            length: self.lengths[at],
            is_late: self.late[at],
            prefix: &self.prefixes[at * self.prefix_width..][..self.prefix_width],
        }
    }

    /// Bound on the norm of the error of a row's prefix, as it is stored.
    pub(crate) fn prefix_error(&self, at: usize) -> f64 {
        let prefix = self.row(at).prefix;
        if prefix.iter().all(|&u| u == 0.0) {
            return 0.0;
        }
        // What was rounded has the exponent of what it was rounded from.
        (self.prefix_width as f64).sqrt() * 2_f64.powi(i32::from(exponent(prefix)) - 24)
    }

    /// The cells of all rows, unless each has a key of its own.
    pub(crate) fn take_cells(&mut self) -> Option<Vec<u32>> {
        self.has_cells.then(|| std::mem::take(&mut self.cells))
    }

    /// No rows, of the same shape.
    pub(crate) fn none(&self) -> Self {
        Self::empty(self.prefix_width, self.has_cells)
    }

    /// Some rows of these.
    pub(crate) fn range(&self, range: Range<usize>) -> Self {
        let mut some = self.none();
        range.for_each(|at| some.push(&self.row(at)));
        some
    }

    /// Bytes that a row takes at least when it is encoded.
    pub(crate) fn least_bytes(prefix_width: usize) -> u64 {
        // Its prefix and exponent, a name, an end of an id, two norms, and whether it is late.
        3 * prefix_width as u64 + 2 + 8 + 8 + 4 + 4 + 1
    }

    /// Makes room for so many rows more.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.ids.ends.reserve_exact(rows);
        self.handles.reserve_exact(rows);
        self.cells.reserve_exact(if self.has_cells { rows } else { 0 });
        self.residual_norms.reserve_exact(rows);
        self.lengths.reserve_exact(rows);
        self.late.reserve_exact(rows);
        self.prefixes.reserve_exact(rows * self.prefix_width);
    }

    /// Adds the rows of another part.
    pub(crate) fn append(&mut self, part: Self) {
        self.ids.append(&part.ids);
        self.handles.extend_from_slice(&part.handles);
        self.cells.extend_from_slice(&part.cells);
        self.residual_norms.extend_from_slice(&part.residual_norms);
        self.lengths.extend_from_slice(&part.lengths);
        self.late.extend_from_slice(&part.late);
        self.prefixes.extend_from_slice(&part.prefixes);
    }

    /// The value of a chunk.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(ROUTING_VERSION);
        writer.u64(self.rows() as u64);
        writer.u64(self.prefix_width as u64);
        writer.u64s(self.ids.ends.iter().copied());
        writer.string(&self.ids.text);
        writer.u64s(self.handles.iter().map(|handle| handle.0));
        writer.u32s(&self.cells);
        writer.f32s(&self.residual_norms);
        writer.f32s(&self.lengths);
        writer.bytes.extend(self.late.iter().map(|&late| u8::from(late)));
        let mut coordinates = Vec::with_capacity(self.prefixes.len() * 3);
        for prefix in self.prefixes.chunks_exact(self.prefix_width) {
            let exponent = exponent(prefix);
            writer.bytes.extend_from_slice(&exponent.to_le_bytes());
            let scale = 2_f64.powi(23 - i32::from(exponent));
            for &u in prefix {
                let mantissa = (f64::from(u) * scale).round() as i32;
                coordinates.extend_from_slice(&mantissa.to_le_bytes()[..3]);
            }
        }
        writer.bytes.extend_from_slice(&coordinates);
        writer.bytes
    }

    /// Reads the value of a chunk of a model with this prefix width, with or without cells.
    pub(crate) fn decode(
        bytes: &[u8],
        prefix_width: usize,
        has_cells: bool,
    ) -> Result<Self, PayloadError> {
        let contradiction = || PayloadError::Invalid("its parts do not go together".into());
        let mut reader = Reader::new(bytes, ROUTING_VERSION)?;
        let rows = reader.size()?;
        if reader.size()? != prefix_width {
            return Err(contradiction());
        }
        let ids = Ids { ends: reader.u64s()?, text: reader.string()? };
        let handles: Vec<RowHandle> = reader.u64s()?.into_iter().map(RowHandle).collect();
        let cells = reader.u32s()?;
        let residual_norms = reader.f32s()?;
        let lengths = reader.f32s()?;
        let late = reader.take(rows)?.iter().map(|&late| late != 0).collect();
        let exponents = reader.take(rows.checked_mul(2).ok_or(PayloadError::Truncated)?)?;
        let coordinates = rows.checked_mul(prefix_width).and_then(|count| count.checked_mul(3));
        let coordinates = reader.take(coordinates.ok_or(PayloadError::Truncated)?)?;
        reader.finish()?;

        let mut prefixes = Vec::with_capacity(rows * prefix_width);
        for (exponent, row) in
            exponents.chunks_exact(2).zip(coordinates.chunks_exact(3 * prefix_width.max(1)))
        {
            let exponent = i16::from_le_bytes([exponent[0], exponent[1]]);
            if !EXPONENTS.contains(&exponent) {
                return Err(contradiction());
            }
            let step = 2_f64.powi(i32::from(exponent) - 23);
            prefixes.extend(row.as_chunks().0.iter().map(|&[low, middle, high]| {
                // The three bytes at the top of a word keep their sign when shifted down.
                let mantissa = i32::from_le_bytes([0, low, middle, high]) >> 8;
                (f64::from(mantissa) * step) as f32
            }));
        }
        let ordered = ids.ends.is_sorted()
            && ids.ends.last().copied().unwrap_or(0) == ids.text.len() as u64
            && ids.ends.iter().all(|end| ids.text.is_char_boundary(*end as usize));
        let finite = |values: &[f32]| values.iter().all(|v| v.is_finite() && *v >= 0.0);
        if ids.len() != rows
            || !ordered
            || handles.len() != rows
            || cells.len() != if has_cells { rows } else { 0 }
            || residual_norms.len() != rows
            || lengths.len() != rows
            || !finite(&residual_norms)
            || !finite(&lengths)
            || prefixes.len() != rows * prefix_width
            || !all_finite(&prefixes)
        {
            return Err(contradiction());
        }
        Ok(Self {
            ids,
            handles,
            cells,
            residual_norms,
            lengths,
            late,
            prefix_width,
            prefixes,
            has_cells,
        })
    }
}

/// Whether all values are numbers. Looks at every one, so many are looked at at once.
fn all_finite(values: &[f32]) -> bool {
    values.iter().fold(true, |all, value| all & value.is_finite())
}

/// Exponents of single-precision numbers, and room for the next power of two.
const EXPONENTS: Range<i16> = -200..130;

/// The least `e` with `round(|u| 2^(23 - e)) < 2^23` for every coordinate.
fn exponent(prefix: &[f32]) -> i16 {
    let largest = prefix.iter().fold(0.0_f64, |most, &u| most.max(f64::from(u).abs()));
    if largest == 0.0 {
        return 0;
    }
    let exponent = largest.log2().floor() as i32 + 1;
    // The logarithm may be off by one near a power of two, and rounding may reach the top.
    let fits = |e: i32| (largest * 2_f64.powi(23 - e)).round() < f64::from(1 << 23);
    let fitting = (exponent - 1..).find(|&e| fits(e)).expect("a large exponent fits");
    fitting as i16
}

/// Whether every value is one of half precision.
pub(super) fn is_half(values: &[f32]) -> bool {
    values.iter().all(|&v| f16::from_f32(v).to_f32().to_bits() == v.to_bits())
}

/// The value of a chunk's vectors.
pub(crate) fn encode_vectors(values: &[f32], width: usize) -> Vec<u8> {
    encode_vectors_in(values, width, is_half(values))
}

/// As [`encode_vectors`], in half precision or single.
pub(super) fn encode_vectors_in(values: &[f32], width: usize, in_half: bool) -> Vec<u8> {
    let mut writer = Writer::new(VECTORS_VERSION);
    writer.u64(width as u64);
    if in_half {
        writer.bytes.push(2);
        writer.bytes.reserve(values.len() * 2);
        values.iter().for_each(|&v| writer.bytes.extend(f16::from_f32(v).to_le_bytes()));
    } else {
        writer.bytes.push(4);
        writer.bytes.reserve(values.len() * 4);
        values.iter().for_each(|&v| writer.bytes.extend(v.to_le_bytes()));
    }
    writer.bytes
}

/// Reads the vectors of a chunk.
pub(crate) fn decode_vectors(bytes: &[u8], width: usize) -> Result<Vec<f32>, PayloadError> {
    decode_vectors_in(bytes, width).map(|(values, _)| values)
}

/// As [`decode_vectors`], and whether they were in half precision.
pub(super) fn decode_vectors_in(
    bytes: &[u8],
    width: usize,
) -> Result<(Vec<f32>, bool), PayloadError> {
    let mut reader = Reader::new(bytes, VECTORS_VERSION)?;
    let found = reader.size()?;
    let [precision] = reader.array()?;
    let data = reader.rest();
    let values: Vec<f32> = match precision {
        2 => {
            let halves: Vec<f16> =
                data.as_chunks().0.iter().map(|half| f16::from_le_bytes(*half)).collect();
            let mut values = vec![0.0; halves.len()];
            halves.convert_to_f32_slice(&mut values);
            values
        }
        4 => data.as_chunks().0.iter().map(|single| f32::from_le_bytes(*single)).collect(),
        _ => return Err(PayloadError::Invalid("vectors of an unknown precision".into())),
    };
    let whole = values.len() * usize::from(precision) == data.len();
    if found != width || !whole || !values.len().is_multiple_of(width) {
        return Err(PayloadError::Invalid("vectors of another width".into()));
    }
    if !all_finite(&values) {
        return Err(PayloadError::Invalid("a coordinate that is no number".into()));
    }
    Ok((values, precision == 2))
}
