//! A query's journey: route, turn, plan, encrypt, ask, open, check, rank.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use shard_geometry::{FlatRouter, InvertedRouter, Ranked, check_vector, top_k};
use shard_protocol::{Candidates, CellTag, Leak, Limits, RowBatch, RowHandle, declassify};
use shard_rlwe::slots::{SlotsLayout, SlotsNoise, SlotsParameters};
use shard_rlwe::{
    OPERAND_BITS, Objective, OperandBound, Plan, ScoreScale, Workload, fill_from_os, plan,
};
use zeroize::Zeroizing;

use crate::collection::Collection;
use crate::error::ClientError;
use crate::keys::KeyOwner;
use crate::model::most_candidates;
use crate::session::{Outgoing, Sessions};
use crate::slots::{SlotsOutgoing, SlotsSessions};
use crate::transport::Transport;

/// How vectors lie in ciphertexts.
#[derive(Clone, PartialEq, Debug)]
pub enum LayoutChoice {
    /// In coefficients, as the planner decides.
    Coefficients,
    /// In slots, as the paper has it: this many cells a ciphertext. Keys live for a session,
    /// and the prefix part of each score is disclosed.
    Slots {
        /// Ring, chain of primes and scale.
        parameters: SlotsParameters,
        /// Cells a ciphertext.
        cells: usize,
    },
}

/// How to search.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Documents to return.
    pub top: usize,
    /// Length of the shortlist; the model's own when `None`.
    pub candidates: Option<usize>,
    /// Cells whose rows are looked at; all when `None`.
    pub probe: Option<usize>,
    /// How vectors lie in ciphertexts.
    pub layout: LayoutChoice,
    /// What the plan is to be good at. With `Latency` every request has a secret of its own;
    /// the others may merge responses under a secret that serves a session, which rests on
    /// circular security besides RLWE.
    pub objective: Objective,
    /// Error a score may have, for a query of norm one and relative to the longest candidate.
    pub precision: f64,
    /// Control scores that every answer is checked by.
    pub canaries: usize,
    /// Requests that the secret of a session serves, where responses are merged.
    pub session_requests: u32,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            top: 10,
            candidates: None,
            probe: None,
            layout: LayoutChoice::Coefficients,
            objective: Objective::Latency,
            precision: 2e-6,
            canaries: 8,
            session_requests: 64,
        }
    }
}

/// Wall time of each phase.
#[derive(Clone, Copy, Default, Debug)]
pub struct Timings {
    /// Finding the shortlist.
    pub route: Duration,
    /// Turning the query by the key of every active cell.
    pub turn: Duration,
    /// Planning, scaling, encrypting and encoding.
    pub encrypt: Duration,
    /// From handing the request over to holding the answer.
    pub server: Duration,
    /// Decoding, opening, checking and ranking.
    pub open: Duration,
}

impl Timings {
    /// The whole search.
    pub fn total(&self) -> Duration {
        self.route + self.turn + self.encrypt + self.server + self.open
    }
}

/// What a search cost and what the server saw of it.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Bytes sent.
    pub bytes_up: usize,
    /// Bytes received.
    pub bytes_down: usize,
    /// Bytes of session keys that this search had to send first.
    pub bytes_once: usize,
    /// Documents scored.
    pub candidates: usize,
    /// Control scores checked.
    pub canaries: usize,
    /// Cells they lie in.
    pub active_cells: usize,
    /// Ciphertexts sent.
    pub query_ciphertexts: usize,
    /// Ciphertexts received.
    pub response_ciphertexts: usize,
    /// How the request was made, in the coefficient layout.
    pub plan: Option<Plan>,
    /// Wall time by phase.
    pub timings: Timings,
}

/// The answer to a query.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Best documents first: the inner product of the query with the original vector, rounded
    /// to [`precision`](Self::precision); ties in order of ingestion.
    pub hits: Vec<Ranked>,
    /// The grid scores are rounded to. Finer digits would be noise that depends on the key.
    pub precision: f64,
    /// Bound on the error of a score before rounding (six deviations of the noise model).
    pub error_bound: f64,
    /// Costs.
    pub cost: Cost,
}

/// A query that has been routed and turned, before anything is encrypted.
struct Turned {
    /// Active cells in tag order, their candidates in handle order.
    cells: Vec<ActiveCell>,
    /// The longest of them, as stored.
    bound: OperandBound,
    /// The longest document among them.
    longest: f64,
    /// The turned query of each cell, one after the other.
    queries: Zeroizing<Vec<f64>>,
    /// `V_pub^T q`.
    prefix: Zeroizing<Vec<f64>>,
    /// `<u_q, u_i>` of every candidate, in order.
    prefix_scores: Zeroizing<Vec<f64>>,
    /// `q . mu`, which turns a centred score back into an inner product.
    offset: f64,
    route: Duration,
    turn: Duration,
}

struct ActiveCell {
    tag: CellTag,
    owner: KeyOwner,
    members: Vec<(RowHandle, Member)>,
}

/// What a scored row is to the client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Member {
    /// A document, by row.
    Document(u32),
    /// A canary, by number.
    Canary(u32),
}

impl Turned {
    /// Rows in the order in which they are scored.
    fn members(&self) -> impl Iterator<Item = Member> {
        self.cells.iter().flat_map(|cell| cell.members.iter().map(|(_, member)| *member))
    }
}

/// Searches through one server. Holds what outlives a request: the secrets of open sessions.
pub struct Searcher<T> {
    transport: T,
    limits: Limits,
    sessions: Sessions,
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

impl<T: Transport> Searcher<T> {
    /// A searcher without an open session.
    pub fn new(transport: T) -> Self {
        Self {
            transport,
            limits: Limits::default(),
            sessions: Sessions::default(),
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
        let turned = collection.turn(query, options, options.canaries)?;
        let handles = |cell: &ActiveCell| cell.members.iter().map(|(handle, _)| *handle).collect();
        let tags = turned.cells.iter().map(|cell| cell.tag).collect();
        let named = Candidates::new(
            declassify(tags, Leak::ActiveCells),
            declassify(turned.cells.iter().map(handles).collect(), Leak::CandidateHandles),
        )?;
        let scored = match &options.layout {
            LayoutChoice::Coefficients => self.score(collection, &turned, &named, options)?,
            LayoutChoice::Slots { parameters, cells } => {
                let width = collection.model().split().private();
                let layout = SlotsLayout::new(parameters.clone(), width, *cells)?;
                self.score_in_slots(collection, &turned, &named, &layout, options)?
            }
        };

        let start = Instant::now();
        let error_bound = scored.error_bound + collection.prefix_rounding(&turned.prefix);
        let precision = grid(error_bound);
        let hits =
            collection.rank(&turned, &scored.scores, scored.with_prefix, precision, options.top);
        let ranked = start.elapsed();

        let canaries = turned.members().filter(|m| matches!(m, Member::Canary(_))).count();
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
                active_cells: turned.cells.len(),
                query_ciphertexts: scored.query_ciphertexts,
                response_ciphertexts: scored.response_ciphertexts,
                plan: scored.plan,
                timings: Timings {
                    route: turned.route,
                    turn: turned.turn,
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
        turned: &Turned,
        named: &Candidates,
        options: &SearchOptions,
    ) -> Result<Scored, ClientError> {
        let start = Instant::now();
        let model = collection.model();
        let groups: Vec<usize> = turned.cells.iter().map(|cell| cell.members.len()).collect();
        let width = model.split().private();
        let plan = plan(
            &Workload {
                width,
                groups: &groups,
                operands: model.operand_scale(),
                bound: turned.bound,
                precision: options.precision * turned.longest,
                keys: self.sessions.held(),
                merging: options.objective != Objective::Latency,
            },
            options.objective,
        );
        let scale = ScoreScale::for_query(
            &plan.parameters,
            &plan.layout,
            // Every cell turns the same residual, so all have the norm of the first.
            &turned.queries[..width],
            model.operand_scale(),
            turned.bound,
            groups.iter().sum(),
        );
        let encoded = plan.layout.encode_queries(&turned.queries, scale.query());
        let planned = start.elapsed();
        let scores = |opened: &[i64]| -> Vec<f64> {
            opened.iter().map(|&value| scale.to_score(value)).collect()
        };
        let verify = |opened: &[i64]| {
            collection.check_canaries(turned, &scores(opened), false, scale.error_bound())
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
            query_ciphertexts: plan.layout.ciphertexts(turned.cells.len()),
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
    fn score_in_slots(
        &self,
        collection: &Collection,
        turned: &Turned,
        named: &Candidates,
        layout: &SlotsLayout,
        options: &SearchOptions,
    ) -> Result<Scored, ClientError> {
        let model = collection.model();
        let unit = 2_f64.powi(OPERAND_BITS - model.operand_scale().exponent());
        let sizes = turned.cells.iter().map(|cell| cell.members.len());
        let cells: Vec<usize> =
            sizes.enumerate().flat_map(|(at, size)| std::iter::repeat_n(at, size)).collect();
        let prefix_scores: Vec<f64> =
            turned.prefix_scores.iter().map(|prefix| prefix / unit).collect();
        let query = &turned.queries[..layout.width()];
        let query_norm = query.iter().map(|t| t * t).sum::<f64>().sqrt();
        let operand_norm = turned.bound.norm() * 2_f64.powi(-OPERAND_BITS);
        let noise = SlotsNoise::new(layout.parameters());
        let error_bound = unit * noise.error_bound(query_norm, operand_norm, layout.span());
        let scores =
            |opened: &[f64]| -> Vec<f64> { opened.iter().map(|score| score * unit).collect() };
        let verify =
            |opened: &[f64]| collection.check_canaries(turned, &scores(opened), true, error_bound);
        let exchanged = self.slots_sessions.exchange(
            &self.transport,
            &SlotsOutgoing {
                epoch: model.epoch(),
                layout,
                queries: &turned.queries,
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
            query_ciphertexts: layout.query_ciphertexts(turned.cells.len()),
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

impl Collection {
    /// The same search without encryption, on the rows the server would hold: what the
    /// encrypted one is compared with.
    pub fn search_in_the_clear(
        &self,
        release: &RowBatch,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<Vec<Ranked>, ClientError> {
        let turned = self.turn(query, options, 0)?;
        let width = self.model().split().private();
        let unit = 2_f64.powi(-self.model().operand_scale().exponent());
        let mut scores = Vec::new();
        for (cell, query) in turned.cells.iter().zip(turned.queries.chunks_exact(width)) {
            for (handle, _) in &cell.members {
                let at = release
                    .rows()
                    .binary_search_by_key(handle, |row| row.handle)
                    .map_err(|_| ClientError::MissingRow(*handle))?;
                let stored = &release.rows()[at].coordinates;
                let product: f64 = query.iter().zip(stored).map(|(t, z)| t * f64::from(*z)).sum();
                scores.push(product * unit);
            }
        }
        Ok(self.rank(&turned, &scores, false, 0.0, options.top))
    }

    /// Routes the query and turns it by the key of every active cell.
    fn turn(
        &self,
        query: &[f32],
        options: &SearchOptions,
        canaries: usize,
    ) -> Result<Turned, ClientError> {
        let model = self.model();
        let split = model.split();
        check_vector(split.width(), query)?;

        let start = Instant::now();
        let (coordinates, centred) = model.project_query(query);
        let count = options.candidates.unwrap_or(model.candidates().max(options.top)).max(1);
        let most = most_candidates(model.settings().cells);
        if count.min(self.index().rows()) > most {
            return Err(ClientError::Setting(format!(
                "{count} candidates: a request can name at most {most}"
            )));
        }
        let shortlist = self.shortlist(&centred, count, options.probe)?;
        let route = start.elapsed();

        let start = Instant::now();
        let (prefix, residual) = split.halves(&coordinates);
        let cells = self.by_cell(&shortlist, canaries)?;
        let bounds = cells.iter().flat_map(|cell| &cell.members).map(|(_, member)| match member {
            Member::Document(row) => self.index().bound(*row),
            Member::Canary(number) => {
                OperandBound::of(&self.index().canaries()[*number as usize].coordinates)
            }
        });
        let bound = bounds.fold(OperandBound::new(0.0), OperandBound::max);
        let lengths = shortlist.iter().map(|row| self.index().length(*row));
        let longest = lengths.fold(0.0, f64::max);
        let mut queries = Zeroizing::new(vec![0.0; cells.len() * residual.len()]);
        queries.par_chunks_mut(residual.len()).zip(&cells).for_each(|(turned, cell)| {
            turned.copy_from_slice(residual);
            model.key(self.keys(), cell.owner).apply(turned);
        });
        let offset = query.iter().zip(model.pca().mean()).map(|(q, mu)| f64::from(*q) * mu).sum();
        let prefix_scores = self.prefix_scores(prefix, &cells)?;
        let prefix = Zeroizing::new(prefix.to_vec());
        let turn = start.elapsed();
        Ok(Turned { cells, bound, longest, queries, prefix, prefix_scores, offset, route, turn })
    }

    fn shortlist(
        &self,
        centred: &[f32],
        count: usize,
        probe: Option<usize>,
    ) -> Result<Vec<u32>, ClientError> {
        let index = self.index();
        if probe.is_some() && self.model().cells().is_none() {
            return Err(ClientError::Setting(
                "a vault with a key for every document has no cells to probe".into(),
            ));
        }
        let mut lists = match (probe, self.model().cells(), index.lists()) {
            (Some(probe), Some(cells), Some(lists)) => {
                InvertedRouter::new(cells, lists, index.prefixes())?
                    .shortlist(centred, count, probe)?
            }
            _ => FlatRouter::new(self.model().split().public(), index.prefixes())?
                .shortlist(centred, count)?,
        };
        Ok(lists.swap_remove(0))
    }

    /// Candidates and canaries by cell: cells in tag order, rows in handle order, as they are
    /// sent.
    fn by_cell(&self, shortlist: &[u32], canaries: usize) -> Result<Vec<ActiveCell>, ClientError> {
        let index = self.index();
        let mut named: Vec<(KeyOwner, RowHandle, Member)> = shortlist
            .iter()
            .map(|&row| {
                let handle = index.handle(row);
                let owner = index.cell(row).map_or(KeyOwner::Row(handle), KeyOwner::Cell);
                (owner, handle, Member::Document(row))
            })
            .collect();
        let active: HashSet<KeyOwner> = named.iter().map(|(owner, _, _)| *owner).collect();
        for number in self.choose_canaries(&active, canaries)? {
            let canary = &index.canaries()[number as usize];
            named.push((canary.owner(), canary.handle, Member::Canary(number)));
        }
        named.sort_unstable();
        let mut cells: Vec<ActiveCell> = named
            .chunk_by(|a, b| a.0 == b.0)
            .map(|members| ActiveCell {
                tag: self.keys().cell_tag(self.model().epoch(), members[0].0),
                owner: members[0].0,
                members: members.iter().map(|(_, handle, member)| (*handle, *member)).collect(),
            })
            .collect();
        cells.sort_unstable_by_key(|cell| cell.tag);
        Ok(cells)
    }

    /// A random choice among the canaries of the active cells (or among all, where each has a
    /// key of its own): no cell is asked about for a canary's sake.
    fn choose_canaries(
        &self,
        active: &HashSet<KeyOwner>,
        count: usize,
    ) -> Result<Vec<u32>, ClientError> {
        let canaries = self.index().canaries().iter().zip(0..);
        let mut eligible: Vec<u32> = canaries
            .filter(|(canary, _)| canary.cell.is_none() || active.contains(&canary.owner()))
            .map(|(_, number)| number)
            .collect();
        let mut words = vec![0; 8 * count.min(eligible.len())];
        fill_from_os(&mut words)?;
        Ok(words
            .chunks_exact(8)
            .map(|word| {
                let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                eligible.swap_remove((word % eligible.len() as u64) as usize)
            })
            .collect())
    }

    /// Holds the scores of canaries against what they must be.
    fn check_canaries(
        &self,
        turned: &Turned,
        scores: &[f64],
        with_prefix: bool,
        error_bound: f64,
    ) -> Result<(), ClientError> {
        let width = self.model().split().private();
        let queries = turned.queries.chunks_exact(width);
        let expected = turned.cells.iter().zip(queries).flat_map(|(cell, query)| {
            cell.members.iter().map(move |(_, member)| match member {
                Member::Document(_) => None,
                Member::Canary(number) => {
                    let canary = &self.index().canaries()[*number as usize];
                    Some(canary.score(self.model(), query))
                }
            })
        });
        let mut checked = 0;
        let mut wrong = 0;
        for ((score, expected), prefix) in scores.iter().zip(expected).zip(&*turned.prefix_scores) {
            let Some(expected) = expected else { continue };
            let expected = expected + if with_prefix { *prefix } else { 0.0 };
            checked += 1;
            // A third beyond the stated bound (eight deviations in coefficients): an honest
            // server trips this once in 10^14 scores. Written so that a NaN trips it too.
            let near = (score - expected).abs() <= error_bound * 4.0 / 3.0;
            wrong += usize::from(!near);
        }
        if wrong > 0 { Err(ClientError::FalseAnswer { wrong, checked }) } else { Ok(()) }
    }

    /// `<u_q, u_i>` of every candidate. A canary has no prefix; it gets a random point between
    /// those of two random documents, so that it does not stand out where these are disclosed.
    fn prefix_scores(
        &self,
        prefix: &[f64],
        cells: &[ActiveCell],
    ) -> Result<Zeroizing<Vec<f64>>, ClientError> {
        let members = || cells.iter().flat_map(|cell| &cell.members).map(|(_, member)| *member);
        let own = |member: Member| match member {
            Member::Document(row) => {
                let stored = self.index().prefix(row);
                Some(prefix.iter().zip(stored).map(|(q, u)| q * f64::from(*u)).sum::<f64>())
            }
            Member::Canary(_) => None,
        };
        let of_documents: Vec<f64> = members().filter_map(own).collect();
        let mut scores = Zeroizing::new(Vec::with_capacity(members().count()));
        let mut documents = of_documents.iter();
        for member in members() {
            scores.push(match member {
                Member::Document(_) => *documents.next().expect("a score for each document"),
                Member::Canary(_) => between(&of_documents)?,
            });
        }
        Ok(scores)
    }

    /// `<u_q, u_i> + <r_q, r_i> + q . mu = q . x_i`, rounded to the grid, best first.
    fn rank(
        &self,
        turned: &Turned,
        scores: &[f64],
        with_prefix: bool,
        grid: f64,
        top: usize,
    ) -> Vec<Ranked> {
        let prefixes = turned.prefix_scores.iter();
        let scored =
            turned.members().zip(scores).zip(prefixes).filter_map(|((member, score), prefix)| {
                let Member::Document(row) = member else { return None };
                let prefix = if with_prefix { 0.0 } else { *prefix };
                let score = prefix + score + turned.offset;
                Some((row, if grid > 0.0 { (score / grid).round() * grid } else { score }))
            });
        top_k(scored, top)
    }

    /// Stored prefixes are single precision: half a unit in the last place of each coordinate.
    fn prefix_rounding(&self, prefix: &[f64]) -> f64 {
        let norm = prefix.iter().map(|u| u * u).sum::<f64>().sqrt();
        norm * self.index().longest_prefix() * f64::from(f32::EPSILON) / 2.0
    }
}

/// A random point between two random ones of some scores.
fn between(scores: &[f64]) -> Result<f64, ClientError> {
    let mut words = [0; 24];
    fill_from_os(&mut words)?;
    let (words, _) = words.as_chunks::<8>();
    let unit = |word: &[u8; 8]| u64::from_le_bytes(*word) as f64 * 2_f64.powi(-64);
    let pick = |word| scores[((unit(word) * scores.len() as f64) as usize).min(scores.len() - 1)];
    let weight = unit(&words[0]);
    Ok(weight * pick(&words[1]) + (1.0 - weight) * pick(&words[2]))
}

/// The smallest power of two that is at least the error.
fn grid(error: f64) -> f64 {
    if error > 0.0 { 2_f64.powi(error.log2().ceil() as i32) } else { 0.0 }
}
