//! Bodies: read piece by piece under a budget, sent piece by piece.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::Bytes;
use metrics::Histogram;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;

use super::options::HttpOptions;
use super::refused::Refused;

/// Bytes that are handed to a connection at a time.
const PIECE: usize = 64 << 10;

/// Bytes of a refused request that are still read, so that a client in the middle of sending them
/// sees the refusal and not a broken connection.
const COURTESY_BYTES: usize = 1 << 20;
const COURTESY: Duration = Duration::from_secs(1);

/// Bytes of bodies that may be in memory at a time.
#[derive(Clone)]
pub(super) struct Budget {
    free: Arc<Semaphore>,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        let bytes = bytes.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(bytes)), bytes }
    }

    /// Bytes in memory.
    pub(super) fn held(&self) -> usize {
        self.bytes - self.free.available_permits()
    }

    pub(super) fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refused> {
        let count = u32::try_from(bytes).map_err(|_| Refused::too_large(self.bytes))?;
        let taken = self.free.clone().try_acquire_many_owned(count);
        taken.map_err(|_| Refused::busy("bytes at a time", None))
    }
}

/// A body in memory, counted while it is there.
pub(super) struct ReceivedBody {
    pub(super) bytes: Vec<u8>,
    _counted: OwnedSemaphorePermit,
}

/// Reads a body, and tells how much of it came also when it is refused. The budget counts received
/// bytes, not Content-Length.
pub(super) async fn read(
    headers: &HeaderMap,
    body: &mut Body,
    budget: &Budget,
    options: &HttpOptions,
    received: &mut usize,
) -> Result<ReceivedBody, Refused> {
    let limit = options.body_bytes;
    let announced = announced(headers);
    if announced > limit {
        return Err(Refused::too_large(limit));
    }
    let mut counted = budget.take(0)?;
    let mut bytes = Vec::new();
    let start = tokio::time::Instant::now();
    loop {
        let earned = bytes.len() / HttpOptions::SLOWEST_BYTES_PER_SECOND;
        let deadline = start + options.request_timeout + Duration::from_secs(earned as u64);
        let Ok(next) = timeout_at(deadline, piece(body)).await else {
            return Err(Refused::malformed("the body came too slowly"));
        };
        let Some(piece) = next else { break };
        let piece = piece.map_err(|_| Refused::malformed("the body ends early"))?;
        *received += piece.len();
        if bytes.len() + piece.len() > limit {
            return Err(Refused::too_large(limit));
        }
        counted.merge(budget.take(piece.len())?);
        if bytes.is_empty() {
            // Once and for all if the length is known; pages that are never written cost nothing.
            bytes.reserve_exact(announced.max(piece.len()));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(ReceivedBody { bytes, _counted: counted })
}

/// The length that the headers give; none is none.
fn announced(headers: &HeaderMap) -> usize {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    length.unwrap_or(0)
}

/// Reads on for a moment and forgets what it reads, unless much is to come.
pub(super) async fn drain(headers: &HeaderMap, body: &mut Body) {
    if announced(headers) > COURTESY_BYTES {
        return;
    }
    let rest = async {
        let mut left = COURTESY_BYTES;
        while let Some(Ok(piece)) = piece(body).await {
            match left.checked_sub(piece.len()) {
                Some(fewer) => left = fewer,
                None => break,
            }
        }
    };
    // Either way the refusal goes out next.
    let _ = tokio::time::timeout(COURTESY, rest).await;
}

async fn piece(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    loop {
        let frame = match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await? {
            Ok(frame) => frame,
            Err(error) => return Some(Err(error)),
        };
        // Trailers say nothing to us.
        if let Ok(data) = frame.into_data() {
            return Some(Ok(data));
        }
    }
}

/// An answer on its way.
pub(super) struct Answer {
    /// What is not handed over yet.
    rest: Bytes,
}

/// All bytes of an answer, with whatever must stay as long as they are in memory. Every piece of
/// the answer shares it, so it goes with the last one: hyper drops a body when it has taken the
/// last piece, not when that is written.
struct Whole<K> {
    bytes: Vec<u8>,
    since: Instant,
    sent: Histogram,
    _counted: Option<OwnedSemaphorePermit>,
    _kept: K,
}

impl<K> AsRef<[u8]> for Whole<K> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<K> Drop for Whole<K> {
    fn drop(&mut self) {
        self.sent.record(self.since.elapsed());
    }
}

impl Answer {
    /// An answer of these bytes, counted in the budget unless it is short. A peer that asks for
    /// much and does not take it must not fill the memory. Whatever is `kept` goes with the last
    /// byte.
    pub(super) fn new<K: Send + 'static>(
        bytes: Vec<u8>,
        budget: &Budget,
        sent: Histogram,
        kept: K,
    ) -> Result<Self, Refused> {
        let counted = if bytes.len() > PIECE { Some(budget.take(bytes.len())?) } else { None };
        let since = Instant::now();
        let whole = Whole { bytes, since, sent, _counted: counted, _kept: kept };
        Ok(Self { rest: Bytes::from_owner(whole) })
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(length);
        Poll::Ready(Some(Ok(http_body::Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_counts_until_its_last_piece_is_gone() {
        let (budget, kept) = (Budget::new(1 << 20), Arc::new(()));
        let bytes = vec![7; 2 * PIECE + 1];
        let length = bytes.len();
        let answer = Answer::new(bytes, &budget, Histogram::noop(), kept.clone()).unwrap();
        let mut body = Body::new(answer);
        let mut last = None;
        while let Some(next) = piece(&mut body).await {
            last = Some(next.unwrap());
        }
        drop(body);
        assert_eq!((budget.held(), Arc::strong_count(&kept)), (length, 2));
        assert_eq!(last.take().map(|piece| piece.len()), Some(1));
        assert_eq!((budget.held(), Arc::strong_count(&kept)), (0, 1));
    }
}
