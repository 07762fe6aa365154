//! How much noise each operation adds, by formula.
//!
//! Variances are per coefficient of `c0 + c1 s`, in units of the ciphertext's own integers,
//! with a ternary secret (`|s|^2 = 2N/3`) and error variance `v = eta / 2`:
//!
//! | operation | variance |
//! |---|---|
//! | rounding after a division | `r = (1 + 2N/3) / 12` |
//! | fresh: encoding, division by `P` | `1/12 + r + v (1 + 4N/3) / P^2` |
//! | product with an operand of norm `z` at scale `D` | `V (2/N) D^2 z^2` from the ciphertext, `(1/12) (2/N) D^2 t^2` from rounding the operand, for a query of norm `t` |
//! | rescale by `q` | `V / q^2 + r` |
//! | rotate | `V + v N sum_i q_i^2 / (12 P^2) + r` |
//! | rotate and sum, per step | `2 V + v N sum_i q_i^2 / (12 P^2) + (2N/3) / 12` |
//!
//! A slot is a sum of `N` coefficients with unit weights; the variance of its real part is `N/2`
//! times that of a coefficient.
//!
//! Tails are heavier than a Gaussian's. A rounding error in `c1` reaches slot `j` multiplied by
//! `s(zeta^(5^j))`, the same for every ciphertext of a key, and a key-switching error is likewise
//! a product of two sums. Over keys and slots such a product has a Laplace tail,
//! `P(|x| > t deviations) = exp(-sqrt(2) t)`, until the sum over many slots evens it out.

use super::parameters::SlotsParameters;
use crate::sample::ERROR_VARIANCE;

/// Deviations within which an error stays but for once in a billion slots, at the Laplace tail.
pub const NOISE_DEVIATIONS: f64 = 15.0;

/// The predicted noise of one parameter set.
#[derive(Clone, Debug)]
pub struct SlotsNoise {
    n: f64,
    scale: f64,
    response_scale: f64,
    special: f64,
    /// The primes of a response.
    primes: Vec<f64>,
}

impl SlotsNoise {
    /// The model of a set.
    pub fn new(parameters: &SlotsParameters) -> Self {
        let primes = &parameters.primes()[..parameters.response_primes()];
        Self {
            n: parameters.degree().coefficients() as f64,
            scale: parameters.scale(),
            response_scale: parameters.response_scale(),
            special: parameters.special_prime() as f64,
            primes: primes.iter().map(|&q| q as f64).collect(),
        }
    }

    /// Rounding both halves to integers: `(1 + |s|^2) / 12`.
    pub fn rounding(&self) -> f64 {
        (1.0 + 2.0 * self.n / 3.0) / 12.0
    }

    /// A fresh ciphertext.
    pub fn fresh(&self) -> f64 {
        let masked = ERROR_VARIANCE * (1.0 + 4.0 * self.n / 3.0) / self.special.powi(2);
        1.0 / 12.0 + self.rounding() + masked
    }

    /// After a product: `variance` is the ciphertext's, norms are of the real vectors.
    pub fn multiplied(&self, variance: f64, query_norm: f64, operand_norm: f64) -> f64 {
        let norms = variance * operand_norm.powi(2) + query_norm.powi(2) / 12.0;
        norms * 2.0 / self.n * self.scale.powi(2)
    }

    /// After dividing by `prime`.
    pub fn rescaled(&self, variance: f64, prime: u64) -> f64 {
        variance / (prime as f64).powi(2) + self.rounding()
    }

    /// What a key switch adds before it is rounded.
    fn switched(&self) -> f64 {
        let digits: f64 = self.primes.iter().map(|q| (q / self.special).powi(2)).sum();
        ERROR_VARIANCE * self.n / 12.0 * digits
    }

    /// After a rotation.
    pub fn rotated(&self, variance: f64) -> f64 {
        variance + self.switched() + self.rounding()
    }

    /// What rotate-and-sum over `span` slots adds: step `k` of `log2 span` is doubled by each of
    /// the steps after it, and `c0` is rounded once.
    pub fn summation(&self, span: usize) -> f64 {
        (span as f64 - 1.0) * (self.switched() + self.rounding()) + 1.0 / 12.0
    }

    /// Deviation of the real part of a slot with this variance per coefficient, at `scale`.
    pub fn slot_deviation(&self, variance: f64, scale: f64) -> f64 {
        (self.n / 2.0 * variance).sqrt() / scale
    }

    /// Deviation of a score. The noise of the product is spread over the operand's slots alone,
    /// which the sum all collects; that of rescaling over all slots, of which it collects `span`.
    pub fn score_deviation(&self, query_norm: f64, operand_norm: f64, span: usize) -> f64 {
        let product = self.fresh() * operand_norm.powi(2) + query_norm.powi(2) / 12.0;
        let added = span as f64 * self.rounding() + self.summation(span);
        let variance = product / self.scale.powi(2) + added / self.response_scale.powi(2);
        (self.n / 2.0 * variance).sqrt()
    }

    /// What a caller may state as the error of a score.
    pub fn error_bound(&self, query_norm: f64, operand_norm: f64, span: usize) -> f64 {
        NOISE_DEVIATIONS * self.score_deviation(query_norm, operand_norm, span)
    }
}
