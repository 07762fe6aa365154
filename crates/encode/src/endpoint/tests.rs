//! Against a real server on this machine's own address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;

/// What the server got.
#[derive(Clone, Debug)]
struct Seen {
    path: String,
    authorization: Option<String>,
    body: Value,
}

/// A server that answers the n-th request with what the function makes of it: status, headers and body.
struct Server {
    url: Url,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    fn start(
        answer: impl Fn(usize, &Seen) -> (u16, &'static str, String) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap()).parse().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answer, kept) = (Arc::new(answer), seen.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, seen) = (answer.clone(), kept.clone());
                thread::spawn(move || serve(stream, &*answer, &seen));
            }
        });
        Self { url, seen }
    }

    fn open(&self, key: Option<&str>) -> Result<Endpoint, EncodeError> {
        Endpoint::open_with_key(&self.url, "tiny", key.map(|key| Zeroizing::new(key.to_owned())))
    }

    fn requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(
    stream: TcpStream,
    answer: &dyn Fn(usize, &Seen) -> (u16, &'static str, String),
    seen: &Mutex<Vec<Seen>>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let (mut path, mut length, mut authorization) = (String::new(), 0, None);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end();
            if let Some((name, value)) = line.split_once(": ") {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.parse().unwrap(),
                    "authorization" => authorization = Some(value.to_owned()),
                    _ => {}
                }
            } else if line.is_empty() {
                break;
            } else {
                path = line.split(' ').nth(1).unwrap().to_owned();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let request = Seen { path, authorization, body: serde_json::from_slice(&body).unwrap() };
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        let (status, headers, body) = answer(number, &request);
        let length = body.len();
        let head = format!("HTTP/1.1 {status} Some\r\n{headers}content-length: {length}\r\n\r\n");
        if writer
            .write_all(head.as_bytes())
            .and_then(|()| writer.write_all(body.as_bytes()))
            .is_err()
        {
            return;
        }
    }
}

/// A text's length, its first byte, and one; the last text's row first.
fn embed(request: &Seen) -> String {
    let texts = request.body["input"].as_array().unwrap();
    let row = |(index, text): (usize, &Value)| {
        let text = text.as_str().unwrap();
        json!({"index": index, "embedding": [text.len(), text.as_bytes()[0], 1.0]})
    };
    let data: Vec<Value> = texts.iter().enumerate().map(row).rev().collect();
    json!({"object": "list", "data": data, "model": request.body["model"]}).to_string()
}

fn encode(endpoint: &Endpoint, texts: &[&str]) -> Result<Vec<f32>, EncodeError> {
    let watch = |_, _| ControlFlow::Continue(());
    let progress = Progress::begin(texts.len(), &watch)?;
    endpoint.encode(texts, Purpose::Passage, &progress)
}

#[test]
fn texts_go_in_batches_and_vectors_come_back_in_order() {
    let server = Server::start(|_, request| (200, "", embed(request)));
    let endpoint = server.open(None).unwrap();
    assert_eq!(endpoint.dimension(), 3);
    let texts: Vec<String> = (0..500).map(|length| "x".repeat(length)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = encode(&endpoint, &texts).unwrap();
    for (length, row) in vectors.chunks(3).enumerate() {
        // The empty text goes as a space.
        assert_eq!(row[0] as usize, length.max(1));
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 1 + 500usize.div_ceil(BATCH_TEXTS));
    assert!(requests.iter().all(|request| request.path == "/v1/embeddings"));
    assert!(requests.iter().all(|request| request.body["model"] == "tiny"));
    assert!(requests.iter().all(|request| request.authorization.is_none()));
}

#[test]
fn long_texts_go_in_smaller_batches() {
    let long = "x".repeat(BATCH_BYTES / 3);
    let longer = "x".repeat(BATCH_BYTES + 1);
    let texts = [long.as_str(), &long, &long, &long, &longer, "", "y"];
    let lengths: Vec<usize> = batches_of(&texts).iter().map(|batch| batch.len()).collect();
    assert_eq!(lengths, [3, 1, 1, 2]);
}

#[test]
fn a_busy_endpoint_is_asked_again() {
    let server = Server::start(|number, request| match number {
        0 | 2 => (429, "retry-after: 0\r\n", String::new()),
        3 => (503, "retry-after: 0\r\n", "<html>".into()),
        _ => (200, "", embed(request)),
    });
    let endpoint = server.open(None).unwrap();
    assert_eq!(encode(&endpoint, &["abc"]).unwrap(), [3.0, 97.0, 1.0]);
    assert_eq!(server.requests().len(), 5);
}

#[test]
fn an_endpoint_that_stays_busy_is_given_up() {
    let server = Server::start(|_, _| (429, "retry-after: 0\r\n", String::new()));
    let error = server.open(None).err().unwrap();
    assert!(matches!(error, EncodeError::Busy { status: 429, tries: 6, .. }), "{error}");
    assert_eq!(server.requests().len(), 6);

    let server = Server::start(|_, _| (429, "retry-after: 86400\r\n", String::new()));
    let error = server.open(None).err().unwrap();
    assert!(matches!(error, EncodeError::Busy { tries: 1, .. }), "{error}");
}

#[test]
fn waiting_ends_when_the_watcher_says_so() {
    let server = Server::start(|number, request| match number {
        0 => (200, "", embed(request)),
        _ => (503, "retry-after: 59\r\n", String::new()),
    });
    let endpoint = server.open(None).unwrap();
    let asked = Mutex::new(0);
    let watch = |_, _| {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        if *asked > 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let progress = Progress::begin(1, &watch).unwrap();
    let error = endpoint.encode(&["abc"], Purpose::Query, &progress).unwrap_err();
    assert!(matches!(error, EncodeError::Ended), "{error}");
}

#[test]
fn the_key_is_sent_and_a_wrong_one_is_told_without_showing_it() {
    let server = Server::start(|_, request| match request.authorization.as_deref() {
        Some("Bearer right-key") => (200, "", embed(request)),
        _ => (401, "", r#"{"error":{"message":"Incorrect API key provided: wrong-key"}}"#.into()),
    });
    assert!(server.open(Some("right-key")).is_ok());
    for key in [Some("wrong-key"), None, Some("with\nline")] {
        let error = server.open(key).err().unwrap();
        assert!(matches!(error, EncodeError::Key { status: 401, .. }), "{error}");
        let told = format!("{error} {error:?}");
        assert!(!told.contains("wrong-key") && told.contains("SHARD_EMBEDDINGS_KEY"), "{told}");
    }
}

#[test]
fn a_closed_port_is_told_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url: Url = format!("http://{}/v1", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let error = Endpoint::open_with_key(&url, "tiny", None).err().unwrap();
    let told = error.to_string();
    assert!(matches!(error, EncodeError::Connect { .. }), "{told}");
    assert!(told.contains(url.as_str()) && told.to_lowercase().contains("refused"), "{told}");
}

#[test]
fn answers_that_are_none_are_refused() {
    let server = Server::start(|_, _| (200, "", "<html>It works!</html>".into()));
    let error = server.open(None).err().unwrap();
    assert!(
        matches!(&error, EncodeError::Answer { reason, .. } if reason.contains("no JSON")),
        "{error}"
    );

    let server =
        Server::start(|_, _| (404, "", r#"{"error":{"message":"model not found"}}"#.into()));
    let error = server.open(None).err().unwrap().to_string();
    assert!(error.ends_with("status 404: model not found"), "{error}");

    let server = Server::start(|_, _| (307, "location: http://127.0.0.1:9/\r\n", String::new()));
    let error = server.open(None).err().unwrap();
    assert!(matches!(error, EncodeError::Status { status: 307, .. }), "{error}");

    let server = Server::start(|_, request| (200, "", embed(request).replace("tiny", "huge")));
    let error = server.open(None).err().unwrap();
    assert!(
        matches!(&error, EncodeError::OtherModel { answered, .. } if answered == "huge"),
        "{error}"
    );
}

#[test]
fn an_answer_without_end_is_not_read_to_its_end() {
    let server = Server::start(|_, _| (200, "", " ".repeat(33 << 20)));
    let error = server.open(None).err().unwrap();
    assert!(
        matches!(&error, EncodeError::Answer { reason, .. } if reason.contains("more than")),
        "{error}"
    );
}

#[test]
fn another_dimension_than_before_is_refused() {
    let server = Server::start(|number, request| {
        let answer = embed(request);
        (200, "", if number == 0 { answer } else { answer.replace(",1.0]", "]") })
    });
    let endpoint = server.open(None).unwrap();
    let error = encode(&endpoint, &["abc", "de"]).unwrap_err();
    assert!(matches!(error, EncodeError::Dimension { expected: 3, answered: 2, .. }), "{error}");
}

#[test]
fn a_model_that_is_named_after_e5_gets_its_words() {
    let server = Server::start(|_, request| (200, "", embed(request)));
    let endpoint = Endpoint::open_with_key(&server.url, "intfloat/e5-small-v2", None).unwrap();
    encode(&endpoint, &["abc"]).unwrap();
    assert_eq!(server.requests()[1].body["input"][0], "passage: abc");
}
