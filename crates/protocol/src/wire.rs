//! Bytes: a header for every message, a reader that never trusts a length.

use std::ops::RangeInclusive;

use shard_rlwe::blind::{RecordShapeError, ShapeError};
#[cfg(feature = "slots")]
use shard_rlwe::slots::{SlotsError, SlotsParameterError};
use shard_rlwe::{LayoutError, PackError, ParameterError};

/// Version of every message. Peers of another version are told so in words.
pub const WIRE_VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"SHRD";

/// Codes of the messages that clients of the slot layout send.
const SLOTS_CODES: RangeInclusive<u16> = 7..=8;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MessageKind {
    /// [`RowBatch`](crate::RowBatch).
    RowBatch,
    /// [`RerankRequest`](crate::RerankRequest).
    RerankRequest,
    /// [`RerankResponse`](crate::RerankResponse).
    RerankResponse,
    /// [`Refusal`](crate::Refusal).
    Refusal,
    /// The acknowledgement of rows or of a session; no body.
    Accepted,
    /// [`OpenSession`](crate::OpenSession).
    OpenSession,
    /// [`OpenSlotsSession`](crate::OpenSlotsSession).
    #[cfg(feature = "slots")]
    OpenSlotsSession,
    /// [`SlotsRequest`](crate::SlotsRequest).
    #[cfg(feature = "slots")]
    SlotsRequest,
    /// [`SlotsResponse`](crate::SlotsResponse).
    #[cfg(feature = "slots")]
    SlotsResponse,
    /// [`PublishRows`](crate::PublishRows).
    PublishRows,
    /// [`ListMacs`](crate::ListMacs).
    ListMacs,
    /// [`RowMacs`](crate::RowMacs).
    RowMacs,
    /// [`DeleteRows`](crate::DeleteRows).
    DeleteRows,
    /// [`ActivateEpoch`](crate::ActivateEpoch).
    ActivateEpoch,
    /// Asks for the state of the collection; no body.
    Describe,
    /// [`CollectionState`](crate::CollectionState).
    CollectionState,
    /// [`PutBlob`](crate::PutBlob).
    PutBlob,
    /// [`FetchBlob`](crate::FetchBlob).
    FetchBlob,
    /// [`Blob`](crate::Blob).
    Blob,
    /// [`DeleteBlob`](crate::DeleteBlob).
    DeleteBlob,
    /// [`ListBlobs`](crate::ListBlobs).
    ListBlobs,
    /// [`BlobList`](crate::BlobList).
    BlobList,
    /// [`BeginPublish`](crate::BeginPublish).
    BeginPublish,
    /// [`ResetCollection`](crate::ResetCollection).
    ResetCollection,
    /// [`FetchShared`](crate::FetchShared).
    FetchShared,
    /// [`BlindQuery`](crate::BlindQuery).
    BlindQuery,
    /// [`BlindAnswer`](crate::BlindAnswer).
    BlindAnswer,
    /// [`BlockList`](crate::BlockList).
    BlockList,
    /// [`PutBlobs`](crate::PutBlobs).
    PutBlobs,
    /// [`FetchBlobs`](crate::FetchBlobs).
    FetchBlobs,
    /// [`FetchSharedMany`](crate::FetchSharedMany).
    FetchSharedMany,
    /// [`Blobs`](crate::Blobs).
    Blobs,
    /// [`BlindQuery`](crate::BlindQuery) of records.
    RecordQuery,
    /// [`RecordList`](crate::RecordList).
    RecordList,
}

impl MessageKind {
    /// Every kind with its code.
    pub(crate) const ALL: &'static [(MessageKind, u16)] = &[
        (MessageKind::RowBatch, 1),
        (MessageKind::RerankRequest, 2),
        (MessageKind::RerankResponse, 3),
        (MessageKind::Refusal, 4),
        (MessageKind::Accepted, 5),
        (MessageKind::OpenSession, 6),
        #[cfg(feature = "slots")]
        (MessageKind::OpenSlotsSession, 7),
        #[cfg(feature = "slots")]
        (MessageKind::SlotsRequest, 8),
        #[cfg(feature = "slots")]
        (MessageKind::SlotsResponse, 9),
        (MessageKind::PublishRows, 10),
        (MessageKind::ListMacs, 11),
        (MessageKind::RowMacs, 12),
        (MessageKind::DeleteRows, 13),
        (MessageKind::ActivateEpoch, 14),
        (MessageKind::Describe, 15),
        (MessageKind::CollectionState, 16),
        (MessageKind::PutBlob, 17),
        (MessageKind::FetchBlob, 18),
        (MessageKind::Blob, 19),
        (MessageKind::DeleteBlob, 20),
        (MessageKind::ListBlobs, 21),
        (MessageKind::BlobList, 22),
        (MessageKind::BeginPublish, 23),
        (MessageKind::ResetCollection, 24),
        (MessageKind::FetchShared, 25),
        (MessageKind::BlindQuery, 26),
        (MessageKind::BlindAnswer, 27),
        (MessageKind::BlockList, 28),
        (MessageKind::PutBlobs, 29),
        (MessageKind::FetchBlobs, 30),
        (MessageKind::FetchSharedMany, 31),
        (MessageKind::Blobs, 32),
        (MessageKind::RecordQuery, 33),
        (MessageKind::RecordList, 34),
    ];

    fn code(self) -> u16 {
        Self::ALL.iter().find(|(kind, _)| *kind == self).expect("ALL lists every kind").1
    }

    /// The whole message of a kind that has no body.
    pub fn bare(self) -> Vec<u8> {
        Writer::new(self).bytes
    }
}

/// Ceilings on what a decoder accepts, checked before anything is allocated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of a message, and of the answer to one.
    pub bytes: usize,
    /// Cells of one request.
    pub cells: usize,
    /// Rows of one request.
    pub candidates: usize,
    /// Rows of one batch.
    pub rows: usize,
    /// Coordinates of a row.
    pub width: usize,
    /// Coefficients of a ring: the planner's largest.
    pub degree: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            cells: 4096,
            candidates: 65_536,
            rows: 1 << 26,
            width: 16_384,
            degree: 8192,
        }
    }
}

/// Why bytes are not the message they should be.
#[derive(Debug, thiserror::Error, PartialEq, Clone)]
#[non_exhaustive]
pub enum DecodeError {
    /// Shorter than its own lengths say.
    #[error("message ends early: {needed} more bytes were expected where {left} are left")]
    Truncated {
        /// Bytes the next field takes.
        needed: usize,
        /// Bytes left.
        left: usize,
    },
    /// Longer than its own lengths say.
    #[error("{0} bytes after the end of the message")]
    Trailing(usize),
    /// Not one of our messages.
    #[error("not a Shard message")]
    Magic,
    /// From another version.
    #[error("message version {actual}; this side speaks version {WIRE_VERSION}")]
    Version {
        /// Version of the peer.
        actual: u16,
    },
    /// Another kind of message than expected.
    #[error("a message of kind {actual} where {expected:?} was expected")]
    Kind {
        /// Expected kind.
        expected: MessageKind,
        /// Code found.
        actual: u16,
    },
    /// A count above the limit.
    #[error("{what}: {actual} is above the limit of {limit}")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// The count found.
        actual: u64,
        /// The limit.
        limit: u64,
    },
    /// Names out of order or repeated.
    #[error("{0} are not in strictly ascending order")]
    Order(&'static str),
    /// A field that has no meaning.
    #[error("{0}")]
    Invalid(&'static str),
    /// Refused ring parameters.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// Refused layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A malformed ciphertext.
    #[error(transparent)]
    Ciphertext(#[from] PackError),
    /// A refused shape of blocks.
    #[error(transparent)]
    BlockShape(#[from] ShapeError),
    /// A refused shape of records.
    #[error(transparent)]
    RecordShape(#[from] RecordShapeError),
    /// A message of the paper's slot layout, to a build without the feature `slots`.
    #[error("this build does not know the paper's slot layout")]
    NoSlots,
    /// Refused parameters of the slot layout.
    #[cfg(feature = "slots")]
    #[error(transparent)]
    SlotsParameters(#[from] SlotsParameterError),
    /// A refused slot layout.
    #[cfg(feature = "slots")]
    #[error(transparent)]
    Slots(#[from] SlotsError),
}

/// Kind of a message whose header is sound.
pub fn message_kind(bytes: &[u8]) -> Result<MessageKind, DecodeError> {
    let code = read_header(&mut Reader { rest: bytes })?;
    if let Some((kind, _)) = MessageKind::ALL.iter().find(|(_, known)| *known == code) {
        return Ok(*kind);
    }
    Err(if SLOTS_CODES.contains(&code) {
        DecodeError::NoSlots
    } else {
        DecodeError::Invalid("a message of unknown kind")
    })
}

fn read_header(reader: &mut Reader<'_>) -> Result<u16, DecodeError> {
    if reader.take(4)? != MAGIC {
        return Err(DecodeError::Magic);
    }
    let actual = reader.u16()?;
    if actual != WIRE_VERSION {
        return Err(DecodeError::Version { actual });
    }
    reader.u16()
}

/// Reads little-endian fields from a slice.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks size and header.
    pub(crate) fn open(
        bytes: &'a [u8],
        expected: MessageKind,
        limits: &Limits,
    ) -> Result<Self, DecodeError> {
        within("message bytes", bytes.len(), limits.bytes)?;
        let mut reader = Self { rest: bytes };
        let actual = read_header(&mut reader)?;
        if actual == expected.code() {
            Ok(reader)
        } else {
            Err(DecodeError::Kind { expected, actual })
        }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(DecodeError::Truncated { needed: count, left: self.rest.len() }),
        }
    }

    /// A run of `count` fields of `size` bytes each, taken whole so that a hostile count cannot
    /// make the caller reserve more than the message holds.
    pub(crate) fn fields(
        &mut self,
        count: usize,
        size: usize,
    ) -> Result<std::slice::ChunksExact<'a, u8>, DecodeError> {
        let needed = count.saturating_mul(size);
        Ok(self.take(needed)?.chunks_exact(size))
    }

    pub(crate) fn array<const L: usize>(&mut self) -> Result<[u8; L], DecodeError> {
        Ok(self.take(L)?.try_into().expect("exactly L bytes were taken"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A 32-bit count under a limit.
    pub(crate) fn count(&mut self, what: &'static str, limit: usize) -> Result<usize, DecodeError> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        within(what, count, limit)?;
        Ok(count)
    }

    /// Whether so many bytes are left.
    pub(crate) fn holds(&self, bytes: usize) -> bool {
        self.rest.len() >= bytes
    }

    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing(self.rest.len())) }
    }
}

pub(crate) fn within(what: &'static str, actual: usize, limit: usize) -> Result<(), DecodeError> {
    if actual <= limit {
        return Ok(());
    }
    Err(DecodeError::Limit { what, actual: actual as u64, limit: limit as u64 })
}

/// Writes little-endian fields.
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(kind: MessageKind) -> Self {
        let mut writer = Self { bytes: Vec::new() };
        writer.bytes.extend_from_slice(&MAGIC);
        writer.u16(WIRE_VERSION);
        writer.u16(kind.code());
        writer
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.raw(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    /// A 32-bit count.
    ///
    /// # Panics
    /// Above `u32::MAX`, which no limit allows.
    pub(crate) fn count(&mut self, count: usize) {
        let count = u32::try_from(count).expect("counts are limited well below 2^32");
        self.raw(&count.to_le_bytes());
    }
}

/// Reads a little-endian word from an eight-byte field.
pub(crate) fn word(field: &[u8]) -> u64 {
    u64::from_le_bytes(field.try_into().expect("an eight-byte field"))
}

/// Refuses words that are not strictly ascending.
pub(crate) fn ascending<T: Ord>(what: &'static str, words: &[T]) -> Result<(), DecodeError> {
    if words.is_sorted_by(|a, b| a < b) { Ok(()) } else { Err(DecodeError::Order(what)) }
}
