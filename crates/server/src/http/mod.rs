//! The server on a network: HTTP/1.1 and HTTP/2 over TLS 1.3, tokens, limits, figures, logs.
//!
//! ```text
//! connection ─► Doorkeeper (places, idle time) ─► TLS ─► hyper (headers) ─► host ─► exchange:
//!     token ─► body under a budget ─► kind ─► queue ─► worker: Server::answer_in_stages ─► answer
//! ```
//!
//! [`start`] takes a bound listener and a [`Service`] and returns a [`Running`] server; nothing
//! here reads flags, sets up logging or handles signals. `docs/OPERATIONS.md` is for those who run
//! it, `/docs` of a running server for those who talk to it.
//!
//! # Non-goals
//!
//! No proxying, no virtual hosts, no accounts: a token is all the server knows of anybody.

mod admin;
mod body;
mod cluster;
mod connections;
mod exchange;
mod host;
mod metrics;
mod openapi;
mod options;
mod peer_tls;
mod probes;
mod refused;
mod tls;
mod tokens;
mod told;
mod workers;

use std::fmt::Display;
use std::net::{SocketAddr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum_server::Handle;
use axum_server::tls_rustls::RustlsAcceptor;
use hyper_util::rt::TokioTimer;
use shard_protocol::{Operation, http};
use shard_store::StoreError;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;

pub use options::HttpOptions;
pub use tls::{Tls, TlsError};
pub use tokens::{
    NewToken, Scope, TOKEN_PREFIX, Token, TokenError, TokenFile, TokenLimits, TokenRecord,
    TokenTable, Tokens,
};

use crate::{Maintenance, Server, ServerError};
use body::Budget;
pub use cluster::ClusterOptions;
use cluster::{Cluster, PeerPort};
use connections::{Connection, Doorkeeper};
use metrics::Metrics;
use refused::Refused;
use told::Told;
use workers::Workers;

/// How often buffers of figures are emptied.
const METRICS_INTERVAL: Duration = Duration::from_secs(5);

/// Requests that wait for an engine on another machine at a time: as many as it has connections.
const FETCHERS: usize = 16;

/// Time for the last bytes of an answer to leave the buffers of TLS, which has copies of its own.
const LAST_BYTES: Duration = Duration::from_millis(500);

/// Time until blocks are looked for again that an engine had which did not answer.
const LOAD_AGAIN: Duration = Duration::from_secs(1);

/// The longest time between two tries of a compaction that fails.
const COMPACTION_RETRY: Duration = Duration::from_secs(60 * 60);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A public address without TLS.
    #[error(
        "{0} is not a loopback address, and without TLS everybody on the way could read tokens: \
         give a certificate, or listen on a loopback address"
    )]
    PublicWithoutTls(SocketAddr),
    /// A public address without tokens.
    #[error(
        "{0} is not a loopback address, and without a token everybody could read and write: make \
         one, or listen on a loopback address"
    )]
    PublicWithoutToken(SocketAddr),
    /// The socket cannot be used.
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
    /// This server cannot work beside others.
    #[error("cannot take part with other servers: {0}")]
    Peers(String),
    /// No threads to compute on.
    #[error("cannot start workers: {0}")]
    Workers(#[from] rayon::ThreadPoolBuildError),
}

/// Everything that is put on the network.
pub struct Service {
    /// What answers messages.
    pub server: Server,
    /// The engine's maintenance.
    pub maintenance: Arc<dyn Maintenance>,
    /// Who may do what.
    pub tokens: Tokens,
    /// The certificate; without one, connections are in the clear, on loopback addresses only.
    pub tls: Option<Tls>,
    /// Where snapshots go.
    pub snapshots: PathBuf,
    /// How it works together with others on the same engine, if it does.
    pub cluster: Option<ClusterOptions>,
    /// Limits and manners.
    pub options: HttpOptions,
}

/// What all requests share.
struct Shared {
    address: SocketAddr,
    server: Arc<Server>,
    maintenance: Arc<dyn Maintenance>,
    tokens: Arc<Tokens>,
    snapshots: PathBuf,
    options: HttpOptions,
    workers: Workers,
    /// For what only waits for an engine on another machine; none where the engine is here.
    fetchers: Option<Workers>,
    /// For changes, which the engine takes one at a time anyway: they wait for the disk, and
    /// searches must not wait with them.
    writer: Workers,
    /// For parts of searches that other servers ask for.
    peer_workers: Option<Arc<Workers>>,
    budget: Budget,
    doorkeeper: Doorkeeper,
    metrics: Arc<Metrics>,
    /// The other servers.
    cluster: Option<Arc<Cluster>>,
    /// Whether blocks are being loaded since the start.
    loading: AtomicBool,
    /// Whether a shutdown was announced.
    stopping: AtomicBool,
    /// Requests that are served, work that goes on without a peer, and answers that are sent.
    active: TaskTracker,
    /// One compaction or snapshot at a time.
    maintenance_lock: Arc<tokio::sync::Mutex<()>>,
}

/// A server that runs. It goes on until [`Running::shut_down`], also when this is dropped.
pub struct Running {
    address: SocketAddr,
    handle: Handle<SocketAddr>,
    shared: Arc<Shared>,
    tls: Option<Arc<Tls>>,
    serving: JoinHandle<std::io::Result<()>>,
    maintenance: JoinHandle<()>,
    peer_port: Option<PeerPort>,
}

/// Starts to serve on a listener. Must be called within a Tokio runtime.
pub fn start(listener: TcpListener, service: Service) -> Result<Running, StartError> {
    let address = listener.local_addr()?;
    if !address.ip().to_canonical().is_loopback() {
        if service.tls.is_none() {
            return Err(StartError::PublicWithoutTls(address));
        }
        if !service.tokens.are_required() {
            return Err(StartError::PublicWithoutToken(address));
        }
    }
    let Service { server, maintenance, tokens, tls, snapshots, cluster, options } = service;
    let joined = cluster.map(Cluster::join).transpose()?;
    let server = server.with_own_pools();
    let server = Arc::new(match &joined {
        Some((cluster, _)) => server.with_peers(cluster.clone()),
        None => server,
    });
    let (cluster, peer_workers, peer_port) = match joined {
        Some((cluster, listener)) => {
            // They wait for nobody, so two servers cannot wait for each other.
            let workers = Arc::new(Workers::new("peer", options.workers, 1, options.queue)?);
            let port = cluster.serve(listener, server.clone(), workers.clone())?;
            cluster.renew().map_err(|error| StartError::Peers(error.to_string()))?;
            (Some(cluster), Some(workers), Some(port))
        }
        None => (None, None, None),
    };
    let metrics = Arc::new(Metrics::new());
    let doorkeeper = Doorkeeper::new(&options, metrics.clone());
    let threads = options.threads_per_request;
    let remote = server.rows().is_remote();
    let fetchers = || Workers::new("fetcher", FETCHERS, 1, options.queue);
    let shared = Arc::new(Shared {
        address,
        server,
        cluster,
        maintenance,
        tokens: Arc::new(tokens),
        snapshots,
        workers: Workers::new("worker", options.workers, threads, options.queue)?,
        fetchers: remote.then(fetchers).transpose()?,
        writer: Workers::new("writer", 1, threads, options.queue)?,
        peer_workers,
        budget: Budget::new(options.held_bytes),
        doorkeeper: doorkeeper.clone(),
        metrics,
        loading: AtomicBool::new(false),
        stopping: AtomicBool::new(false),
        active: TaskTracker::new(),
        maintenance_lock: Arc::default(),
        options,
    });
    listener.set_nonblocking(true)?;
    let handle = Handle::new();
    let mut http = axum_server::from_tcp(listener)?.handle(handle.clone()).acceptor(doorkeeper);
    configure(http.http_builder(), &shared.options);
    let application = application(shared.clone()).into_make_service();
    let tls = tls.map(Arc::new);
    let serving = match &tls {
        Some(tls) => {
            let handshake = shared.options.handshake_timeout;
            let http = http.map(|doorkeeper| {
                RustlsAcceptor::new(tls.config()).handshake_timeout(handshake).acceptor(doorkeeper)
            });
            tokio::spawn(http.serve(application))
        }
        None => tokio::spawn(http.serve(application)),
    };
    load_blocks(&shared);
    if let Some(cluster) = &shared.cluster {
        cluster::follow(cluster, &shared.server);
    }
    let renewal = shared.cluster.as_ref().map(|cluster| cluster.renewal());
    shared.tokens.follow_table(renewal.unwrap_or(ClusterOptions::RENEWAL));
    let maintenance = tokio::spawn(keep_up(shared.clone()));
    Ok(Running { address, handle, shared, tls, serving, maintenance, peer_port })
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate's fingerprint, for clients to pin.
    pub fn fingerprint(&self) -> Option<String> {
        self.tls.as_ref().map(|tls| tls.fingerprint())
    }

    /// Reads certificate and tokens again. What cannot be read stays as it was, which the log
    /// says.
    pub fn reload(&self) {
        // Those of a table are read all the time, and a database may keep us waiting.
        if !self.shared.tokens.are_shared()
            && let Err(error) = self.shared.tokens.reload()
        {
            tracing::error!(%error, "the tokens of before stay in force");
        }
        if let Some(tls) = &self.tls {
            match tls.reload() {
                Ok(()) => tracing::info!(fingerprint = tls.fingerprint(), "certificate read"),
                Err(error) => tracing::error!(%error, "the certificate of before stays in force"),
            }
        }
    }

    /// Says on `/readyz` that it is about to stop, and to other servers, who load what it holds; then takes no new
    /// connection, finishes what it has accepted, and ends. All of it takes no longer than the times to drain and
    /// of grace together, and a second.
    pub async fn shut_down(self) -> std::io::Result<()> {
        let HttpOptions { drain, grace, .. } = self.shared.options;
        let end = tokio::time::Instant::now() + drain + grace;
        self.shared.stopping.store(true, Ordering::Relaxed);
        let drained = tokio::time::sleep(drain);
        if let Some(cluster) = self.shared.cluster.clone() {
            // Others take over what it holds, while it still answers.
            let leaving = cluster.clone();
            let announced = tokio::task::spawn_blocking(move || leaving.announce_leaving());
            // What was accepted by then has the rest.
            let handed_over = end - grace / 4;
            let _ = tokio::time::timeout_at(handed_over, announced).await;
            cluster.hand_over(handed_over).await;
        }
        drained.await;
        let left = end.saturating_duration_since(tokio::time::Instant::now());
        self.handle.graceful_shutdown(Some(left));
        self.shared.active.close();
        let mut serving = self.serving;
        let served = tokio::select! {
            served = &mut serving => {
                // Work goes on whose peer has gone. What is left at the end has had its time.
                let _ = tokio::time::timeout_at(end, self.shared.active.wait()).await;
                served
            }
            // A peer that keeps an idle connection open, or is gone, is no reason to stay.
            () = quiet(&self.shared.active) => {
                self.handle.shutdown();
                serving.await
            }
        };
        self.maintenance.abort();
        if let Some(cluster) = self.shared.cluster.clone() {
            let left = tokio::task::spawn_blocking(move || cluster.leave());
            // A database that does not answer is no reason to stay: the lease runs out by itself.
            let _ = tokio::time::timeout(LAST_BYTES, left).await;
        }
        if let Some(port) = self.peer_port {
            port.shut_down(LAST_BYTES).await;
        }
        served.unwrap_or_else(|error| Err(std::io::Error::other(error)))
    }
}

/// Loads the blocks of blind collections beside what is served already. A search that comes before
/// its collection is loaded waits for it.
fn load_blocks(shared: &Arc<Shared>) {
    match shared.server.any_block_list() {
        Ok(false) => {
            if let Some(cluster) = shared.cluster.clone() {
                tokio::task::spawn_blocking(move || cluster.announce_ready());
            }
            return;
        }
        Ok(true) => {}
        Err(error) => tracing::error!(%error, "cannot look for blocks"),
    }
    shared.loading.store(true, Ordering::Relaxed);
    let shared = shared.clone();
    tokio::task::spawn_blocking(move || {
        let (start, mut told) = (Instant::now(), Told::default());
        let is_over = || {
            let patience = shared.options.load_timeout;
            start.elapsed() >= patience || shared.stopping.load(Ordering::Relaxed)
        };
        while !load_all(&shared.server, &mut told) && !is_over() {
            std::thread::sleep(LOAD_AGAIN);
        }
        if let Some(cluster) = &shared.cluster {
            cluster.loaded(start.elapsed());
            cluster.announce_ready();
        }
        shared.loading.store(false, Ordering::Relaxed);
    });
}

/// Loads what can be loaded. Returns whether nothing is left that the next try may find: what an engine had that did
/// not answer. Blocks for which there is no room are left to the first search of them: where servers start together
/// each is alone at first, and room comes when they divide what there is.
fn load_all(server: &Server, told: &mut Told) -> bool {
    let is_away =
        |error: &ServerError| matches!(error, ServerError::Store(StoreError::Unavailable { .. }));
    match catch_unwind(AssertUnwindSafe(|| server.load_blocks())) {
        Ok(Ok(failed)) => {
            told.tell(&failed, "blocks cannot be loaded");
            if failed.is_empty() {
                let counts = server.blocks();
                let (collections, bytes) = (counts.collections, counts.bytes);
                tracing::info!(collections, bytes, "blocks are loaded");
            }
            !failed.iter().any(|(_, error)| is_away(error))
        }
        Ok(Err(error)) => {
            told.tell_all(&error, "blocks cannot be loaded");
            !is_away(&error)
        }
        Err(_) => {
            tracing::error!("the load of blocks panicked");
            true
        }
    }
}

/// Starts a thread; without one the server goes on.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.to_owned());
    if let Err(error) = thread.spawn(work) {
        tracing::error!(%error, name, "a thread cannot be started");
    }
}

/// Waits until nothing is served any longer, and the last bytes had time to go.
async fn quiet(active: &TaskTracker) {
    loop {
        active.wait().await;
        tokio::time::sleep(LAST_BYTES).await;
        // One may have begun on a connection that was open already.
        if active.is_empty() {
            return;
        }
    }
}

/// Limits of hyper's own: what a peer can do before a request is complete.
fn configure(
    builder: &mut hyper_util::server::conn::auto::Builder<hyper_util::rt::TokioExecutor>,
    options: &HttpOptions,
) {
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout)
        .max_headers(64)
        .max_buf_size(options.header_bytes.max(8 << 10));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(options.streams)
        .max_header_list_size(u32::try_from(options.header_bytes).unwrap_or(u32::MAX));
}

/// Where the router finds the name of a collection in a path.
const NAME: &str = "{name}";

/// A path as the router has it.
fn rooted(path: impl Display) -> String {
    format!("/{path}")
}

fn application(shared: Arc<Shared>) -> Router {
    let mut router = Router::new()
        .route(&rooted(http::HEALTH), get(probes::alive))
        .route(&rooted(http::READINESS), get(probes::ready))
        .route(&rooted(http::METRICS), get(probes::metrics))
        .route("/openapi.json", get(probes::description))
        .route("/docs", get(probes::page))
        .route(&rooted(http::COLLECTIONS), get(admin::collections))
        .route(
            &rooted(http::collection(NAME)),
            get(admin::collection).delete(admin::drop_collection),
        )
        .route(&rooted(http::COMPACT), post(admin::compact))
        .route(&rooted(http::SNAPSHOT), post(admin::snapshot));
    for operation in Operation::ALL {
        let path = rooted(http::operation(NAME, operation));
        let serve = move |State(shared): State<Arc<Shared>>, Path(name): Path<String>, request| {
            exchange::exchange(shared, operation, name, request)
        };
        router = router.route(&path, post(serve));
    }
    let failed = |_| {
        tracing::warn!("a request panicked");
        Refused::internal("the server failed at this request").into_response()
    };
    router
        .fallback(|| async { (StatusCode::NOT_FOUND, "no such path; /docs lists them\n") })
        .layer(CatchPanicLayer::custom(failed))
        .layer(from_fn_with_state(shared.clone(), around))
        .with_state(shared)
}

/// What every request has in common.
async fn around(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<Connection>();
    let _handled = connection.map(Connection::handle);
    let (_counted, _active) = (shared.metrics.begin(), shared.active.token());
    let welcome = if shared.tokens.are_required() {
        Ok(())
    } else {
        host::check(&request, shared.address.ip())
    };
    let mut response = match welcome {
        Ok(()) => next.run(request).await,
        Err(refused) => {
            shared.metrics.refused(&refused);
            exchange::refused_before(refused, request.headers())
        }
    };
    let headers = response.headers_mut();
    headers.insert(exchange::VERSION, exchange::version());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Has the engine delete what nobody names any longer.
async fn sweep(shared: &Arc<Shared>) {
    let maintenance = shared.maintenance.clone();
    match tokio::task::spawn_blocking(move || maintenance.sweep()).await {
        Ok(Ok(0)) => {}
        Ok(Ok(objects)) => tracing::info!(objects, "swept"),
        Ok(Err(error)) => tracing::error!(%error, "a sweep failed; will be tried again"),
        Err(_) => tracing::error!("a sweep panicked"),
    }
}

/// Compacts when the engine wants it, and keeps figures small.
async fn keep_up(shared: Arc<Shared>) {
    let every = shared.options.compaction_interval;
    let mut figures = tokio::time::interval(METRICS_INTERVAL);
    let (mut asked, mut wait) = (Instant::now(), every);
    loop {
        figures.tick().await;
        shared.metrics.maintenance();
        if every.is_zero() || asked.elapsed() < wait {
            continue;
        }
        asked = Instant::now();
        sweep(&shared).await;
        if !shared.maintenance.needs_compaction() {
            continue;
        }
        let Ok(alone) = shared.maintenance_lock.clone().try_lock_owned() else { continue };
        let maintenance = shared.maintenance.clone();
        let compact = move || {
            let _alone = alone;
            maintenance.compact()
        };
        let outcome = tokio::task::spawn_blocking(compact).await;
        if let Ok(Ok(())) = outcome {
            wait = every;
            tracing::info!("compacted");
            continue;
        }
        // What fails once, for want of room say, fails again: each time is left twice as long.
        wait = wait.saturating_mul(2).min(COMPACTION_RETRY.max(every));
        let error = outcome.ok().and_then(Result::err).map(tracing::field::display);
        tracing::error!(error, seconds = wait.as_secs(), "compaction failed; will be tried again");
    }
}
