//! Scales at which nothing wraps, and the error that is left.
//!
//! A row is `round(Sr x)`, a query of length one `round(Sq q)`, with `Sr Sq L = q / r`: `L` is the
//! length of the longest row and `r = 4.2` leaves room for [`RANGE`]. In units of `L |q|`, with
//! `sigma^2 = 10.5` the variance of an error, the variance of a score is
//!
//! ```text
//!   sigma^2 / (Sr L)^2          errors of the block, times the query
//! + P sigma^2 / Sq^2            errors of the query, times the rows of the block
//! + 1 / (12 (Sr L)^2)           rounding of rows
//! + r^2 / (12 4^o0)             answers of o0 bits
//! + k (2 N / 3) r^2 / (12 4^o1) hints of o1 bits, times k ternary secrets
//! ```
//!
//! The first term can be taken out of the rows that are returned, because whoever holds the secret can
//! make the errors of a block again; so it gets [`UNREFINED_SHARE`] times as much as the second.

use super::modulus::{DEGREE, MODULUS};
use super::shape::{HINT_BITS, SCORE_BITS, Shape};
use crate::sample::ERROR_VARIANCE;

/// `q / (Sr Sq L)`.
pub(super) const ROOM: f64 = 4.2;

/// Every opened place is at most this in units of `L |q|`, or the answer is forged: half the modulus
/// added to a place takes it to 2.1 less a score.
pub const RANGE: f64 = 1.02;

/// The error of a block over the error of a query, before the former is taken out.
const UNREFINED_SHARE: f64 = 1.6;

/// The grid on which rows are stored: `round(Sr x)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Grid(f64);

impl Grid {
    /// The grid for rows up to a length. It can be kept while rows become up to twice as long: the
    /// error, in units of the longest, then grows by a half.
    ///
    /// # Panics
    /// If the length is not a positive number.
    pub fn for_length(shape: &Shape, longest: f64) -> Self {
        assert!(longest > 0.0 && longest.is_finite(), "a length is positive, not {longest}");
        Self(row_scale(shape, MODULUS as f64) / longest)
    }

    /// The grid of a recorded scale; `None` unless it is a positive number.
    pub fn from_scale(scale: f64) -> Option<Self> {
        (scale > 0.0 && scale.is_finite()).then_some(Self(scale))
    }

    /// `Sr`.
    pub fn scale(self) -> f64 {
        self.0
    }

    /// `round(Sr x)`.
    pub fn encode(self, row: &[f32]) -> impl Iterator<Item = i32> {
        row.iter().map(move |&x| round(f64::from(x) * self.0) as i32)
    }

    /// What integers of the grid stand for.
    pub fn decode(self, row: &[i32]) -> impl Iterator<Item = f32> {
        row.iter().map(move |&m| (f64::from(m) / self.0) as f32)
    }

    /// `Sq` for queries of length one where no row is longer than `longest`.
    pub fn query_scale(self, longest: f64) -> f64 {
        MODULUS as f64 / (ROOM * self.0 * longest)
    }
}

/// `Sr L` of the best grid.
fn row_scale(shape: &Shape, modulus: f64) -> f64 {
    (modulus / ROOM / (UNREFINED_SHARE * (shape.rows_per_block() as f64).sqrt())).sqrt()
}

/// The nearest integer, ties to even, of a number below `2^51`: adding this constant leaves no room for
/// a fraction. The instruction that does it is not on every processor, and this is as fast.
fn round(x: f64) -> f64 {
    const NO_FRACTION: f64 = 1.5 * (1_u64 << 52) as f64;
    (x + NO_FRACTION) - NO_FRACTION
}

/// Standard deviations of the error of scores, in units of the longest row times the query.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Precision {
    /// Of every score as it is opened.
    pub opened: f64,
    /// Of scores from which the errors of their blocks were taken.
    pub refined: f64,
}

impl Precision {
    /// The formula above.
    pub fn of(shape: &Shape, grid: Grid, longest: f64) -> Self {
        Self::at_scales(shape, grid.scale() * longest, grid.query_scale(longest))
    }

    /// The same on the best grid, if the modulus had so many bits.
    pub fn at_modulus(shape: &Shape, bits: u32) -> Self {
        let modulus = 2_f64.powi(bits as i32);
        let rows = row_scale(shape, modulus);
        Self::at_scales(shape, rows, modulus / (ROOM * rows))
    }

    /// With `Sr L` and `Sq`.
    fn at_scales(shape: &Shape, rows: f64, query: f64) -> Self {
        let answer = ROOM * ROOM / 12.0 / 4_f64.powi(SCORE_BITS as i32);
        let hint = shape.query_rank().secrets() as f64 * (2 * DEGREE) as f64 / 3.0 * ROOM * ROOM
            / 12.0
            / 4_f64.powi(HINT_BITS as i32);
        let refined = shape.rows_per_block() as f64 * ERROR_VARIANCE / query.powi(2)
            + 1.0 / 12.0 / rows.powi(2)
            + answer
            + hint;
        let opened = refined + ERROR_VARIANCE / rows.powi(2);
        Self { opened: opened.sqrt(), refined: refined.sqrt() }
    }
}

/// How far a check may be off in an honest answer, in units of the longest row times the query: eight
/// deviations of the rounding of all answers that it adds up. A single score that is moved by more than twice
/// as much is found.
pub fn tolerance(blocks: usize) -> f64 {
    tolerance_in_steps(blocks) * ROOM / 2_f64.powi(SCORE_BITS as i32)
}

/// The same in steps of the answer's modulus; the check's own answer is one term more.
pub(super) fn tolerance_in_steps(blocks: usize) -> f64 {
    8.0 * ((blocks + 1) as f64 / 12.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_the_nearest_and_to_even() {
        for x in [0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1e6 + 0.49, -3.7e8, 2e9 + 0.5] {
            assert_eq!(round(x), x.round_ties_even(), "{x}");
        }
    }
}
