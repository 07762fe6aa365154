//! Exchanging one request in the slot layout, the paper's way.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rayon::prelude::*;
use shard_protocol::{
    Candidates, Epoch, Leak, Limits, OpenSlotsSession, Refusal, RefusalCode, SessionId,
    SlotsRequest, SlotsResponse, declassify,
};
use shard_rlwe::slots::{SlotsClient, SlotsLayout};
use shard_rlwe::{Entropy, fill_from_os};

use crate::error::ClientError;
use crate::session::{Exchanged, Verify, exchange};
use crate::transport::Transport;

/// The open session in slots, if any. Its keys are megabytes, so it is kept while the layout
/// stays the same.
#[derive(Default)]
pub(crate) struct SlotsSessions {
    current: Mutex<Option<Session>>,
}

struct Session {
    id: SessionId,
    client: SlotsClient,
    remaining: u32,
}

/// A request before it is encrypted.
pub(crate) struct SlotsOutgoing<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) layout: &'a SlotsLayout,
    /// The turned query of each active cell, one after the other.
    pub(crate) queries: &'a [f64],
    pub(crate) candidates: &'a Candidates,
    /// The position of each candidate's cell.
    pub(crate) cells: &'a [usize],
    /// In units of the server's rows.
    pub(crate) prefix_scores: &'a [f64],
    pub(crate) limits: &'a Limits,
    pub(crate) session_requests: u32,
    /// Holds what was opened against what is known of it.
    pub(crate) verify: &'a Verify<'a, f64>,
}

impl SlotsSessions {
    /// Drops the secret: the server lost its keys.
    fn retire(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Encrypts, sends, receives and opens: scores with their prefix part, in units of the
    /// server's rows.
    pub(crate) fn exchange(
        &self,
        transport: &dyn Transport,
        request: &SlotsOutgoing<'_>,
    ) -> Result<Exchanged<f64>, ClientError> {
        match self.attempt(transport, request) {
            // The server has dropped the keys. A fresh session encrypts anew.
            Err(ClientError::Refused(Refusal { code: RefusalCode::UnknownSession, .. })) => {
                self.retire();
                self.attempt(transport, request)
            }
            outcome => outcome,
        }
    }

    fn attempt(
        &self,
        transport: &dyn Transport,
        request: &SlotsOutgoing<'_>,
    ) -> Result<Exchanged<f64>, ClientError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let usable = |s: &Session| s.client.layout() == request.layout && s.remaining > 0;
        let bytes_once = if current.as_ref().is_some_and(usable) {
            0
        } else {
            *current = None;
            let (session, bytes) = open_session(transport, request)?;
            *current = Some(session);
            bytes
        };
        let session = current.as_mut().expect("a session was found or opened");
        session.remaining -= 1;

        let start = Instant::now();
        let queries: Vec<Vec<f64>> =
            request.queries.chunks_exact(request.layout.width()).map(<[f64]>::to_vec).collect();
        let ciphertexts = session.client.encrypt_queries(&queries, Entropy::from_os()?)?;
        let message = SlotsRequest::new(
            declassify(request.epoch, Leak::CollectionShape),
            declassify(session.id, Leak::SessionLinkage),
            request.candidates.clone(),
            declassify(request.prefix_scores.to_vec(), Leak::PrefixScores),
            ciphertexts,
        )
        .encode();
        let (bytes_up, encrypt) = (message.len(), start.elapsed());

        let start = Instant::now();
        let bytes = exchange(transport, message, request.limits)?;
        let server = start.elapsed();

        let start = Instant::now();
        let answer = SlotsResponse::decode(&bytes, request.candidates.rows(), request.limits)?;
        let scores: Vec<f64> = answer
            .responses()
            .par_iter()
            .zip(request.cells)
            .map(|(response, &cell)| session.client.open(response, cell))
            .collect::<Result<_, _>>()?;
        // Still under the lock: nobody goes on using a secret under which an answer was false.
        if let Err(alarm) = (request.verify)(&scores) {
            *current = None;
            return Err(alarm);
        }
        Ok(Exchanged {
            opened: scores,
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

fn open_session(
    transport: &dyn Transport,
    request: &SlotsOutgoing<'_>,
) -> Result<(Session, usize), ClientError> {
    let (client, context) = SlotsClient::generate(request.layout.clone(), Entropy::from_os()?)?;
    let mut id = SessionId([0; 16]);
    fill_from_os(&mut id.0)?;
    let message = OpenSlotsSession::new(
        declassify(id, Leak::SessionLinkage),
        declassify(request.layout.clone(), Leak::RequestShape),
        context.to_bytes(),
    )
    .encode();
    let bytes = message.len();
    exchange(transport, message, request.limits)?;
    Ok((Session { id, client, remaining: request.session_requests.max(1) }, bytes))
}
