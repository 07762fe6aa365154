//! Exact nearest neighbours, a block of queries at a time: nothing of the size of all pairs is ever
//! in memory.

use std::ops::Range;

use rayon::prelude::*;
use shard_geometry::top_k;

use super::matrix::Matrix;

/// How near two rows are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// By angle; rows of zeros are near nothing.
    Cosine,
    /// By inner product.
    Product,
    /// By distance.
    Distance,
}

/// Queries whose scores are in memory at once, and scores that are: of a large gallery fewer queries'.
const BLOCK: usize = 256;
const MOST_SCORES: usize = 1 << 22;

/// For every query row, the `k` nearest rows of the gallery, nearest first; ties by row order.
///
/// # Panics
/// When the widths differ.
pub fn nearest(queries: &Matrix, gallery: &Matrix, k: usize, metric: Metric) -> Vec<Vec<u32>> {
    nearest_allowed(queries, gallery, k, metric, |_, _| true)
}

/// [`nearest`] among the rows for which `allowed(query, row)` holds.
///
/// # Panics
/// When the widths differ.
pub fn nearest_allowed(
    queries: &Matrix,
    gallery: &Matrix,
    k: usize,
    metric: Metric,
    allowed: impl Fn(usize, usize) -> bool + Sync,
) -> Vec<Vec<u32>> {
    nearest_within(queries, (gallery, 0..gallery.width()), k, metric, allowed)
}

/// The same by some columns of the gallery, which are not copied.
///
/// # Panics
/// When queries are not as wide as the columns.
pub fn nearest_within(
    queries: &Matrix,
    gallery: (&Matrix, Range<usize>),
    k: usize,
    metric: Metric,
    allowed: impl Fn(usize, usize) -> bool + Sync,
) -> Vec<Vec<u32>> {
    let mut found = Vec::with_capacity(queries.rows());
    for_each_block_within(queries, gallery, metric, |first, scores| {
        let block: Vec<Vec<u32>> = (0..scores.rows())
            .into_par_iter()
            .map(|at| {
                let row = scores.row(at).iter().enumerate();
                let row = row.filter(|&(other, _)| allowed(first + at, other));
                let ranked = top_k(row.map(|(other, &score)| (other as u32, score)), k);
                ranked.into_iter().map(|hit| hit.row).collect()
            })
            .collect();
        found.extend(block);
    });
    found
}

/// For each probe, a row of the gallery, the `k` nearest of the others.
pub fn nearest_others(
    gallery: &Matrix,
    probes: &[usize],
    k: usize,
    metric: Metric,
) -> Vec<Vec<u32>> {
    nearest_others_within(gallery, 0..gallery.width(), probes, k, metric)
}

/// The same by some columns.
pub fn nearest_others_within(
    gallery: &Matrix,
    columns: Range<usize>,
    probes: &[usize],
    k: usize,
    metric: Metric,
) -> Vec<Vec<u32>> {
    let not_itself = |probe: usize, row: usize| probes[probe] != row;
    let queries = gallery.part(probes, columns.clone());
    nearest_within(&queries, (gallery, columns), k, metric, not_itself)
}

/// The place, from zero, of row `targets[i]` among the gallery's rows for query `i`. Rows that
/// score the same as the target count as before it by half, so that a tie is no success.
///
/// # Panics
/// When the widths differ, or there is not one target for each query.
pub fn places(queries: &Matrix, gallery: &Matrix, targets: &[usize], metric: Metric) -> Vec<f64> {
    places_allowed(queries, gallery, targets, metric, |_, _| true)
}

/// [`places`] among the rows `row` of the gallery that `allowed(query, row)` leaves, of which the target
/// is one.
pub fn places_allowed(
    queries: &Matrix,
    gallery: &Matrix,
    targets: &[usize],
    metric: Metric,
    allowed: impl Fn(usize, usize) -> bool + Sync,
) -> Vec<f64> {
    assert_eq!(queries.rows(), targets.len(), "a target for each query");
    let mut places = Vec::with_capacity(targets.len());
    for_each_block(queries, gallery, metric, |first, scores| {
        let block: Vec<f64> = (0..scores.rows())
            .into_par_iter()
            .map(|at| {
                let (row, target) = (scores.row(at), targets[first + at]);
                let own = row[target];
                let others = row.iter().enumerate().filter(|(other, _)| *other != target);
                let others = others.filter(|(other, score)| {
                    // Most score less, and need not be asked for.
                    **score >= own && allowed(first + at, *other)
                });
                others.map(|(_, &score)| if score > own { 1.0 } else { 0.5 }).sum()
            })
            .collect();
        places.extend(block);
    });
    places
}

/// Calls `sink(first query, scores)` for each block of queries; a larger score is nearer.
pub fn for_each_block(
    queries: &Matrix,
    gallery: &Matrix,
    metric: Metric,
    sink: impl FnMut(usize, &Matrix),
) {
    for_each_block_within(queries, (gallery, 0..gallery.width()), metric, sink);
}

fn for_each_block_within(
    queries: &Matrix,
    (gallery, columns): (&Matrix, Range<usize>),
    metric: Metric,
    mut sink: impl FnMut(usize, &Matrix),
) {
    assert_eq!(queries.width(), columns.len(), "rows of one width");
    let norm = |row: &[f64]| row[columns.clone()].iter().map(|x| x * x).sum::<f64>().sqrt();
    let norms: Vec<f64> = gallery.iter().map(norm).collect();
    let mut memory = Vec::new();
    let at_once = (MOST_SCORES / gallery.rows().max(1)).clamp(1, BLOCK);
    for first in (0..queries.rows()).step_by(at_once) {
        let rows: Vec<usize> = (first..queries.rows().min(first + at_once)).collect();
        let block = queries.select(&rows);
        let own = block.norms();
        let mut scores = block.times_columns_transposed(gallery, columns.clone(), memory);
        scores.values_mut().par_chunks_exact_mut(gallery.rows()).zip(&own).for_each(
            |(row, &own)| {
                for (score, &norm) in row.iter_mut().zip(&norms) {
                    *score = match metric {
                        Metric::Product => *score,
                        Metric::Cosine if own > 0.0 && norm > 0.0 => *score / (own * norm),
                        Metric::Cosine => f64::NEG_INFINITY,
                        Metric::Distance => 2.0 * *score - norm * norm - own * own,
                    };
                }
            },
        );
        sink(first, &scores);
        memory = scores.into_values();
    }
}

/// For every query the share of `truth`'s rows that `found` has; zero where there are none.
///
/// # Panics
/// When there are not as many lists of each.
pub fn shares(truth: &[Vec<u32>], found: &[Vec<u32>]) -> Vec<f64> {
    assert_eq!(truth.len(), found.len(), "two lists for each query");
    let share = |(truth, found): (&Vec<u32>, &Vec<u32>)| {
        let shared = truth.iter().filter(|row| found.contains(row)).count();
        shared as f64 / truth.len().max(1) as f64
    };
    truth.iter().zip(found).map(share).collect()
}

/// The share of all of `truth`'s rows that `found` has, over all queries.
///
/// # Panics
/// When there are not as many lists of each.
pub fn overlap(truth: &[Vec<u32>], found: &[Vec<u32>]) -> f64 {
    let lengths = truth.iter().map(|rows| rows.len() as f64);
    let shared: f64 = shares(truth, found).iter().zip(lengths.clone()).map(|(s, n)| s * n).sum();
    let total: f64 = lengths.sum();
    if total == 0.0 { 0.0 } else { shared / total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_those_of_each_metric() {
        let gallery = Matrix::new(2, vec![10.0, 0.0, 1.0, 1.0, 0.0, 0.4, 0.0, 0.0]);
        let query = Matrix::new(2, vec![0.3, 0.5]);
        assert_eq!(nearest(&query, &gallery, 3, Metric::Product), [[0, 1, 2]]);
        assert_eq!(nearest(&query, &gallery, 3, Metric::Cosine), [[1, 2, 0]]);
        assert_eq!(nearest(&query, &gallery, 3, Metric::Distance), [[2, 3, 1]]);
        let not_self = nearest_allowed(&gallery, &gallery, 1, Metric::Distance, |i, j| i != j);
        assert_eq!(not_self, [[1], [2], [3], [2]]);
        assert_eq!(nearest_others(&gallery, &[3, 1], 1, Metric::Distance), [[2], [2]]);
        let copied = nearest_others(&gallery.columns(1..2), &[0, 2], 2, Metric::Distance);
        assert_eq!(nearest_others_within(&gallery, 1..2, &[0, 2], 2, Metric::Distance), copied);
    }

    #[test]
    fn a_tie_is_no_success() {
        let gallery = Matrix::new(1, vec![1.0, 1.0, 0.5]);
        let query = Matrix::new(1, vec![1.0]);
        assert_eq!(places(&query, &gallery, &[0], Metric::Product), [0.5]);
        assert_eq!(places(&query, &gallery, &[2], Metric::Product), [2.0]);
    }

    #[test]
    fn overlap_counts_shared_rows() {
        let (truth, found) = ([vec![1, 2], vec![3, 4], vec![]], [vec![2, 9], vec![4, 3], vec![1]]);
        assert_eq!(shares(&truth, &found), [0.5, 1.0, 0.0]);
        assert_eq!(overlap(&truth, &found), 0.75);
    }
}
