//! What is sent again, and when.

use std::time::Duration;

use bytes::Bytes;
use shard_protocol::Operation;
use tokio::time::{Instant, sleep, timeout_at};

use super::Link;
use super::error::{RemoteError, of_request};
use super::options::{Retries, Timeouts};

/// A request that gave no answer.
pub(super) struct Failure {
    error: RemoteError,
    /// `None` when the same request would fail again.
    again: Option<Again>,
}

/// Why another attempt may succeed.
#[derive(Clone, Copy)]
struct Again {
    /// What the server asked for.
    after: Duration,
}

impl Failure {
    /// One that may go away.
    pub(super) fn again(error: RemoteError, after: Option<Duration>) -> Self {
        Self { error, again: Some(Again { after: after.unwrap_or_default() }) }
    }

    /// What it was, for who does not ask again.
    pub(super) fn into_error(self) -> RemoteError {
        self.error
    }

    /// A server without time for this.
    pub(super) fn busy(server: String, after: Option<Duration>) -> Self {
        Self::again(RemoteError::Busy { server, attempts: 1 }, after)
    }
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        Self { error, again: None }
    }
}

impl Link {
    /// What became of a request that the network failed. A certificate that does not match will
    /// not match the next time; everything else may be over by then. `patience` is how long the
    /// request was given.
    pub(super) fn broken(&self, error: &reqwest::Error, patience: Duration) -> Failure {
        let timeouts = Timeouts { request: patience, ..self.timeouts };
        let error = of_request(error, self.address.to_string(), &timeouts);
        match error {
            RemoteError::Pin { .. } | RemoteError::Untrusted { .. } => error.into(),
            passing => Failure::again(passing, None),
        }
    }

    /// Asks until there is an answer, or reason to give up; not beyond [`Timeouts::total`], all
    /// repetitions together.
    pub(super) async fn exchange(
        &self,
        operation: Operation,
        url: &url::Url,
        body: Bytes,
    ) -> Result<Vec<u8>, RemoteError> {
        let timeouts = self.timeouts.for_bytes(body.len());
        let start = Instant::now();
        let deadline = start + timeouts.total;
        let most = if is_idempotent(operation) { self.retries.most } else { 0 };
        for repetition in 0.. {
            let attempt =
                timeout_at(deadline, self.attempt(url, body.clone(), timeouts.request)).await;
            let failure = match attempt {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(failure)) => failure,
                Err(_) => {
                    let (server, waited) = (self.address.to_string(), timeouts.total);
                    return Err(RemoteError::Timeout { server, waited });
                }
            };
            let error = match failure.error {
                RemoteError::Busy { server, .. } => {
                    RemoteError::Busy { server, attempts: repetition + 1 }
                }
                RemoteError::Timeout { server, .. } => {
                    RemoteError::Timeout { server, waited: start.elapsed() }
                }
                other => other,
            };
            let Some(again) = failure.again.filter(|_| repetition < most) else {
                return Err(error);
            };
            let pause = pause(&self.retries, repetition).max(again.after);
            // What a server asks for may be longer than any clock can count.
            if Instant::now().checked_add(pause).is_none_or(|then| then >= deadline) {
                return Err(error);
            }
            sleep(pause).await;
        }
        unreachable!("the last repetition returns")
    }
}

/// Whether a request may be sent twice when its answer was lost. All that servers take may:
///
/// - to rank, to describe, to list and to fetch changes nothing, and the second time the very
///   same ciphertexts are sent, of which one answer is opened;
/// - a session is opened under a name of the client's choice with the same keys;
/// - rows and blobs are put under their names, in place of themselves, and removing what is not
///   there is no error; a server refuses rows that come from another commit than the one it holds,
///   so a late repetition cannot undo what somebody else published in between;
/// - a publish that has begun is begun, and an epoch that is the current one is made the current one;
/// - a collection that was reset holds nothing, and one that was published since is at another commit.
///
/// The list is spelt out so that a new operation has to be thought about.
fn is_idempotent(operation: Operation) -> bool {
    match operation {
        Operation::Rerank
        | Operation::Search
        | Operation::Sessions
        | Operation::Begin
        | Operation::Rows
        | Operation::Macs
        | Operation::Delete
        | Operation::Activate
        | Operation::Reset
        | Operation::Describe
        | Operation::PutBlob
        | Operation::FetchBlob
        | Operation::FetchShared
        | Operation::DeleteBlob
        | Operation::ListBlobs => true,
    }
}

/// A pause drawn uniformly from zero to `min(longest, shortest 2^repetition)`. Without randomness
/// to be had, the longest of them.
fn pause(retries: &Retries, repetition: u32) -> Duration {
    let factor = 1_u32.checked_shl(repetition).unwrap_or(u32::MAX);
    let most = retries.shortest.saturating_mul(factor).min(retries.longest);
    let mut word = [0xff; 4];
    let _ = shard_rlwe::fill_from_os(&mut word);
    most.mul_f64(f64::from(u32::from_le_bytes(word)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit_and_are_not_all_the_same() {
        let retries = Retries {
            most: 9,
            shortest: Duration::from_millis(100),
            longest: Duration::from_millis(700),
        };
        for (repetition, most) in [(0, 100), (1, 200), (2, 400), (3, 700), (31, 700), (40, 700)] {
            let drawn: Vec<Duration> = (0..64).map(|_| pause(&retries, repetition)).collect();
            let longest = drawn.iter().max().unwrap();
            // 64 draws all in the lower half: once in 2^64 runs.
            assert!(*longest <= Duration::from_millis(most), "{repetition}: {longest:?}");
            assert!(*longest >= Duration::from_millis(most / 2), "{repetition}: {longest:?}");
            assert!(drawn.iter().any(|pause| pause != longest));
        }
    }
}
