//! A door in front of a server that keeps what clients send through it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Requests as they were sent.
pub struct Request {
    /// `POST /v1/collections/papers/search`.
    pub line: String,
    pub content_type: Option<String>,
    pub body: Vec<u8>,
}

type Connections = Arc<Mutex<Vec<JoinHandle<Vec<u8>>>>>;

/// Passes connections on to a server without TLS.
pub struct Recorder {
    pub url: String,
    connections: Connections,
}

impl Recorder {
    /// In front of a server at `http://HOST:PORT`.
    pub fn before(url: &str) -> Self {
        let server: SocketAddr = url.strip_prefix("http://").unwrap().parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let own = format!("http://{}", listener.local_addr().unwrap());
        let connections = Connections::default();
        let kept = connections.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(onward) = TcpStream::connect(server) else { return };
                kept.lock().unwrap().push(std::thread::spawn(move || pass(client, onward)));
            }
        });
        Self { url: own, connections }
    }

    /// What was sent on the connections since the last call, which must have ended or be about to.
    pub fn take(&self) -> Vec<Request> {
        let connections = std::mem::take(&mut *self.connections.lock().unwrap());
        connections.into_iter().flat_map(|sent| requests(&sent.join().unwrap())).collect()
    }
}

/// Passes bytes both ways until both sides have ended, and keeps those of the client.
fn pass(mut client: TcpStream, mut server: TcpStream) -> Vec<u8> {
    let (mut answers, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let back = std::thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut sent, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        sent.extend_from_slice(&bytes[..count]);
        if server.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    back.join().unwrap();
    sent
}

/// The requests of one HTTP/1.1 connection.
fn requests(mut sent: &[u8]) -> Vec<Request> {
    let mut all = Vec::new();
    while let Some(end) = sent.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = std::str::from_utf8(&sent[..end]).expect("a head is text");
        let (line, fields) = head.split_once("\r\n").expect("a request has headers");
        let field = |wanted: &str| {
            let mut fields = fields.lines().filter_map(|field| field.split_once(": "));
            fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
        };
        assert_eq!(field("transfer-encoding"), None, "bodies have a length");
        let length: usize = field("content-length").map_or(0, |length| length.parse().unwrap());
        let line = line.strip_suffix(" HTTP/1.1").expect("HTTP/1.1").to_owned();
        let content_type = field("content-type").map(str::to_owned);
        let body = &sent[end + 4..];
        assert!(body.len() >= length, "{line} was cut off");
        all.push(Request { line, content_type, body: body[..length].to_vec() });
        sent = &body[length..];
    }
    assert!(sent.is_empty(), "{} bytes after the last request", sent.len());
    all
}
