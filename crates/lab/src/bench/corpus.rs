//! Vectors to measure with: read, or made.
//!
//! The synthetic corpus has what matters about real embeddings: a mean far from zero, a spectrum
//! that falls as a power, clusters, unit length. With `lambda_j = j^-0.45`, scaled to `|lambda| = 1`,
//!
//! ```text
//! centre_k = lambda g ,           k = 1 .. 400, drawn with Dirichlet(2) weights
//! y_i = centre_k(i) + 0.55 lambda g ,   query: y_i + 0.45 lambda g
//! x = H (y + o) / |y + o| ,       |o| = 1.6,  H Haar,
//! ```
//!
//! every `g` a fresh vector of standard normals, products coordinate by coordinate.

use std::path::Path;

use anyhow::{Result, bail};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use shard_geometry::gaussian::Normals;
use shard_geometry::{OrthogonalKey, VectorSet};

use super::arguments::CorpusArguments;
use shard::input::{read_queries, read_vectors, write_npy};

const COMPONENTS: usize = 400;
const DECAY: f64 = 0.45;
const WITHIN: f64 = 0.55;
const QUERY_NOISE: f64 = 0.45;
const MEAN_NORM: f64 = 1.6;
const QUERIES: usize = 64;

/// Documents and queries of one width.
pub struct Corpus {
    pub documents: VectorSet,
    pub queries: VectorSet,
}

impl Corpus {
    /// What the flags ask for.
    pub fn of(arguments: &CorpusArguments) -> Result<Self> {
        let (Some(docs), Some(queries)) = (&arguments.docs, &arguments.queries) else {
            return Self::synthetic(arguments.rows, arguments.dim, arguments.seed);
        };
        Self::read(docs, queries)
    }

    /// Vectors of files.
    pub fn read(docs: &Path, queries: &Path) -> Result<Self> {
        let (_, documents) = read_vectors(docs, None)?.into_parts();
        let (_, queries) = read_queries(queries, None)?.into_parts();
        let (wide, narrow) = (documents.width(), queries.width());
        if wide != narrow {
            bail!("documents have {wide} coordinates and queries {narrow}");
        }
        Ok(Self { documents, queries })
    }

    /// A corpus with the geometry of the module's head.
    pub fn synthetic(rows: usize, width: usize, seed: u64) -> Result<Self> {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut lambda: Vec<f64> = (1..=width).map(|j| (j as f64).powf(-DECAY)).collect();
        scale_to(&mut lambda, 1.0);
        let centres: Vec<Vec<f64>> = (0..COMPONENTS).map(|_| spread(&lambda, &mut rng)).collect();
        let weights = cumulative_weights(&mut rng);
        let moved = |from: &[f64], by: f64, rng: &mut StdRng| -> Vec<f64> {
            from.iter().zip(spread(&lambda, rng)).map(|(y, g)| y + by * g).collect()
        };
        let documents: Vec<Vec<f64>> = (0..rows)
            .map(|_| {
                let wanted = uniform(&mut rng) * weights[COMPONENTS - 1];
                let component = weights.partition_point(|&weight| weight < wanted);
                moved(&centres[component], WITHIN, &mut rng)
            })
            .collect();
        let queries: Vec<Vec<f64>> = (0..QUERIES)
            .map(|_| {
                let source = (uniform(&mut rng) * rows as f64) as usize;
                moved(&documents[source], QUERY_NOISE, &mut rng)
            })
            .collect();
        let mut offset = vec![0.0; width];
        Normals::new(&mut rng).fill(&mut offset);
        scale_to(&mut offset, MEAN_NORM);
        let basis = OrthogonalKey::sample(width, &mut rng);
        let finish = |rows: Vec<Vec<f64>>| {
            let mut values: Vec<f64> =
                rows.iter().flat_map(|row| row.iter().zip(&offset).map(|(y, o)| y + o)).collect();
            basis.apply_many(&mut values);
            values.chunks_exact_mut(width).for_each(|row| scale_to(row, 1.0));
            VectorSet::new(width, values.iter().map(|&x| x as f32).collect())
        };
        Ok(Self { documents: finish(documents)?, queries: finish(queries)? })
    }

    /// Leaves `docs.npy` and `queries.npy` in a directory.
    pub fn write(&self, directory: &Path) -> Result<()> {
        write_npy(&directory.join("docs.npy"), &self.documents)?;
        Ok(write_npy(&directory.join("queries.npy"), &self.queries)?)
    }
}

/// `lambda g`.
fn spread(lambda: &[f64], rng: &mut StdRng) -> Vec<f64> {
    let mut normals = Normals::new(rng);
    lambda.iter().map(|l| l * normals.draw()).collect()
}

/// Running sums of Gamma(2) variables, which are Dirichlet(2) weights but for their sum.
fn cumulative_weights(rng: &mut StdRng) -> Vec<f64> {
    let mut sum = 0.0;
    let mut next = || {
        sum -= (1.0 - uniform(rng)).ln() + (1.0 - uniform(rng)).ln();
        sum
    };
    (0..COMPONENTS).map(|_| next()).collect()
}

/// Uniform in `[0, 1)`.
fn uniform(rng: &mut StdRng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn scale_to(vector: &mut [f64], norm: f64) {
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    vector.iter_mut().for_each(|x| *x *= norm / length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use shard_geometry::Pca;

    #[test]
    fn synthetic_vectors_are_unit_anisotropic_and_off_centre() {
        let corpus = Corpus::synthetic(800, 32, 1).unwrap();
        assert!(corpus.documents.norms().iter().all(|norm| (norm - 1.0).abs() < 1e-6));
        let pca = Pca::fit(&corpus.documents).unwrap();
        let mean: f64 = pca.mean().iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!((0.5..0.9).contains(&mean), "{mean}");
        let variances = pca.variances();
        assert!(variances[0] > 4.0 * variances[16], "{variances:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_corpus_and_another_seed_another() {
        let first = |seed| Corpus::synthetic(20, 8, seed).unwrap().queries.into_values();
        assert_eq!(first(3), first(3));
        assert_ne!(first(3), first(4));
    }
}
