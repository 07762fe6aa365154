//! A collection under a baseline: what the server stores, what the client keeps, and searches.

use anyhow::{Context, Result};
use shard_geometry::gaussian::Normals;
use shard_geometry::{OrthogonalKey, Pca, ProductQuantizer, QuantizedRows, VectorSet};

use super::asymmetric::{self, AsymmetricKey};
use super::baseline::Baseline;
use super::encrypted::Operands;
use super::gaussian;
use crate::subject::coordinates;
use crate::tools::matrix::Matrix;
use crate::tools::statistics::generator;
use crate::view::Release;

/// Candidates that `global` scores, as in the paper.
pub const CANDIDATES: usize = 40;

/// Coordinates that one code of `global` stands for: `M = k/4`.
const GLOBAL_PART: usize = 4;

/// Coordinates that one code of `pq-only` stands for.
const PQ_ONLY_PART: usize = 8;

/// Bits of a code where there are rows enough to train them.
const CODE_BITS: u32 = 8;

/// Rows that are projected together.
const BLOCK_ROWS: usize = 1024;

/// Streams of random words, by use.
const ROTATION: u64 = 1;
const CODEBOOKS: u64 = 2;
const PROJECTION: u64 = 3;

/// Public codes of stored rows.
#[derive(Clone, Debug)]
pub struct Codes {
    /// The codebooks.
    pub quantizer: ProductQuantizer,
    /// The codes, in row order.
    pub rows: QuantizedRows,
}

impl Codes {
    /// Codes of these rows, for parts of `part` coordinates, of as many bits as there are rows to
    /// train, at most [`CODE_BITS`].
    fn train(rows: &VectorSet, part: usize, seed: u64) -> Result<Self> {
        let bits = CODE_BITS.min(rows.rows().ilog2());
        let quantizer = ProductQuantizer::train(
            rows,
            (rows.width() / part).max(1),
            bits,
            &mut generator(seed, CODEBOOKS),
        )
        .context("training the codebooks")?;
        let rows = quantizer.encode(rows)?;
        Ok(Self { quantizer, rows })
    }

    /// The rows that the codes stand for: all that codes and codebooks tell.
    pub fn decode(&self) -> Matrix {
        let rows = self.quantizer.decode(&self.rows).expect("codes of these codebooks");
        Matrix::from_vectors(&rows)
    }
}

/// What the server stores, in row order.
#[derive(Clone, Debug)]
pub enum Stored {
    /// Rows in the clear.
    Rows(VectorSet),
    /// Rows in fixed point for encrypted scoring, and their public codes.
    Scored {
        /// `v'`.
        operands: Operands,
        /// Of `v'`.
        codes: Codes,
    },
    /// Codes alone.
    Codes(Codes),
}

/// What the client keeps.
enum Kept {
    Nothing,
    /// The first `key.width()` principal coordinates, rotated.
    Rotation {
        pca: Pca,
        key: OrthogonalKey,
    },
    /// The rows of a projection.
    Projection(Matrix),
    /// All principal coordinates, under a key that is not orthogonal.
    Asymmetric {
        pca: Pca,
        key: AsymmetricKey,
    },
}

/// A protected collection.
pub struct Protected {
    baseline: Baseline,
    stored: Stored,
    kept: Kept,
}

/// Keys print as nothing.
impl std::fmt::Debug for Protected {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Protected({})", self.baseline)
    }
}

impl Baseline {
    /// Protects vectors. The same seed gives the same keys, codebooks and noise.
    ///
    /// `global` keeps `k = d/2` coordinates, rounded down to whole parts of four.
    ///
    /// # Errors
    /// When there are too few rows for codebooks (16), or the budget is not positive.
    pub fn protect(&self, vectors: &VectorSet, seed: u64) -> Result<Protected> {
        let width = vectors.width();
        let half = (width / 2).max(1);
        let (stored, kept) = match *self {
            Self::Raw => (Stored::Rows(vectors.clone()), Kept::Nothing),
            Self::Gaussian { epsilon } => {
                let sigma = gaussian::calibrate(epsilon, gaussian::DELTA, gaussian::SENSITIVITY)?;
                (Stored::Rows(gaussian::release(vectors, sigma, seed)), Kept::Nothing)
            }
            Self::Global => {
                let (pca, key, rows) = rotate(vectors, whole_parts(half, GLOBAL_PART), seed)?;
                let codes = Codes::train(&rows, GLOBAL_PART.min(rows.width()), seed)?;
                let stored = Stored::Scored { operands: Operands::quantise(&rows)?, codes };
                (stored, Kept::Rotation { pca, key })
            }
            Self::PqOnly => {
                let (pca, key, rows) = rotate(vectors, whole_parts(width, PQ_ONLY_PART), seed)?;
                let codes = Codes::train(&rows, PQ_ONLY_PART.min(rows.width()), seed)?;
                (Stored::Codes(codes), Kept::Rotation { pca, key })
            }
            Self::GaussianProjection => {
                let mut rng = generator(seed, PROJECTION);
                let mut normals = Normals::new(&mut rng);
                let scale = (1.0 / half as f64).sqrt();
                let entries = (0..half * width).map(|_| scale * normals.draw()).collect();
                project(vectors, Matrix::new(width, entries))
            }
            Self::OrthogonalProjection => {
                let key = OrthogonalKey::sample(width, &mut generator(seed, PROJECTION));
                let mut entries = key.dense();
                entries.truncate(half * width);
                project(vectors, Matrix::new(width, entries))
            }
            Self::Asymmetric => {
                let pca = Pca::fit(vectors)?;
                let mut rng = generator(seed, PROJECTION);
                let key = AsymmetricKey::sample(width, asymmetric::CONDITION, &mut rng);
                let mut rows = coordinates(&pca, vectors);
                (0..rows.rows()).for_each(|row| key.apply(rows.row_mut(row)));
                let rows = rows.values().iter().map(|&x| x as f32).collect();
                (Stored::Rows(VectorSet::new(width, rows)?), Kept::Asymmetric { pca, key })
            }
        };
        Ok(Protected { baseline: *self, stored, kept })
    }
}

/// The largest width up to `width` that is cut into whole parts; one smaller part if there is none.
fn whole_parts(width: usize, part: usize) -> usize {
    if width < part { width } else { width - width % part }
}

/// `R V_k^T (x - mu)` of every row.
pub(super) fn rotate(
    vectors: &VectorSet,
    kept: usize,
    seed: u64,
) -> Result<(Pca, OrthogonalKey, VectorSet)> {
    let pca = Pca::fit(vectors)?;
    let key = OrthogonalKey::sample(kept, &mut generator(seed, ROTATION));
    let width = vectors.width();
    let blocks = vectors.values().chunks(BLOCK_ROWS * width);
    let values: Vec<f32> = blocks
        .flat_map(|rows| {
            let mut coordinates = vec![0.0; rows.len()];
            pca.project_rows(rows, &mut coordinates);
            let first = coordinates.chunks_exact(width).flat_map(|row| &row[..kept]);
            let mut first: Vec<f64> = first.copied().collect();
            key.apply_many(&mut first);
            first.into_iter().map(|x| x as f32)
        })
        .collect();
    Ok((pca, key, VectorSet::new(kept, values)?))
}

fn project(vectors: &VectorSet, projection: Matrix) -> (Stored, Kept) {
    let rows = Matrix::from_vectors(vectors).times_transposed(&projection);
    let values = rows.values().iter().map(|&x| x as f32).collect();
    let rows = VectorSet::new(projection.rows(), values).expect("projected rows are finite");
    (Stored::Rows(rows), Kept::Projection(projection))
}

impl Protected {
    /// Which baseline it is.
    pub fn baseline(&self) -> Baseline {
        self.baseline
    }

    /// What the server stores.
    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        match &self.stored {
            Stored::Rows(rows) => rows.rows(),
            Stored::Scored { codes, .. } | Stored::Codes(codes) => codes.rows.rows(),
        }
    }

    /// What the server would have, for an attack: one key for all, in row order. Codes alone are the
    /// rows that they stand for.
    pub fn release(&self) -> Release {
        let rows = match &self.stored {
            Stored::Rows(rows) => Matrix::from_vectors(rows),
            Stored::Scored { operands, .. } => {
                let values = operands.iter().flatten().map(|&z| f64::from(z) * operands.unit());
                Matrix::new(operands.width(), values.collect())
            }
            Stored::Codes(codes) => codes.decode(),
        };
        Release { cells: vec![0; rows.rows()], rows, prefixes: None }
    }
}

mod search;
pub use search::{Run, evaluate_baseline};

#[cfg(test)]
mod tests;
