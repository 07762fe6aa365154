//! A record cut into slots, and slots sealed into pages.
//!
//! ```text
//! slot = nonce 24 | sealed(remaining u32 | payload 1024) | tag 16
//! ```
//!
//! `remaining` counts the bytes of the record from this slot on; it is zero in a free slot. What follows
//! the record in its last slot is zero. The seal is bound to the number of the slot and to the commit that
//! sealed its page.

use shard_protocol::CommitName;
use shard_rlwe::EntropyError;
use shard_rlwe::blind::PAGE_SLOTS;
use zeroize::Zeroizing;

use crate::blind::seal::{SEAL_BYTES, Sealer, Subject};

/// Bytes of a record that a slot holds.
pub const SLOT_PAYLOAD: usize = 1024;

/// Bytes of a sealed slot.
pub const SLOT_BYTES: usize = SEAL_BYTES + PLAIN_BYTES;

/// Bytes of a record at most.
pub const MAX_RECORD_BYTES: usize = 16 << 20;

const HEADER_BYTES: usize = 4;
const PLAIN_BYTES: usize = HEADER_BYTES + SLOT_PAYLOAD;

/// What is in a slot, header and payload. Wiped on drop.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SlotContent(Zeroizing<Vec<u8>>);

impl SlotContent {
    /// Nothing.
    pub(super) fn free() -> Self {
        Self(Zeroizing::new(vec![0; PLAIN_BYTES]))
    }

    /// A record of 1 to [`MAX_RECORD_BYTES`] bytes, cut.
    pub(super) fn cut(record: &[u8]) -> impl Iterator<Item = Self> {
        record.chunks(SLOT_PAYLOAD).enumerate().map(|(at, part)| {
            let remaining = (record.len() - at * SLOT_PAYLOAD) as u32;
            let mut slot = Self::free();
            slot.0[..HEADER_BYTES].copy_from_slice(&remaining.to_le_bytes());
            slot.0[HEADER_BYTES..][..part.len()].copy_from_slice(part);
            slot
        })
    }

    /// The record of its slots; `None` if they are not those of one record.
    pub(super) fn join(slots: &[Self]) -> Option<Zeroizing<Vec<u8>>> {
        let length = slots.first()?.remaining();
        if length == 0 || length > MAX_RECORD_BYTES || slots.len() != slots_of(length) {
            return None;
        }
        let mut record = Zeroizing::new(Vec::with_capacity(slots.len() * SLOT_PAYLOAD));
        for slot in slots {
            if slot.remaining() + record.len() != length {
                return None;
            }
            record.extend_from_slice(&slot.0[HEADER_BYTES..]);
        }
        record.truncate(length);
        Some(record)
    }

    fn remaining(&self) -> usize {
        let header = self.0.first_chunk().expect("a slot begins with its header");
        u32::from_le_bytes(*header) as usize
    }

    pub(super) fn is_free(&self) -> bool {
        *self == Self::free()
    }

    pub(super) fn seal(
        &self,
        sealer: &Sealer,
        slot: u32,
        commit: CommitName,
    ) -> Result<Vec<u8>, EntropyError> {
        sealer.seal(Subject::Slot(slot, commit), &self.0)
    }

    /// `None` when it was not sealed like this.
    pub(super) fn open(
        sealer: &Sealer,
        slot: u32,
        commit: CommitName,
        sealed: &[u8],
    ) -> Option<Self> {
        let plain = sealer.open(Subject::Slot(slot, commit), sealed)?;
        (plain.len() == PLAIN_BYTES).then_some(Self(plain))
    }
}

/// Slots that a record of a length takes.
pub(super) fn slots_of(length: usize) -> usize {
    length.div_ceil(SLOT_PAYLOAD)
}

/// The numbers of the slots of a page.
pub(super) fn slots_in(page: u32) -> std::ops::Range<u32> {
    page * PAGE_SLOTS as u32..(page + 1) * PAGE_SLOTS as u32
}

/// The page of a slot.
pub(super) fn page_of(slot: u32) -> u32 {
    slot / PAGE_SLOTS as u32
}

/// Seals a page.
pub(super) fn seal_page(
    sealer: &Sealer,
    page: u32,
    commit: CommitName,
    slots: &[SlotContent],
) -> Result<Vec<u8>, EntropyError> {
    let mut sealed = Vec::with_capacity(PAGE_SLOTS * SLOT_BYTES);
    for (number, slot) in slots_in(page).zip(slots) {
        sealed.extend_from_slice(&slot.seal(sealer, number, commit)?);
    }
    Ok(sealed)
}

/// The slots of a page; `None` when one of them was not sealed for it by this commit.
pub(super) fn open_page(
    sealer: &Sealer,
    page: u32,
    commit: CommitName,
    sealed: &[u8],
) -> Option<Vec<SlotContent>> {
    if sealed.len() != PAGE_SLOTS * SLOT_BYTES {
        return None;
    }
    let slots = slots_in(page).zip(sealed.chunks_exact(SLOT_BYTES));
    slots.map(|(number, sealed)| SlotContent::open(sealer, number, commit, sealed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 7 + length) as u8).collect()
    }

    #[test]
    fn records_of_every_length_come_back_from_their_slots_and_from_no_others() {
        for length in [1, 2, 1023, 1024, 1025, 2048, 5000, MAX_RECORD_BYTES] {
            let slots: Vec<SlotContent> = SlotContent::cut(&record(length)).collect();
            assert_eq!(slots.len(), slots_of(length));
            assert_eq!(*SlotContent::join(&slots).unwrap(), record(length));
            // Without its first slot a record is its rest, and one of a single slot is nothing.
            let whole = record(length);
            let rest = whole.get(SLOT_PAYLOAD..).filter(|rest| !rest.is_empty());
            assert_eq!(SlotContent::join(&slots[1..]).as_deref().map(Vec::as_slice), rest);
            assert!(SlotContent::join(&slots[..slots.len() - 1]).is_none());
            assert!(SlotContent::join(&[&slots[..], &slots[..1]].concat()).is_none());
        }
        let mut swapped: Vec<SlotContent> = SlotContent::cut(&record(5000)).collect();
        swapped.swap(1, 2);
        assert!(SlotContent::join(&swapped).is_none());
        assert!(
            SlotContent::free().is_free() && SlotContent::join(&[SlotContent::free()]).is_none()
        );
    }

    #[test]
    fn a_page_opens_as_itself_and_a_slot_in_its_place_only() {
        let sealer = Sealer::new(&[3; 32]);
        let (commit, other) = (CommitName([1; 16]), CommitName([2; 16]));
        let mut slots = vec![SlotContent::free(); PAGE_SLOTS];
        slots[4] = SlotContent::cut(b"something").next().unwrap();
        let sealed = seal_page(&sealer, 7, commit, &slots).unwrap();
        assert_eq!(sealed.len(), PAGE_SLOTS * SLOT_BYTES);
        let opened = open_page(&sealer, 7, commit, &sealed).unwrap();
        assert_eq!(&**SlotContent::join(&opened[4..5]).unwrap(), b"something");
        assert!(open_page(&sealer, 8, commit, &sealed).is_none());
        assert!(open_page(&sealer, 7, other, &sealed).is_none());
        assert!(open_page(&sealer, 7, commit, &sealed[1..]).is_none());
        let mut swapped = sealed.clone();
        swapped.rotate_left(SLOT_BYTES);
        assert!(open_page(&sealer, 7, commit, &swapped).is_none());
    }
}
