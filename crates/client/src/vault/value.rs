//! What a vault holds: values, each sealed by itself.
//!
//! ```text
//! commit 16 | nonce 24 | ciphertext | tag 16
//! ```
//!
//! The seal is XChaCha20-Poly1305 under a random nonce. Its associated data names the format, the
//! slot (table and number) and the commit that wrote the value, so a value that was moved to another
//! slot does not open. Which value belongs in a slot *now* the [root](super::root) says, by the
//! value's digest: an earlier value put back in its place is noticed, and so is another one that
//! somebody made who has the key.

use std::fmt;

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use rand_core::CryptoRng;
use sha2::{Digest as _, Sha256};
use shard_protocol::CommitName;
use zeroize::Zeroizing;

/// The version of everything in the database.
pub(super) const FORMAT: u16 = 2;

/// What sealing adds at the end of a value.
pub(super) const TAG_BYTES: usize = 16;
/// A whole nonce of XChaCha20.
pub(super) const NONCE_BYTES: usize = 24;
/// Bytes of a commit's name.
pub(super) const COMMIT_BYTES: usize = 16;
/// Bytes of a sealed value beyond its plaintext.
pub(super) const OVERHEAD_BYTES: usize = COMMIT_BYTES + NONCE_BYTES + TAG_BYTES;
/// The longest sealed value. The largest there is is the model of very wide vectors.
pub(crate) const MAX_VALUE_BYTES: usize = 1 << 29;

/// Separates these seals from any other use of the same key.
const LABEL: &[u8; 17] = b"shard vault value";

/// Bytes of a digest.
pub(super) const DIGEST_BYTES: usize = 16;

/// SHA-256 of a sealed value, cut to 16 bytes: what the root knows it by.
pub(crate) type Digest = [u8; DIGEST_BYTES];

/// The place of a value: a table, and a number in those that have more than one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Slot {
    /// How the owner configured the vault.
    Settings,
    /// How the documents have moved away from the model since it was fitted.
    Drift,
    /// Names of commits, so many per value.
    History(u32),
    /// Which documents a commit changed, by its generation.
    Journal(u32),
    /// The documents' own vectors, by chunk or block.
    Vectors(u32),
    /// Records of a blind collection's documents, by page.
    RecordPage(u32),
    /// The fitted model: mean, basis, cells.
    Model,
    /// Rows that are no documents.
    Canaries,
    /// Where the names of new rows begin, and how many rows there are.
    Names,
    /// What routing needs of every row, by chunk.
    Routing(u32),
    /// How the rows of a blind collection lie in blocks, and how many there are.
    Blind,
    /// A block of a blind collection: its tag, and the id of each of its places.
    Places(u32),
    /// Which commit sealed each page of records.
    Records,
    /// The slots of the records of a block's places.
    RecordPlaces(u32),
    /// The fields of the records of a block's places, to filter by.
    Metadata(u32),
    /// What encodes the texts of the documents.
    Encoder,
    /// The centroids of a blind collection's cells.
    Cells,
}

impl Slot {
    /// Whether the value may be with a server alone.
    pub(crate) const fn may_be_elsewhere(self) -> bool {
        matches!(self, Self::Vectors(_))
    }

    /// Codes are part of the format and are never reused. Those from 16 on are readable to whoever
    /// may search.
    const fn code(self) -> u8 {
        match self {
            Self::Settings => 1,
            Self::Drift => 2,
            Self::History(_) => 3,
            Self::Journal(_) => 4,
            Self::Vectors(_) => 5,
            Self::RecordPage(_) => 6,
            Self::Model => 16,
            Self::Canaries => 17,
            Self::Names => 18,
            Self::Routing(_) => 19,
            Self::Blind => 20,
            Self::Places(_) => 21,
            Self::Records => 22,
            Self::RecordPlaces(_) => 23,
            Self::Metadata(_) => 24,
            Self::Encoder => 25,
            Self::Cells => 26,
        }
    }

    const fn number(self) -> u32 {
        match self {
            Self::History(number)
            | Self::Journal(number)
            | Self::Vectors(number)
            | Self::Routing(number)
            | Self::Places(number)
            | Self::RecordPage(number)
            | Self::RecordPlaces(number)
            | Self::Metadata(number) => number,
            _ => 0,
        }
    }

    /// The key of its row in the database: `code << 32 | number`.
    pub(crate) const fn id(self) -> i64 {
        ((self.code() as i64) << 32) | self.number() as i64
    }

    /// The inverse of [`Slot::id`].
    pub(super) fn from_id(id: i64) -> Option<Self> {
        let number = id as u32;
        let slot = match id >> 32 {
            1 => Self::Settings,
            2 => Self::Drift,
            3 => Self::History(number),
            4 => Self::Journal(number),
            5 => Self::Vectors(number),
            6 => Self::RecordPage(number),
            16 => Self::Model,
            17 => Self::Canaries,
            18 => Self::Names,
            19 => Self::Routing(number),
            20 => Self::Blind,
            21 => Self::Places(number),
            22 => Self::Records,
            23 => Self::RecordPlaces(number),
            24 => Self::Metadata(number),
            25 => Self::Encoder,
            26 => Self::Cells,
            _ => return None,
        };
        (slot.id() == id).then_some(slot)
    }

    /// Whether whoever may search can open it: it is sealed under a key of the epoch. The others
    /// are sealed under the vault's own key.
    pub(crate) const fn is_shared(self) -> bool {
        self.code() >= 16
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings => f.write_str("settings"),
            Self::Drift => f.write_str("record of drift"),
            Self::History(number) => write!(f, "history {number}"),
            Self::Journal(number) => write!(f, "journal {number}"),
            Self::Vectors(number) => write!(f, "vectors, chunk {number}"),
            Self::Model => f.write_str("model"),
            Self::Canaries => f.write_str("canaries"),
            Self::Names => f.write_str("names"),
            Self::Routing(number) => write!(f, "routing, chunk {number}"),
            Self::Blind => f.write_str("head of the blocks"),
            Self::Places(number) => write!(f, "places, block {number}"),
            Self::RecordPage(number) => write!(f, "records, page {number}"),
            Self::Records => f.write_str("head of the records"),
            Self::RecordPlaces(number) => write!(f, "records, block {number}"),
            Self::Metadata(number) => write!(f, "fields, block {number}"),
            Self::Encoder => f.write_str("encoder"),
            Self::Cells => f.write_str("cells"),
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key that seals values.
pub(super) struct ValueKey(XChaCha20Poly1305);

/// A seal did not open: wrong key, or bytes that were not sealed like this.
#[derive(Debug)]
pub(super) struct SealError;

impl ValueKey {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(XChaCha20Poly1305::new(&Key::from(*key)))
    }

    /// Seals a value. `nonce` is fresh.
    pub(super) fn seal(
        &self,
        slot: Slot,
        commit: CommitName,
        nonce: [u8; NONCE_BYTES],
        plain: &[u8],
    ) -> (Vec<u8>, Digest) {
        let mut sealed = Vec::with_capacity(plain.len() + OVERHEAD_BYTES);
        sealed.extend_from_slice(&commit.0);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        let associated = associated(slot, commit);
        let body = &mut sealed[COMMIT_BYTES + NONCE_BYTES..];
        let tag: [u8; TAG_BYTES] = self
            .0
            .encrypt_inout_detached(&XNonce::from(nonce), &associated, body.into())
            .expect("a value is within the cipher's limit of 256 GiB")
            .into();
        sealed.extend_from_slice(&tag);
        let digest = digest_of(&sealed);
        (sealed, digest)
    }

    /// Opens a sealed value.
    pub(super) fn open(&self, slot: Slot, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        self.open_in_place(slot, sealed.to_vec())
    }

    /// Opens a sealed value in the memory that it is in.
    pub(super) fn open_in_place(
        &self,
        slot: Slot,
        sealed: Vec<u8>,
    ) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let mut plain = Zeroizing::new(sealed);
        let (commit, rest) = plain.split_first_chunk_mut::<COMMIT_BYTES>().ok_or(SealError)?;
        let (nonce, rest) = rest.split_first_chunk_mut::<NONCE_BYTES>().ok_or(SealError)?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().ok_or(SealError)?;
        let associated = associated(slot, CommitName(*commit));
        let length = body.len();
        self.0
            .decrypt_inout_detached(&XNonce::from(*nonce), &associated, body.into(), &(*tag).into())
            .map_err(|_| SealError)?;
        plain.copy_within(COMMIT_BYTES + NONCE_BYTES..COMMIT_BYTES + NONCE_BYTES + length, 0);
        plain.truncate(length);
        Ok(plain)
    }

    /// Seals a body under a header that is not secret.
    pub(super) fn seal_under(
        &self,
        header: &[u8],
        nonce: [u8; NONCE_BYTES],
        mut body: Vec<u8>,
    ) -> Vec<u8> {
        self.0
            .encrypt_in_place(&XNonce::from(nonce), header, &mut body)
            .expect("a root is within the cipher's limit of 256 GiB");
        body
    }

    /// The inverse of [`ValueKey::seal_under`].
    pub(super) fn open_under(
        &self,
        header: &[u8],
        nonce: [u8; NONCE_BYTES],
        sealed: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let mut body = sealed.to_vec();
        self.0.decrypt_in_place(&XNonce::from(nonce), header, &mut body).map_err(|_| SealError)?;
        Ok(body)
    }
}

/// The digest of a sealed value.
pub(crate) fn digest_of(sealed: &[u8]) -> Digest {
    let digest: [u8; 32] = Sha256::digest(sealed).into();
    *digest.first_chunk().expect("32 bytes have 16")
}

/// A nonce for one value.
pub(super) fn draw_nonce(rng: &mut impl CryptoRng) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    rng.fill_bytes(&mut nonce);
    nonce
}

fn associated(slot: Slot, commit: CommitName) -> Vec<u8> {
    [&LABEL[..], &FORMAT.to_le_bytes(), &slot.id().to_le_bytes(), &commit.0].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: [Slot; 18] = [
        Slot::Settings,
        Slot::Drift,
        Slot::History(7),
        Slot::Journal(1),
        Slot::Vectors(0),
        Slot::Vectors(u32::MAX),
        Slot::Model,
        Slot::Canaries,
        Slot::Names,
        Slot::Routing(3),
        Slot::Blind,
        Slot::Places(3),
        Slot::RecordPage(3),
        Slot::Records,
        Slot::RecordPlaces(3),
        Slot::Metadata(3),
        Slot::Encoder,
        Slot::Cells,
    ];

    fn key(byte: u8) -> ValueKey {
        ValueKey::new(&[byte; 32])
    }

    #[test]
    fn ids_of_slots_parse_back_and_others_do_not() {
        for slot in SLOTS {
            assert_eq!(Slot::from_id(slot.id()), Some(slot));
        }
        for id in
            [0, -1, 1, (1 << 32) | 1, 7 << 32, 15 << 32, (20 << 32) | 1, 27 << 32, (26 << 32) | 1]
        {
            assert_eq!(Slot::from_id(id), None, "{id}");
        }
    }

    #[test]
    fn a_value_opens_in_its_own_slot_under_its_own_key_only() {
        let commit = CommitName([3; 16]);
        for slot in SLOTS {
            let (sealed, digest) = key(1).seal(slot, commit, [9; NONCE_BYTES], b"plain");
            assert_eq!(digest_of(&sealed), digest);
            assert_eq!(&key(1).open(slot, &sealed).unwrap()[..], b"plain");
            assert!(key(2).open(slot, &sealed).is_err());
            for other in SLOTS.into_iter().filter(|other| *other != slot) {
                assert!(key(1).open(other, &sealed).is_err());
            }
        }
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_noticed() {
        let slot = Slot::Routing(5);
        let (sealed, _) = key(1).seal(slot, CommitName([3; 16]), [9; NONCE_BYTES], b"plain");
        for bit in 0..sealed.len() * 8 {
            let mut bytes = sealed.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(key(1).open(slot, &bytes).is_err(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(key(1).open(slot, &sealed[..length]).is_err());
        }
    }
}
