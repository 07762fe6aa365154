//! The negacyclic number-theoretic transform, behind a trait so that it can be replaced.
//!
//! There are two implementations and a run-time choice between them, [`Backend`]. They agree to
//! the bit, so a client on one talks to a server on the other.

use std::sync::OnceLock;

#[cfg(feature = "tfhe")]
use crate::parameters::MODULUS;
use crate::parameters::RingDegree;
use crate::portable::PortableNtt;

/// A negacyclic NTT over one prime `q`, [`MODULUS`](crate::MODULUS) or one of the chain of
/// the slot layout: pointwise products of transforms are products in
/// `Z_q[X] / (X^N + 1)`.
///
/// The uniform part of a ciphertext is sampled in this domain, so both sides must agree on what
/// a position means. Every implementation puts `f(psi^(2 rev(j) + 1))` at position `j`, where
/// `rev` reverses the `log2 N` bits of `j` and `psi` is the root [`PortableNtt`] names.
pub trait Ntt: Send + Sync {
    /// Coefficients to evaluations, in place; inputs and outputs below `q`.
    fn forward(&self, values: &mut [u64]);
    /// Evaluations to coefficients, in place, normalised; inputs and outputs below `q`.
    fn inverse(&self, values: &mut [u64]);
    /// `accumulator += left * right` pointwise modulo `q`.
    fn multiply_accumulate(&self, accumulator: &mut [u64], left: &[u64], right: &[u64]);
}

/// The environment variable that forces a backend for the whole process.
pub const BACKEND_VARIABLE: &str = "SHARD_NTT";

/// Which implementation of the transform a ring uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Backend {
    /// [`TfheNtt`]: the faster one where the CPU has AVX-512 IFMA.
    #[cfg(feature = "tfhe")]
    Tfhe,
    /// [`PortableNtt`]: the faster one everywhere else, and under this project's licence alone.
    Portable,
}

impl Default for Backend {
    /// The faster one on this CPU. At `N = 2048` a forward transform takes 3.4 us by IFMA and
    /// 5.4 us by [`PortableNtt`]; with AVX2 only, 9.3 us and 5.9 us.
    fn default() -> Self {
        #[cfg(feature = "tfhe")]
        if TfheNtt::uses_ifma() {
            return Self::Tfhe;
        }
        Self::Portable
    }
}

/// A backend was asked for by a name that this build does not know.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
#[error("{BACKEND_VARIABLE} is {actual:?}; this build knows {}", Backend::names())]
pub struct UnknownBackend {
    /// The name given.
    pub actual: String,
}

impl Backend {
    /// Every backend of this build.
    pub const ALL: &[Self] = &[
        #[cfg(feature = "tfhe")]
        Self::Tfhe,
        Self::Portable,
    ];

    /// The name that [`BACKEND_VARIABLE`] takes.
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "tfhe")]
            Self::Tfhe => "tfhe",
            Self::Portable => "portable",
        }
    }

    fn names() -> String {
        Self::ALL.iter().map(|backend| backend.name()).collect::<Vec<_>>().join(", ")
    }

    fn from_name(name: &str) -> Result<Self, UnknownBackend> {
        let known = Self::ALL.iter().find(|backend| backend.name() == name);
        known.copied().ok_or_else(|| UnknownBackend { actual: name.to_owned() })
    }

    /// The backend of this process: what [`BACKEND_VARIABLE`] says, the default where it is not
    /// set or is empty. Read once; a later change of the environment has no effect.
    pub fn from_environment() -> Result<Self, UnknownBackend> {
        static CHOSEN: OnceLock<Result<Backend, UnknownBackend>> = OnceLock::new();
        let choose = || match std::env::var_os(BACKEND_VARIABLE) {
            Some(name) if !name.is_empty() => Self::from_name(&name.to_string_lossy()),
            _ => Ok(Self::default()),
        };
        CHOSEN.get_or_init(choose).clone()
    }

    /// The transform of one degree over [`MODULUS`](crate::MODULUS).
    pub(crate) fn build(self, degree: RingDegree) -> Box<dyn Ntt> {
        match self {
            #[cfg(feature = "tfhe")]
            Self::Tfhe => Box::new(TfheNtt::new(degree)),
            Self::Portable => Box::new(PortableNtt::new(degree)),
        }
    }

    /// The transform of one degree over another prime below `2^62` that is 1 modulo `2N`.
    pub(crate) fn build_over(self, degree: RingDegree, prime: u64) -> Box<dyn Ntt> {
        match self {
            #[cfg(feature = "tfhe")]
            Self::Tfhe => Box::new(TfheNtt::over(degree, prime)),
            Self::Portable => Box::new(PortableNtt::over(degree.coefficients(), prime)),
        }
    }
}

/// The transform of the `tfhe-ntt` crate, which picks AVX-512 IFMA, AVX-512, AVX2 or scalar code
/// at run time. All four run the same stages with the same table of roots and undo their lane
/// shuffles after every stage, so the order of the values does not depend on the CPU.
#[cfg(feature = "tfhe")]
pub struct TfheNtt(tfhe_ntt::prime64::Plan);

#[cfg(feature = "tfhe")]
impl TfheNtt {
    /// The transform of one degree over [`MODULUS`].
    pub fn new(degree: RingDegree) -> Self {
        Self::over(degree, MODULUS) // 1 modulo 2^16, so every supported degree has one
    }

    /// The transform over another prime that is 1 modulo `2N`.
    pub(crate) fn over(degree: RingDegree, prime: u64) -> Self {
        let plan = tfhe_ntt::prime64::Plan::try_new(degree.coefficients(), prime)
            .expect("a prime equal to 1 modulo 2 N has a transform of degree N");
        Self(plan)
    }

    /// Whether the library multiplies with AVX-512 IFMA on this machine, which is a property of
    /// CPU and modulus and not of the degree.
    fn uses_ifma() -> bool {
        let smallest = RingDegree::new(64).expect("64 is a supported degree");
        Self::new(smallest).0.use_ifma()
    }
}

#[cfg(feature = "tfhe")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_is_found_by_its_name() {
        for &backend in Backend::ALL {
            assert_eq!(Backend::from_name(backend.name()), Ok(backend));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = Backend::from_name("protable").unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("SHARD_NTT is \"protable\""), "{text}");
        assert!(Backend::ALL.iter().all(|backend| text.contains(backend.name())), "{text}");
    }

    /// A run of the suite under a misspelt name would otherwise test the default once more.
    #[test]
    fn the_environment_of_the_tests_names_a_backend_and_rings_use_it() {
        let backend = Backend::from_environment().unwrap();
        let forced = std::env::var(BACKEND_VARIABLE).unwrap_or_default();
        assert!(forced.is_empty() || forced == backend.name());
        let ring = crate::ring::Ring::shared(RingDegree::N2048);
        assert_eq!(ring.backend(), backend);
    }
}
