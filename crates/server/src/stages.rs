//! Where the time of a request goes.

use std::time::{Duration, Instant};

/// Time spent in each stage of one answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stages {
    /// Reading the message.
    pub decode: Duration,
    /// Rows and blobs, in and out of the engine.
    pub engine: Duration,
    /// Products under encryption, and the preparation of session keys.
    pub score: Duration,
    /// Writing the answer.
    pub encode: Duration,
}

/// Does something and adds the time it took.
pub(crate) fn timed<T>(stage: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    *stage += start.elapsed();
    done
}
