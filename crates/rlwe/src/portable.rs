//! A negacyclic transform of our own: plain Rust, any CPU, the same values as `tfhe-ntt`.

mod fused;
mod integer;
#[cfg(test)]
mod tests;

use pulp::{Arch, Simd, WithSimd};

use crate::ntt::Ntt;
use crate::parameters::{MODULUS, RingDegree};

/// A primitive `2^16`-th root of unity modulo `q`, the root of every transform: degree `N` uses
/// `psi = ROOT^(32768 / N)`, a primitive `2N`-th root.
///
/// It is the root that `tfhe-ntt` finds, which starts from `-1` and takes square roots by
/// Tonelli-Shanks with the smallest non-residue (3) until the order is `2N`. Each root it finds
/// is the square of the next one, so the last of them, at `N = 32768`, fixes them all.
const ROOT: u64 = 0x6_1477_eeb0;

/// The largest supported degree, half of the order of [`ROOT`].
const ROOT_DEGREE: usize = 32_768;

/// The transform in plain Rust.
///
/// Position `j` of the evaluations holds `f(psi^(2 rev(j) + 1))`, where `rev` reverses the
/// `log2 N` bits of `j` and `psi = 26113207984^(32768 / N) mod q`. The stages are the usual ones
/// (decimation in time forward, in frequency back, roots in bit-reversed order); only the way a
/// product is reduced depends on the CPU. Every result is the one residue in `[0, q)`, so the
/// bits do not.
///
/// Neither way branches on a value or indexes by one: secrets pass through this transform.
pub struct PortableNtt {
    degree: RingDegree,
    kernel: Kernel,
}

/// How products are reduced.
enum Kernel {
    /// 64-bit integers, one value at a time: every CPU.
    Integer(integer::Tables),
    /// Fused multiply-add on doubles, many values at a time: a third of the time where the CPU
    /// has it in its vector unit.
    Fused(fused::Tables),
}

impl PortableNtt {
    /// The transform of one degree, with the fastest arithmetic of this machine.
    pub fn new(degree: RingDegree) -> Self {
        if has_fused_lanes() { Self::fused(degree) } else { Self::integer(degree) }
    }

    fn integer(degree: RingDegree) -> Self {
        let tables = integer::Tables::new(&Roots::new(degree.coefficients()));
        Self { degree, kernel: Kernel::Integer(tables) }
    }

    fn fused(degree: RingDegree) -> Self {
        let tables = fused::Tables::new(&Roots::new(degree.coefficients()));
        Self { degree, kernel: Kernel::Fused(tables) }
    }

    /// # Panics
    /// When the buffer is not of the transform's degree; the ring passes no other.
    fn check(&self, values: &[u64]) {
        assert_eq!(values.len(), self.degree.coefficients(), "a buffer of N values");
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
            Kernel::Integer(_) => integer::multiply_accumulate(accumulator, left, right),
            Kernel::Fused(_) => dispatch(
                #[inline(always)]
                || fused::multiply_accumulate(accumulator, left, right),
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

/// Runs a closure compiled for the best instruction set of this machine. The closure must be
/// `#[inline(always)]` and is called by reference: a `FnOnce` would put a function between that
/// is compiled for the smallest instruction set.
fn dispatch(work: impl FnMut()) {
    struct Work<F>(F);
    impl<F: FnMut()> WithSimd for Work<F> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(mut self, _: S) {
            (self.0)();
        }
    }
    Arch::new().dispatch(Work(work));
}

/// Powers of `psi` in the order in which the stages use them.
struct Roots {
    /// `forward[rev(k)] = psi^k`: the `m` blocks of a stage use `forward[m..2 m]`.
    forward: Vec<u64>,
    /// `inverse[rev(k)] = psi^-k`.
    inverse: Vec<u64>,
    /// `N^-1`, the factor of the inverse transform.
    normalisation: u64,
}

impl Roots {
    fn new(n: usize) -> Self {
        let psi = power(ROOT, (ROOT_DEGREE / n) as u64);
        let powers = |base: u64| {
            let mut table = vec![0; n];
            let mut value = 1;
            for k in 0..n {
                table[reverse(k, n)] = value;
                value = multiply(value, base);
            }
            table
        };
        Self { forward: powers(psi), inverse: powers(invert(psi)), normalisation: invert(n as u64) }
    }

    /// `psi^(-N/2) N^-1`: the root of the last inverse stage with the normalisation in it.
    fn last_inverse(&self) -> u64 {
        multiply(self.inverse[1], self.normalisation)
    }
}

/// The `log2 n` bits of `k` in reverse.
fn reverse(k: usize, n: usize) -> usize {
    k.reverse_bits() >> (usize::BITS - n.trailing_zeros())
}

/// `a b mod q`, slowly.
fn multiply(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(MODULUS)) as u64
}

/// `base^exponent mod q`.
fn power(base: u64, exponent: u64) -> u64 {
    (0..u64::BITS - exponent.leading_zeros()).rev().fold(1, |product, bit| {
        let square = multiply(product, product);
        if (exponent >> bit) & 1 == 1 { multiply(square, base) } else { square }
    })
}

/// `a^-1 mod q`, by Fermat.
fn invert(a: u64) -> u64 {
    power(a, MODULUS - 2)
}
