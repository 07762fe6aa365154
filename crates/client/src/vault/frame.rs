//! The frame around every file of a vault: header, payload, checksum.
//!
//! ```text
//! magic 8 | version u16 | content u16 | generation u64 | payload length u64 | payload | checksum 32
//! checksum = SHA-256(payload ‖ header)
//! ```
//!
//! Integers are little-endian. The checksum takes the header after the payload because the length
//! of a streamed payload is known only at its end, when the header is completed in place.
//!
//! The checksum tells accident from tampering; it authenticates nothing. Seals and the manifest do.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::disk::DiskFile;
use super::error::VaultError;
use super::kind::Content;

/// The bytes every file begins with. The first is no text; the last two change when a transfer
/// mangles line ends.
pub(super) const MAGIC: [u8; 8] = *b"\x89SHARD\r\n";
/// The version of the format this code reads and writes.
pub(super) const VERSION: u16 = 1;
/// Bytes before the payload.
pub(super) const HEADER_BYTES: usize = 28;
/// Bytes after it.
pub(super) const CHECKSUM_BYTES: usize = 32;
/// What a file without payload measures.
const FRAME_BYTES: u64 = (HEADER_BYTES + CHECKSUM_BYTES) as u64;

/// SHA-256 over a file's payload and header.
pub(super) type Checksum = [u8; CHECKSUM_BYTES];

/// What a file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// [`Content::code`], unchecked.
    pub(super) content: u16,
    pub(super) generation: u64,
    pub(super) payload_length: u64,
}

impl Header {
    pub(super) fn new(content: Content, generation: u64, payload_length: u64) -> Self {
        Self { content: content.code(), generation, payload_length }
    }

    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.content.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.generation.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.payload_length.to_le_bytes());
        bytes
    }

    /// Reads the fields after magic and version, which the caller has checked.
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Self {
        let word = |start: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[start..start + 8]);
            u64::from_le_bytes(word)
        };
        Self {
            content: u16::from_le_bytes([bytes[10], bytes[11]]),
            generation: word(12),
            payload_length: word(20),
        }
    }
}

/// A file whose bytes are those that were written.
pub(super) struct Verified {
    pub(super) header: Header,
    pub(super) checksum: Checksum,
}

/// Reads a file of `actual` bytes from its beginning to its end, in constant memory, and checks,
/// in this order: magic, version, length, checksum.
pub(super) fn verify(
    source: &mut impl Read,
    actual: u64,
    file: &Path,
) -> Result<Verified, VaultError> {
    let unreadable = || VaultError::io("read", file);
    let truncated = |expected| VaultError::Truncated { file: file.to_owned(), expected, actual };

    let mut start = Vec::with_capacity(HEADER_BYTES);
    source.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut start).map_err(unreadable())?;
    let compared = start.len().min(MAGIC.len());
    if start[..compared] != MAGIC[..compared] {
        return Err(VaultError::NotShardFile { file: file.to_owned() });
    }
    if let Some(&[low, high]) = start.get(8..10) {
        let found = u16::from_le_bytes([low, high]);
        if found != VERSION {
            return Err(VaultError::UnsupportedVersion {
                file: file.to_owned(),
                found,
                supported: VERSION,
            });
        }
    }
    let Ok(start) = <[u8; HEADER_BYTES]>::try_from(start) else {
        return Err(truncated(FRAME_BYTES));
    };
    let header = Header::decode(&start);
    let expected = header.payload_length.saturating_add(FRAME_BYTES);
    if actual < expected {
        return Err(truncated(expected));
    }
    if actual > expected {
        return Err(VaultError::Overlong { file: file.to_owned(), expected, actual });
    }

    let mut hash = HashWriter(Sha256::new());
    let hashed = io::copy(&mut source.by_ref().take(header.payload_length), &mut hash)
        .map_err(unreadable())?;
    let mut stored = Vec::with_capacity(CHECKSUM_BYTES);
    source.read_to_end(&mut stored).map_err(unreadable())?;
    if hashed != header.payload_length || stored.len() != CHECKSUM_BYTES {
        // The file changed its length while it was being read.
        return Err(VaultError::Damaged { file: file.to_owned() });
    }
    hash.0.update(start);
    let checksum: Checksum = hash.0.finalize().into();
    if stored != checksum {
        return Err(VaultError::Damaged { file: file.to_owned() });
    }
    Ok(Verified { header, checksum })
}

/// Lets [`io::copy`] feed a hash.
struct HashWriter(Sha256);

impl Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A whole small file as bytes.
pub(super) fn encode(content: Content, generation: u64, payload: &[u8]) -> Vec<u8> {
    let header = Header::new(content, generation, payload.len() as u64).encode();
    let checksum = Sha256::new().chain_update(payload).chain_update(header).finalize();
    [&header[..], payload, &checksum[..]].concat()
}

/// What a whole small file holds, which must be one of `allowed`, its header and its payload.
pub(super) fn decode<'bytes>(
    bytes: &'bytes [u8],
    allowed: &[Content],
    file: &Path,
) -> Result<(Content, Header, &'bytes [u8]), VaultError> {
    let Verified { header, .. } = verify(&mut &*bytes, bytes.len() as u64, file)?;
    let content = allowed.iter().find(|content| content.code() == header.content);
    let Some(&content) = content else {
        return Err(VaultError::Misplaced { file: file.to_owned() });
    };
    Ok((content, header, &bytes[HEADER_BYTES..bytes.len() - CHECKSUM_BYTES]))
}

/// Writes a frame whose payload arrives in pieces.
pub(super) struct FrameWriter {
    file: DiskFile,
    header: Header,
    hash: Sha256,
}

impl FrameWriter {
    pub(super) fn begin(mut file: DiskFile, content: Content, generation: u64) -> io::Result<Self> {
        let header = Header::new(content, generation, 0);
        file.write_all(&header.encode())?;
        Ok(Self { file, header, hash: Sha256::new() })
    }

    pub(super) fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        self.file.write_all(payload)?;
        self.hash.update(payload);
        self.header.payload_length += payload.len() as u64;
        Ok(())
    }

    /// Completes the header, adds the checksum and waits until the bytes are on disk. Returns the
    /// length of the whole file and its checksum.
    pub(super) fn finish(mut self) -> io::Result<(u64, Checksum)> {
        let header = self.header.encode();
        let checksum: Checksum = self.hash.chain_update(header).finalize().into();
        self.file.write_all(&checksum)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header)?;
        self.file.sync()?;
        Ok((self.header.payload_length + FRAME_BYTES, checksum))
    }
}
