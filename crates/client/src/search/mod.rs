//! A query's journey: route, rotate, plan, encrypt, ask, open, check, rank.
//!
//! The journey is [`Searcher::search`], in this file from top to bottom. Its steps:
//!
//! | step | where |
//! |---|---|
//! | which rows to ask about, and the query under the key of each cell | `rotate` |
//! | plan, encryption and opening: one implementation of `Layout` per layout of ciphertexts | `coefficients`, `slots` |
//! | secrets that serve more than one request | `crate::session` |
//! | control scores, and the order of the hits | `rank` |

mod answer;
mod coefficients;
mod many;
mod options;
mod rank;
mod rotate;
#[cfg(feature = "slots")]
mod slots;

use std::time::Instant;

use shard_protocol::{Candidates, Leak, Limits, SessionId, Transport, declassify};
use shard_rlwe::fill_from_os;

pub use self::answer::{Answer, Cost, Hit, Timings};
use self::coefficients::{Coefficients, MergeSession};
pub(crate) use self::many::search_many;
pub use self::options::{LayoutChoice, SearchOptions};
pub(crate) use self::rank::grid;
use self::rotate::{ActiveCell, RotatedQuery};
#[cfg(feature = "slots")]
use self::slots::{Slots, SlotsSession};
use crate::collection::Collection;
use crate::error::ClientError;
use crate::session::{Pool, Session};
use crate::settings::Protection;
use crate::transport::{accepted, exchange};
use crate::vault::VaultAccess;

/// Searches through one server. Holds what outlives a request: the secrets of open sessions. Many
/// threads may search at once, in any collection that the server holds.
pub struct Searcher<T> {
    transport: T,
    limits: Limits,
    sessions: Pool<MergeSession>,
    #[cfg(feature = "slots")]
    slots_sessions: Pool<SlotsSession>,
}

/// How one request is encrypted and its answer opened.
trait Layout {
    /// The secret of a session.
    type Session: Session;

    /// What the server must hold keys for; `None` for a request under a secret of its own.
    fn keys(&self) -> Option<<Self::Session as Session>::Shape>;

    /// The secret of a session, and the message that leaves its keys with the server.
    fn open_session(&self, id: SessionId) -> Result<(Self::Session, Vec<u8>), ClientError>;

    /// The request, under the secret of the session or one of its own, and what opens its answer.
    fn encrypt<'s>(
        &'s self,
        session: Option<&'s mut Self::Session>,
    ) -> Result<(Vec<u8>, Opener<'s>), ClientError>;

    /// Ciphertexts of the request.
    fn ciphertexts(&self) -> usize;

    /// Whether scores come back with their prefix part.
    fn with_prefix(&self) -> bool;

    /// Bound on the error of a score.
    fn error_bound(&self) -> f64;
}

/// Decodes and opens an answer.
type Opener<'a> = Box<dyn FnOnce(&[u8], &Limits) -> Result<Opened, ClientError> + 'a>;

/// An opened answer.
struct Opened {
    /// Of all candidates in the order in which they were named, in real units.
    scores: Vec<f64>,
    /// Ciphertexts that they came in.
    ciphertexts: usize,
}

impl<T: Transport<Error: Into<ClientError>>> Searcher<T> {
    /// A searcher without an open session.
    pub fn new(transport: T) -> Self {
        Self {
            transport,
            limits: Limits::default(),
            sessions: Pool::default(),
            #[cfg(feature = "slots")]
            slots_sessions: Pool::default(),
        }
    }

    /// The server it searches through.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Searches a collection; the server sees neither the query nor the scores.
    ///
    /// # Errors
    /// When the query or the options do not fit the collection, the server cannot be reached,
    /// refuses or holds another state of the collection, and when it answered falsely.
    pub fn search(
        &self,
        collection: &Collection,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<Answer, ClientError> {
        let answer = self.search_as_owner(collection, query, options);
        match collection.position().access() {
            VaultAccess::Owner => answer,
            VaultAccess::Query => answer.map_err(ClientError::for_query_vault),
        }
    }

    /// Routes and rotates the query, and plans the request. Its errors say what an owner can do
    /// about them.
    fn search_as_owner(
        &self,
        collection: &Collection,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<Answer, ClientError> {
        if options.filter.is_some() {
            return Err(ClientError::OtherProtection {
                protection: Protection::Rotated,
                reason: "filters go by the fields of records, which are kept of blind collections only",
            });
        }
        let mut cost = Cost::default();
        let start = Instant::now();
        let routed = collection.route(query, options)?;
        cost.timings.route = start.elapsed();

        let start = Instant::now();
        let rotated = collection.rotate(query, &routed);
        cost.timings.rotate = start.elapsed();
        cost.active_cells = rotated.cells.len();
        let index = collection.index();
        cost.canaries = rotated.members().filter(|&row| index.is_canary(row)).count();
        cost.candidates = routed.shortlist.len();

        let start = Instant::now();
        let named = name(&rotated)?;
        match &options.layout {
            LayoutChoice::Coefficients => {
                let objective = options.objective.unwrap_or_else(|| self.transport.objective());
                let keys = self.sessions.held();
                let layout = Coefficients::plan(
                    collection.model(),
                    &rotated,
                    named,
                    keys,
                    objective,
                    options,
                    options.recompute && collection.has_originals(),
                );
                cost.plan = Some(layout.planned().clone());
                cost.timings.encrypt = start.elapsed();
                self.finish(&self.sessions, &layout, collection, &rotated, options, cost)
            }
            #[cfg(feature = "slots")]
            LayoutChoice::Slots { parameters, cells } => {
                let layout =
                    Slots::plan(collection.model(), &rotated, named, parameters, *cells, options)?;
                cost.timings.encrypt = start.elapsed();
                self.finish(&self.slots_sessions, &layout, collection, &rotated, options, cost)
            }
        }
    }

    /// Makes the request, under a session where the layout needs one, and ranks.
    fn finish<L: Layout>(
        &self,
        sessions: &Pool<L::Session>,
        layout: &L,
        collection: &Collection,
        rotated: &RotatedQuery<'_>,
        options: &SearchOptions,
        mut cost: Cost,
    ) -> Result<Answer, ClientError> {
        let scores = match layout.keys() {
            None => self.ask(layout, None, collection, rotated, options, &mut cost)?,
            Some(keys) => sessions.request(&keys, |session| {
                let session = match session {
                    Some(session) => session,
                    None => session.insert(self.open_session(layout, &mut cost)?),
                };
                self.ask(layout, Some(session), collection, rotated, options, &mut cost)
            })?,
        };

        let start = Instant::now();
        let error_bound = layout.error_bound() + collection.prefix_rounding(rotated);
        let precision = grid(error_bound);
        let hits = collection.rank(rotated, &scores, layout.with_prefix(), precision, options.top);
        cost.timings.open += start.elapsed();
        let (precision, error_bound) = (precision * rotated.scale, error_bound * rotated.scale);
        Ok(Answer { hits, precision, error_bound, cost })
    }

    fn open_session<L: Layout>(
        &self,
        layout: &L,
        cost: &mut Cost,
    ) -> Result<L::Session, ClientError> {
        let start = Instant::now();
        let mut id = SessionId([0; 16]);
        fill_from_os(&mut id.0)?;
        let (session, message) = layout.open_session(id)?;
        cost.bytes_once += message.len();
        accepted(&self.transport, message, &self.limits)?;
        cost.timings.server += start.elapsed();
        Ok(session)
    }

    /// Encrypts, sends, opens and checks. While this runs nobody else uses the session, and after
    /// a false answer nobody will.
    fn ask<L: Layout>(
        &self,
        layout: &L,
        session: Option<&mut L::Session>,
        collection: &Collection,
        rotated: &RotatedQuery<'_>,
        options: &SearchOptions,
        cost: &mut Cost,
    ) -> Result<Vec<f64>, ClientError> {
        let start = Instant::now();
        let (message, open) = layout.encrypt(session)?;
        cost.bytes_up += message.len();
        cost.query_ciphertexts = layout.ciphertexts();
        cost.timings.encrypt += start.elapsed();

        let start = Instant::now();
        let answer = exchange(&self.transport, message, &self.limits)?;
        cost.bytes_down += answer.len();
        cost.timings.server += start.elapsed();

        let start = Instant::now();
        let Opened { scores, ciphertexts } = open(&answer, &self.limits)?;
        let (with_prefix, error) = (layout.with_prefix(), layout.error_bound());
        collection.check_scores(rotated, &scores, with_prefix, error, options)?;
        cost.response_ciphertexts = ciphertexts;
        cost.timings.open += start.elapsed();
        Ok(scores)
    }
}

/// The names of cells and rows, which the server gets to see.
fn name(rotated: &RotatedQuery<'_>) -> Result<Candidates, ClientError> {
    let handles = |cell: &ActiveCell| cell.members.iter().map(|(handle, _)| *handle).collect();
    let cells = rotated.cells.iter().map(|cell| cell.handle).collect();
    Ok(Candidates::new(
        declassify(cells, Leak::ActiveCells),
        declassify(rotated.cells.iter().map(handles).collect(), Leak::CandidateHandles),
    )?)
}
