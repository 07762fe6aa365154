//! Load, failure and the end: what happens to requests that were accepted.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use shard_protocol::{MessageKind, RefusalCode};
use shard_server::http::{HttpOptions, NewToken, Scope, TokenLimits};
use shard_server::{Maintenance, NoMaintenance};
use shard_store::StoreError;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use crate::support::hooked::HookedRows;
use crate::support::{EPOCH, HELD, Reply, Setup, Site, activate, new_token, request};

/// A door that a test opens.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let open = self.open.lock().unwrap();
        drop(self.changed.wait_while(open, |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

/// A server that describes collections once its gate is open.
fn gated(options: HttpOptions, guarded: bool) -> (Arc<Site>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let hook = gate.clone();
    let rows = Arc::new(HookedRows::new(move || hook.pass()));
    let site = Site::start(Setup { options, rows, guarded, ..Setup::default() });
    (Arc::new(site), gate)
}

fn describe(site: &Arc<Site>, token: &str) -> tokio::task::JoinHandle<Reply> {
    let (site, token) = (site.clone(), token.to_owned());
    tokio::spawn(
        async move { site.send("main/describe", &token, MessageKind::Describe.bare()).await },
    )
}

/// Waits until a figure has a value.
async fn figure(site: &Site, token: &str, line: &str) {
    while !site.ask("/metrics", token).await.text().lines().any(|found| found == line) {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_turns_away_at_once_and_loses_nobody() {
    let options = HttpOptions { workers: 1, queue: 1, ..HttpOptions::default() };
    let (site, gate) = gated(options, false);
    let first = describe(&site, "");
    figure(&site, "", "shard_computing 1").await;
    let second = describe(&site, "");
    figure(&site, "", "shard_queue_waiting 1").await;
    let third = describe(&site, "").await.unwrap();
    third.is(429, RefusalCode::Busy);
    assert_eq!(third.header("retry-after"), Some("1"));
    gate.open();
    assert_eq!((first.await.unwrap().status, second.await.unwrap().status), (200, 200));
    figure(&site, "", "shard_queue_waiting 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_its_number_of_requests_at_a_time() {
    let (site, gate) = gated(HttpOptions { workers: 4, ..HttpOptions::default() }, true);
    let limits = TokenLimits { concurrent: Some(1), ..TokenLimits::default() };
    let (_, token) = site.token(&NewToken { limits, ..new_token(&[Scope::Read]) });
    let (_, other) = site.token(&new_token(&[Scope::Read]));
    let first = describe(&site, &token);
    figure(&site, &other, "shard_computing 1").await;
    describe(&site, &token).await.unwrap().is(429, RefusalCode::Busy);
    gate.open();
    assert_eq!(first.await.unwrap().status, 200);
    assert_eq!(describe(&site, &other).await.unwrap().status, 200);
    // The place is given back once the answer has gone.
    while describe(&site, &token).await.unwrap().status != 200 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_and_searches_do_not_wait_for_each_other_s_workers() {
    let options = HttpOptions { workers: 1, queue: 0, ..HttpOptions::default() };
    let (site, gate) = gated(options, false);
    let read = describe(&site, "");
    figure(&site, "", "shard_computing 1").await;
    assert_eq!(site.send("main/activate", "", activate(HELD, 1)).await.status, 200);
    gate.open();
    assert_eq!(read.await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_counts_until_it_is_done_also_when_its_peer_has_gone() {
    let (site, gate) = gated(HttpOptions { workers: 4, ..HttpOptions::default() }, true);
    let limits = TokenLimits { concurrent: Some(1), ..TokenLimits::default() };
    let (_, token) = site.token(&NewToken { limits, ..new_token(&[Scope::Read]) });
    let (_, other) = site.token(&new_token(&[Scope::Read]));
    let gone = describe(&site, &token);
    figure(&site, &other, "shard_computing 1").await;
    gone.abort();
    // The one that asks is in flight itself.
    figure(&site, &other, "shard_requests_in_flight 1").await;
    describe(&site, &token).await.unwrap().is(429, RefusalCode::Busy);
    let end = tokio::spawn(site.running().shut_down());
    while std::net::TcpStream::connect(site.address).is_ok() {
        sleep(Duration::from_millis(5)).await;
    }
    sleep(Duration::from_millis(50)).await;
    assert!(!end.is_finished(), "a shutdown waits for it");
    gate.open();
    end.await.unwrap().unwrap();
}

/// Compacts once the gate is open.
struct GatedMaintenance {
    gate: Arc<Gate>,
    begun: Arc<AtomicBool>,
}

impl Maintenance for GatedMaintenance {
    fn needs_compaction(&self) -> bool {
        false
    }

    fn compact(&self) -> Result<(), StoreError> {
        self.begun.store(true, Ordering::Relaxed);
        self.gate.pass();
        Ok(())
    }

    fn snapshot(&self, to: &Path) -> Result<(), StoreError> {
        NoMaintenance.snapshot(to)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_is_alone_also_when_the_one_who_asked_has_gone() {
    let (gate, begun) = (Arc::new(Gate::default()), Arc::new(AtomicBool::new(false)));
    let maintenance = Arc::new(GatedMaintenance { gate: gate.clone(), begun: begun.clone() });
    let site = Arc::new(Site::start(Setup { maintenance, guarded: false, ..Setup::default() }));
    let compact = |site: Arc<Site>| async move {
        let request = site.client.post(format!("{}/v1/admin/compact", site.url));
        let reply = request.header("content-type", "application/json").send().await;
        reply.unwrap().status().as_u16()
    };
    let gone = tokio::spawn(compact(site.clone()));
    while !begun.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(5)).await;
    }
    gone.abort();
    figure(&site, "", "shard_requests_in_flight 1").await;
    assert_eq!(compact(site.clone()).await, 429);
    gate.open();
    while compact(site.clone()).await != 200 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_gives_500_and_nothing_else() {
    let first = AtomicBool::new(true);
    let hook = move || {
        if first.swap(false, Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new("a bug"));
        }
    };
    let rows = Arc::new(HookedRows::new(hook));
    let site = Site::start(Setup { rows, guarded: false, ..Setup::default() });
    let site = Arc::new(site);
    describe(&site, "").await.unwrap().is(500, RefusalCode::Internal);
    assert_eq!(describe(&site, "").await.unwrap().status, 200);
    assert_eq!(site.send("main/rerank", "", request(EPOCH, 10, 1)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_finishes_what_was_accepted_and_takes_nothing_new() {
    let (site, gate) = gated(HttpOptions { workers: 1, ..HttpOptions::default() }, false);
    let (running, queued) = (describe(&site, ""), {
        figure(&site, "", "shard_computing 1").await;
        describe(&site, "")
    });
    figure(&site, "", "shard_queue_waiting 1").await;
    let end = tokio::spawn(site.running().shut_down());
    while std::net::TcpStream::connect(site.address).is_ok() {
        sleep(Duration::from_millis(5)).await;
    }
    gate.open();
    assert_eq!(running.await.unwrap().status, 200);
    assert_eq!(queued.await.unwrap().status, 200);
    end.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_that_it_is_about_to_stop_before_it_does() {
    let options = HttpOptions { drain: Duration::from_millis(300), ..HttpOptions::default() };
    let site = Site::start(Setup { options, ..Setup::default() });
    assert_eq!(site.ask("/readyz", "").await.status, 200);
    let end = tokio::spawn(site.running().shut_down());
    loop {
        let reply = site.ask("/readyz", "").await;
        if reply.status == 503 {
            break;
        }
    }
    assert_eq!(site.ask("/healthz", "").await.status, 200, "it still serves");
    end.await.unwrap().unwrap();
    assert!(site.client.get(format!("{}/healthz", site.url)).send().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_does_not_wait_longer_than_its_grace() {
    let options = HttpOptions { grace: Duration::from_millis(100), ..HttpOptions::default() };
    let (site, gate) = gated(options, false);
    let stuck = describe(&site, "");
    figure(&site, "", "shard_computing 1").await;
    let end = site.running().shut_down();
    tokio::time::timeout(Duration::from_secs(20), end).await.expect("an end").unwrap();
    gate.open();
    assert!(stuck.await.is_err(), "the connection was cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_only_keeps_its_connection_does_not_hold_up_the_end() {
    let options = HttpOptions { grace: Duration::from_secs(600), ..HttpOptions::default() };
    let site = Site::start(Setup::plain(options));
    // Asks over HTTP/2 and then reads nothing more, not even the announcement of the end.
    let mut stream = tokio::net::TcpStream::connect(site.address).await.unwrap();
    let (preface, settings) = (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [0, 0, 0, 4, 0, 0, 0, 0, 0]);
    stream.write_all(&[&preface[..], &settings].concat()).await.unwrap();
    assert_eq!(site.ask("/healthz", "").await.status, 200);
    let end = site.running().shut_down();
    tokio::time::timeout(Duration::from_secs(20), end).await.expect("an end").unwrap();
}
