//! The ring `Z_q[X] / (X^N + 1)` and its polynomials in two forms.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use zeroize::Zeroize;

use crate::buffers::{Buffer, Buffers};
use crate::ntt::{Backend, Ntt};
use crate::parameters::{MODULUS, RingDegree};

/// Marks a polynomial given by its coefficients.
#[derive(Debug, Clone, Copy)]
pub enum Coefficients {}

/// Marks a polynomial given by its values at the roots of `X^N + 1`.
#[derive(Debug, Clone, Copy)]
pub enum Evaluations {}

/// A polynomial modulo `q`, in the form `F`. Values are always below `q`.
#[derive(Clone, Debug)]
pub struct Poly<F> {
    values: Vec<u64>,
    form: PhantomData<F>,
}

impl<F> Poly<F> {
    pub(crate) fn zero(degree: RingDegree) -> Self {
        Self::from_values(vec![0; degree.coefficients()])
    }

    /// Wraps values that are already reduced.
    pub(crate) fn from_values(values: Vec<u64>) -> Self {
        debug_assert!(values.iter().all(|&v| v < MODULUS));
        Self { values, form: PhantomData }
    }

    /// The values in the form's own order.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    pub(crate) fn values_mut(&mut self) -> &mut [u64] {
        &mut self.values
    }
}

impl<F> Zeroize for Poly<F> {
    fn zeroize(&mut self) {
        self.values.zeroize();
    }
}

/// Arithmetic of one degree. Immutable, shared through [`Ring::shared`].
pub struct Ring {
    degree: RingDegree,
    backend: Backend,
    ntt: Box<dyn Ntt>,
    buffers: Arc<Buffers>,
}

impl Ring {
    /// The ring of a degree with the backend of this process. Where
    /// [`Backend::from_environment`] is an error, that is the default: a program that lets its
    /// user choose checks the choice at start-up.
    pub fn new(degree: RingDegree) -> Self {
        Self::with_backend(degree, Backend::from_environment().unwrap_or_default())
    }

    /// The ring of a degree with a given transform.
    pub fn with_backend(degree: RingDegree, backend: Backend) -> Self {
        let buffers = Buffers::new(degree.coefficients());
        Self { degree, backend, ntt: backend.build(degree), buffers }
    }

    /// The process-wide ring of a degree: its tables are constants, built on first use.
    pub fn shared(degree: RingDegree) -> Arc<Ring> {
        static RINGS: [OnceLock<Arc<Ring>>; 16] = [const { OnceLock::new() }; 16];
        RINGS[degree.log2() as usize].get_or_init(|| Arc::new(Ring::new(degree))).clone()
    }

    /// The degree `N`.
    pub fn degree(&self) -> RingDegree {
        self.degree
    }

    /// Which transform it uses.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Its transform.
    pub fn transform(&self) -> &dyn Ntt {
        &*self.ntt
    }

    /// Coefficients to evaluations.
    pub fn forward(&self, mut poly: Poly<Coefficients>) -> Poly<Evaluations> {
        self.ntt.forward(&mut poly.values);
        Poly { values: poly.values, form: PhantomData }
    }

    /// Evaluations to coefficients.
    pub fn inverse(&self, mut poly: Poly<Evaluations>) -> Poly<Coefficients> {
        self.ntt.inverse(&mut poly.values);
        Poly { values: poly.values, form: PhantomData }
    }

    /// Memory for one polynomial, with unspecified contents. Not for secrets.
    pub(crate) fn buffer(&self) -> Buffer {
        self.buffers.take()
    }

    /// Memory for one polynomial, zeroed. Not for secrets.
    pub(crate) fn zeroed_buffer(&self) -> Buffer {
        self.buffers.zeroed()
    }

    /// In-place forward transform of a scratch buffer, for the server's inner loop.
    pub(crate) fn forward_in_place(&self, values: &mut [u64]) {
        self.ntt.forward(values);
    }

    /// In-place inverse transform of a scratch buffer.
    pub(crate) fn inverse_in_place(&self, values: &mut [u64]) {
        self.ntt.inverse(values);
    }

    /// `accumulator += left * right` on evaluations.
    pub(crate) fn multiply_accumulate(&self, accumulator: &mut [u64], left: &[u64], right: &[u64]) {
        self.ntt.multiply_accumulate(accumulator, left, right);
    }

    /// `left * right`.
    pub fn multiply(
        &self,
        left: &Poly<Evaluations>,
        right: &Poly<Evaluations>,
    ) -> Poly<Evaluations> {
        let mut product = Poly::zero(self.degree);
        self.ntt.multiply_accumulate(&mut product.values, &left.values, &right.values);
        product
    }
}

/// `value mod q` for a signed value with `|value| < q`, without a branch on the sign.
#[inline(always)]
pub(crate) fn reduce_signed(value: i64) -> u64 {
    (value + ((value >> 63) & MODULUS as i64)) as u64
}

/// `a + b mod q` for reduced operands, without a branch.
#[inline(always)]
pub(crate) fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    let reduced = sum.wrapping_sub(MODULUS);
    reduced.wrapping_add(MODULUS & ((reduced as i64 >> 63) as u64))
}

/// `-a mod q` for a reduced operand, without a branch on its value.
#[inline(always)]
pub(crate) fn negate(a: u64) -> u64 {
    add(MODULUS - a, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Schoolbook product modulo `X^N + 1`, the oracle of every transform.
    fn schoolbook(a: &[u64], b: &[u64]) -> Vec<u64> {
        let n = a.len();
        let mut out = vec![0_u64; n];
        for (i, &x) in a.iter().enumerate() {
            for (j, &y) in b.iter().enumerate() {
                let product = (u128::from(x) * u128::from(y) % u128::from(MODULUS)) as u64;
                let signed = if i + j < n { product } else { negate(product) };
                out[(i + j) % n] = add(out[(i + j) % n], signed);
            }
        }
        out
    }

    fn element() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(1), Just(MODULUS - 1), 0..MODULUS]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn transform_multiplies_as_the_schoolbook_does(
            log in 6_u32..10,
            seed in prop::collection::vec((element(), element()), 512),
        ) {
            let n = 1_usize << log;
            let a: Vec<u64> = seed.iter().map(|p| p.0).cycle().take(n).collect();
            let b: Vec<u64> = seed.iter().map(|p| p.1).cycle().take(n).collect();
            let expected = schoolbook(&a, &b);
            for &backend in Backend::ALL {
                let ring = Ring::with_backend(RingDegree::new(n).unwrap(), backend);
                let left = ring.forward(Poly::from_values(a.clone()));
                let right = ring.forward(Poly::from_values(b.clone()));
                let product = ring.inverse(ring.multiply(&left, &right));
                prop_assert_eq!(product.values(), &expected[..], "{:?}", backend);
            }
        }

        #[test]
        fn scalar_helpers_agree_with_wide_arithmetic(a in element(), b in element()) {
            prop_assert_eq!(add(a, b), (a + b) % MODULUS);
            prop_assert_eq!(add(a, negate(a)), 0);
            let signed = a as i64 - b as i64;
            prop_assert_eq!(reduce_signed(signed), signed.rem_euclid(MODULUS as i64) as u64);
        }
    }

    #[test]
    fn transform_round_trips_at_every_secure_degree() {
        for n in [2048, 4096, 8192, 16_384, 32_768] {
            for &backend in Backend::ALL {
                let ring = Ring::with_backend(RingDegree::new(n).unwrap(), backend);
                let values: Vec<u64> = (0..n as u64)
                    .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % MODULUS)
                    .collect();
                let back = ring.inverse(ring.forward(Poly::from_values(values.clone())));
                assert_eq!(back.values(), &values[..], "{backend:?}");
            }
        }
    }
}
