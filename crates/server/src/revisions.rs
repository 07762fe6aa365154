//! How far each collection has come, without asking the engine for every answer.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use shard_protocol::{CollectionName, Revision};

/// The latest revision of every collection that was written to or asked for.
#[derive(Default)]
pub(crate) struct Revisions {
    latest: RwLock<HashMap<CollectionName, Revision>>,
}

impl Revisions {
    pub(crate) fn find(&self, collection: &CollectionName) -> Option<Revision> {
        self.latest.read().unwrap_or_else(PoisonError::into_inner).get(collection).copied()
    }

    /// A change of this revision was taken in. Changes may be noted in another order than the
    /// engine took them in, so the latest stays.
    pub(crate) fn reached(&self, collection: &CollectionName, revision: Revision) {
        let mut latest = self.latest.write().unwrap_or_else(PoisonError::into_inner);
        let held = latest.entry(collection.clone()).or_default();
        *held = revision.max(*held);
    }

    pub(crate) fn forget(&self, collection: &CollectionName) {
        self.latest.write().unwrap_or_else(PoisonError::into_inner).remove(collection);
    }
}
