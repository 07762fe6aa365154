//! A vault that stays open: searched by many threads, changed in between, and brought forward when
//! the server has come further.
//!
//! [`Searcher`] searches a collection as it was when it was opened. A program that lives longer than
//! that wants the collection as it is now: after its own changes, and after those that somebody else
//! has published. A [`Retriever`] opens the collection when it is first searched, closes it when the
//! vault changes, and, where a server says that it holds a later state, pulls and asks again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use shard_client::{Answer, ClientError, FetchWay, Fetched, Filling, Hit, SearchOptions, Watch};
use shard_geometry::VectorSet;

use crate::listening::{Link, Listener, Place};
use crate::{Error, Opened, Passage, Searcher, Vault};

#[cfg(feature = "remote")]
use shard_client::{UNWATCHED, remote::Remote};

/// A vault that stays open for search. Many threads may use it at once.
pub struct Retriever {
    vault: Mutex<Vault>,
    #[cfg(feature = "remote")]
    server: Option<Arc<Remote>>,
    listener: Option<Arc<Listener>>,
    /// The collection as of the vault's latest commit, once it was asked for.
    held: RwLock<Held>,
}

/// What was opened since the vault changed last.
#[derive(Clone, Default)]
struct Held {
    collection: Option<Opened>,
    searcher: Option<Arc<Searcher<Link>>>,
}

impl Retriever {
    /// Searches through a server in this process.
    pub fn embedded(vault: Vault) -> Self {
        Self {
            vault: Mutex::new(vault),
            #[cfg(feature = "remote")]
            server: None,
            listener: None,
            held: RwLock::default(),
        }
    }

    /// Searches through a server on a network.
    #[cfg(feature = "remote")]
    pub fn remote(vault: Vault, server: impl Into<Arc<Remote>>) -> Self {
        Self { server: Some(server.into()), ..Self::embedded(vault) }
    }

    /// The same, telling of every message that crosses to the server.
    #[must_use]
    pub fn listening(self, listener: Arc<Listener>) -> Self {
        Self { listener: Some(listener), ..self }
    }

    /// The server on a network, if there is one.
    #[cfg(feature = "remote")]
    pub fn server(&self) -> Option<&Arc<Remote>> {
        self.server.as_ref()
    }

    /// The vault, to read from. A search that has to open the collection waits meanwhile.
    pub fn vault(&self) -> MutexGuard<'_, Vault> {
        self.vault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the vault. The next search sees what came of it, also where the change failed: a pull,
    /// say, may have come half of the way. What another process changes in the same directory is seen after the
    /// next change or pull of this one.
    ///
    /// # Errors
    /// Those of the change.
    pub fn change<R>(
        &self,
        change: impl FnOnce(&mut Vault) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut vault = self.vault();
        let _close = Close(self);
        change(&mut vault)
    }

    fn held(&self) -> Held {
        self.held.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The collection as it is now; `None` before the first documents came.
    ///
    /// # Errors
    /// When the vault is damaged.
    pub fn collection(&self) -> Result<Option<Opened>, Error> {
        if let Some(collection) = self.held().collection {
            return Ok(Some(collection));
        }
        let vault = self.vault();
        let collection = vault.collection()?;
        // The vault is not let go of meanwhile, so that this is of its latest commit.
        self.held.write().unwrap_or_else(PoisonError::into_inner).collection = collection.clone();
        Ok(collection)
    }

    /// The collection as it is now, ready to be searched; `None` before the first documents came.
    ///
    /// # Errors
    /// When the vault is damaged, or is a query vault and there is no server; and when `watch` ended it.
    pub fn opened(&self, watch: &Watch<'_>) -> Result<Option<Arc<Searcher<Link>>>, Error> {
        if let Some(searcher) = self.held().searcher {
            return Ok(Some(searcher));
        }
        let vault = self.vault();
        // Whoever had the vault before may have opened it.
        if let Some(searcher) = self.held().searcher {
            return Ok(Some(searcher));
        }
        if vault.collection()?.is_none() {
            return Ok(None);
        }
        let through = |place| Link::new(place, self.listener.clone());
        let embedded = || {
            let server = |embedded| through(Place::Embedded(Box::new(embedded)));
            vault.in_process(Filling::RowsAndRecords, watch, server)
        };
        #[cfg(feature = "remote")]
        let searcher = match &self.server {
            Some(server) => vault.searcher(through(Place::Remote(server.clone())))?,
            None => embedded()?,
        };
        #[cfg(not(feature = "remote"))]
        let searcher = embedded()?;
        searcher.prepare(watch)?;
        let searcher = Arc::new(searcher);
        let held = Held {
            collection: Some(searcher.collection().clone()),
            searcher: Some(searcher.clone()),
        };
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(Some(searcher))
    }

    /// Searches; an empty vault has no documents to find.
    ///
    /// # Errors
    /// As for [`Searcher::search`] and [`Retriever::opened`].
    pub fn search(
        &self,
        query: &[f32],
        options: &SearchOptions,
        watch: &Watch<'_>,
    ) -> Result<Option<Answer>, Error> {
        self.ask(watch, |searcher| searcher.search(query, options))
    }

    /// Searches for several queries, up to `parallel` requests at a time; answers in their order.
    ///
    /// # Errors
    /// As for [`Retriever::search`]; [`ClientError::Cancelled`] when `watch` ended it.
    pub fn search_many(
        &self,
        queries: &VectorSet,
        options: &SearchOptions,
        parallel: usize,
        watch: &Watch<'_>,
    ) -> Result<Option<Vec<Answer>>, Error> {
        let total = queries.rows();
        self.ask(watch, |searcher| {
            let mut answers = Vec::with_capacity(total);
            let each = |_, answer| {
                answers.push(answer);
                watch(shard_client::Progress { done: answers.len() as u64, total: total as u64 })
            };
            searcher.search_many(queries, options, parallel, each)?;
            if answers.len() < total {
                return Err(ClientError::Cancelled.into());
            }
            Ok(answers)
        })
    }

    /// Fetches the records of documents, in the order of the ids.
    ///
    /// # Errors
    /// As for [`Searcher::fetch`] and [`Retriever::opened`]; [`ClientError::Empty`] for an empty vault.
    pub fn fetch(&self, ids: &[&str], way: FetchWay, watch: &Watch<'_>) -> Result<Fetched, Error> {
        let fetched = self.ask(watch, |searcher| {
            if way == FetchWay::Private {
                searcher.prepare_fetch(watch)?;
            }
            searcher.fetch(ids, way)
        })?;
        Ok(fetched.ok_or(ClientError::Empty)?)
    }

    /// The passages of hits, in their order. Nothing but ids and scores of a rotated collection, which keeps no
    /// records, and of documents that are gone since they were found.
    ///
    /// # Errors
    /// As for [`Retriever::fetch`].
    pub fn passages(
        &self,
        hits: &[Hit],
        way: FetchWay,
        watch: &Watch<'_>,
    ) -> Result<Vec<Passage>, Error> {
        let found = self.ask(watch, |searcher| {
            if !searcher.has_records() {
                return Ok(hits.iter().map(|hit| Passage::new(hit, None)).collect());
            }
            if way == FetchWay::Private {
                searcher.prepare_fetch(watch)?;
            }
            let asked: HashSet<&str> = hits.iter().map(|hit| hit.id.as_str()).collect();
            let held = searcher.collection().ids().filter_map(|id| asked.get(id).copied());
            let held: HashSet<&str> = held.collect();
            let there: Vec<Hit> =
                hits.iter().filter(|hit| held.contains(hit.id.as_str())).cloned().collect();
            let mut there = searcher.passages(&there, way)?.into_iter();
            let passage = |hit: &Hit| {
                let found = held.contains(hit.id.as_str()).then(|| there.next()).flatten();
                found.unwrap_or_else(|| Passage::new(hit, None))
            };
            Ok(hits.iter().map(passage).collect())
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Asks the collection as it is now, and where the server holds a later state, once more after a pull.
    fn ask<R>(
        &self,
        watch: &Watch<'_>,
        ask: impl Fn(&Searcher<Link>) -> Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        let Some(searcher) = self.opened(watch)? else { return Ok(None) };
        let outcome = ask(&searcher);
        #[cfg(feature = "remote")]
        if let (Err(error), Some(server)) = (&outcome, &self.server) {
            if is_outdated(error) && searcher.collection().blind().is_some() {
                // Another thread may have pulled meanwhile.
                let held = self.held().searcher;
                if held.is_some_and(|held| Arc::ptr_eq(&held, &searcher)) {
                    self.change(|vault| vault.pull(server, UNWATCHED))?;
                }
                let Some(searcher) = self.opened(watch)? else { return Ok(None) };
                return ask(&searcher).map(Some).map_err(|error| self.diagnosed(&searcher, error));
            }
            return outcome.map(Some).map_err(|error| self.diagnosed(&searcher, error));
        }
        outcome.map(Some)
    }

    /// Says of a refusal how what the server holds stands to the vault.
    #[cfg(feature = "remote")]
    fn diagnosed(&self, searcher: &Searcher<Link>, error: Error) -> Error {
        match (error, &self.server) {
            (Error::Client(error), Some(server)) => {
                let position = searcher.collection().position();
                shard_client::remote::diagnose(position, server, error).into()
            }
            (error, _) => error,
        }
    }
}

/// Closes what was opened when a change ends, however it ends.
struct Close<'r>(&'r Retriever);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        *self.0.held.write().unwrap_or_else(PoisonError::into_inner) = Held::default();
    }
}

/// Whether a search was refused because the server holds a later state, or was not made because only a
/// later one has checks that can be used.
pub fn is_outdated(error: &Error) -> bool {
    use ClientError::{ChecksRetired, Outdated, Revoked};
    matches!(error, Error::Client(Outdated { .. } | Revoked { .. } | ChecksRetired))
}

#[cfg(test)]
mod tests;
