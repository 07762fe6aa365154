//! How far encrypted scores are from those of the same shortlist without encryption.

use std::collections::{HashMap, HashSet};

use shard_audit::quality::pearson;
use shard_client::Hit;

/// How many of the first documents an overlap is about.
const TOP: usize = 10;

/// The comparison of one query.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fidelity {
    /// Largest difference of a score.
    pub max_abs_error: f64,
    /// Whether another document came first.
    pub top1_flip: bool,
    /// Share of the first ten that is among the first ten of both.
    pub top10_overlap: f64,
    /// Kendall's tau-b of the scores.
    pub kendall_tau: f64,
    /// Pearson's correlation of the scores.
    pub pearson: f64,
}

impl Fidelity {
    /// Compares two rankings of the same documents, best first.
    ///
    /// # Panics
    /// When they are not of the same documents.
    pub fn of(encrypted: &[Hit], plain: &[Hit]) -> Self {
        assert_eq!(encrypted.len(), plain.len(), "rankings of one shortlist");
        let scores: HashMap<u32, f64> = plain.iter().map(|hit| (hit.row, hit.score)).collect();
        let pairs: Vec<(f64, f64)> =
            encrypted.iter().map(|hit| (hit.score, scores[&hit.row])).collect();
        let error = pairs.iter().map(|(e, p)| (e - p).abs()).fold(0.0, f64::max);
        let first = |ranking: &[Hit]| -> HashSet<u32> {
            ranking.iter().take(TOP).map(|hit| hit.row).collect()
        };
        let (ours, theirs) = (first(encrypted), first(plain));
        let top = |ranking: &[Hit]| ranking.first().map(|hit| hit.row);
        Self {
            max_abs_error: error,
            top1_flip: top(encrypted) != top(plain),
            top10_overlap: ours.intersection(&theirs).count() as f64 / theirs.len().max(1) as f64,
            kendall_tau: kendall_tau(&pairs),
            pearson: pearson(&pairs),
        }
    }
}

/// Kendall's tau-b: with `C` concordant and `D` discordant of all pairs of items, and `T_x`, `T_y`
/// pairs tied in one variable only,
///
/// ```text
/// tau_b = (C - D) / sqrt((C + D + T_x) (C + D + T_y)) .
/// ```
///
/// One when there is nothing to compare.
fn kendall_tau(pairs: &[(f64, f64)]) -> f64 {
    let (mut difference, mut untied_x, mut untied_y) = (0_i64, 0_i64, 0_i64);
    for (at, a) in pairs.iter().enumerate() {
        for b in &pairs[..at] {
            let x = a.0.total_cmp(&b.0) as i64;
            let y = a.1.total_cmp(&b.1) as i64;
            difference += x * y;
            untied_x += x * x;
            untied_y += y * y;
        }
    }
    let scale = (untied_x as f64 * untied_y as f64).sqrt();
    if scale > 0.0 { difference as f64 / scale } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(scores: &[(u32, f64)]) -> Vec<Hit> {
        scores.iter().map(|&(row, score)| Hit { id: row.to_string(), row, score }).collect()
    }

    #[test]
    fn a_ranking_agrees_with_itself() {
        let ranked = ranking(&[(4, 0.9), (2, 0.5), (7, 0.1)]);
        let same = Fidelity::of(&ranked, &ranked);
        assert!((same.pearson - 1.0).abs() < 1e-15);
        let perfect = Fidelity {
            max_abs_error: 0.0,
            top1_flip: false,
            top10_overlap: 1.0,
            kendall_tau: 1.0,
            pearson: same.pearson,
        };
        assert_eq!(same, perfect);
    }

    #[test]
    fn a_swap_at_the_top_is_a_flip_and_moves_tau() {
        let plain = ranking(&[(4, 0.9), (2, 0.5), (7, 0.1)]);
        let swapped = ranking(&[(2, 0.8), (4, 0.7), (7, 0.1)]);
        let fidelity = Fidelity::of(&swapped, &plain);
        assert!(fidelity.top1_flip);
        assert!((fidelity.max_abs_error - 0.3).abs() < 1e-12);
        assert!((fidelity.kendall_tau - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(fidelity.top10_overlap, 1.0);
    }

    /// Figures from `scipy.stats.kendalltau`.
    #[test]
    fn tau_counts_ties_as_tau_b_does() {
        let pairs = [(1.0, 1.0), (2.0, 1.0), (2.0, 3.0), (4.0, 2.0)];
        assert!((kendall_tau(&pairs) - 0.4).abs() < 1e-12);
        assert_eq!(kendall_tau(&[(1.0, 2.0)]), 1.0);
    }

    #[test]
    fn documents_pushed_out_of_the_first_ten_lower_the_overlap() {
        let plain: Vec<_> = (0..12).map(|row| (row, 1.0 - f64::from(row) / 100.0)).collect();
        let mut other = plain.clone();
        other.swap(9, 10);
        assert_eq!(Fidelity::of(&ranking(&other), &ranking(&plain)).top10_overlap, 0.9);
    }
}
