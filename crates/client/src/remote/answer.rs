//! One HTTP answer: read under a limit, and judged.
//!
//! The server is not trusted, and something else may answer in its place. So the body counts
//! while it is read, the media type decides whether it is a message at all, and no header but
//! the five below has a meaning.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use shard_protocol::http::{MEDIA_TYPE, REVISION_HEADER, VERSION_HEADER};
use shard_protocol::{
    DecodeError, Limits, MessageKind, Refusal, RefusalCode, WIRE_VERSION, message_kind,
};

use super::Link;
use super::error::RemoteError;
use super::retry::Failure;

/// What is first reserved for a body, whatever length it announces.
const FIRST_BYTES: usize = 1 << 20;

/// The outside of an answer.
pub(super) struct Answered {
    status: u16,
    is_message: bool,
    retry_after: Option<Duration>,
    wire_version: Option<u16>,
    /// Latest published revision of the collection.
    pub(super) revision: Option<u64>,
    /// Time that the server says it took.
    pub(super) served: Duration,
}

impl Answered {
    pub(super) fn of(answer: &Response) -> Self {
        let headers = answer.headers();
        let media_type = text(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
        let seconds = number(headers, RETRY_AFTER.as_str());
        Self {
            status: answer.status().as_u16(),
            is_message: media_type.split(';').next().is_some_and(|kind| kind.trim() == MEDIA_TYPE),
            retry_after: seconds.map(Duration::from_secs),
            wire_version: text(headers, VERSION_HEADER).and_then(wire_version),
            revision: number(headers, REVISION_HEADER),
            served: text(headers, "server-timing").map(served).unwrap_or_default(),
        }
    }

    /// Refuses a server of another version before anything of its answer is looked at.
    pub(super) fn check_version(&self) -> Result<(), Failure> {
        match self.wire_version {
            Some(theirs) if theirs != WIRE_VERSION => {
                Err(RemoteError::Version { ours: WIRE_VERSION, theirs }.into())
            }
            _ => Ok(()),
        }
    }

    /// A message for the caller, or why there is none. Refusals that concern the request are
    /// passed on; those that concern the connection end here.
    pub(super) fn judge(&self, bytes: Vec<u8>, link: &Link) -> Result<Vec<u8>, Failure> {
        let server = link.address.to_string();
        let refused = match (self.is_message, message_kind(&bytes)) {
            (true, Ok(MessageKind::Refusal)) => Refusal::decode(&bytes, &Limits::default()).ok(),
            (true, Ok(_)) if self.status == 200 => return Ok(bytes),
            (true, Err(DecodeError::Version { actual })) => {
                return Err(RemoteError::Version { ours: WIRE_VERSION, theirs: actual }.into());
            }
            _ => None,
        };
        let Some(refused) = refused else { return Err(self.foreign(server, link)) };
        Err(match refused.code {
            RefusalCode::Unauthorised => {
                RemoteError::Unauthorised { server, given: link.has_token }.into()
            }
            RefusalCode::Forbidden => {
                RemoteError::Forbidden { server, reason: refused.text }.into()
            }
            RefusalCode::Busy => Failure::busy(server, self.retry_after),
            _ => return Ok(bytes),
        })
    }

    /// An answer that is no message: from a proxy, a balancer or another kind of server.
    fn foreign(&self, server: String, link: &Link) -> Failure {
        let status = self.status;
        match status {
            401 => RemoteError::Unauthorised { server, given: link.has_token }.into(),
            429 => Failure::busy(server, self.retry_after),
            502..=504 => {
                Failure::again(RemoteError::Unavailable { server, status }, self.retry_after)
            }
            _ => RemoteError::NotShard { server, status }.into(),
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    text(headers, name)?.parse().ok()
}

/// `0.1.0; wire=1`.
fn wire_version(text: &str) -> Option<u16> {
    text.split(';').find_map(|part| part.trim().strip_prefix("wire=")?.parse().ok())
}

/// `queue;dur=0.2, compute;dur=1.5`: the sum of the durations, in milliseconds.
fn served(text: &str) -> Duration {
    let durations = text.split(',').flat_map(|part| part.split(';'));
    let milliseconds: f64 =
        durations.filter_map(|field| field.trim().strip_prefix("dur=")?.parse::<f64>().ok()).sum();
    Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or_default()
}

/// Why a body was not read to its end.
pub(super) enum Unread {
    TooLong(usize),
    Broken(reqwest::Error),
}

impl Unread {
    /// `patience` is how long the request was given.
    pub(super) fn into_failure(self, link: &Link, patience: Duration) -> Failure {
        match self {
            Self::TooLong(limit) => {
                RemoteError::TooLong { server: link.address.to_string(), limit }.into()
            }
            Self::Broken(error) => link.broken(&error, patience),
        }
    }
}

/// The body, which is given up as soon as it is known to be too long.
pub(super) async fn read_limited(mut answer: Response, limit: usize) -> Result<Vec<u8>, Unread> {
    let announced = answer.content_length().unwrap_or(0);
    if announced > limit as u64 {
        return Err(Unread::TooLong(limit));
    }
    let mut bytes = Vec::with_capacity((announced as usize).min(FIRST_BYTES));
    while let Some(chunk) = answer.chunk().await.map_err(Unread::Broken)? {
        if bytes.len() + chunk.len() > limit {
            return Err(Unread::TooLong(limit));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_header() {
        assert_eq!(wire_version("0.1.0; wire=1"), Some(1));
        assert_eq!(wire_version("2.0.0;wire=17; more=x"), Some(17));
        for none in ["", "0.1.0", "wire=", "wire=70000", "xwire=1"] {
            assert_eq!(wire_version(none), None, "{none}");
        }
    }
}
