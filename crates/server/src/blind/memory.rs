//! How much memory blocks take: reserved before they are read, free again when the last list and the last
//! search that use them are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shard_rlwe::blind::Block;

/// The memory that all collections share for their blocks.
pub(super) struct Memory {
    pub(super) budget: usize,
    used: AtomicUsize,
}

/// A part of it, until it is dropped.
pub(super) struct Reserved {
    memory: Arc<Memory>,
    bytes: usize,
}

/// Something in memory, and the memory it takes.
pub(super) struct Taking<T> {
    pub(super) value: T,
    _memory: Reserved,
}

/// A block in memory.
pub(super) type HeldBlock = Taking<Block>;

impl Memory {
    pub(super) fn new(budget: usize) -> Arc<Self> {
        Arc::new(Self { budget, used: AtomicUsize::new(0) })
    }

    /// Bytes that blocks take, and those that are about to be read.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// So many bytes, unless fewer are left: then how many.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Result<Reserved, usize> {
        let within = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.budget);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .map(|_| Reserved { memory: self.clone(), bytes })
            .map_err(|used| self.budget.saturating_sub(used))
    }
}

impl Reserved {
    /// A block or a segment, which takes its memory out of this.
    pub(super) fn hold<T>(&mut self, value: T, bytes: usize) -> Taking<T> {
        debug_assert!(bytes <= self.bytes, "as many as were reserved for");
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Taking { value, _memory: Self { memory: self.memory.clone(), bytes } }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_once_and_comes_back() {
        let memory = Memory::new(100);
        let mut first = memory.reserve(60).ok().unwrap();
        assert_eq!(memory.reserve(41).err(), Some(40));
        assert_eq!(memory.reserve(usize::MAX).err(), Some(40));
        let tiles = 1;
        let block = || Block::from_bytes(tiles, &vec![0; Block::byte_len(tiles)]).unwrap();
        let (one, two) = (first.hold(block(), 25), first.hold(block(), 25));
        assert_eq!(memory.used(), 60);
        drop(first);
        assert_eq!(memory.used(), 50, "what no block took");
        drop(one);
        assert_eq!(memory.reserve(75).map(|reserved| reserved.bytes).ok(), Some(75));
        drop(two);
        assert_eq!(memory.used(), 0);
    }
}
