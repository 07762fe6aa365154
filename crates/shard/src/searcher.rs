//! A collection and the server it is searched through.

use std::ops::ControlFlow;
use std::sync::Arc;

use shard_client::{Answer, ClientError, Collection, SearchOptions};
use shard_geometry::VectorSet;
use shard_protocol::Transport;

use crate::Error;

/// A collection and the server it is searched through. Keep it: it holds what outlives a request,
/// the secrets of open sessions. Many threads may search at once.
pub struct Searcher<T> {
    collection: Arc<Collection>,
    searcher: shard_client::Searcher<T>,
}

impl<T: Transport<Error: Into<ClientError>>> Searcher<T> {
    pub(crate) fn new(collection: Arc<Collection>, server: T) -> Self {
        Self { collection, searcher: shard_client::Searcher::new(server) }
    }

    /// The model, the index and the keys, as they were when the vault was opened for search.
    pub fn collection(&self) -> &Collection {
        &self.collection
    }

    /// The server.
    pub fn server(&self) -> &T {
        self.searcher.transport()
    }

    /// Searches; the server sees neither the query nor the scores.
    ///
    /// # Errors
    /// When the query has another width than the documents, the server cannot be reached or
    /// refuses, or its answer is false.
    pub fn search(&self, query: &[f32], options: &SearchOptions) -> Result<Answer, Error> {
        Ok(self.searcher.search(&self.collection, query, options)?)
    }

    /// Searches for every query, up to `parallel` at a time. Answers are handed to `each` on the
    /// calling thread, in the order of the queries; a break ends the search once the queries under
    /// way are answered.
    ///
    /// # Errors
    /// That of the first query, in order, that fails. Answers to those before it were handed over.
    pub fn search_many(
        &self,
        queries: &VectorSet,
        options: &SearchOptions,
        parallel: usize,
        each: impl FnMut(usize, Answer) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        Ok(self.searcher.search_many(&self.collection, queries, options, parallel, each)?)
    }
}

#[cfg(feature = "remote")]
impl Searcher<shard_client::remote::Remote> {
    /// Says of a search that the server refused how what the server holds stands to the vault: older,
    /// newer, another way, another vault. Asks the server; other errors come back as they are.
    pub fn diagnose(&self, error: Error) -> Error {
        match error {
            Error::Client(error) => {
                shard_client::remote::diagnose(&self.collection, self.server(), error).into()
            }
            other => other,
        }
    }
}
