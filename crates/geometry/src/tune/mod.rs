//! The prefix width and the shortlist length, from a held-out sample.
//!
//! A shortlist serves if it holds the rows exact search would have returned. [`tune()`] measures, for a ladder of prefix
//! widths, how long the shortlist must be to hold 99.5 % of the true ten nearest rows of a sample of queries, and
//! takes the smallest width whose shortlist is short enough.
//!
//! # Queries from documents
//! Real queries are the best sample, and are used when the caller has some. Usually there are only documents, and
//! documents are too easy: they lie among their neighbours, while a query (a few words, a claim) lies off them, with
//! less of its energy in the leading directions. So a row is turned into a query by adding isotropic noise of
//! [`NOISE`] times the spread of the corpus, at the length of the row:
//!
//! `q = |x| y / |y|` with `y = x + 2 s g / sqrt(d)`, `s^2 = (1/N) sum_i |x_i - mu|^2`, `g` standard normal.
//!
//! The row itself is left out of both rankings. The noise was chosen by measurement: the shortlist needed by 500
//! sample rows, bare and with noise, beside that needed by the real queries of six judged sets and one large one:
//!
//! | set | width | real queries | bare rows | noise 1 | noise 1.5 | **noise 2** |
//! |---|---|---|---|---|---|---|
//! | SciFact, MiniLM | d/4 | 100 | 47 | 95 | 136 | 226 |
//! | NFCorpus, MiniLM | d/4 | 145 | 33 | 50 | 81 | 123 |
//! | Cranfield, MiniLM | d/4 | 26 | 22 | 30 | 41 | 59 |
//! | SciFact, WordLlama | d/2 | 55 | 31 | 55 | 94 | 129 |
//! | NFCorpus, WordLlama | d/2 | 83 | 29 | 51 | 74 | 112 |
//! | Cranfield, WordLlama | d/2 | 23 | 19 | 27 | 40 | 47 |
//! | Wikipedia, 100,000 rows, MiniLM | d/2 | 45 | 27 | 55 | 127 | 275 |
//!
//! (One sample each, of 300 for Wikipedia; another sample moves a figure by up to a quarter.) Bare rows ask for as little as a quarter of what
//! queries need, and noise of 1 or 1.5 still asks for too little on NFCorpus, whose queries are often single terms.
//! Noise of 2 covers every set or comes near it, and elsewhere errs on the side of a wider prefix and a longer
//! shortlist. Also measured on NFCorpus, MiniLM, d/4: midpoints of two rows ask for 35 candidates, a row plus half the
//! difference of two others for 36, noise with the covariance of the corpus at 3 times its spread for 69. Noise whose
//! spectrum is the square root of that covariance did as well at 3 times (138) as isotropic noise at 2, which is simpler.
//!
//! What [`tune()`] then chooses from documents alone, and what real queries get from it, on the sets that the noise was
//! chosen on:
//!
//! | set | d_pub | candidates | true top ten of real queries held | nDCG@10 against raw |
//! |---|---|---|---|---|
//! | SciFact, MiniLM | 120 of 384 | 126 | 0.9997 | 0.0000 |
//! | NFCorpus, MiniLM | 96 of 384 | 114 | 0.9929 | -0.0001 |
//! | Cranfield, MiniLM | 48 of 384 | 167 | 1.0000 | 0.0000 |
//! | SciFact, WordLlama | 112 of 256 | 190 | 0.9993 | 0.0000 |
//! | NFCorpus, WordLlama | 112 of 256 | 156 | 0.9960 | 0.0000 |
//! | Cranfield, WordLlama | 64 of 256 | 186 | 1.0000 | 0.0000 |
//!
//! A large corpus needs more: on the 100,000 rows of Wikipedia the choice is 240 of 384 where real queries would do
//! with 168. For such a corpus, tune with a sample of real queries.

mod measure;

use rand_core::Rng;
use thiserror::Error;

use crate::gaussian::Normals;
use crate::kernel;
use crate::pca::Pca;
use crate::projected::Projected;
use crate::random::sample;
use crate::vectors::VectorSet;

/// The fraction of true neighbours a shortlist must hold.
pub const HELD: f64 = 0.995;

/// The largest shortlist the choice of a width accepts, unless one is asked for.
pub const DEFAULT_CAP: usize = 200;

/// How many nearest rows count as true neighbours.
pub const NEIGHBOURS: usize = 10;

/// The size of the noise that turns a row into a query, in units of the spread of the corpus.
pub const NOISE: f64 = 2.0;

/// The most queries a sample has.
pub const SAMPLE: usize = 500;

/// Prefix widths that are tried, in sixteenths of the full width.
const LADDER: [usize; 9] = [2, 3, 4, 5, 6, 7, 8, 10, 12];

/// A choice that cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TuneError {
    /// Vectors of width one cannot be split.
    #[error("vectors of width {width} cannot be split into a prefix and a residual")]
    TooNarrow {
        /// The width of the vectors.
        width: usize,
    },
    /// The model, the coordinates or the queries are of another width than the vectors.
    #[error("the {part} has width {actual}, expected {expected}")]
    WrongWidth {
        /// `model`, `coordinates` or `queries`.
        part: &'static str,
        /// The width of the vectors.
        expected: usize,
        /// The width found.
        actual: usize,
    },
    /// The prefix width asked for leaves an empty half.
    #[error("the prefix width {d_pub} is not between 1 and {}", width - 1)]
    BadPrefix {
        /// The prefix width asked for.
        d_pub: usize,
        /// The width of the vectors.
        width: usize,
    },
    /// The coordinates are of another number of rows than the vectors.
    #[error("there are coordinates of {coordinates} rows and {vectors} vectors")]
    WrongRows {
        /// The number of vectors.
        vectors: usize,
        /// The number of rows that have coordinates.
        coordinates: usize,
    },
    /// A shortlist of zero rows was asked for.
    #[error("the shortlist length is 0")]
    NoCandidates,
}

/// What the caller has already decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TuneRequest {
    /// The prefix width, if it is not to be chosen.
    pub d_pub: Option<usize>,
    /// The shortlist length, if it is not to be chosen.
    pub candidates: Option<usize>,
}

/// Where the queries of a sample came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleSource {
    /// The caller's queries.
    Queries,
    /// Rows of the corpus with noise.
    NoisyRows,
}

/// What was measured at one width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WidthMeasurement {
    /// The prefix width.
    pub d_pub: usize,
    /// The shortest shortlist that holds [`HELD`] of the true neighbours.
    pub candidates_needed: usize,
    /// The fraction of true neighbours that a shortlist of `cap` rows holds.
    pub held_at_cap: f64,
}

/// The choice and the measurements behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// The prefix width.
    pub d_pub: usize,
    /// The shortlist length.
    pub candidates: usize,
    /// The fraction of true neighbours inside that shortlist at that width.
    pub held: f64,
    /// The number of queries in the sample.
    pub sample: usize,
    /// Where they came from.
    pub source: SampleSource,
    /// The largest shortlist the choice of the width accepted.
    pub cap: usize,
    /// Every width tried, ascending.
    pub measured: Vec<WidthMeasurement>,
}

/// Chooses what the request leaves open. `projected` are the coordinates of the vectors under `pca`.
///
/// The width is the smallest of `d/8, 3d/16, d/4, 5d/16, 3d/8, 7d/16, d/2, 5d/8, 3d/4` whose shortlist need not be
/// longer than the cap: the candidates asked for, or [`DEFAULT_CAP`]. If none is, the one that needs the shortest. The
/// number of candidates is then the one asked for, or the smallest that holds [`HELD`] of the neighbours at that width.
///
/// The work is `O(sample * N * d)` in blocks; nothing of size `N x N` or `sample x N` is held. A corpus of few rows
/// works: with a single one there is nothing to find, and every shortlist holds all of it.
///
/// # Errors
/// Any [`TuneError`].
pub fn tune(
    vectors: &VectorSet,
    pca: &Pca,
    projected: &Projected,
    queries: Option<&VectorSet>,
    request: TuneRequest,
    rng: &mut impl Rng,
) -> Result<Tuning, TuneError> {
    let width = vectors.width();
    if width < 2 {
        return Err(TuneError::TooNarrow { width });
    }
    for (part, actual) in [
        ("model", Some(pca.width())),
        ("coordinates", Some(projected.width())),
        ("queries", queries.map(VectorSet::width)),
    ] {
        if let Some(actual) = actual.filter(|&actual| actual != width) {
            return Err(TuneError::WrongWidth { part, expected: width, actual });
        }
    }
    let (rows, coordinates) = (vectors.rows(), projected.rows());
    if rows != coordinates {
        return Err(TuneError::WrongRows { vectors: rows, coordinates });
    }
    if let Some(d_pub) = request.d_pub.filter(|d_pub| !(1..width).contains(d_pub)) {
        return Err(TuneError::BadPrefix { d_pub, width });
    }
    if request.candidates == Some(0) {
        return Err(TuneError::NoCandidates);
    }

    let widths = request.d_pub.map_or_else(|| ladder(width), |d_pub| vec![d_pub]);
    let (source, sample) = match queries {
        Some(queries) => (SampleSource::Queries, given_queries(queries, rng)),
        None => (SampleSource::NoisyRows, noisy_rows(vectors, pca, rng)),
    };
    let ranks = measure::neighbour_ranks(vectors, pca, projected, &sample, &widths);

    let cap = request.candidates.unwrap_or(DEFAULT_CAP);
    let measured: Vec<WidthMeasurement> = widths
        .iter()
        .zip(&ranks)
        .map(|(&d_pub, ranks)| WidthMeasurement {
            d_pub,
            candidates_needed: needed(ranks),
            held_at_cap: held(ranks, cap),
        })
        .collect();
    let fits = measured.iter().position(|width| width.candidates_needed <= cap);
    let least = || (0..measured.len()).min_by_key(|&at| measured[at].candidates_needed);
    let at = fits.or_else(least).expect("at least one width is tried");
    let candidates = request.candidates.unwrap_or(measured[at].candidates_needed);
    Ok(Tuning {
        d_pub: measured[at].d_pub,
        candidates,
        held: held(&ranks[at], candidates),
        sample: sample.len(),
        source,
        cap,
        measured,
    })
}

/// A query of the sample.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleQuery {
    /// Its vector.
    pub vector: Vec<f32>,
    /// The row it must not find: itself.
    pub own_row: Option<u32>,
}

fn ladder(width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = LADDER
        .iter()
        .map(|&sixteenths| ((width * sixteenths + 8) / 16).clamp(1, width - 1))
        .collect();
    widths.dedup();
    widths
}

fn given_queries(queries: &VectorSet, rng: &mut impl Rng) -> Vec<SampleQuery> {
    let chosen = sample(queries.rows(), SAMPLE, rng);
    chosen
        .into_iter()
        .map(|row| SampleQuery { vector: queries.row(row).to_vec(), own_row: None })
        .collect()
}

fn noisy_rows(vectors: &VectorSet, pca: &Pca, rng: &mut impl Rng) -> Vec<SampleQuery> {
    let chosen = sample(vectors.rows(), SAMPLE, rng);
    let mut normals = Normals::new(rng);
    chosen.into_iter().map(|row| with_noise(vectors, pca, row, &mut normals)).collect()
}

/// A row of the corpus, turned into a query by noise as the [module](self) says.
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
    // The variances add up to the mean squared distance from the mean.
    let spread = pca.variances().iter().sum::<f64>().sqrt();
    let size = NOISE * spread / (vectors.width() as f64).sqrt();
    let x = vectors.row(row);
    let noisy: Vec<f64> = x.iter().map(|&x| f64::from(x) + size * normals.draw()).collect();
    let scale = (kernel::dot_f32(x, x) / kernel::dot(&noisy, &noisy)).sqrt();
    // A row of zeros stays zero: the scale is zero, or not a number when there is no noise either.
    let scale = if scale.is_finite() { scale } else { 0.0 };
    let vector = noisy.iter().map(|value| (value * scale) as f32).collect();
    SampleQuery { vector, own_row: Some(row as u32) }
}

/// The shortest shortlist that holds [`HELD`] of the neighbours, whose ranks (counted from zero) ascend.
fn needed(ranks: &[u32]) -> usize {
    let inside = (HELD * ranks.len() as f64).ceil() as usize;
    // No neighbours, as in a corpus of one row: the shortest shortlist there is.
    inside.checked_sub(1).map_or(1, |last| ranks[last] as usize + 1)
}

fn held(ranks: &[u32], candidates: usize) -> f64 {
    if ranks.is_empty() {
        return 1.0;
    }
    ranks.partition_point(|&rank| (rank as usize) < candidates) as f64 / ranks.len() as f64
}

#[cfg(test)]
mod tests;
