//! A server on a free port, a client that trusts its certificate, and messages to send.

#![allow(dead_code, reason = "every test program uses its own part of this")]

pub mod hooked;
mod messages;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use reqwest::header::HeaderMap;
use shard_protocol::http::MEDIA_TYPE;
use shard_protocol::{Limits, Refusal, RefusalCode};
use shard_server::http::{
    ClusterOptions, HttpOptions, NewToken, Running, Scope, Service, StartError, Tls, TokenFile,
    TokenLimits, Tokens, start,
};
use shard_server::{Maintenance, NoMaintenance, SESSION_BYTES};
use shard_store::{MemoryRows, RowStore};
use tempfile::TempDir;

pub use messages::*;

/// A server and what belongs to it.
pub struct Site {
    pub directory: TempDir,
    pub address: SocketAddr,
    running: Mutex<Option<Running>>,
    pub client: reqwest::Client,
    pub url: String,
}

/// What a server is started with.
pub struct Setup {
    pub options: HttpOptions,
    pub rows: Arc<dyn RowStore>,
    pub maintenance: Arc<dyn Maintenance>,
    pub tls: bool,
    pub guarded: bool,
    pub session_bytes: usize,
    pub address: &'static str,
    pub cluster: Option<ClusterOptions>,
    /// Other tokens than those of the file.
    pub tokens: Option<Tokens>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            options: HttpOptions { workers: 2, ..HttpOptions::default() },
            rows: Arc::new(MemoryRows::new()),
            maintenance: Arc::new(NoMaintenance),
            tls: true,
            guarded: true,
            session_bytes: SESSION_BYTES,
            address: "127.0.0.1:0",
            cluster: None,
            tokens: None,
        }
    }
}

impl Setup {
    /// Without TLS, for tests that speak to the socket themselves.
    pub fn plain(options: HttpOptions) -> Self {
        Self { options, tls: false, guarded: false, ..Self::default() }
    }
}

pub fn new_token(scopes: &[Scope]) -> NewToken {
    NewToken {
        scopes: scopes.to_vec(),
        collections: Vec::new(),
        limits: TokenLimits::default(),
        expires: None,
    }
}

impl Site {
    /// A server with three rows in the collection `main`, and one token for nothing in particular.
    pub fn start(setup: Setup) -> Self {
        Self::try_start(setup).expect("the server starts")
    }

    pub fn try_start(setup: Setup) -> Result<Self, StartError> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = TokenFile::of(directory.path());
        if setup.guarded {
            let first = new_token(&[Scope::Admin]);
            file.create(&first, &mut UnwrapErr(SysRng)).expect("a token");
        }
        let server = server(setup.rows, Limits::default()).with_session_bytes(setup.session_bytes);
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let tls_directory = directory.path().join("tls");
        let tls = setup.tls.then(|| Tls::open_or_generate(&tls_directory, &names).unwrap());
        let client = client(setup.tls.then(|| tls_directory.join("certificate.pem")));
        let service = Service {
            server,
            maintenance: setup.maintenance,
            tokens: setup.tokens.unwrap_or_else(|| Tokens::open(file).expect("a readable file")),
            tls,
            snapshots: directory.path().join("snapshots"),
            cluster: setup.cluster,
            options: setup.options,
        };
        let listener = TcpListener::bind(setup.address).expect("a free port");
        let running = start(listener, service)?;
        let scheme = if setup.tls { "https" } else { "http" };
        let address = running.address();
        let url = format!("{scheme}://{address}");
        Ok(Self { directory, address, running: Mutex::new(Some(running)), client, url })
    }

    pub fn file(&self) -> TokenFile {
        TokenFile::of(self.directory.path())
    }

    /// Makes a token and returns its id and text.
    pub fn token(&self, new: &NewToken) -> (String, String) {
        let (record, token) = self.file().create(new, &mut UnwrapErr(SysRng)).expect("a token");
        (record.id, token.expose().to_owned())
    }

    /// The server itself; it goes on whatever becomes of the value.
    pub fn running(&self) -> Running {
        self.running.lock().unwrap().take().expect("nobody has taken it yet")
    }

    /// Sends a message to an operation of a collection.
    pub async fn send(&self, path: &str, token: &str, body: impl Into<reqwest::Body>) -> Reply {
        let url = format!("{}/v1/collections/{path}", self.url);
        let mut request = self.client.post(url).header("content-type", MEDIA_TYPE).body(body);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        Reply::of(request.send().await.expect("an answer")).await
    }

    /// Asks for a path.
    pub async fn ask(&self, path: &str, token: &str) -> Reply {
        let mut request = self.client.get(format!("{}{path}", self.url));
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        Reply::of(request.send().await.expect("an answer")).await
    }
}

/// A client that trusts one certificate and nothing else.
pub fn client(certificate: Option<PathBuf>) -> reqwest::Client {
    // Another test of this program may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder().timeout(Duration::from_secs(30)).no_proxy();
    match certificate {
        Some(path) => {
            let pem = std::fs::read(path).expect("a certificate");
            let root = reqwest::Certificate::from_pem(&pem).expect("in PEM form");
            builder = builder.tls_certs_only([root]);
        }
        // Tests in the clear are about connections: one that waits for its next request may be
        // closed at any moment, so every request has its own.
        None => builder = builder.pool_max_idle_per_host(0),
    }
    builder.build().expect("a client")
}

pub struct Reply {
    pub status: u16,
    pub version: reqwest::Version,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    async fn of(response: reqwest::Response) -> Self {
        Self {
            status: response.status().as_u16(),
            version: response.version(),
            headers: response.headers().clone(),
            body: response.bytes().await.expect("a whole body").to_vec(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("plain text"))
    }

    pub fn refusal(&self) -> Refusal {
        Refusal::decode(&self.body, &Limits::default()).expect("a refusal")
    }

    /// Checks status and class.
    #[track_caller]
    pub fn is(&self, status: u16, code: RefusalCode) {
        let refusal = self.refusal();
        assert_eq!((self.status, refusal.code), (status, code), "{refusal}");
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}
