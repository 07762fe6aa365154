//! A server beside others: what it says of itself, what it follows, how it ends.

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use shard_protocol::http::MEDIA_TYPE;
use shard_protocol::{BlobName, CollectionName, Limits, MessageKind};
use shard_server::Server;
use shard_server::http::{ClusterOptions, HttpOptions};
use shard_store::{Member, Members, MemoryMembers, RowStore, StoreError, WorkerId};

use crate::commits::Commit;
use crate::support::hooked::HookedRows;
use crate::support::{Setup, Site};

/// How a server takes part here.
fn options(members: Arc<dyn Members>, renewal: Duration) -> ClusterOptions {
    let listen = ([127, 0, 0, 1], 0).into();
    ClusterOptions { members, listen, advertise: None, replicas: 1, renewal }
}

/// What another server sees of the one that is tested.
fn seen(members: &MemoryMembers) -> Option<bool> {
    let me = Member {
        id: WorkerId(1),
        address: "another:1".to_owned(),
        fingerprint: [1; 32],
        ready: false,
    };
    let all = members.renew(&me, Duration::from_secs(60)).unwrap();
    all.iter().find(|member| member.id != me.id).map(|member| member.ready)
}

/// Closed until a test opens it.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn pass(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |open| !*open).unwrap());
    }

    fn set_open(&self, open: bool) {
        *self.0.lock().unwrap() = open;
        self.1.notify_all();
    }
}

/// Rows that describe collections while the gate is open.
fn gated() -> (Arc<HookedRows>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let hook = gate.clone();
    (Arc::new(HookedRows::new(move || hook.pass())), gate)
}

/// Publishes the first commit of a blind collection.
fn publish(rows: &Arc<HookedRows>, collection: &str, commit: &Commit) {
    let (owner, collection) =
        (Server::new(rows.clone(), Limits::default()), collection.parse().unwrap());
    for message in commit.publish(None) {
        assert_eq!(owner.handle(&collection, &message), MessageKind::Accepted.bare());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_told_to_stop_while_it_loads_is_not_counted_on_afterwards() {
    let (rows, gate) = gated();
    gate.set_open(true);
    publish(&rows, "blind", &Commit::new(1, 0..40));
    gate.set_open(false);
    let members = Arc::new(MemoryMembers::new());
    let cluster = Some(options(members.clone(), Duration::from_millis(300)));
    let options = HttpOptions { grace: Duration::from_secs(1), ..HttpOptions::default() };
    let setup = Setup { options, rows, guarded: false, cluster, ..Setup::default() };
    let site = Site::start(setup);
    assert_eq!(site.ask("/readyz", "").await.text(), "loading blocks\n");
    assert_eq!(seen(&members), Some(false));
    let end = tokio::spawn(site.running().shut_down());
    while site.ask("/readyz", "").await.text() != "shutting down\n" {}
    gate.set_open(true);
    while !end.is_finished() {
        assert_ne!(seen(&members), Some(true));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    end.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_server_beside_others_takes_no_longer_than_its_grace() {
    let (rows, gate) = gated();
    let grace = Duration::from_secs(2);
    let cluster = Some(options(Arc::new(MemoryMembers::new()), Duration::from_secs(1)));
    let options = HttpOptions { grace, ..HttpOptions::default() };
    let setup = Setup { options, rows, guarded: false, cluster, ..Setup::default() };
    let site = Arc::new(Site::start(setup));
    let asked = site.clone();
    let stuck = tokio::spawn(async move {
        let request = asked.client.post(format!("{}/v1/collections/main/describe", asked.url));
        request.header("content-type", MEDIA_TYPE).body(MessageKind::Describe.bare()).send().await
    });
    while !site.ask("/metrics", "").await.text().contains("shard_computing 1\n") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let told = Instant::now();
    site.running().shut_down().await.unwrap();
    assert!(told.elapsed() < grace + Duration::from_millis(1900), "{:?}", told.elapsed());
    gate.set_open(true);
    assert!(stuck.await.unwrap().is_err(), "the connection was cut");
}

/// Leases in memory, beside a test that says which collections have moved on.
struct Saying {
    leases: MemoryMembers,
    moved: Mutex<mpsc::Receiver<CollectionName>>,
}

impl Members for Saying {
    fn renew(&self, me: &Member, lease: Duration) -> Result<Vec<Member>, StoreError> {
        self.leases.renew(me, lease)
    }

    fn leave(&self, id: WorkerId) -> Result<(), StoreError> {
        self.leases.leave(id)
    }

    fn moved(&self, at_most: Duration) -> Option<Vec<CollectionName>> {
        Some(self.moved.lock().unwrap().recv_timeout(at_most).into_iter().collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_that_is_behind_is_followed_while_others_publish() {
    let rows = Arc::new(HookedRows::new(|| ()));
    let commit = Commit::new(1, 0..40);
    publish(&rows, "blind", &commit);
    let (collection, block) = ("blind".parse().unwrap(), BlobName::block(commit.list.names()[0]));
    let bytes = rows.blob(&collection, &block).unwrap();
    rows.delete_blob(&collection, &block).unwrap();
    let (say, moved) = mpsc::channel();
    let members = Arc::new(Saying { leases: MemoryMembers::new(), moved: Mutex::new(moved) });
    let cluster = Some(options(members, Duration::from_millis(100)));
    let site =
        Site::start(Setup { rows: rows.clone(), guarded: false, cluster, ..Setup::default() });
    let becomes = async |line: &str, sometimes: &str| {
        let since = Instant::now();
        loop {
            say.send("other".parse().unwrap()).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            let figures = site.ask("/metrics", "").await;
            if figures.text().contains(line) {
                return;
            }
            let is_allowed = sometimes.is_empty() || figures.text().contains(sometimes);
            assert!(is_allowed && since.elapsed() < Duration::from_secs(30), "{}", figures.text());
        }
    };
    let (behind, with_other) =
        ("shard_cluster_collections_behind 1\n", "shard_cluster_collections_behind 2\n");
    becomes(behind, "").await;
    for _ in 0..20 {
        becomes(behind, with_other).await;
    }
    assert!(site.ask("/metrics", "").await.text().contains("shard_blind_collections 0\n"));
    rows.put_blob(&collection, &block, &bytes).unwrap();
    becomes("shard_blind_collections 1\n", "").await;
    becomes("shard_cluster_collections_behind 0\n", "").await;
}
