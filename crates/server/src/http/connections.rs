//! Connections: how many, how many of them from one address, and for how long they may do nothing.
//!
//! HTTP's own timeouts begin with the first byte of a request. What guards below them is here: a
//! peer that connects and says nothing, or nothing that is a request; that goes away without a
//! word (half-open); that asks and does not read the answer.

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
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
use super::options::HttpOptions;

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
    /// Answers of which bytes are in memory: meanwhile it is the peer's turn to read.
    sent: usize,
    /// Since when there has been one or another of them.
    sending_since: Instant,
    /// Bytes written since then, and when the last of them were.
    written: u64,
    wrote: Instant,
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
        Self { peer, work: Arc::new(Mutex::new(Work::new(Instant::now()))) }
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
    fn new(now: Instant) -> Self {
        Self { handled: 0, sent: 0, sending_since: now, written: 0, wrote: now, since: now }
    }

    fn begin(&mut self, part: Part, now: Instant) {
        if matches!(part, Part::Sent) && self.sent == 0 {
            (self.sending_since, self.written, self.wrote) = (now, 0, now);
        }
        *self.count(part) += 1;
    }

    fn end(&mut self, part: Part, now: Instant) {
        *self.count(part) -= 1;
        self.since = now;
    }

    fn write(&mut self, bytes: usize, now: Instant) {
        self.written += bytes as u64;
        self.wrote = now;
    }

    fn count(&mut self, part: Part) -> &mut usize {
        match part {
            Part::Handled => &mut self.handled,
            Part::Sent => &mut self.sent,
        }
    }

    /// When the connection is to be closed if nothing happens. What the peer sends counts for
    /// nothing: neither pings nor single bytes keep a connection, nor an answer that is not read.
    /// With answers to be sent it is
    /// `idle + min(wrote, sending_since + written / slowest)`: the first ends a peer that takes
    /// nothing, the second one that takes next to nothing, or only answers to its pings.
    fn deadline(&self, idle: Duration) -> Option<Instant> {
        match (self.handled, self.sent) {
            (1.., _) => None,
            (0, 1..) => {
                let earned = self.written / HttpOptions::SLOWEST_BYTES_PER_SECOND as u64;
                Some(self.wrote.min(self.sending_since + Duration::from_secs(earned)) + idle)
            }
            (0, 0) => Some(self.since + idle),
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
        lock(work).begin(part, Instant::now());
        Self { work: work.clone(), part }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        lock(&self.work).end(self.part, Instant::now());
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes connections in, up to a number in all and a number from each address.
#[derive(Clone)]
pub(super) struct Doorkeeper {
    places: Arc<Semaphore>,
    most: usize,
    addresses: Arc<Addresses>,
    idle: Duration,
    metrics: Arc<Metrics>,
}

impl Doorkeeper {
    pub(super) fn new(options: &HttpOptions, metrics: Arc<Metrics>) -> Self {
        let most = options.connections;
        let (each, open) = (options.connections_per_address, Mutex::default());
        Self {
            places: Arc::new(Semaphore::new(most)),
            most,
            addresses: Arc::new(Addresses { each, open }),
            idle: options.idle_timeout,
            metrics,
        }
    }

    /// Open connections.
    pub(super) fn open(&self) -> usize {
        self.most - self.places.available_permits()
    }

    fn admit(&self, peer: Option<SocketAddr>) -> Result<Place, &'static str> {
        let all = self.places.clone().try_acquire_owned().map_err(|_| "too many connections")?;
        // A socket without a peer is one that is gone, which the first read will find out.
        let from = peer.map(|peer| Addresses::admit(&self.addresses, network(peer.ip())));
        match from {
            Some(None) => Err("too many connections from one address"),
            from => Ok(Place { _all: all, _from: from.flatten() }),
        }
    }
}

/// Open connections by where they come from.
struct Addresses {
    each: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl Addresses {
    fn admit(addresses: &Arc<Self>, from: IpAddr) -> Option<FromAddress> {
        let mut open = lock(&addresses.open);
        let count = open.get(&from).copied().unwrap_or_default();
        if count >= addresses.each {
            return None;
        }
        open.insert(from, count + 1);
        Some(FromAddress { addresses: addresses.clone(), from })
    }
}

/// A connection among those of its address.
struct FromAddress {
    addresses: Arc<Addresses>,
    from: IpAddr,
}

impl Drop for FromAddress {
    fn drop(&mut self) {
        let mut open = lock(&self.addresses.open);
        match open.get_mut(&self.from) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.from)),
        }
    }
}

/// What counts as one address: an IPv4 address, or the first 64 bits of an IPv6 address, which is
/// what one subscriber has at least.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// A connection's place, in all and among those of its address.
struct Place {
    _all: OwnedSemaphorePermit,
    _from: Option<FromAddress>,
}

impl<S> Accept<TcpStream, S> for Doorkeeper {
    type Stream = Watched;
    type Service = AddExtension<S, Connection>;
    type Future = Ready<io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let peer = stream.peer_addr().ok();
        let place = match self.admit(peer) {
            Ok(place) => place,
            Err(reason) => {
                self.metrics.connections_refused.increment(1);
                tracing::debug!(reason, "a connection was closed");
                return ready(Err(io::Error::other(reason)));
            }
        };
        self.metrics.connections.increment(1);
        // Without it small answers would wait for acknowledgements of earlier ones. A socket that
        // refuses is one that is gone, which the first read will find out.
        let _ = stream.set_nodelay(true);
        let connection = Connection::new(peer);
        let watched = Watched {
            stream,
            idle: self.idle,
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
    timer: Pin<Box<Sleep>>,
    work: Arc<Mutex<Work>>,
    _place: Place,
}

impl Watched {
    /// Passes on what came of a read or a write, and fails when the time is over.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        moved: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        while self.timer.as_mut().poll(context).is_ready() {
            let (now, deadline) = (Instant::now(), lock(&self.work).deadline(self.idle));
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            // Not later: once the answer is sent, what it has earned counts no more.
            let latest = now + self.idle;
            self.timer.as_mut().reset(deadline.map_or(latest, |deadline| deadline.min(latest)));
        }
        moved
    }

    /// The same for a write, whose bytes earn time.
    fn wrote(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            lock(&self.work).write(bytes, Instant::now());
        }
        self.watch(context, written)
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
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.wrote(context, written)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_bytes_keep_a_connection_while_an_answer_is_sent() {
        let (start, idle) = (Instant::now(), Duration::from_secs(75));
        let later = |seconds| start + Duration::from_secs(seconds);
        let mut work = Work::new(start);
        assert_eq!(work.deadline(idle), Some(later(75)));
        work.begin(Part::Handled, later(10));
        assert_eq!(work.deadline(idle), None);
        work.begin(Part::Sent, later(20));
        work.end(Part::Handled, later(21));
        assert_eq!(work.deadline(idle), Some(later(20 + 75)));
        work.write(3 * HttpOptions::SLOWEST_BYTES_PER_SECOND, later(22));
        assert_eq!(work.deadline(idle), Some(later(22 + 75)), "nothing was taken since");
        work.write(1, later(29));
        assert_eq!(work.deadline(idle), Some(later(20 + 3 + 75)), "one byte earns no time");
        work.end(Part::Sent, later(30));
        assert_eq!(work.deadline(idle), Some(later(30 + 75)));
        work.begin(Part::Sent, later(40));
        assert_eq!(work.deadline(idle), Some(later(40 + 75)), "time is earned for each anew");
    }

    #[test]
    fn places_are_counted_by_address_and_come_back() {
        let options =
            HttpOptions { connections: 4, connections_per_address: 2, ..HttpOptions::default() };
        let keeper = Doorkeeper::new(&options, Arc::new(Metrics::new()));
        let from = |text: &str| keeper.admit(Some(SocketAddr::new(text.parse().unwrap(), 1)));
        let (one, _two) = (from("10.0.0.1").unwrap(), from("::ffff:10.0.0.1").unwrap());
        assert_eq!(from("10.0.0.1").err(), Some("too many connections from one address"));
        let _six = from("2001:db8::1").unwrap();
        let _near = from("2001:db8::2:0:0:1").unwrap();
        assert_eq!(from("2001:db8:0:1::1").err(), Some("too many connections"));
        drop((one, _near));
        let _again = from("10.0.0.1").unwrap();
        assert_eq!(from("10.0.0.1").err(), Some("too many connections from one address"));
        drop((_two, _six, _again));
        assert_eq!(keeper.open(), 0);
        assert!(lock(&keeper.addresses.open).is_empty(), "no address is remembered");
    }
}
