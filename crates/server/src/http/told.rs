//! What fails again and again, told when it changes.

use std::collections::BTreeMap;

use shard_protocol::CollectionName;

use crate::ServerError;

/// What was told of each collection that failed last.
#[derive(Default)]
pub(super) struct Told(BTreeMap<CollectionName, String>);

impl Told {
    /// Tells of those that did not fail before, or for another reason.
    pub(super) fn tell(&mut self, failed: &[(CollectionName, ServerError)], what: &str) {
        let failed = failed.iter().map(|(collection, error)| (collection, error.to_string()));
        let failed: BTreeMap<CollectionName, String> =
            failed.map(|(collection, error)| (collection.clone(), error)).collect();
        for (collection, error) in failed.iter().filter(|(name, why)| self.0.get(name) != Some(why))
        {
            tracing::error!(%collection, error, "{what}");
        }
        self.0 = failed;
    }
}
