//! The secret key and the one thing it does besides encrypting: reading coefficients.

use zeroize::ZeroizeOnDrop;

use crate::parameters::RingDegree;
use crate::ring::{Evaluations, Poly, Ring, reduce_signed};
use crate::sample::ternary;
use crate::simd::dispatch;

/// A ternary secret `s`. Wiped on drop, prints redacted, cannot be compared or encoded.
#[derive(ZeroizeOnDrop)]
pub(crate) struct SecretKey {
    evaluations: Poly<Evaluations>,
    /// `window[i] = sigma(N - 1 - i)` with `sigma(t) = s_t` for `t >= 0` and `-s_(N+t)` for
    /// `t < 0`, modulo `2^32`: coefficient `k` of `c s` is the inner product of `c` with the
    /// window that starts at `N - 1 - k`.
    window: Vec<u32>,
    #[zeroize(skip)]
    degree: RingDegree,
}

impl SecretKey {
    pub(crate) fn expand(ring: &Ring, key: &[u8; 32]) -> Self {
        let degree = ring.degree();
        let n = degree.coefficients();
        let s = ternary(degree, key);
        let reduced = s.iter().map(|&v| reduce_signed(i64::from(v))).collect();
        let evaluations = ring.forward(Poly::from_values(reduced));
        let ascending = s.iter().rev().map(|&v| i32::from(v) as u32);
        let wrapped = s.iter().skip(1).rev().map(|&v| -i32::from(v) as u32);
        let mut window = Vec::with_capacity(2 * n - 1);
        window.extend(ascending);
        window.extend(wrapped);
        Self { evaluations, window, degree }
    }

    /// `s` as evaluations.
    pub(crate) fn evaluations(&self) -> &[u64] {
        self.evaluations.values()
    }

    /// Calls `sink(target, coefficient)` for every coefficient of `s(X^g)`, `g` odd.
    pub(crate) fn permuted(&self, g: usize, mut sink: impl FnMut(usize, i32)) {
        let n = self.degree.coefficients();
        for i in 0..n {
            let s = self.window[n - 1 - i] as i32; // window[N - 1 - i] = s_i
            let exponent = g * i % (2 * n);
            if exponent < n { sink(exponent, s) } else { sink(exponent - n, -s) }
        }
    }

    /// Coefficient `k` of `c s` modulo `2^32`. Constant in time over `s` and `c`.
    pub(crate) fn product_coefficient(&self, c: &[u32], k: usize) -> u32 {
        let n = self.degree.coefficients();
        let window = &self.window[n - 1 - k..2 * n - 1 - k];
        dispatch(
            #[inline(always)]
            || inner_product(c, window),
        )
    }
}

#[inline(always)]
fn inner_product(a: &[u32], b: &[u32]) -> u32 {
    a.iter().zip(b).fold(0_u32, |sum, (x, y)| sum.wrapping_add(x.wrapping_mul(*y)))
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windowed_product_equals_the_ring_product() {
        let degree = RingDegree::new(64).unwrap();
        let ring = Ring::new(degree);
        let key = SecretKey::expand(&ring, &[5; 32]);
        let s = ternary(degree, &[5; 32]);
        let c: Vec<u32> = (0..64).map(|i: u32| i.wrapping_mul(0x9e37_79b9)).collect();
        for k in 0..64 {
            let mut expected = 0_u32;
            for (j, &sj) in s.iter().enumerate() {
                let (index, sign) = if k >= j { (k - j, 1) } else { (64 + k - j, -1) };
                expected =
                    expected.wrapping_add(c[index].wrapping_mul((sign * i32::from(sj)) as u32));
            }
            assert_eq!(key.product_coefficient(&c, k), expected, "coefficient {k}");
        }
    }
}
