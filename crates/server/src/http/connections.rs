//! Connections: how many, and for how long they may do nothing.
//!
//! HTTP's own timeouts begin with the first byte of a request. What guards below them is here: a
//! peer that connects and says nothing, or nothing that is a request; that goes away without a
//! word (half-open); that asks and does not read the answer.

use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::middleware::AddExtension;
use axum_server::accept::Accept;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};
use tower::Layer;

use super::metrics::Metrics;

/// A connection as its requests see it.
#[derive(Clone)]
pub(super) struct Connection {
    /// The other side.
    pub(super) peer: Option<SocketAddr>,
    work: Arc<Mutex<Work>>,
}

/// What a connection is kept for.
struct Work {
    /// Requests that are read or computed: meanwhile silence is the server's own.
    handled: usize,
    /// Answers that are not wholly on their way: meanwhile it is the peer's turn to read.
    sent: usize,
    /// When there was neither for the last time.
    since: Instant,
}

#[derive(Clone, Copy)]
enum Part {
    Handled,
    Sent,
}

impl Connection {
    fn new(peer: Option<SocketAddr>) -> Self {
        let work = Work { handled: 0, sent: 0, since: Instant::now() };
        Self { peer, work: Arc::new(Mutex::new(work)) }
    }

    /// Notes that a request is handled, until the value is dropped.
    pub(super) fn handle(&self) -> Working {
        Working::begin(&self.work, Part::Handled)
    }

    /// Notes that an answer is sent, until the value is dropped.
    pub(super) fn send(&self) -> Working {
        Working::begin(&self.work, Part::Sent)
    }
}

impl Work {
    fn count(&mut self, part: Part) -> &mut usize {
        match part {
            Part::Handled => &mut self.handled,
            Part::Sent => &mut self.sent,
        }
    }

    /// When the connection is to be closed if nothing happens; `moved` is when a byte last did.
    fn deadline(&self, moved: Instant, idle: Duration) -> Option<Instant> {
        match (self.handled, self.sent) {
            (1.., _) => None,
            (0, 1..) => Some(moved + idle),
            // Pings and single bytes keep nothing alive.
            (0, 0) => Some(moved.min(self.since) + idle),
        }
    }
}

/// See [`Connection::handle`] and [`Connection::send`].
pub(super) struct Working {
    work: Arc<Mutex<Work>>,
    part: Part,
}

impl Working {
    fn begin(work: &Arc<Mutex<Work>>, part: Part) -> Self {
        *lock(work).count(part) += 1;
        Self { work: work.clone(), part }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut work = lock(&self.work);
        *work.count(self.part) -= 1;
        work.since = Instant::now();
    }
}

fn lock(work: &Mutex<Work>) -> MutexGuard<'_, Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes connections in, up to a number.
#[derive(Clone)]
pub(super) struct Doorkeeper {
    places: Arc<Semaphore>,
    most: usize,
    idle: Duration,
    metrics: Arc<Metrics>,
}

impl Doorkeeper {
    pub(super) fn new(most: usize, idle: Duration, metrics: Arc<Metrics>) -> Self {
        Self { places: Arc::new(Semaphore::new(most)), most, idle, metrics }
    }

    /// Open connections.
    pub(super) fn open(&self) -> usize {
        self.most - self.places.available_permits()
    }
}

impl<S> Accept<TcpStream, S> for Doorkeeper {
    type Stream = Watched;
    type Service = AddExtension<S, Connection>;
    type Future = Ready<io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.metrics.connections_refused.increment(1);
            return ready(Err(io::Error::other("too many connections")));
        };
        self.metrics.connections.increment(1);
        // Without it small answers would wait for acknowledgements of earlier ones. A socket that
        // refuses is one that is gone, which the first read will find out.
        let _ = stream.set_nodelay(true);
        let connection = Connection::new(stream.peer_addr().ok());
        let watched = Watched {
            stream,
            idle: self.idle,
            moved: Instant::now(),
            timer: Box::pin(sleep(self.idle)),
            work: connection.work.clone(),
            _place: place,
        };
        ready(Ok((watched, Extension(connection).layer(service))))
    }
}

/// A stream that fails once it has been of no use for a while.
pub(super) struct Watched {
    stream: TcpStream,
    idle: Duration,
    moved: Instant,
    timer: Pin<Box<Sleep>>,
    work: Arc<Mutex<Work>>,
    _place: OwnedSemaphorePermit,
}

impl Watched {
    /// Notes what came of a read or a write, and fails when the time is over.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        moved: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.moved = Instant::now();
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let (now, deadline) =
                (Instant::now(), lock(&self.work).deadline(self.moved, self.idle));
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.timer.as_mut().reset(deadline.unwrap_or(now + self.idle));
        }
        moved
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let moved = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.watch(context, moved)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, moved)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, moved)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
