//! The smallest keys of a stream.

use std::collections::BinaryHeap;

/// A key with the row it belongs to, ordered by key and then by row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) key: f64,
    pub(crate) row: u32,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.total_cmp(&other.key).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

/// Keeps the `limit` smallest entries it is shown. The result does not depend on the order they are shown in, which is
/// what lets blocks be scanned in parallel.
#[derive(Debug)]
pub(crate) struct Smallest {
    limit: usize,
    heap: BinaryHeap<Entry>,
}

impl Smallest {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, heap: BinaryHeap::new() }
    }

    /// Shows one entry; keys are never NaN.
    #[inline]
    pub(crate) fn offer(&mut self, key: f64, row: u32) {
        // Adding zero turns -0.0 into 0.0: the two are a tie, but not to `total_cmp`.
        let entry = Entry { key: key + 0.0, row };
        if self.heap.len() < self.limit {
            self.heap.push(entry);
        } else if let Some(mut largest) = self.heap.peek_mut()
            && entry < *largest
        {
            *largest = entry;
        }
    }

    /// What a key must not exceed to be kept, as far as is known; infinite while there is room.
    pub(crate) fn limit_key(&self) -> f64 {
        if self.limit == 0 {
            return f64::NEG_INFINITY;
        }
        if self.heap.len() < self.limit {
            return f64::INFINITY;
        }
        self.heap.peek().map_or(f64::INFINITY, |largest| largest.key)
    }

    /// Takes over the entries of another selection.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        for entry in other.heap {
            self.offer(entry.key, entry.row);
        }
        self
    }

    /// The kept entries, smallest first.
    pub(crate) fn into_sorted(self) -> Vec<Entry> {
        self.heap.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn selection_equals_a_full_sort(keys in prop::collection::vec(-3i8..3, 0..60), limit in 0usize..70, cut in 0usize..60) {
            let mut oracle: Vec<(i8, u32)> = keys.iter().copied().zip(0..).collect();
            oracle.sort();
            oracle.truncate(limit);

            let (mut first, mut second) = (Smallest::new(limit), Smallest::new(limit));
            for (&key, row) in keys.iter().zip(0u32..) {
                let half = if (row as usize) < cut { &mut first } else { &mut second };
                half.offer(f64::from(key), row);
            }
            let kept: Vec<(i8, u32)> = second.merge(first).into_sorted().iter().map(|e| (e.key as i8, e.row)).collect();
            prop_assert_eq!(kept, oracle);
        }
    }

    #[test]
    fn negative_zero_ties_with_zero() {
        let mut smallest = Smallest::new(2);
        smallest.offer(0.0, 1);
        smallest.offer(-0.0, 2);
        let rows: Vec<u32> = smallest.into_sorted().iter().map(|entry| entry.row).collect();
        assert_eq!(rows, [1, 2]);
    }
}
