//! Queries to measure by.

use rand_core::Rng;

use crate::gaussian::Normals;
use crate::kernel;
use crate::pca::Pca;
use crate::random::sample;
use crate::vectors::VectorSet;

/// The size of the noise that turns a row into a query, in units of the spread of the corpus.
pub const NOISE: f64 = 2.5;

/// The most queries a sample has.
pub const SAMPLE: usize = 500;

/// A query of the sample.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleQuery {
    /// Its vector.
    pub vector: Vec<f32>,
    /// The row it must not find: itself.
    pub own_row: Option<u32>,
}

/// Some of the caller's queries.
pub(super) fn given_queries(queries: &VectorSet, rng: &mut impl Rng) -> Vec<SampleQuery> {
    let chosen = sample(queries.rows(), SAMPLE, rng);
    chosen
        .into_iter()
        .map(|row| SampleQuery { vector: queries.row(row).to_vec(), own_row: None })
        .collect()
}

/// Some rows, turned into queries.
pub(super) fn noisy_rows(vectors: &VectorSet, pca: &Pca, rng: &mut impl Rng) -> Vec<SampleQuery> {
    let chosen = sample(vectors.rows(), SAMPLE, rng);
    let mut normals = Normals::new(rng);
    chosen.into_iter().map(|row| with_noise(vectors, pca, row, &mut normals)).collect()
}

/// A row of the corpus, turned into a query by noise as the [module](super) says.
///
/// # Panics
/// If there is no such row.
pub fn noisy_row(vectors: &VectorSet, pca: &Pca, row: usize, rng: &mut impl Rng) -> SampleQuery {
    with_noise(vectors, pca, row, &mut Normals::new(rng))
}

fn with_noise(
    vectors: &VectorSet,
    pca: &Pca,
    row: usize,
    normals: &mut Normals<'_, impl Rng>,
) -> SampleQuery {
    let x = vectors.row(row);
    let length = kernel::dot_f32(x, x).sqrt();
    let size = NOISE * spread(pca) * length / (x.len() as f64).sqrt();
    let noisy: Vec<f64> = x.iter().map(|&x| f64::from(x) + size * normals.draw()).collect();
    let scale = length / kernel::dot(&noisy, &noisy).sqrt();
    // A row of zeros stays zero: its scale is not a number.
    let scale = if scale.is_finite() { scale } else { 0.0 };
    let vector = noisy.iter().map(|value| (value * scale) as f32).collect();
    SampleQuery { vector, own_row: Some(row as u32) }
}

/// The spread of the corpus in units of the length of its rows: `sum_i |x_i - mu|^2 / sum_i |x_i|^2`, the root of it.
fn spread(pca: &Pca) -> f64 {
    let around: f64 = pca.variances().iter().sum();
    let whole = around + kernel::dot(pca.mean(), pca.mean());
    if whole > 0.0 { (around / whole).sqrt() } else { 0.0 }
}
