//! One request, as often as it takes.

use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::blocking::{Client, Response};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use rustls::ClientConfig;
use serde::Serialize;
use url::Url;
use zeroize::Zeroizing;

use super::answer;
use crate::EncodeError;

/// Bytes of an answer that are read: 64 vectors of 16,384 dimensions in long decimal fractions.
const ANSWER_LIMIT: u64 = 32 << 20;
/// Bytes of an error that are read.
const ERROR_LIMIT: u64 = 4 << 10;
/// Requests before giving up.
const TRIES: usize = 6;
/// The first wait where the endpoint asks for none; each next one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait that an endpoint may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How often a wait looks whether it should end.
const STEP: Duration = Duration::from_millis(100);

/// What is tried again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// A busy endpoint.
    ForBusy,
    /// A busy endpoint, and one that cannot be reached for a while.
    ForAll,
}

/// Everything that one request needs.
pub(super) struct Caller {
    client: Client,
    url: Url,
    shown: String,
    model: String,
    authorization: Option<HeaderValue>,
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a [&'a str],
    encoding_format: &'static str,
}

/// Why a try failed: for good, or for now.
enum Failure {
    Final(EncodeError),
    Unreachable(EncodeError),
    Busy { status: u16, wait: Option<Duration> },
}

impl Caller {
    pub(super) fn new(
        url: &Url,
        model: &str,
        key: Option<Zeroizing<String>>,
    ) -> Result<Self, EncodeError> {
        let shown = url.to_string();
        let mut path = url.clone();
        path.set_path(&format!("{}/embeddings", url.path().trim_end_matches('/')));
        let authorization = key
            .map(|key| {
                let header = Zeroizing::new(format!("Bearer {}", key.as_str()));
                HeaderValue::from_str(&header).map(|mut value| {
                    value.set_sensitive(true);
                    value
                })
            })
            .transpose()
            .map_err(|_| EncodeError::Key { url: shown.clone(), status: 401 })?;
        let unusable = |reason: String| EncodeError::Connect { url: shown.clone(), reason };
        let client = Client::builder()
            .tls_backend_preconfigured(tls().map_err(|error| unusable(error.to_string()))?)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .timeout(Duration::from_secs(300));
        // A proxy would take off this machine what is meant to stay on it.
        let client = if super::is_local(url) { client.no_proxy() } else { client };
        let client = client.build().map_err(|error| unusable(reason(&error)))?;
        Ok(Self { client, url: path, shown, model: model.to_owned(), authorization })
    }

    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// The vectors of texts, one after the other. `look` is asked while waiting, and ends it with an error.
    pub(super) fn embed(
        &self,
        texts: &[&str],
        patience: Patience,
        look: &dyn Fn() -> Result<(), EncodeError>,
    ) -> Result<Vec<f32>, EncodeError> {
        // Some endpoints refuse a text without characters.
        let input: Vec<&str> =
            texts.iter().map(|&text| if text.is_empty() { " " } else { text }).collect();
        let request = Request { model: &self.model, input: &input, encoding_format: "float" };
        let body = serde_json::to_vec(&request).expect("texts are JSON");
        let mut backoff = FIRST_WAIT;
        for last in (0..TRIES).map(|number| number + 1 == TRIES) {
            let wait = match self.once(&body, texts.len()) {
                Ok(vectors) => return Ok(vectors),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Unreachable(error)) if last || patience == Patience::ForBusy => {
                    return Err(error);
                }
                Err(Failure::Unreachable(_)) => backoff,
                Err(Failure::Busy { status, wait }) => {
                    let wait = wait.unwrap_or(backoff);
                    if last || wait > LONGEST_WAIT {
                        let tries = if last { TRIES } else { 1 };
                        return Err(EncodeError::Busy {
                            url: self.shown.clone(),
                            tries,
                            status,
                            wait,
                        });
                    }
                    wait
                }
            };
            pause(wait, look)?;
            backoff *= 2;
        }
        unreachable!("the last try returns")
    }

    fn once(&self, body: &[u8], texts: usize) -> Result<Vec<f32>, Failure> {
        let mut request =
            self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value.clone());
        }
        let unreachable = |error: reqwest::Error| {
            Failure::Unreachable(EncodeError::Connect {
                url: self.shown.clone(),
                reason: reason(&error),
            })
        };
        let response = request.body(body.to_vec()).send().map_err(unreachable)?;
        let status = response.status().as_u16();
        match status {
            200 => {}
            401 | 403 => {
                return Err(Failure::Final(EncodeError::Key { url: self.shown.clone(), status }));
            }
            408 | 429 | 500 | 502 | 503 | 504 => {
                return Err(Failure::Busy { status, wait: retry_after(&response) });
            }
            _ => {
                let message =
                    answer::message(&self.read(response, ERROR_LIMIT).unwrap_or_default());
                let error = EncodeError::Status { url: self.shown.clone(), status, message };
                return Err(Failure::Final(error));
            }
        }
        let bytes = self.read(response, ANSWER_LIMIT + 1)?;
        let wrong = |reason: String| {
            Failure::Final(EncodeError::Answer { url: self.shown.clone(), reason })
        };
        if bytes.len() as u64 > ANSWER_LIMIT {
            return Err(wrong(format!("the answer has more than {ANSWER_LIMIT} bytes")));
        }
        let answer = answer::parse(&bytes, texts).map_err(wrong)?;
        if !answer::same_model(&self.model, &answer.model) {
            return Err(Failure::Final(EncodeError::OtherModel {
                url: self.shown.clone(),
                asked: self.model.clone(),
                answered: answer.model,
            }));
        }
        Ok(answer.vectors)
    }

    /// At most so many bytes of an answer. An answer that breaks off may be whole the next time.
    fn read(&self, response: Response, limit: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        response.take(limit).read_to_end(&mut bytes).map_err(|error| {
            let reason = format!("the answer broke off: {error}");
            Failure::Unreachable(EncodeError::Connect { url: self.shown.clone(), reason })
        })?;
        Ok(bytes)
    }
}

/// TLS 1.3 by ring, with the authorities that the platform trusts.
fn tls() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(rustls_platform_verifier::Verifier::new(provider.clone())?);
    let mut configuration = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous() // the name of the method; the platform's verifier checks
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    configuration.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(configuration)
}

/// The innermost reason, without the address, which the error names by itself.
fn reason(error: &reqwest::Error) -> String {
    let mut inner: &dyn Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    if error.is_timeout() { "it took too long".into() } else { inner.to_string() }
}

/// `Retry-After` in seconds; a date is taken for none.
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn pause(wait: Duration, look: &dyn Fn() -> Result<(), EncodeError>) -> Result<(), EncodeError> {
    let end = Instant::now() + wait;
    loop {
        look()?;
        match end.checked_duration_since(Instant::now()) {
            Some(rest) if !rest.is_zero() => std::thread::sleep(rest.min(STEP)),
            _ => return Ok(()),
        }
    }
}
