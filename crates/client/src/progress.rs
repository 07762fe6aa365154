//! How far long work has come.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

/// How far work has come. Units are those of the work: estimated time of an ingest, rows of a
/// publish, bytes of a backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Done so far.
    pub done: u64,
    /// In all.
    pub total: u64,
}

/// Told of every step; a break ends the work between two steps with
/// [`ClientError::Cancelled`](crate::ClientError::Cancelled).
pub type Watch<'a> = dyn Fn(Progress) -> ControlFlow<()> + Sync + 'a;

/// For work that nobody follows.
pub const UNWATCHED: &Watch<'static> = &|_| ControlFlow::Continue(());

/// Adds up work that is done on many threads, and tells a watch, which sees it grow.
pub(crate) struct Meter<'a> {
    watch: &'a Watch<'a>,
    done: Mutex<u64>,
    total: u64,
}

impl<'a> Meter<'a> {
    /// Nothing is done yet, which the watch is told.
    pub(crate) fn start(watch: &'a Watch<'a>, total: u64) -> Self {
        let meter = Self { watch, done: Mutex::new(0), total };
        let _ = meter.add(0); // who wants to end it says so again
        meter
    }

    /// This much more is done. More than was announced does not count.
    pub(crate) fn add(&self, amount: u64) -> ControlFlow<()> {
        // While one thread tells, the others wait: told in another order, progress would step back.
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *done = done.saturating_add(amount).min(self.total);
        (self.watch)(Progress { done: *done, total: self.total })
    }
}

/// A watch for a part of longer work: `amount` of `total`, after `before` was done.
pub(crate) fn stretch<'a>(
    watch: &'a Watch<'a>,
    before: u64,
    amount: u64,
    total: u64,
) -> impl Fn(Progress) -> ControlFlow<()> + Sync + 'a {
    move |progress| {
        let part = u128::from(amount) * u128::from(progress.done.min(progress.total))
            / u128::from(progress.total.max(1));
        watch(Progress { done: (before + part as u64).min(total), total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_join_without_a_step_back() {
        let told = Mutex::new(Vec::new());
        let watch = |progress: Progress| {
            told.lock().unwrap().push((progress.done, progress.total));
            ControlFlow::Continue(())
        };
        for (before, amount) in [(0, 70), (70, 30)] {
            let part = stretch(&watch, before, amount, 100);
            for done in [0, 1, 2] {
                let _ = part(Progress { done, total: 2 });
            }
        }
        let expected = [0, 35, 70, 70, 85, 100].map(|done| (done, 100));
        assert_eq!(*told.lock().unwrap(), expected);
    }

    #[test]
    fn a_meter_grows_to_its_total_and_passes_the_end_on() {
        let told = Mutex::new(Vec::new());
        let watch = |progress: Progress| {
            told.lock().unwrap().push(progress.done);
            if progress.done < 10 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let meter = Meter::start(&watch, 10);
        assert!(meter.add(4).is_continue() && meter.add(9).is_break());
        assert_eq!(*told.lock().unwrap(), [0, 4, 10]);
    }
}
