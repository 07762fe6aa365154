//! Work that takes long: how far it has come, and an end before its end.

use std::ops::ControlFlow;

use thiserror::Error;

/// Whoever watches the work ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("stopped before the end")]
pub struct Stopped;

/// Is told of work as it is done, block by block and from any thread, and may end it.
///
/// Work is counted in picoseconds of one core of the machine the passes were measured on. Every pass that takes long
/// says beforehand how much it will be (`Pca::work`, `tune::work`, `Cells::work`), and its blocks add up to that.
#[derive(Clone, Copy)]
pub struct Work<'a>(&'a (dyn Fn(u64) -> ControlFlow<()> + Sync));

impl<'a> Work<'a> {
    /// Tells `watch` how much was done since it was last told; a break ends the work with [`Stopped`].
    pub fn new(watch: &'a (dyn Fn(u64) -> ControlFlow<()> + Sync)) -> Self {
        Self(watch)
    }

    /// For work that nobody follows.
    pub fn unwatched() -> Self {
        Self(&|_| ControlFlow::Continue(()))
    }

    /// This much was done.
    ///
    /// # Errors
    /// When the work is to end.
    pub fn done(&self, amount: u64) -> Result<(), Stopped> {
        if (self.0)(amount).is_break() { Err(Stopped) } else { Ok(()) }
    }
}

impl std::fmt::Debug for Work<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Work")
    }
}
