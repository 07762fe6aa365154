//! A listener that writes what it is told, byte by byte, for answers no HTTP library would give.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Reply, Served};

/// What becomes of a connection after its first request.
pub enum Fate {
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// A head, and then a body without end.
    Endless(&'static str),
    /// An honest answer.
    Sound,
}

/// Gives connections their fates in turn; further ones get the last again.
pub struct RawServer {
    pub url: String,
    /// Connections so far.
    pub connections: Arc<AtomicUsize>,
}

impl RawServer {
    pub fn new(served: Arc<Served>, fates: Vec<Fate>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/main", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let number = count.fetch_add(1, Ordering::SeqCst);
                // A client that hangs up early is what these tests are about.
                let _ = give(&served, &fates[number.min(fates.len() - 1)], stream);
            }
        });
        Self { url, connections }
    }
}

fn give(served: &Served, fate: &Fate, mut stream: TcpStream) -> std::io::Result<()> {
    let (path, message) = read_request(&mut stream)?;
    match fate {
        Fate::Bytes(bytes) => stream.write_all(bytes),
        Fate::Endless(head) => {
            stream.write_all(head.as_bytes())?;
            loop {
                stream.write_all(b"10000\r\n")?;
                stream.write_all(&[b'x'; 0x10000])?;
                stream.write_all(b"\r\n")?;
            }
        }
        Fate::Sound => stream.write_all(&sound(&served.reply(&path, None, &message))),
    }
}

/// An answer as it stands on the wire.
pub fn sound(reply: &Reply) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", reply.body.len());
    [head.as_bytes(), &reply.body].concat()
}

/// The head of a request in lower case.
fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8(head).expect("clients send plain headers").to_lowercase())
}

fn read_request(stream: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let head = read_head(stream)?;
    let path = head.split(' ').nth(1).expect("a request line").to_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.expect("a length").parse().expect("a number")];
    stream.read_exact(&mut body)?;
    Ok((path, body))
}

/// A proxy that joins connections to where `CONNECT` says.
pub struct ConnectProxy {
    pub url: String,
    /// Connections joined so far.
    pub joined: Arc<AtomicUsize>,
}

impl ConnectProxy {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let joined = Arc::new(AtomicUsize::new(0));
        let count = joined.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                // Whoever hangs up first ends the connection.
                std::thread::spawn(move || drop(join(stream)));
            }
        });
        Self { url, joined }
    }
}

fn join(mut near: TcpStream) -> std::io::Result<()> {
    let head = read_head(&mut near)?;
    let target = head.strip_prefix("connect ").and_then(|rest| rest.split(' ').next());
    let far = TcpStream::connect(target.expect("a request to connect"))?;
    near.write_all(b"HTTP/1.1 200 joined\r\n\r\n")?;
    let (mut from, mut to) = (near.try_clone()?, far.try_clone()?);
    std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
    std::io::copy(&mut &far, &mut near).map(drop)
}
