//! What the server gets of sample queries: real requests to the server in this process, kept as
//! bytes and read the way the server reads them.

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use shard_audit::view::SeenRequest;
use shard_client::{ClientError, Collection, Progress, SearchOptions, Searcher, Watch};
use shard_geometry::VectorSet;
use shard_protocol::{Limits, MessageKind, RerankRequest, RowBatch, Transport, message_kind};
use shard_server::Embedded;

use crate::Error;

/// A server, and somebody who is shown every message and what was answered.
pub(super) struct Recording<'a, F> {
    pub(super) server: &'a Embedded,
    pub(super) note: F,
}

impl<F: Fn(&[u8], &[u8]) + Send + Sync> Transport for Recording<'_, F> {
    type Error = Infallible;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, Infallible> {
        let answer = self.server.exchange(message.clone())?;
        (self.note)(&message, &answer);
        Ok(answer)
    }
}

/// Queries that are asked twice: who looks for canaries looks at what repetitions change.
const REPEATED: usize = 50;

/// Searches for every query, for the first of them once more at the end, and returns what the server
/// could read of each request, rows by their place among the published rows.
pub(super) fn requests(
    collection: &Collection,
    published: &RowBatch,
    queries: &VectorSet,
    watch: &Watch<'_>,
) -> Result<Vec<SeenRequest>, Error> {
    let server = Embedded::serving(published.clone());
    let requests: Mutex<Vec<Vec<u8>>> = Mutex::default();
    let note = |message: &[u8], _: &[u8]| {
        if message_kind(message).is_ok_and(|kind| kind == MessageKind::RerankRequest) {
            requests.lock().unwrap_or_else(PoisonError::into_inner).push(message.to_vec());
        }
    };
    let searcher = Searcher::new(Recording { server: &server, note });
    let asked: Vec<usize> = (0..queries.rows()).chain(0..queries.rows().min(REPEATED)).collect();
    for (done, &row) in asked.iter().enumerate() {
        searcher.search(collection, queries.row(row), &SearchOptions::default())?;
        let progress = Progress { done: done as u64 + 1, total: asked.len() as u64 };
        if watch(progress).is_break() {
            return Err(ClientError::Cancelled.into());
        }
    }
    let sent = requests.lock().unwrap_or_else(PoisonError::into_inner);
    let place = |handle| {
        let found = published.rows().binary_search_by_key(&handle, |row| row.handle);
        found.expect("the server answered, so it has every row that was asked for")
    };
    let seen = |message: &Vec<u8>| -> Result<SeenRequest, Error> {
        let request =
            RerankRequest::decode(message, &Limits::default()).map_err(ClientError::from)?;
        let handles = request.candidates().iter().flat_map(|(_, rows)| rows);
        Ok(SeenRequest { candidates: handles.map(|&handle| place(handle)).collect() })
    };
    sent.iter().map(seen).collect()
}
