//! A collection of a Qdrant server, read through its HTTP API.
//!
//! `GET /collections/NAME` says which vectors there are, `POST .../points/count` how many points exactly, and
//! `POST .../points/scroll` gives them page by page, with payload and vector. The payload of a point becomes
//! the fields of the document. A snapshot file is not read: it holds the storage of Qdrant's segments, which
//! only Qdrant reads.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Map, Value, json};
use url::{Host, Url};
use zeroize::Zeroizing;

use crate::collect::Collector;
use crate::{ImportError, Imported, MAX_DIMENSION, Reason, tls};

/// Points of one page.
const PAGE: usize = 256;

/// The longest answer that is read; a page that is longer is asked for again with fewer points.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// How often a request is repeated, and how long is waited before the first time; then twice as long.
const REPETITIONS: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The longest time for one request.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which points, and what may read them.
pub struct Source<'a> {
    /// The server: `https://HOST:6333`.
    pub url: &'a str,
    /// The collection.
    pub collection: &'a str,
    /// What the server asks for as `api-key`.
    pub api_key: Option<&'a str>,
    /// Which vector of the points, where they have several.
    pub vector: Option<&'a str>,
}

/// Reads all points of a collection.
///
/// # Errors
/// When the server cannot be reached or refuses, the collection does not exist or has several vectors of which
/// none was named, or the collection changes while it is read.
pub fn scroll(source: &Source<'_>) -> Result<Imported, ImportError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ImportError::Option(format!("no threads: {error}")))?;
    runtime.block_on(async { Server::connect(source)?.read(source).await })
}

/// What one request came to.
enum Failure {
    /// The answer is longer than is read.
    TooLong,
    Final(ImportError),
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        Self::Final(error)
    }
}

struct Server {
    client: Client,
    /// The collection's address.
    base: Url,
    /// For people, without anything that was given as a secret.
    shown: String,
}

impl Server {
    fn connect(source: &Source<'_>) -> Result<Self, ImportError> {
        let unusable =
            |why: &str| ImportError::Option(format!("the address of a Qdrant server: {why}"));
        if !source.url.contains("://") {
            let why = "a snapshot holds the storage of Qdrant's segments, which only Qdrant reads; give the \
                       address of a server with the collection, https://HOST:PORT, whose scroll API is read";
            return Err(ImportError::unsupported(source.url, why));
        }
        let mut base = Url::parse(source.url).map_err(|error| unusable(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(unusable("https://HOST:PORT or http://HOST:PORT is expected"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(unusable("a key is not part of it"));
        }
        let local = is_local(&base);
        if base.scheme() == "http" && source.api_key.is_some() && !local {
            return Err(unusable("a key is sent over https only"));
        }
        base.set_query(None);
        base.set_fragment(None);
        let shown = base.as_str().trim_end_matches('/').to_owned();
        base.path_segments_mut()
            .map_err(|()| unusable("it has no path"))?
            .pop_if_empty()
            .extend(["collections", source.collection]);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = source.api_key {
            let value = HeaderValue::from_str(Zeroizing::new(key.trim().to_owned()).as_str());
            let mut value =
                value.map_err(|_| ImportError::Option("the key is not plain text".into()))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static("api-key"), value);
        }
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls::configuration(None)?)
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .timeout(PATIENCE);
        if local {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| unusable(&error.without_url().to_string()))?;
        Ok(Self { client, base, shown })
    }

    async fn read(&self, source: &Source<'_>) -> Result<Imported, ImportError> {
        let described = self.ask(Method::GET, &[], None).await.map_err(|f| self.final_error(f))?;
        let vectors = described.pointer("/config/params/vectors").unwrap_or(&Value::Null);
        let chosen = self.choose(vectors, source.vector)?;
        let claimed = self.count().await?;
        let mut collector = Collector::new(chosen.dimension);
        if chosen.cosine {
            collector.note("Qdrant compares these vectors by angle and scaled them to length one");
        }
        for other in chosen.others {
            collector.note(format!("the vectors {other:?} of the points were not read"));
        }
        let with_vector = chosen.name.as_ref().map_or(json!(true), |name| json!([name]));
        let (mut offset, mut page) = (Value::Null, PAGE);
        loop {
            let mut request =
                json!({ "limit": page, "with_payload": true, "with_vector": with_vector });
            if !offset.is_null() {
                request["offset"] = offset.clone();
            }
            let mut answer =
                match self.ask(Method::POST, &["points", "scroll"], Some(&request)).await {
                    Ok(answer) => answer,
                    Err(Failure::TooLong) if page > 1 => {
                        page = page.div_ceil(4);
                        continue;
                    }
                    Err(failure) => return Err(self.final_error(failure)),
                };
            let Some(Value::Array(points)) = answer.get_mut("points").map(Value::take) else {
                return Err(self.wrong("a page without points"));
            };
            let (next, empty) = (answer["next_page_offset"].take(), points.is_empty());
            for point in points {
                self.take(point, chosen.name.as_deref(), &mut collector)?;
            }
            // Points that come while others are read would go on without end.
            if collector.seen() > claimed {
                return Err(ImportError::Count { claimed, found: collector.seen() });
            }
            if next.is_null() {
                break;
            }
            if empty || next == offset {
                return Err(self.wrong("pages that do not go on"));
            }
            offset = next;
        }
        // What was deleted and what was added since would cancel out in one count alone.
        let after = self.count().await?;
        if after != claimed {
            return Err(ImportError::Count { claimed, found: after });
        }
        collector.finish(&format!("the collection {:?}", source.collection), claimed)
    }

    async fn count(&self) -> Result<usize, ImportError> {
        let exact = json!({ "exact": true });
        let answer = self.ask(Method::POST, &["points", "count"], Some(&exact)).await;
        let answer = answer.map_err(|failure| self.final_error(failure))?;
        let count =
            answer.get("count").and_then(Value::as_u64).and_then(|c| usize::try_from(c).ok());
        count.ok_or_else(|| self.wrong("a count that is no number"))
    }

    /// Which vector of the points is read.
    fn choose(&self, vectors: &Value, wanted: Option<&str>) -> Result<Chosen, ImportError> {
        let of = |parameters: &Value| -> Result<(Option<usize>, bool), ImportError> {
            if parameters.get("multivector_config").is_some_and(|config| !config.is_null()) {
                let why = "its points have several vectors under one name, and a document has one";
                return Err(ImportError::unsupported(&self.shown, why));
            }
            let size = parameters.get("size").and_then(Value::as_u64).map(|size| size as usize);
            if size.is_some_and(|size| !(1..=MAX_DIMENSION).contains(&size)) {
                return Err(self.wrong("vectors of a dimension that cannot be"));
            }
            Ok((size, parameters.get("distance").and_then(Value::as_str) == Some("Cosine")))
        };
        if vectors.get("size").is_some_and(Value::is_u64) {
            if let Some(name) = wanted {
                let present = Vec::new();
                return Err(ImportError::Missing {
                    what: "named vector",
                    name: name.into(),
                    present,
                });
            }
            let (dimension, cosine) = of(vectors)?;
            return Ok(Chosen { name: None, dimension, cosine, others: Vec::new() });
        }
        let named = vectors.as_object().filter(|named| !named.is_empty());
        let named = named.ok_or_else(|| {
            ImportError::unsupported(&self.shown, "the collection has no dense vectors")
        })?;
        let present: Vec<String> = named.keys().cloned().collect();
        let name = match (wanted, &present[..]) {
            (Some(name), _) if named.contains_key(name) => name.to_owned(),
            (Some(name), _) => {
                let name = name.to_owned();
                return Err(ImportError::Missing { what: "named vector", name, present });
            }
            (None, [one]) => one.clone(),
            (None, _) => return Err(ImportError::Ambiguous { what: "named vectors", present }),
        };
        let (dimension, cosine) = of(&named[&name])?;
        let others = present.into_iter().filter(|other| *other != name).collect();
        Ok(Chosen { name: Some(name), dimension, cosine, others })
    }

    /// One point.
    fn take(
        &self,
        mut point: Value,
        name: Option<&str>,
        to: &mut Collector,
    ) -> Result<(), ImportError> {
        let id = match &point["id"] {
            Value::String(id) => id.clone(),
            Value::Number(id) => id.to_string(),
            _ => return Err(self.wrong("a point without an id")),
        };
        let fields = match point["payload"].take() {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            _ => return Err(self.wrong("a payload that is no object")),
        };
        let vector = match name {
            Some(name) => point["vector"].get(name),
            None => point.get("vector"),
        };
        match vector {
            None | Some(Value::Null) => to.refuse(id, Reason::NoVector),
            Some(Value::Object(several)) if name.is_none() && several.is_empty() => {
                to.refuse(id, Reason::NoVector);
            }
            Some(Value::Array(values)) => {
                let vector: Option<Vec<f32>> =
                    values.iter().map(|value| value.as_f64().map(|value| value as f32)).collect();
                let vector =
                    vector.ok_or_else(|| self.wrong("a vector that is no list of numbers"))?;
                to.push(id, &vector, fields);
            }
            Some(_) => return Err(self.wrong("a vector that is no list of numbers")),
        }
        Ok(())
    }

    fn wrong(&self, what: &str) -> ImportError {
        let what = format!("does not answer as Qdrant does: {what}");
        ImportError::Server { server: self.shown.clone(), what }
    }

    fn final_error(&self, failure: Failure) -> ImportError {
        match failure {
            Failure::TooLong => self.wrong("one point of more than 64 MiB"),
            Failure::Final(error) => error,
        }
    }

    /// Asks, again where that may help, and returns what is under `result`.
    async fn ask(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let mut address = self.base.clone();
        if let Ok(mut segments) = address.path_segments_mut() {
            segments.extend(path);
        }
        let mut wait = FIRST_WAIT;
        let mut repetition = 0;
        loop {
            let mut request = self.client.request(method.clone(), address.clone());
            if let Some(body) = body {
                request = request.body(body.to_string());
            }
            let what = match request.send().await {
                Ok(answer) if answer.status().is_success() => match whole(answer).await {
                    Ok(bytes) => return self.result(&bytes),
                    Err(Unread::TooLong) => return Err(Failure::TooLong),
                    Err(Unread::Broken(what)) => what,
                },
                Ok(answer) => {
                    let status = answer.status();
                    let passing = status.is_server_error()
                        || matches!(
                            status,
                            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT
                        );
                    let what = refusal(status, whole(answer).await.unwrap_or_default());
                    if !passing {
                        let server = self.shown.clone();
                        return Err(ImportError::Server { server, what }.into());
                    }
                    what
                }
                Err(error) => format!("cannot be reached: {}", innermost(&error.without_url())),
            };
            if repetition == REPETITIONS {
                return Err(ImportError::Server { server: self.shown.clone(), what }.into());
            }
            tokio::time::sleep(wait).await;
            (repetition, wait) = (repetition + 1, wait * 2);
        }
    }

    fn result(&self, bytes: &[u8]) -> Result<Value, Failure> {
        let answer: Result<Value, _> = serde_json::from_slice(bytes);
        let mut answer = answer.map_err(|_| self.wrong("not JSON"))?;
        match answer.get_mut("result").map(Value::take) {
            Some(result @ Value::Object(_)) => Ok(result),
            _ => Err(self.wrong("no result").into()),
        }
    }
}

/// Which vector of the points is read, and which are not.
struct Chosen {
    name: Option<String>,
    dimension: Option<usize>,
    cosine: bool,
    others: Vec<String>,
}

/// Why an answer was not read to its end.
enum Unread {
    TooLong,
    Broken(String),
}

/// An answer, no longer than is read.
async fn whole(mut answer: reqwest::Response) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() > MAX_ANSWER_BYTES => {
                return Err(Unread::TooLong);
            }
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return Ok(bytes),
            Err(error) => {
                return Err(Unread::Broken(format!(
                    "broke off: {}",
                    innermost(&error.without_url())
                )));
            }
        }
    }
}

/// What a server says when it refuses.
fn refusal(status: StatusCode, bytes: Vec<u8>) -> String {
    let said: Option<Value> = serde_json::from_slice(&bytes).ok();
    let said = said.as_ref().and_then(|said| said.pointer("/status/error")?.as_str());
    match (status, said) {
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
            format!("refused the key, or asks for one ({status})")
        }
        (_, Some(said)) => format!("{} ({status})", said.chars().take(300).collect::<String>()),
        (_, None) => format!("answered {status}"),
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

fn is_local(address: &Url) -> bool {
    match address.host() {
        Some(Host::Ipv4(host)) => IpAddr::from(host).is_loopback(),
        Some(Host::Ipv6(host)) => IpAddr::from(host).is_loopback(),
        Some(Host::Domain(host)) => host == "localhost",
        None => false,
    }
}
