//! What can be set.

use std::time::Duration;

use shard_protocol::BlindQuery;

/// Limits and manners of a server. Every limit is there so that no peer, however many connections
/// it opens and whatever it sends, makes the server use more than the sum of them.
#[derive(Clone, PartialEq, Debug)]
pub struct HttpOptions {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of all bodies that are in memory at a time, requests and answers.
    pub held_bytes: usize,
    /// Connections at a time; more are closed at once.
    pub connections: usize,
    /// Connections at a time from one IPv4 address or one IPv6 network of 64 bits; more are closed
    /// at once. A proxy in front is one address.
    pub connections_per_address: usize,
    /// Requests at a time on one HTTP/2 connection.
    pub streams: u32,
    /// Bytes of the headers of a request.
    pub header_bytes: usize,
    /// Time for a TLS handshake.
    pub handshake_timeout: Duration,
    /// Time for the headers of a request, counted from when the connection could take one; so it
    /// is also how long an HTTP/1 connection may wait for its next request.
    pub header_timeout: Duration,
    /// Time after which a connection is closed on which no request is served. While an answer is
    /// sent it begins with the last byte that the peer took, up to a second after its beginning
    /// for every [`SLOWEST_BYTES_PER_SECOND`](Self::SLOWEST_BYTES_PER_SECOND) taken.
    pub idle_timeout: Duration,
    /// Time for a body, and then once more for its place in the queue. A body may take a second
    /// longer for every [`SLOWEST_BYTES_PER_SECOND`](Self::SLOWEST_BYTES_PER_SECOND) received.
    pub request_timeout: Duration,
    /// Requests that are computed at a time, besides one that changes something: at least as many as
    /// there are searches of a blind collection that share a pass over its blocks.
    pub workers: usize,
    /// Requests that wait for a worker, and changes that wait for theirs; more are told to come
    /// back.
    pub queue: usize,
    /// Threads that one request is spread over, which shortens a single request while cores idle. Every worker has
    /// its own.
    pub threads_per_request: usize,
    /// Time after a start in which blocks are looked for again that an engine had which did not answer. Then the
    /// server is ready, and what is missing is loaded by the first search of it.
    pub load_timeout: Duration,
    /// Time between the announcement of a shutdown on `/readyz` and its beginning.
    pub drain: Duration,
    /// Time that accepted requests have to finish in a shutdown.
    pub grace: Duration,
    /// How often the engine is asked whether it wants compaction; never, if zero.
    pub compaction_interval: Duration,
    /// Whether logs name the addresses of peers.
    pub log_addresses: bool,
    /// Whether logs name collections and give the words of refusals, which may name rows, cells,
    /// epochs and sessions.
    pub log_details: bool,
}

impl HttpOptions {
    /// A body that comes slower than this, after [`request_timeout`](Self::request_timeout), is
    /// given up, and so is an answer that is read slower, after
    /// [`idle_timeout`](Self::idle_timeout).
    pub const SLOWEST_BYTES_PER_SECOND: usize = 64 << 10;
}

/// Most workers, unless more are needed for every core to have something to do.
const MOST_WORKERS: usize = 16;

/// Workers and threads of each, on so many cores. A request that is alone is spread over all of them up to
/// [`BlindQuery::MOST`], and there are so many workers that as many searches can share a pass; of threads there
/// are never more than 128, or one per core.
fn computing(cores: usize) -> (usize, usize) {
    let threads = cores.clamp(1, BlindQuery::MOST);
    let workers = cores.clamp(BlindQuery::MOST, MOST_WORKERS).max(cores.div_ceil(threads));
    (workers, threads)
}

impl Default for HttpOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (workers, threads_per_request) = computing(cores);
        Self {
            body_bytes: 64 << 20,
            held_bytes: 256 << 20,
            connections: 512,
            connections_per_address: 64,
            streams: 64,
            header_bytes: 16 << 10,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            request_timeout: Duration::from_secs(10),
            workers,
            queue: 64,
            threads_per_request,
            load_timeout: Duration::from_secs(60),
            drain: Duration::ZERO,
            grace: Duration::from_secs(30),
            compaction_interval: Duration::from_secs(60),
            log_addresses: false,
            log_details: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_uses_every_core_of_a_small_machine_and_no_machine_has_too_many_threads() {
        let expected = [(1, (8, 1)), (2, (8, 2)), (8, (8, 8)), (12, (12, 8)), (64, (16, 8))];
        for (cores, both) in expected {
            assert_eq!(computing(cores), both, "{cores} cores");
        }
        for cores in 1..1024 {
            let (workers, threads) = computing(cores);
            assert!((cores..=cores.next_multiple_of(8).max(128)).contains(&(workers * threads)));
        }
    }
}
