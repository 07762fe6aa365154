//! Scoring: rows out of the engine, products under encryption.

use shard_protocol::{
    Candidates, CollectionName, DecodeError, Epoch, RerankRequest, RerankResponse,
};
#[cfg(feature = "slots")]
use shard_protocol::{SlotsRequest, SlotsResponse};
use shard_rlwe::{Evaluator, server_seconds};
#[cfg(feature = "slots")]
use shard_rlwe::{OPERAND_BITS, slots::Candidate};
use shard_store::Fetched;

use crate::{Caller, Server, ServerError, SessionName, Stages, timed};

/// Memory for the rows of one request. Names are short and rows are long: without it a message of
/// half a megabyte could ask for gigabytes.
const FETCH_BYTES: usize = 256 << 20;

impl Server {
    /// Scores every candidate of a request. The work of one request is spread over the cores of
    /// the current rayon pool.
    pub fn rerank(
        &self,
        collection: &CollectionName,
        request: &RerankRequest,
    ) -> Result<RerankResponse, ServerError> {
        self.response(&Caller::default(), collection, request, &mut Stages::default())
    }

    /// Refuses a request that would take too long to score.
    fn admit(&self, request: &RerankRequest) -> Result<(), ServerError> {
        let groups: Vec<usize> = request.candidates().iter().map(|(_, rows)| rows.len()).collect();
        let actual = (server_seconds(request.layout(), &groups) * 1e3) as usize;
        let limit = self.request_milliseconds;
        if actual > limit { Err(ServerError::TooCostly { actual, limit }) } else { Ok(()) }
    }

    pub(crate) fn response(
        &self,
        caller: &Caller,
        collection: &CollectionName,
        request: &RerankRequest,
        stages: &mut Stages,
    ) -> Result<RerankResponse, ServerError> {
        self.admit(request)?;
        let mut evaluator = Evaluator::new(request.parameters().clone(), request.layout().clone());
        if let Some(id) = request.session() {
            let (caller, collection) = (caller.clone(), collection.clone());
            let name = SessionName { caller, collection, id };
            evaluator = evaluator.with_merge_keys(self.merge_keys(&name)?);
        }
        let (epoch, query) = (request.epoch(), request.layout().width());
        let rows = self.fetch(collection, epoch, query, request.candidates(), stages)?;
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

    /// The rows of all candidates, if they are as wide as the query and not too many.
    fn fetch(
        &self,
        collection: &CollectionName,
        epoch: Epoch,
        query: usize,
        candidates: &Candidates,
        stages: &mut Stages,
    ) -> Result<Fetched, ServerError> {
        timed(&mut stages.engine, || {
            let rows = self.rows.width(collection, epoch)?;
            if rows != query {
                return Err(ServerError::Width { epoch, query, rows });
            }
            let bytes = candidates.rows().saturating_mul(rows).saturating_mul(size_of::<i32>());
            if bytes > FETCH_BYTES {
                let (actual, limit) = (bytes as u64, FETCH_BYTES as u64);
                let what = "bytes of the rows asked for";
                return Err(DecodeError::Limit { what, actual, limit }.into());
            }
            Ok(self.rows.fetch(collection, epoch, candidates)?)
        })
    }
}
