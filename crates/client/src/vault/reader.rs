//! Reading a payload in constant memory.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::error::VaultError;
use super::frame::{self, HEADER_BYTES};
use super::kind::{Content, FileKind};
use super::manifest::Entry;
use super::seal::{self, CHUNK_BYTES, ChunkCipher, PREFIX_BYTES, TAG_BYTES};
use super::secret::DataKey;

/// A payload being read, made by [`Vault::reader`](super::Vault::reader).
///
/// The whole file has been compared with the manifest before the first byte comes out, and every
/// chunk of a sealed payload is authenticated again as it is opened. A read that fails carries a
/// [`VaultError`] inside its [`io::Error`], and so does every read after it.
pub struct VaultReader {
    file: File,
    path: PathBuf,
    /// `None` for a payload that is not sealed.
    cipher: Option<ChunkCipher>,
    /// Payload bytes not yet taken from the file.
    unread: u64,
    /// Set for good by a failure, lest a caller who asks again takes it for the end of the payload.
    broken: bool,
    length: u64,
    chunk: Zeroizing<Vec<u8>>,
    position: usize,
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
        let (cipher, unread, length) = if kind.is_sealed() {
            let length = seal::plain_length(payload).ok_or_else(|| VaultError::Malformed {
                file: path.clone(),
                reason: "no sealed payload has this length",
            })?;
            let mut prefix = [0; PREFIX_BYTES];
            file.read_exact(&mut prefix).map_err(unreadable())?;
            let cipher = ChunkCipher::new(key, prefix, Content::Payload(kind), entry.generation);
            (Some(cipher), payload - PREFIX_BYTES as u64, length)
        } else {
            (None, payload, payload)
        };
        Ok(Self {
            file,
            path,
            cipher,
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
            // Whatever the buffer holds now is not plaintext.
            self.chunk.clear();
            self.broken = true;
        }
        outcome
    }

    fn load_chunk(&mut self) -> Result<(), VaultError> {
        let broken = || VaultError::SealBroken { file: self.path.clone() };
        if self.broken {
            return Err(broken());
        }
        let full = CHUNK_BYTES + self.cipher.as_ref().map_or(0, |_| TAG_BYTES);
        let size = self.unread.min(full as u64) as usize;
        self.position = 0;
        self.chunk.resize(size, 0);
        self.file.read_exact(&mut self.chunk).map_err(VaultError::io("read", &self.path))?;
        self.unread -= size as u64;
        match &mut self.cipher {
            None => Ok(()),
            Some(cipher) => cipher.open(&mut self.chunk, self.unread == 0).map_err(|_| broken()),
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
