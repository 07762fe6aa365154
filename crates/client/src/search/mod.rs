//! A query's journey: route, rotate, plan, encrypt, ask, open, check, rank.

mod answer;
mod many;
mod options;
mod rank;
mod rotate;

use std::time::{Duration, Instant};

use shard_protocol::{Candidates, Leak, Limits, Transport, declassify};
#[cfg(feature = "slots")]
use shard_rlwe::OPERAND_BITS;
#[cfg(feature = "slots")]
use shard_rlwe::slots::{SlotsLayout, SlotsNoise};
use shard_rlwe::{Plan, ScoreScale, Workload, plan};

pub use self::answer::{Answer, Cost, Timings};
pub use self::options::{LayoutChoice, SearchOptions};
use self::rank::grid;
use self::rotate::{ActiveCell, Member, RotatedQuery};
use crate::collection::Collection;
use crate::error::ClientError;
use crate::session::{Outgoing, Sessions};
#[cfg(feature = "slots")]
use crate::slots::{SlotsOutgoing, SlotsSessions};
use crate::vault::VaultAccess;

/// Searches through one server. Holds what outlives a request: the secrets of open sessions.
pub struct Searcher<T> {
    transport: T,
    limits: Limits,
    sessions: Sessions,
    #[cfg(feature = "slots")]
    slots_sessions: SlotsSessions,
}

/// Scores of all candidates and what they cost.
struct Scored {
    /// Of the residual, or of the whole vector when `with_prefix`.
    scores: Vec<f64>,
    with_prefix: bool,
    error_bound: f64,
    plan: Option<Plan>,
    query_ciphertexts: usize,
    response_ciphertexts: usize,
    bytes_up: usize,
    bytes_down: usize,
    bytes_once: usize,
    encrypt: Duration,
    server: Duration,
    open: Duration,
}

impl<T: Transport<Error: Into<ClientError>>> Searcher<T> {
    /// A searcher without an open session.
    pub fn new(transport: T) -> Self {
        Self {
            transport,
            limits: Limits::default(),
            sessions: Sessions::default(),
            #[cfg(feature = "slots")]
            slots_sessions: SlotsSessions::default(),
        }
    }

    /// The server it searches through.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Searches a collection; the server sees neither the query nor the scores.
    pub fn search(
        &self,
        collection: &Collection,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<Answer, ClientError> {
        let answer = self.search_as_owner(collection, query, options);
        match collection.access() {
            VaultAccess::Owner => answer,
            VaultAccess::Query => answer.map_err(ClientError::for_query_vault),
        }
    }

    /// Its errors say what an owner can do about them.
    fn search_as_owner(
        &self,
        collection: &Collection,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<Answer, ClientError> {
        let rotated = collection.rotate(query, options, options.canaries)?;
        let handles = |cell: &ActiveCell| cell.members.iter().map(|(handle, _)| *handle).collect();
        let tags = rotated.cells.iter().map(|cell| cell.tag).collect();
        let named = Candidates::new(
            declassify(tags, Leak::ActiveCells),
            declassify(rotated.cells.iter().map(handles).collect(), Leak::CandidateHandles),
        )?;
        let scored = match &options.layout {
            LayoutChoice::Coefficients => self.score(collection, &rotated, &named, options)?,
            #[cfg(feature = "slots")]
            LayoutChoice::Slots { parameters, cells } => {
                let width = collection.model().split().residual();
                let layout = SlotsLayout::new(parameters.clone(), width, *cells)?;
                self.score_in_slots(collection, &rotated, &named, &layout, options)?
            }
        };

        let start = Instant::now();
        let error_bound = scored.error_bound + collection.prefix_rounding(&rotated.prefix);
        let precision = grid(error_bound);
        let hits =
            collection.rank(&rotated, &scored.scores, scored.with_prefix, precision, options.top);
        let ranked = start.elapsed();

        let canaries = rotated.members().filter(|m| matches!(m, Member::Canary(_))).count();
        Ok(Answer {
            hits,
            precision,
            error_bound,
            cost: Cost {
                bytes_up: scored.bytes_up,
                bytes_down: scored.bytes_down,
                bytes_once: scored.bytes_once,
                candidates: scored.scores.len() - canaries,
                canaries,
                active_cells: rotated.cells.len(),
                query_ciphertexts: scored.query_ciphertexts,
                response_ciphertexts: scored.response_ciphertexts,
                plan: scored.plan,
                timings: Timings {
                    route: rotated.route,
                    rotate: rotated.rotate,
                    encrypt: scored.encrypt,
                    server: scored.server,
                    open: scored.open + ranked,
                },
            },
        })
    }

    /// Scores in coefficients, as planned.
    fn score(
        &self,
        collection: &Collection,
        rotated: &RotatedQuery,
        named: &Candidates,
        options: &SearchOptions,
    ) -> Result<Scored, ClientError> {
        let start = Instant::now();
        let model = collection.model();
        let groups: Vec<usize> = rotated.cells.iter().map(|cell| cell.members.len()).collect();
        let width = model.split().residual();
        let objective = options.objective.unwrap_or_else(|| self.transport.objective());
        let plan = plan(
            &Workload {
                width,
                groups: &groups,
                operands: model.operand_scale(),
                bound: rotated.bound,
                precision: options.precision * rotated.longest,
                keys: self.sessions.held(),
                merging: objective.merges(),
                session_requests: options.session_requests,
            },
            objective,
        );
        let scale = ScoreScale::for_query(
            &plan.parameters,
            &plan.layout,
            // Every cell rotates the same residual, so all have the norm of the first.
            &rotated.queries[..width],
            model.operand_scale(),
            rotated.bound,
            groups.iter().sum(),
        );
        let encoded = plan.layout.encode_queries(&rotated.queries, scale.query());
        let planned = start.elapsed();
        let scores = |opened: &[i64]| -> Vec<f64> {
            opened.iter().map(|&value| scale.to_score(value)).collect()
        };
        let verify = |opened: &[i64]| {
            collection.check_canaries(rotated, &scores(opened), false, scale.error_bound())
        };
        let exchanged = self.sessions.exchange(
            &self.transport,
            &Outgoing {
                epoch: model.epoch(),
                plan: &plan,
                query: &encoded,
                candidates: named,
                limits: &self.limits,
                session_requests: options.session_requests,
                verify: &verify,
            },
        )?;
        Ok(Scored {
            scores: scores(&exchanged.opened),
            with_prefix: false,
            error_bound: scale.error_bound(),
            query_ciphertexts: plan.layout.ciphertexts(rotated.cells.len()),
            plan: Some(plan),
            response_ciphertexts: exchanged.responses,
            bytes_up: exchanged.bytes_up,
            bytes_down: exchanged.bytes_down,
            bytes_once: exchanged.bytes_once,
            encrypt: planned + exchanged.encrypt,
            server: exchanged.server,
            open: exchanged.open,
        })
    }

    /// Scores in slots, the prefix part added under encryption. The server counts rows in units
    /// of `2^(OPERAND_BITS - k)`, so everything here is divided by that.
    #[cfg(feature = "slots")]
    fn score_in_slots(
        &self,
        collection: &Collection,
        rotated: &RotatedQuery,
        named: &Candidates,
        layout: &SlotsLayout,
        options: &SearchOptions,
    ) -> Result<Scored, ClientError> {
        let model = collection.model();
        let unit = 2_f64.powi(OPERAND_BITS - model.operand_scale().exponent());
        let sizes = rotated.cells.iter().map(|cell| cell.members.len());
        let cells: Vec<usize> =
            sizes.enumerate().flat_map(|(at, size)| std::iter::repeat_n(at, size)).collect();
        let prefix_scores: Vec<f64> =
            rotated.prefix_scores.iter().map(|prefix| prefix / unit).collect();
        let query = &rotated.queries[..layout.width()];
        let query_norm = query.iter().map(|t| t * t).sum::<f64>().sqrt();
        let operand_norm = rotated.bound.norm() * 2_f64.powi(-OPERAND_BITS);
        let noise = SlotsNoise::new(layout.parameters());
        let error_bound = unit * noise.error_bound(query_norm, operand_norm, layout.span());
        let scores =
            |opened: &[f64]| -> Vec<f64> { opened.iter().map(|score| score * unit).collect() };
        let verify =
            |opened: &[f64]| collection.check_canaries(rotated, &scores(opened), true, error_bound);
        let exchanged = self.slots_sessions.exchange(
            &self.transport,
            &SlotsOutgoing {
                epoch: model.epoch(),
                layout,
                queries: &rotated.queries,
                candidates: named,
                cells: &cells,
                prefix_scores: &prefix_scores,
                limits: &self.limits,
                session_requests: options.session_requests,
                verify: &verify,
            },
        )?;
        Ok(Scored {
            scores: scores(&exchanged.opened),
            with_prefix: true,
            error_bound,
            plan: None,
            query_ciphertexts: layout.query_ciphertexts(rotated.cells.len()),
            response_ciphertexts: exchanged.responses,
            bytes_up: exchanged.bytes_up,
            bytes_down: exchanged.bytes_down,
            bytes_once: exchanged.bytes_once,
            encrypt: exchanged.encrypt,
            server: exchanged.server,
            open: exchanged.open,
        })
    }
}
