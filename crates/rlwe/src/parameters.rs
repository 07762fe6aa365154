//! Parameter sets: validated once, refused when insecure.

use std::fmt;

/// The ring modulus `q`: the largest prime below `2^50` with `q = 1 (mod 2^16)`, so that every
/// supported degree up to 32768 has its negacyclic transform. Staying below `2^51` keeps the
/// 52-bit multiply-add transform of recent CPUs; staying near `2^50` makes rejection in uniform
/// sampling a one-in-2^29 event.
pub const MODULUS: u64 = 0x3_ffff_ffdf_0001;

/// Bits of [`MODULUS`].
pub(crate) const MODULUS_BITS: u32 = 50;

/// The degree `N` of the ring `Z_q[X] / (X^N + 1)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RingDegree(u32);

impl RingDegree {
    /// 2048 coefficients, the default.
    pub const N2048: Self = Self(2048);
    /// 4096 coefficients.
    pub const N4096: Self = Self(4096);
    /// 8192 coefficients.
    pub const N8192: Self = Self(8192);

    /// The degree with this many coefficients.
    pub fn new(coefficients: usize) -> Result<Self, ParameterError> {
        match u32::try_from(coefficients) {
            Ok(n) if n.is_power_of_two() && (64..=32_768).contains(&n) => Ok(Self(n)),
            _ => Err(ParameterError::Degree(coefficients)),
        }
    }

    /// `N`.
    pub fn coefficients(self) -> usize {
        self.0 as usize
    }

    /// `log2 N`.
    pub fn log2(self) -> u32 {
        self.0.trailing_zeros()
    }

    /// Largest `log2 q` with 128 bits of security against a quantum adversary for a ternary
    /// secret and error width 3.2, from the HomomorphicEncryption.org standard. The classical
    /// ceiling is 3, 8 and 16 bits higher at 2048, 4096 and 8192; the stricter one binds.
    pub fn max_modulus_bits(self) -> u32 {
        match self.0 {
            1024 => 25,
            2048 => 51,
            4096 => 101,
            8192 => 202,
            16_384 => 411,
            32_768 => 827,
            _ => 0, // below 1024 nothing is secure
        }
    }

    /// Whether [`MODULUS`] is within the ceiling.
    pub fn is_secure(self) -> bool {
        MODULUS_BITS <= self.max_modulus_bits()
    }
}

impl fmt::Display for RingDegree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Why a parameter set cannot be built.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum ParameterError {
    /// Not a power of two in the supported range.
    #[error("ring degree {0} is not a power of two between 64 and 32768")]
    Degree(usize),
    /// The modulus is too large for the degree: the lattice problem is too easy.
    #[error(
        "ring degree {degree} with a {modulus_bits}-bit modulus is insecure: \
         at most {ceiling} bits give 128-bit security"
    )]
    Insecure {
        /// Requested degree.
        degree: RingDegree,
        /// Bits of the modulus.
        modulus_bits: u32,
        /// Bits allowed at this degree.
        ceiling: u32,
    },
    /// The upload keeps too few or too many bits of a coefficient.
    #[error("{0} upload bits per coefficient: between 30 and 50 are supported")]
    UploadBits(u32),
    /// The response keeps too few or too many bits of a coefficient.
    #[error("{0} response bits per coefficient: between 12 and 32 are supported")]
    ResponseBits(u32),
}

/// A validated parameter set: everything both sides must agree on to talk about ciphertexts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameters {
    degree: RingDegree,
    upload_bits: u32,
    response_bits: u32,
}

impl Parameters {
    /// Checks `(N, log2 q)` against the security ceiling and the bit counts against what the
    /// arithmetic supports.
    ///
    /// `upload_bits` of each query coefficient are sent, the low ones rounded away;
    /// `response_bits` is the power-of-two modulus the response is switched to.
    pub fn new(
        degree: RingDegree,
        upload_bits: u32,
        response_bits: u32,
    ) -> Result<Self, ParameterError> {
        let ceiling = degree.max_modulus_bits();
        if !degree.is_secure() {
            return Err(ParameterError::Insecure { degree, modulus_bits: MODULUS_BITS, ceiling });
        }
        Self::unchecked_security(degree, upload_bits, response_bits)
    }

    fn unchecked_security(
        degree: RingDegree,
        upload_bits: u32,
        response_bits: u32,
    ) -> Result<Self, ParameterError> {
        if !(30..=MODULUS_BITS).contains(&upload_bits) {
            return Err(ParameterError::UploadBits(upload_bits));
        }
        if !(12..=32).contains(&response_bits) {
            return Err(ParameterError::ResponseBits(response_bits));
        }
        Ok(Self { degree, upload_bits, response_bits })
    }

    /// An insecure set for tests that need a small ring.
    #[cfg(test)]
    pub fn toy(degree: usize, upload_bits: u32, response_bits: u32) -> Self {
        let degree = RingDegree::new(degree).expect("toy degree is a supported power of two");
        Self::unchecked_security(degree, upload_bits, response_bits)
            .expect("toy bit counts are supported")
    }

    /// Ring degree.
    pub fn degree(&self) -> RingDegree {
        self.degree
    }

    /// Bits of each uploaded coefficient.
    pub fn upload_bits(&self) -> u32 {
        self.upload_bits
    }

    /// Low bits of each query coefficient that are rounded away before the upload.
    pub fn dropped_bits(&self) -> u32 {
        MODULUS_BITS - self.upload_bits
    }

    /// Bits of each coefficient that comes back.
    pub fn response_bits(&self) -> u32 {
        self.response_bits
    }

    /// `log2 q`, for reports.
    pub fn log2_modulus(&self) -> f64 {
        (MODULUS as f64).log2()
    }
}

impl Default for Parameters {
    /// `N = 2048`, 45 bits up, 26 bits down: an error near 4e-7 of the largest possible score.
    fn default() -> Self {
        Self::new(RingDegree::N2048, 45, 26).expect("the default set is within its ceiling")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insecure_degree_is_refused_with_both_figures() {
        let degree = RingDegree::new(1024).unwrap();
        assert_eq!(
            Parameters::new(degree, 45, 26),
            Err(ParameterError::Insecure { degree, modulus_bits: 50, ceiling: 25 })
        );
        assert!(Parameters::new(RingDegree::new(512).unwrap(), 45, 26).is_err());
    }

    #[test]
    fn every_degree_from_2048_up_is_accepted() {
        for n in [2048, 4096, 8192, 16_384, 32_768] {
            assert!(Parameters::new(RingDegree::new(n).unwrap(), 50, 32).is_ok(), "{n}");
        }
    }

    #[test]
    fn odd_degrees_and_bit_counts_are_refused() {
        assert_eq!(RingDegree::new(2047), Err(ParameterError::Degree(2047)));
        assert_eq!(RingDegree::new(65_536), Err(ParameterError::Degree(65_536)));
        let n = RingDegree::N2048;
        assert_eq!(Parameters::new(n, 51, 26), Err(ParameterError::UploadBits(51)));
        assert_eq!(Parameters::new(n, 50, 33), Err(ParameterError::ResponseBits(33)));
    }

    #[test]
    fn modulus_is_a_prime_with_a_transform_at_every_degree() {
        assert_eq!(MODULUS.ilog2() + 1, MODULUS_BITS);
        assert_eq!(MODULUS % (1 << 16), 1);
        // Trial division: sqrt(2^50) is 2^25.
        assert!((3..1_u64 << 25).step_by(2).all(|d| !MODULUS.is_multiple_of(d)));
    }
}
