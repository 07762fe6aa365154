//! How far long work has come.

use std::ops::ControlFlow;

/// How far work has come: documents of an ingest, rows of a publish, bytes of a backup.
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
