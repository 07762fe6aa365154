//! Standard normal numbers from raw random words, with the same bits on every machine.
//!
//! A key is derived from its secret each time it is needed, possibly on another machine, so the numbers must depend on
//! the words alone. Marsaglia's polar method needs one logarithm and one square root for two numbers. IEEE 754 fixes
//! `+ - * /` and the square root to the last bit, but not the logarithm of a platform's `libm`, so `natural_log` is our
//! own. Nothing here fuses a multiplication with an addition.

use rand_core::Rng;

use crate::random::unit;

/// A stream of independent standard normal numbers.
#[derive(Debug)]
pub struct Normals<'r, R> {
    rng: &'r mut R,
    spare: Option<f64>,
}

impl<'r, R: Rng> Normals<'r, R> {
    /// Draws from the words of `rng`.
    pub fn new(rng: &'r mut R) -> Self {
        Self { rng, spare: None }
    }

    /// The next number.
    ///
    /// For `(a, b)` uniform in the unit disc with `s = a^2 + b^2`, both `a sqrt(-2 ln(s) / s)` and
    /// `b sqrt(-2 ln(s) / s)` are standard normal and independent.
    pub fn draw(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let a = 2.0 * unit(self.rng) - 1.0;
            let b = 2.0 * unit(self.rng) - 1.0;
            let s = a * a + b * b;
            if s < 1.0 && s > 0.0 {
                let factor = (-2.0 * natural_log(s) / s).sqrt();
                self.spare = Some(b * factor);
                return a * factor;
            }
        }
    }

    /// Fills a slice, in order.
    pub fn fill(&mut self, out: &mut [f64]) {
        out.fill_with(|| self.draw());
    }
}

/// `ln(x)` of a positive, normal, finite number, to about `1e-15` relative.
///
/// `x = 2^e m` with `m` in `[sqrt(1/2), sqrt(2))`, and `ln m = 2 atanh(f) = 2 (f + f^3/3 + f^5/5 + ...)` with
/// `f = (m - 1) / (m + 1)`, so `f^2 < 0.0295` and the terms after `f^23` are below `1e-18`.
fn natural_log(x: f64) -> f64 {
    /// `ln 2` in two parts; the first has 21 trailing zero bits, so `e * LN_2_HIGH` is exact.
    const LN_2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
    const LN_2_LOW: f64 = f64::from_bits(0x3DEA_39EF_3579_3C76);
    /// `1/23, 1/21, .. 1/3`, the order in which the series is summed.
    const RECIPROCALS: [f64; 11] = {
        let mut reciprocals = [0.0; 11];
        let mut at = 0;
        while at < reciprocals.len() {
            reciprocals[at] = 1.0 / (23 - 2 * at) as f64;
            at += 1;
        }
        reciprocals
    };
    const MANTISSA: u64 = (1 << 52) - 1;
    const BIAS: i64 = 1023;

    debug_assert!(x.is_normal() && x > 0.0);
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - BIAS;
    let mut mantissa = f64::from_bits((bits & MANTISSA) | (BIAS as u64) << 52);
    if mantissa >= std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    let f = (mantissa - 1.0) / (mantissa + 1.0);
    let square = f * f;
    let series = RECIPROCALS.iter().fold(0.0, |series, reciprocal| (series + reciprocal) * square);
    let exponent = exponent as f64;
    exponent * LN_2_HIGH + (2.0 * (f + f * series) + exponent * LN_2_LOW)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::*;

    proptest! {
        #[test]
        fn logarithm_agrees_with_the_platform(mantissa in 1.0f64..2.0, exponent in -110i32..20) {
            let x = mantissa * 2f64.powi(exponent);
            prop_assert!((natural_log(x) - x.ln()).abs() <= 2e-15 * x.ln().abs());
        }

        #[test]
        fn logarithm_is_relatively_accurate_next_to_one(offset in -1e-3f64..1e-3) {
            let x = 1.0 + offset;
            prop_assert!((natural_log(x) - x.ln()).abs() <= 2e-15 * x.ln().abs());
        }
    }

    #[test]
    fn logarithm_is_exact_where_it_is_an_integer_or_zero() {
        assert_eq!(natural_log(1.0), 0.0);
        assert_eq!(natural_log(2.0), std::f64::consts::LN_2);
        assert_eq!(natural_log(0.5), -std::f64::consts::LN_2);
    }

    #[test]
    fn numbers_have_the_moments_and_tails_of_a_standard_normal() {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let mut numbers = vec![0.0; 400_000];
        Normals::new(&mut rng).fill(&mut numbers);
        let count = numbers.len() as f64;
        let moment = |power: i32| numbers.iter().map(|x| x.powi(power)).sum::<f64>() / count;
        // Six standard errors each: Var(x^k) = (2k-1)!! - ((k-1)!!)^2 for even k.
        let bound = |variance: f64| 6.0 * (variance / count).sqrt();
        assert!(moment(1).abs() < bound(1.0));
        assert!((moment(2) - 1.0).abs() < bound(2.0));
        assert!(moment(3).abs() < bound(15.0));
        assert!((moment(4) - 3.0).abs() < bound(96.0));
        let beyond =
            numbers.iter().filter(|x| x.abs() > 1.959_963_984_540_054).count() as f64 / count;
        assert!((beyond - 0.05).abs() < bound(0.05 * 0.95));
        let pairs =
            numbers.chunks_exact(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / (count / 2.0);
        assert!(pairs.abs() < bound(2.0));
    }

    /// Words of ChaCha20 with the key `00 01 .. 1f` and stream 0, as `rand_chacha` 0.10 gives them.
    #[test]
    fn numbers_from_fixed_words_never_change() {
        let mut rng = ChaCha20Rng::from_seed(std::array::from_fn(|at| at as u8));
        let mut normals = Normals::new(&mut rng);
        let bits: [u64; 6] = std::array::from_fn(|_| normals.draw().to_bits());
        let expected = [
            0xBFE4_F2AA_C879_0BF2,
            0xBFFA_2A58_6E5E_110F,
            0x3FF5_C227_DE93_0EFE,
            0x3FD4_AA35_41F2_D942,
            0x3FF9_D72E_61C5_BA83,
            0xBFF0_7937_7DEC_E6EC,
        ];
        assert_eq!(bits, expected);
    }
}
