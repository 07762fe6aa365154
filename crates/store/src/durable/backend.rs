//! What redb reads from and writes to.
//!
//! Both backends leave locking to the directory's `LOCK`: a row file is opened a second time
//! after an error while readers of the first still hold it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use redb::StorageBackend;
use redb::backends::FileBackend;

/// What became of a row file, shared with whoever opened it.
#[derive(Debug, Default)]
pub(super) struct Condition {
    fenced: AtomicBool,
    failure: OnceLock<String>,
    #[cfg(test)]
    faults: super::faults::Faults,
}

impl Condition {
    #[cfg(test)]
    pub(super) fn with(faults: super::faults::Faults) -> Self {
        Self { faults, ..Self::default() }
    }

    /// Refuses every write from now on: another handle has taken over the file.
    pub(super) fn fence(&self) {
        self.fenced.store(true, Ordering::SeqCst);
    }

    /// The first error of the file. redb works no more on a file that had one.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Remembers an error.
    pub(super) fn fail(&self, reason: impl ToString) {
        // Only the first matters: those after it follow from it.
        let _ = self.failure.set(reason.to_string());
    }
}

/// A row file that remembers its first error and can be fenced off.
#[derive(Debug)]
pub(super) struct RowFile {
    file: FileBackend,
    condition: Arc<Condition>,
}

impl RowFile {
    pub(super) fn new(file: File, condition: Arc<Condition>) -> Result<Self, redb::DatabaseError> {
        Ok(Self { file: FileBackend::new(file)?, condition })
    }

    fn noted<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        outcome.inspect_err(|error| self.condition.fail(error))
    }

    fn write_allowed(&self) -> io::Result<()> {
        if self.condition.fenced.load(Ordering::SeqCst) {
            return Err(io::Error::other("the row file was opened anew"));
        }
        #[cfg(test)]
        self.noted(self.condition.faults.strike())?;
        Ok(())
    }
}

impl StorageBackend for RowFile {
    fn len(&self) -> io::Result<u64> {
        self.noted(self.file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.noted(self.file.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.write_allowed()?;
        self.noted(self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.write_allowed()?;
        self.noted(self.file.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_allowed()?;
        self.noted(self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// Bytes of a block that [`Overlay`] keeps.
const BLOCK: u64 = 4096;

/// A row file that is only read: what redb writes to it while it opens and checks stays in
/// memory. Lets a file be looked at on a disk that cannot be written, and leaves it as it is.
#[derive(Debug)]
pub(super) struct Overlay {
    file: FileBackend,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    length: u64,
    /// Bytes of the file that still count: a cut is not undone by growing again.
    from_file: u64,
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Overlay {
    pub(super) fn new(file: File) -> Result<Self, redb::DatabaseError> {
        let file = FileBackend::new(file)?;
        let length = file.len()?;
        let written = Written { length, from_file: length, blocks: BTreeMap::new() };
        Ok(Self { file, written: Mutex::new(written) })
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block as the file has it, zeros where the file has ended.
    fn block_of_file(&self, number: u64, from_file: u64) -> io::Result<Box<[u8]>> {
        let mut block = vec![0; BLOCK as usize].into_boxed_slice();
        let start = number * BLOCK;
        let held = from_file.saturating_sub(start).min(BLOCK);
        if held > 0 {
            self.file.read(start, &mut block[..held as usize])?;
        }
        Ok(block)
    }

    /// Calls `visit` with each block's number, the range within it and the range within a buffer
    /// of `length` bytes at `offset`.
    fn blocks(
        offset: u64,
        length: usize,
        mut visit: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let within = (at % BLOCK) as usize;
            let step = (BLOCK as usize - within).min(length - done);
            visit(at / BLOCK, within..within + step, done..done + step)?;
            done += step;
        }
        Ok(())
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > written.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if written.blocks.is_empty() && offset + out.len() as u64 <= written.from_file {
            return self.file.read(offset, out);
        }
        Self::blocks(offset, out.len(), |number, within, of_out| {
            match written.blocks.get(&number) {
                Some(block) => out[of_out].copy_from_slice(&block[within]),
                None => {
                    let block = self.block_of_file(number, written.from_file)?;
                    out[of_out].copy_from_slice(&block[within]);
                }
            }
            Ok(())
        })
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut written = self.written();
        if length < written.length {
            written.from_file = written.from_file.min(length);
            let kept = length.div_ceil(BLOCK);
            written.blocks.split_off(&kept);
            let cut = (length % BLOCK) as usize;
            if let Some(last) = written.blocks.get_mut(&(length / BLOCK)) {
                last[cut..].fill(0);
            }
        }
        written.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written();
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > written.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let from_file = written.from_file;
        Self::blocks(offset, data.len(), |number, within, of_data| {
            let block = match written.blocks.entry(number) {
                Entry::Occupied(held) => held.into_mut(),
                Entry::Vacant(place) => place.insert(self.block_of_file(number, from_file)?),
            };
            block[within].copy_from_slice(&data[of_data]);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_reads_the_file_and_keeps_what_is_written_to_itself() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let original: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        std::fs::write(&path, &original).unwrap();
        let overlay = Overlay::new(File::open(&path).unwrap()).unwrap();
        overlay.set_len(12_000).unwrap();
        overlay.write(4090, b"over two blocks").unwrap();
        overlay.write(11_990, &[7; 10]).unwrap();
        let mut expected = original.clone();
        expected.resize(12_000, 0);
        expected[4090..4105].copy_from_slice(b"over two blocks");
        expected[11_990..].fill(7);
        let mut read = vec![0; 12_000];
        overlay.read(0, &mut read).unwrap();
        assert_eq!(read, expected);
        // What was cut off does not come back.
        overlay.set_len(5000).unwrap();
        overlay.set_len(12_000).unwrap();
        expected[5000..].fill(0);
        overlay.read(0, &mut read).unwrap();
        assert_eq!(read, expected);
        assert!(overlay.read(11_999, &mut [0; 2]).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), original);
    }
}
