//! Search at home: no server is asked, and none learns anything.

use std::collections::HashSet;

use shard_client::{ClientError, Filter, Hit, Protection};
use shard_geometry::{exact_scores, top_k};

use crate::{Documents, Error, Opened};

/// Searches vectors that are held in memory, exactly.
pub struct LocalSearcher {
    documents: Documents,
    collection: Opened,
}

impl LocalSearcher {
    pub(crate) fn new(documents: Documents, collection: Opened) -> Self {
        Self { documents, collection }
    }

    /// The documents.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// The collection, as it was when the vault was opened for search.
    pub fn collection(&self) -> &Opened {
        &self.collection
    }

    /// The best documents by inner product in double precision, of all or of those that a filter holds of;
    /// ties in the order of the documents.
    ///
    /// # Errors
    /// When the query has another width than the documents, or a value that is not finite; and when the
    /// filter cannot be used, or the collection is rotated.
    pub fn search(
        &self,
        query: &[f32],
        top: usize,
        filter: Option<&Filter>,
    ) -> Result<Vec<Hit>, Error> {
        let scores = (0..).zip(exact_scores(self.documents.vectors(), query)?);
        let best = match filter.map(|filter| self.matching(filter)).transpose()? {
            Some(matching) => top_k(scores.filter(|(row, _)| matching[*row as usize]), top),
            None => top_k(scores, top),
        };
        let hit = |found: &shard_geometry::Ranked| Hit {
            id: self.documents.ids()[found.row as usize].clone(),
            row: found.row,
            score: found.score,
        };
        Ok(best.iter().map(hit).collect())
    }

    /// Whether a filter holds, for every document.
    fn matching(&self, filter: &Filter) -> Result<Vec<bool>, Error> {
        let Opened::Blind(collection) = &self.collection else {
            return Err(ClientError::OtherProtection {
                protection: Protection::Rotated,
                reason: "filters go by the fields of records, which are kept of blind collections only",
            }
            .into());
        };
        // By id: the documents may have been read a commit before the collection.
        let matching = collection.matching(filter)?;
        let fits = collection.ids().filter(|(place, _)| matching[*place as usize]);
        let fits: HashSet<&str> = fits.map(|(_, id)| id).collect();
        Ok(self.documents.ids().iter().map(|id| fits.contains(id.as_str())).collect())
    }
}
