//! Reused polynomial buffers.
//!
//! A request makes and drops a few megabytes of polynomials. An allocator returns memory of that
//! size to the operating system and requests it again, and every page then costs a fault:
//! expanding a ciphertext or merging two took twice the time. Only what a server sees goes
//! through here; secrets have their own memory, which is wiped.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of idle buffers that a ring keeps. They are never freed.
const KEPT_BYTES: usize = 32 << 20;

/// Idle buffers of one length.
pub(crate) struct Buffers {
    length: usize,
    idle: Mutex<Vec<Vec<u64>>>,
}

impl Buffers {
    pub(crate) fn new(length: usize) -> Arc<Self> {
        Arc::new(Self { length, idle: Mutex::new(Vec::new()) })
    }

    /// A buffer with unspecified contents.
    pub(crate) fn take(self: &Arc<Self>) -> Buffer {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let values = idle.unwrap_or_else(|| vec![0; self.length]);
        Buffer { values, home: Arc::clone(self) }
    }

    /// A buffer of zeros.
    pub(crate) fn zeroed(self: &Arc<Self>) -> Buffer {
        let mut buffer = self.take();
        buffer.fill(0);
        buffer
    }
}

/// Memory for one polynomial; returns to its pool when dropped.
pub(crate) struct Buffer {
    values: Vec<u64>,
    home: Arc<Buffers>,
}

impl Deref for Buffer {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        &self.values
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut self.values
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut idle = self.home.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if (idle.len() + 1) * self.home.length * size_of::<u64>() <= KEPT_BYTES {
            idle.push(std::mem::take(&mut self.values));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_are_cleared_on_request() {
        let buffers = Buffers::new(8);
        let mut first = buffers.take();
        first.fill(7);
        let address = first.as_ptr();
        drop(first);
        let again = buffers.take();
        assert_eq!((again.as_ptr(), &again[..]), (address, &[7; 8][..]));
        drop(again);
        assert_eq!(&buffers.zeroed()[..], &[0; 8]);
    }

    #[test]
    fn no_more_are_kept_than_the_budget_allows() {
        let buffers = Buffers::new(KEPT_BYTES / size_of::<u64>() / 2);
        let taken: Vec<Buffer> = (0..5).map(|_| buffers.take()).collect();
        drop(taken);
        assert_eq!(buffers.idle.lock().unwrap().len(), 2);
    }
}
