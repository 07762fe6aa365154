//! The subject of an audit: the owner's data, from which attackers are granted some and by which
//! guesses are judged, and what the server has of it.

use std::ops::Range;

use anyhow::Context;
use rand_core::Rng;
use rayon::prelude::*;
use shard_geometry::{Cells, OrthogonalKey, Pca, StructuredKey, Transform, VectorSet};

use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, sample};
use crate::view::{Release, ServerView};

/// A judged collection, as tables are made from.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// The collection: `scifact`.
    pub name: String,
    /// What made the vectors: `minilm`.
    pub encoder: String,
    /// Names of documents, in row order.
    pub ids: Vec<String>,
    /// Their texts, in row order, if there are any.
    pub texts: Option<Vec<String>>,
    /// Their vectors.
    pub vectors: VectorSet,
    /// Names of queries, in row order.
    pub query_ids: Vec<String>,
    /// Vectors of queries.
    pub queries: VectorSet,
    /// Judgements.
    pub qrels: crate::quality::Qrels,
}

/// A release that Shard did not make: nothing is known of how rows come from vectors.
#[derive(Clone, Debug)]
pub struct Given {
    /// Rows of the newest release, not centred, in their own coordinates.
    pub rows: Matrix,
    /// `V^T (x - mu)` of every vector, with all coordinates.
    pub coordinates: Matrix,
    /// Whether it was said which rows share a key.
    pub labelled: bool,
}

/// Axes that an attacker fits, to all documents there are, also where some are attacked: fewer would
/// give axes farther off, and a weaker attacker than there is.
#[derive(Clone)]
pub struct FittedAxes {
    /// Those of two thirds of the documents.
    pub reference: Pca,
    /// Those of the other third.
    pub auxiliary: Pca,
    /// Whether each document of the subject is among the two thirds.
    pub in_reference: Vec<bool>,
}

impl FittedAxes {
    /// Divides all documents, of which the subject has those named.
    ///
    /// # Errors
    /// When there are too few documents, or a decomposition does not converge.
    pub fn fit(all: &VectorSet, subject: &[usize], seed: u64) -> anyhow::Result<Self> {
        let order = sample(all.rows(), all.rows(), &mut generator(seed, AXES));
        let (kept, held_out) = order.split_at(all.rows() * 2 / 3);
        let fit = |rows: &[usize]| -> anyhow::Result<Pca> {
            let values = rows.iter().flat_map(|&row| all.row(row)).copied().collect();
            Ok(Pca::fit(&VectorSet::new(all.width(), values)?)?)
        };
        let mut kept_of_all = vec![false; all.rows()];
        kept.iter().for_each(|&row| kept_of_all[row] = true);
        Ok(Self {
            reference: fit(kept)?,
            auxiliary: fit(held_out)?,
            in_reference: subject.iter().map(|&row| kept_of_all[row]).collect(),
        })
    }
}

impl std::fmt::Debug for FittedAxes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FittedAxes({} wide)", self.reference.width())
    }
}

/// The purpose of the division's randomness.
const AXES: u64 = 0x6178_6573_0001;

/// A protected collection under audit.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The owner's vectors.
    pub vectors: Matrix,
    /// `V^T (x - mu)` of each, by falling variance.
    pub coordinates: Matrix,
    /// What Shard did not make, as it was given.
    pub given: Option<Given>,
    /// The axes of attackers who have to fit their own; none where they would change nothing.
    pub axes: Option<FittedAxes>,
    /// Coordinates of the prefix.
    pub prefix_width: usize,
    /// The cell of each document.
    pub cells: Vec<u32>,
    /// Which keys rotate the residuals.
    pub keys: KeyFamily,
    /// Texts of the documents, if the owner gave them.
    pub texts: Option<Vec<String>>,
    /// Vectors of sample queries, if the owner gave some.
    pub queries: Option<Matrix>,
    /// What the server has.
    pub view: ServerView,
    /// Lengths of stored rows that are left out where only a sample is attacked.
    pub other_lengths: Vec<f64>,
    /// The document of each row of the newest release.
    pub documents: Vec<usize>,
    /// Whether each row of the newest release is a canary, for the judge; empty where none is known.
    pub canaries: Vec<bool>,
    /// The seed of all randomness of the audit.
    pub seed: u64,
}

impl Subject {
    /// The coordinates that are the residual.
    pub fn residual(&self) -> Range<usize> {
        self.prefix_width..self.coordinates.width()
    }

    /// The residuals of some documents.
    ///
    /// # Panics
    /// When the prefix takes all coordinates.
    pub fn residuals(&self, documents: &[usize]) -> Matrix {
        self.coordinates.part(documents, self.residual())
    }

    /// The prefixes of some documents.
    ///
    /// # Panics
    /// When the prefix takes no coordinate.
    pub fn prefixes(&self, documents: &[usize]) -> Matrix {
        self.coordinates.part(documents, 0..self.prefix_width)
    }

    /// The release under attack.
    ///
    /// # Panics
    /// When the server has none.
    pub fn release(&self) -> &Release {
        self.view.releases.last().expect("an audit has a release")
    }
}

/// `V^T (x - mu)` of all vectors.
pub fn coordinates(pca: &Pca, vectors: &VectorSet) -> Matrix {
    let mut out = Matrix::zeros(vectors.rows(), vectors.width());
    pca.project_rows(vectors.values(), out.values_mut());
    out
}

/// Divides prefixes into `count` cells by k-means.
///
/// # Errors
/// When there are fewer rows than cells.
pub fn cells_of(prefixes: &Matrix, count: usize, rng: &mut impl Rng) -> anyhow::Result<Vec<u32>> {
    let values: Vec<f32> = prefixes.values().iter().map(|&x| x as f32).collect();
    let (_, cells) = Cells::fit(&values, prefixes.width(), count, rng)
        .with_context(|| format!("{} documents in {count} cells", prefixes.rows()))?;
    Ok(cells)
}

/// A family of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyFamily {
    /// Haar, the paper's.
    Orthogonal,
    /// Signs, permutations and Hadamard rounds.
    Structured,
}

impl KeyFamily {
    /// A key.
    pub fn sample(self, width: usize, rng: &mut impl Rng) -> Transform {
        match self {
            Self::Orthogonal => Transform::Orthogonal(OrthogonalKey::sample(width, rng)),
            Self::Structured => Transform::Structured(StructuredKey::sample(width, rng)),
        }
    }
}

/// A release of residuals under fresh keys, `z_i = H_c(i) r_i`, in the order given. A cell number
/// of its own for every row is the micro-key limit.
///
/// # Panics
/// When there is not one cell for each row.
pub fn protect(
    residuals: &Matrix,
    cells: &[u32],
    family: KeyFamily,
    rng: &mut impl Rng,
) -> Release {
    assert_eq!(residuals.rows(), cells.len(), "a cell for each row");
    let mut release = Release { rows: residuals.clone(), cells: cells.to_vec(), prefixes: None };
    let members = release.members();
    let width = residuals.width();
    let keys: Vec<Option<Transform>> =
        members.iter().map(|rows| (!rows.is_empty()).then(|| family.sample(width, rng))).collect();
    release.rows.values_mut().par_chunks_exact_mut(width).zip(cells).for_each(|(row, &cell)| {
        keys[cell as usize].as_ref().expect("a cell with a row has a key").apply(row);
    });
    release
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_products_within_cells_and_only_there() {
        let mut rng = generator(5, 0);
        let values = (0..12 * 16).map(|_| rng.next_u32() as f64 / 2e9 - 1.0).collect();
        let residuals = Matrix::new(16, values);
        let cells: Vec<u32> = (0..12).map(|row| row % 3).collect();
        for family in [KeyFamily::Orthogonal, KeyFamily::Structured] {
            let release = protect(&residuals, &cells, family, &mut rng);
            let (before, after) = (
                residuals.times_transposed(&residuals),
                release.rows.times_transposed(&release.rows),
            );
            for i in 0..12 {
                for j in 0..12 {
                    let same = (before.row(i)[j] - after.row(i)[j]).abs() < 1e-9;
                    assert_eq!(same, i % 3 == j % 3, "{family:?} {i} {j}");
                }
            }
        }
    }
}
