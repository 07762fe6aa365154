//! Tables of the row file, their keys, and the checksums of their records.
//!
//! Keys are big-endian, so the rows of a cell, of an epoch and of a collection each lie side by
//! side. Every record ends with a CRC-32 over the table's name, the key and what comes before
//! it: a record that is damaged, or that lies under another key than its own, is found out when
//! it is read.

use redb::TableDefinition;
use shard_protocol::{BlobName, CellHandle, CollectionName, Epoch, RowHandle};

use crate::StoreError;

/// A table of the row file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Table {
    /// One record about the file itself.
    State,
    /// Collections by name.
    Collections,
    /// Epochs by collection and number.
    Epochs,
    /// Rows by collection, epoch, cell and handle.
    Rows,
    /// Cell and MAC by collection, epoch and handle.
    Names,
    /// Deleted rows by collection, epoch and handle.
    Tombstones,
    /// Blobs by collection and name.
    Blobs,
    /// Lengths of blobs, so that listing them does not read them.
    Lengths,
}

/// A table as redb knows it: bytes to bytes.
type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

impl Table {
    pub(super) const ALL: [Self; 8] = [
        Self::State,
        Self::Collections,
        Self::Epochs,
        Self::Rows,
        Self::Names,
        Self::Tombstones,
        Self::Blobs,
        Self::Lengths,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Collections => "collections",
            Self::Epochs => "epochs",
            Self::Rows => "rows",
            Self::Names => "names",
            Self::Tombstones => "tombstones",
            Self::Blobs => "blobs",
            Self::Lengths => "lengths",
        }
    }

    pub(super) fn definition(self) -> Definition {
        TableDefinition::new(self.name())
    }

    /// The record of a body under a key.
    pub(super) fn seal(self, key: &[u8], mut body: Vec<u8>) -> Vec<u8> {
        let sum = self.checksum(key, &body);
        body.extend(sum.to_le_bytes());
        body
    }

    /// The body of a record, if the record is whole and lies under its own key.
    pub(super) fn unseal<'r>(self, key: &[u8], record: &'r [u8]) -> Result<&'r [u8], StoreError> {
        match record.split_last_chunk() {
            Some((body, sum)) if self.checksum(key, body) == u32::from_le_bytes(*sum) => Ok(body),
            _ => Err(damaged(self)),
        }
    }

    fn checksum(self, key: &[u8], body: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(self.name().as_bytes());
        hasher.update(key);
        hasher.update(body);
        hasher.finalize()
    }
}

/// What a damaged record is reported as.
pub(super) fn damaged(table: Table) -> StoreError {
    StoreError::Damaged { what: format!("a record of the table {}", table.name()) }
}

/// Number of a collection; never given to another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct CollectionId(pub u64);

impl CollectionId {
    pub(super) fn prefix(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    pub(super) fn epoch(self, epoch: Epoch) -> [u8; 16] {
        join([self.0, epoch.0])
    }

    pub(super) fn named(self, epoch: Epoch, handle: RowHandle) -> [u8; 24] {
        join([self.0, epoch.0, handle.0])
    }

    pub(super) fn row(self, epoch: Epoch, cell: CellHandle, handle: RowHandle) -> [u8; 32] {
        join([self.0, epoch.0, cell.0, handle.0])
    }

    pub(super) fn blob(self, name: &BlobName) -> Vec<u8> {
        [&self.prefix(), name.as_str().as_bytes()].concat()
    }
}

/// Words, big-endian, one after another.
fn join<const WORDS: usize, const BYTES: usize>(words: [u64; WORDS]) -> [u8; BYTES] {
    let mut key = [0; BYTES];
    key.chunks_exact_mut(8)
        .zip(words)
        .for_each(|(to, word)| to.copy_from_slice(&word.to_be_bytes()));
    key
}

/// The words of a key that [`join`] made; `None` when it has another length.
pub(super) fn words<const WORDS: usize>(key: &[u8]) -> Option<[u64; WORDS]> {
    if key.len() != 8 * WORDS {
        return None;
    }
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(key.chunks_exact(8)) {
        *word = u64::from_be_bytes(bytes.try_into().expect("eight bytes"));
    }
    Some(words)
}

/// The first key that does not begin with a prefix; `None` when there is none.
pub(super) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut next = prefix.to_vec();
    while let Some(last) = next.pop() {
        if last < u8::MAX {
            next.push(last + 1);
            return Some(next);
        }
    }
    None
}

/// The key of the only record of [`Table::State`].
pub(super) const STATE_KEY: &[u8] = b"state";

/// A name that a key holds.
pub(super) fn collection_name(key: &[u8]) -> Option<CollectionName> {
    std::str::from_utf8(key).ok()?.parse().ok()
}

/// The collection and the name that the key of a blob holds.
pub(super) fn blob_name(key: &[u8]) -> Option<(CollectionId, BlobName)> {
    let (id, name) = key.split_first_chunk()?;
    let name = std::str::from_utf8(name).ok()?.parse().ok()?;
    Some((CollectionId(u64::from_be_bytes(*id)), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_the_order_of_what_they_name() {
        let id = CollectionId(3);
        let key = id.row(Epoch(1), CellHandle(2), RowHandle(255));
        assert!(key < id.row(Epoch(1), CellHandle(2), RowHandle(256)));
        assert!(key.as_slice() < after_prefix(&id.epoch(Epoch(1))).unwrap().as_slice());
        assert_eq!(words(&key), Some([3, 1, 2, 255]));
        assert_eq!(after_prefix(&[1, 255]), Some(vec![2]));
        assert_eq!(after_prefix(&[255]), None);
    }

    #[test]
    fn a_record_is_refused_when_a_bit_or_its_key_differs() {
        let record = Table::Rows.seal(b"key", vec![1, 2, 3]);
        assert_eq!(Table::Rows.unseal(b"key", &record), Ok(&[1, 2, 3][..]));
        assert!(Table::Rows.unseal(b"kez", &record).is_err());
        assert!(Table::Names.unseal(b"key", &record).is_err());
        assert!(Table::Rows.unseal(b"key", &[]).is_err());
        for bit in 0..8 * record.len() {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Table::Rows.unseal(b"key", &flipped).is_err(), "bit {bit}");
        }
    }
}
