//! Plain loops compiled for the instruction set that is found at run time.

use pulp::{Arch, Simd, WithSimd};

/// Runs a closure compiled for the best instruction set of this machine.
///
/// The closure must be `#[inline(always)]`, and is called by reference: `FnOnce` would insert a
/// function that is not always inlined, and the code it calls would be compiled for the smallest
/// instruction set.
pub(crate) fn dispatch<R>(work: impl FnMut() -> R) -> R {
    struct Work<F>(F);
    impl<R, F: FnMut() -> R> WithSimd for Work<F> {
        type Output = R;
        #[inline(always)]
        fn with_simd<S: Simd>(mut self, _: S) -> R {
            (self.0)()
        }
    }
    Arch::new().dispatch(Work(work))
}
