//! Several servers over one engine: whichever is asked, the answer is that of one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use shard_client::remote::{Remote, RemoteOptions, Retries};
use shard_client::{BlindSearcher, Hints};
use shard_protocol::Limits;
use shard_server::http::{ClusterOptions, HttpOptions, Running, Service, TokenFile, Tokens, start};
use shard_server::{NoMaintenance, Server};
use shard_store::{MemoryMembers, MemoryRows};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::blind::{search_with, searcher};
use crate::support::options;
use crate::vaults::Owner;

/// How often leases are renewed here.
const RENEWAL: Duration = Duration::from_millis(100);

/// What servers have in common.
struct Engine {
    rows: Arc<MemoryRows>,
    members: Arc<MemoryMembers>,
    directory: TempDir,
    replicas: usize,
}

/// One of them.
struct Worker {
    runtime: Option<Runtime>,
    running: Option<Running>,
    address: SocketAddr,
}

impl Engine {
    fn new(replicas: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { rows: Arc::default(), members: Arc::default(), directory, replicas }
    }

    fn start(&self) -> Worker {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let service = Service {
            server: Server::new(self.rows.clone(), Limits::default()),
            maintenance: Arc::new(NoMaintenance),
            tokens: Tokens::open(TokenFile::of(self.directory.path())).unwrap(),
            tls: None,
            snapshots: self.directory.path().join("snapshots"),
            cluster: Some(ClusterOptions {
                members: self.members.clone(),
                listen: loopback,
                advertise: None,
                replicas: self.replicas,
                renewal: RENEWAL,
            }),
            options: HttpOptions { grace: Duration::from_secs(1), ..HttpOptions::default() },
        };
        let listener = TcpListener::bind(loopback).unwrap();
        let running = runtime.block_on(async { start(listener, service) }).unwrap();
        let address = running.address();
        let worker = Worker { runtime: Some(runtime), running: Some(running), address };
        worker.until("readyz", |text| text.contains("ready\n"));
        worker
    }
}

impl Worker {
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let host = self.address;
        write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Waits until a page is as expected.
    fn until(&self, path: &str, expected: impl Fn(&str) -> bool) {
        let since = Instant::now();
        while !expected(&self.get(path)) {
            assert!(since.elapsed() < Duration::from_secs(60), "{}", self.get(path));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn figure(&self, name: &str) -> f64 {
        let text = self.get("metrics");
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or(f64::NAN)
    }

    /// Waits until it counts on so many, itself included.
    fn sees(&self, servers: usize) {
        let expected = format!("shard_cluster_servers {servers}\n");
        self.until("metrics", |text| text.contains(&expected));
    }

    fn remote(&self) -> Remote {
        let options = options(&format!("http://{}/main", self.address));
        let retries = Retries { most: 9, longest: Duration::from_millis(200), ..options.retries };
        Remote::connect(RemoteOptions { retries, ..options }).unwrap()
    }

    /// Ends without a word to anybody; its lease goes on, as that of a server does which nobody reaches.
    fn vanish(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }

    fn shut_down(mut self) {
        let running = self.running.take().unwrap();
        self.runtime.as_ref().unwrap().block_on(running.shut_down()).unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[test]
fn every_server_answers_for_all_and_holds_its_share() {
    let engine = Engine::new(1);
    let workers = [engine.start(), engine.start(), engine.start()];
    let mut owner = Owner::blind(3, 300);
    owner.publish(&workers[0].remote()).unwrap();
    engine.members.announce();
    workers.iter().for_each(|worker| worker.sees(3));
    let searchers = workers.each_ref().map(|worker| searcher(worker.remote()));
    for searcher in &searchers {
        search_with(searcher, &mut owner).unwrap();
    }
    // What one publishes is searched through the others at once.
    owner.add(20);
    owner.publish(&workers[1].remote()).unwrap();
    for searcher in &searchers {
        search_with(searcher, &mut owner).unwrap();
    }
    // Each lets go of what others hold, and no block is held twice.
    let whole = one_alone(&engine);
    let since = Instant::now();
    loop {
        let held: Vec<f64> = workers.iter().map(|w| w.figure("shard_blind_bytes")).collect();
        if held.iter().sum::<f64>() == whole && held.iter().all(|&bytes| bytes < 0.6 * whole) {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{held:?} of {whole}");
        std::thread::sleep(RENEWAL);
    }
    for searcher in &searchers {
        search_with(searcher, &mut owner).unwrap();
    }
}

/// What a server without others holds of the same engine.
fn one_alone(engine: &Engine) -> f64 {
    let alone = Engine {
        members: Arc::default(),
        directory: tempfile::tempdir().unwrap(),
        rows: engine.rows.clone(),
        replicas: 1,
    };
    alone.start().figure("shard_blind_bytes")
}

#[test]
fn a_server_that_vanishes_costs_no_search() {
    for replicas in [1, 2] {
        let engine = Engine::new(replicas);
        let mut workers = [engine.start(), engine.start(), engine.start()];
        let mut owner = Owner::blind(3, 200);
        owner.publish(&workers[0].remote()).unwrap();
        workers.iter().for_each(|worker| worker.sees(3));
        let searcher = BlindSearcher::new(workers[0].remote(), Hints::in_memory());
        search_with(&searcher, &mut owner).unwrap();
        workers[2].vanish();
        for _ in 0..3 {
            search_with(&searcher, &mut owner).unwrap();
        }
    }
}

#[test]
fn servers_that_are_restarted_one_after_the_other_fail_no_search() {
    let engine = Engine::new(1);
    let first = engine.start();
    let mut second = engine.start();
    let mut owner = Owner::blind(3, 200);
    owner.publish(&first.remote()).unwrap();
    let searcher = searcher(first.remote());
    for _ in 0..2 {
        first.sees(2);
        search_with(&searcher, &mut owner).unwrap();
        std::thread::scope(|scope| {
            let leaving = std::mem::replace(&mut second, engine.start());
            let left = scope.spawn(move || leaving.shut_down());
            while !left.is_finished() {
                search_with(&searcher, &mut owner).unwrap();
            }
            left.join().unwrap();
        });
        search_with(&searcher, &mut owner).unwrap();
    }
}
