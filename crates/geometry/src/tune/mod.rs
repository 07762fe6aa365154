//! The prefix width and the shortlist length, from a held-out sample.
//!
//! A shortlist serves if it holds the rows exact search would have returned. [`tune()`] measures, for a ladder of prefix
//! widths, how long the shortlist must be to hold 99.5 % of the true ten nearest rows of a sample of queries, and
//! takes the smallest width whose shortlist is short enough. At each width it tries a few weights of the residual, `c` of
//! [`route`](crate::route), and keeps the best. What it measures is the order that routers route by.
//!
//! # Queries from documents
//! Real queries are the best sample, and are used when the caller has some. Usually there are only documents, and
//! documents are too easy: they lie among their neighbours, while a query (a few words, a claim) lies off them, with
//! less of its energy in the leading directions. So a row is turned into a query by adding isotropic noise of
//! [`NOISE`] times the spread of the corpus, at the length of the row:
//!
//! `q = |x| y / |y|` with `y = x + 2.5 s |x| g / sqrt(d)`, `s^2 = sum_i |x_i - mu|^2 / sum_i |x_i|^2`, `g` standard normal.
//!
//! The row itself is left out of both rankings. The noise was chosen by measurement: the shortlist needed by 500
//! sample rows with noise, beside that needed by the real queries of six judged sets and one large one:
//!
//! | set | width | real queries | noise 2 | **noise 2.5** | noise 3 | weight |
//! |---|---|---|---|---|---|---|
//! | SciFact, MiniLM | d/4 | 66 | 120 | 177 | 247 | 0.3 |
//! | NFCorpus, MiniLM | d/4 | 93 | 67 | 94 | 126 | 0.2 |
//! | Cranfield, MiniLM | d/4 | 24 | 44 | 57 | 66 | 0.1 |
//! | SciFact, WordLlama | d/2 | 42 | 116 | 132 | 157 | 0.4 |
//! | NFCorpus, WordLlama | d/2 | 69 | 87 | 128 | 135 | 0.4 |
//! | Cranfield, WordLlama | d/2 | 21 | 41 | 49 | 61 | 0.2 |
//! | Wikipedia, 100,000 rows, MiniLM | d/2 | 32 | | 118 | 156 | 0.3 |
//!
//! (One sample each; another moves a figure by up to a quarter. The weight is that for real queries; for rows with noise
//! it is 0.1 to 0.4.) Noise of 2 asks for too little on NFCorpus, whose queries are often single terms. Noise of 2.5 covers
//! every set, just so on NFCorpus, and elsewhere errs on the side of a wider prefix and a longer shortlist. Rows are still
//! no queries, so a length that they ask for is taken half as long again, and a short one up to three times.
//!
//! What [`tune()`] then chooses from documents alone, and what real queries get from it, on the sets that the noise was
//! chosen on; and the same with documents of log-normal lengths, the deviation of the logarithm one:
//!
//! | set | d_pub | candidates | true top ten of real queries held | d_pub, of all lengths | candidates | held |
//! |---|---|---|---|---|---|---|
//! | SciFact, MiniLM | 120 of 384 | 159 | 1.0000 | 48 | 100 | 0.9993 |
//! | NFCorpus, MiniLM | 96 of 384 | 141 | 0.9988 | 48 | 66 | 0.9975 |
//! | Cranfield, MiniLM | 48 of 384 | 188 | 0.9991 | 48 | 51 | 0.9996 |
//! | SciFact, WordLlama | 128 of 256 | 198 | 1.0000 | 32 | 87 | 0.9997 |
//! | NFCorpus, WordLlama | 128 of 256 | 192 | 0.9994 | 32 | 84 | 0.9932 |
//! | Cranfield, WordLlama | 80 of 256 | 179 | 0.9996 | 32 | 69 | 1.0000 |
//! | Wikipedia, 100,000 rows, MiniLM | 192 of 384 | 177 | 1.0000 | 72 | 168 | 0.9961 |
//!
//! The figures are the same for queries 1e-20, 0.1, 1 and 1e20 times as long. A large corpus needs more: on the 100,000 rows
//! of Wikipedia the choice is 192 of 384 where real queries would do with 144. For such a corpus, tune with a sample of
//! real queries.

mod neighbours;
mod ranks;
mod sample;

use rand_core::Rng;
use thiserror::Error;

use crate::pca::Pca;
use crate::vectors::VectorSet;
use crate::work::{Stopped, Work};

pub use neighbours::{neighbours_work, true_neighbours};
pub use sample::{NOISE, SAMPLE, SampleQuery, noisy_row};

/// The fraction of true neighbours a shortlist must hold.
pub const HELD: f64 = 0.995;

/// The largest shortlist the choice of a width accepts, unless one is asked for.
pub const DEFAULT_CAP: usize = 200;

/// How many nearest rows count as true neighbours.
pub const NEIGHBOURS: usize = 10;

/// Weights of the residual that are tried: `c` of [`route`](crate::route).
pub const WEIGHTS: [f64; 8] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0];

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
    /// The model or the queries are of another width than the vectors.
    #[error("the {part} has width {actual}, expected {expected}")]
    WrongWidth {
        /// `model` or `queries`.
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
    /// A shortlist of zero rows was asked for.
    #[error("the shortlist length is 0")]
    NoCandidates,
    /// Whoever watches the measurement ended it.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// What the caller has already decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TuneRequest {
    /// The prefix width, if it is not to be chosen.
    pub d_pub: Option<usize>,
    /// The shortlist length, if it is not to be chosen.
    pub candidates: Option<usize>,
    /// The shortest shortlist that is chosen.
    pub fewest: usize,
    /// The longest shortlist that is chosen.
    pub most: usize,
}

impl Default for TuneRequest {
    fn default() -> Self {
        Self { d_pub: None, candidates: None, fewest: 1, most: usize::MAX }
    }
}

impl TuneRequest {
    /// The prefix widths that are tried, ascending.
    fn widths(&self, width: usize) -> Vec<usize> {
        self.d_pub.map_or_else(|| ladder(width), |d_pub| vec![d_pub])
    }
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
    /// The weight of the residual that serves best at this width.
    pub weight: f64,
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
    /// The weight of the residual in the estimates that route.
    pub weight: f64,
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

/// How much work [`tune()`] is, for vectors of this shape and a sample of this many queries, if the caller has some.
pub fn work(rows: usize, width: usize, queries: Option<usize>, request: &TuneRequest) -> u64 {
    if width < 2 {
        return 0;
    }
    let sample = queries.unwrap_or(rows).min(SAMPLE);
    let widths = request.widths(width);
    neighbours_work(rows, width, sample) + ranks::work(rows, width, sample, &widths)
}

/// Chooses what the request leaves open, and the weight of the residual.
///
/// The width is the smallest of `d/8, 3d/16, d/4, 5d/16, 3d/8, 7d/16, d/2, 5d/8, 3d/4` whose shortlist need not be
/// longer than the cap: the candidates asked for, or [`DEFAULT_CAP`]. If none is, the one that needs the shortest. The
/// number of candidates is then the one asked for, or the smallest that holds [`HELD`] of the neighbours at that width,
/// within the limits of the request. Measured by rows with noise, a chosen number is half as large again and, where that
/// is less than 100, up to three times as large; it is this one that is compared with the cap. At each width the weight is the one of [`WEIGHTS`] that needs the shortest
/// shortlist or, where the length is given, whose shortlist holds most.
///
/// The work is `O(sample * N * d)` in two passes over blocks of rows; nothing of size `N x d` or `sample x N` is held. A
/// corpus of few rows works: with a single one there is nothing to find, and every shortlist holds all of it.
///
/// # Errors
/// Any [`TuneError`].
pub fn tune(
    vectors: &VectorSet,
    pca: &Pca,
    queries: Option<&VectorSet>,
    request: TuneRequest,
    rng: &mut impl Rng,
    work: Work<'_>,
) -> Result<Tuning, TuneError> {
    let width = vectors.width();
    if width < 2 {
        return Err(TuneError::TooNarrow { width });
    }
    for (part, actual) in [("model", Some(pca.width())), ("queries", queries.map(VectorSet::width))]
    {
        if let Some(actual) = actual.filter(|&actual| actual != width) {
            return Err(TuneError::WrongWidth { part, expected: width, actual });
        }
    }
    if let Some(d_pub) = request.d_pub.filter(|d_pub| !(1..width).contains(d_pub)) {
        return Err(TuneError::BadPrefix { d_pub, width });
    }
    if request.candidates == Some(0) {
        return Err(TuneError::NoCandidates);
    }

    let widths = request.widths(width);
    let (source, sample) = match queries {
        Some(queries) => (SampleSource::Queries, sample::given_queries(queries, rng)),
        None => (SampleSource::NoisyRows, sample::noisy_rows(vectors, pca, rng)),
    };
    let neighbours = true_neighbours(vectors, &sample, NEIGHBOURS, work)?;
    let mut ranks = ranks::neighbour_ranks(vectors, pca, &sample, &neighbours, &widths, work)?;

    let cap = request.candidates.unwrap_or(DEFAULT_CAP);
    let mut measured = Vec::with_capacity(widths.len());
    let mut chosen = Vec::with_capacity(widths.len());
    for (&d_pub, ranks) in widths.iter().zip(&mut ranks) {
        let at = best_weight(ranks, request.candidates);
        let ranks = std::mem::take(&mut ranks[at]);
        measured.push(WidthMeasurement {
            d_pub,
            weight: WEIGHTS[at],
            candidates_needed: needed(&ranks),
            held_at_cap: held(&ranks, cap),
        });
        chosen.push(ranks);
    }
    let automatic = |width: &WidthMeasurement| match source {
        SampleSource::Queries => width.candidates_needed,
        SampleSource::NoisyRows => with_margin(width.candidates_needed).min(vectors.rows()),
    };
    let wanted = |width: &WidthMeasurement| match request.candidates {
        Some(_) => width.candidates_needed,
        None => automatic(width),
    };
    let fits = measured.iter().position(|width| wanted(width) <= cap);
    let least = || (0..measured.len()).min_by_key(|&at| measured[at].candidates_needed);
    let at = fits.or_else(least).expect("at least one width is tried");
    let automatic = automatic(&measured[at]).max(request.fewest).min(request.most);
    let candidates = request.candidates.unwrap_or(automatic);
    Ok(Tuning {
        d_pub: measured[at].d_pub,
        weight: measured[at].weight,
        candidates,
        held: held(&chosen[at], candidates),
        sample: sample.len(),
        source,
        cap,
        measured,
    })
}

/// A shortlist for queries, of which rows with noise say that this length is needed: half as long again. A short one is
/// made up to three times as long, to at most 100: there a few candidates more cost little, and rows stand in for
/// queries least well.
fn with_margin(needed: usize) -> usize {
    (3 * needed).div_ceil(2).max((3 * needed).min(DEFAULT_CAP / 2))
}

/// The weight whose ranks are best, the smallest of equals.
fn best_weight(ranks: &[Vec<u32>], candidates: Option<usize>) -> usize {
    let missed = |ranks: &[u32]| {
        candidates.map_or(0, |k| ranks.len() - ranks.partition_point(|&r| (r as usize) < k))
    };
    let cost = |&at: &usize| (missed(&ranks[at]), needed(&ranks[at]));
    (0..ranks.len()).min_by_key(cost).expect("at least one weight is tried")
}

fn ladder(width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = LADDER
        .iter()
        .map(|&sixteenths| ((width * sixteenths + 8) / 16).clamp(1, width - 1))
        .collect();
    widths.dedup();
    widths
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
