//! A negacyclic transform of our own: plain Rust, any CPU, the same values as `tfhe-ntt`.

mod fused;
mod integer;
#[cfg(test)]
mod tests;

use pulp::{Arch, Simd, WithSimd};

use crate::ntt::Ntt;
use crate::parameters::{MODULUS, RingDegree};
use crate::prime::{invert, multiply, root_of_unity};
use crate::simd::dispatch;

/// The transform in plain Rust.
///
/// Position `j` of the evaluations holds `f(psi^(2 rev(j) + 1))`, where `rev` reverses the
/// `log2 N` bits of `j` and `psi` is a primitive `2N`-th root: the one that square roots by
/// Tonelli-Shanks with the smallest non-residue lead to from `-1`, `26113207984^(32768 / N)`
/// for [`MODULUS`]. The stages are the usual ones (decimation in time forward, in frequency
/// back, roots in bit-reversed order); only the way a product is reduced depends on the CPU.
/// Every result is the one residue in `[0, q)`, so the bits do not.
///
/// Neither way branches on a value or indexes by one: secrets pass through this transform.
pub struct PortableNtt {
    /// How many values it transforms.
    points: usize,
    kernel: Kernel,
}

/// How products are reduced.
enum Kernel {
    /// 64-bit integers, one value at a time: every CPU, every prime.
    Integer(integer::Tables),
    /// Fused multiply-add on doubles, many values at a time, over primes below `2^50`: a third of
    /// the time where the CPU has it in its vector unit.
    Fused(fused::Tables),
}

impl PortableNtt {
    /// The transform of one degree over [`MODULUS`].
    pub fn new(degree: RingDegree) -> Self {
        Self::over(degree.coefficients(), MODULUS)
    }

    /// The transform of a power of two of points over any prime below `2^62` that is 1 modulo
    /// twice as many, with the fastest arithmetic of this machine.
    pub(crate) fn over(points: usize, prime: u64) -> Self {
        if points >= fused::LEAST_POINTS && prime < 1 << 50 && has_fused_lanes() {
            Self::fused(points, prime)
        } else {
            Self::integer(points, prime)
        }
    }

    fn integer(points: usize, prime: u64) -> Self {
        let tables = integer::Tables::new(&Roots::new(points, prime));
        Self { points, kernel: Kernel::Integer(tables) }
    }

    fn fused(points: usize, prime: u64) -> Self {
        let tables = fused::Tables::new(&Roots::new(points, prime));
        Self { points, kernel: Kernel::Fused(tables) }
    }

    /// # Panics
    /// When the buffer is not of the transform's degree; the ring passes no other.
    fn check(&self, values: &[u64]) {
        assert_eq!(values.len(), self.points, "a buffer of N values");
    }
}

impl Ntt for PortableNtt {
    fn forward(&self, values: &mut [u64]) {
        self.check(values);
        match &self.kernel {
            Kernel::Integer(tables) => integer::forward(values, tables),
            Kernel::Fused(tables) => dispatch(
                #[inline(always)]
                || fused::forward(values, tables),
            ),
        }
    }

    fn inverse(&self, values: &mut [u64]) {
        self.check(values);
        match &self.kernel {
            Kernel::Integer(tables) => integer::inverse(values, tables),
            Kernel::Fused(tables) => dispatch(
                #[inline(always)]
                || fused::inverse(values, tables),
            ),
        }
    }

    fn multiply_accumulate(&self, accumulator: &mut [u64], left: &[u64], right: &[u64]) {
        match &self.kernel {
            Kernel::Integer(tables) => {
                integer::multiply_accumulate(accumulator, left, right, tables);
            }
            Kernel::Fused(tables) => dispatch(
                #[inline(always)]
                || fused::multiply_accumulate(accumulator, left, right, tables),
            ),
        }
    }
}

/// Whether the vector unit has fused multiply-add. Elsewhere `f64::mul_add` is a library call.
fn has_fused_lanes() -> bool {
    struct HasLanes;
    impl WithSimd for HasLanes {
        type Output = bool;
        fn with_simd<S: Simd>(self, _: S) -> bool {
            !S::IS_SCALAR
        }
    }
    // What `pulp` looks for on these CPUs includes fused multiply-add; WebAssembly has none.
    cfg!(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))
        && Arch::new().dispatch(HasLanes)
}

/// Powers of `psi` in the order in which the stages use them.
struct Roots {
    /// The prime `q`.
    modulus: u64,
    /// `forward[rev(k)] = psi^k`: the `m` blocks of a stage use `forward[m..2 m]`.
    forward: Vec<u64>,
    /// `inverse[rev(k)] = psi^-k`.
    inverse: Vec<u64>,
    /// `N^-1`, the factor of the inverse transform.
    normalisation: u64,
}

impl Roots {
    fn new(n: usize, modulus: u64) -> Self {
        let psi = root_of_unity(2 * n as u64, modulus);
        let powers = |base: u64| {
            let mut table = vec![0; n];
            let mut value = 1;
            for k in 0..n {
                table[reverse(k, n)] = value;
                value = multiply(value, base, modulus);
            }
            table
        };
        Self {
            modulus,
            forward: powers(psi),
            inverse: powers(invert(psi, modulus)),
            normalisation: invert(n as u64, modulus),
        }
    }

    /// `psi^(-N/2) N^-1`: the root of the last inverse stage with the normalisation in it.
    fn last_inverse(&self) -> u64 {
        multiply(self.inverse[1], self.normalisation, self.modulus)
    }
}

/// The `log2 n` bits of `k` in reverse.
fn reverse(k: usize, n: usize) -> usize {
    k.reverse_bits() >> (usize::BITS - n.trailing_zeros())
}
