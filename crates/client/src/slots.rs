//! Exchanging one request in the slot layout, the paper's way.

use std::time::Instant;

use rayon::prelude::*;
use shard_protocol::{
    Candidates, Epoch, Leak, Limits, OpenSlotsSession, SessionId, SlotsRequest, SlotsResponse,
    declassify,
};
use shard_rlwe::slots::{SlotsClient, SlotsLayout};
use shard_rlwe::{Entropy, fill_from_os};

use crate::error::ClientError;
use crate::pool::{Pool, Session};
use crate::session::{Exchanged, Verify, accepted, exchange};
use crate::transport::Channel;

/// The open sessions in slots, if any. Their keys are megabytes, so they are kept while the
/// layout stays the same.
#[derive(Default)]
pub(crate) struct SlotsSessions {
    pool: Pool<SlotsSession>,
}

struct SlotsSession {
    id: SessionId,
    client: SlotsClient,
    remaining: u32,
}

impl Session for SlotsSession {
    type Shape = SlotsLayout;

    fn shape(&self) -> SlotsLayout {
        self.client.layout().clone()
    }

    fn serves(&self, needed: &SlotsLayout) -> bool {
        self.client.layout() == needed
    }

    fn remaining(&self) -> u32 {
        self.remaining
    }
}

/// A request before it is encrypted.
pub(crate) struct SlotsOutgoing<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) layout: &'a SlotsLayout,
    /// The rotated query of each active cell, one after the other.
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
    /// Encrypts, sends, receives, opens and checks: scores with their prefix part, in units of
    /// the server's rows.
    pub(crate) fn exchange(
        &self,
        transport: &dyn Channel,
        request: &SlotsOutgoing<'_>,
    ) -> Result<Exchanged<f64>, ClientError> {
        self.pool.request(
            request.layout,
            || open_session(transport, request),
            |session| request.ask(transport, session),
        )
    }
}

impl SlotsOutgoing<'_> {
    fn ask(
        &self,
        transport: &dyn Channel,
        session: &mut SlotsSession,
    ) -> Result<Exchanged<f64>, ClientError> {
        session.remaining -= 1;

        let start = Instant::now();
        let queries: Vec<Vec<f64>> =
            self.queries.chunks_exact(self.layout.width()).map(<[f64]>::to_vec).collect();
        let ciphertexts = session.client.encrypt_queries(&queries, Entropy::from_os()?)?;
        let message = SlotsRequest::new(
            declassify(self.epoch, Leak::CollectionShape),
            declassify(session.id, Leak::SessionLinkage),
            self.candidates.clone(),
            declassify(self.prefix_scores.to_vec(), Leak::PrefixScores),
            ciphertexts,
        )
        .encode();
        let (bytes_up, encrypt) = (message.len(), start.elapsed());

        let start = Instant::now();
        let bytes = exchange(transport, message, self.limits)?;
        let server = start.elapsed();

        let start = Instant::now();
        let answer = SlotsResponse::decode(&bytes, self.candidates.rows(), self.limits)?;
        let scores: Vec<f64> = answer
            .responses()
            .par_iter()
            .zip(self.cells)
            .map(|(response, &cell)| session.client.open(response, cell))
            .collect::<Result<_, _>>()?;
        (self.verify)(&scores)?;
        Ok(Exchanged {
            opened: scores,
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

fn open_session(
    transport: &dyn Channel,
    request: &SlotsOutgoing<'_>,
) -> Result<(SlotsSession, usize), ClientError> {
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
    accepted(transport, message, request.limits)?;
    Ok((SlotsSession { id, client, remaining: request.session_requests.max(1) }, bytes))
}
