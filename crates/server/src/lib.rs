//! Scores encrypted queries against stored rows.
//!
//! A request's journey through the server reads top to bottom in [`Server::rerank`]: rows are
//! fetched by the names the request gives, query ciphertexts are expanded and transformed, and
//! the products of all cells are added into shared responses. The server holds no key that
//! decrypts and no vector in the clear.
//!
//! # Concepts
//!
//! * [`Server`]: one message in, one message out ([`Server::handle`]), whoever carries them.
//! * [`Embedded`]: a server in the client's process, over rows in memory.
//! * Sessions: keys that clients leave for a few requests, under one budget of memory that [`Caller`]s share.
//! * Blind collections: everything is scored, rows and queries are ciphertexts ([`Server::search`]).
//!   Their blocks are in memory, under a budget.
//! * [`REQUEST_MILLISECONDS`]: requests that would compute for longer are refused before they do.
//! * [`Maintenance`]: what an engine on disk wants done now and then.
//!
//! # Map
//!
//! `answer` (messages to operations) · `rerank` (scoring of rows) · `blind` (blocks in memory, scoring
//! of all of them) · `many_blobs` · `sessions` (keys of sessions) ·
//! `revisions` (how far each collection has come) · `embedded` · `maintenance` · `stages` (where
//! the time goes) · `error`.
//!
//! Cargo features: `http` puts it on a network (module `http`: TLS, tokens, limits, metrics),
//! `durable` adds the maintenance of rows on disk, `postgres` and `objects` that of rows in PostgreSQL, `slots` the paper's slot layout.
//!
//! # Non-goals
//!
//! No storage (engines are behind [`RowStore`]), no flags, no logging setup, no signals.

mod answer;
mod blind;
mod embedded;
mod error;
#[cfg(feature = "http")]
pub mod http;
mod maintenance;
mod many_blobs;
mod rerank;
mod revisions;
mod sessions;
mod stages;

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "slots")]
use shard_protocol::OpenSlotsSession;
use shard_protocol::{
    Advance, CollectionName, CommitName, Epoch, Limits, OpenSession, Revision, RowBatch, RowMac,
};
use shard_rlwe::PreparedMergeKeys;
#[cfg(feature = "slots")]
use shard_rlwe::slots::SlotsServer;
use shard_store::{EpochStatistics, RowStore};

use blind::Blocks;
pub use blind::{
    Asked, BLOCK_BYTES, BlockCounts, BlockError, PartQuery, PeerError, Peers, RESIDUE_SECONDS, View,
};
pub use embedded::{Embedded, RowSource};
pub use error::ServerError;
pub use maintenance::{Figure, Maintenance, NoMaintenance};
use revisions::Revisions;
pub use sessions::{Caller, SessionCounts, SessionTooLarge, UnknownSession};
use sessions::{SessionKeys, SessionName, Sessions};
pub use stages::Stages;
use stages::timed;

/// Memory for the keys of sessions, unless told otherwise: about 300 of them.
pub const SESSION_BYTES: usize = 256 << 20;

/// Milliseconds of one core that scoring a request may take, unless told otherwise.
pub const REQUEST_MILLISECONDS: usize = 2500;

/// How long a revision is remembered where other processes may publish too: so much behind may be what a
/// client is told beside an answer.
const REVISION_AGE: Duration = Duration::from_secs(1);

/// A server over an engine.
pub struct Server {
    rows: Arc<dyn RowStore>,
    sessions: Sessions<SessionKeys>,
    revisions: Revisions,
    blocks: Blocks,
    /// The others that share the blocks.
    peers: Option<Arc<dyn Peers>>,
    limits: Limits,
    request_milliseconds: usize,
    /// Whether every request has a thread, or a pool of threads, of its own.
    has_own_pools: bool,
}

impl Server {
    /// Serves the rows of an engine, under limits on what it decodes.
    pub fn new(rows: Arc<dyn RowStore>, limits: Limits) -> Self {
        let revisions = Revisions::new(rows.is_remote().then_some(REVISION_AGE));
        Self {
            rows,
            sessions: Sessions::new(SESSION_BYTES),
            revisions,
            blocks: Blocks::new(BLOCK_BYTES),
            peers: None,
            limits,
            request_milliseconds: REQUEST_MILLISECONDS,
            has_own_pools: false,
        }
    }

    /// The same, with this much memory for the keys of sessions.
    #[must_use]
    pub fn with_session_bytes(self, budget: usize) -> Self {
        Self { sessions: Sessions::new(budget), ..self }
    }

    /// The same, with this much memory for the blocks of blind collections. All that is held counts: an
    /// activation whose new blocks fit beside those they replace is one step for searches; where they do
    /// not, the old ones go first, and searches of the new commit wait until its blocks are loaded.
    #[must_use]
    pub fn with_block_bytes(self, budget: usize) -> Self {
        Self { blocks: Blocks::new(budget), ..self }
    }

    /// The same, beside others that work on the same engine: blocks are shared among them.
    #[must_use]
    pub fn with_peers(self, peers: Arc<dyn Peers>) -> Self {
        Self { peers: Some(peers), ..self }
    }

    /// The same, for requests that each come on a thread or in a pool of threads of its own.
    #[cfg(feature = "http")]
    #[must_use]
    pub(crate) fn with_own_pools(self) -> Self {
        Self { has_own_pools: true, ..self }
    }

    /// The same, with this many milliseconds of one core for scoring a request.
    #[must_use]
    pub fn with_request_milliseconds(self, request_milliseconds: usize) -> Self {
        Self { request_milliseconds, ..self }
    }

    /// Limits on what is decoded.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Open sessions and their memory.
    pub fn sessions(&self) -> SessionCounts {
        self.sessions.counts()
    }

    /// Blocks of blind collections in memory.
    pub fn blocks(&self) -> BlockCounts {
        self.blocks.counts()
    }

    /// The engine.
    pub fn rows(&self) -> &dyn RowStore {
        &*self.rows
    }

    /// Takes rows of one epoch into a collection that holds no other and makes it the current one:
    /// how an embedded server is filled. Nobody will ask for the MACs of such rows, so they have none,
    /// nor for the commit, whose name is all zeros.
    pub fn hold(&self, collection: &CollectionName, batch: RowBatch) -> Result<(), ServerError> {
        self.hold_after(None, collection, batch)
    }

    /// As [`Server::hold`], after rows of the same epoch that it took before.
    pub(crate) fn hold_more(
        &self,
        collection: &CollectionName,
        batch: RowBatch,
    ) -> Result<(), ServerError> {
        self.hold_after(Some(CommitName::default()), collection, batch)
    }

    fn hold_after(
        &self,
        from: Option<CommitName>,
        collection: &CollectionName,
        batch: RowBatch,
    ) -> Result<(), ServerError> {
        let epoch = batch.epoch();
        let (to, revision) = (CommitName::default(), Revision::default());
        let advance = Advance { from, to, revision, turn: 0 };
        let macs = vec![RowMac([0; 16]); batch.rows().len()];
        self.rows.upsert(collection, &advance, batch, &macs)?;
        Ok(self.rows.activate(collection, &advance, epoch)?)
    }

    /// Keeps the merge keys of a session until younger ones need their place.
    fn open_session(&self, name: SessionName, session: &OpenSession) -> Result<(), ServerError> {
        let keys = session.keys().prepare();
        let bytes = keys.bytes();
        Ok(self.sessions.insert(name, SessionKeys::Merge(Arc::new(keys)), bytes)?)
    }

    /// Keeps the keys of a session in slots.
    #[cfg(feature = "slots")]
    fn open_slots_session(
        &self,
        name: SessionName,
        session: &OpenSlotsSession,
    ) -> Result<(), ServerError> {
        let server = SlotsServer::from_bytes(session.layout().clone(), session.context())?;
        let bytes = server.bytes();
        Ok(self.sessions.insert(name, SessionKeys::Slots(Arc::new(server)), bytes)?)
    }

    fn merge_keys(&self, name: &SessionName) -> Result<Arc<PreparedMergeKeys>, UnknownSession> {
        match self.sessions.find(name)? {
            SessionKeys::Merge(keys) => Ok(keys),
            #[cfg(feature = "slots")]
            SessionKeys::Slots(_) => Err(UnknownSession),
        }
    }

    #[cfg(feature = "slots")]
    fn slots_keys(&self, name: &SessionName) -> Result<Arc<SlotsServer>, UnknownSession> {
        match self.sessions.find(name)? {
            SessionKeys::Slots(keys) => Ok(keys),
            SessionKeys::Merge(_) => Err(UnknownSession),
        }
    }

    /// Forgets a collection: rows, blobs and sessions. Returns whether there was one.
    pub fn drop_collection(&self, collection: &CollectionName) -> Result<bool, ServerError> {
        let drop = || {
            let _changing = self.blocks.change(collection);
            let held = self.rows.drop_collection(collection)?;
            self.blocks.forget(collection);
            Ok::<_, ServerError>(held)
        };
        let held = self.revisions.forget_while(collection, drop)?;
        self.sessions.forget(collection);
        Ok(held)
    }

    /// The latest published revision of a collection; over an engine that other processes use too, as of
    /// at most a second ago.
    pub fn revision(&self, collection: &CollectionName) -> Result<Revision, ServerError> {
        if let Some(known) = self.revisions.find(collection) {
            return Ok(known);
        }
        let moment = self.revisions.moment();
        let state = self.rows.describe(collection)?;
        // Names of collections that are not there come from anybody and are not remembered.
        if !state.epochs.is_empty() {
            self.revisions.reached(collection, state.revision, moment);
        }
        Ok(state.revision)
    }

    /// The latest published revision of a collection, if it is known without asking the engine.
    pub fn known_revision(&self, collection: &CollectionName) -> Option<Revision> {
        self.revisions.find(collection)
    }

    /// Counts of an epoch.
    pub fn statistics(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
    ) -> Result<EpochStatistics, ServerError> {
        Ok(self.rows.statistics(collection, epoch)?)
    }
}
