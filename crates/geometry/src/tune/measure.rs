//! The ranks of true neighbours in the order of prefix distances.

use rayon::prelude::*;

use super::{NEIGHBOURS, SampleQuery};
use crate::kernel;
use crate::pca::Pca;
use crate::projected::Projected;
use crate::select::Smallest;
use crate::vectors::VectorSet;

/// Rows whose prefixes stay in the cache while all queries meet them.
const CHUNK_ROWS: usize = 4096;

/// A true neighbour of a query.
struct Neighbour {
    row: u32,
    /// Its squared distance by prefix, for every width.
    distances: Vec<f32>,
    /// How many rows come before it, for every width.
    before: Vec<u32>,
}

/// For every width, the ranks (counted from zero, ascending) of the true neighbours of all queries.
///
/// Two passes over the corpus: the first finds the neighbours by raw inner product; between them their distances are
/// taken; the second counts the rows that come before each, by distance and then by row.
pub(super) fn neighbour_ranks(
    vectors: &VectorSet,
    pca: &Pca,
    projected: &Projected,
    sample: &[SampleQuery],
    widths: &[usize],
) -> Vec<Vec<u32>> {
    let longest = *widths.last().expect("at least one width is tried");
    let prefixes: Vec<Vec<f32>> = sample
        .par_iter()
        .map(|query| pca.centred(&query.vector)[..longest].iter().map(|&x| x as f32).collect())
        .collect();
    let mut neighbours: Vec<Vec<Neighbour>> = sample
        .par_iter()
        .zip(&prefixes)
        .map(|(query, own)| {
            let found = true_neighbours(vectors, query);
            let measured = found.into_iter().map(|row| {
                let mut distances = vec![0.0; widths.len()];
                let prefix = &projected.row(row as usize)[..longest];
                cumulative_distances(own, prefix, widths, &mut distances);
                Neighbour { row, distances, before: vec![0; widths.len()] }
            });
            measured.collect()
        })
        .collect();

    let width = projected.width();
    for (chunk, rows) in projected.values().chunks(CHUNK_ROWS * width).enumerate() {
        let first_row = (chunk * CHUNK_ROWS) as u32;
        neighbours.par_iter_mut().zip(&prefixes).zip(sample).for_each(
            |((neighbours, own), query)| {
                kernel::dispatch(
                    #[inline(always)]
                    || {
                        count_before(
                            neighbours,
                            own,
                            query.own_row,
                            first_row,
                            rows,
                            width,
                            widths,
                        );
                    },
                );
            },
        );
    }
    (0..widths.len())
        .map(|at| {
            let mut ranks: Vec<u32> =
                neighbours.iter().flatten().map(|neighbour| neighbour.before[at]).collect();
            ranks.sort_unstable();
            ranks
        })
        .collect()
}

/// The rows with the largest inner product with the query, itself left out.
fn true_neighbours(vectors: &VectorSet, query: &SampleQuery) -> Vec<u32> {
    let nearest = kernel::dispatch(
        #[inline(always)]
        || {
            let mut nearest = Smallest::new(NEIGHBOURS);
            for (row, values) in (0..).zip(vectors.values().chunks_exact(vectors.width())) {
                if Some(row) != query.own_row {
                    nearest.offer(-kernel::dot_f32(values, &query.vector), row);
                }
            }
            nearest
        },
    );
    nearest.into_sorted().iter().map(|entry| entry.row).collect()
}

#[inline(always)]
fn count_before(
    neighbours: &mut [Neighbour],
    own: &[f32],
    own_row: Option<u32>,
    first_row: u32,
    rows: &[f32],
    width: usize,
    widths: &[usize],
) {
    let farthest: Vec<f32> = (0..widths.len())
        .map(|at| neighbours.iter().map(|neighbour| neighbour.distances[at]).fold(0.0, f32::max))
        .collect();
    let mut distances = vec![0.0; widths.len()];
    for (row, other) in (first_row..).zip(rows.chunks_exact(width)) {
        if Some(row) == own_row {
            continue;
        }
        cumulative_distances(own, other, widths, &mut distances);
        // Most rows come after all neighbours at every width.
        if distances.iter().zip(&farthest).all(|(distance, farthest)| distance > farthest) {
            continue;
        }
        for neighbour in neighbours.iter_mut().filter(|neighbour| neighbour.row != row) {
            for ((&distance, &limit), before) in
                distances.iter().zip(&neighbour.distances).zip(&mut neighbour.before)
            {
                *before +=
                    u32::from(distance < limit || (distance == limit && row < neighbour.row));
            }
        }
    }
}

/// The squared distance of the first `w` coordinates for every width `w`, the widths ascending.
#[inline(always)]
fn cumulative_distances(x: &[f32], y: &[f32], widths: &[usize], out: &mut [f32]) {
    let (mut start, mut sum) = (0, 0.0);
    for (&width, out) in widths.iter().zip(out) {
        sum += kernel::squared_distance(&x[start..width], &y[start..width]);
        *out = sum;
        start = width;
    }
}
