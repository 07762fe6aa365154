//! Writing a payload in constant memory.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::error::VaultError;
use super::frame::{Checksum, FrameWriter};
use super::kind::FileKind;
use super::seal::{CHUNK_BYTES, ChunkCipher, Prefix, TAG_BYTES};
use super::transaction::Transaction;

/// The payload of one file on its way to disk, sealed chunk by chunk if its kind is.
pub(super) struct PayloadWriter {
    kind: FileKind,
    path: PathBuf,
    /// `None` once writing has failed: the file's end is then unknown.
    frame: Option<FrameWriter>,
    cipher: Option<ChunkCipher>,
    chunk: Zeroizing<Vec<u8>>,
}

impl PayloadWriter {
    /// Continues a frame just begun. A sealed payload starts with the cipher's prefix.
    pub(super) fn new(
        kind: FileKind,
        path: PathBuf,
        frame: FrameWriter,
        seal: Option<(Prefix, ChunkCipher)>,
    ) -> Result<Self, VaultError> {
        let mut writer = Self {
            kind,
            path,
            frame: Some(frame),
            cipher: None,
            // Never grown, so that no outgrown buffer stays behind in memory.
            chunk: Zeroizing::new(Vec::with_capacity(CHUNK_BYTES + TAG_BYTES)),
        };
        if let Some((prefix, cipher)) = seal {
            writer.chunk.extend_from_slice(&prefix);
            writer.put_chunk(false)?;
            writer.cipher = Some(cipher);
        }
        Ok(writer)
    }

    /// Adds bytes to the payload. A full chunk stays in memory until more follows, because only
    /// then is it known not to be the last.
    pub(super) fn append(&mut self, mut bytes: &[u8]) -> Result<(), VaultError> {
        while !bytes.is_empty() {
            if self.chunk.len() == CHUNK_BYTES {
                self.put_chunk(false)?;
            }
            let room = CHUNK_BYTES - self.chunk.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Writes what is left and waits until the file is on disk. Returns its length and checksum.
    pub(super) fn finish(mut self) -> Result<(u64, Checksum), VaultError> {
        self.put_chunk(true)?;
        let frame = self.frame.take().ok_or(self.unfinished())?;
        frame.finish().map_err(VaultError::io("write", &self.path))
    }

    fn put_chunk(&mut self, last: bool) -> Result<(), VaultError> {
        let mut frame = self.frame.take().ok_or(self.unfinished())?;
        if let Some(cipher) = &mut self.cipher {
            cipher.seal(&mut self.chunk, last);
        }
        frame.append(&self.chunk).map_err(VaultError::io("write", &self.path))?;
        self.chunk.clear();
        self.frame = Some(frame);
        Ok(())
    }

    fn unfinished(&self) -> VaultError {
        VaultError::Unfinished { kind: self.kind }
    }
}

/// A payload being written, made by [`Transaction::writer`].
///
/// It counts only after [`VaultWriter::finish`]: a transaction with a writer that was dropped
/// earlier refuses to commit. A write that fails carries a [`VaultError`] inside its [`io::Error`].
/// Flushing does nothing, since chunks have a fixed size.
pub struct VaultWriter<'transaction, 'vault> {
    transaction: &'transaction mut Transaction<'vault>,
    payload: PayloadWriter,
}

impl<'transaction, 'vault> VaultWriter<'transaction, 'vault> {
    pub(super) fn new(
        transaction: &'transaction mut Transaction<'vault>,
        payload: PayloadWriter,
    ) -> Self {
        Self { transaction, payload }
    }

    /// Ends the payload and makes it part of the transaction.
    ///
    /// # Errors
    /// When the disk refuses, now or at an earlier write.
    pub fn finish(self) -> Result<(), VaultError> {
        let kind = self.payload.kind;
        let (length, checksum) = self.payload.finish()?;
        self.transaction.record(kind, length, checksum);
        Ok(())
    }
}

impl Write for VaultWriter<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.payload.append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for VaultWriter<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("VaultWriter")
            .field("path", &self.payload.path)
            .finish_non_exhaustive()
    }
}
