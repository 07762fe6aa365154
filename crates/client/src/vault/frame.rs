//! The frame around a keyring file: header, payload, checksum.
//!
//! ```text
//! magic 8 | version u16 | content u16 | generation u64 | payload length u64 | payload | checksum 32
//! checksum = SHA-256(payload ‖ header)
//! ```
//!
//! Integers are little-endian. The generation is 0: a keyring belongs to the vault, not to one of
//! its commits. The checksum tells accident from tampering; it authenticates nothing. The keyring's
//! seal does.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::VaultError;

/// The bytes every keyring begins with. The first is no text; the last two change when a transfer
/// mangles line ends.
pub(super) const MAGIC: [u8; 8] = *b"\x89SHARD\r\n";
/// The version of the keyring's format.
pub(super) const VERSION: u16 = 1;
/// Bytes before the payload.
pub(super) const HEADER_BYTES: usize = 28;
/// Bytes after it.
pub(super) const CHECKSUM_BYTES: usize = 32;
/// What a file without payload measures.
const FRAME_BYTES: usize = HEADER_BYTES + CHECKSUM_BYTES;

/// What a keyring file holds. Codes are part of the format and are never reused; those between
/// belonged to files that vaults no longer have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The master secret: the vault is its owner's.
    Keyring = 1,
    /// The secret of one epoch: the vault can be searched and no more.
    QueryKeyring = 10,
    /// What [`Content::Keyring`] holds, for whoever has the recovery code.
    RecoveryKeyring = 11,
}

/// The header of a file with this content and payload length.
pub(super) fn header(content: Content, payload_length: usize) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[10..12].copy_from_slice(&(content as u16).to_le_bytes());
    bytes[20..28].copy_from_slice(&(payload_length as u64).to_le_bytes());
    bytes
}

fn checksum(header: &[u8], payload: &[u8]) -> [u8; CHECKSUM_BYTES] {
    Sha256::new().chain_update(payload).chain_update(header).finalize().into()
}

/// A whole file.
pub(super) fn encode(content: Content, payload: &[u8]) -> Vec<u8> {
    let header = header(content, payload.len());
    [&header[..], payload, &checksum(&header, payload)].concat()
}

/// What a whole file holds, which must be one of `allowed`, and its payload. Checks, in this order:
/// magic, version, length, checksum, content.
pub(super) fn decode<'bytes>(
    bytes: &'bytes [u8],
    allowed: &[Content],
    file: &Path,
) -> Result<(Content, &'bytes [u8]), VaultError> {
    let compared = bytes.len().min(MAGIC.len());
    if bytes[..compared] != MAGIC[..compared] {
        return Err(VaultError::NotShardFile { file: file.to_owned() });
    }
    if let Some(&[low, high]) = bytes.get(8..10) {
        let found = u16::from_le_bytes([low, high]);
        if found != VERSION {
            return Err(VaultError::UnsupportedVersion {
                file: file.to_owned(),
                found: found.into(),
                supported: VERSION.into(),
            });
        }
    }
    let actual = bytes.len() as u64;
    let truncated = |expected| VaultError::Truncated { file: file.to_owned(), expected, actual };
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(truncated(FRAME_BYTES as u64));
    };
    let length = u64::from_le_bytes(header[20..28].try_into().expect("eight bytes"));
    let expected = length.saturating_add(FRAME_BYTES as u64);
    if actual < expected {
        return Err(truncated(expected));
    }
    if actual > expected {
        return Err(VaultError::Overlong { file: file.to_owned(), expected, actual });
    }
    let (payload, stored) = rest.split_at(rest.len() - CHECKSUM_BYTES);
    if stored != checksum(header, payload) {
        return Err(VaultError::Damaged { file: file.to_owned() });
    }
    let code = u16::from_le_bytes([header[10], header[11]]);
    let content = allowed.iter().find(|content| **content as u16 == code);
    let Some(&content) = content.filter(|_| header[12..20] == [0; 8]) else {
        return Err(VaultError::Misplaced { file: file.to_owned() });
    };
    Ok((content, payload))
}
