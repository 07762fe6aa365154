//! The scroll API against a server on loopback that answers as Qdrant's documentation says: pages in the order
//! of ids, `next_page_offset`, exact counts, `api-key`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use serde_json::{Value, json};
use shard_import::qdrant::{Source, scroll};
use shard_import::{ImportError, Imported, Reason};

const POINTS: usize = 600;

/// How the server behaves.
#[derive(Default)]
struct Behaviour {
    named: bool,
    /// Requests that are answered with 503 first.
    failures: AtomicUsize,
    /// More points in the count than there are.
    phantom: usize,
    requests: AtomicUsize,
}

fn id(at: usize) -> Value {
    if at.is_multiple_of(2) {
        json!(at)
    } else {
        json!(format!("00000000-0000-0000-0000-{at:012}"))
    }
}

fn point(at: usize, named: bool) -> Value {
    let dense = json!([at as f32 + 0.5, -1.0, 0.1_f32]);
    let vector = match (at, named) {
        (7, true) => json!({}),
        (_, true) => json!({ "text": dense }),
        (_, false) => dense,
    };
    json!({ "id": id(at), "payload": { "text": format!("text {at}"), "n": at, "id": "own" }, "vector": vector })
}

type Answer = (StatusCode, String);

fn result(value: Value) -> Answer {
    (StatusCode::OK, json!({ "result": value, "status": "ok", "time": 0.001 }).to_string())
}

fn error(status: StatusCode, text: &str) -> Answer {
    (status, json!({ "status": { "error": text }, "time": 0.0 }).to_string())
}

/// Checks what comes before every answer.
fn admit(state: &Behaviour, collection: &str, headers: &HeaderMap) -> Result<(), Answer> {
    state.requests.fetch_add(1, Ordering::Relaxed);
    if headers.get("api-key").is_none_or(|key| key != "the key") {
        return Err(error(StatusCode::UNAUTHORIZED, "Must provide an API key"));
    }
    let fail = |left: usize| left.checked_sub(1);
    if state.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fail).is_ok() {
        return Err(error(StatusCode::SERVICE_UNAVAILABLE, "busy"));
    }
    if collection != "docs" {
        let text = format!("Not found: Collection `{collection}` doesn't exist!");
        return Err(error(StatusCode::NOT_FOUND, &text));
    }
    Ok(())
}

async fn describe(
    State(state): State<Arc<Behaviour>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    if let Err(refusal) = admit(&state, &name, &headers) {
        return refusal;
    }
    let one = json!({ "size": 3, "distance": "Cosine" });
    let vectors = if state.named {
        json!({ "text": one, "image": { "size": 8, "distance": "Dot" } })
    } else {
        one
    };
    result(json!({ "config": { "params": { "vectors": vectors } }, "points_count": POINTS }))
}

async fn count(
    State(state): State<Arc<Behaviour>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Answer {
    if let Err(refusal) = admit(&state, &name, &headers) {
        return refusal;
    }
    let request: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(request["exact"], true);
    result(json!({ "count": POINTS + state.phantom }))
}

async fn page(
    State(state): State<Arc<Behaviour>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Answer {
    if let Err(refusal) = admit(&state, &name, &headers) {
        return refusal;
    }
    let request: Value = serde_json::from_str(&body).unwrap();
    let limit = request["limit"].as_u64().unwrap() as usize;
    let start = match request.get("offset") {
        None => 0,
        Some(offset) => (0..POINTS).find(|&at| id(at) == *offset).unwrap(),
    };
    let end = (start + limit).min(POINTS);
    let points: Vec<Value> = (start..end).map(|at| point(at, state.named)).collect();
    let next = if end < POINTS { id(end) } else { Value::Null };
    result(json!({ "points": points, "next_page_offset": next }))
}

/// Reads from a server that behaves like this.
fn read(
    behaviour: Behaviour,
    collection: &str,
    key: Option<&str>,
    vector: Option<&str>,
) -> (Result<Imported, ImportError>, usize) {
    let state = Arc::new(behaviour);
    let app = Router::new()
        .route("/collections/{name}", get(describe))
        .route("/collections/{name}/points/count", post(count))
        .route("/collections/{name}/points/scroll", post(page))
        .with_state(state.clone());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    runtime.spawn(async { axum::serve(listener, app).await });
    let read = scroll(&Source { url: &url, collection, api_key: key, vector });
    (read, state.requests.load(Ordering::Relaxed))
}

const KEY: Option<&str> = Some("the key");

#[test]
fn all_pages_are_read_and_the_payload_becomes_fields() {
    let (imported, _) = read(Behaviour::default(), "docs", KEY, None);
    let imported = imported.unwrap();
    assert_eq!((imported.ids.len(), imported.claimed, imported.dimension), (POINTS, POINTS, 3));
    for at in [0, 1, 255, 256, 599] {
        let expected = id(at).as_str().map_or(at.to_string(), str::to_owned);
        assert_eq!(imported.ids[at], expected);
        assert_eq!(imported.vector(at), [at as f32 + 0.5, -1.0, 0.1]);
        assert_eq!(imported.fields[at]["text"], format!("text {at}"));
        assert_eq!(imported.fields[at]["n"], at);
    }
    assert!(imported.notes[0].contains("length one"));
}

#[test]
fn one_of_several_vectors_is_named() {
    let named = || Behaviour { named: true, ..Behaviour::default() };
    let (imported, _) = read(named(), "docs", KEY, Some("text"));
    let imported = imported.unwrap();
    assert_eq!((imported.ids.len(), imported.claimed), (POINTS - 1, POINTS));
    assert_eq!(imported.refused[0].reason, Reason::NoVector);
    assert!(imported.notes.iter().any(|note| note.contains("\"image\"")));
    let refused = |vector| read(named(), "docs", KEY, vector).0.unwrap_err().to_string();
    assert!(refused(None).contains("several named vectors, name one: image, text"));
    assert!(refused(Some("audio")).contains("no named vector \"audio\""));
}

#[test]
fn a_busy_server_is_asked_again_and_a_refusal_is_not() {
    let busy = Behaviour { failures: AtomicUsize::new(2), ..Behaviour::default() };
    let (imported, requests) = read(busy, "docs", KEY, None);
    assert_eq!(imported.unwrap().ids.len(), POINTS);
    assert_eq!(requests, 2 + 6); // twice refused, then: description, count, three pages, count
    let (refused, requests) = read(Behaviour::default(), "docs", Some("another"), None);
    assert!(refused.unwrap_err().to_string().contains("refused the key"));
    assert_eq!(requests, 1);
    let (refused, _) = read(Behaviour::default(), "other", KEY, None);
    assert!(refused.unwrap_err().to_string().contains("Collection `other` doesn't exist"));
}

#[test]
fn a_count_that_differs_is_an_error() {
    let phantom = Behaviour { phantom: 3, ..Behaviour::default() };
    let (refused, _) = read(phantom, "docs", KEY, None);
    assert!(matches!(refused, Err(ImportError::Count { claimed: 603, found: POINTS })));
}

#[test]
fn a_key_goes_to_no_other_machine_in_the_clear() {
    let source = Source {
        url: "http://qdrant.example:6333",
        collection: "docs",
        api_key: Some("the key"),
        vector: None,
    };
    let refused = scroll(&source).unwrap_err().to_string();
    assert!(refused.contains("https only") && !refused.contains("the key"), "{refused}");
}
