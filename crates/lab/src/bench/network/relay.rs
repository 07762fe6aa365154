//! A path that takes time: datagrams are held for half a round trip each way.
//!
//! Whole datagrams are delayed, never bytes of a stream, so that what travels inside them (TCP in
//! a tunnel) sees a real path: its handshakes, its slow start and its acknowledgements all take
//! their round trips.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Datagrams that wait in one direction; more are dropped, as by any router.
const QUEUE: usize = 65_536;

/// No datagram is longer.
const LONGEST: usize = 65_536;

/// How long a reader waits before it looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Delays below this are not waited for: passing a datagram on takes about as long.
const NEGLIGIBLE: Duration = Duration::from_micros(150);

/// One end of the path.
pub struct End {
    /// Where the relay receives what this end sends, and sends what this end receives.
    pub socket: UdpSocket,
    /// Where this end receives.
    pub peer: SocketAddr,
}

/// A running relay; it stops when dropped.
pub struct Relay {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Joins two ends, each way in `one_way`.
    pub fn start(first: End, second: End, one_way: Duration) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (from, to) in [(&first, &second), (&second, &first)] {
            let (sender, receiver) = sync_channel(QUEUE);
            let (source, stopped) = (from.socket.try_clone()?, stop.clone());
            source.set_read_timeout(Some(PATIENCE))?;
            threads.push(thread::spawn(move || receive(&source, &sender, one_way, &stopped)));
            let (sink, peer) = (to.socket.try_clone()?, to.peer);
            threads.push(thread::spawn(move || deliver(&sink, peer, &receiver)));
        }
        Ok(Self { stop, threads })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

type Due = (Instant, Vec<u8>);

fn receive(source: &UdpSocket, queue: &SyncSender<Due>, one_way: Duration, stop: &AtomicBool) {
    let mut buffer = vec![0; LONGEST];
    while !stop.load(Ordering::Relaxed) {
        // A refused datagram of before, or nothing for a while: neither ends a path.
        let Ok(length) = source.recv(&mut buffer) else { continue };
        let _ = queue.try_send((Instant::now() + one_way, buffer[..length].to_vec()));
    }
}

/// Sends each datagram when it is due, until the reader is gone.
fn deliver(sink: &UdpSocket, peer: SocketAddr, queue: &Receiver<Due>) {
    while let Ok((due, datagram)) = queue.recv() {
        let wait = due.saturating_duration_since(Instant::now());
        if wait > NEGLIGIBLE {
            thread::sleep(wait);
        }
        let _ = sink.send_to(&datagram, peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local() -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        socket
    }

    #[test]
    fn datagrams_cross_both_ways_in_order_and_not_before_their_time() {
        let (left, right, first, second) = (local(), local(), local(), local());
        let (near, far) = (first.local_addr().unwrap(), second.local_addr().unwrap());
        let one_way = Duration::from_millis(20);
        let ends = (
            End { socket: first, peer: left.local_addr().unwrap() },
            End { socket: second, peer: right.local_addr().unwrap() },
        );
        let relay = Relay::start(ends.0, ends.1, one_way).unwrap();
        let start = Instant::now();
        for byte in 0..10 {
            left.send_to(&[byte; 900], near).unwrap();
        }
        let mut buffer = [0; 1500];
        for byte in 0..10 {
            let (length, from) = right.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from), (&[byte; 900][..], far));
        }
        assert!(start.elapsed() >= one_way);
        right.send_to(b"back", far).unwrap();
        assert_eq!(left.recv(&mut buffer).unwrap(), 4);
        assert!(start.elapsed() >= 2 * one_way);
        drop(relay);
    }
}
