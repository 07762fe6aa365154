//! The tail of the normal distribution, without overflow or underflow.
//!
//! The Mills ratio `R(x) = Phi(-x) / phi(x)` falls gently from `sqrt(pi/2)` at zero like `1/x`, where
//! the tail `Phi(-x)` itself leaves the range of floating point at 38 deviations. It is the scaled
//! complementary error function, `R(x) = sqrt(pi/2) erfcx(x / sqrt(2))`.

/// Where the series hands over to the continued fraction.
const SERIES_LIMIT: f64 = 2.0;

/// Terms of the series: at `x = 2` the hundredth is below `1e-60`.
const SERIES_TERMS: u32 = 100;

/// Depth of the continued fraction: what is cut off at depth `n` is about `exp(-2 x sqrt(2 n))`, at
/// `x = 2` below `1e-24`.
const FRACTION_DEPTH: u32 = 100;

/// `R(x) = Phi(-x) / phi(x)` for `x >= 0`, to a relative error of `1e-14`.
///
/// Up to two by `R(x) = sqrt(pi/2) exp(x^2/2) - (x + x^3/3 + x^5/(3*5) + ...)`, of which two digits
/// cancel at most; from there by Laplace's `R(x) = 1/(x + 1/(x + 2/(x + 3/(x + ...))))`, from the
/// inside out.
pub fn mills_ratio(x: f64) -> f64 {
    debug_assert!(x >= 0.0, "the ratio of an upper tail");
    if x < SERIES_LIMIT {
        let (mut term, mut sum) = (x, x);
        for at in 1..SERIES_TERMS {
            term *= x * x / f64::from(2 * at + 1);
            sum += term;
        }
        (std::f64::consts::PI / 2.0).sqrt() * (x * x / 2.0).exp() - sum
    } else {
        let inside = (1..=FRACTION_DEPTH).rev().fold(x, |below, at| x + f64::from(at) / below);
        1.0 / inside
    }
}

/// The density `phi(x) = exp(-x^2/2) / sqrt(2 pi)`.
pub fn density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_has_fourteen_digits_on_both_sides_of_the_hand_over() {
        // `mpmath.ncdf(-x) / mpmath.npdf(x)` with 40 digits.
        let known = [
            (0.0, 1.2533141373155003),
            (0.5, 0.8763644564536923),
            (1.5, 0.5158156382179634),
            (1.9999, 0.4213849559764444),
            (2.0, 0.4213692292880545),
            (2.5, 0.35426511132979366),
            (5.0, 0.19280810471531576),
            (12.0, 0.08276628650136918),
            (37.5, 0.02664774401489855),
            (250.0, 0.003999936003071755),
        ];
        for (x, expected) in known {
            let error = (mills_ratio(x) / expected - 1.0).abs();
            assert!(error < 1e-14, "R({x}) is off by {error:e}");
        }
    }

    #[test]
    fn ratio_falls_and_stays_finite_where_the_tail_itself_underflows() {
        let mut before = f64::INFINITY;
        for step in 0..4000 {
            let ratio = mills_ratio(f64::from(step) * 0.01);
            assert!(ratio < before && ratio > 0.0);
            before = ratio;
        }
        assert_eq!(density(400.0), 0.0);
        assert!((mills_ratio(400.0) * 400.0 - 1.0).abs() < 1e-5);
    }
}
