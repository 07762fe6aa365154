//! Documents into a model: fitted to them, or placed in one that is there.
//!
//! Everything goes over blocks of rows. Of a document are kept its prefix, the length of its
//! residual, its cell and its energies; the residual itself is projected again where it is
//! published.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rayon::prelude::*;
use shard_geometry::{
    Cells, Pca, Projector, Split, Stopped, TuneRequest, VectorSet, Work, check_vector, tune,
};
use shard_rlwe::OperandScale;

use super::{Model, TuningRecord};
use crate::drift::Energy;
use crate::error::ClientError;
use crate::keys::SaltedEpoch;
use crate::progress::{Meter, Watch};
use crate::settings::Settings;

/// Fewest candidates that are chosen automatically: a corpus may grow after it was fitted.
const FEWEST_CANDIDATES: usize = 32;

/// Norm that vectors stay below: prefixes, lengths of residuals and estimates made of them then are
/// within single precision.
const LONGEST: f64 = (1_u128 << 124) as f64;

/// Picoseconds of one core to project a row, for each of the square of its width.
const PROJECT_TIME: u64 = 45;

/// Documents as a model sees them.
#[derive(Default)]
pub(crate) struct Placed {
    /// Coordinates of a prefix.
    pub(crate) prefix_width: usize,
    /// The prefixes, which route, row by row.
    pub(crate) prefixes: Vec<f32>,
    /// The norm of each residual, rounded up.
    pub(crate) residual_norms: Vec<f32>,
    /// The cell of each document; `None` when each has a key of its own.
    pub(crate) cells: Option<Vec<u32>>,
    /// Where the energy of each document is.
    pub(crate) energies: Vec<Energy>,
}

impl Placed {
    /// The prefix of a document.
    pub(crate) fn prefix(&self, at: usize) -> &[f32] {
        &self.prefixes[at * self.prefix_width..][..self.prefix_width]
    }
}

impl Model {
    /// Fits a model to documents, and places them in it. `queries`, where the owner has some, are
    /// what the automatic choices are made for. `watch` sees estimated time grow from nothing to
    /// the whole, and may end the work within a block.
    pub(crate) fn fit(
        settings: &Settings,
        epoch: SaltedEpoch,
        vectors: &VectorSet,
        queries: Option<&VectorSet>,
        watch: &Watch<'_>,
    ) -> Result<(Self, Placed), ClientError> {
        let (rows, width) = (vectors.rows(), vectors.width());
        settings.check_for(rows, width)?;
        let count = settings.cells.of(rows);
        let total = Self::fit_work(settings, rows, width, queries.map(VectorSet::rows));
        let meter = Meter::start(watch, total);
        let add = |amount| meter.add(amount);
        let work = Work::new(&add);
        let longest = checked_norm(vectors)?;

        let mut rng = ChaCha20Rng::seed_from_u64(settings.seed);
        let pca = Pca::fit_watched(vectors, work)?;
        let tuning = tune(vectors, &pca, queries, tune_request(settings), &mut rng, work)?;
        let split = Split::new(width, tuning.d_pub)?;
        let mut placed = place(&pca, &split, vectors, work)?;
        let cells = match count {
            Some(count) => {
                // The prefix may be narrower or wider than was supposed.
                let actual = Cells::work(rows, split.prefix(), count);
                let supposed = Cells::work(rows, supposed_prefix(settings, width), count);
                let add = |amount: u64| {
                    let part = u128::from(amount) * u128::from(supposed) / u128::from(actual);
                    meter.add(part as u64)
                };
                let (prefixes, work) = (&placed.prefixes, Work::new(&add));
                let (cells, assigned) =
                    Cells::fit_watched(prefixes, split.prefix(), count, &mut rng, work)?;
                placed.cells = Some(assigned);
                Some(cells)
            }
            None => None,
        };
        let longest_residual = placed.residual_norms.iter().copied().fold(0.0, f32::max);
        let model = Self {
            settings: settings.clone(),
            epoch,
            pca,
            split,
            cells,
            residual_weight: tuning.weight,
            // Residuals of the first documents may be short, or vanish, where those of later
            // ones do not; they are seldom longer than the vectors themselves.
            operand_scale: OperandScale::for_norm(longest.max(longest_residual.into())),
            candidates: tuning.candidates,
            tuning: TuningRecord::from(&tuning),
        };
        if meter.add(total).is_break() {
            return Err(ClientError::Cancelled);
        }
        Ok((model, placed))
    }

    /// How much work a fit is, in picoseconds of one core.
    pub(crate) fn fit_work(
        settings: &Settings,
        rows: usize,
        width: usize,
        queries: Option<usize>,
    ) -> u64 {
        let cells = settings.cells.of(rows);
        Pca::work(rows, width)
            + tune::work(rows, width, queries, &tune_request(settings))
            + rows as u64 * row_work(width)
            + cells.map_or(0, |count| Cells::work(rows, supposed_prefix(settings, width), count))
    }

    /// Places documents in the model, which need not be those it was fitted to.
    pub(crate) fn place(&self, vectors: &VectorSet) -> Result<Placed, ClientError> {
        check_vector(self.split.width(), vectors.row(0))?;
        checked_norm(vectors)?;
        let mut placed = place(&self.pca, &self.split, vectors, Work::unwatched())?;
        let longest = placed.residual_norms.iter().copied().fold(0.0, f32::max);
        // Rows are derived when they are published; that must not be the first to notice.
        self.operand_scale.check_norm(f64::from(longest) * (1.0 + f64::from(f32::EPSILON)))?;
        placed.cells = self.cells.as_ref().map(|cells| cells.assign(&placed.prefixes));
        Ok(placed)
    }

    /// The residuals of some documents, row by row, in the coordinates that are rotated.
    pub(crate) fn residuals(&self, vectors: &VectorSet) -> Result<Vec<f32>, ClientError> {
        check_vector(self.split.width(), vectors.row(0))?;
        checked_norm(vectors)?;
        let (width, residual) = (self.split.width(), self.split.residual());
        let mut residuals = vec![0.0; vectors.rows() * residual];
        residuals
            .par_chunks_mut(Projector::ROWS * residual)
            .zip(vectors.values().par_chunks(Projector::ROWS * width))
            .for_each_init(
                || Projector::new(&self.pca),
                |projector, (residuals, rows)| {
                    let projected = projector.project(rows).chunks_exact(width);
                    for (out, coordinates) in residuals.chunks_exact_mut(residual).zip(projected) {
                        let own = self.split.halves(coordinates).1;
                        out.iter_mut().zip(own).for_each(|(out, &r)| *out = r as f32);
                    }
                },
            );
        Ok(residuals)
    }
}

/// Everything of documents but their cells.
fn place(pca: &Pca, split: &Split, vectors: &VectorSet, work: Work<'_>) -> Result<Placed, Stopped> {
    let (rows, width, prefix) = (vectors.rows(), vectors.width(), split.prefix());
    let known = Energy::known_directions(pca);
    let mut placed = Placed {
        prefix_width: prefix,
        prefixes: vec![0.0; rows * prefix],
        residual_norms: vec![0.0; rows],
        cells: None,
        energies: vec![Energy::default(); rows],
    };
    let kept = placed
        .prefixes
        .par_chunks_mut(Projector::ROWS * prefix)
        .zip(placed.residual_norms.par_chunks_mut(Projector::ROWS))
        .zip(placed.energies.par_chunks_mut(Projector::ROWS));
    kept.zip(vectors.values().par_chunks(Projector::ROWS * width)).try_for_each_init(
        || Projector::new(pca),
        |projector, (((prefixes, norms), energies), rows)| {
            let projected = projector.project(rows).chunks_exact(width);
            let kept = prefixes.chunks_exact_mut(prefix).zip(norms).zip(energies);
            for (coordinates, ((out, norm), energy)) in projected.zip(kept) {
                let (own, residual) = split.halves(coordinates);
                out.iter_mut().zip(own).for_each(|(out, &u)| *out = u as f32);
                *norm = rounded_up(residual.iter().map(|r| r * r).sum::<f64>().sqrt());
                *energy = Energy::of(coordinates, prefix, known);
            }
            work.done((rows.len() / width) as u64 * row_work(width))
        },
    )?;
    Ok(placed)
}

/// A norm in single precision, and not smaller.
fn rounded_up(norm: f64) -> f32 {
    let rounded = norm as f32;
    if f64::from(rounded) < norm { rounded.next_up() } else { rounded }
}

/// The norm of the longest vector, if all are short enough.
fn checked_norm(vectors: &VectorSet) -> Result<f64, ClientError> {
    let norm = vectors.max_norm();
    if norm < LONGEST { Ok(norm) } else { Err(ClientError::TooLong { norm }) }
}

fn row_work(width: usize) -> u64 {
    PROJECT_TIME * (width * width) as u64
}

fn tune_request(settings: &Settings) -> TuneRequest {
    TuneRequest {
        d_pub: settings.d_pub.fixed(),
        candidates: settings.candidates.fixed(),
        fewest: FEWEST_CANDIDATES,
        most: settings.cells.most_candidates(),
    }
}

/// A prefix width for the estimate of the work, before one is chosen.
fn supposed_prefix(settings: &Settings, width: usize) -> usize {
    settings.d_pub.fixed().unwrap_or(width / 2).max(1)
}

#[cfg(test)]
mod tests;
