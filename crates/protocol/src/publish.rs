//! Keeping a server's rows as the vault has them: what is there, what is new, what goes.
//!
//! A publish [begins](crate::BeginPublish), asks for the [MACs](RowMac) of an epoch page by page,
//! sends the rows whose MAC is missing or differs, deletes those the vault no longer has, and
//! [makes the epoch the current one](crate::ActivateEpoch). Each step can be repeated, so a publish
//! that was cut off is simply run again. Every step says from which commit to which it leads.

use crate::leak::{Disclosed, Leak, declassify};
use crate::lineage::Advance;
use crate::names::{Epoch, RowHandle, RowMac};
use crate::rows::RowBatch;
use crate::wire::{DecodeError, Limits, MessageKind, Reader, Writer, ascending, word};

/// Bytes of a MAC.
const MAC_BYTES: usize = 16;

/// Rows to insert or replace, each with its MAC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishRows {
    advance: Disclosed<Advance>,
    batch: RowBatch,
    macs: Disclosed<Vec<RowMac>>,
}

impl PublishRows {
    /// A batch with the MACs of its rows, in their order: ascending by handle.
    ///
    /// # Panics
    /// When there is another number of MACs than of rows.
    pub fn new(advance: Disclosed<Advance>, batch: RowBatch, macs: Disclosed<Vec<RowMac>>) -> Self {
        assert_eq!(macs.len(), batch.rows().len(), "a MAC for every row");
        Self {
            advance: advance.accounted_under(Leak::CollectionShape),
            batch,
            macs: macs.accounted_under(Leak::StoredRows),
        }
    }

    /// Where it leads.
    pub fn advance(&self) -> &Advance {
        &self.advance
    }

    /// The rows.
    pub fn batch(&self) -> &RowBatch {
        &self.batch
    }

    /// MACs of the rows, in their order.
    pub fn macs(&self) -> &[RowMac] {
        &self.macs
    }

    /// Takes everything out.
    pub fn into_parts(self) -> (Advance, RowBatch, Vec<RowMac>) {
        (*self.advance, self.batch, self.macs.into_inner())
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::PublishRows);
        self.advance.write(&mut writer);
        self.batch.write(&mut writer);
        self.macs.iter().for_each(|mac| writer.raw(&mac.0));
        writer.bytes
    }

    /// Reads the wire form.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::PublishRows, limits)?;
        let advance = reader.advance()?;
        let batch = RowBatch::read(&mut reader, limits)?;
        let macs = reader.fields(batch.rows().len(), MAC_BYTES)?.map(mac).collect();
        reader.finish()?;
        Ok(Self::new(advance, batch, declassify(macs, Leak::StoredRows)))
    }
}

/// Asks for the MACs of an epoch, in handle order, from after a handle on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListMacs {
    epoch: Disclosed<Epoch>,
    after: Option<Disclosed<RowHandle>>,
}

impl ListMacs {
    /// The page after a handle; the first page after `None`.
    pub fn new(epoch: Disclosed<Epoch>, after: Option<Disclosed<RowHandle>>) -> Self {
        Self {
            epoch: epoch.accounted_under(Leak::CollectionShape),
            after: after.map(|handle| handle.accounted_under(Leak::StoredRows)),
        }
    }

    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        *self.epoch
    }

    /// The handle after which the page begins.
    pub fn after(&self) -> Option<RowHandle> {
        self.after.as_deref().copied()
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::ListMacs);
        writer.u64(self.epoch.0);
        writer.u8(u8::from(self.after.is_some()));
        writer.u64(self.after().map_or(0, |handle| handle.0));
        writer.bytes
    }

    /// Reads the wire form.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::ListMacs, limits)?;
        let epoch = reader.epoch()?;
        let after = match (reader.u8()?, reader.u64()?) {
            (0, 0) => None,
            (1, handle) => Some(declassify(RowHandle(handle), Leak::StoredRows)),
            _ => return Err(DecodeError::Invalid("a page that begins nowhere")),
        };
        reader.finish()?;
        Ok(Self::new(epoch, after))
    }
}

/// One page of MACs. The last page is the one that is not full.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowMacs {
    /// Handles with their MACs, ascending by handle.
    pub macs: Vec<(RowHandle, RowMac)>,
}

impl RowMacs {
    /// MACs on a full page.
    pub const PAGE: usize = 65_536;

    /// Whether another page may follow.
    pub fn is_full(&self) -> bool {
        self.macs.len() >= Self::PAGE
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::RowMacs);
        writer.bytes.reserve(4 + self.macs.len() * (8 + MAC_BYTES));
        writer.count(self.macs.len());
        for (handle, mac) in &self.macs {
            writer.u64(handle.0);
            writer.raw(&mac.0);
        }
        writer.bytes
    }

    /// Reads the wire form.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::RowMacs, limits)?;
        let count = reader.count("MACs", Self::PAGE)?;
        let macs: Vec<_> = reader
            .fields(count, 8 + MAC_BYTES)?
            .map(|field| (RowHandle(word(&field[..8])), mac(&field[8..])))
            .collect();
        reader.finish()?;
        if !macs.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(DecodeError::Order("row handles"));
        }
        Ok(Self { macs })
    }
}

/// Rows to remove. Names that are not there are not an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeleteRows {
    advance: Disclosed<Advance>,
    epoch: Disclosed<Epoch>,
    handles: Disclosed<Vec<RowHandle>>,
}

impl DeleteRows {
    /// Rows of an epoch. Sorts the handles and drops repeated ones.
    pub fn new(
        advance: Disclosed<Advance>,
        epoch: Disclosed<Epoch>,
        handles: Disclosed<Vec<RowHandle>>,
    ) -> Self {
        let mut handles = handles.accounted_under(Leak::StoredRows).into_inner();
        handles.sort_unstable();
        handles.dedup();
        Self {
            advance: advance.accounted_under(Leak::CollectionShape),
            epoch: epoch.accounted_under(Leak::CollectionShape),
            handles: declassify(handles, Leak::StoredRows),
        }
    }

    /// Where it leads.
    pub fn advance(&self) -> &Advance {
        &self.advance
    }

    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        *self.epoch
    }

    /// The rows, ascending.
    pub fn handles(&self) -> &[RowHandle] {
        &self.handles
    }

    /// The wire form.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MessageKind::DeleteRows);
        self.advance.write(&mut writer);
        writer.u64(self.epoch.0);
        writer.count(self.handles.len());
        self.handles.iter().for_each(|handle| writer.u64(handle.0));
        writer.bytes
    }

    /// Reads the wire form.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let mut reader = Reader::open(bytes, MessageKind::DeleteRows, limits)?;
        let (advance, epoch) = (reader.advance()?, reader.epoch()?);
        let count = reader.count("rows", limits.rows)?;
        let handles: Vec<RowHandle> =
            reader.fields(count, 8)?.map(|field| RowHandle(word(field))).collect();
        reader.finish()?;
        ascending("row handles", &handles)?;
        Ok(Self::new(advance, epoch, declassify(handles, Leak::StoredRows)))
    }
}

fn mac(field: &[u8]) -> RowMac {
    RowMac(field.try_into().expect("a field of sixteen bytes"))
}
