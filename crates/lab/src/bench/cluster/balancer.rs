//! A balancer: every connection goes to the next server that accepts it. It can stop carrying, as a cut network does.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;

/// How often a connection is offered to all servers, and the pause in between.
const ROUNDS: usize = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// How long a server may take to accept.
const CONNECT: Duration = Duration::from_millis(500);

type Targets = Arc<Mutex<Vec<Option<SocketAddr>>>>;

pub(super) struct Balancer {
    address: SocketAddr,
    targets: Targets,
    held: Arc<AtomicBool>,
}

impl Balancer {
    /// One that waits for a server when none accepts, as balancers do.
    pub(super) fn start() -> Result<Self> {
        Self::with_rounds(ROUNDS)
    }

    /// One that refuses at once what its server refuses, as a network does.
    pub(super) fn link() -> Result<Self> {
        Self::with_rounds(1)
    }

    fn with_rounds(rounds: usize) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, targets) = (listener.local_addr()?, Targets::default());
        let to = targets.clone();
        let next = Arc::new(AtomicUsize::new(0));
        let held = Arc::new(AtomicBool::new(false));
        let stopped = held.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (to, next, held) = (to.clone(), next.clone(), stopped.clone());
                thread::spawn(move || {
                    if let Some(server) = reach(&to, &next, rounds) {
                        join(client, server, &held);
                    }
                });
            }
        });
        Ok(Self { address, targets, held })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether bytes are kept back, of connections that are there and of new ones.
    pub(super) fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Relaxed);
    }

    /// Where a server is, or that nothing is to go there.
    pub(super) fn set(&self, number: usize, address: Option<SocketAddr>) {
        let mut all = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() <= number {
            all.resize(number + 1, None);
        }
        all[number] = address;
    }
}

fn reach(targets: &Targets, next: &AtomicUsize, rounds: usize) -> Option<TcpStream> {
    for round in 0..rounds {
        if round > 0 {
            thread::sleep(PAUSE);
        }
        let all = targets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for _ in 0..all.len() {
            let at = next.fetch_add(1, Ordering::Relaxed) % all.len();
            let server = all[at].map(|address| TcpStream::connect_timeout(&address, CONNECT));
            if let Some(Ok(server)) = server {
                return Some(server);
            }
        }
    }
    None
}

/// Carries bytes both ways until one side ends.
fn join(client: TcpStream, server: TcpStream, held: &Arc<AtomicBool>) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let Ok((from, to)) = client.try_clone().and_then(|c| Ok((c, server.try_clone()?))) else {
        return;
    };
    let both = held.clone();
    let up = thread::spawn(move || carry(from, to, &both));
    carry(server, client, held);
    let _ = up.join();
}

fn carry(mut from: TcpStream, mut to: TcpStream, held: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let read = match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        while held.load(Ordering::Relaxed) {
            thread::sleep(PAUSE);
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}
