//! The rows that exact search finds.

use rayon::prelude::*;

use super::SampleQuery;
use crate::kernel;
use crate::linear;
use crate::route::power_of_two_above;
use crate::select::Smallest;
use crate::vectors::VectorSet;
use crate::work::{Stopped, Work};

/// Rows that meet all queries in one matrix product.
const BLOCK_ROWS: usize = 256;

/// Picoseconds of one coordinate of one row for one query.
const TIME: u64 = 30;

/// How much work [`true_neighbours`] is.
pub fn neighbours_work(rows: usize, width: usize, queries: usize) -> u64 {
    rows as u64 * row_work(width, queries)
}

fn row_work(width: usize, queries: usize) -> u64 {
    TIME * width as u64 * queries as u64 + 1
}

/// For every query the `count` rows with the largest inner product, best first, ties by row; its own row left out.
///
/// Matrix products in `f32` propose: a row whose product, give or take its rounding, could be among the best is scored in
/// `f64`, and that decides. The result is that of an exhaustive `f64` search; nothing of size `queries x N` is held.
///
/// # Errors
/// When `work` is ended.
///
/// # Panics
/// If a query has another width than the vectors.
pub fn true_neighbours(
    vectors: &VectorSet,
    queries: &[SampleQuery],
    count: usize,
    work: Work<'_>,
) -> Result<Vec<Vec<u32>>, Stopped> {
    let width = vectors.width();
    assert!(queries.iter().all(|query| query.vector.len() == width), "queries are as wide as rows");
    let units: Vec<f64> = queries
        .iter()
        .map(|query| 1.0 / power_of_two_above(kernel::dot_f32(&query.vector, &query.vector).sqrt()))
        .collect();
    let scaled: Vec<f32> = queries
        .iter()
        .zip(&units)
        .flat_map(|(query, unit)| query.vector.iter().map(move |&q| (f64::from(q) * unit) as f32))
        .collect();
    let search = Search { vectors, queries, units: &units, scaled: &scaled };

    let nothing = || queries.iter().map(|_| Smallest::new(count)).collect::<Vec<_>>();
    let blocks = vectors.rows().div_ceil(BLOCK_ROWS);
    let best = vectors
        .values()
        .par_chunks(BLOCK_ROWS * width)
        .enumerate()
        // Every new selection has to find its first rows again.
        .with_min_len(blocks.div_ceil(4 * rayon::current_num_threads()))
        .try_fold(
            || (nothing(), Vec::new()),
            |(mut best, mut products), (block, rows)| {
                search.visit(block * BLOCK_ROWS, rows, &mut products, &mut best);
                work.done((rows.len() / width) as u64 * row_work(width, queries.len()))?;
                Ok((best, products))
            },
        )
        .map(|part: Result<_, Stopped>| part.map(|(best, _)| best))
        .try_reduce(nothing, |a, b| Ok(a.into_iter().zip(b).map(|(a, b)| a.merge(b)).collect()))?;
    let rows = |best: Smallest| best.into_sorted().iter().map(|entry| entry.row).collect();
    Ok(best.into_iter().map(rows).collect())
}

struct Search<'a> {
    vectors: &'a VectorSet,
    queries: &'a [SampleQuery],
    /// What brings each query to a length between a half and one.
    units: &'a [f64],
    /// The queries at that length.
    scaled: &'a [f32],
}

impl Search<'_> {
    /// Offers the rows of a block that could be among the best.
    fn visit(&self, first: usize, rows: &[f32], products: &mut Vec<f32>, best: &mut [Smallest]) {
        let width = self.vectors.width();
        let count = rows.len() / width;
        products.resize(self.queries.len() * count, 0.0);
        linear::scaled_products(self.scaled, rows, width, 1.0, products);
        kernel::dispatch(
            #[inline(always)]
            || {
                // A product of a query no longer than one errs by at most `w 2^-24 |x|` in any order of summation; a
                // little more covers second-order terms, the comparison below and underflow.
                let relative = 1.02 * (width as f64 + 16.0) / f64::from(1 << 24);
                let error = |row: &[f32]| (relative * kernel::dot_f32(row, row).sqrt()) as f32;
                let errors: Vec<f32> =
                    rows.chunks_exact(width).map(|row| error(row) + f32::MIN_POSITIVE).collect();
                for (at, products) in products.chunks_exact(count).enumerate() {
                    self.offer(at, first, products, &errors, &mut best[at]);
                }
            },
        );
    }

    #[inline(always)]
    fn offer(
        &self,
        at: usize,
        first: usize,
        products: &[f32],
        errors: &[f32],
        best: &mut Smallest,
    ) {
        // The score to reach. Written so that an overflow to infinity or NaN is scored exactly.
        let mut least = (-best.limit_key()) as f32;
        let beneath = |product: f32, error: f32, least: f32| product + error < least;
        let rows = || products.iter().zip(errors);
        if rows().map(|(&p, &e)| u32::from(!beneath(p, e, least))).sum::<u32>() == 0 {
            return;
        }
        let query = &self.queries[at];
        for (row, (&product, &error)) in (first as u32..).zip(rows()) {
            if beneath(product, error, least) || Some(row) == query.own_row {
                continue;
            }
            let score = kernel::dot_f32(self.vectors.row(row as usize), &query.vector);
            best.offer(-score * self.units[at], row);
            least = (-best.limit_key()) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::score::exact_top_k;

    proptest! {
        #[test]
        fn neighbours_are_those_of_exact_search(
            rows in prop::collection::vec(prop::array::uniform5(-3i8..4), 1..600),
            queries in prop::collection::vec(prop::array::uniform5(-3i8..4), 1..5),
            exponent in -60i32..60,
            count in 0usize..14,
        ) {
            // A coarse grid: many ties, whose order is that of rows.
            let scale = 2f32.powi(exponent);
            let vectors = VectorSet::new(5, rows.iter().flatten().map(|&x| f32::from(x)).collect()).unwrap();
            let queries: Vec<SampleQuery> = queries.iter().enumerate().map(|(at, query)| SampleQuery {
                vector: query.iter().map(|&x| f32::from(x) * scale).collect(),
                own_row: (at % 2 == 0).then_some(at as u32),
            }).collect();
            let found = true_neighbours(&vectors, &queries, count, Work::unwatched()).unwrap();
            for (query, found) in queries.iter().zip(found) {
                let best = exact_top_k(&vectors, &query.vector, vectors.rows()).unwrap();
                let others = best.iter().map(|ranked| ranked.row).filter(|row| Some(*row) != query.own_row);
                prop_assert_eq!(found, others.take(count).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn one_long_row_does_not_hide_the_others() {
        // In `f32` beside 1e6, products that differ by 1e-4 look alike.
        let values: Vec<f32> = (0..700)
            .flat_map(|row| if row == 300 { [1e6, 1e6] } else { [1.0 + row as f32 * 1e-4, 0.0] })
            .collect();
        let vectors = VectorSet::new(2, values).unwrap();
        let query = SampleQuery { vector: vec![1e-20, -1e-20], own_row: None };
        let found = true_neighbours(&vectors, &[query], 3, Work::unwatched()).unwrap();
        assert_eq!(found, [[699, 698, 697]]);
    }
}
