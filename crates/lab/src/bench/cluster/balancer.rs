//! A balancer: every connection goes to the next server that accepts it.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
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
}

impl Balancer {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, targets) = (listener.local_addr()?, Targets::default());
        let to = targets.clone();
        let next = Arc::new(AtomicUsize::new(0));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (to, next) = (to.clone(), next.clone());
                thread::spawn(move || {
                    if let Some(server) = reach(&to, &next) {
                        join(client, server);
                    }
                });
            }
        });
        Ok(Self { address, targets })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
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

fn reach(targets: &Targets, next: &AtomicUsize) -> Option<TcpStream> {
    for _ in 0..ROUNDS {
        let all = targets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for _ in 0..all.len() {
            let at = next.fetch_add(1, Ordering::Relaxed) % all.len();
            let server = all[at].map(|address| TcpStream::connect_timeout(&address, CONNECT));
            if let Some(Ok(server)) = server {
                return Some(server);
            }
        }
        thread::sleep(PAUSE);
    }
    None
}

/// Carries bytes both ways until one side ends.
fn join(client: TcpStream, server: TcpStream) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let Ok((mut from, mut to)) = client.try_clone().and_then(|c| Ok((c, server.try_clone()?)))
    else {
        return;
    };
    let up = thread::spawn(move || carry(&mut from, &mut to));
    let (mut from, mut to) = (server, client);
    carry(&mut from, &mut to);
    let _ = up.join();
}

fn carry(from: &mut TcpStream, to: &mut TcpStream) {
    let _ = io::copy(from, to);
    let _ = to.flush();
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}
