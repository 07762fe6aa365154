//! Search at home: no server is asked, and none learns anything.

use shard_client::Hit;
use shard_geometry::exact_top_k;

use crate::{Documents, Error};

/// Searches vectors that are held in memory, exactly.
pub struct LocalSearcher {
    documents: Documents,
}

impl LocalSearcher {
    pub(crate) fn new(documents: Documents) -> Self {
        Self { documents }
    }

    /// The documents.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// The best documents by inner product in double precision; ties in the order of the documents.
    ///
    /// # Errors
    /// When the query has another width than the documents, or a value that is not finite.
    pub fn search(&self, query: &[f32], top: usize) -> Result<Vec<Hit>, Error> {
        let best = exact_top_k(self.documents.vectors(), query, top)?;
        let hit = |found: &shard_geometry::Ranked| Hit {
            id: self.documents.ids()[found.row as usize].clone(),
            row: found.row,
            score: found.score,
        };
        Ok(best.iter().map(hit).collect())
    }
}
