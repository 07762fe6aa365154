//! What fails again and again, told when it changes.

use std::collections::BTreeMap;

use shard_protocol::CollectionName;

use crate::ServerError;

/// What was told of each collection that failed last, and of all together.
#[derive(Default)]
pub(super) struct Told {
    each: BTreeMap<CollectionName, String>,
    all: Option<String>,
}

impl Told {
    /// Tells of those that did not fail before, or for another reason.
    pub(super) fn tell(&mut self, failed: &[(CollectionName, ServerError)], what: &str) {
        let failed = failed.iter().map(|(collection, error)| (collection, error.to_string()));
        let failed: BTreeMap<CollectionName, String> =
            failed.map(|(collection, error)| (collection.clone(), error)).collect();
        for (collection, error) in
            failed.iter().filter(|(name, why)| self.each.get(name) != Some(why))
        {
            tracing::error!(%collection, error, "{what}");
        }
        *self = Self { each: failed, all: None };
    }

    /// Tells of what kept all of them from being looked at, unless it is what did before.
    pub(super) fn tell_all(&mut self, error: &ServerError, what: &str) {
        let error = error.to_string();
        if self.all.as_ref() != Some(&error) {
            tracing::error!(error, "{what}");
        }
        self.all = Some(error);
    }
}
