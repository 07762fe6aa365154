//! What a client reads from a server it does not trust: HTTP answers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use bolero::check;
use shard_client::Transport;
use shard_client::remote::{Remote, RemoteOptions, Retries, Timeouts};
use shard_fuzz::{SCRIPT_BYTES, damage};
use shard_protocol::{CollectionState, MessageKind, message_kind};

/// Inputs of the smoke run over a socket, each a connection of its own.
const ITERATIONS: usize = 300;

/// What the server below says to every request.
static ANSWER: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn answer_all(listener: &TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        // A client that hangs up is within its rights.
        let _ = answer(stream);
    }
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    let bare = MessageKind::Describe.bare();
    while !request.ends_with(&bare) {
        let mut piece = [0; 1024];
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            read => request.extend_from_slice(&piece[..read]),
        }
    }
    let bytes = ANSWER.lock().expect("nobody panics with it").clone();
    stream.write_all(&bytes)
}

static REMOTE: LazyLock<Remote> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/main", listener.local_addr().expect("it was bound"));
    std::thread::spawn(move || answer_all(&listener));
    let options = RemoteOptions {
        timeouts: Timeouts { request: Duration::from_secs(2), ..Timeouts::default() },
        retries: Retries { most: 0, ..Retries::default() },
        ..RemoteOptions::new(url.parse().expect("an address"))
    };
    Remote::connect(options).expect("sound options")
});

fn sound_answer() -> Vec<u8> {
    let body = CollectionState::default().encode();
    let head = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\nshard-version: 0.1.0; wire=1\r\nshard-revision: \
         12\r\ncontent-type: application/vnd.shard.v1\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

/// Whatever comes over the socket is a message or an error, never a panic or an endless wait.
#[test]
fn http_answers() {
    let sound = sound_answer();
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        *ANSWER.lock().expect("nobody panics with it") = damage(&sound, script);
        match REMOTE.exchange(MessageKind::Describe.bare()) {
            Ok(answer) => assert!(message_kind(&answer).is_ok()),
            Err(error) => {
                assert!(!script.is_empty(), "{error}");
                assert!(!error.to_string().is_empty());
            }
        }
    });
}
