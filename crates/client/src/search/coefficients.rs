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
}

impl Coefficients {
    /// Plans a request, given the keys that the server holds already.
    pub(super) fn plan(
        model: &Model,
        rotated: &RotatedQuery,
        candidates: Candidates,
        keys: Option<(RingDegree, MergeSpan)>,
        objective: Objective,
        options: &SearchOptions,
    ) -> Self {
        let groups: Vec<usize> = rotated.cells.iter().map(|cell| cell.members.len()).collect();
        let width = model.split().residual();
        let workload = Workload {
            width,
            groups: &groups,
            operands: model.operand_scale(),
            bound: rotated.bound,
            precision: options.precision * rotated.longest,
            keys,
            merging: objective.merges(),
            session_requests: options.session_requests,
        };
        let plan = plan(&workload, objective);
        let scale = ScoreScale::for_query(
            &plan.parameters,
            &plan.layout,
            // Every cell rotates the same residual, so all have the norm of the first.
            &rotated.queries[..width],
            model.operand_scale(),
            rotated.bound,
            groups.iter().sum(),
        );
        let query = plan.layout.encode_queries(&rotated.queries, scale.query());
        Self {
            epoch: model.epoch(),
            plan,
            query,
            scale,
            candidates,
            session_requests: options.session_requests.max(1),
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

    fn keys(&self) -> Option<(RingDegree, MergeSpan)> {
        self.plan.span.map(|span| (self.plan.layout.degree(), span))
    }

    fn open_session(&self, id: SessionId) -> Result<(MergeSession, Vec<u8>), ClientError> {
        let (degree, span) = self.keys().expect("a session is opened for what needs one");
        let (key, keys) =
            SessionKey::fresh(degree, span, self.session_requests, Entropy::from_os()?);
        let message = OpenSession::new(declassify(id, Leak::SessionLinkage), keys).encode();
        Ok((MergeSession { id, span, degree, key }, message))
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

/// The secret of a session and what its keys at the server can do.
pub(super) struct MergeSession {
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
