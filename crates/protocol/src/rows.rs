//! What the owner uploads.

use crate::leak::{Disclosed, Leak, declassify};
use crate::names::{CellHandle, Epoch, RowHandle};
use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer, word};

/// One stored row: a rotated residual in fixed point, by handle, in a cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The cell whose key rotated it, declassified as [`Leak::CellMembership`].
    pub cell: Disclosed<CellHandle>,
    /// Its name.
    pub handle: RowHandle,
    /// `round(2^k z)`; the exponent `k` stays with the client.
    pub coordinates: Vec<i32>,
}

/// Rows of one epoch, in handle order: the order of the names, which are pseudorandom, and so
/// never the order of ingestion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowBatch {
    epoch: Disclosed<Epoch>,
    width: Disclosed<usize>,
    rows: Disclosed<Vec<Row>>,
}

impl RowBatch {
    /// A batch to upload. Sorts the rows by handle.
    ///
    /// # Panics
    /// When a row has another width than `width`, or something was declassified as another leak
    /// than it is.
    pub fn new(
        epoch: Disclosed<Epoch>,
        width: Disclosed<usize>,
        rows: Disclosed<Vec<Row>>,
    ) -> Self {
        let mut rows = rows.accounted_under(Leak::StoredRows).into_inner();
        for row in &rows {
            assert_eq!(row.coordinates.len(), *width, "rows of one width");
            row.cell.accounted_under(Leak::CellMembership);
        }
        rows.sort_unstable_by_key(|row| row.handle);
        Self {
            epoch: epoch.accounted_under(Leak::CollectionShape),
            width: width.accounted_under(Leak::CollectionShape),
            rows: declassify(rows, Leak::StoredRows),
        }
    }

    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        *self.epoch
    }

    /// Coordinates of each row.
    pub fn width(&self) -> usize {
        *self.width
    }

    /// The rows, by ascending handle.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Takes the rows out.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows.into_inner()
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::RowBatch);
        self.write(&mut writer);
        writer.bytes
    }

    /// Reads the wire form.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::RowBatch, limits)?;
        let batch = Self::read(&mut reader, limits)?;
        reader.finish()?;
        Ok(batch)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.bytes.reserve(16 + self.rows.len() * (16 + 4 * *self.width));
        writer.u64(self.epoch.0);
        writer.count(*self.width);
        writer.count(self.rows.len());
        for row in self.rows.iter() {
            writer.u64(row.handle.0);
            writer.u64(row.cell.0);
            row.coordinates.iter().for_each(|z| writer.raw(&z.to_le_bytes()));
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>, limits: &Limits) -> Result<Self, DecodeError> {
        let epoch = Epoch(reader.u64()?);
        let width = reader.count("row width", limits.width)?;
        if width == 0 {
            return Err(DecodeError::Invalid("rows of width zero"));
        }
        let count = reader.count("rows", limits.rows)?;
        let fields = reader.fields(count, 16 + 4 * width)?;
        let rows: Vec<Row> = fields
            .map(|field| Row {
                handle: RowHandle(word(&field[..8])),
                cell: declassify(CellHandle(word(&field[8..16])), Leak::CellMembership),
                coordinates: field[16..]
                    .chunks_exact(4)
                    .map(|z| i32::from_le_bytes(z.try_into().expect("four bytes")))
                    .collect(),
            })
            .collect();
        if !rows.is_sorted_by(|a, b| a.handle < b.handle) {
            return Err(DecodeError::Order("row handles"));
        }
        Ok(Self::new(
            declassify(epoch, Leak::CollectionShape),
            declassify(width, Leak::CollectionShape),
            declassify(rows, Leak::StoredRows),
        ))
    }
}
