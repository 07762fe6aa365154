//! What may be done to a collection, whatever engine keeps it: revisions, epochs, limits.

use std::collections::BTreeMap;

use shard_protocol::{BlobList, CollectionName, CollectionState, Epoch, EpochState, Revision};

use crate::{MOST_COLLECTIONS, MOST_EPOCHS, StoreError};

/// An epoch, as far as the rules look at it.
pub(crate) trait EpochShape {
    /// Coordinates of a row.
    fn width(&self) -> usize;

    /// Rows held.
    fn rows(&self) -> u64;
}

/// A collection, as far as the rules look at it. What an engine keeps decides the first three
/// methods; the rules are the others.
pub(crate) trait Rules {
    type Epoch: EpochShape;

    /// The latest revision.
    fn revision(&self) -> Revision;

    /// The epoch that is searched.
    fn current(&self) -> Option<Epoch>;

    /// Every epoch with what is kept of it.
    fn epochs(&self) -> &BTreeMap<Epoch, Self::Epoch>;

    /// An epoch that is there.
    fn epoch(&self, epoch: Epoch) -> Result<&Self::Epoch, StoreError> {
        self.epochs().get(&epoch).ok_or(StoreError::UnknownEpoch(epoch))
    }

    /// The epoch that is searched, if it is the one asked for.
    fn searched(&self, asked: Epoch) -> Result<&Self::Epoch, StoreError> {
        self.refuse_replaced(asked)?;
        let held = self.epoch(asked)?;
        if self.current() == Some(asked) { Ok(held) } else { Err(StoreError::Pending(asked)) }
    }

    /// Whether rows of this width may be put into an epoch. The first ones fix its width.
    fn may_upsert(&self, revision: Revision, epoch: Epoch, width: usize) -> Result<(), StoreError> {
        self.refuse_stale(revision)?;
        self.refuse_replaced(epoch)?;
        match self.epochs().get(&epoch) {
            Some(held) if held.width() != width => {
                Err(StoreError::Width { expected: held.width(), actual: width })
            }
            Some(_) => Ok(()),
            None => room("epochs of a collection", self.epochs().len(), MOST_EPOCHS),
        }
    }

    /// Whether rows of an epoch may be deleted.
    fn may_delete(&self, revision: Revision, epoch: Epoch) -> Result<(), StoreError> {
        self.refuse_stale(revision)?;
        self.refuse_replaced(epoch)?;
        self.epoch(epoch).map(drop)
    }

    /// Whether an epoch may become the one that is searched: one that holds rows. Those before
    /// the current one were erased when it was activated.
    fn may_activate(&self, revision: Revision, epoch: Epoch) -> Result<(), StoreError> {
        self.refuse_stale(revision)?;
        self.epoch(epoch).map(drop)
    }

    /// Refuses to go back behind the latest revision.
    fn refuse_stale(&self, given: Revision) -> Result<(), StoreError> {
        let latest = self.revision();
        if given < latest { Err(StoreError::Stale { given, latest }) } else { Ok(()) }
    }

    /// Refuses an epoch that a later one has replaced.
    fn refuse_replaced(&self, asked: Epoch) -> Result<(), StoreError> {
        match self.current() {
            Some(current) if asked < current => Err(StoreError::Replaced { asked, current }),
            _ => Ok(()),
        }
    }

    /// What an owner is told of it.
    fn state(&self) -> CollectionState {
        let state = |(&epoch, held): (&Epoch, &Self::Epoch)| EpochState {
            epoch,
            width: held.width(),
            rows: held.rows(),
        };
        CollectionState {
            revision: self.revision(),
            current: self.current(),
            epochs: self.epochs().iter().map(state).collect(),
        }
    }
}

/// A collection that is there.
pub(crate) fn known<T>(found: Option<T>, name: &CollectionName) -> Result<T, StoreError> {
    found.ok_or_else(|| StoreError::UnknownCollection(name.clone()))
}

/// Whether there is room for a new collection beside these.
pub(crate) fn room_for_collection(held: usize) -> Result<(), StoreError> {
    room("collections", held, MOST_COLLECTIONS)
}

/// Whether there is room for a new blob beside these.
pub(crate) fn room_for_blob(held: usize) -> Result<(), StoreError> {
    room("blobs of a collection", held, BlobList::MOST)
}

/// Refuses one more of what is `held` already, where `most` are kept.
fn room(what: &'static str, held: usize, most: usize) -> Result<(), StoreError> {
    if held < most { Ok(()) } else { Err(StoreError::TooMany { what, most }) }
}
