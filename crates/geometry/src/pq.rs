//! Product quantisation: vectors in a few bytes, and shortlists from them.
//!
//! A vector `x` of width `d` is cut into `M` parts of width `d/M`; part `m` is replaced by the number of the nearest of
//! `2^b` centroids `c_(m,j)`, learned by k-means from the same part of the training rows. A query stays as it is
//! (*asymmetric*): with the tables `t_(m,j) = <q_m, c_(m,j)>` or `|q_m - c_(m,j)|^2`, the inner product or the squared
//! distance of `q` to the decoded row is a sum of `M` table entries (Jégou, Douze, Schmid: *Product quantization for
//! nearest neighbor search*, 2011). Ranks are those of the decoded rows, ties by row order.

use rand_core::Rng;
use rayon::prelude::*;
use thiserror::Error;

use crate::cells::{Cells, CellsError};
use crate::kernel;
use crate::random::sample;
use crate::score::Ranked;
use crate::select::Smallest;
use crate::vectors::{VectorError, VectorSet, check_vector};

/// Training rows per centroid; more do not improve k-means.
const TRAINING_ROWS_PER_CENTROID: usize = 256;

/// Rows one task of a scan takes.
const BLOCK_ROWS: usize = 4096;

/// A quantiser that cannot be trained, or codes that are not its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QuantizerError {
    /// The parts would not be equally wide.
    #[error("vectors of width {width} cannot be cut into {subspaces} equal parts")]
    Indivisible {
        /// The width of the vectors.
        width: usize,
        /// The number of parts asked for.
        subspaces: usize,
    },
    /// A code has between 4 and 8 bits.
    #[error("{bits} bits per code, expected 4 to 8")]
    Bits {
        /// The bits asked for.
        bits: u32,
    },
    /// k-means needs one row per centroid.
    #[error("{rows} rows cannot train {centroids} centroids")]
    TooFewRows {
        /// The number of rows.
        rows: usize,
        /// The number of centroids of a part.
        centroids: usize,
    },
    /// Codes of another shape than the quantiser's.
    #[error(
        "codes of {subspaces} parts, the largest {largest}, are not those of {expected} parts below {centroids}"
    )]
    ForeignCodes {
        /// Parts of a code.
        subspaces: usize,
        /// The largest number in them.
        largest: u8,
        /// Parts of the quantiser.
        expected: usize,
        /// Its centroids.
        centroids: usize,
    },
    /// A vector does not fit.
    #[error(transparent)]
    Vector(#[from] VectorError),
}

/// What a shortlist is ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantizedMetric {
    /// The inner product with the decoded row, largest first.
    InnerProduct,
    /// The distance to the decoded row, nearest first; scores are negative squared distances.
    Distance,
}

/// Codes of rows: one byte per part, row by row.
#[derive(Clone, PartialEq, Eq)]
pub struct QuantizedRows {
    subspaces: usize,
    codes: Vec<u8>,
}

impl QuantizedRows {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.codes.len() / self.subspaces
    }

    /// The code of one row: the centroid of each part.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn code(&self, row: usize) -> &[u8] {
        &self.codes[row * self.subspaces..][..self.subspaces]
    }
}

/// Codes tell about a corpus, so only their shape prints.
impl std::fmt::Debug for QuantizedRows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "QuantizedRows({} of {} parts)", self.rows(), self.subspaces)
    }
}

/// The codebooks of all parts.
#[derive(Clone, PartialEq)]
pub struct ProductQuantizer {
    bits: u32,
    codebooks: Vec<Cells>,
}

impl ProductQuantizer {
    /// Learns `2^bits` centroids for each of `subspaces` parts, from at most 256 random rows per centroid. The same rows
    /// and the same random words give the same codebooks, for any number of threads.
    ///
    /// # Errors
    /// `Indivisible`, `Bits` or `TooFewRows`.
    pub fn train(
        vectors: &VectorSet,
        subspaces: usize,
        bits: u32,
        rng: &mut impl Rng,
    ) -> Result<Self, QuantizerError> {
        let width = vectors.width();
        if subspaces == 0 || !width.is_multiple_of(subspaces) {
            return Err(QuantizerError::Indivisible { width, subspaces });
        }
        if !(4..=8).contains(&bits) {
            return Err(QuantizerError::Bits { bits });
        }
        let centroids = 1 << bits;
        let chosen = sample(vectors.rows(), TRAINING_ROWS_PER_CENTROID * centroids, rng);
        let codebooks = (0..subspaces)
            .map(|part| {
                let rows: Vec<f32> = chosen
                    .iter()
                    .flat_map(|&row| part_of(vectors.row(row), part, subspaces))
                    .copied()
                    .collect();
                Cells::fit(&rows, width / subspaces, centroids, rng).map(|(codebook, _)| codebook)
            })
            .collect::<Result<_, CellsError>>()
            // A valid set cut into equal parts meets no other error of a fit.
            .map_err(|_| QuantizerError::TooFewRows { rows: vectors.rows(), centroids })?;
        Ok(Self { bits, codebooks })
    }

    /// The width of the vectors.
    pub fn width(&self) -> usize {
        self.subspaces() * self.codebooks[0].width()
    }

    /// The number of parts `M`.
    pub fn subspaces(&self) -> usize {
        self.codebooks.len()
    }

    /// The bits of a part's code.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Bytes of a code when its bits are packed.
    pub fn code_bytes(&self) -> usize {
        (self.subspaces() * self.bits as usize).div_ceil(8)
    }

    /// The centroids of one part.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn codebook(&self, part: usize) -> &Cells {
        &self.codebooks[part]
    }

    /// The nearest centroid of every part of every row, the first of equals.
    ///
    /// # Errors
    /// `Vector` if the rows have another width than the training rows.
    pub fn encode(&self, vectors: &VectorSet) -> Result<QuantizedRows, QuantizerError> {
        if vectors.width() != self.width() {
            let (expected, actual) = (self.width(), vectors.width());
            return Err(VectorError::WrongWidth { expected, actual }.into());
        }
        let subspaces = self.subspaces();
        let mut codes = vec![0; vectors.rows() * subspaces];
        for (part, codebook) in self.codebooks.iter().enumerate() {
            let rows: Vec<f32> = (0..vectors.rows())
                .flat_map(|row| part_of(vectors.row(row), part, subspaces))
                .copied()
                .collect();
            for (code, cell) in codes.chunks_exact_mut(subspaces).zip(codebook.assign(&rows)) {
                code[part] = cell as u8; // at most 2^8 centroids
            }
        }
        Ok(QuantizedRows { subspaces, codes })
    }

    /// The rows that codes stand for.
    ///
    /// # Errors
    /// `ForeignCodes`; `Vector` if there are no codes.
    pub fn decode(&self, rows: &QuantizedRows) -> Result<VectorSet, QuantizerError> {
        self.check(rows)?;
        let mut values = Vec::with_capacity(rows.rows() * self.width());
        for code in rows.codes.chunks_exact(rows.subspaces) {
            for (codebook, &centroid) in self.codebooks.iter().zip(code) {
                values.extend_from_slice(codebook.centroid(usize::from(centroid)));
            }
        }
        Ok(VectorSet::new(self.width(), values)?)
    }

    /// The `k` best rows for a query that is not quantised itself, best first; all when `k` is larger.
    ///
    /// # Errors
    /// `ForeignCodes`; `Vector` if the query has another width or a value that is not finite.
    pub fn shortlist(
        &self,
        rows: &QuantizedRows,
        query: &[f32],
        metric: QuantizedMetric,
        k: usize,
    ) -> Result<Vec<Ranked>, QuantizerError> {
        self.check(rows)?;
        check_vector(self.width(), query)?;
        let table = self.table(query, metric);
        let centroids = 1 << self.bits;
        let best = rows
            .codes
            .par_chunks(BLOCK_ROWS * rows.subspaces)
            .enumerate()
            .map(|(block, codes)| {
                let mut best = Smallest::new(k);
                for (row, code) in (block * BLOCK_ROWS..).zip(codes.chunks_exact(rows.subspaces)) {
                    let entries = table.chunks_exact(centroids).zip(code);
                    let key = entries.map(|(entries, &at)| entries[usize::from(at)]).sum();
                    best.offer(key, row as u32);
                }
                best
            })
            .reduce(|| Smallest::new(k), Smallest::merge);
        let ranked =
            |entry: &crate::select::Entry| Ranked { row: entry.row, score: 0.0 - entry.key };
        Ok(best.into_sorted().iter().map(ranked).collect())
    }

    /// What each centroid of each part adds to the key of a row; a smaller key is better.
    fn table(&self, query: &[f32], metric: QuantizedMetric) -> Vec<f64> {
        let entries = self.codebooks.iter().enumerate().flat_map(|(part, codebook)| {
            let query = part_of(query, part, self.subspaces());
            codebook.centroids().chunks_exact(codebook.width()).map(move |centroid| match metric {
                QuantizedMetric::InnerProduct => -kernel::dot_f32(query, centroid),
                QuantizedMetric::Distance => kernel::squared_distance_f32(query, centroid),
            })
        });
        entries.collect()
    }

    fn check(&self, rows: &QuantizedRows) -> Result<(), QuantizerError> {
        let largest = rows.codes.iter().copied().max().unwrap_or(0);
        let (subspaces, expected, centroids) = (rows.subspaces, self.subspaces(), 1 << self.bits);
        if subspaces == expected && usize::from(largest) < centroids {
            Ok(())
        } else {
            Err(QuantizerError::ForeignCodes { subspaces, largest, expected, centroids })
        }
    }
}

/// Codebooks tell about a corpus, so only their shape prints.
impl std::fmt::Debug for ProductQuantizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (subspaces, bits) = (self.subspaces(), self.bits);
        write!(formatter, "ProductQuantizer({subspaces} parts of {bits} bits)")
    }
}

fn part_of(vector: &[f32], part: usize, subspaces: usize) -> &[f32] {
    let width = vector.len() / subspaces;
    &vector[part * width..][..width]
}

#[cfg(test)]
mod tests;
