//! A server on a real socket, by the contract of the HTTP interface, that can be told to
//! misbehave.

#![allow(dead_code, reason = "every test program uses its own part of this")]

pub mod raw;

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use shard_client::remote::{Fingerprint, RemoteError, RemoteOptions, Retries};
use shard_client::{ClientError, Transport};
use shard_protocol::http::MEDIA_TYPE;
use shard_protocol::{
    CollectionName, Limits, MessageKind, Operation, Refusal, RefusalCode, RowBatch, message_kind,
};
use shard_server::Server;
use shard_store::{MemoryRows, RowStore};
use tokio::runtime::Runtime;

/// What the next request meets in place of an honest answer.
#[derive(Clone, Debug)]
pub enum Mischief {
    /// A refusal as the contract has it, with a time to come back.
    Busy(u64),
    /// This status with a page for people, as proxies answer.
    Page(u16),
    /// An honest answer that calls itself something else.
    WrongType,
    /// An honest answer with this header.
    Header(&'static str, &'static str),
    /// An honest answer that takes its time.
    Slow(Duration),
    /// All sessions are lost first, as after a restart.
    Restart,
}

/// A server and what it saw.
pub struct Served {
    rows: Arc<MemoryRows>,
    server: Mutex<Arc<Server>>,
    pub token: Option<String>,
    pub mischief: Mutex<VecDeque<Mischief>>,
    /// Kinds of all requests that reached the server, and their lengths.
    pub seen: Mutex<Vec<(MessageKind, usize)>>,
    pub requests: AtomicUsize,
}

/// An answer before it is put on the wire.
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Served {
    pub fn new(token: Option<&str>) -> Arc<Self> {
        let rows = Arc::new(MemoryRows::new());
        Arc::new(Self {
            server: Mutex::new(Arc::new(Server::new(rows.clone(), Limits::default()))),
            rows,
            token: token.map(str::to_owned),
            mischief: Mutex::default(),
            seen: Mutex::default(),
            requests: AtomicUsize::new(0),
        })
    }

    pub fn rows(&self) -> &dyn RowStore {
        &*self.rows
    }

    /// Holds published rows as an embedded server would.
    pub fn hold(&self, release: RowBatch) {
        self.server().hold(&CollectionName::default(), release).unwrap();
    }

    /// Loses all sessions.
    pub fn restart(&self) {
        let fresh = Server::new(self.rows.clone(), Limits::default());
        *self.server.lock().unwrap() = Arc::new(fresh);
    }

    pub fn will(&self, mischief: impl IntoIterator<Item = Mischief>) {
        self.mischief.lock().unwrap().extend(mischief);
    }

    /// Kinds of the requests since the last look.
    pub fn take_seen(&self) -> Vec<MessageKind> {
        std::mem::take(&mut *self.seen.lock().unwrap()).into_iter().map(|(kind, _)| kind).collect()
    }

    pub fn server(&self) -> Arc<Server> {
        self.server.lock().unwrap().clone()
    }

    /// Serves one request by the contract, or not.
    pub fn reply(&self, path: &str, token: Option<&str>, message: &[u8]) -> Reply {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let mischief = self.mischief.lock().unwrap().pop_front();
        if let Some(Mischief::Page(status)) = mischief {
            let headers = vec![("content-type", "text/html".into()), ("location", "/".into())];
            return Reply { status, headers, body: b"<h1>no</h1>".to_vec() };
        }
        if let Some(Mischief::Restart) = mischief {
            self.restart();
        }
        let name = path.strip_prefix("/v1/collections/").and_then(|rest| rest.split_once('/'));
        let (collection, operation) = name.expect("clients keep to the paths of the contract");
        let collection: CollectionName = collection.parse().expect("clients check names");
        let kind = message_kind(message).expect("clients send messages");
        assert_eq!(Operation::of(kind).map(Operation::path), Some(operation));
        self.seen.lock().unwrap().push((kind, message.len()));

        let allowed = self.token.as_ref().is_none_or(|known| token == Some(known));
        let body = match (&mischief, allowed) {
            (_, false) => refusal(RefusalCode::Unauthorised),
            (Some(Mischief::Busy(_)), _) => refusal(RefusalCode::Busy),
            _ => self.server().handle(&collection, message),
        };
        let revision = self.rows.describe(&collection).map_or(0, |state| state.revision.0);
        let mut headers = vec![
            ("content-type", MEDIA_TYPE.to_owned()),
            ("shard-version", "0.1.0; wire=1".to_owned()),
            ("shard-revision", revision.to_string()),
        ];
        match mischief {
            Some(Mischief::Busy(seconds)) => headers.push(("retry-after", seconds.to_string())),
            Some(Mischief::WrongType) => headers[0].1 = "application/octet-stream".into(),
            Some(Mischief::Header(name, value)) => {
                headers.retain(|(other, _)| *other != name);
                headers.push((name, value.to_owned()));
            }
            Some(Mischief::Slow(time)) => std::thread::sleep(time),
            _ => {}
        }
        Reply { status: status_of(&body), headers, body }
    }
}

/// The same server without a network.
impl Transport for Served {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        let kind = message_kind(&message)?;
        self.seen.lock().unwrap().push((kind, message.len()));
        Ok(self.server().handle(&CollectionName::default(), &message))
    }
}

/// A connection that breaks when it has carried so many messages.
pub struct CutOff<'a> {
    pub served: &'a Served,
    /// The kinds that count; none for all.
    pub kinds: &'a [MessageKind],
    pub left: AtomicUsize,
    /// Whether the last message arrives and only its answer is lost.
    pub late: bool,
}

impl<'a> CutOff<'a> {
    pub fn after(count: usize, kinds: &'a [MessageKind], served: &'a Served) -> Self {
        Self { served, kinds, left: AtomicUsize::new(count), late: false }
    }

    /// Whatever the messages are.
    pub fn anywhere(count: usize, served: &'a Served) -> Self {
        Self::after(count, &[], served)
    }
}

impl Transport for CutOff<'_> {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        if self.kinds.is_empty() || self.kinds.contains(&message_kind(&message)?) {
            let counted = |left: usize| left.checked_sub(1);
            if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, counted).is_err() {
                if self.late {
                    self.served.exchange(message)?;
                }
                let (server, reason) = ("a test".to_owned(), "cut off".to_owned());
                return Err(RemoteError::Broken { server, reason }.into());
            }
        }
        self.served.exchange(message)
    }
}

/// A connection on which something happens to messages of one kind before they arrive.
pub struct Meddler<'a, M: Fn(&mut Vec<u8>) + Send + Sync> {
    pub served: &'a Served,
    pub kind: MessageKind,
    /// What happens to each.
    pub meddle: M,
}

impl<M: Fn(&mut Vec<u8>) + Send + Sync> Transport for Meddler<'_, M> {
    type Error = ClientError;

    fn exchange(&self, mut message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        if message_kind(&message)? == self.kind {
            (self.meddle)(&mut message);
        }
        self.served.exchange(message)
    }
}

fn refusal(code: RefusalCode) -> Vec<u8> {
    Refusal { code, text: "no".into() }.encode()
}

fn status_of(body: &[u8]) -> u16 {
    let Ok(refusal) = Refusal::decode(body, &Limits::default()) else { return 200 };
    match refusal.code {
        RefusalCode::Malformed | RefusalCode::Version => 400,
        RefusalCode::Unauthorised => 401,
        RefusalCode::Forbidden => 403,
        RefusalCode::UnknownCollection
        | RefusalCode::UnknownEpoch
        | RefusalCode::UnknownRow
        | RefusalCode::UnknownBlob
        | RefusalCode::UnknownSession => 404,
        RefusalCode::WrongWidth | RefusalCode::Stale | RefusalCode::Forked => 409,
        RefusalCode::TooLarge => 413,
        RefusalCode::Busy => 429,
        RefusalCode::Storage => 507,
        RefusalCode::Internal | RefusalCode::Damaged => 500,
    }
}

/// A listening server, stopped when dropped.
pub struct Listening {
    pub served: Arc<Served>,
    pub url: String,
    /// Of the certificate, where there is one.
    pub fingerprint: Option<Fingerprint>,
    /// The certificate in PEM.
    pub certificate: String,
    runtime: Option<Runtime>,
}

impl Listening {
    /// Over TLS 1.3 with a certificate of its own for `localhost`, HTTP/2 offered.
    pub fn tls(served: Arc<Served>) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let der = made.cert.der().clone();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut configuration = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![der.clone()], key.into())
            .unwrap();
        configuration.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let (listener, address) = listener();
        let (runtime, app) = (runtime(), app(served.clone()));
        runtime.spawn(async move {
            let tls = RustlsConfig::from_config(Arc::new(configuration));
            // Without it a small frame waits for the other side's acknowledgement, 40 ms.
            let acceptor = RustlsAcceptor::new(tls).acceptor(NoDelayAcceptor);
            let server = axum_server::from_tcp(listener).unwrap().acceptor(acceptor);
            server.serve(app.into_make_service()).await.unwrap();
        });
        Self {
            served,
            url: format!("https://localhost:{}/main", address.port()),
            fingerprint: Some(Fingerprint::of(&der)),
            certificate: made.cert.pem(),
            runtime: Some(runtime),
        }
    }

    /// Without TLS.
    pub fn plain(served: Arc<Served>) -> Self {
        let (listener, address) = listener();
        let (runtime, app) = (runtime(), app(served.clone()));
        runtime.spawn(async move {
            let server = axum_server::from_tcp(listener).unwrap();
            server.serve(app.into_make_service()).await.unwrap();
        });
        let url = format!("http://{address}/main");
        Self { served, url, fingerprint: None, certificate: String::new(), runtime: Some(runtime) }
    }

    /// How to reach it: pinned, and impatient.
    pub fn options(&self) -> RemoteOptions {
        RemoteOptions { pin: self.fingerprint, ..options(&self.url) }
    }
}

/// Options for tests: short pauses.
pub fn options(url: &str) -> RemoteOptions {
    let retries =
        Retries { most: 3, shortest: Duration::from_millis(1), longest: Duration::from_millis(5) };
    RemoteOptions { retries, ..RemoteOptions::new(url.parse().unwrap()) }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn app(served: Arc<Served>) -> Router {
    Router::new().fallback(serve).with_state(served)
}

async fn serve(State(served): State<Arc<Served>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let message: Bytes = match axum::body::to_bytes(body, 64 << 20).await {
        Ok(message) => message,
        Err(_) => return 413.to_string().into_response(),
    };
    let content_type = parts.headers.get("content-type").map(|value| value.to_str().unwrap());
    assert_eq!(content_type, Some(MEDIA_TYPE));
    let authorization = parts.headers.get("authorization").map(|value| value.to_str().unwrap());
    let token = authorization.map(|value| value.strip_prefix("Bearer ").unwrap().to_owned());
    let path = parts.uri.path().to_owned();
    let work = move || served.reply(&path, token.as_deref(), &message);
    let reply = tokio::task::spawn_blocking(work).await.unwrap();
    let mut response = Response::new(reply.body.into());
    *response.status_mut() = reply.status.try_into().unwrap();
    for (name, value) in reply.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}
