//! Polynomials over a chain of primes.
//!
//! Everything that is kept is kept as evaluations: row `i` of a polynomial holds its values at
//! the `N` primitive `2N`-th roots of unity modulo `q_i`, in the transform's bit-reversed order
//! (position `k` is the root `psi^(2 rev(k) + 1)`). Products are pointwise there, and the
//! automorphism `X -> X^g` only permutes the roots.

use zeroize::Zeroize;

use super::modulus::{Factor, Modulus, lift, subtract_scaled};
use super::parameters::SlotsParameters;
use crate::ntt::{Backend, Ntt};
use crate::parameters::RingDegree;

/// One prime and its negacyclic transform.
pub(super) struct PrimeRing {
    modulus: Modulus,
    ntt: Box<dyn Ntt>,
}

impl PrimeRing {
    fn new(degree: RingDegree, prime: u64, backend: Backend) -> Self {
        Self { modulus: Modulus::new(prime), ntt: backend.build_over(degree, prime) }
    }

    pub(super) fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// Coefficients to evaluations.
    pub(super) fn forward(&self, row: &mut [u64]) {
        self.ntt.forward(row);
    }

    /// Evaluations to coefficients.
    pub(super) fn inverse(&self, row: &mut [u64]) {
        self.ntt.inverse(row);
    }

    /// `accumulator += left right`, pointwise.
    pub(super) fn multiply_accumulate(&self, accumulator: &mut [u64], left: &[u64], right: &[u64]) {
        self.ntt.multiply_accumulate(accumulator, left, right);
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
    /// With the backend of this process, as [`Ring::new`](crate::Ring::new) takes it.
    pub(super) fn new(parameters: &SlotsParameters) -> Self {
        Self::with_backend(parameters, Backend::from_environment().unwrap_or_default())
    }

    fn with_backend(parameters: &SlotsParameters, backend: Backend) -> Self {
        let degree = parameters.degree();
        let ring = |&prime: &u64| PrimeRing::new(degree, prime, backend);
        let rings: Vec<_> = parameters.primes().iter().map(ring).collect();
        let inverse = |divisor: u64, q: Modulus| q.factor(q.inverse(divisor));
        let inverses = parameters
            .primes()
            .iter()
            .map(|&d| rings.iter().map(|ring| inverse(d, ring.modulus)).collect())
            .collect();
        Self { n: degree.coefficients(), rings, inverses }
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
        rings: impl Iterator<Item = &'a PrimeRing> + Clone,
    ) -> RnsPoly {
        let mut poly = RnsPoly::zero(self.n, 0);
        // Growing would leave copies behind that are not wiped.
        poly.values.reserve_exact(self.n * rings.clone().count());
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

    /// Memory it holds.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.values[..])
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

    fn toys() -> impl Iterator<Item = Rns> {
        let parameters = SlotsParameters::toy(64, &[60, 40, 60], 40);
        Backend::ALL.iter().map(move |&backend| Rns::with_backend(&parameters, backend))
    }

    /// Residues that make sums and products as large as they get, units, and mixed ones.
    fn rows(n: usize, q: u64) -> Vec<Vec<u64>> {
        let by_position = |value: &dyn Fn(usize) -> u64| (0..n).map(value).collect::<Vec<_>>();
        vec![
            vec![q - 1; n],
            vec![q / 2 + 1; n],
            by_position(&|i| if i % 2 == 0 { q - 1 } else { 0 }),
            by_position(&|i| u64::from(i == 1)),
            by_position(&|i| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) % q),
        ]
    }

    /// Residues travel as evaluations: what one backend writes another must read.
    #[test]
    fn every_backend_gives_the_same_bits_over_the_papers_primes() {
        let primes = SlotsParameters::paper().primes().to_vec();
        for (&q, log) in primes.iter().flat_map(|q| (6..=13).map(move |log| (q, log))) {
            let degree = RingDegree::new(1 << log).unwrap();
            let results = Backend::ALL.iter().map(|&backend| {
                let ring = PrimeRing::new(degree, q, backend);
                let rows = rows(1 << log, q);
                let mut results = Vec::new();
                for row in &rows {
                    let (mut there, mut back, mut sum) = (row.clone(), row.clone(), row.clone());
                    ring.forward(&mut there);
                    ring.inverse(&mut back);
                    ring.multiply_accumulate(&mut sum, row, &rows[4]);
                    let mut home = there.clone();
                    ring.inverse(&mut home);
                    assert_eq!(&home, row, "{backend:?} at {degree:?} modulo {q}");
                    results.extend([there, back, sum]);
                }
                results
            });
            let results: Vec<_> = results.collect();
            assert!(results.iter().all(|r| *r == results[0]), "{degree:?} modulo {q}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn products_of_evaluations_are_negacyclic_products(
            a in prop::collection::vec(-1000_i64..1000, 64),
            b in prop::collection::vec(-1000_i64..1000, 64),
        ) {
            let mut expected = vec![0_i64; 64];
            for i in 0..64 {
                for j in 0..64 {
                    let sign = if i + j < 64 { 1 } else { -1 };
                    expected[(i + j) % 64] += sign * a[i] * b[j];
                }
            }
            for rns in toys() {
                let embed = |coefficients: &[i64]| rns.embed(coefficients, rns.rings().iter());
                let mut product = RnsPoly::zero(64, 3);
                product.multiply_accumulate(&embed(&a), &embed(&b), rns.rings().iter());
                let expected = embed(&expected);
                prop_assert_eq!(product.values(), expected.values());
            }
        }

        #[test]
        fn division_rounds_to_the_nearest_integer(
            coefficients in prop::collection::vec(any::<i64>(), 64),
        ) {
            for rns in toys() {
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
}
