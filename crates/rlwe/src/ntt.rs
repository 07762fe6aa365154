//! The negacyclic number-theoretic transform, behind a trait so that it can be replaced.

use crate::parameters::{MODULUS, RingDegree};

/// A negacyclic NTT over [`MODULUS`]: pointwise products of transforms are products in
/// `Z_q[X] / (X^N + 1)`. The order of the transformed values is the implementation's own, but
/// values in wire form are never transformed, so no two sides need to agree on it, except that
/// the uniform part of a ciphertext is sampled in this domain. Every implementation therefore
/// keeps bit-reversed order, and a golden vector pins it.
pub trait Ntt: Send + Sync {
    /// Coefficients to evaluations, in place; inputs and outputs below `q`.
    fn forward(&self, values: &mut [u64]);
    /// Evaluations to coefficients, in place, normalised.
    fn inverse(&self, values: &mut [u64]);
    /// `accumulator += left * right` pointwise modulo `q`.
    fn multiply_accumulate(&self, accumulator: &mut [u64], left: &[u64], right: &[u64]);
}

/// The transform of the `tfhe-ntt` crate, which picks AVX-512 IFMA, AVX-512, AVX2 or portable
/// code at run time.
pub struct TfheNtt(tfhe_ntt::prime64::Plan);

impl TfheNtt {
    /// The transform of one degree.
    pub fn new(degree: RingDegree) -> Self {
        let plan = tfhe_ntt::prime64::Plan::try_new(degree.coefficients(), MODULUS)
            .expect("q = 1 (mod 2^16) has a 2N-th root of unity at every supported degree");
        Self(plan)
    }
}

impl Ntt for TfheNtt {
    fn forward(&self, values: &mut [u64]) {
        self.0.fwd(values);
    }

    fn inverse(&self, values: &mut [u64]) {
        self.0.inv(values);
        self.0.normalize(values); // the library's inverse leaves a factor N
    }

    fn multiply_accumulate(&self, accumulator: &mut [u64], left: &[u64], right: &[u64]) {
        self.0.mul_accumulate(accumulator, left, right);
    }
}
