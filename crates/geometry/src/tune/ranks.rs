//! The ranks of true neighbours in the order of estimates.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use super::{NEIGHBOURS, SampleQuery, WEIGHTS};
use crate::kernel;
use crate::linear;
use crate::pca::{Pca, Projector};
use crate::route::power_of_two_above;
use crate::vectors::VectorSet;
use crate::work::{Stopped, Work};

/// Rows that meet all queries in one matrix product.
const BLOCK_ROWS: usize = 2 * Projector::ROWS;

/// Picoseconds of one coordinate of one row in the projection.
const PROJECT_TIME: u64 = 45;

/// Picoseconds of one coordinate of one row for one query.
const PRODUCT_TIME: u64 = 40;

/// Picoseconds of one row for one query, one width and one weight.
const COUNT_TIME: u64 = 400;

/// How much work [`neighbour_ranks`] is.
pub(super) fn work(rows: usize, width: usize, queries: usize, widths: &[usize]) -> u64 {
    rows as u64 * row_work(width, queries, widths)
}

fn row_work(width: usize, queries: usize, widths: &[usize]) -> u64 {
    let longest = widths.last().copied().unwrap_or(0) as u64;
    let counted = (widths.len() * WEIGHTS.len()) as u64;
    PROJECT_TIME * (width * width) as u64
        + queries as u64 * (PRODUCT_TIME * longest + COUNT_TIME * counted)
        + 1
}

/// A row or a query as the estimates take it: the longest prefix, and the length of what is beyond each width.
struct Placed {
    prefix: Vec<f32>,
    residual_norms: Vec<f32>,
}

impl Placed {
    fn new(coordinates: &[f64], unit: f64, widths: &[usize]) -> Self {
        let longest = widths[widths.len() - 1];
        let prefix = coordinates[..longest].iter().map(|x| (x * unit) as f32).collect();
        let beyond = |&width: &usize| (norm(&coordinates[width..]) * unit) as f32;
        Self { prefix, residual_norms: widths.iter().map(beyond).collect() }
    }
}

/// What the ranks of one neighbour are counted by, at one width and with one weight.
///
/// Estimates of the scan come from matrix products and err by the order of summation. Those as close as that are ties,
/// as equal rows are: rows before the neighbour are counted from `low` on, rows after it above `high`.
#[derive(Clone, Copy)]
struct Threshold {
    low: f32,
    high: f32,
}

impl Threshold {
    /// Of a neighbour that is not there: nothing comes before it.
    const NONE: Self = Self { low: f32::INFINITY, high: f32::INFINITY };

    fn new(estimate: f64, error: f64) -> Self {
        Self { low: ((estimate - error) as f32).next_down(), high: (estimate + error) as f32 }
    }
}

/// For every width and every weight of [`WEIGHTS`], the ranks (counted from zero, ascending) of the neighbours of all
/// queries.
///
/// One pass over the corpus. A block of rows is projected, its products with all queries are added up width by width,
/// and the rows that come before each neighbour are counted.
pub(super) fn neighbour_ranks(
    vectors: &VectorSet,
    pca: &Pca,
    sample: &[SampleQuery],
    neighbours: &[Vec<u32>],
    widths: &[usize],
    work: Work<'_>,
) -> Result<Vec<Vec<Vec<u32>>>, Stopped> {
    let count = Count::new(vectors, pca, sample, neighbours, widths);
    let width = vectors.width();
    let per_row = row_work(width, sample.len(), widths);
    vectors.values().par_chunks(BLOCK_ROWS * width).enumerate().try_for_each_init(
        || Scratch { projector: Projector::new(pca), products: Vec::new() },
        |scratch, (block, rows)| {
            count.visit((block * BLOCK_ROWS) as u32, rows, scratch);
            work.done((rows.len() / width) as u64 * per_row)
        },
    )?;
    Ok(count.ranks())
}

struct Scratch<'a> {
    projector: Projector<'a>,
    products: Vec<f32>,
}

struct Count<'a> {
    sample: &'a [SampleQuery],
    neighbours: &'a [Vec<u32>],
    widths: &'a [usize],
    /// What brings rows to lengths of at most one, so that no product overflows.
    unit: f64,
    /// The longest prefixes of all queries.
    prefixes: Vec<f32>,
    /// For every query, the length of what is beyond each width.
    residual_norms: Vec<f32>,
    /// For every query, width, weight and neighbour.
    thresholds: Vec<Threshold>,
    /// The lowest of each query, width and weight: a row beneath it comes before no neighbour.
    floors: Vec<f32>,
    /// How many rows come before, as the thresholds.
    before: Vec<AtomicU32>,
}

impl<'a> Count<'a> {
    fn new(
        vectors: &VectorSet,
        pca: &Pca,
        sample: &'a [SampleQuery],
        neighbours: &'a [Vec<u32>],
        widths: &'a [usize],
    ) -> Self {
        let unit = 1.0 / power_of_two_above(vectors.max_norm() + norm(pca.mean()));
        let queries: Vec<Placed> = sample
            .par_iter()
            .map(|query| {
                let coordinates = pca.uncentred(&query.vector);
                Placed::new(&coordinates, 1.0 / power_of_two_above(norm(&coordinates)), widths)
            })
            .collect();
        let thresholds: Vec<Threshold> = queries
            .par_iter()
            .zip(neighbours)
            .flat_map_iter(|(query, neighbours)| {
                let rows: Vec<f32> =
                    neighbours.iter().flat_map(|&row| vectors.row(row as usize)).copied().collect();
                let mut projector = Projector::new(pca);
                let placed: Vec<Placed> = projector
                    .project(&rows)
                    .chunks_exact(vectors.width())
                    .map(|coordinates| Placed::new(coordinates, unit, widths))
                    .collect();
                thresholds(query, &placed, widths)
            })
            .collect();
        let lowest = |of: &[Threshold]| of.iter().fold(f32::INFINITY, |low, t| low.min(t.low));
        Self {
            sample,
            neighbours,
            widths,
            unit,
            prefixes: queries.iter().flat_map(|query| &query.prefix).copied().collect(),
            residual_norms: queries.iter().flat_map(|q| &q.residual_norms).copied().collect(),
            floors: thresholds.chunks_exact(NEIGHBOURS).map(lowest).collect(),
            before: thresholds.iter().map(|_| AtomicU32::new(0)).collect(),
            thresholds,
        }
    }

    /// Counts the rows of a block.
    fn visit(&self, first: u32, rows: &[f32], scratch: &mut Scratch<'_>) {
        let width = scratch.projector.width();
        let longest = self.widths[self.widths.len() - 1];
        let count = rows.len() / width;
        let mut prefixes = Vec::with_capacity(count * longest);
        let mut norms = vec![vec![0.0; count]; self.widths.len()];
        for (part, rows) in rows.chunks(Projector::ROWS * width).enumerate() {
            let projected = scratch.projector.project(rows);
            for (at, coordinates) in projected.chunks_exact(width).enumerate() {
                let placed = Placed::new(coordinates, self.unit, self.widths);
                prefixes.extend_from_slice(&placed.prefix);
                for (norms, norm) in norms.iter_mut().zip(placed.residual_norms) {
                    norms[part * Projector::ROWS + at] = norm;
                }
            }
        }
        let products = &mut scratch.products;
        products.clear();
        products.resize(self.sample.len() * count, 0.0);
        let mut start = 0;
        for (step, (&end, norms)) in self.widths.iter().zip(&norms).enumerate() {
            linear::add_products(&self.prefixes, &prefixes, longest, start..end, products);
            start = end;
            kernel::dispatch(
                #[inline(always)]
                || {
                    for (query, products) in products.chunks_exact(count).enumerate() {
                        self.count(query, step, first, products, norms);
                    }
                },
            );
        }
    }

    /// Counts the rows of a block for one query at one width.
    #[inline(always)]
    fn count(&self, query: usize, step: usize, first: u32, products: &[f32], norms: &[f32]) {
        let mut estimates = [0.0; BLOCK_ROWS];
        let estimates = &mut estimates[..products.len()];
        let at = query * self.widths.len() + step;
        let own = self.sample[query].own_row.and_then(|row| row.checked_sub(first));
        for (choice, weight) in WEIGHTS.iter().enumerate() {
            let factor = (weight * f64::from(self.residual_norms[at])) as f32;
            for ((estimate, product), norm) in estimates.iter_mut().zip(products).zip(norms) {
                *estimate = product + factor * norm;
            }
            if let Some(own) = own.and_then(|own| estimates.get_mut(own as usize)) {
                *own = f32::NEG_INFINITY;
            }
            let at = at * WEIGHTS.len() + choice;
            if above(estimates, self.floors[at]) == 0 {
                continue;
            }
            let each = at * NEIGHBOURS..;
            for ((&row, threshold), before) in self.neighbours[query]
                .iter()
                .zip(&self.thresholds[each.clone()])
                .zip(&self.before[each])
            {
                let split = (row.saturating_sub(first) as usize).min(estimates.len());
                let (earlier, later) = estimates.split_at(split);
                let found = above(earlier, threshold.low) + above(later, threshold.high);
                if found > 0 {
                    before.fetch_add(found, Ordering::Relaxed);
                }
            }
        }
    }

    fn ranks(self) -> Vec<Vec<Vec<u32>>> {
        let of_choice = |step: usize, choice: usize| {
            let mut ranks: Vec<u32> = Vec::new();
            for (query, neighbours) in self.neighbours.iter().enumerate() {
                let at = (query * self.widths.len() + step) * WEIGHTS.len() + choice;
                let before = &self.before[at * NEIGHBOURS..][..neighbours.len()];
                ranks.extend(before.iter().map(|count| count.load(Ordering::Relaxed)));
            }
            ranks.sort_unstable();
            ranks
        };
        let of_width = |step| (0..WEIGHTS.len()).map(|choice| of_choice(step, choice)).collect();
        (0..self.widths.len()).map(of_width).collect()
    }
}

/// How many estimates are above a threshold.
#[inline(always)]
fn above(estimates: &[f32], threshold: f32) -> u32 {
    estimates.iter().map(|&estimate| u32::from(estimate > threshold)).sum()
}

/// For every width, weight and neighbour of one query.
fn thresholds(query: &Placed, neighbours: &[Placed], widths: &[usize]) -> Vec<Threshold> {
    let mut thresholds = Vec::with_capacity(widths.len() * WEIGHTS.len() * NEIGHBOURS);
    for (step, &width) in widths.iter().enumerate() {
        let prefixes = |placed: &Placed| {
            let (q, x) = (&query.prefix[..width], &placed.prefix[..width]);
            let length = |x: &[f32]| kernel::dot_f32(x, x).sqrt();
            (kernel::dot_f32(q, x), length(q) * length(x))
        };
        let measured: Vec<(f64, f64)> = neighbours.iter().map(prefixes).collect();
        for weight in WEIGHTS {
            let factor = weight * f64::from(query.residual_norms[step]);
            for (at, placed) in neighbours.iter().enumerate() {
                let (product, most) = measured[at];
                let residual = factor * f64::from(placed.residual_norms[step]);
                let error = (width as f64 + 8.0) * most + 4.0 * residual;
                thresholds.push(Threshold::new(product + residual, error / f64::from(1 << 24)));
            }
            let missing = NEIGHBOURS - neighbours.len();
            thresholds.extend(std::iter::repeat_n(Threshold::NONE, missing));
        }
    }
    thresholds
}

fn norm(values: &[f64]) -> f64 {
    kernel::dot(values, values).sqrt()
}
