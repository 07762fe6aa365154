//! A source of known length, read under limits: a count is compared with what is left before anything is
//! allocated for it.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::ImportError;

/// Little-endian values of a file.
pub(crate) struct Bytes<R> {
    reader: R,
    left: u64,
}

/// What a file said of itself that cannot be.
#[derive(Debug)]
pub(crate) struct Malformed(pub(crate) String);

impl Malformed {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// A read that knows no file name yet.
pub(crate) type Parsed<T> = Result<T, Malformed>;

/// Opens a file for [`Bytes`].
pub(crate) fn open(path: &Path) -> Result<Bytes<BufReader<File>>, ImportError> {
    let file = File::open(path).map_err(ImportError::read(path))?;
    let metadata = file.metadata().map_err(ImportError::read(path))?;
    if !metadata.is_file() {
        return Err(ImportError::damaged(path, "not a file"));
    }
    Ok(Bytes::new(BufReader::new(file), metadata.len()))
}

impl<R: Read> Bytes<R> {
    pub(crate) fn new(reader: R, length: u64) -> Self {
        Self { reader, left: length }
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Bytes of `count` items of `size`, if there are as many.
    fn claim(&mut self, count: u64, size: usize) -> Parsed<usize> {
        let wanted = count.checked_mul(size as u64).filter(|&wanted| wanted <= self.left);
        let wanted = wanted.ok_or_else(|| {
            let left = self.left;
            Malformed(format!(
                "{count} items of {size} bytes are announced where {left} bytes are left"
            ))
        })?;
        self.left -= wanted;
        usize::try_from(wanted)
            .map_err(|_| Malformed::new("longer than the memory of this machine"))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Parsed<()> {
        self.reader.read_exact(bytes).map_err(|error| Malformed(format!("cannot be read: {error}")))
    }

    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        self.claim(1, N)?;
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn u8(&mut self) -> Parsed<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Parsed<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Parsed<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Parsed<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A count of items.
    pub(crate) fn count(&mut self) -> Parsed<usize> {
        let count = self.u64()?;
        usize::try_from(count).map_err(|_| Malformed(format!("a count of {count}")))
    }

    /// Raw bytes.
    pub(crate) fn bytes(&mut self, count: usize, size: usize) -> Parsed<Vec<u8>> {
        let mut bytes = vec![0; self.claim(count as u64, size)?];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Passes over bytes.
    pub(crate) fn skip(&mut self, count: usize, size: usize) -> Parsed<()> {
        let wanted = self.claim(count as u64, size)? as u64;
        let passed = std::io::copy(&mut (&mut self.reader).take(wanted), &mut std::io::sink());
        match passed {
            Ok(passed) if passed == wanted => Ok(()),
            Ok(_) => Err(Malformed::new("shorter than it was when it was opened")),
            Err(error) => Err(Malformed(format!("cannot be read: {error}"))),
        }
    }

    /// Items of a fixed size, a piece of the file at a time: the bytes are never in memory as a whole.
    fn items<const N: usize, T>(
        &mut self,
        count: usize,
        item: impl Fn([u8; N]) -> T,
    ) -> Parsed<Vec<T>> {
        let mut left = self.claim(count as u64, N)?;
        let mut items = Vec::with_capacity(count);
        let mut piece = vec![0; left.min(N << 14)];
        while left > 0 {
            let piece = &mut piece[..left.min(N << 14)];
            self.fill(piece)?;
            items.extend(piece.as_chunks::<N>().0.iter().map(|&bytes| item(bytes)));
            left -= piece.len();
        }
        Ok(items)
    }

    pub(crate) fn f32s(&mut self, count: usize) -> Parsed<Vec<f32>> {
        self.items(count, f32::from_le_bytes)
    }

    pub(crate) fn i64s(&mut self, count: usize) -> Parsed<Vec<i64>> {
        self.items(count, i64::from_le_bytes)
    }

    pub(crate) fn u64s(&mut self, count: usize) -> Parsed<Vec<u64>> {
        self.items(count, u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_allocated_for_what_is_not_there() {
        let data = [0_u8; 12];
        let mut bytes = Bytes::new(&data[..], 12);
        assert!(bytes.f32s(4).is_err());
        assert!(bytes.i64s(usize::MAX).is_err());
        assert!(bytes.bytes(usize::MAX, usize::MAX).is_err());
        assert_eq!(bytes.f32s(3).unwrap(), [0.0; 3]);
        assert_eq!(bytes.left(), 0);
        assert!(bytes.u8().is_err());
    }

    #[test]
    fn a_file_that_is_shorter_than_announced_is_an_error() {
        let data = [0_u8; 4];
        assert!(Bytes::new(&data[..], 8).u64s(1).is_err());
        assert!(Bytes::new(&data[..], 8).skip(8, 1).is_err());
    }
}
