//! Exchanging one request, under a key of its own or under a session's.

use std::time::{Duration, Instant};

use rayon::prelude::*;
use shard_protocol::{
    Candidates, DecodeError, Epoch, Leak, Limits, MessageKind, OpenSession, Refusal, RefusalCode,
    RerankRequest, RerankResponse, SessionId, declassify, message_kind,
};
use shard_rlwe::{Entropy, MergeSpan, Plan, Query, RequestKey, Response, RingDegree, SessionKey};

use crate::error::ClientError;
use crate::pool::{Pool, Session};
use crate::transport::Channel;

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

/// The secret of a session and what its keys at the server can do.
struct MergeSession {
    id: SessionId,
    span: MergeSpan,
    degree: RingDegree,
    key: SessionKey,
}

impl Session for MergeSession {
    type Shape = (RingDegree, MergeSpan);

    fn shape(&self) -> Self::Shape {
        (self.degree, self.span)
    }

    fn serves(&self, &(degree, span): &Self::Shape) -> bool {
        self.degree == degree && self.span.covers(span)
    }

    fn remaining(&self) -> u32 {
        self.key.remaining()
    }
}

/// The open sessions, if any, of one client with one server.
#[derive(Default)]
pub(crate) struct Sessions {
    pool: Pool<MergeSession>,
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
        self.pool.held()
    }

    /// Encrypts, sends, receives, opens and checks.
    pub(crate) fn exchange(
        &self,
        transport: &dyn Channel,
        request: &Outgoing<'_>,
    ) -> Result<Exchanged<i64>, ClientError> {
        let Some(span) = request.plan.span else {
            return exchange_alone(transport, request);
        };
        let (degree, parameters) = (request.plan.layout.degree(), &request.plan.parameters);
        self.pool.request(
            &(degree, span),
            || open_session(transport, degree, span, request),
            |session| {
                let start = Instant::now();
                let (seed, ciphertexts) =
                    session.key.encrypt(parameters, request.query, Entropy::from_os()?)?;
                let message = request.message(Some(session.id), seed, ciphertexts);
                let open = |response: &Response| session.key.open(parameters, response);
                request.finish(transport, message, start.elapsed(), open)
            },
        )
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

    /// Sends the message, opens the answer and checks it.
    fn finish(
        &self,
        transport: &dyn Channel,
        message: Vec<u8>,
        encrypt: Duration,
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
        let opened: Vec<i64> = answer.responses().par_iter().flat_map_iter(open).collect();
        (self.verify)(&opened)?;
        Ok(Exchanged {
            opened,
            bytes_up,
            bytes_down: bytes.len(),
            bytes_once: 0,
            responses: answer.responses().len(),
            encrypt,
            server,
            open: start.elapsed(),
        })
    }
}

/// A request under a secret of its own.
fn exchange_alone(
    transport: &dyn Channel,
    request: &Outgoing<'_>,
) -> Result<Exchanged<i64>, ClientError> {
    let start = Instant::now();
    let key = RequestKey::fresh(&request.plan.parameters, Entropy::from_os()?);
    let (key, seed, ciphertexts) = key.encrypt(request.query);
    let message = request.message(None, seed, ciphertexts);
    let open = |response: &Response| key.open(response);
    request.finish(transport, message, start.elapsed(), open)
}

fn open_session(
    transport: &dyn Channel,
    degree: RingDegree,
    span: MergeSpan,
    request: &Outgoing<'_>,
) -> Result<(MergeSession, usize), ClientError> {
    let requests = request.session_requests.max(1);
    let (key, keys) = SessionKey::fresh(degree, span, requests, Entropy::from_os()?);
    let mut id = SessionId([0; 16]);
    shard_rlwe::fill_from_os(&mut id.0)?;
    let message = OpenSession::new(declassify(id, Leak::SessionLinkage), keys).encode();
    let bytes = message.len();
    accepted(transport, message, request.limits)?;
    Ok((MergeSession { id, span, degree, key }, bytes))
}

/// Sends a message; a refusal comes back as an error.
pub(crate) fn exchange(
    transport: &dyn Channel,
    message: Vec<u8>,
    limits: &Limits,
) -> Result<Vec<u8>, ClientError> {
    let answer = transport.send(message)?;
    match message_kind(&answer)? {
        MessageKind::Refusal => Err(refused(Refusal::decode(&answer, limits)?)),
        _ => Ok(answer),
    }
}

/// Sends a message that is answered by an acknowledgement.
pub(crate) fn accepted(
    transport: &dyn Channel,
    message: Vec<u8>,
    limits: &Limits,
) -> Result<(), ClientError> {
    if exchange(transport, message, limits)? == MessageKind::Accepted.bare() {
        Ok(())
    } else {
        Err(DecodeError::Invalid("another answer than an acknowledgement").into())
    }
}

/// Refusals that the owner can do something about say what.
fn refused(refusal: Refusal) -> ClientError {
    match refusal.code {
        RefusalCode::Stale => ClientError::Outdated { reason: refusal.text },
        RefusalCode::UnknownCollection | RefusalCode::UnknownEpoch => {
            ClientError::Unpublished { reason: refusal.text }
        }
        _ => ClientError::Refused(refusal),
    }
}
