//! Reading a payload in constant memory.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::error::VaultError;
use super::frame::{self, Checksum, HEADER_BYTES};
use super::kind::{Content, FileKind};
use super::manifest::Entry;
use super::seal::{self, CHUNK_BYTES, ChunkCipher, PREFIX_BYTES, TAG_BYTES};
use super::secret::DataKey;

/// A payload being read, made by [`Vault::reader`](super::Vault::reader).
///
/// The whole file has been compared with the manifest before the first byte comes out. The bytes are
/// read a second time for that, and somebody may write to the file in between, so they are checked
/// again: those of a sealed payload chunk by chunk, before they come out; those of a payload that is
/// not sealed all together, before the last of them come out. Of the latter, what was read is what
/// was committed only once the end is reached without an error.
///
/// A read that fails carries a [`VaultError`] inside its [`io::Error`], and so does every read after
/// it.
pub struct VaultReader {
    file: File,
    path: PathBuf,
    guard: Guard,
    /// Payload bytes not yet taken from the file.
    unread: u64,
    /// Set for good by a failure, lest a caller who asks again takes it for the end of the payload.
    broken: bool,
    length: u64,
    chunk: Zeroizing<Vec<u8>>,
    position: usize,
}

/// What the bytes are checked against as they are read.
enum Guard {
    /// The tag of every chunk.
    Seal(ChunkCipher),
    /// The checksum of the whole, which takes the header after the payload.
    Checksum { hash: Sha256, header: [u8; HEADER_BYTES], expected: Checksum },
}

impl Guard {
    /// Bytes of a full chunk on disk.
    fn chunk_bytes(&self) -> usize {
        match self {
            Self::Seal(_) => CHUNK_BYTES + TAG_BYTES,
            Self::Checksum { .. } => CHUNK_BYTES,
        }
    }

    /// Whether the next chunk, which becomes plaintext, is as it was committed; for a payload that
    /// is not sealed, all chunks with the last.
    fn passes(&mut self, chunk: &mut Vec<u8>, last: bool) -> bool {
        match self {
            Self::Seal(cipher) => cipher.open(chunk, last).is_ok(),
            Self::Checksum { hash, header, expected } => {
                hash.update(&chunk);
                if !last {
                    return true;
                }
                let actual: Checksum = hash.clone().chain_update(header).finalize().into();
                actual.ct_eq(expected).into()
            }
        }
    }

    fn failure(&self, file: PathBuf) -> VaultError {
        match self {
            Self::Seal(_) => VaultError::SealBroken { file },
            Self::Checksum { .. } => VaultError::Damaged { file },
        }
    }
}

impl VaultReader {
    /// Checks all of `file` against `entry` and stops at the first byte of its payload.
    pub(super) fn open(
        mut file: File,
        path: PathBuf,
        kind: FileKind,
        entry: &Entry,
        key: &DataKey,
    ) -> Result<Self, VaultError> {
        let unreadable = || VaultError::io("read", &path);
        let actual = file.metadata().map_err(unreadable())?.len();
        let verified = frame::verify(&mut file, actual, &path)?;
        if !entry.matches(kind, actual, &verified) {
            return Err(VaultError::Misplaced { file: path });
        }
        file.seek(SeekFrom::Start(HEADER_BYTES as u64)).map_err(unreadable())?;

        let payload = verified.header.payload_length;
        let (guard, unread, length) = if kind.is_sealed() {
            let length = seal::plain_length(payload).ok_or_else(|| VaultError::Malformed {
                file: path.clone(),
                reason: "no sealed payload has this length",
            })?;
            let mut prefix = [0; PREFIX_BYTES];
            file.read_exact(&mut prefix).map_err(unreadable())?;
            let cipher = ChunkCipher::new(key, prefix, Content::Payload(kind), entry.generation);
            (Guard::Seal(cipher), payload - PREFIX_BYTES as u64, length)
        } else {
            let guard = Guard::Checksum {
                hash: Sha256::new(),
                header: verified.header.encode(),
                expected: entry.checksum,
            };
            (guard, payload, payload)
        };
        Ok(Self {
            file,
            path,
            guard,
            unread,
            broken: false,
            length,
            // Never grown, so that no outgrown buffer stays behind in memory.
            chunk: Zeroizing::new(Vec::with_capacity(CHUNK_BYTES + TAG_BYTES)),
            position: 0,
        })
    }

    /// Bytes in the whole payload.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Reads what is left into memory that is wiped when dropped.
    pub(super) fn read_all(mut self) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        let mut payload = Zeroizing::new(Vec::new());
        usize::try_from(self.length)
            .map_err(io::Error::other)
            .and_then(|length| Ok(payload.try_reserve_exact(length)?))
            .map_err(VaultError::io("hold in memory", &self.path))?;
        while self.unread > 0 {
            self.next_chunk()?;
            payload.extend_from_slice(&self.chunk);
        }
        Ok(payload)
    }

    fn next_chunk(&mut self) -> Result<(), VaultError> {
        let outcome = self.load_chunk();
        if outcome.is_err() {
            // Whatever the buffer holds now is not what was committed.
            self.chunk.clear();
            self.broken = true;
        }
        outcome
    }

    fn load_chunk(&mut self) -> Result<(), VaultError> {
        if self.broken {
            return Err(self.guard.failure(self.path.clone()));
        }
        let size = self.unread.min(self.guard.chunk_bytes() as u64) as usize;
        self.position = 0;
        self.chunk.resize(size, 0);
        self.file.read_exact(&mut self.chunk).map_err(VaultError::io("read", &self.path))?;
        self.unread -= size as u64;
        if self.guard.passes(&mut self.chunk, self.unread == 0) {
            Ok(())
        } else {
            Err(self.guard.failure(self.path.clone()))
        }
    }
}

impl Read for VaultReader {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        while self.position == self.chunk.len() && (self.unread > 0 || self.broken) {
            self.next_chunk()?;
        }
        let ready = &self.chunk[self.position..];
        let count = ready.len().min(target.len());
        target[..count].copy_from_slice(&ready[..count]);
        self.position += count;
        Ok(count)
    }
}

impl fmt::Debug for VaultReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("VaultReader")
            .field("path", &self.path)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}
