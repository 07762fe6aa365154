//! k-means.

use rand_core::Rng;
use rayon::prelude::*;

use super::{CellLists, Cells, CellsError, assign, check_count, check_matrix};
use crate::kernel;
use crate::random::{below, sample, unit};
use crate::work::Work;

/// Rows per cell that take part in the seeding. The seeding reads all of its rows once per cell, and a
/// sample of this size places the seeds as well as the whole does.
const SEED_ROWS_PER_CELL: usize = 64;

/// Rows per cell that take part in the rounds: of more, a random sample does.
const ROWS_PER_CELL: usize = 256;

impl Cells {
    /// Divides the rows of a row-major matrix into `count` cells by k-means, and says which cell each row is in.
    ///
    /// Seeds are chosen by k-means++ among at most 64 random rows per cell; then Lloyd's rounds move every centroid to
    /// the mean of its rows until no row changes its cell, or [`ROUNDS`](Self::ROUNDS) times. Where there are more than
    /// 256 rows per cell, a random sample of so many takes part in the rounds, and all are assigned at the end. The
    /// assignment returned is that of the centroids returned. The same rows and the same random words give the same
    /// cells, for any number of threads and on every machine.
    ///
    /// No cell is empty unless there are fewer distinct rows than cells: a centroid without rows is moved onto the
    /// farthest row of the cell with the largest sum of squared distances.
    ///
    /// # Errors
    /// Any [`CellsError`] but `NoSuchCell`.
    pub fn fit(
        prefixes: &[f32],
        width: usize,
        count: usize,
        rng: &mut impl Rng,
    ) -> Result<(Self, Vec<u32>), CellsError> {
        Self::fit_watched(prefixes, width, count, rng, Work::unwatched())
    }

    /// How much work a fit is, at most.
    pub fn work(rows: usize, width: usize, count: usize) -> u64 {
        let sampled = rows.min(ROWS_PER_CELL * count);
        (Self::ROUNDS as u64 + 1) * assign::work(sampled, width, count)
            + Self::assign_work(rows, width, count)
    }

    /// [`fit`](Self::fit), followed by whoever wants to know how far it is.
    ///
    /// # Errors
    /// As [`fit`](Self::fit), and `Stopped` if they end it.
    pub fn fit_watched(
        prefixes: &[f32],
        width: usize,
        count: usize,
        rng: &mut impl Rng,
        work: Work<'_>,
    ) -> Result<(Self, Vec<u32>), CellsError> {
        check_matrix(width, prefixes)?;
        check_count(count)?;
        let rows = prefixes.len() / width;
        if rows < count {
            return Err(CellsError::FewerRowsThanCells { rows, count });
        }
        let sampled = (rows > ROWS_PER_CELL * count).then(|| {
            let chosen = sample(rows, ROWS_PER_CELL * count, rng);
            let rows = chosen.into_iter().flat_map(|row| &prefixes[row * width..][..width]);
            rows.copied().collect::<Vec<f32>>()
        });
        let cells = rounds(sampled.as_deref().unwrap_or(prefixes), width, count, rng, work)?;
        drop(sampled);
        // No row of the sample moves, so no cell is empty.
        let chosen = cells.assign_watched(prefixes, work)?;
        Ok((cells, chosen))
    }
}

/// Seeds and Lloyd's rounds.
fn rounds(
    prefixes: &[f32],
    width: usize,
    count: usize,
    rng: &mut impl Rng,
    work: Work<'_>,
) -> Result<Cells, CellsError> {
    let once = assign::work(prefixes.len() / width, width, count);
    let mut cells = Cells { width, centroids: seed(prefixes, width, count, rng) };
    let (mut chosen, mut distances) = assign::assign(&cells, prefixes, Work::unwatched())?;
    work.done(once)?;
    let mut left = Cells::ROUNDS as u64;
    while left > 0 {
        let members = members(count, &chosen);
        move_to_means(&mut cells, prefixes, &members);
        repair(&mut cells, prefixes, &members, &mut distances);
        let before = chosen;
        (chosen, distances) = assign::assign(&cells, prefixes, Work::unwatched())?;
        work.done(once)?;
        left -= 1;
        if chosen == before {
            break;
        }
    }
    // The last assignment may have emptied a cell. A centroid that is put onto a row where no centroid was keeps
    // that row (at distance zero) for good, so each pass fills at least one cell for good: at most `count` passes.
    while repair(&mut cells, prefixes, &members(count, &chosen), &mut distances) {
        (chosen, distances) = assign::assign(&cells, prefixes, Work::unwatched())?;
    }
    work.done(left * once)?;
    Ok(cells)
}

fn members(count: usize, chosen: &[u32]) -> CellLists {
    CellLists::new(count, chosen).expect("rows are assigned to cells that exist")
}

/// k-means++: the first seed uniformly, every further one with a probability proportional to the squared distance to
/// the nearest seed so far.
fn seed(prefixes: &[f32], width: usize, count: usize, rng: &mut impl Rng) -> Vec<f32> {
    let chosen = sample(prefixes.len() / width, SEED_ROWS_PER_CELL * count, rng);
    let row = |at: usize| &prefixes[chosen[at] * width..][..width];
    let mut seeds = Vec::with_capacity(count * width);
    let mut nearest = vec![f32::INFINITY; chosen.len()];
    let mut next = below(chosen.len() as u64, rng) as usize;
    loop {
        let seed = row(next);
        seeds.extend_from_slice(seed);
        if seeds.len() == count * width {
            return seeds;
        }
        nearest.par_chunks_mut(1024).enumerate().for_each(|(block, nearest)| {
            kernel::dispatch(
                #[inline(always)]
                || {
                    for (at, nearest) in (block * 1024..).zip(nearest.iter_mut()) {
                        *nearest = nearest.min(kernel::squared_distance(row(at), seed));
                    }
                },
            );
        });
        next = weighted(&nearest, rng);
    }
}

/// An index with a probability proportional to its weight; any index when all weights are zero.
fn weighted(weights: &[f32], rng: &mut impl Rng) -> usize {
    // Squared distances beyond the range of `f32` count as its largest number.
    let weight = |at: usize| f64::from(weights[at].min(f32::MAX));
    let total: f64 = (0..weights.len()).map(weight).sum();
    if total == 0.0 {
        return below(weights.len() as u64, rng) as usize;
    }
    let mut left = unit(rng) * total;
    let mut last = 0;
    for at in (0..weights.len()).filter(|&at| weights[at] > 0.0) {
        last = at;
        left -= weight(at);
        if left < 0.0 {
            break;
        }
    }
    last
}

/// Every centroid with rows becomes their mean, summed in row order in `f64`.
fn move_to_means(cells: &mut Cells, prefixes: &[f32], members: &CellLists) {
    let width = cells.width;
    cells.centroids.par_chunks_mut(width).enumerate().for_each(|(cell, centroid)| {
        let rows = members.members(cell as u32);
        if rows.is_empty() {
            return;
        }
        let mut sums = vec![0.0; width];
        for &row in rows {
            for (sum, &x) in sums.iter_mut().zip(&prefixes[row as usize * width..][..width]) {
                *sum += f64::from(x);
            }
        }
        for (centroid, sum) in centroid.iter_mut().zip(sums) {
            *centroid = (sum / rows.len() as f64) as f32;
        }
    });
}

/// Moves the centroids of empty cells onto far rows; false when there is none to move or no row to move it to.
fn repair(cells: &mut Cells, prefixes: &[f32], members: &CellLists, distances: &mut [f64]) -> bool {
    let width = cells.width;
    let empty: Vec<usize> =
        (0..members.count()).filter(|&cell| members.members(cell as u32).is_empty()).collect();
    if empty.is_empty() {
        return false;
    }
    let mut errors: Vec<f64> =
        members.iter().map(|rows| rows.iter().map(|&row| distances[row as usize]).sum()).collect();
    let mut moved = false;
    for cell in empty {
        let donor = first_largest(errors.iter().copied());
        let rows = members.members(donor as u32);
        if errors[donor] == 0.0 {
            break;
        }
        let row = rows[first_largest(rows.iter().map(|&row| distances[row as usize]))] as usize;
        cells.centroids[cell * width..][..width].copy_from_slice(&prefixes[row * width..][..width]);
        // The row is now at distance zero; the sum is recomputed because a difference would not be exactly zero.
        distances[row] = 0.0;
        errors[donor] = rows.iter().map(|&row| distances[row as usize]).sum();
        moved = true;
    }
    moved
}

fn first_largest(values: impl Iterator<Item = f64>) -> usize {
    values
        .enumerate()
        .fold((0, f64::NEG_INFINITY), |best, now| if now.1 > best.1 { now } else { best })
        .0
}
