//! A fast orthogonal map of any width.

use rand_core::Rng;
use rayon::prelude::*;

use crate::kernel;
use crate::random::shuffle;

/// Rounds of a key. After one round a coordinate axis is spread over at most a power of two of coordinates; after
/// three, no direction is special whatever the key.
const ROUNDS: usize = 3;

/// Rows one task maps.
const BLOCK_ROWS: usize = 64;

/// The bit of a place that says the value is negated on the way.
const NEGATE: u32 = 1 << 31;

/// The bit of a place that says the value at it is negated between the two transforms.
const FLIP: u32 = 1 << 30;

/// The bits of a place that name a coordinate.
const COORDINATE: u32 = FLIP - 1;

/// Three rounds of random signs, a random permutation, and normalised Walsh-Hadamard transforms: on the first `p`
/// coordinates, then, after further random signs, on the last `p`, where `p` is the largest power of two not above the
/// width. When `p` is the width there is one transform per round and no further signs.
///
/// The signs between the transforms are needed: the two overlap, and at a width like 288 = 9 * 32 both act as the same
/// transform on blocks of 32 coordinates, so that without signs one would undo the other there.
///
/// `O(n log n)` to apply, `O(n)` to draw and to keep. It is exactly as faithful to inner products as an
/// [`OrthogonalKey`](super::OrthogonalKey), but chosen from a far smaller set of maps: at most
/// `(2^n n!)^3` of them, an algebraic family that known pairs may solve sooner. It suits keys that are used once.
///
/// Dropping a key overwrites it with zeros, best effort, as for the orthogonal key.
pub struct StructuredKey {
    width: usize,
    /// `places[round * width + i]`: the coordinate that moves to `i`, with [`NEGATE`] and [`FLIP`] for its signs.
    places: Vec<u32>,
}

impl StructuredKey {
    /// Draws a key; width zero gives the map of the empty vector.
    ///
    /// # Panics
    /// If the width is `2^30` or more.
    pub fn sample(width: usize, rng: &mut impl Rng) -> Self {
        let length = coordinates(width).expect("a width below 2^30");
        let mut places = Vec::with_capacity(ROUNDS * width);
        for _ in 0..ROUNDS {
            let start = places.len();
            places.extend(0..length);
            shuffle(&mut places[start..], rng);
            for block in places[start..].chunks_mut(32) {
                let mut word = rng.next_u64();
                for place in block {
                    *place |= (word as u32 & 3) << 30;
                    word >>= 2;
                }
            }
        }
        Self { width, places }
    }

    /// The width of the vectors it maps.
    pub fn width(&self) -> usize {
        self.width
    }

    /// `x <- T x`.
    ///
    /// # Panics
    /// If `x` has another width than the key.
    pub fn apply(&self, x: &mut [f64]) {
        assert_eq!(x.len(), self.width, "a key maps vectors of its own width");
        if self.width > 0 {
            self.map_block(x);
        }
    }

    /// `x <- T^T x`.
    ///
    /// # Panics
    /// If `x` has another width than the key.
    pub fn apply_inverse(&self, x: &mut [f64]) {
        assert_eq!(x.len(), self.width, "a key maps vectors of its own width");
        if self.width == 0 {
            return;
        }
        let mut moved = vec![0.0; self.width];
        kernel::dispatch(
            #[inline(always)]
            || {
                for places in self.places.chunks_exact(self.width).rev() {
                    let (first, last) = mixed(self.width);
                    if let Some(last) = last {
                        hadamard(&mut x[last..]);
                        flip(x, places);
                    }
                    hadamard(&mut x[..first]);
                    for (&place, &value) in places.iter().zip(&*x) {
                        moved[(place & COORDINATE) as usize] = negate_if(value, place);
                    }
                    x.copy_from_slice(&moved);
                }
            },
        );
    }

    /// [`apply`](Self::apply) to every row of a row-major matrix, in parallel and with the same bits.
    ///
    /// # Panics
    /// If `rows` is not whole rows of the key's width.
    pub fn apply_many(&self, rows: &mut [f64]) {
        if rows.is_empty() {
            return;
        }
        assert!(
            self.width > 0 && rows.len().is_multiple_of(self.width),
            "a key maps vectors of its own width"
        );
        rows.par_chunks_mut(BLOCK_ROWS * self.width).for_each(|block| self.map_block(block));
    }

    /// The heap memory the key holds.
    pub fn bytes(&self) -> usize {
        size_of::<u32>() * self.places.len()
    }

    fn map_block(&self, rows: &mut [f64]) {
        let mut moved = vec![0.0; self.width];
        kernel::dispatch(
            #[inline(always)]
            || {
                for x in rows.chunks_exact_mut(self.width) {
                    for places in self.places.chunks_exact(self.width) {
                        for (moved, &place) in moved.iter_mut().zip(places) {
                            *moved = negate_if(x[(place & COORDINATE) as usize], place);
                        }
                        x.copy_from_slice(&moved);
                        let (first, last) = mixed(self.width);
                        hadamard(&mut x[..first]);
                        if let Some(last) = last {
                            flip(x, places);
                            hadamard(&mut x[last..]);
                        }
                    }
                }
            },
        );
    }
}

/// The width as a number of places, if their coordinates leave the bits of the signs free.
fn coordinates(width: usize) -> Option<u32> {
    u32::try_from(width).ok().filter(|&length| length <= COORDINATE)
}

/// Where the first transform ends, and where the second begins if there is one. The width is positive.
fn mixed(width: usize) -> (usize, Option<usize>) {
    let power = 1 << width.ilog2();
    (power, (power < width).then_some(width - power))
}

#[inline(always)]
fn negate_if(value: f64, place: u32) -> f64 {
    f64::from_bits(value.to_bits() ^ u64::from(place & NEGATE) << 32)
}

#[inline(always)]
fn flip(x: &mut [f64], places: &[u32]) {
    for (x, &place) in x.iter_mut().zip(places) {
        *x = negate_if(*x, place << 1);
    }
}

/// The Walsh-Hadamard transform divided by `sqrt(p)`, which is orthogonal and its own inverse; `p` is a power of two.
#[inline(always)]
pub fn hadamard(x: &mut [f64]) {
    let mut half = 1;
    while half < x.len() {
        for block in x.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                (*low, *high) = (*low + *high, *low - *high);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (x.len() as f64).sqrt();
    x.iter_mut().for_each(|value| *value *= scale);
}

impl Drop for StructuredKey {
    fn drop(&mut self) {
        self.places.fill(0);
        std::hint::black_box(&self.places);
    }
}

impl std::fmt::Debug for StructuredKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "StructuredKey(width {}, redacted)", self.width)
    }
}

#[cfg(test)]
mod tests;
