//! How a release is rounded before it is stored, and what rounding leaves of the leak.

use rand_core::Rng;
use shard_geometry::gaussian::Normals;

use crate::tools::matrix::Matrix;
use crate::view::Release;

/// How coordinates are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `f32`.
    Clean,
    /// Half precision.
    Half,
    /// Eight bits, symmetric, one scale for a release: `s round(x / s)`, `s = max |x| / 127`.
    Int8,
    /// `f32` after Gaussian noise of 1 % of the root mean square of the release's coordinates.
    Noise,
}

impl Format {
    /// As settings spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Half => "fp16",
            Self::Int8 => "int8",
            Self::Noise => "noise-1-percent",
        }
    }

    /// Rounds a release to this format; rows and prefixes are stored apart, each with a scale
    /// of its own.
    pub fn store(self, release: &mut Release, rng: &mut impl Rng) {
        self.round(&mut release.rows, rng);
        if let Some(prefixes) = &mut release.prefixes {
            self.round(prefixes, rng);
        }
    }

    /// Rounds all numbers.
    pub fn round(self, matrix: &mut Matrix, rng: &mut impl Rng) {
        let values = matrix.values_mut();
        match self {
            Self::Clean => {}
            Self::Half => values.iter_mut().for_each(|x| *x = half(*x)),
            Self::Int8 => {
                let largest = values.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
                if largest > 0.0 {
                    let scale = largest / 127.0;
                    values.iter_mut().for_each(|x| *x = (*x / scale).round() * scale);
                }
            }
            Self::Noise => {
                let square = values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64;
                let mut normals = Normals::new(rng);
                values.iter_mut().for_each(|x| *x += 0.01 * square.sqrt() * normals.draw());
            }
        }
        values.iter_mut().for_each(|x| *x = f64::from(*x as f32));
    }
}

/// The nearest number in half precision (ten bits of fraction, exponents -14 to 15), ties to even,
/// saturating.
fn half(x: f64) -> f64 {
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let step = 2_f64.powi(exponent.max(-14) - 10);
    ((x / step).round_ties_even() * step).clamp(-65504.0, 65504.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::statistics::generator;

    #[test]
    fn half_precision_keeps_eleven_bits() {
        assert_eq!(half(1.0 + 1.0 / 1024.0), 1.0 + 1.0 / 1024.0);
        assert_eq!(half(1.0 + 1.0 / 4096.0), 1.0);
        assert_eq!(half(1.0 + 3.0 / 2048.0), 1.0 + 2.0 / 1024.0, "ties to even");
        assert_eq!(half(-0.1), -0.0999755859375);
        assert_eq!(half(2_f64.powi(-24)), 2_f64.powi(-24), "the smallest there is");
        assert_eq!(half(2_f64.powi(-26)), 0.0);
        assert_eq!(half(1e9), 65504.0);
    }

    #[test]
    fn eight_bits_have_255_levels_and_noise_the_deviation_named() {
        let mut rng = generator(3, 0);
        let normal = Matrix::normal(400, 50, &mut rng);
        let mut rounded = normal.clone();
        Format::Int8.round(&mut rounded, &mut rng);
        let mut levels: Vec<u32> =
            rounded.values().iter().map(|&x| (x as f32 + 0.0).to_bits()).collect();
        levels.sort_unstable();
        levels.dedup();
        assert!((100..=255).contains(&levels.len()), "{}", levels.len());
        let mut noisy = normal.clone();
        Format::Noise.round(&mut noisy, &mut rng);
        let differences = noisy.values().iter().zip(normal.values()).map(|(a, b)| (a - b).powi(2));
        let deviation = (differences.sum::<f64>() / 20_000.0).sqrt();
        assert!((deviation - 0.01).abs() < 0.0005, "{deviation}");
    }
}
