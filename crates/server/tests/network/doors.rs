//! Who is let in: by the name a request is addressed to, and by where connections come from; and what
//! one token leaves to others.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use shard_protocol::http::MEDIA_TYPE;
use shard_protocol::{Limits, MessageKind, Refusal, RefusalCode};
use shard_server::http::{HttpOptions, Scope, TokenTable, Tokens};
use shard_store::{SharedToken, SharedTokens, StoreError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{Setup, Site, new_token, session};

const PATIENCE: Duration = Duration::from_secs(20);

/// The head and the body of the answer to a request as it stands.
async fn raw(site: &Site, head: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(site.address).await.expect("the server listens");
    let length = body.len();
    let head = format!("{head}connection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    read.expect("an answer in time").unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    (String::from_utf8_lossy(&bytes[..end]).to_lowercase(), bytes[end + 4..].to_vec())
}

fn is(answer: &(String, Vec<u8>), status: u16) -> bool {
    answer.0.starts_with(&format!("http/1.1 {status}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_name_resolves_to_this_machine_gets_nothing_from_a_server_without_tokens() {
    let site = Site::start(Setup::plain(HttpOptions::default()));
    let describe = MessageKind::Describe.bare();
    let ask = async |host: &str| {
        let path = "/v1/collections/main/describe";
        let head = format!("POST {path} HTTP/1.1\r\n{host}content-type: {MEDIA_TYPE}\r\n");
        raw(&site, &head, &describe).await
    };
    let port = site.address.port();
    for own in ["localhost", "127.0.0.1", "[::1]", &format!("localhost:{port}")] {
        let answer = ask(&format!("host: {own}\r\n")).await;
        assert!(is(&answer, 200), "{own}: {}", answer.0);
    }
    for other in ["host: attacker.example\r\n", "host: localhost.attacker.example:80\r\n", ""] {
        let answer = ask(other).await;
        assert!(is(&answer, 403), "{other}: {}", answer.0);
        let refusal = Refusal::decode(&answer.1, &Limits::default()).expect("a refusal");
        assert_eq!(refusal.code, RefusalCode::Forbidden);
        assert!(refusal.text.contains("not under the Host of this request"), "{refusal}");
    }
    for path in ["/v1/collections", "/metrics", "/docs", "/healthz"] {
        let head = |host: &str| format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n");
        assert!(is(&raw(&site, &head("localhost"), b"").await, 200), "{path}");
        let (head, body) = raw(&site, &head("attacker.example"), b"").await;
        assert!(head.starts_with("http/1.1 403"), "{path}: {head}");
        assert!(String::from_utf8_lossy(&body).contains("make a token"), "{path}");
    }
    let dropped = raw(&site, "DELETE /v1/collections/main HTTP/1.1\r\nhost: a.example\r\n", b"");
    assert!(is(&dropped.await, 403));
    assert!(is(&ask("host: localhost\r\n").await, 200), "it is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tokens_goes_by_any_name() {
    let site = Site::start(Setup { tls: false, ..Setup::default() });
    let (_, token) = site.token(&new_token(&[Scope::Read]));
    let head = "GET /healthz HTTP/1.1\r\nhost: shard.example\r\n";
    assert!(is(&raw(&site, head, b"").await, 200));
    let head = format!(
        "POST /v1/collections/main/describe HTTP/1.1\r\nhost: shard.example\r\n\
         content-type: {MEDIA_TYPE}\r\nauthorization: Bearer {token}\r\n"
    );
    assert!(is(&raw(&site, &head, &MessageKind::Describe.bare()).await, 200));
}

/// A connection from another loopback address.
async fn connect_from(site: &Site, from: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).expect("a loopback address");
    socket.connect(site.address).await.expect("the server listens")
}

/// Whether the server answers on a connection, or closes it.
async fn is_served(stream: &mut TcpStream) -> bool {
    let head = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    if stream.write_all(head).await.is_err() {
        return false;
    }
    let mut bytes = [0; 15];
    let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut bytes)).await;
    read.expect("an answer or an end").is_ok() && bytes == *b"HTTP/1.1 200 OK"
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(target_os = "linux")]
async fn one_address_cannot_take_the_connections_of_others() {
    let options =
        HttpOptions { connections: 8, connections_per_address: 3, ..HttpOptions::default() };
    let site = Site::start(Setup::plain(options));
    let mut taken = Vec::new();
    for _ in 0..3 {
        let mut stream = connect_from(&site, "127.0.0.5").await;
        assert!(is_served(&mut stream).await);
        taken.push(stream);
    }
    for _ in 0..20 {
        let mut stream = connect_from(&site, "127.0.0.5").await;
        assert!(!is_served(&mut stream).await, "the fourth from one address is closed");
    }
    let mut other = connect_from(&site, "127.0.0.6").await;
    assert!(is_served(&mut other).await, "another address has its own places");
    let figures = site.ask("/metrics", "").await;
    let refused = figures.text().lines().any(|line| line == "shard_connections_refused_total 20");
    assert!(refused, "{}", figures.text());
    taken.pop();
    let mut again = false;
    for _ in 0..100 {
        again = is_served(&mut connect_from(&site, "127.0.0.5").await).await;
        if again {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(again, "a closed connection gives its place back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_opens_sessions_without_end_displaces_only_its_own() {
    let site = Site::start(Setup { session_bytes: 1 << 20, ..Setup::default() });
    let token = || site.token(&new_token(&[Scope::Read])).1;
    let (greedy, modest) = (token(), token());
    let (open, ask) = session(0);
    assert_eq!(site.send("main/sessions", &modest, open).await.status, 200);
    let first = session(1);
    for number in 1..40 {
        let open = if number == 1 { first.0.clone() } else { session(number).0 };
        assert_eq!(site.send("main/sessions", &greedy, open).await.status, 200);
    }
    let lost = site.send("main/rerank", &greedy, first.1).await;
    lost.is(404, RefusalCode::UnknownSession);
    let theirs = site.send("main/rerank", &greedy, ask.clone()).await;
    theirs.is(404, RefusalCode::UnknownSession);
    assert_eq!(site.send("main/rerank", &modest, ask).await.status, 200);
}

/// A table of tokens in memory.
#[derive(Default)]
struct Table(Mutex<Vec<SharedToken>>);

impl SharedTokens for Table {
    fn tokens(&self) -> Result<Vec<SharedToken>, StoreError> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn add_token(&self, token: &SharedToken) -> Result<(), StoreError> {
        self.0.lock().unwrap().push(token.clone());
        Ok(())
    }

    fn remove_token(&self, id: &str) -> Result<bool, StoreError> {
        let mut all = self.0.lock().unwrap();
        let before = all.len();
        all.retain(|token| token.id != id);
        Ok(all.len() < before)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_table_are_followed_also_by_a_server_without_others() {
    let table = TokenTable::of(Arc::new(Table::default()));
    let tokens = Some(Tokens::shared(table.clone()).unwrap());
    let site = Site::start(Setup { tokens, ..Setup::default() });
    let (record, token) = table.create(&new_token(&[Scope::Read]), &mut UnwrapErr(SysRng)).unwrap();
    let becomes = async |status: u16| {
        let since = Instant::now();
        while site.ask("/metrics", token.expose()).await.status != status {
            assert!(since.elapsed() < Duration::from_secs(30), "{status}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    becomes(200).await;
    let figures = site.ask("/metrics", token.expose()).await;
    assert!(figures.text().contains("shard_cluster_tokens_age_seconds "));
    table.revoke(&record.id).unwrap();
    becomes(401).await;
}
