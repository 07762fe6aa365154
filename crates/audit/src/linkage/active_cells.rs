//! Which cells a log of requests activates.

use std::collections::{BTreeMap, BTreeSet};

use crate::tools::statistics::{mean, quantile};
use crate::view::SeenRequest;

/// Which cells the requests of a log activated.
#[derive(Clone, PartialEq, Debug)]
pub struct ActiveCells {
    /// Mean number of cells in a request.
    pub mean: f64,
    /// Its 95th percentile.
    pub p95: f64,
    /// Entropy, in bits, of the cell of a random activation.
    pub entropy: f64,
    /// The share of pairs of requests with the same set of cells.
    pub same_set: f64,
    /// The number of cells of each request.
    pub counts: Vec<f64>,
}

impl ActiveCells {
    /// Of a log; `None` if it is empty.
    pub fn of(log: &[SeenRequest], cells: &[u32]) -> Option<Self> {
        let set = |request: &SeenRequest| {
            request.candidates.iter().map(|&row| cells[row]).collect::<BTreeSet<u32>>()
        };
        let sets: Vec<BTreeSet<u32>> = log.iter().map(set).collect();
        let counts: Vec<f64> = sets.iter().map(|set| set.len() as f64).collect();
        let mut sorted = counts.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let total: f64 = counts.iter().sum();
        if total == 0.0 {
            return None;
        }
        let mut activations: BTreeMap<u32, f64> = BTreeMap::new();
        sets.iter().flatten().for_each(|&cell| *activations.entry(cell).or_default() += 1.0);
        let entropy = activations.values().map(|n| -(n / total) * (n / total).log2()).sum();
        let mut same: BTreeMap<&BTreeSet<u32>, f64> = BTreeMap::new();
        sets.iter().for_each(|set| *same.entry(set).or_default() += 1.0);
        let pairs = |n: f64| n * (n - 1.0) / 2.0;
        let same_set =
            same.values().map(|&n| pairs(n)).sum::<f64>() / pairs(log.len() as f64).max(1.0);
        Some(Self { mean: mean(&counts), p95: quantile(&sorted, 0.95), entropy, same_set, counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_cells_are_counted_by_request() {
        let log: Vec<SeenRequest> = [vec![0, 1, 2], vec![2, 3], vec![3, 4]]
            .map(|candidates| SeenRequest { candidates })
            .into();
        let active = ActiveCells::of(&log, &[0, 0, 1, 2, 1]).unwrap();
        assert_eq!(active.mean, 2.0);
        assert_eq!(active.same_set, 1.0 / 3.0, "cells 1 and 2 twice, 0 and 1 once");
        let p: [f64; 3] = [1.0 / 6.0, 3.0 / 6.0, 2.0 / 6.0];
        let entropy: f64 = p.iter().map(|p| -p * p.log2()).sum();
        assert!((active.entropy - entropy).abs() < 1e-12);
        assert!(ActiveCells::of(&[], &[0]).is_none());
    }
}
