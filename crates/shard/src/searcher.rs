//! A collection and the server it is searched through.

use std::ops::ControlFlow;
use std::sync::Arc;

use shard_client::{
    Answer, BlindCollection, BlindSearcher, ClientError, Collection, FetchWay, Fetched, Filter,
    Hints, Hit, NOT_FIELDS, Position, Protection, SearchOptions, Watch,
};
use shard_geometry::VectorSet;
use shard_protocol::{Blob, BlobName, Epoch, FetchBlob, Leak, Limits, Transport, declassify};

use crate::{Error, Passage};

/// Names of fields that are told where one is not there.
const MOST_NAMES: usize = 20;

/// A collection that was opened for search, as it was then.
#[derive(Clone)]
pub enum Opened {
    /// The paper's construction: model, index and keys.
    Rotated(Arc<Collection>),
    /// Ciphertexts: places and keys.
    Blind(Arc<BlindCollection>),
}

impl Opened {
    /// Documents.
    pub fn documents(&self) -> usize {
        match self {
            Self::Rotated(collection) => collection.index().rows(),
            Self::Blind(collection) => collection.rows(),
        }
    }

    /// Coordinates of a document.
    pub fn dimension(&self) -> usize {
        match self {
            Self::Rotated(collection) => collection.model().split().width(),
            Self::Blind(collection) => collection.shape().dimension(),
        }
    }

    /// The ids of all documents, in the order of their rows.
    pub fn ids(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Self::Rotated(collection) => Box::new(collection.index().ids()),
            Self::Blind(collection) => Box::new(collection.ids().map(|(_, id)| id)),
        }
    }

    /// The ids of those documents that a filter holds of.
    ///
    /// # Errors
    /// When the filter cannot be used, or the collection is rotated.
    pub fn matching_ids(&self, filter: &Filter) -> Result<Vec<&str>, Error> {
        let Self::Blind(collection) = self else { return Err(no_records().into()) };
        let matching = collection.matching(filter)?;
        let ids = collection.ids().filter(|(place, _)| matching[*place as usize]);
        Ok(ids.map(|(_, id)| id).collect())
    }

    /// A sentence for each field of a filter that no document can be found by: a misspelt one would find
    /// nothing without a word.
    ///
    /// # Errors
    /// When a value of the vault is damaged.
    pub fn unknown_fields(&self, filter: &Filter) -> Result<Vec<String>, Error> {
        let Self::Blind(collection) = self else { return Ok(Vec::new()) };
        let metadata = collection.metadata()?;
        let told = |field: &str| {
            let names: Vec<&str> = metadata.names().take(MOST_NAMES).collect();
            let there = match names.as_slice() {
                [] => "there are no fields".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            if NOT_FIELDS.contains(&field) {
                return format!("{field:?} is no field to filter by: {there}");
            }
            format!("no document has a field {field:?}: {there}")
        };
        let unknown = |field: &&str| !metadata.names().any(|name| name == *field);
        Ok(filter.fields().into_iter().filter(unknown).map(told).collect())
    }

    /// The epoch of keys and names.
    pub fn epoch(&self) -> Epoch {
        match self {
            Self::Rotated(collection) => collection.epoch(),
            Self::Blind(collection) => collection.epoch(),
        }
    }

    /// Which commit of which vault it was read from.
    pub fn position(&self) -> &Position {
        match self {
            Self::Rotated(collection) => collection.position(),
            Self::Blind(collection) => collection.position(),
        }
    }

    /// The paper's construction, if it is that.
    pub fn rotated(&self) -> Option<&Collection> {
        match self {
            Self::Rotated(collection) => Some(collection),
            Self::Blind(_) => None,
        }
    }

    /// A blind collection, if it is one.
    pub fn blind(&self) -> Option<&BlindCollection> {
        match self {
            Self::Rotated(_) => None,
            Self::Blind(collection) => Some(collection),
        }
    }
}

/// A collection and the server it is searched through. Keep it: it holds what outlives a request, the
/// secrets of open sessions or the hints of blocks. Many threads may search at once.
pub struct Searcher<T> {
    collection: Opened,
    inner: Inner<T>,
}

enum Inner<T> {
    Rotated(Arc<Collection>, shard_client::Searcher<T>),
    Blind(Arc<BlindCollection>, BlindSearcher<T>),
}

impl<T: Transport<Error: Into<ClientError>>> Searcher<T> {
    pub(crate) fn rotated(collection: Arc<Collection>, server: T) -> Self {
        let inner = Inner::Rotated(collection.clone(), shard_client::Searcher::new(server));
        Self { collection: Opened::Rotated(collection), inner }
    }

    pub(crate) fn blind(collection: Arc<BlindCollection>, server: T, hints: Hints) -> Self {
        let inner = Inner::Blind(collection.clone(), BlindSearcher::new(server, hints));
        Self { collection: Opened::Blind(collection), inner }
    }

    /// The collection, as it was when the vault was opened for search.
    pub fn collection(&self) -> &Opened {
        &self.collection
    }

    /// The server.
    pub fn server(&self) -> &T {
        match &self.inner {
            Inner::Rotated(_, searcher) => searcher.transport(),
            Inner::Blind(_, searcher) => searcher.transport(),
        }
    }

    /// Bytes that have to be fetched before the first search: the hints of a blind collection.
    pub fn missing_bytes(&self) -> usize {
        match &self.inner {
            Inner::Rotated(..) => 0,
            Inner::Blind(collection, searcher) => searcher.missing_bytes(collection),
        }
    }

    /// Fetches them, so that progress can be shown. A search does it by itself.
    ///
    /// # Errors
    /// When the server does not have them, cannot be reached or refuses, and when `watch` ended it.
    pub fn prepare(&self, watch: &Watch<'_>) -> Result<(), Error> {
        if let Inner::Blind(collection, searcher) = &self.inner {
            searcher.prepare(collection, watch)?;
        }
        Ok(())
    }

    /// Searches; the server sees neither the query nor the scores.
    ///
    /// # Errors
    /// When the query has another width than the documents, the server cannot be reached or
    /// refuses, or its answer is false.
    pub fn search(&self, query: &[f32], options: &SearchOptions) -> Result<Answer, Error> {
        Ok(match &self.inner {
            Inner::Rotated(collection, searcher) => searcher.search(collection, query, options)?,
            Inner::Blind(collection, searcher) => searcher.search(collection, query, options)?,
        })
    }

    /// Bytes that have to be fetched before the first private fetch: the hints of records.
    pub fn missing_fetch_bytes(&self) -> usize {
        match &self.inner {
            Inner::Rotated(..) => 0,
            Inner::Blind(collection, searcher) => searcher.missing_fetch_bytes(collection),
        }
    }

    /// Fetches them, so that progress can be shown. A fetch does it by itself.
    ///
    /// # Errors
    /// When the server does not have them, cannot be reached or refuses, and when `watch` ended it.
    pub fn prepare_fetch(&self, watch: &Watch<'_>) -> Result<(), Error> {
        if let Inner::Blind(collection, searcher) = &self.inner {
            searcher.prepare_fetch(collection, watch)?;
        }
        Ok(())
    }

    /// Fetches the records of documents, in the order of the ids, `None` where a document has none. The
    /// server sees how many KB are asked for and, if `way` is direct, which pages they are in.
    ///
    /// # Errors
    /// When an id is nobody's, the collection is rotated, the server cannot be reached or refuses, or
    /// what it gives is not what was published.
    pub fn fetch(&self, ids: &[&str], way: FetchWay) -> Result<Fetched, Error> {
        match &self.inner {
            Inner::Rotated(..) => Err(no_records().into()),
            Inner::Blind(collection, searcher) => Ok(searcher.fetch(collection, ids, way)?),
        }
    }

    /// The passages of hits, in their order: what [`Searcher::fetch`] brings of them, read.
    ///
    /// # Errors
    /// As for [`Searcher::fetch`].
    pub fn passages(&self, hits: &[Hit], way: FetchWay) -> Result<Vec<Passage>, Error> {
        let ids: Vec<&str> = hits.iter().map(|hit| hit.id.as_str()).collect();
        let fetched = self.fetch(&ids, way)?;
        let records = fetched.records.iter().map(Option::as_deref);
        Ok(hits.iter().zip(records).map(|(hit, record)| Passage::new(hit, record)).collect())
    }

    /// Whether documents of the collection have records to fetch.
    pub fn has_records(&self) -> bool {
        self.collection.blind().is_some_and(|collection| collection.records().is_some())
    }

    /// A block of a blind collection as the server holds it; `None` where there is no such block, or the
    /// server shows it to its owner only.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn stored_block(&self, number: usize) -> Result<Option<Vec<u8>>, Error> {
        let block = self.collection.blind().and_then(|held| held.blocks().get(number));
        let Some(block) = block else { return Ok(None) };
        let name = BlobName::block(block.file_name());
        let message = FetchBlob::new(declassify(name, Leak::SealedBlobs)).encode();
        let answer = self.server().exchange(message).map_err(Into::into)?;
        Ok(Blob::decode(&answer, &Limits::default()).ok().map(|blob| blob.sealed))
    }

    /// Searches for every query, up to `parallel` requests at a time, each of one query or, of a blind
    /// collection, of up to eight. Answers are handed to `each` on the calling thread, in the order of
    /// the queries; a break ends the search once the queries under
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
        match &self.inner {
            Inner::Rotated(collection, searcher) => {
                searcher.search_many(collection, queries, options, parallel, each)?;
            }
            Inner::Blind(collection, searcher) => {
                searcher.search_many(collection, queries, options, parallel, each)?;
            }
        }
        Ok(())
    }
}

/// Why a rotated collection has no records.
fn no_records() -> ClientError {
    ClientError::OtherProtection {
        protection: Protection::Rotated,
        reason: "records are kept of blind collections only",
    }
}

#[cfg(feature = "remote")]
impl Searcher<shard_client::remote::Remote> {
    /// Says of a search that the server refused how what the server holds stands to the vault: older,
    /// newer, another way, another vault. Asks the server; other errors come back as they are.
    pub fn diagnose(&self, error: Error) -> Error {
        match error {
            Error::Client(error) => {
                let position = self.collection.position();
                shard_client::remote::diagnose(position, self.server(), error).into()
            }
            other => other,
        }
    }
}
