//! Baselines: other ways to protect a vault's vectors, searched and judged in Shard's place.

use shard_audit::baselines::Protected;
pub use shard_audit::baselines::{Baseline, CANDIDATES};
use shard_geometry::{Ranked, VectorSet};

use crate::{Error, Vault};

/// Where keys, codebooks and noise of a baseline come from: nothing of it is kept, so it is made
/// again whenever it is searched.
const SEED: u64 = 2026;

/// A vault's documents under a baseline, searched in this process.
pub struct BaselineSearcher {
    ids: Vec<String>,
    protected: Protected,
}

impl Vault {
    /// Puts a baseline in Shard's place.
    ///
    /// # Errors
    /// When the vault is empty or a query vault, or the baseline cannot protect these vectors.
    pub fn baseline(&self, baseline: Baseline) -> Result<BaselineSearcher, Error> {
        let (ids, vectors) = self.documents()?.into_parts();
        Ok(BaselineSearcher { ids, protected: protect(baseline, &vectors)? })
    }
}

impl BaselineSearcher {
    /// The best `top` documents; `candidates` is the length of the shortlist, where the baseline
    /// makes one.
    ///
    /// # Errors
    /// When the query has another width than the documents.
    pub fn search(
        &self,
        query: &[f32],
        top: usize,
        candidates: usize,
    ) -> Result<Vec<Ranked>, Error> {
        self.protected.search(query, top, candidates).map_err(Error::audit)
    }

    /// The id of a document.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn id(&self, row: u32) -> &str {
        &self.ids[row as usize]
    }
}

/// Vectors under a baseline.
pub(crate) fn protect(baseline: Baseline, vectors: &VectorSet) -> Result<Protected, Error> {
    let protected = baseline.protect(vectors, SEED);
    protected.map_err(|error| Error::audit(error.context(format!("baseline {baseline}"))))
}
