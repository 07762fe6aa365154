//! Scores encrypted queries against stored rows.
//!
//! A request's journey through the server reads top to bottom in [`Server::rerank`]: rows are
//! fetched by the names the request gives, query ciphertexts are expanded and transformed, and
//! the products of all cells are added into shared responses. The server holds no key and no
//! vector in the clear; [`Server::handle`] is the same thing over bytes, and is what both the
//! embedded client and a network listener call.
//!
//! # Non-goals
//!
//! No durable storage (an engine behind `RowStore` has that) and no sockets.

mod sessions;

use std::sync::Arc;

use shard_protocol::{
    ActivateEpoch, Blob, BlobList, CollectionName, ContentTag, DecodeError, DeleteBlob, DeleteRows,
    Epoch, FetchBlob, Limits, ListTags, MessageKind, OpenSession, OpenSlotsSession, PublishRows,
    PutBlob, Refusal, RefusalCode, RerankRequest, RerankResponse, Revision, RowBatch, RowTags,
    SlotsRequest, SlotsResponse, message_kind,
};
use shard_rlwe::slots::{Candidate, SlotsError, SlotsServer};
use shard_rlwe::{EvaluateError, Evaluator, OPERAND_BITS, PreparedMergeKeys};
use shard_store::{EpochStatistics, RowStore, StoreError};

use sessions::Sessions;
pub use sessions::UnknownSession;

/// Memory for the merge keys of sessions: about 300 of them.
const SESSION_BYTES: usize = 256 << 20;

/// Why the server refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The bytes are not a message, or not one for a server.
    #[error("malformed request: {0}")]
    Malformed(#[from] DecodeError),
    /// The engine refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The request is for vectors of another width than the rows.
    #[error("the query has width {query}, the rows of epoch {epoch} have width {rows}")]
    Width {
        /// Epoch asked for.
        epoch: Epoch,
        /// Width of the query.
        query: usize,
        /// Width of the rows.
        rows: usize,
    },
    /// The session is not there, or no longer.
    #[error(transparent)]
    Session(#[from] UnknownSession),
    /// Ciphertexts and rows do not go together.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// Ciphertexts, keys or rows of the slot layout do not go together.
    #[error(transparent)]
    Slots(#[from] SlotsError),
}

impl ServerError {
    /// The class a client is told.
    pub fn code(&self) -> RefusalCode {
        match self {
            Self::Malformed(DecodeError::Version { .. }) => RefusalCode::Version,
            Self::Malformed(DecodeError::Limit { .. }) => RefusalCode::TooLarge,
            Self::Malformed(_) | Self::Slots(_) => RefusalCode::Malformed,
            Self::Store(error) => store_code(error),
            Self::Width { .. } => RefusalCode::WrongWidth,
            Self::Session(_) | Self::Evaluate(EvaluateError::MergeKeys) => {
                RefusalCode::UnknownSession
            }
            Self::Evaluate(_) => RefusalCode::Internal,
        }
    }
}

fn store_code(error: &StoreError) -> RefusalCode {
    match error {
        StoreError::UnknownCollection(_) => RefusalCode::UnknownCollection,
        StoreError::UnknownEpoch(_) | StoreError::Pending(_) => RefusalCode::UnknownEpoch,
        StoreError::UnknownRow { .. } => RefusalCode::UnknownRow,
        StoreError::Replaced { .. } | StoreError::Deleted { .. } | StoreError::Stale { .. } => {
            RefusalCode::Stale
        }
        StoreError::Width { .. } => RefusalCode::WrongWidth,
        StoreError::UnknownBlob(_) => RefusalCode::UnknownBlob,
        StoreError::TooMany { .. } => RefusalCode::TooLarge,
        StoreError::Engine { .. } => RefusalCode::Storage,
        _ => RefusalCode::Internal,
    }
}

/// A server over an engine.
pub struct Server {
    rows: Arc<dyn RowStore>,
    sessions: Sessions<PreparedMergeKeys>,
    slots_sessions: Sessions<SlotsServer>,
    limits: Limits,
}

impl Server {
    /// Serves the rows of an engine, under limits on what it decodes.
    pub fn new(rows: Arc<dyn RowStore>, limits: Limits) -> Self {
        Self {
            rows,
            sessions: Sessions::new(SESSION_BYTES),
            slots_sessions: Sessions::new(SESSION_BYTES),
            limits,
        }
    }

    /// The engine.
    pub fn rows(&self) -> &dyn RowStore {
        &*self.rows
    }

    /// Takes in an epoch that comes in one piece and makes it the current one: how an embedded
    /// server is filled. Nobody will ask for the tags of such rows, so they have none.
    pub fn hold(&self, collection: &CollectionName, batch: RowBatch) -> Result<(), ServerError> {
        let (epoch, revision) = (batch.epoch(), Revision::default());
        let tags = vec![ContentTag([0; 16]); batch.rows().len()];
        self.rows.upsert(collection, revision, batch, &tags)?;
        Ok(self.rows.activate(collection, revision, epoch)?)
    }

    /// Keeps the merge keys of a session until younger ones need their place.
    pub fn open_session(&self, session: &OpenSession) {
        let keys = session.keys().prepare();
        let bytes = keys.bytes();
        self.sessions.insert(session.id(), keys, bytes);
    }

    /// Keeps the keys of a session in slots.
    pub fn open_slots_session(&self, session: &OpenSlotsSession) -> Result<(), ServerError> {
        let bytes = session.context().len();
        let server = SlotsServer::from_bytes(session.layout().clone(), session.context())?;
        self.slots_sessions.insert(session.id(), server, bytes);
        Ok(())
    }

    /// Scores every candidate of a request in slots, one response each. Rows are fixed-point
    /// integers below `2^OPERAND_BITS` in norm; here they count in units of that.
    pub fn rerank_in_slots(
        &self,
        collection: &CollectionName,
        request: &SlotsRequest,
    ) -> Result<SlotsResponse, ServerError> {
        let keys = self.slots_sessions.find(request.session())?;
        let layout = keys.layout();
        let expected = layout.query_ciphertexts(request.candidates().cells());
        if request.ciphertexts().len() != expected {
            return Err(
                DecodeError::Invalid("another number of ciphertexts than cells need").into()
            );
        }
        let answer = request.candidates().rows() * layout.parameters().response_bytes();
        if answer > self.limits.bytes {
            return Err(DecodeError::Invalid("the answer would be too long").into());
        }
        let width = self.rows.width(collection, request.epoch())?;
        if layout.width() != width {
            let (epoch, query) = (request.epoch(), layout.width());
            return Err(ServerError::Width { epoch, query, rows: width });
        }
        let rows = self.rows.fetch(collection, request.epoch(), request.candidates())?;
        let unit = 2_f64.powi(-OPERAND_BITS);
        let real: Vec<(usize, Vec<f64>)> = rows
            .iter()
            .enumerate()
            .flat_map(|(cell, rows)| rows.iter().map(move |row| (cell, row)))
            .map(|(cell, row)| (cell, row.iter().map(|&z| f64::from(z) * unit).collect()))
            .collect();
        let candidates: Vec<Candidate<'_>> = real
            .iter()
            .zip(request.prefix_scores())
            .map(|((cell, row), &prefix_score)| Candidate { cell: *cell, row, prefix_score })
            .collect();
        Ok(SlotsResponse::new(keys.score(request.ciphertexts(), &candidates)?))
    }

    /// Counts of an epoch.
    pub fn statistics(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
    ) -> Result<EpochStatistics, ServerError> {
        Ok(self.rows.statistics(collection, epoch)?)
    }

    /// Scores every candidate of a request. The work of one request is spread over the cores of
    /// the current rayon pool.
    pub fn rerank(
        &self,
        collection: &CollectionName,
        request: &RerankRequest,
    ) -> Result<RerankResponse, ServerError> {
        let epoch = request.epoch();
        let width = self.rows.width(collection, epoch)?;
        if width != request.layout().width() {
            return Err(ServerError::Width { epoch, query: request.layout().width(), rows: width });
        }
        let rows = self.rows.fetch(collection, epoch, request.candidates())?;

        let mut evaluator = Evaluator::new(request.parameters().clone(), request.layout().clone());
        if let Some(session) = request.session() {
            evaluator = evaluator.with_merge_keys(self.sessions.find(session)?);
        }
        let queries = evaluator.prepare(request.seed(), request.ciphertexts(), rows.len())?;
        let operands: Vec<Vec<&[i32]>> =
            rows.iter().map(|cell| cell.iter().map(|row| &row[..]).collect()).collect();
        Ok(RerankResponse::new(evaluator.respond(&queries, &operands)?))
    }

    /// One message in, one message out: a refusal is a message too.
    pub fn handle(&self, collection: &CollectionName, message: &[u8]) -> Vec<u8> {
        self.answer(collection, message).unwrap_or_else(|error| {
            Refusal { code: error.code(), text: error.to_string() }.encode()
        })
    }

    /// Serves one message.
    pub fn answer(
        &self,
        collection: &CollectionName,
        message: &[u8],
    ) -> Result<Vec<u8>, ServerError> {
        let (rows, limits) = (&self.rows, &self.limits);
        let kind = message_kind(message)?;
        match kind {
            MessageKind::RerankRequest => {
                let request = RerankRequest::decode(message, limits)?;
                return Ok(self.rerank(collection, &request)?.encode());
            }
            MessageKind::SlotsRequest => {
                let request = SlotsRequest::decode(message, limits)?;
                return Ok(self.rerank_in_slots(collection, &request)?.encode());
            }
            MessageKind::OpenSession => self.open_session(&OpenSession::decode(message, limits)?),
            MessageKind::OpenSlotsSession => {
                self.open_slots_session(&OpenSlotsSession::decode(message, limits)?)?;
            }
            MessageKind::PublishRows => {
                let (revision, batch, tags) = PublishRows::decode(message, limits)?.into_parts();
                rows.upsert(collection, revision, batch, &tags)?;
            }
            MessageKind::DeleteRows => {
                let delete = DeleteRows::decode(message, limits)?;
                rows.delete(collection, delete.revision(), delete.epoch(), delete.handles())?;
            }
            MessageKind::ActivateEpoch => {
                let activate = ActivateEpoch::decode(message, limits)?;
                rows.activate(collection, activate.revision(), activate.epoch())?;
            }
            MessageKind::ListTags => {
                let list = ListTags::decode(message, limits)?;
                let tags = rows.tags(collection, list.epoch(), list.after(), RowTags::PAGE)?;
                return Ok(RowTags { tags }.encode());
            }
            MessageKind::Describe => {
                bare(message, kind)?;
                return Ok(rows.describe(collection)?.encode());
            }
            MessageKind::PutBlob => {
                let put = PutBlob::decode(message, limits)?;
                rows.put_blob(collection, put.name(), put.sealed())?;
            }
            MessageKind::FetchBlob => {
                let fetch = FetchBlob::decode(message, limits)?;
                let sealed = rows.blob(collection, fetch.name())?;
                return Ok(Blob { sealed }.encode());
            }
            MessageKind::DeleteBlob => {
                rows.delete_blob(collection, DeleteBlob::decode(message, limits)?.name())?;
            }
            MessageKind::ListBlobs => {
                bare(message, kind)?;
                return Ok(BlobList { blobs: rows.blobs(collection)? }.encode());
            }
            MessageKind::RowBatch
            | MessageKind::RerankResponse
            | MessageKind::SlotsResponse
            | MessageKind::Refusal
            | MessageKind::Accepted
            | MessageKind::RowTags
            | MessageKind::CollectionState
            | MessageKind::Blob
            | MessageKind::BlobList => {
                return Err(DecodeError::Invalid("a message that servers do not take").into());
            }
        }
        Ok(MessageKind::Accepted.bare())
    }
}

/// Refuses bytes after a message that has no body.
fn bare(message: &[u8], kind: MessageKind) -> Result<(), DecodeError> {
    match message.len() - kind.bare().len() {
        0 => Ok(()),
        trailing => Err(DecodeError::Trailing(trailing)),
    }
}
