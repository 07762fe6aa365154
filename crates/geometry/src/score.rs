//! Exact scores and the best of them.

use rayon::prelude::*;

use crate::kernel;
use crate::select::Smallest;
use crate::vectors::{VectorError, VectorSet, check_vector};

/// Rows a task of a parallel scan takes at a time.
const BLOCK_ROWS: usize = 1024;

/// `2^800`. A product of something below it and an `f32` is below `2^928`, so no sum of them reaches `2^1024`.
const QUERY_LIMIT: f64 = f64::from_bits((1023 + 800) << 52);

/// A row with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// The row.
    pub row: u32,
    /// Its score; larger is better.
    pub score: f64,
}

/// `<x, y>`, every product exact and the sum in `f64`, with the same bits on every machine.
///
/// # Panics
/// If the vectors differ in length.
pub fn dot_f64(x: &[f32], y: &[f32]) -> f64 {
    assert_eq!(x.len(), y.len(), "an inner product is of two vectors of one width");
    kernel::dot_f32(x, y)
}

/// `q . x_i` for every row of the set, in row order.
///
/// # Errors
/// If the query has another width than the rows, or a value that is not finite.
pub fn exact_scores(vectors: &VectorSet, query: &[f32]) -> Result<Vec<f64>, VectorError> {
    check_vector(vectors.width(), query)?;
    Ok(scores(vectors, |scores, rows| {
        kernel::dispatch(
            #[inline(always)]
            || {
                for (score, row) in scores.iter_mut().zip(rows.chunks_exact(query.len())) {
                    *score = kernel::dot_f32(row, query);
                }
            },
        );
    }))
}

/// A score for every row; `score_block` fills in those of some whole rows.
fn scores(vectors: &VectorSet, score_block: impl Fn(&mut [f64], &[f32]) + Sync) -> Vec<f64> {
    let mut scores = vec![0.0; vectors.rows()];
    scores
        .par_chunks_mut(BLOCK_ROWS)
        .zip(vectors.values().par_chunks(BLOCK_ROWS * vectors.width()))
        .for_each(|(scores, rows)| score_block(scores, rows));
    scores
}

/// The `k` rows with the largest `q . x_i`: exact search, the reference for every other ranking.
///
/// # Errors
/// As [`exact_scores`].
pub fn exact_top_k(
    vectors: &VectorSet,
    query: &[f32],
    k: usize,
) -> Result<Vec<Ranked>, VectorError> {
    Ok(top_k((0..).zip(exact_scores(vectors, query)?), k))
}

/// [`exact_top_k`] with a query in double precision: one that was computed, and has no `f32` form without rounding.
///
/// # Errors
/// If the query has another width than the rows, or a value that is not finite or not below `2^800` in magnitude, with
/// which a score might not be finite.
pub fn exact_top_k_f64(
    vectors: &VectorSet,
    query: &[f64],
    k: usize,
) -> Result<Vec<Ranked>, VectorError> {
    let width = vectors.width();
    if query.len() != width {
        return Err(VectorError::WrongWidth { expected: width, actual: query.len() });
    }
    let usable = |value: &f64| value.abs() < QUERY_LIMIT; // false for a NaN
    if let Some(column) = query.iter().position(|value| !usable(value)) {
        return Err(VectorError::NotFinite { row: 0, column });
    }
    let scores = scores(vectors, |scores, rows| {
        let mut wide = vec![0.0; width];
        kernel::dispatch(
            #[inline(always)]
            || {
                for (score, row) in scores.iter_mut().zip(rows.chunks_exact(width)) {
                    for (wide, &x) in wide.iter_mut().zip(row) {
                        *wide = f64::from(x);
                    }
                    *score = kernel::dot(&wide, query);
                }
            },
        );
    });
    Ok(top_k((0..).zip(scores), k))
}

/// The `k` best of a stream of rows and scores: falling score, ties by ascending row.
///
/// Scores are never NaN: they come from finite vectors, whose `f64` sums cannot overflow, or from a decryption.
pub fn top_k(scores: impl Iterator<Item = (u32, f64)>, k: usize) -> Vec<Ranked> {
    let mut best = Smallest::new(k);
    for (row, score) in scores {
        debug_assert!(!score.is_nan(), "a score is a number");
        best.offer(-score, row);
    }
    best.into_sorted()
        .iter()
        .map(|entry| Ranked { row: entry.row, score: 0.0 - entry.key })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn top_k_breaks_ties_by_row_order() {
        let scores = [(4, 1.0), (3, 2.0), (2, 1.0), (1, 0.0), (0, -0.0)];
        let rows =
            |k| top_k(scores.into_iter(), k).iter().map(|ranked| ranked.row).collect::<Vec<_>>();
        assert_eq!(rows(2), [3, 2]);
        assert_eq!(rows(9), [3, 2, 4, 0, 1]);
        assert_eq!(rows(0), [0u32; 0]);
    }

    #[test]
    fn a_query_that_does_not_fit_is_an_error() {
        let vectors = VectorSet::new(2, vec![1.0; 4]).unwrap();
        assert_eq!(
            exact_scores(&vectors, &[1.0]),
            Err(VectorError::WrongWidth { expected: 2, actual: 1 })
        );
        assert!(exact_top_k(&vectors, &[1.0, f32::NAN], 1).is_err());
    }

    #[test]
    fn double_precision_query_tells_rows_apart_that_single_precision_cannot() {
        // In `f32` the query is (1, 1), and both rows score 0.
        let query = [1.0, 1.0 + 1e-12];
        let vectors = VectorSet::new(2, vec![1.0, -1.0, -1.0, 1.0]).unwrap();
        let rows: Vec<u32> =
            exact_top_k_f64(&vectors, &query, 2).unwrap().iter().map(|ranked| ranked.row).collect();
        assert_eq!(rows, [1, 0]);
        let single: Vec<u32> = exact_top_k(&vectors, &query.map(|q| q as f32), 2)
            .unwrap()
            .iter()
            .map(|ranked| ranked.row)
            .collect();
        assert_eq!(single, [0, 1]);
    }

    #[test]
    fn double_precision_query_is_checked_for_width_and_size() {
        let vectors = VectorSet::new(2, vec![f32::MAX; 4]).unwrap();
        assert_eq!(
            exact_top_k_f64(&vectors, &[1.0], 1),
            Err(VectorError::WrongWidth { expected: 2, actual: 1 })
        );
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN, 2.0f64.powi(800)] {
            assert_eq!(
                exact_top_k_f64(&vectors, &[0.0, bad], 1),
                Err(VectorError::NotFinite { row: 0, column: 1 })
            );
        }
        let largest = 2.0f64.powi(799) * 1.5;
        let best = exact_top_k_f64(&vectors, &[largest, -largest], 2).unwrap();
        assert_eq!(
            best.iter().map(|ranked| (ranked.row, ranked.score)).collect::<Vec<_>>(),
            [(0, 0.0), (1, 0.0)]
        );
        assert!(exact_top_k_f64(&vectors, &[largest; 2], 1).unwrap()[0].score.is_finite());
    }

    #[test]
    fn double_precision_search_has_the_bits_of_single_precision_search_on_its_queries() {
        // More rows than one block, and ties across blocks.
        let value = |at: usize| ((at * 37 % 101) as f32 * 0.31).sin();
        let values: Vec<f32> =
            (0..11 * (2 * BLOCK_ROWS + 7)).map(|at| value(at % (11 * 500))).collect();
        let vectors = VectorSet::new(11, values).unwrap();
        let query: Vec<f32> = (0..11).map(|at| value(at + 5)).collect();
        let wide: Vec<f64> = query.iter().map(|&q| f64::from(q)).collect();
        for k in [0, 1, 10, vectors.rows() + 1] {
            assert_eq!(
                exact_top_k_f64(&vectors, &wide, k).unwrap(),
                exact_top_k(&vectors, &query, k).unwrap()
            );
        }
    }

    proptest! {
        #[test]
        fn exact_search_equals_a_sort_of_plain_sums(
            rows in prop::collection::vec(prop::array::uniform5(-4i8..4), 1..40),
            query in prop::array::uniform5(-4i8..4),
            k in 0usize..45,
        ) {
            // Small integers make every sum exact, so ties are ties in any order of summation.
            let mut oracle: Vec<(i32, u32)> = rows.iter().zip(0..)
                .map(|(row, at)| (-row.iter().zip(query).map(|(&x, q)| i32::from(x) * i32::from(q)).sum::<i32>(), at))
                .collect();
            oracle.sort();
            oracle.truncate(k);

            let vectors = VectorSet::new(5, rows.iter().flatten().map(|&x| f32::from(x)).collect()).unwrap();
            let found = exact_top_k(&vectors, &query.map(f32::from), k).unwrap();
            let found: Vec<(i32, u32)> = found.iter().map(|ranked| (-(ranked.score as i32), ranked.row)).collect();
            prop_assert_eq!(found, oracle);
        }
    }
}
