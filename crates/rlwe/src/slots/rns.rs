//! Polynomials over a chain of primes.
//!
//! Everything that is kept is kept as evaluations: row `i` of a polynomial holds its values at
//! the `N` primitive `2N`-th roots of unity modulo `q_i`, in the transform's bit-reversed order
//! (position `k` is the root `psi^(2 rev(k) + 1)`). Products are pointwise there, and the
//! automorphism `X -> X^g` only permutes the roots.

use zeroize::Zeroize;

use super::modulus::{Factor, Modulus, lift, subtract_scaled};
use super::parameters::SlotsParameters;

/// One prime and its negacyclic transform.
pub(super) struct PrimeRing {
    modulus: Modulus,
    plan: tfhe_ntt::prime64::Plan,
}

impl PrimeRing {
    fn new(n: usize, prime: u64) -> Self {
        let plan = tfhe_ntt::prime64::Plan::try_new(n, prime)
            .expect("a prime equal to 1 modulo 2 N has a transform of degree N");
        Self { modulus: Modulus::new(prime), plan }
    }

    pub(super) fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// Coefficients to evaluations.
    pub(super) fn forward(&self, row: &mut [u64]) {
        self.plan.fwd(row);
    }

    /// Evaluations to coefficients.
    pub(super) fn inverse(&self, row: &mut [u64]) {
        self.plan.inv(row);
        self.plan.normalize(row); // the library's inverse leaves a factor N
    }

    /// `accumulator += left right`, pointwise.
    pub(super) fn multiply_accumulate(&self, accumulator: &mut [u64], left: &[u64], right: &[u64]) {
        self.plan.mul_accumulate(accumulator, left, right);
    }
}

/// The rings of a parameter set: `q_0 .. q_(L-1)`, then `P`.
pub(super) struct Rns {
    n: usize,
    rings: Vec<PrimeRing>,
    /// `inverses[d][i] = q_d^-1 mod q_i`, for `d != i`.
    inverses: Vec<Vec<Factor>>,
}

impl Rns {
    pub(super) fn new(parameters: &SlotsParameters) -> Self {
        let n = parameters.degree().coefficients();
        let rings: Vec<_> = parameters.primes().iter().map(|&q| PrimeRing::new(n, q)).collect();
        let inverse = |divisor: u64, q: Modulus| q.factor(q.inverse(divisor));
        let inverses = parameters
            .primes()
            .iter()
            .map(|&d| rings.iter().map(|ring| inverse(d, ring.modulus)).collect())
            .collect();
        Self { n, rings, inverses }
    }

    /// Degree `N`.
    pub(super) fn n(&self) -> usize {
        self.n
    }

    /// Ring of prime `index`; the special prime is the last.
    pub(super) fn ring(&self, index: usize) -> &PrimeRing {
        &self.rings[index]
    }

    /// All rings.
    pub(super) fn rings(&self) -> &[PrimeRing] {
        &self.rings
    }

    /// Index of the special prime.
    pub(super) fn special(&self) -> usize {
        self.rings.len() - 1
    }

    /// `q_divisor^-1 mod q_index`, zero when they are the same.
    pub(super) fn inverse(&self, divisor: usize, index: usize) -> Factor {
        self.inverses[divisor][index]
    }

    /// The first `level` rings and the special one: the basis keys of that level live in.
    pub(super) fn extended(&self, level: usize) -> impl Iterator<Item = &PrimeRing> + Clone {
        self.rings[..level].iter().chain(self.rings.last())
    }

    /// Signed coefficients as evaluations modulo the given rings.
    pub(super) fn embed<'a>(
        &self,
        coefficients: &[i64],
        rings: impl Iterator<Item = &'a PrimeRing>,
    ) -> RnsPoly {
        let mut poly = RnsPoly::zero(self.n, 0);
        self.embed_into(coefficients, rings, &mut poly);
        poly
    }

    /// The same into a polynomial whose memory is reused.
    pub(super) fn embed_into<'a>(
        &self,
        coefficients: &[i64],
        rings: impl Iterator<Item = &'a PrimeRing>,
        poly: &mut RnsPoly,
    ) {
        poly.values.clear();
        for ring in rings {
            let start = poly.values.len();
            poly.values.extend(coefficients.iter().map(|&c| ring.modulus.reduce_signed(c)));
            ring.forward(&mut poly.values[start..]);
        }
    }

    /// `round(c / q_d)` for `c` given modulo the primes of `rows` and modulo the divisor `q_d`:
    ///
    /// ```text
    /// c_i <- (c_i - [c]_d) q_d^-1  (mod q_i) ,
    /// ```
    ///
    /// with `[c]_d` the centred residue, in `remainder`. `remainder` comes as evaluations and is
    /// overwritten, as is `lifted`.
    pub(super) fn divide_and_round(
        &self,
        rows: &mut [u64],
        remainder: &mut [u64],
        divisor: usize,
        lifted: &mut [u64],
    ) {
        self.rings[divisor].inverse(remainder);
        for (index, row) in rows.chunks_exact_mut(self.n).enumerate() {
            let ring = &self.rings[index];
            lift(remainder, self.rings[divisor].modulus, ring.modulus, lifted);
            ring.forward(lifted);
            subtract_scaled(row, lifted, ring.modulus, self.inverse(divisor, index));
        }
    }
}

/// Rows of `N` evaluations, one per prime.
#[derive(Clone)]
pub(super) struct RnsPoly {
    n: usize,
    values: Vec<u64>,
}

impl RnsPoly {
    pub(super) fn zero(n: usize, rows: usize) -> Self {
        Self { n, values: vec![0; n * rows] }
    }

    /// Wraps rows of reduced values.
    pub(super) fn from_values(n: usize, values: Vec<u64>) -> Self {
        debug_assert!(values.len().is_multiple_of(n));
        Self { n, values }
    }

    /// Degree `N`.
    pub(super) fn n(&self) -> usize {
        self.n
    }

    /// Number of primes.
    pub(super) fn level(&self) -> usize {
        self.values.len() / self.n
    }

    pub(super) fn row(&self, index: usize) -> &[u64] {
        &self.values[index * self.n..(index + 1) * self.n]
    }

    pub(super) fn row_mut(&mut self, index: usize) -> &mut [u64] {
        &mut self.values[index * self.n..(index + 1) * self.n]
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[u64]> {
        self.values.chunks_exact(self.n)
    }

    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [u64]> {
        self.values.chunks_exact_mut(self.n)
    }

    #[cfg(test)]
    pub(super) fn values(&self) -> &[u64] {
        &self.values
    }

    /// All rows but the last, and the last.
    pub(super) fn split_last(&mut self) -> (&mut [u64], &mut [u64]) {
        let last = self.values.len() - self.n;
        self.values.split_at_mut(last)
    }

    /// Makes it zero over this many primes, in the memory it has.
    pub(super) fn reset(&mut self, rows: usize) {
        self.values.clear();
        self.values.resize(rows * self.n, 0);
    }

    /// Forgets the last row.
    pub(super) fn drop_last(&mut self) {
        self.values.truncate(self.values.len() - self.n);
    }

    /// `self += left right` over the rings of its rows.
    pub(super) fn multiply_accumulate<'a>(
        &mut self,
        left: &RnsPoly,
        right: &RnsPoly,
        rings: impl Iterator<Item = &'a PrimeRing>,
    ) {
        let rows = self.values.chunks_exact_mut(self.n);
        for (((sum, a), b), ring) in rows.zip(left.rows()).zip(right.rows()).zip(rings) {
            ring.multiply_accumulate(sum, a, b);
        }
    }

    /// `self = -self` over the rings of its rows.
    pub(super) fn negate<'a>(&mut self, rings: impl Iterator<Item = &'a PrimeRing>) {
        for (row, ring) in self.rows_mut().zip(rings) {
            row.iter_mut().for_each(|value| *value = ring.modulus.negate(*value));
        }
    }
}

impl Zeroize for RnsPoly {
    fn zeroize(&mut self) {
        self.values.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn toy() -> Rns {
        Rns::new(&SlotsParameters::toy(64, &[60, 40, 60], 40))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn products_of_evaluations_are_negacyclic_products(
            a in prop::collection::vec(-1000_i64..1000, 64),
            b in prop::collection::vec(-1000_i64..1000, 64),
        ) {
            let rns = toy();
            let mut expected = vec![0_i64; 64];
            for i in 0..64 {
                for j in 0..64 {
                    let sign = if i + j < 64 { 1 } else { -1 };
                    expected[(i + j) % 64] += sign * a[i] * b[j];
                }
            }
            let mut product = RnsPoly::zero(64, 3);
            let (a, b) = (rns.embed(&a, rns.rings().iter()), rns.embed(&b, rns.rings().iter()));
            product.multiply_accumulate(&a, &b, rns.rings().iter());
            let expected = rns.embed(&expected, rns.rings().iter());
            prop_assert_eq!(product.values(), expected.values());
        }

        #[test]
        fn division_rounds_to_the_nearest_integer(
            coefficients in prop::collection::vec(any::<i64>(), 64),
        ) {
            let rns = toy();
            let d = i128::from(rns.ring(1).modulus().value());
            let expected: Vec<i64> = coefficients
                .iter()
                .map(|&c| (i128::from(c) + d / 2).div_euclid(d) as i64)
                .collect();
            let mut poly = rns.embed(&coefficients, rns.rings()[..2].iter());
            let (rows, last) = poly.split_last();
            rns.divide_and_round(rows, last, 1, &mut [0; 64]);
            poly.drop_last();
            let expected = rns.embed(&expected, rns.rings()[..1].iter());
            prop_assert_eq!(poly.values(), expected.values());
        }
    }
}
