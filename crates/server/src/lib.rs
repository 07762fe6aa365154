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

use std::sync::Arc;

use rayon::prelude::*;
use shard_protocol::{
    DecodeError, Epoch, Limits, MessageKind, Refusal, RefusalCode, RerankRequest, RerankResponse,
    RowBatch, message_kind,
};
use shard_rlwe::{EvaluateError, Evaluator};
use shard_store::{EpochStatistics, RowStore, StoreError};

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
    /// Ciphertexts and rows do not go together.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
}

impl ServerError {
    /// The class a client is told.
    pub fn code(&self) -> RefusalCode {
        match self {
            Self::Malformed(_) => RefusalCode::Malformed,
            Self::Store(StoreError::UnknownEpoch(_)) => RefusalCode::UnknownEpoch,
            Self::Store(StoreError::UnknownRow { .. }) => RefusalCode::UnknownRow,
            Self::Store(StoreError::Width { .. }) | Self::Width { .. } => RefusalCode::WrongWidth,
            Self::Store(_) | Self::Evaluate(_) => RefusalCode::Internal,
        }
    }
}

/// A server over an engine.
pub struct Server {
    rows: Arc<dyn RowStore>,
    limits: Limits,
}

impl Server {
    /// Serves the rows of an engine, under limits on what it decodes.
    pub fn new(rows: Arc<dyn RowStore>, limits: Limits) -> Self {
        Self { rows, limits }
    }

    /// Takes rows in.
    pub fn publish(&self, batch: RowBatch) -> Result<(), ServerError> {
        Ok(self.rows.upsert(batch)?)
    }

    /// Counts of an epoch.
    pub fn statistics(&self, epoch: Epoch) -> Result<EpochStatistics, ServerError> {
        Ok(self.rows.statistics(epoch)?)
    }

    /// Scores every candidate of a request. The work of one request is spread over the cores of
    /// the current rayon pool.
    pub fn rerank(&self, request: &RerankRequest) -> Result<RerankResponse, ServerError> {
        let epoch = request.epoch();
        let width = self.rows.width(epoch)?;
        if width != request.layout().width() {
            return Err(ServerError::Width { epoch, query: request.layout().width(), rows: width });
        }
        let cells: Vec<_> = request.candidates().iter().collect();
        let rows = cells
            .par_iter()
            .map(|(cell, handles)| self.rows.fetch(epoch, *cell, handles))
            .collect::<Result<Vec<_>, _>>()?;

        let evaluator = Evaluator::new(request.parameters().clone(), request.layout().clone());
        let queries = evaluator.prepare(request.seed(), request.ciphertexts())?;
        let operands: Vec<Vec<&[i32]>> =
            rows.iter().map(|cell| cell.iter().map(|row| &row[..]).collect()).collect();
        let groups: Vec<&[&[i32]]> = operands.iter().map(Vec::as_slice).collect();
        Ok(RerankResponse::new(evaluator.respond(&queries, &groups)?))
    }

    /// One message in, one message out: a refusal is a message too.
    pub fn handle(&self, message: &[u8]) -> Vec<u8> {
        self.answer(message).unwrap_or_else(|error| {
            Refusal { code: error.code(), text: error.to_string() }.encode()
        })
    }

    fn answer(&self, message: &[u8]) -> Result<Vec<u8>, ServerError> {
        match message_kind(message)? {
            MessageKind::RowBatch => {
                self.publish(RowBatch::decode(message, &self.limits)?)?;
                Ok(MessageKind::Accepted.bare())
            }
            MessageKind::RerankRequest => {
                Ok(self.rerank(&RerankRequest::decode(message, &self.limits)?)?.encode())
            }
            MessageKind::RerankResponse | MessageKind::Refusal | MessageKind::Accepted => {
                Err(DecodeError::Invalid("a message that only servers send").into())
            }
        }
    }
}
