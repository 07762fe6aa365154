//! What an operator asks of a server, and how far away it is.

use std::time::{Duration, Instant};

use reqwest::Method;
use shard_protocol::http;

use super::error::RemoteError;
use super::{Link, Remote, answer};

/// Exchanges that the round trip is the shortest of.
const PINGS: usize = 3;

/// Longest answer to an operator.
const ANSWER_BYTES: usize = 1 << 20;

impl Remote {
    /// Has the server rewrite its rows, so that nothing deleted is left on its disk. Needs a
    /// token of scope admin.
    pub fn compact(&self) -> Result<(), RemoteError> {
        self.ask(Method::POST, http::COMPACT, Some("{}".into()), self.link.timeouts.operator)
            .map(drop)
    }

    /// Has the server copy its rows to a snapshot of this name, under its own directory. Needs a
    /// token of scope admin.
    pub fn snapshot(&self, name: &str) -> Result<(), RemoteError> {
        let body = serde_json::json!({ "name": name }).to_string();
        self.ask(Method::POST, http::SNAPSHOT, Some(body), self.link.timeouts.operator).map(drop)
    }

    /// The server's metrics, as text for Prometheus.
    pub fn metrics(&self) -> Result<String, RemoteError> {
        let answer = self.ask(Method::GET, http::METRICS, None, self.link.timeouts.operator)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// The shortest of a few exchanges of nothing, measured once on an open connection. A server
    /// that does not answer the first is not asked for the others, and asked again the next time.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        if let Some(known) = self.link.round_trip.get() {
            return Some(*known);
        }
        let patience = self.link.timeouts.connect;
        let ping = |_| {
            let start = Instant::now();
            self.ask(Method::GET, http::HEALTH, None, patience).ok().map(|_| start.elapsed())
        };
        let shortest = (0..PINGS).map(ping).collect::<Option<Vec<_>>>()?.into_iter().min()?;
        Some(*self.link.round_trip.get_or_init(|| shortest))
    }

    fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        patience: Duration,
    ) -> Result<Vec<u8>, RemoteError> {
        let url = self.link.address.at(path);
        self.wait_for(|link| async move { link.ask(method, url, body, patience).await })
    }
}

impl Link {
    async fn ask(
        &self,
        method: Method,
        url: url::Url,
        body: Option<String>,
        patience: Duration,
    ) -> Result<Vec<u8>, RemoteError> {
        let server = self.address.to_string();
        let mut request = self.client.request(method, url).timeout(patience);
        if let Some(body) = body {
            let json = reqwest::header::HeaderValue::from_static("application/json");
            request = request.header(reqwest::header::CONTENT_TYPE, json).body(body);
        }
        let sent = request.send().await;
        let answer = sent.map_err(|error| self.broken(&error, patience).into_error())?;
        let status = answer.status();
        let read = answer::read_limited(answer, ANSWER_BYTES).await;
        let text = read.map_err(|unread| unread.into_failure(self, patience).into_error())?;
        if status.is_success() {
            return Ok(text);
        }
        // Words of a server that is not trusted: short, and nothing that moves a cursor.
        let said = String::from_utf8_lossy(&text);
        let said: String = said.chars().filter(|c| !c.is_control()).take(300).collect();
        Err(match status.as_u16() {
            401 => RemoteError::Unauthorised { server, given: self.has_token },
            403 => RemoteError::Forbidden { server, reason: said },
            _ => RemoteError::Broken { server, reason: format!("{status}: {said}") },
        })
    }
}
