//! Servers that work on one engine: leases, each other's certificates, parts of searches.
//!
//! Every server has a certificate of its own making, new with every start, and its lease carries the
//! fingerprint. On the port for each other both sides show their certificate and take none but those of
//! live leases: who may write leases decides who takes part. Nothing else is signed by anybody.
//!
//! A server renews its lease now and then ([`ClusterOptions::renewal`]), for three times as long. It counts on
//! others that are ready, and for a while not on one that did not answer. When those change it loads what it is
//! to hold now, keeps what it held for some renewals, since others learn of the change later, and then lets it
//! go.

mod follow;
mod port;

use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use shard_protocol::{CollectionName, Limits, Refusal};
use shard_store::{Member, Members, WorkerId};

pub(super) use follow::follow;
pub(super) use port::PeerPort;

use super::StartError;
use super::metrics::ClusterLevels;
use super::peer_tls::{Fingerprint, Identity, KnownCertificates};
use crate::{Asked, PeerError, Peers, View};

/// How long a lease lasts after its last renewal, in times between two.
const LEASE: u32 = 3;

/// How long a server keeps what others may still take it to hold, after the others have changed.
const KEPT: u32 = 10;

/// How long another server may take for its part: longer than loading a large share.
const PART_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection to another server may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes of a refusal, at most.
const MOST_REFUSAL: usize = 64 << 10;

/// How servers work together.
#[derive(Clone)]
pub struct ClusterOptions {
    /// Keeps the leases.
    pub members: Arc<dyn Members>,
    /// Where this server listens for the others.
    pub listen: SocketAddr,
    /// Where the others reach it, `host:port`, if that is another address.
    pub advertise: Option<String>,
    /// How many servers hold each block: one or two.
    pub replicas: usize,
    /// How often the lease is renewed.
    pub renewal: Duration,
}

impl ClusterOptions {
    /// How often a lease is renewed, unless told otherwise.
    pub const RENEWAL: Duration = Duration::from_secs(1);
}

/// The others, as one server sees them.
pub(super) struct Cluster {
    members: Arc<dyn Members>,
    me: Mutex<Member>,
    /// Held while a lease is renewed or ended.
    renewing: Mutex<()>,
    replicas: usize,
    renewal: Duration,
    identity: Identity,
    known: Arc<KnownCertificates>,
    seen: RwLock<Seen>,
    clients: Mutex<HashMap<WorkerId, reqwest::Client>>,
    runtime: tokio::runtime::Handle,
    /// Parts of searches that others have asked for and that are under way, and when the last was.
    asked: Mutex<(usize, Option<Instant>)>,
    /// Whether it is about to stop: then it is not ready again.
    leaving: AtomicBool,
    left: AtomicBool,
}

struct Seen {
    /// Those among whom blocks are to be divided.
    next: Arc<View>,
    /// Those among whom they are: whoever is asked has had time to load.
    view: Arc<View>,
    /// Where those with a lease are, and under which certificate.
    addresses: HashMap<WorkerId, (String, Fingerprint)>,
    ready: HashSet<WorkerId>,
    /// Those that did not answer, and when.
    suspects: HashMap<WorkerId, Instant>,
    /// When the last renewal was, and when the view changed last.
    renewed: Instant,
    changed: Instant,
    /// After a time without renewals everybody's lease has run out: until then those of before are counted on.
    trusted: Instant,
    /// What the last load of a share took, and when it was last looked for commits to follow.
    load: Duration,
    looked: Instant,
    /// Collections that have moved on and are not followed yet.
    behind: usize,
}

impl Cluster {
    /// Takes part: binds the port for the others and begins the lease.
    pub(super) fn join(options: ClusterOptions) -> Result<(Arc<Self>, TcpListener), StartError> {
        let listener = TcpListener::bind(options.listen)?;
        listener.set_nonblocking(true)?;
        let address = options.advertise.unwrap_or(listener.local_addr()?.to_string());
        let identity = Identity::generate(&address).map_err(StartError::Peers)?;
        let mut random = [0; 8];
        shard_rlwe::fill_from_os(&mut random)
            .map_err(|error| StartError::Peers(error.to_string()))?;
        let id = WorkerId(u64::from_le_bytes(random));
        let fingerprint = identity.fingerprint();
        let me = Member { id, address, fingerprint, ready: false };
        let now = Instant::now();
        let view = Arc::new(View::new(id, [], options.replicas));
        let seen = Seen {
            next: view.clone(),
            view,
            addresses: HashMap::new(),
            ready: HashSet::new(),
            suspects: HashMap::new(),
            renewed: now,
            changed: now,
            trusted: now,
            load: Duration::ZERO,
            looked: now,
            behind: 0,
        };
        let cluster = Arc::new(Self {
            members: options.members,
            me: Mutex::new(me),
            renewing: Mutex::default(),
            replicas: options.replicas,
            renewal: options.renewal,
            known: Arc::default(),
            identity,
            seen: RwLock::new(seen),
            clients: Mutex::default(),
            runtime: tokio::runtime::Handle::current(),
            asked: Mutex::default(),
            leaving: AtomicBool::new(false),
            left: AtomicBool::new(false),
        });
        Ok((cluster, listener))
    }

    pub(super) fn renewal(&self) -> Duration {
        self.renewal
    }

    pub(super) fn id(&self) -> WorkerId {
        lock(&self.me).id
    }

    /// Live values, for figures.
    pub(super) fn levels(&self) -> ClusterLevels {
        let seen = self.seen();
        ClusterLevels {
            servers: seen.next.workers().len(),
            lease_age: seen.renewed.elapsed(),
            load: seen.load,
            heads_age: seen.looked.elapsed(),
            behind: seen.behind,
        }
    }

    /// Renews the lease, and takes note of the others.
    pub(super) fn renew(&self) -> Result<(), shard_store::StoreError> {
        // One at a time: what is said last is what stays.
        let _alone = lock(&self.renewing);
        let me = lock(&self.me).clone();
        if self.left.load(Ordering::Relaxed) {
            return Ok(());
        }
        let lease = LEASE * self.renewal;
        let all = self.members.renew(&me, lease)?;
        let mut seen = self.seen_mut();
        let now = Instant::now();
        if seen.renewed.elapsed() > lease {
            seen.trusted = now + lease;
        }
        let others = || all.iter().filter(|member| member.id != me.id);
        let mut addresses: HashMap<WorkerId, (String, Fingerprint)> = others()
            .map(|member| (member.id, (member.address.clone(), member.fingerprint)))
            .collect();
        let mut ready: HashSet<WorkerId> =
            others().filter(|member| member.ready).map(|member| member.id).collect();
        if now < seen.trusted {
            let back: HashSet<WorkerId> = addresses.keys().copied().collect();
            ready.extend(seen.ready.iter().filter(|id| !back.contains(id)));
            for (id, address) in &seen.addresses {
                addresses.entry(*id).or_insert_with(|| address.clone());
            }
        }
        let fingerprints = addresses.values().map(|(_, fingerprint)| *fingerprint);
        self.known.set(fingerprints.chain([me.fingerprint]));
        lock(&self.clients).retain(|id, _| addresses.contains_key(id));
        (seen.ready, seen.addresses, seen.renewed) = (ready, addresses, now);
        self.look(&mut seen, me.id);
        Ok(())
    }

    /// Makes the next view. It is asked by once everybody had time to load, and at once where one of those that
    /// are asked is gone.
    fn look(&self, seen: &mut Seen, me: WorkerId) {
        // Who is gone has no lease by then; who has one is asked again.
        seen.suspects.retain(|_, since| since.elapsed() <= (LEASE + 1) * self.renewal);
        let counted = seen.ready.iter().filter(|id| !seen.suspects.contains_key(id)).copied();
        let view = View::new(me, counted, self.replicas);
        if *seen.next != view {
            seen.next = Arc::new(view);
            seen.changed = Instant::now();
        }
        let is_gone = |id: &WorkerId| {
            *id != me && (!seen.addresses.contains_key(id) || seen.suspects.contains_key(id))
        };
        if seen.view.workers().iter().any(is_gone) {
            seen.view = seen.next.clone();
        }
    }

    /// Says that what a view wants is loaded.
    fn divided(&self, view: &Arc<View>, load: Duration) {
        let mut seen = self.seen_mut();
        seen.load = load;
        seen.view = view.clone();
        // Somebody of that view may have gone meanwhile.
        self.look(&mut seen, view.me());
    }

    /// Says what loading took at the start.
    pub(super) fn loaded(&self, load: Duration) {
        self.seen_mut().load = load;
    }

    /// Gives others the time of a lease to learn that this server leaves, then waits until none of them has asked
    /// it for anything for two renewals: by then they have loaded what it holds. Waits no longer than `end`.
    pub(super) async fn hand_over(&self, end: tokio::time::Instant) {
        tokio::time::sleep_until(end.min(tokio::time::Instant::now() + LEASE * self.renewal)).await;
        let is_asked = || {
            let (under_way, last) = *lock(&self.asked);
            under_way > 0 || last.is_some_and(|then| then.elapsed() < 2 * self.renewal)
        };
        while is_asked() && tokio::time::Instant::now() < end {
            tokio::time::sleep(self.renewal / 4).await;
        }
    }

    /// Counts a part of a search that another server asks for as under way until the value is dropped.
    fn answering(&self) -> Answering<'_> {
        lock(&self.asked).0 += 1;
        Answering(self)
    }

    /// Says that others may count on this server, unless it is about to stop.
    pub(super) fn announce_ready(&self) {
        {
            let mut me = lock(&self.me);
            me.ready = !self.leaving.load(Ordering::Relaxed);
        }
        self.announce();
    }

    /// Says that others may count on this server no longer, for good.
    pub(super) fn announce_leaving(&self) {
        {
            let mut me = lock(&self.me);
            self.leaving.store(true, Ordering::Relaxed);
            me.ready = false;
        }
        self.announce();
    }

    fn announce(&self) {
        if let Err(error) = self.renew() {
            tracing::error!(%error, "the lease cannot be renewed");
        }
    }

    /// Ends the lease.
    pub(super) fn leave(&self) {
        let _alone = lock(&self.renewing);
        self.left.store(true, Ordering::Relaxed);
        if let Err(error) = self.members.leave(self.id()) {
            tracing::warn!(%error, "the lease will run out by itself");
        }
    }

    fn seen(&self) -> std::sync::RwLockReadGuard<'_, Seen> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen_mut(&self) -> std::sync::RwLockWriteGuard<'_, Seen> {
        self.seen.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to another server, kept.
    fn client(&self, worker: WorkerId, of: Fingerprint) -> Result<reqwest::Client, String> {
        if let Some(client) = lock(&self.clients).get(&worker) {
            return Ok(client.clone());
        }
        let tls = self.identity.for_client(of)?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(PART_TIMEOUT)
            // One that is cut off does not say so.
            .http2_keep_alive_interval(CONNECT_TIMEOUT)
            .http2_keep_alive_timeout(2 * CONNECT_TIMEOUT)
            .http2_keep_alive_while_idle(true)
            .build()
            .map_err(|error| error.to_string())?;
        lock(&self.clients).insert(worker, client.clone());
        Ok(client)
    }
}

impl Peers for Cluster {
    fn view(&self) -> Arc<View> {
        self.seen().view.clone()
    }

    fn next_view(&self) -> Arc<View> {
        self.seen().next.clone()
    }

    fn ask(
        &self,
        worker: WorkerId,
        collection: &CollectionName,
        message: Vec<u8>,
        most: usize,
    ) -> Asked {
        let most = most.max(MOST_REFUSAL);
        let address = self.seen().addresses.get(&worker).cloned();
        let known = address.ok_or_else(|| format!("{worker} has no lease"));
        let sent = known.and_then(|(address, fingerprint)| {
            let url = format!("https://{address}/part/{collection}");
            let request = self.client(worker, fingerprint)?.post(url).body(message);
            Ok(self.runtime.spawn(async move {
                let unreachable = |error: reqwest::Error| {
                    PeerError::Unreachable(format!("{address}: {}", innermost(&error)))
                };
                let mut response = request.send().await.map_err(unreachable)?;
                let status = response.status();
                let mut bytes = Vec::new();
                while let Some(more) = response.chunk().await.map_err(unreachable)? {
                    bytes.extend_from_slice(&more);
                    if bytes.len() > most {
                        let why = format!("{address}: more than {most} bytes");
                        return Err(PeerError::Unreachable(why));
                    }
                }
                if status == StatusCode::OK {
                    return Ok(bytes);
                }
                match Refusal::decode(&bytes, &Limits::default()) {
                    Ok(refusal) => Err(PeerError::Refused(refusal)),
                    Err(_) => Err(PeerError::Unreachable(format!("{address}: status {status}"))),
                }
            }))
        });
        let runtime = self.runtime.clone();
        Box::new(move || match sent {
            Ok(asked) => runtime
                .block_on(asked)
                .unwrap_or_else(|error| Err(PeerError::Unreachable(error.to_string()))),
            Err(why) => Err(PeerError::Unreachable(why)),
        })
    }

    fn suspect(&self, worker: WorkerId, why: &str) {
        tracing::warn!(%worker, why, "a server does not answer");
        let me = self.id();
        lock(&self.clients).remove(&worker);
        let mut seen = self.seen_mut();
        seen.suspects.insert(worker, Instant::now());
        self.look(&mut seen, me);
    }
}

/// See [`Cluster::answering`].
struct Answering<'a>(&'a Cluster);

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        let mut asked = lock(&self.0.asked);
        *asked = (asked.0 - 1, Some(Instant::now()));
    }
}

/// What an error comes from.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
