//! The manifest: which files make up the vault's present generation.
//!
//! The manifest is the vault's commit point. It is sealed under the data key, so somebody with
//! access to the disk cannot write one, and it pins every file by generation, length and checksum,
//! so no single file can be exchanged for an older one. Putting back an older copy of the *whole*
//! directory goes unnoticed: nothing outside the directory remembers which generation was last.

use std::collections::BTreeMap;
use std::path::Path;

use rand_core::CryptoRng;
use subtle::ConstantTimeEq;

use super::error::VaultError;
use super::frame::{self, CHECKSUM_BYTES, Checksum, HEADER_BYTES, Verified};
use super::kind::{Content, FileKind};
use super::seal::{self, ChunkCipher, PREFIX_BYTES, Prefix, TAG_BYTES};
use super::secret::DataKey;

/// Bytes of one entry: kind `u16`, generation `u64`, length `u64`, checksum.
const ENTRY_BYTES: usize = 2 + 8 + 8 + CHECKSUM_BYTES;

/// The longest manifest file there can be. Nothing longer is read into memory.
pub(super) const MAX_FILE_BYTES: usize =
    HEADER_BYTES + PREFIX_BYTES + FileKind::ALL.len() * ENTRY_BYTES + TAG_BYTES + CHECKSUM_BYTES;

/// One file of the present generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The generation that wrote the file, which is part of its name.
    pub(super) generation: u64,
    /// Length of the whole file.
    pub(super) length: u64,
    /// The checksum at the file's end.
    pub(super) checksum: Checksum,
}

impl Entry {
    /// Whether the verified file is the one this entry was made for.
    pub(super) fn matches(&self, kind: FileKind, length: u64, verified: &Verified) -> bool {
        let header = &verified.header;
        let same_checksum: bool = self.checksum.ct_eq(&verified.checksum).into();
        header.content == Content::Payload(kind).code()
            && header.generation == self.generation
            && length == self.length
            && same_checksum
    }
}

/// The files of one generation.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Manifest {
    pub(super) generation: u64,
    pub(super) entries: BTreeMap<FileKind, Entry>,
}

impl Manifest {
    /// The bytes of the manifest file.
    pub(super) fn seal(&self, key: &DataKey, rng: &mut impl CryptoRng) -> Vec<u8> {
        let prefix = seal::draw_prefix(rng);
        let mut body = Vec::with_capacity(self.entries.len() * ENTRY_BYTES + TAG_BYTES);
        for (&kind, entry) in &self.entries {
            body.extend_from_slice(&Content::Payload(kind).code().to_le_bytes());
            body.extend_from_slice(&entry.generation.to_le_bytes());
            body.extend_from_slice(&entry.length.to_le_bytes());
            body.extend_from_slice(&entry.checksum);
        }
        self.cipher(key, prefix).seal(&mut body, true);
        let payload = [&prefix[..], &body].concat();
        frame::encode(Content::Manifest, self.generation, &payload)
    }

    /// Opens the bytes of a manifest file.
    pub(super) fn open(bytes: &[u8], key: &DataKey, file: &Path) -> Result<Self, VaultError> {
        let (_, header, payload) = frame::decode(bytes, &[Content::Manifest], file)?;
        let malformed = |reason| VaultError::Malformed { file: file.to_owned(), reason };
        let (prefix, body) = payload
            .split_first_chunk::<PREFIX_BYTES>()
            .ok_or_else(|| malformed("the manifest is too short"))?;
        let mut manifest = Self { generation: header.generation, entries: BTreeMap::new() };
        let mut body = body.to_vec();
        manifest
            .cipher(key, *prefix)
            .open(&mut body, true)
            .map_err(|_| VaultError::SealBroken { file: file.to_owned() })?;

        let (records, []) = body.as_chunks::<ENTRY_BYTES>() else {
            return Err(malformed("the manifest ends within an entry"));
        };
        for record in records {
            let (kind, entry) = decode_entry(record)
                .ok_or_else(|| malformed("the manifest lists an unknown kind"))?;
            if manifest.entries.insert(kind, entry).is_some() {
                return Err(malformed("the manifest lists a kind twice"));
            }
        }
        Ok(manifest)
    }

    fn cipher(&self, key: &DataKey, prefix: Prefix) -> ChunkCipher {
        ChunkCipher::new(key, prefix, Content::Manifest, self.generation)
    }
}

/// `None` when the kind is unknown.
fn decode_entry(record: &[u8; ENTRY_BYTES]) -> Option<(FileKind, Entry)> {
    let word = |start: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&record[start..start + 8]);
        u64::from_le_bytes(word)
    };
    let code = u16::from_le_bytes([record[0], record[1]]);
    let kind = FileKind::ALL.into_iter().find(|&kind| Content::Payload(kind).code() == code)?;
    let mut checksum = [0; CHECKSUM_BYTES];
    checksum.copy_from_slice(&record[18..]);
    let entry = Entry { generation: word(2), length: word(10), checksum };
    Some((kind, entry))
}
