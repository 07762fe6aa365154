//! Requests in the coefficient layout: under a key of their own, or under a session's whose merge
//! keys the server holds.

use rayon::prelude::*;
use shard_protocol::{
    Candidates, Epoch, Leak, Limits, OpenSession, RerankRequest, RerankResponse, SessionId,
    declassify,
};
use shard_rlwe::{
    Entropy, MergeSpan, Objective, Plan, Query, RequestKey, Response, RingDegree, ScoreScale,
    SessionKey, Workload, plan,
};

use super::options::SearchOptions;
use super::rotate::RotatedQuery;
use super::{Layout, Opened, Opener};
use crate::error::ClientError;
use crate::model::Model;
use crate::session::Session;

/// A request as planned, before it is encrypted.
pub(super) struct Coefficients {
    epoch: Epoch,
    plan: Plan,
    query: Query,
    scale: ScoreScale,
    candidates: Candidates,
    /// Requests that a session opened for this one may serve.
    session_requests: u32,
    /// Bits of the secret that the ranking may show.
    shown: f64,
    /// What part of a secret's bits may be shown in a session.
    share: f64,
}

impl Coefficients {
    /// Plans a request, given the keys that the server holds already.
    pub(super) fn plan(
        model: &Model,
        rotated: &RotatedQuery<'_>,
        candidates: Candidates,
        keys: Option<SessionShape>,
        objective: Objective,
        options: &SearchOptions,
        recomputed: bool,
    ) -> Self {
        let groups: Vec<usize> = rotated.cells.iter().map(|cell| cell.members.len()).collect();
        let width = model.split().residual();
        let rows = groups.iter().sum();
        let shown = if recomputed { 0.0 } else { shown_bits(rows, options.top) };
        let share = options.session_share;
        // The smallest ring has the fewest bits.
        let serves = (share * secret_bits(RingDegree::N2048) / shown).floor().max(1.0);
        let session_requests = options.session_requests.clamp(1, serves.min(1e9) as u32);
        let workload = Workload {
            width,
            groups: &groups,
            operands: model.operand_scale(),
            bound: rotated.bound,
            precision: options.precision * rotated.longest,
            keys: keys.map(|keys| (keys.degree, keys.span)),
            merging: objective.merges(),
            session_requests,
        };
        let plan = plan(&workload, objective);
        let scale = ScoreScale::for_query(
            &plan.parameters,
            &plan.layout,
            // Every cell rotates the same residual, so all have the norm of the first.
            &rotated.queries[..width],
            model.operand_scale(),
            rotated.bound,
            rows,
        );
        let query = plan.layout.encode_queries(&rotated.queries, scale.query());
        Self {
            epoch: model.epoch(),
            plan,
            query,
            scale,
            candidates,
            session_requests,
            shown,
            share,
        }
    }

    /// What the planner chose.
    pub(super) fn planned(&self) -> &Plan {
        &self.plan
    }

    fn open(
        &self,
        answer: &[u8],
        limits: &Limits,
        open: impl Fn(&Response) -> Vec<i64> + Sync + Send,
    ) -> Result<Opened, ClientError> {
        let (parameters, layout) = (&self.plan.parameters, &self.plan.layout);
        let rows = self.candidates.rows();
        let answer = RerankResponse::decode(answer, parameters, layout, rows, limits)?;
        let responses = answer.responses();
        let opened = responses.par_iter().flat_map_iter(open);
        let scores = opened.map(|value| self.scale.to_score(value)).collect();
        Ok(Opened { scores, ciphertexts: responses.len() })
    }
}

impl Layout for Coefficients {
    type Session = MergeSession;

    fn keys(&self) -> Option<SessionShape> {
        let (degree, bits) = (self.plan.layout.degree(), self.shown);
        self.plan.span.map(|span| SessionShape { degree, span, bits })
    }

    fn open_session(&self, id: SessionId) -> Result<(MergeSession, Vec<u8>), ClientError> {
        let SessionShape { degree, span, bits } =
            self.keys().expect("a session is opened for what needs one");
        let (key, keys) =
            SessionKey::fresh(degree, span, self.session_requests, Entropy::from_os()?);
        let message = OpenSession::new(declassify(id, Leak::SessionLinkage), keys).encode();
        let bits = bits.max(self.share * secret_bits(degree));
        let shape = SessionShape { degree, span, bits };
        Ok((MergeSession { id, shape, key, last_shown: self.shown }, message))
    }

    fn encrypt<'s>(
        &'s self,
        session: Option<&'s mut MergeSession>,
    ) -> Result<(Vec<u8>, Opener<'s>), ClientError> {
        let parameters = &self.plan.parameters;
        let (id, seed, ciphertexts, opener): (_, _, _, Opener<'s>) = match session {
            None => {
                let key = RequestKey::fresh(parameters, Entropy::from_os()?);
                let (key, seed, ciphertexts) = key.encrypt(&self.query);
                let open = move |response: &Response| key.open(response);
                let opener = move |answer: &[u8], limits: &Limits| self.open(answer, limits, open);
                (None, seed, ciphertexts, Box::new(opener))
            }
            Some(session) => {
                session.shape.bits -= self.shown;
                session.last_shown = self.shown;
                let (seed, ciphertexts) =
                    session.key.encrypt(parameters, &self.query, Entropy::from_os()?)?;
                let session: &'s MergeSession = session;
                let open = |response: &Response| session.key.open(parameters, response);
                let opener = move |answer: &[u8], limits: &Limits| self.open(answer, limits, open);
                (Some(session.id), seed, ciphertexts, Box::new(opener))
            }
        };
        let shape = (parameters.clone(), self.plan.layout.clone());
        let request = RerankRequest::new(
            declassify(self.epoch, Leak::CollectionShape),
            declassify(shape, Leak::RequestShape),
            id.map(|id| declassify(id, Leak::SessionLinkage)),
            self.candidates.clone(),
            seed,
            ciphertexts,
        );
        Ok((request.encode(), opener))
    }

    fn ciphertexts(&self) -> usize {
        self.plan.layout.ciphertexts(self.candidates.iter().count())
    }

    fn with_prefix(&self) -> bool {
        false
    }

    fn error_bound(&self) -> f64 {
        self.scale.error_bound()
    }
}

/// Bits of a ternary secret: `N log2 3`.
fn secret_bits(degree: RingDegree) -> f64 {
    degree.coefficients() as f64 * 3_f64.log2()
}

/// What the order of the best `k` of `n` rows says at most, in bits: `log2(n! / (n - k)!)`.
fn shown_bits(rows: usize, top: usize) -> f64 {
    (0..top.min(rows)).map(|above| ((rows - above) as f64).log2()).sum()
}

/// The secret of a session and what its keys at the server can do.
pub(super) struct MergeSession {
    id: SessionId,
    shape: SessionShape,
    key: SessionKey,
    /// Bits that its last request may have shown: less is of no use to the next one like it.
    last_shown: f64,
}

/// What requests need of a session.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct SessionShape {
    degree: RingDegree,
    span: MergeSpan,
    /// Bits of the secret that may yet be shown.
    bits: f64,
}

impl Session for MergeSession {
    type Shape = SessionShape;

    fn shape(&self) -> SessionShape {
        self.shape
    }

    fn serves(&self, needed: &SessionShape) -> bool {
        let own = &self.shape;
        own.degree == needed.degree && own.span.covers(needed.span) && own.bits >= needed.bits
    }

    fn remaining(&self) -> u32 {
        if self.shape.bits < self.last_shown { 0 } else { self.key.remaining() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_few_of_many_shows_little_of_a_secret() {
        assert_eq!(shown_bits(8, 1), 3.0);
        assert!((shown_bits(136, 10) - 70.4).abs() < 0.1, "{}", shown_bits(136, 10));
        assert_eq!(shown_bits(3, 9), 6_f64.log2());
        let share = SearchOptions::default().session_share * secret_bits(RingDegree::N2048);
        let requests = |top| (share / shown_bits(136, top)).floor();
        assert_eq!([10, 20, 40].map(requests), [5.0, 2.0, 1.0]);
    }
}
