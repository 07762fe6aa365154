//! Requests in the slot layout, the paper's way. Keys live for a session, and the prefix part of
//! each score is disclosed and added under encryption.

use rayon::prelude::*;
use shard_protocol::{
    Candidates, Epoch, Leak, Limits, OpenSlotsSession, SessionId, SlotsRequest, SlotsResponse,
    declassify,
};
use shard_rlwe::slots::{SlotsClient, SlotsLayout, SlotsNoise, SlotsParameters};
use shard_rlwe::{Entropy, OPERAND_BITS};
use zeroize::Zeroizing;

use super::options::SearchOptions;
use super::rotate::RotatedQuery;
use super::{Layout, Opened, Opener};
use crate::error::ClientError;
use crate::model::Model;
use crate::session::Session;

/// A request before it is encrypted.
pub(super) struct Slots {
    epoch: Epoch,
    layout: SlotsLayout,
    /// The rotated query of each active cell.
    queries: Zeroizing<Vec<Vec<f64>>>,
    candidates: Candidates,
    /// The position of each candidate's cell.
    cells: Vec<usize>,
    /// In units of the server's rows.
    prefix_scores: Vec<f64>,
    /// The server's rows are integers; in slots they count in units of `2^(OPERAND_BITS - k)`.
    unit: f64,
    error_bound: f64,
    session_requests: u32,
}

impl Slots {
    /// Lays out a request with this many cells per ciphertext.
    pub(super) fn plan(
        model: &Model,
        rotated: &RotatedQuery<'_>,
        candidates: Candidates,
        parameters: &SlotsParameters,
        cells: usize,
        options: &SearchOptions,
    ) -> Result<Self, ClientError> {
        let width = model.split().residual();
        let layout = SlotsLayout::new(parameters.clone(), width, cells)?;
        let unit = 2_f64.powi(OPERAND_BITS - model.operand_scale().exponent());
        let query_norm = rotated.queries[..width].iter().map(|t| t * t).sum::<f64>().sqrt();
        let operand_norm = rotated.bound.norm() * 2_f64.powi(-OPERAND_BITS);
        let noise = SlotsNoise::new(layout.parameters());
        let sizes = rotated.cells.iter().map(|cell| cell.members.len());
        Ok(Self {
            epoch: model.epoch(),
            error_bound: unit * noise.error_bound(query_norm, operand_norm, layout.span()),
            layout,
            queries: Zeroizing::new(
                rotated.queries.chunks_exact(width).map(<[f64]>::to_vec).collect(),
            ),
            candidates,
            cells: sizes.enumerate().flat_map(|(at, size)| std::iter::repeat_n(at, size)).collect(),
            prefix_scores: rotated.prefix_scores.iter().map(|prefix| prefix / unit).collect(),
            unit,
            session_requests: options.session_requests.max(1),
        })
    }
}

impl Layout for Slots {
    type Session = SlotsSession;

    fn keys(&self) -> Option<SlotsLayout> {
        Some(self.layout.clone())
    }

    fn open_session(&self, id: SessionId) -> Result<(SlotsSession, Vec<u8>), ClientError> {
        let (client, context) = SlotsClient::generate(self.layout.clone(), Entropy::from_os()?)?;
        let message = OpenSlotsSession::new(
            declassify(id, Leak::SessionLinkage),
            declassify(self.layout.clone(), Leak::RequestShape),
            context.to_bytes(),
        );
        let session = SlotsSession { id, client, remaining: self.session_requests };
        Ok((session, message.encode()))
    }

    fn encrypt<'s>(
        &'s self,
        session: Option<&'s mut SlotsSession>,
    ) -> Result<(Vec<u8>, Opener<'s>), ClientError> {
        let session = session.expect("keys for slots live for a session");
        session.remaining -= 1;
        let ciphertexts = session.client.encrypt_queries(&self.queries, Entropy::from_os()?)?;
        let request = SlotsRequest::new(
            declassify(self.epoch, Leak::CollectionShape),
            declassify(session.id, Leak::SessionLinkage),
            self.candidates.clone(),
            declassify(self.prefix_scores.clone(), Leak::PrefixScores),
            ciphertexts,
        );
        let open = |answer: &[u8], limits: &Limits| {
            let answer = SlotsResponse::decode(answer, self.candidates.rows(), limits)?;
            let scores = answer
                .responses()
                .par_iter()
                .zip(&self.cells)
                .map(|(response, &cell)| Ok(session.client.open(response, cell)? * self.unit))
                .collect::<Result<_, ClientError>>()?;
            Ok(Opened { scores, ciphertexts: answer.responses().len() })
        };
        Ok((request.encode(), Box::new(open)))
    }

    fn ciphertexts(&self) -> usize {
        self.layout.query_ciphertexts(self.queries.len())
    }

    fn with_prefix(&self) -> bool {
        true
    }

    fn error_bound(&self) -> f64 {
        self.error_bound
    }
}

/// The keys of a session. They are megabytes, so they are kept while the layout stays the same.
pub(super) struct SlotsSession {
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
