//! The canaries of an epoch: some of the documents, whose vectors whoever searches has.
//!
//! A server that answers falsely and watches what the client does next learns about the key of the
//! request. An owner has every vector and recomputes every score. A reader has those of the canaries:
//! when one of them is among the candidates, its score is known beforehand. Which documents they are
//! follows from the epoch's secret and the names of their rows,
//!
//! ```text
//! chosen where  w(handle) < share ,   w pseudorandom, from 0 to below 1 ,
//! share = v clamp(IN_A_REQUEST / K, 1/32, 1/4) ,   v of the epoch's secret, between 3/4 and 5/4 ,
//! ```
//!
//! and where these are fewer than [`FEWEST`], the documents of the smallest `w` instead. Nothing that
//! the server sees depends on it: a canary is a row like any other, routed, stored and asked for as it
//! would be if it were none. A new epoch chooses anew.

use std::collections::HashMap;

use rayon::prelude::*;
use shard_protocol::RowHandle;

use super::chunk::{decode_vectors_in, encode_vectors_in};
use crate::keys::KeySchedule;
use crate::model::Model;
use crate::payload::{PayloadError, Reader, Writer};

const VERSION: u16 = 3;

/// Canaries of a collection at least, unless it has fewer documents.
pub(super) const FEWEST: usize = 32;

/// Canaries that a shortlist has, about.
const IN_A_REQUEST: f64 = 8.0;

/// The stored value has room for a multiple of so many canaries.
const ROOM: usize = 64;

/// Deviations by which that is more than there are on average: once in 10^9 choices it is not enough.
const DEVIATIONS: f64 = 6.0;

/// Which documents of an epoch are canaries.
pub(super) struct Choice<'k> {
    keys: &'k KeySchedule,
    share: f64,
}

impl<'k> Choice<'k> {
    /// That of a model, under the keys of its epoch.
    pub(super) fn new(model: &Model, keys: &'k KeySchedule) -> Self {
        let wanted = (IN_A_REQUEST / model.candidates() as f64).clamp(1.0 / 32.0, 0.25);
        Self { keys, share: wanted * (0.75 + keys.canary_spread() / 2.0) }
    }

    /// Whether a row is chosen by its own word, in whatever company.
    pub(super) fn takes(&self, handle: RowHandle) -> bool {
        self.keys.canary_word(handle) < self.share
    }

    /// Canaries that the stored value of a collection of so many documents has room for. Its length
    /// follows from their number, and not from how many were chosen: one document more would else say of
    /// itself, now and then, that it is a canary.
    pub(super) fn room(&self, documents: usize) -> usize {
        let mean = documents as f64 * self.share;
        ((mean + DEVIATIONS * mean.sqrt()).ceil() as usize).max(FEWEST).next_multiple_of(ROOM)
    }

    /// The places of those chosen among all rows of a collection, in order.
    pub(super) fn among(&self, handles: &[RowHandle]) -> Vec<usize> {
        let words: Vec<f64> =
            handles.par_iter().map(|&handle| self.keys.canary_word(handle)).collect();
        let mut chosen: Vec<usize> =
            (0..words.len()).filter(|&at| words[at] < self.share).collect();
        let fewest = FEWEST.min(words.len());
        if chosen.len() < fewest {
            chosen = (0..words.len()).collect();
            let order = |&at: &usize| (words[at], handles[at]);
            chosen.sort_unstable_by(|a, b| {
                let ((word, handle), (other, beside)) = (order(a), order(b));
                word.total_cmp(&other).then(handle.cmp(&beside))
            });
            chosen.truncate(fewest);
            chosen.sort_unstable();
        }
        chosen
    }
}

/// Canaries as they are stored: the names of their rows, and their vectors.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Canaries {
    handles: Vec<RowHandle>,
    /// One after the other, in the order of the names.
    vectors: Vec<f32>,
    /// Whether half precision has been enough for all documents since the epoch began. What the value is
    /// stored in depends on this, and not on which documents were chosen.
    is_half: bool,
}

impl Canaries {
    /// These rows, with the vector of each. `is_half` is that of all documents of the epoch.
    pub(crate) fn new(handles: Vec<RowHandle>, vectors: Vec<f32>, is_half: bool) -> Self {
        Self { handles, vectors, is_half }
    }

    /// The vector of one, by its place.
    pub(crate) fn vector(&self, at: usize) -> &[f32] {
        let width = self.vectors.len() / self.handles.len();
        &self.vectors[at * width..][..width]
    }

    pub(crate) fn is_half(&self) -> bool {
        self.is_half
    }

    /// The place of each row's canary, for rows that are some.
    pub(crate) fn places(&self, rows: &[RowHandle]) -> Result<HashMap<u32, usize>, PayloadError> {
        let named: HashMap<RowHandle, usize> = self.handles.iter().copied().zip(0..).collect();
        let places: HashMap<u32, usize> =
            (0..).zip(rows).filter_map(|(row, handle)| Some((row, *named.get(handle)?))).collect();
        if named.len() != self.handles.len() || places.len() != named.len() {
            return Err(PayloadError::Invalid("a canary that is no document".into()));
        }
        Ok(places)
    }

    /// The stored value, with room for so many.
    pub(super) fn encode(&self, width: usize, room: usize) -> Vec<u8> {
        let mut writer = Writer::new(VERSION);
        writer.u64s(self.handles.iter().map(|handle| handle.0));
        let vectors = encode_vectors_in(&self.vectors, width, self.is_half);
        writer.u64(vectors.len() as u64);
        writer.bytes.extend_from_slice(&vectors);
        let one = size_of::<u64>() + width * if self.is_half { 2 } else { 4 };
        let missing = room.max(self.handles.len().next_multiple_of(ROOM)) - self.handles.len();
        writer.bytes.resize(writer.bytes.len() + missing * one, 0);
        writer.bytes
    }

    /// Reads the stored value, of documents of this width.
    pub(super) fn decode(bytes: &[u8], width: usize) -> Result<Self, PayloadError> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let handles: Vec<RowHandle> = reader.u64s()?.into_iter().map(RowHandle).collect();
        let vectors = reader.size()?;
        let (vectors, is_half) = decode_vectors_in(reader.take(vectors)?, width)?;
        let padding = reader.rest();
        let whole = !handles.is_empty() && handles.len().checked_mul(width) == Some(vectors.len());
        if !whole || padding.iter().any(|&byte| byte != 0) {
            return Err(PayloadError::Invalid("its parts do not go together".into()));
        }
        Ok(Self { handles, vectors, is_half })
    }
}
