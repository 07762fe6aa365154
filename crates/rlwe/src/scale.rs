//! Scales under which no score can wrap, and the error that is left.
//!
//! Operands are integers `z' = round(2^k z)`; the query is `m = round(S t)`. The response holds
//! `<m, z'> + noise` modulo `q`, so it reads correctly while
//!
//! ```text
//! |<m, z'>| + noise <= (S |t| + sqrt(d) / 2) max|z'| + noise < q / 2 ,
//! ```
//!
//! which [`ScoreScale::for_query`] solves for the largest `S`. Variances, in units of the
//! modulus `q`, for a response of `P` operands:
//!
//! | source | variance |
//! |---|---|
//! | fresh error and rounded upload, times operands | `(eta / 2 + (4^t - 1) / 12) P max|z'|^2` |
//! | rounding of the query | `max|z'|^2 / 12` |
//! | rounding of the operand | `|m|^2 / 12` |
//! | each level of merging | `3 N (4^17 / 12) eta / 2` |
//! | switch to `2^p` | `(q / 2^p)^2 (1 + 2 N / 3) / 12` |

use crate::layout::Layout;
use crate::merge::key_switch_variance;
use crate::parameters::{MODULUS, Parameters};
use crate::sample::ERROR_VARIANCE;

/// The largest recorded operand norm maps below `2^OPERAND_BITS`: finer operands would amplify
/// the encryption noise more than they reduce their own rounding.
pub const OPERAND_BITS: i32 = 21;

/// Deviations of noise that the headroom and the stated precision allow for. Six is exceeded
/// once in a billion scores.
const DEVIATIONS: f64 = 6.0;

/// Largest operand norm in integer units that the headroom is dimensioned for.
const MAX_OPERAND_NORM: f64 = (1_u64 << 30) as f64;

/// An operand cannot be represented at the scale of its collection.
#[derive(Debug, thiserror::Error, PartialEq, Clone)]
#[error(
    "a vector of norm {norm:.3e} is too long for the scale 2^{exponent} fixed when the first vectors were published"
)]
pub struct OperandOverflow {
    /// Norm of the real vector.
    pub norm: f64,
    /// Exponent of the scale.
    pub exponent: i32,
}

/// The fixed point of operands: `z' = round(2^k z)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperandScale(i32);

impl OperandScale {
    /// The scale `2^exponent`.
    pub fn from_exponent(exponent: i32) -> Self {
        Self(exponent)
    }

    /// The largest scale at which a vector of this norm stays below `2^OPERAND_BITS`.
    pub fn for_norm(norm: f64) -> Self {
        if norm > 0.0 && norm.is_finite() {
            // Exponents of finite f32 vectors lie within [-150, 160].
            let mut exponent = OPERAND_BITS;
            let limit = 2_f64.powi(OPERAND_BITS);
            while exponent > -200 && norm * 2_f64.powi(exponent) > limit {
                exponent -= 1;
            }
            while exponent < 200 && norm * 2_f64.powi(exponent + 1) <= limit {
                exponent += 1;
            }
            Self(exponent)
        } else {
            Self(0)
        }
    }

    /// `k`.
    pub fn exponent(self) -> i32 {
        self.0
    }

    /// Whether vectors of this norm can be quantised.
    pub fn check_norm(self, norm: f64) -> Result<(), OperandOverflow> {
        if norm.is_nan() || norm * 2_f64.powi(self.0) > MAX_OPERAND_NORM {
            return Err(OperandOverflow { norm, exponent: self.0 });
        }
        Ok(())
    }

    /// `round(2^k z)`.
    pub fn quantise(self, vector: &[f64]) -> Result<Vec<i32>, OperandOverflow> {
        let factor = 2_f64.powi(self.0);
        self.check_norm(vector.iter().map(|z| z * z).sum::<f64>().sqrt())?;
        Ok(vector.iter().map(|z| (z * factor).round() as i32).collect())
    }
}

/// The largest Euclidean norm among the integer operands a query may meet.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct OperandBound(f64);

impl OperandBound {
    /// A recorded norm, in integer units.
    pub fn new(norm: f64) -> Self {
        Self(norm)
    }

    /// The norm of one operand.
    pub fn of(operand: &[i32]) -> Self {
        Self(operand.iter().map(|&z| f64::from(z) * f64::from(z)).sum::<f64>().sqrt())
    }

    /// The larger of two.
    pub fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    /// The norm in integer units.
    pub fn norm(self) -> f64 {
        self.0
    }
}

/// The scale of one query. Derived from its actual norm, so it stays with the client.
#[derive(Clone, Debug)]
pub struct ScoreScale {
    query: f64,
    /// Real score of one unit of the response.
    unit: f64,
    deviation: f64,
}

impl ScoreScale {
    /// The largest scale at which `|<t, z>|` cannot wrap for operands within `bound`.
    /// `operands` is the fixed point of the operands, `count` how many there are.
    pub fn for_query(
        parameters: &Parameters,
        layout: &Layout,
        query: &[f64],
        operands: OperandScale,
        bound: OperandBound,
        count: usize,
    ) -> Self {
        let norm = query.iter().map(|t| t * t).sum::<f64>().sqrt();
        Self::new(parameters, layout, norm, operands, bound, count)
    }

    /// As [`for_query`](Self::for_query), for a query of this norm.
    pub fn new(
        parameters: &Parameters,
        layout: &Layout,
        query_norm: f64,
        operands: OperandScale,
        bound: OperandBound,
        count: usize,
    ) -> Self {
        let q = MODULUS as f64;
        let n = parameters.degree().coefficients() as f64;
        let bound = bound.0.max(1.0);
        let step = q / 2_f64.powi(parameters.response_bits() as i32);

        let dropped = (4_f64.powi(parameters.dropped_bits() as i32) - 1.0) / 12.0;
        let fresh = (ERROR_VARIANCE + dropped) * layout.slots() as f64 * bound * bound;
        let switched = step * step * (1.0 + 2.0 * n / 3.0) / 12.0;
        let levels = f64::from(layout.levels(count.min(layout.capacity())));
        let merged = levels * key_switch_variance(parameters.degree());
        let added = fresh + merged + switched;
        let headroom = q / 2.0 - step - 2.0 * DEVIATIONS * added.sqrt();
        let rounding = (layout.width() as f64).sqrt() / 2.0;
        let length = headroom / bound - rounding; // S |t|
        if query_norm == 0.0 {
            // Every score is zero, whatever the noise.
            return Self { query: 0.0, unit: 0.0, deviation: 0.0 };
        }
        if length < 1.0 {
            // The noise alone fills the modulus. The planner never picks such parameters; if a
            // caller does, the error says so.
            return Self { query: 0.0, unit: 0.0, deviation: f64::INFINITY };
        }
        let scale = length / query_norm;

        let rounded_query = bound * bound / 12.0;
        let rounded_operand = (scale * query_norm).powi(2) / 12.0;
        let variance = added + rounded_query + rounded_operand;
        let real = scale * 2_f64.powi(operands.0);
        Self { query: scale, unit: step / real, deviation: variance.sqrt() / real }
    }

    /// The factor `S` for [`Layout::encode_query`].
    pub fn query(&self) -> f64 {
        self.query
    }

    /// The real score of an opened coefficient.
    pub fn to_score(&self, coefficient: i64) -> f64 {
        coefficient as f64 * self.unit
    }

    /// Standard deviation of the error of a score, by the noise model.
    pub fn deviation(&self) -> f64 {
        self.deviation
    }

    /// Six deviations: what a caller may state as the error of a score.
    pub fn error_bound(&self) -> f64 {
        DEVIATIONS * self.deviation
    }
}
