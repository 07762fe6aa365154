//! Requests that are not served: the refusal, and how HTTP says it.

use std::time::Duration;

use axum::http::StatusCode;
use shard_protocol::{DecodeError, Refusal, RefusalCode};

use shard_store::StoreError;

use crate::ServerError;

/// Seconds after which a busy server may be asked again, where it cannot know better.
const RETRY_SECONDS: u64 = 1;

/// Seconds after which a server may be asked again whose engine went away. Clients ask five times more, and a
/// database that fails over takes some twenty seconds.
const ENGINE_SECONDS: u64 = 5;

/// A refusal with what HTTP adds to it.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) refusal: Refusal,
    /// Seconds after which it may go.
    pub(super) retry_after: Option<u64>,
}

impl Refused {
    fn new(code: RefusalCode, text: impl Into<String>) -> Self {
        Self { refusal: Refusal { code, text: text.into() }, retry_after: None }
    }

    pub(super) fn unauthorised(text: &str) -> Self {
        Self::new(RefusalCode::Unauthorised, text)
    }

    pub(super) fn forbidden(text: impl Into<String>) -> Self {
        Self::new(RefusalCode::Forbidden, text)
    }

    pub(super) fn malformed(text: impl Into<String>) -> Self {
        Self::new(RefusalCode::Malformed, text)
    }

    pub(super) fn internal(text: &str) -> Self {
        Self::new(RefusalCode::Internal, text)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(RefusalCode::TooLarge, format!("the body is longer than {limit} bytes"))
    }

    /// Too much of something at once.
    pub(super) fn busy(what: &str, wait: Option<Duration>) -> Self {
        let wait = wait.map_or(RETRY_SECONDS, |wait| wait.as_secs_f64().ceil().max(1.0) as u64);
        Self {
            retry_after: Some(wait),
            ..Self::new(RefusalCode::Busy, format!("too many {what}; try again in {wait} s"))
        }
    }

    /// The status that goes with the class.
    pub(super) fn status(&self) -> StatusCode {
        match self.refusal.code {
            RefusalCode::Malformed | RefusalCode::Version => StatusCode::BAD_REQUEST,
            RefusalCode::Unauthorised => StatusCode::UNAUTHORIZED,
            RefusalCode::Forbidden => StatusCode::FORBIDDEN,
            RefusalCode::UnknownCollection
            | RefusalCode::UnknownEpoch
            | RefusalCode::UnknownRow
            | RefusalCode::UnknownBlob
            | RefusalCode::UnknownSession => StatusCode::NOT_FOUND,
            RefusalCode::WrongWidth | RefusalCode::Stale | RefusalCode::Forked => {
                StatusCode::CONFLICT
            }
            RefusalCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            RefusalCode::Busy => StatusCode::TOO_MANY_REQUESTS,
            RefusalCode::Storage => StatusCode::INSUFFICIENT_STORAGE,
            RefusalCode::Internal | RefusalCode::Damaged => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<ServerError> for Refused {
    /// What went wrong within the server is for its operator to know; the client is told only
    /// that it did.
    fn from(error: ServerError) -> Self {
        if matches!(
            error.code(),
            RefusalCode::Storage | RefusalCode::Internal | RefusalCode::Damaged
        ) {
            tracing::warn!(%error, "a request failed");
        }
        let unavailable = matches!(error, ServerError::Store(StoreError::Unavailable { .. }));
        if unavailable {
            tracing::warn!(%error, "the engine is not there");
        }
        let retry_after = match &error {
            _ if unavailable => Some(ENGINE_SECONDS),
            // Others load meanwhile.
            ServerError::Unreachable(_) => Some(RETRY_SECONDS),
            ServerError::Peer(refusal) if refusal.code == RefusalCode::Busy => Some(RETRY_SECONDS),
            _ => None,
        };
        Self { refusal: error.refusal(), retry_after }
    }
}

impl From<DecodeError> for Refused {
    fn from(error: DecodeError) -> Self {
        ServerError::from(error).into()
    }
}
