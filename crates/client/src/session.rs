//! Exchanging one request, under a key of its own or under a session's.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use shard_protocol::{
    Candidates, Epoch, Leak, Limits, MessageKind, OpenSession, Refusal, RefusalCode, RerankRequest,
    RerankResponse, SessionId, declassify, message_kind,
};
use shard_rlwe::{Entropy, MergeSpan, Plan, Query, RequestKey, Response, RingDegree, SessionKey};

use crate::error::ClientError;
use crate::transport::Transport;

/// What came back of a request.
pub(crate) struct Exchanged<V> {
    /// What was read of all candidates, in order.
    pub(crate) opened: Vec<V>,
    pub(crate) bytes_up: usize,
    pub(crate) bytes_down: usize,
    /// Bytes of keys that had to be sent first.
    pub(crate) bytes_once: usize,
    pub(crate) responses: usize,
    pub(crate) encrypt: Duration,
    pub(crate) server: Duration,
    pub(crate) open: Duration,
}

/// The open session, if any, of one client with one server.
#[derive(Default)]
pub(crate) struct Sessions {
    current: Mutex<Option<Session>>,
}

struct Session {
    id: SessionId,
    span: MergeSpan,
    degree: RingDegree,
    key: SessionKey,
}

impl Session {
    fn serves(&self, degree: RingDegree, span: MergeSpan) -> bool {
        self.degree == degree && self.span.covers(span) && self.key.remaining() > 0
    }
}

/// The parts of a request that are the same whoever's key encrypts it.
pub(crate) struct Outgoing<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) plan: &'a Plan,
    pub(crate) query: &'a Query,
    pub(crate) candidates: &'a Candidates,
    pub(crate) limits: &'a Limits,
    /// Requests that a session opened for this one may serve.
    pub(crate) session_requests: u32,
    /// Holds what was opened against what is known of it.
    pub(crate) verify: &'a Verify<'a, i64>,
}

/// A check of what was opened.
pub(crate) type Verify<'a, V> = dyn Fn(&[V]) -> Result<(), ClientError> + Sync + 'a;

impl Sessions {
    /// Merge keys that the server already holds.
    pub(crate) fn held(&self) -> Option<(RingDegree, MergeSpan)> {
        let current = self.lock();
        current.as_ref().filter(|s| s.key.remaining() > 0).map(|s| (s.degree, s.span))
    }

    /// Drops the secret: the server lost its keys.
    fn retire(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Session>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encrypts, sends, receives and opens.
    pub(crate) fn exchange(
        &self,
        transport: &dyn Transport,
        request: &Outgoing<'_>,
    ) -> Result<Exchanged<i64>, ClientError> {
        let Some(span) = request.plan.span else {
            return exchange_alone(transport, request);
        };
        match self.exchange_merged(transport, request, span) {
            // The server has dropped the session's keys. A fresh session encrypts anew.
            Err(ClientError::Refused(Refusal { code: RefusalCode::UnknownSession, .. })) => {
                self.retire();
                self.exchange_merged(transport, request, span)
            }
            outcome => outcome,
        }
    }

    fn exchange_merged(
        &self,
        transport: &dyn Transport,
        request: &Outgoing<'_>,
        span: MergeSpan,
    ) -> Result<Exchanged<i64>, ClientError> {
        let degree = request.plan.layout.degree();
        let parameters = &request.plan.parameters;
        // The lock is held until the answer has been checked: another thread must neither spend
        // the last request of this secret nor go on using it once an answer turns out false.
        let mut current = self.lock();
        let bytes_once = if current.as_ref().is_some_and(|s| s.serves(degree, span)) {
            0
        } else {
            *current = None;
            let (session, bytes) = open_session(transport, degree, span, request)?;
            *current = Some(session);
            bytes
        };
        let session = current.as_mut().expect("a session was found or opened");
        let start = Instant::now();
        let (seed, ciphertexts) =
            session.key.encrypt(parameters, request.query, Entropy::from_os()?)?;
        let message = request.message(Some(session.id), seed, ciphertexts);
        let open = |response: &Response| session.key.open(parameters, response);
        let exchanged = request.finish(transport, message, start.elapsed(), bytes_once, open)?;
        if let Err(alarm) = (request.verify)(&exchanged.opened) {
            *current = None;
            return Err(alarm);
        }
        Ok(exchanged)
    }
}

impl Outgoing<'_> {
    fn message(
        &self,
        session: Option<SessionId>,
        seed: shard_rlwe::Seed,
        ciphertexts: Vec<shard_rlwe::Ciphertext>,
    ) -> Vec<u8> {
        let shape = (self.plan.parameters.clone(), self.plan.layout.clone());
        RerankRequest::new(
            declassify(self.epoch, Leak::CollectionShape),
            declassify(shape, Leak::RequestShape),
            session.map(|id| declassify(id, Leak::SessionLinkage)),
            self.candidates.clone(),
            seed,
            ciphertexts,
        )
        .encode()
    }

    /// Sends the message and opens the answer.
    fn finish(
        &self,
        transport: &dyn Transport,
        message: Vec<u8>,
        encrypt: Duration,
        bytes_once: usize,
        open: impl Fn(&Response) -> Vec<i64> + Sync + Send,
    ) -> Result<Exchanged<i64>, ClientError> {
        let bytes_up = message.len();
        let start = Instant::now();
        let bytes = exchange(transport, message, self.limits)?;
        let server = start.elapsed();
        let start = Instant::now();
        let (parameters, layout) = (&self.plan.parameters, &self.plan.layout);
        let rows = self.candidates.rows();
        let answer = RerankResponse::decode(&bytes, parameters, layout, rows, self.limits)?;
        let opened = answer.responses().par_iter().flat_map_iter(open).collect();
        Ok(Exchanged {
            opened,
            bytes_up,
            bytes_down: bytes.len(),
            bytes_once,
            responses: answer.responses().len(),
            encrypt,
            server,
            open: start.elapsed(),
        })
    }
}

/// A request under a secret of its own.
fn exchange_alone(
    transport: &dyn Transport,
    request: &Outgoing<'_>,
) -> Result<Exchanged<i64>, ClientError> {
    let start = Instant::now();
    let key = RequestKey::fresh(&request.plan.parameters, Entropy::from_os()?);
    let (key, seed, ciphertexts) = key.encrypt(request.query);
    let message = request.message(None, seed, ciphertexts);
    let open = |response: &Response| key.open(response);
    let exchanged = request.finish(transport, message, start.elapsed(), 0, open)?;
    (request.verify)(&exchanged.opened)?;
    Ok(exchanged)
}

fn open_session(
    transport: &dyn Transport,
    degree: RingDegree,
    span: MergeSpan,
    request: &Outgoing<'_>,
) -> Result<(Session, usize), ClientError> {
    let requests = request.session_requests.max(1);
    let (key, keys) = SessionKey::fresh(degree, span, requests, Entropy::from_os()?);
    let mut id = SessionId([0; 16]);
    shard_rlwe::fill_from_os(&mut id.0)?;
    let message = OpenSession::new(declassify(id, Leak::SessionLinkage), keys).encode();
    let bytes = message.len();
    exchange(transport, message, request.limits)?;
    Ok((Session { id, span, degree, key }, bytes))
}

/// Sends a message; a refusal comes back as an error.
pub(crate) fn exchange(
    transport: &dyn Transport,
    message: Vec<u8>,
    limits: &Limits,
) -> Result<Vec<u8>, ClientError> {
    let answer = transport.exchange(message).map_err(ClientError::Transport)?;
    match message_kind(&answer)? {
        MessageKind::Refusal => Err(Refusal::decode(&answer, limits)?.into()),
        _ => Ok(answer),
    }
}
