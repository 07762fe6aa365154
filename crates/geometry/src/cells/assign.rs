//! The nearest centroid of many rows.

use rayon::prelude::*;

use super::Cells;
use crate::kernel;
use crate::linear;
use crate::work::{Stopped, Work};

/// Products one task holds at a time: 1 MiB in `f32`.
const BLOCK_PRODUCTS: usize = 1 << 18;

/// Picoseconds of one coordinate of one row for one centroid.
const TIME: u64 = 40;

/// How much work an assignment is.
pub(super) fn work(rows: usize, width: usize, count: usize) -> u64 {
    rows as u64 * (TIME * (width * count) as u64 + 1)
}

/// The cell of every row with the squared distance to its centroid.
///
/// The matrix product gives `s_j = |c_j|^2 - 2 <x, c_j>` in `f32`, whose rounding differs from machine to machine. It
/// only proposes: every cell whose `s_j` could belong to the minimum is measured directly in `f64`, in a fixed order,
/// and the smallest of these distances decides, the first of equals. The result is that of an exhaustive `f64` search.
pub(super) fn assign(
    cells: &Cells,
    rows: &[f32],
    watch: Work<'_>,
) -> Result<(Vec<u32>, Vec<f64>), Stopped> {
    let (width, count) = (cells.width, cells.count());
    let norms: Vec<f64> =
        cells.centroids.chunks_exact(width).map(|c| kernel::dot_f32(c, c)).collect();
    let largest = norms.iter().fold(0.0f64, |largest, &norm| largest.max(norm)).sqrt();
    let norms: Vec<f32> = norms.iter().map(|&norm| norm as f32).collect();

    let total = rows.len() / width;
    let (mut chosen, mut distances) = (vec![0; total], vec![0.0; total]);
    let block = (BLOCK_PRODUCTS / count).max(16);
    chosen
        .par_chunks_mut(block)
        .zip(distances.par_chunks_mut(block))
        .zip(rows.par_chunks(block * width))
        .try_for_each_init(
            || vec![0.0f32; block * count],
            |products, ((chosen, distances), rows)| {
                let products = &mut products[..chosen.len() * count];
                linear::scaled_products(rows, &cells.centroids, width, -2.0, products);
                kernel::dispatch(
                    #[inline(always)]
                    || {
                        let proposals =
                            products.chunks_exact_mut(count).zip(rows.chunks_exact(width));
                        for ((products, row), (chosen, distance)) in
                            proposals.zip(chosen.iter_mut().zip(distances.iter_mut()))
                        {
                            let slack = slack(width, kernel::dot_f32(row, row).sqrt() + largest);
                            (*chosen, *distance) = decide(cells, row, products, &norms, slack);
                        }
                    },
                );
                watch.done(work(rows.len() / width, width, count))
            },
        )?;
    Ok((chosen, distances))
}

/// Twice the largest rounding error of an `s_j`.
///
/// With `u = 2^-24` and `b = |x| + max |c|`, the product errs by at most `2 w u |x| |c| <= w u b^2 / 2` in any order of
/// summation, the norm by `u b^2`, the last addition by `u b^2`; a little more covers second-order terms and underflow.
fn slack(width: usize, bound: f64) -> f32 {
    const UNIT: f64 = 1.0 / (1 << 24) as f64;
    ((1.01 * (width as f64 + 8.0) * UNIT * bound * bound) as f32).max(f32::MIN_POSITIVE)
}

#[inline(always)]
fn decide(
    cells: &Cells,
    row: &[f32],
    products: &mut [f32],
    norms: &[f32],
    slack: f32,
) -> (u32, f64) {
    let mut least = f32::INFINITY;
    for (product, norm) in products.iter_mut().zip(norms) {
        *product += norm;
        least = least.min(*product);
    }
    let limit = least + slack;
    let mut best = (0, f64::INFINITY);
    for (cell, (&product, centroid)) in
        (0..).zip(products.iter().zip(cells.centroids.chunks_exact(row.len())))
    {
        // An overflow to infinity or NaN is not above the limit: such a cell is measured.
        if product > limit {
            continue;
        }
        let distance = kernel::squared_distance_f32(row, centroid);
        if distance < best.1 {
            best = (cell, distance);
        }
    }
    best
}
