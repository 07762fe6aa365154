//! Scoring: rows out of the engine, products under encryption.

use std::sync::Arc;

use shard_protocol::{Candidates, CollectionName, Epoch, RerankRequest, RerankResponse};
#[cfg(feature = "slots")]
use shard_protocol::{DecodeError, SlotsRequest, SlotsResponse};
use shard_rlwe::{Evaluator, server_seconds};
#[cfg(feature = "slots")]
use shard_rlwe::{OPERAND_BITS, slots::Candidate};
use shard_store::Fetched;

use crate::{Caller, Server, ServerError, SessionName, Stages, timed};

/// The rows of a request, cell by cell.
type Rows = Vec<Vec<Arc<[i32]>>>;

/// A request whose rows were fetched: what is left is to score them.
pub(crate) struct Prepared {
    request: RerankRequest,
    rows: Rows,
}

impl Prepared {
    /// Bytes of its rows.
    #[cfg(feature = "http")]
    pub(crate) fn bytes(&self) -> usize {
        self.rows.iter().flatten().map(|row| size_of_val(&row[..])).sum()
    }
}

impl Server {
    /// Scores every candidate of a request. The work of one request is spread over the cores of
    /// the current rayon pool.
    pub fn rerank(
        &self,
        collection: &CollectionName,
        request: &RerankRequest,
    ) -> Result<RerankResponse, ServerError> {
        let mut stages = Stages::default();
        self.admit(request)?;
        let rows = self.rows_of(collection, request, &mut stages)?;
        self.score(&Caller::default(), collection, request, &rows, &mut stages)
    }

    /// Refuses a request that would take too long to score.
    fn admit(&self, request: &RerankRequest) -> Result<(), ServerError> {
        let groups: Vec<usize> = request.candidates().iter().map(|(_, rows)| rows.len()).collect();
        let actual = (server_seconds(request.layout(), &groups) * 1e3) as usize;
        let limit = self.request_milliseconds;
        if actual > limit { Err(ServerError::TooCostly { actual, limit }) } else { Ok(()) }
    }

    /// The first half of a rerank, which waits for the engine and computes little: reads the message and
    /// fetches its rows.
    pub(crate) fn prepare(
        &self,
        collection: &CollectionName,
        message: &[u8],
        stages: &mut Stages,
    ) -> Result<Prepared, ServerError> {
        let decode = || RerankRequest::decode(message, &self.limits);
        let request = timed(&mut stages.decode, decode)?;
        self.admit(&request)?;
        let rows = self.rows_of(collection, &request, stages)?;
        Ok(Prepared { request, rows })
    }

    /// The second half, which computes and waits for nobody.
    pub(crate) fn answer_prepared(
        &self,
        caller: &Caller,
        collection: &CollectionName,
        prepared: &Prepared,
        stages: &mut Stages,
    ) -> Result<Vec<u8>, ServerError> {
        let Prepared { request, rows } = prepared;
        let response = self.score(caller, collection, request, rows, stages)?;
        Ok(timed(&mut stages.encode, || response.encode()))
    }

    fn rows_of(
        &self,
        collection: &CollectionName,
        request: &RerankRequest,
        stages: &mut Stages,
    ) -> Result<Rows, ServerError> {
        let (epoch, query) = (request.epoch(), request.layout().width());
        self.fetch(collection, epoch, query, request.candidates(), stages)
    }

    fn score(
        &self,
        caller: &Caller,
        collection: &CollectionName,
        request: &RerankRequest,
        rows: &[Vec<Arc<[i32]>>],
        stages: &mut Stages,
    ) -> Result<RerankResponse, ServerError> {
        let mut evaluator = Evaluator::new(request.parameters().clone(), request.layout().clone());
        if let Some(id) = request.session() {
            let (caller, collection) = (caller.clone(), collection.clone());
            let name = SessionName { caller, collection, id };
            evaluator = evaluator.with_merge_keys(self.merge_keys(&name)?);
        }
        timed(&mut stages.score, || {
            let queries = evaluator.prepare(request.seed(), request.ciphertexts(), rows.len())?;
            let operands: Vec<Vec<&[i32]>> =
                rows.iter().map(|cell| cell.iter().map(|row| &row[..]).collect()).collect();
            Ok(RerankResponse::new(evaluator.respond(&queries, &operands)?))
        })
    }

    /// Scores every candidate of a request in slots, one response each. Rows are fixed-point
    /// integers below `2^OPERAND_BITS` in norm; here they count in units of that.
    #[cfg(feature = "slots")]
    pub fn rerank_in_slots(
        &self,
        collection: &CollectionName,
        request: &SlotsRequest,
    ) -> Result<SlotsResponse, ServerError> {
        self.slots_response(&Caller::default(), collection, request, &mut Stages::default())
    }

    #[cfg(feature = "slots")]
    pub(crate) fn slots_response(
        &self,
        caller: &Caller,
        collection: &CollectionName,
        request: &SlotsRequest,
        stages: &mut Stages,
    ) -> Result<SlotsResponse, ServerError> {
        let (caller, id) = (caller.clone(), request.session());
        let keys = self.slots_keys(&SessionName { caller, collection: collection.clone(), id })?;
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
        let (epoch, query) = (request.epoch(), layout.width());
        let rows = self.fetch(collection, epoch, query, request.candidates(), stages)?;
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
        let scores = timed(&mut stages.score, || keys.score(request.ciphertexts(), &candidates))?;
        Ok(SlotsResponse::new(scores))
    }

    /// The rows of all candidates, if they are as wide as the query.
    fn fetch(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        query: usize,
        candidates: &Candidates,
        stages: &mut Stages,
    ) -> Result<Rows, ServerError> {
        let fetch = || self.rows.fetch(collection, epoch, candidates);
        let Fetched { width, rows } = timed(&mut stages.engine, fetch)?;
        if width == query {
            Ok(rows)
        } else {
            Err(ServerError::Width { epoch, query, rows: width })
        }
    }
}
