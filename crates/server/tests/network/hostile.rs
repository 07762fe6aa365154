//! Peers that are slow, silent, too many, or that lie about what they send. Each test also asks
//! whether everybody else is still served.

use std::time::Duration;

use shard_protocol::http::MEDIA_TYPE;
use shard_protocol::{
    FetchBlob, Leak, Limits, MessageKind, PutBlob, Refusal, RefusalCode, declassify,
};
use shard_server::http::HttpOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{EPOCH, Setup, Site, request};

/// Long enough for any machine; tests do not wait for it unless they fail.
const PATIENCE: Duration = Duration::from_secs(20);

const SHORT: Duration = Duration::from_millis(150);

async fn connect(site: &Site) -> TcpStream {
    TcpStream::connect(site.address).await.expect("the server listens")
}

/// The head of a request with a body.
fn head(operation: &str, framing: &str) -> String {
    let path = format!("/v1/collections/main/{operation}");
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {MEDIA_TYPE}\r\n{framing}\r\n\r\n"
    )
}

/// Everything until the server closes.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    // A reset is a way of closing too.
    let _ = read.expect("the server closes the connection");
    bytes
}

/// Reads the head of an answer and its body.
async fn answer(stream: &mut TcpStream) -> (u16, Vec<u8>) {
    let mut bytes = Vec::new();
    let read = async {
        loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let whole = end + 4 + length.expect("a length").parse::<usize>().unwrap();
                if bytes.len() >= whole {
                    let status = head[9..12].parse().unwrap();
                    return (status, bytes[end + 4..whole].to_vec());
                }
            }
            let mut more = [0; 4096];
            let count = stream.read(&mut more).await.expect("an answer");
            assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&more[..count]);
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("an answer in time")
}

fn refused((status, body): (u16, Vec<u8>)) -> (u16, RefusalCode) {
    (status, Refusal::decode(&body, &Limits::default()).expect("a refusal").code)
}

/// Stores a blob of some length and returns the message that fetches it.
async fn stored(site: &Site, length: usize) -> Vec<u8> {
    let sealed = declassify(vec![7; length], Leak::SealedBlobs);
    let name = || declassify("long".parse().unwrap(), Leak::SealedBlobs);
    let stored = site.send("main/blobs/put", "", PutBlob::new(name(), sealed).encode()).await;
    assert_eq!(stored.status, 200);
    FetchBlob::new(name()).encode()
}

/// Waits until a blob was fetched and its bytes are gone: once it is counted as answered, they are
/// in memory until the connection is given up.
async fn fetched_and_given_up(site: &Site) {
    for line in ["shard_requests_total{operation=\"blobs/fetch\"} 1", "shard_body_bytes_held 0"] {
        while !site.ask("/metrics", "").await.text().lines().any(|found| found == line) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn others_are_served(site: &Site) {
    assert_eq!(site.send("main/rerank", "", request(EPOCH, 10, 1)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_never_ends_its_headers_is_dropped() {
    let options = HttpOptions { header_timeout: SHORT, ..HttpOptions::default() };
    let site = Site::start(Setup::plain(options));
    let mut stream = connect(&site).await;
    stream.write_all(b"POST /v1/collections/main/rerank HTTP/1.1\r\nx-a: b\r\n").await.unwrap();
    others_are_served(&site).await;
    rest(&mut stream).await;
    others_are_served(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_says_nothing_is_dropped() {
    let options = HttpOptions { idle_timeout: SHORT, ..HttpOptions::default() };
    let site = Site::start(Setup::plain(options));
    let mut silent = connect(&site).await;
    assert!(rest(&mut silent).await.is_empty());
    // The first letters of both versions of HTTP: the server cannot know yet which one it is.
    let mut undecided = connect(&site).await;
    undecided.write_all(b"P").await.unwrap();
    assert!(rest(&mut undecided).await.is_empty());
    others_are_served(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_do_not_keep_a_connection() {
    let options = HttpOptions { idle_timeout: SHORT, ..HttpOptions::default() };
    let site = Site::start(Setup::plain(options));
    let mut stream = connect(&site).await;
    let (preface, settings) = (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [0, 0, 0, 4, 0, 0, 0, 0, 0]);
    stream.write_all(&[&preface[..], &settings].concat()).await.unwrap();
    let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let pinging = async {
        let mut answers = [0; 4096];
        while stream.write_all(&ping).await.is_ok() {
            match stream.read(&mut answers).await {
                Ok(0) | Err(_) => break,
                Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, pinging).await.expect("the server closes the connection");
    others_are_served(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_does_not_read_its_answer_is_dropped() {
    let options = HttpOptions { idle_timeout: SHORT, ..HttpOptions::default() };
    let site = Site::start(Setup::plain(options));
    let fetch = stored(&site, 30 << 20).await;
    let mut stream = connect(&site).await;
    let framing = format!("content-length: {}", fetch.len());
    stream.write_all(head("blobs/fetch", &framing).as_bytes()).await.unwrap();
    stream.write_all(&fetch).await.unwrap();
    fetched_and_given_up(&site).await;
    assert!(rest(&mut stream).await.len() < 30 << 20, "the answer was cut off");
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_do_not_keep_an_answer_that_is_not_taken() {
    let options = HttpOptions { idle_timeout: SHORT, ..HttpOptions::default() };
    let site = Site::start(Setup::plain(options));
    // More than the peer's window, which it never opens further.
    let fetch = stored(&site, 200 << 10).await;
    let frame = |kind: u8, flags: u8, stream: u8, body: &[u8]| {
        let length = (body.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, stream], body].concat()
    };
    // A literal after the index of its name among the headers that HTTP/2 knows: 4, 1 and 31.
    let literal =
        |name: &[u8], value: &str| [name, &[value.len() as u8], value.as_bytes()].concat();
    let headers = [
        vec![0x83, 0x86], // POST, http
        literal(&[0x04], "/v1/collections/main/blobs/fetch"),
        literal(&[0x01], "localhost"),
        literal(&[0x0f, 0x10], MEDIA_TYPE),
    ]
    .concat();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let asking =
        [preface, frame(4, 0, 0, &[]), frame(1, 4, 1, &headers), frame(0, 1, 1, &fetch)].concat();
    let mut stream = connect(&site).await;
    stream.write_all(&asking).await.unwrap();
    let pinging = async {
        let mut answers = vec![0; 1 << 16];
        while stream.write_all(&frame(6, 0, 0, &[7; 8])).await.is_ok() {
            match stream.read(&mut answers).await {
                Ok(0) | Err(_) => break,
                Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let both = async { tokio::join!(pinging, fetched_and_given_up(&site)) };
    tokio::time::timeout(PATIENCE, both).await.expect("the server closes the connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_does_not_come_is_not_waited_for() {
    let options = HttpOptions { handshake_timeout: SHORT, ..HttpOptions::default() };
    let site = Site::start(Setup { options, guarded: false, ..Setup::default() });
    let mut stream = connect(&site).await;
    assert!(rest(&mut stream).await.is_empty());
    others_are_served(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_asks_and_goes_away_is_forgotten() {
    let options = HttpOptions { header_timeout: SHORT, ..HttpOptions::default() };
    let site = Site::start(Setup::plain(options));
    let mut stream = connect(&site).await;
    let message = MessageKind::Describe.bare();
    let framing = format!("content-length: {}", message.len());
    stream.write_all(head("describe", &framing).as_bytes()).await.unwrap();
    stream.write_all(&message).await.unwrap();
    assert_eq!(answer(&mut stream).await.0, 200);
    assert!(rest(&mut stream).await.is_empty(), "nothing more comes before the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_announced_too_long_is_refused_before_it_is_read() {
    let site = Site::start(Setup::plain(HttpOptions::default()));
    let mut stream = connect(&site).await;
    stream.write_all(head("rerank", "content-length: 99999999999").as_bytes()).await.unwrap();
    assert_eq!(refused(answer(&mut stream).await), (413, RefusalCode::TooLarge));
    others_are_served(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_end_is_cut_off_at_the_limit() {
    let options = HttpOptions { body_bytes: 100_000, ..HttpOptions::default() };
    let site = Site::start(Setup::plain(options));
    let mut stream = connect(&site).await;
    stream.write_all(head("rerank", "transfer-encoding: chunked").as_bytes()).await.unwrap();
    let chunk = [b"4000\r\n", &[0x55; 0x4000][..], b"\r\n"].concat();
    for _ in 0..7 {
        stream.write_all(&chunk).await.unwrap();
    }
    assert_eq!(refused(answer(&mut stream).await), (413, RefusalCode::TooLarge));
    others_are_served(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stops_in_the_middle_is_given_up() {
    let options = HttpOptions { request_timeout: SHORT, ..HttpOptions::default() };
    let site = Site::start(Setup::plain(options));
    let mut slow = connect(&site).await;
    slow.write_all(head("rerank", "content-length: 5000").as_bytes()).await.unwrap();
    slow.write_all(b"SHRD").await.unwrap();
    let mut gone = connect(&site).await;
    gone.write_all(head("rerank", "content-length: 5000").as_bytes()).await.unwrap();
    gone.write_all(b"SHRD").await.unwrap();
    drop(gone);
    assert_eq!(refused(answer(&mut slow).await), (400, RefusalCode::Malformed));
    others_are_served(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_in_memory_do_not_add_up_beyond_the_budget() {
    let options = HttpOptions { held_bytes: 100_000, ..HttpOptions::default() };
    let site = Site::start(Setup::plain(options));
    let mut first = connect(&site).await;
    first.write_all(head("rerank", "content-length: 90000").as_bytes()).await.unwrap();
    first.write_all(&[1; 80_000]).await.unwrap();
    // Until the first has arrived, the second may fit.
    let body = vec![0; 30_000];
    loop {
        let reply = site.send("main/rerank", "", body.clone()).await;
        if reply.status == 429 {
            reply.is(429, RefusalCode::Busy);
            assert_eq!(reply.header("retry-after"), Some("1"));
            break;
        }
    }
    drop(first);
    while site.send("main/rerank", "", body.clone()).await.status == 429 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_limit_are_closed_and_places_come_back() {
    let options = HttpOptions { connections: 2, ..HttpOptions::default() };
    let site = Site::start(Setup::plain(options));
    let (first, _second) = (connect(&site).await, connect(&site).await);
    // The two are counted once the server has seen them.
    let mut refused = None;
    for _ in 0..100 {
        let mut third = connect(&site).await;
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_millis(100), third.read(&mut byte)).await;
        if let Ok(Ok(0) | Err(_)) = read {
            refused = Some(());
            break;
        }
    }
    refused.expect("the third connection is closed");
    drop(first);
    let mut served = false;
    for _ in 0..100 {
        served = site.client.get(format!("{}/healthz", site.url)).send().await.is_ok();
        if served {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(served, "the place of the first is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_beyond_the_limit_are_refused() {
    let site = Site::start(Setup::plain(HttpOptions::default()));
    let mut stream = connect(&site).await;
    let long = format!(
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-long: {}\r\n\r\n",
        "a".repeat(60_000)
    );
    // The server may close before all of it is sent.
    let _ = stream.write_all(long.as_bytes()).await;
    let told = rest(&mut stream).await;
    assert!(told.is_empty() || told.starts_with(b"HTTP/1.1 431"), "{told:?}");
    others_are_served(&site).await;
}
