//! A request's journey: who asks, how much, what; then a worker; then the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use shard_protocol::http::{MEDIA_TYPE, REVISION_HEADER, VERSION_HEADER};
use shard_protocol::{
    Access, CollectionName, MessageKind, Operation, RefusalCode, Revision, WIRE_VERSION,
    message_kind,
};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Shared;
use super::body::{self, Answer, ReceivedBody};
use super::connections::Connection;
use super::metrics::Measured;
use super::refused::Refused;
use super::tokens::Grant;
use super::workers::{NotDone, Workers};
use crate::{Caller, Server, ServerError, Stages};

/// Carries the latest published revision of the collection.
const REVISION: HeaderName = HeaderName::from_static(REVISION_HEADER);

/// Carries what the server took, as browsers and proxies read it too.
const TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Carries the versions of server and messages.
pub(super) const VERSION: HeaderName = HeaderName::from_static(VERSION_HEADER);

/// The value of [`VERSION`].
pub(super) fn version() -> HeaderValue {
    let text = format!("{}; wire={WIRE_VERSION}", env!("CARGO_PKG_VERSION"));
    HeaderValue::from_str(&text).expect("versions are plain text")
}

/// What a request has been found to be so far: for its answer, its figures and its line in the log.
#[derive(Default)]
struct Seen {
    collection: Option<CollectionName>,
    token: Option<String>,
    grant: Option<Grant>,
    measured: Measured,
    revision: Option<Revision>,
}

/// Serves one message of an operation.
pub(super) async fn exchange(
    shared: Arc<Shared>,
    operation: Operation,
    name: String,
    request: Request,
) -> Response {
    let start = Instant::now();
    let (parts, mut body) = request.into_parts();
    let connection = parts.extensions.get::<Connection>();
    let mut seen = Seen::default();
    let outcome = serve(&shared, operation, &name, &parts.headers, &mut body, &mut seen).await;
    seen.measured.total = start.elapsed();
    let outcome = match outcome {
        Ok(answer) => {
            seen.measured.bytes_out = answer.len();
            if let Some(grant) = &seen.grant {
                grant.charge(answer.len());
            }
            let (budget, send) = (&shared.budget, shared.metrics.send.clone());
            let sent = connection.map(Connection::send);
            let kept = (seen.grant.take(), shared.active.token(), sent);
            Answer::new(answer, budget, send, kept)
        }
        Err(refused) => Err(refused),
    };
    if outcome.is_err() {
        body::drain(&parts.headers, &mut body).await;
    }
    shared.metrics.answered(operation, &seen.measured);
    let peer = connection.and_then(|connection| connection.peer);
    let mut response = match outcome {
        Ok(answer) => {
            log(&shared, operation, &seen, StatusCode::OK, None, peer);
            Response::new(Body::new(answer))
        }
        Err(refused) => {
            shared.metrics.refused(&refused);
            log(&shared, operation, &seen, refused.status(), Some(&refused), peer);
            refusal(&refused)
        }
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if let Some(revision) = seen.revision {
        headers.insert(REVISION, revision.0.into());
    }
    headers.insert(TIMING, timing(&seen.measured));
    response
}

/// How long the request waited for a worker and was worked on: what a client must subtract to
/// know its link.
fn timing(measured: &Measured) -> HeaderValue {
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let worked = measured.total.saturating_sub(measured.read + measured.queue);
    let text = format!("queue;dur={:.3}, compute;dur={:.3}", ms(measured.queue), ms(worked));
    HeaderValue::from_str(&text).expect("numbers are plain text")
}

async fn serve(
    shared: &Shared,
    operation: Operation,
    name: &str,
    headers: &HeaderMap,
    body: &mut Body,
    seen: &mut Seen,
) -> Result<Vec<u8>, Refused> {
    let collection: CollectionName =
        name.parse().map_err(|error| Refused::malformed(format!("collection {error}")))?;
    let scope = operation.access().into();
    let grant = seen.grant.insert(shared.tokens.admit(headers, scope, Some(&collection))?);
    seen.token = grant.id().map(ToOwned::to_owned);
    seen.collection = Some(collection.clone());
    seen.revision = shared.server.known_revision(&collection);
    // A page in the owner's browser cannot send this type to a server on the same machine.
    if headers.get(CONTENT_TYPE).is_none_or(|value| value != MEDIA_TYPE) {
        return Err(Refused::malformed(format!("the body must be of type {MEDIA_TYPE}")));
    }

    let start = Instant::now();
    let received = &mut seen.measured.bytes_in;
    let held = body::read(headers, body, &shared.budget, &shared.options, received).await;
    // Charge the received bytes also when the body ended early.
    grant.charge(seen.measured.bytes_in);
    seen.measured.read = start.elapsed();
    let held = held?;
    let kind = message_kind(&held.bytes)?;
    if !operation.kinds().contains(&kind) {
        let (path, kinds) = (operation.path(), operation.kinds());
        return Err(Refused::malformed(format!("{path} takes {kinds:?}, not {kind:?}")));
    }

    // The work goes on when the peer has gone, so what counts it goes with it: the token's place,
    // the bytes of the request, and what a shutdown waits for.
    let job = Job {
        server: shared.server.clone(),
        caller: seen.token.as_deref().map(Caller::of_token).unwrap_or_default(),
        collection,
        body: held,
        grant: seen.grant.take(),
        _active: shared.active.token(),
    };
    let done = work(shared, operation, kind, job).await;
    let (computed, grant, queue) = done.map_err(|error| match error {
        Undone::Refused(refused) => refused,
        Undone::Not(NotDone::Full | NotDone::Late) => Refused::busy("requests at a time", None),
        Undone::Not(NotDone::Panicked) => {
            tracing::warn!(operation = operation.path(), "the work on a request panicked");
            Refused::internal("the server failed at this request")
        }
    })?;
    seen.grant = grant;
    seen.measured.queue = queue;
    seen.measured.stages = computed.stages;
    seen.revision = computed.revision;
    Ok(computed.answer?)
}

/// A request on its way through the workers.
struct Job {
    server: Arc<Server>,
    caller: Caller,
    collection: CollectionName,
    body: ReceivedBody,
    grant: Option<Grant>,
    _active: TaskTrackerToken,
}

struct Computed {
    answer: Result<Vec<u8>, ServerError>,
    stages: Stages,
    revision: Option<Revision>,
}

/// Why there is no answer, not even one that refuses.
enum Undone {
    Not(NotDone),
    Refused(Refused),
}

impl From<NotDone> for Undone {
    fn from(error: NotDone) -> Self {
        Self::Not(error)
    }
}

/// Has a request worked on where it belongs. Those that wait for an engine on another machine do so on
/// threads of their own, so that no core idles meanwhile; a rerank has its rows fetched there and goes on to
/// be scored.
async fn work(
    shared: &Shared,
    operation: Operation,
    kind: MessageKind,
    job: Job,
) -> Result<(Computed, Option<Grant>, Duration), Undone> {
    let patience = shared.options.request_timeout;
    // Searches of blocks in memory go on while an engine on another machine is away.
    let in_memory = matches!(kind, MessageKind::BlindQuery | MessageKind::RecordQuery)
        && shared.fetchers.is_some();
    let whole = move |job: Job| {
        let mut stages = Stages::default();
        let Job { server, caller, collection, body, .. } = &job;
        let answer = server.answer_in_stages(caller, collection, &body.bytes, &mut stages);
        let revision = if in_memory {
            server.known_revision(collection)
        } else {
            server.revision(collection).ok()
        };
        (Computed { answer, stages, revision }, job.grant)
    };
    let workers = match (operation.access(), &shared.fetchers) {
        (Access::Write, _) => &shared.writer,
        (Access::Read, None) => &shared.workers,
        (Access::Read, Some(fetchers)) if kind == MessageKind::RerankRequest => {
            return rerank(shared, fetchers, job).await;
        }
        (Access::Read, Some(fetchers)) if waits(kind) => fetchers,
        (Access::Read, Some(_)) => &shared.workers,
    };
    let collection = job.collection.clone();
    let work = move || whole(job);
    let ((computed, grant), queue) = workers.run(&collection, patience, work).await?;
    Ok((computed, grant, queue))
}

/// Whether a message is answered by the engine alone.
fn waits(kind: MessageKind) -> bool {
    matches!(
        kind,
        MessageKind::Describe
            | MessageKind::FetchBlob
            | MessageKind::FetchBlobs
            | MessageKind::FetchShared
            | MessageKind::FetchSharedMany
            | MessageKind::ListBlobs
            | MessageKind::ListMacs
    )
}

/// A rerank in two halves: rows are fetched while other requests are scored. Rows that wait to be scored count
/// among the bytes in memory.
async fn rerank(
    shared: &Shared,
    fetchers: &Workers,
    job: Job,
) -> Result<(Computed, Option<Grant>, Duration), Undone> {
    let (patience, collection) = (shared.options.request_timeout, job.collection.clone());
    let fetch = move || {
        let mut stages = Stages::default();
        let Job { server, collection, body, .. } = &job;
        let prepared = server.prepare(collection, &body.bytes, &mut stages);
        let revision = server.revision(collection).ok();
        (prepared, revision, stages, job)
    };
    let ((prepared, revision, mut stages, job), waited) =
        fetchers.run(&collection, patience, fetch).await?;
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            return Ok((Computed { answer: Err(error), stages, revision }, job.grant, waited));
        }
    };
    let counted = shared.budget.take(prepared.bytes()).map_err(Undone::Refused)?;
    let score = move || {
        let Job { server, caller, collection, .. } = &job;
        let answer = server.answer_prepared(caller, collection, &prepared, &mut stages);
        drop(counted);
        (Computed { answer, stages, revision }, job.grant)
    };
    let ((computed, grant), queue) = shared.workers.run(&collection, patience, score).await?;
    Ok((computed, grant, waited + queue))
}

/// A refusal as an answer.
fn refusal(refused: &Refused) -> Response {
    let mut response = Response::new(Body::from(refused.refusal.encode()));
    *response.status_mut() = refused.status();
    announce(refused, response.headers_mut());
    response
}

/// A refusal of a request that nobody has looked at: a message to who sends messages, and JSON to
/// everybody else.
pub(super) fn refused_before(refused: Refused, headers: &HeaderMap) -> Response {
    let is_message = headers.get(CONTENT_TYPE).is_some_and(|value| value == MEDIA_TYPE);
    if !is_message {
        return refused.into_response();
    }
    let mut response = refusal(&refused);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

/// The headers that HTTP wants beside some refusals.
pub(super) fn announce(refused: &Refused, headers: &mut HeaderMap) {
    if refused.refusal.code == RefusalCode::Unauthorised {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = refused.retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
}

/// One line per request. Nothing in it is derived from a query unless the operator asked for it.
fn log(
    shared: &Shared,
    operation: Operation,
    seen: &Seen,
    status: StatusCode,
    refused: Option<&Refused>,
    peer: Option<std::net::SocketAddr>,
) {
    let milliseconds = |time: Duration| (time.as_secs_f64() * 1e5).round() / 1e2;
    let (measured, options) = (&seen.measured, &shared.options);
    let details = options.log_details.then_some(());
    tracing::info!(
        target: "shard::request",
        operation = operation.path(),
        status = status.as_u16(),
        class = refused.map(|refused| tracing::field::debug(refused.refusal.code)),
        token = seen.token.as_deref(),
        bytes_in = measured.bytes_in,
        bytes_out = measured.bytes_out,
        ms = milliseconds(measured.total),
        read_ms = milliseconds(measured.read),
        queue_ms = milliseconds(measured.queue),
        decode_ms = milliseconds(measured.stages.decode),
        engine_ms = milliseconds(measured.stages.engine),
        score_ms = milliseconds(measured.stages.score),
        encode_ms = milliseconds(measured.stages.encode),
        peer = peer.filter(|_| options.log_addresses).map(tracing::field::display),
        collection = details.and(seen.collection.as_ref()).map(CollectionName::as_str),
        refusal = details.and(refused).map(|refused| refused.refusal.text.as_str()),
    );
}
