//! A server on the network: HTTP/2 over TLS 1.3, one message per request. With the feature `remote`.
//!
//! # Concepts
//!
//! * [`Remote`]: a connection that many threads share. It implements [`Transport`], so a search
//!   does not know whether its server is in the process or on another continent.
//! * What concerns the connection (a certificate, a token, a server that is busy) is a
//!   [`RemoteError`]; what concerns the request comes back as the server's own refusal.
//! * [`publish`]: brings a server's rows to the state of the vault. [`pull`]: brings a copy of the
//!   vault to what is published. [`backup`] and [`restore`]: the vault's sealed values, kept on the
//!   server.
//!
//! # Map
//!
//! | module | content |
//! |---|---|
//! | `options` | where a server is, and how patient to be with it |
//! | `tls` | which certificate is trusted: authorities and pins |
//! | `answer` | one HTTP answer, read under limits |
//! | `retry` | what is sent again, and when |
//! | `pace` | how fast the link is |
//! | `error` | [`RemoteError`] |
//! | `lineage` | how a vault and a server stand to each other |
//! | `publish`, `transfer` | what is to be done to a server; rows that differ, to it |
//! | `publish_blocks` | the same for a blind collection |
//! | `diagnose` | why a search was refused |
//! | `claim` | whose collection it is |
//! | `blobs`, `backup`, `restore` | what a server keeps for the owner; making a backup; getting a vault back |
//! | `pull` | a copy of a vault, brought to the published state |
//! | `sweep` | what a server need not keep any more |
//! | `digest` | SHA-256 as text |
//! | `admin` | what an operator asks, and the round trip |
//!
//! # Non-goals
//!
//! No redirects, no cookies, no compression: ciphertexts do not shrink, and compressing what
//! contains secrets beside what others choose is a known way to lose them.

mod admin;
mod answer;
mod backup;
mod blobs;
mod claim;
mod diagnose;
mod digest;
mod error;
mod lineage;
mod options;
mod pace;
mod publish;
mod publish_blocks;
mod pull;
mod restore;
mod retry;
mod sweep;
mod tls;
mod transfer;
mod vectors;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use shard_protocol::http::MEDIA_TYPE;
use shard_protocol::{CollectionName, Limits, Operation, Revision, Transport, message_kind};
use shard_rlwe::Objective;
use tokio::runtime::Runtime;

pub use backup::{BackedUp, BackupError, BackupOptions, KeptBackup, backup, kept_backups};
pub use claim::is_of_vault;
pub use diagnose::diagnose;
pub use error::RemoteError;
pub use lineage::{Head, Lineage, Standing, standing};
pub use options::{ProxyAddress, RemoteOptions, Retries, SecretToken, ServerAddress, Timeouts};
pub use publish::{PublishOptions, Published, describe, publish};
pub use publish_blocks::renew_checks;
pub use pull::{Pulled, pull};
pub use restore::{Restored, restore};
pub use tls::{Fingerprint, FingerprintError};
pub use vectors::{fetch_vectors_from, leave_vectors};

use answer::Answered;
use pace::{Exchange, Pace};

/// Threads that move bytes; whoever asks only waits.
const THREADS: usize = 2;

/// Bytes of one stream that may be on their way: more than the longest usual answer, so that no
/// answer waits for a round trip in the middle.
const STREAM_WINDOW: u32 = 4 << 20;

/// The same for all streams of a connection.
const CONNECTION_WINDOW: u32 = 32 << 20;

/// A collection on a server.
pub struct Remote {
    link: Arc<Link>,
    /// Ended without waiting when the last request is done: see [`Drop`].
    runtime: Option<Runtime>,
}

/// What every request needs.
struct Link {
    client: reqwest::Client,
    address: ServerAddress,
    has_token: bool,
    timeouts: Timeouts,
    retries: Retries,
    limits: Limits,
    /// The latest revision that an answer told of.
    revision: AtomicU64,
    pace: Pace,
    /// The shortest exchange, once it was measured.
    round_trip: OnceLock<Duration>,
}

impl Remote {
    /// Makes ready to talk to a server. Nothing is sent yet.
    ///
    /// # Errors
    /// When an option cannot be used: roots that cannot be read, a proxy that is no address, a pin
    /// where there is no certificate.
    pub fn connect(options: RemoteOptions) -> Result<Self, RemoteError> {
        options.check()?;
        let client = client(&options)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("shard-remote")
            .enable_all()
            .build()
            .map_err(|error| RemoteError::Option {
                reason: format!("cannot start the threads of the connection: {error}"),
            })?;
        let link = Link {
            client,
            has_token: options.token.is_some(),
            address: options.address,
            timeouts: options.timeouts,
            retries: options.retries,
            limits: Limits::default(),
            revision: AtomicU64::new(0),
            pace: Pace::default(),
            round_trip: OnceLock::new(),
        };
        Ok(Self { link: Arc::new(link), runtime: Some(runtime) })
    }

    /// The server and the collection.
    pub fn address(&self) -> &ServerAddress {
        &self.link.address
    }

    /// The latest revision of the collection that the server told of; `None` before the first
    /// answer and while nothing was published. A vault of an earlier revision is out of date, if
    /// the server can be believed.
    pub fn revision_seen(&self) -> Option<Revision> {
        match self.link.revision.load(Ordering::Relaxed) {
            0 => None,
            revision => Some(Revision(revision)),
        }
    }

    /// Runs work on the threads of the connection and waits for it.
    fn wait_for<W, T>(&self, work: impl FnOnce(Arc<Link>) -> W) -> Result<T, RemoteError>
    where
        W: Future<Output = Result<T, RemoteError>> + Send + 'static,
        T: Send + 'static,
    {
        // The work is spawned rather than blocked on, and waited for by plain means, so that a
        // caller may itself be inside an asynchronous runtime.
        let (done, outcome) = std::sync::mpsc::sync_channel(1);
        let runtime = self.runtime.as_ref().expect("it is taken by drop only");
        let work = work(self.link.clone());
        runtime.spawn(async move {
            let _ = done.send(work.await);
        });
        outcome.recv().unwrap_or_else(|_| {
            Err(RemoteError::Broken {
                server: self.link.address.to_string(),
                reason: "the request was abandoned".into(),
            })
        })
    }
}

impl Transport for Remote {
    type Error = RemoteError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, RemoteError> {
        let kind = message_kind(&message).map_err(|_| RemoteError::NotForServers)?;
        let operation = Operation::of(kind).ok_or(RemoteError::NotForServers)?;
        let url = self.link.address.operation(operation);
        let body = Bytes::from(message);
        self.wait_for(|link| async move { link.exchange(operation, &url, body).await })
    }

    fn collection(&self) -> CollectionName {
        self.link.address.collection().clone()
    }

    /// The shortest time over the link as it has shown itself. On this machine there is none.
    fn objective(&self) -> Objective {
        if self.link.address.is_loopback() {
            Objective::Compute
        } else {
            self.link.pace.objective(|| self.round_trip())
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // The default, to wait, is forbidden inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("address", &self.link.address).finish_non_exhaustive()
    }
}

impl Link {
    /// One request and one answer, within `patience`.
    async fn attempt(
        &self,
        url: &url::Url,
        body: Bytes,
        patience: Duration,
    ) -> Result<Vec<u8>, retry::Failure> {
        let (start, sent_bytes) = (Instant::now(), body.len());
        let sent = self.client.post(url.clone()).timeout(patience).body(body).send().await;
        let answer = sent.map_err(|error| self.broken(&error, patience))?;
        let answered = Answered::of(&answer);
        if let Some(revision) = answered.revision {
            self.revision.fetch_max(revision, Ordering::Relaxed);
        }
        answered.check_version()?;
        let bytes = answer::read_limited(answer, self.limits.bytes)
            .await
            .map_err(|unread| unread.into_failure(self, patience))?;
        self.pace.learn(Exchange {
            bytes: sent_bytes + bytes.len(),
            elapsed: start.elapsed(),
            served: answered.served,
        });
        answered.judge(bytes, self)
    }
}

fn client(options: &RemoteOptions) -> Result<reqwest::Client, RemoteError> {
    let unusable = |reason: String| RemoteError::Option { reason };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if let Some(token) = &options.token {
        headers.insert(AUTHORIZATION, token.header());
    }
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls::configuration(options)?)
        .default_headers(headers)
        .user_agent(concat!("shard/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(options.timeouts.connect)
        .tcp_nodelay(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        // A peer that vanished is noticed while a request waits for it.
        .http2_keep_alive_interval(options.timeouts.connect)
        .http2_keep_alive_timeout(options.timeouts.connect)
        // What is sent again is decided here and nowhere else.
        .retry(reqwest::retry::never());
    builder = match &options.proxy {
        Some(proxy) => builder.proxy(proxy.to_proxy()?),
        // No proxy of the environment reaches this machine's own addresses.
        None if options.address.is_loopback() => builder.no_proxy(),
        None => builder,
    };
    builder.build().map_err(|error| unusable(error::innermost(&error.without_url())))
}
