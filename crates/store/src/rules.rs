//! What may be done to a collection, whatever engine keeps it: commits, revisions, epochs, limits.

use std::collections::BTreeMap;

use shard_protocol::{
    Advance, BlobList, CollectionName, CollectionState, CommitName, Epoch, EpochState, Revision,
};

use crate::{MOST_COLLECTIONS, MOST_EPOCHS, MOST_FETCHED_BYTES, StoreError};

/// An epoch, as far as the rules look at it.
pub(crate) trait EpochShape {
    /// Coordinates of a row.
    fn width(&self) -> usize;

    /// Rows held.
    fn rows(&self) -> u64;

    /// Blocks of the current commit; 0 where it is an epoch of rows.
    fn blocks(&self) -> u64;
}

/// Which state of its vault a collection holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lineage {
    /// The revision that was activated last.
    pub revision: Revision,
    /// The commit that was activated last.
    pub commit: Option<CommitName>,
    /// The commit of a publish that has begun and not ended.
    pub unfinished: Option<CommitName>,
    /// Publishes that have begun.
    pub turn: u64,
}

impl Lineage {
    /// A publish has begun, or its rows come.
    pub(crate) fn begin(&mut self, advance: &Advance) {
        self.unfinished = Some(advance.to);
        self.turn = advance.turn;
    }

    /// A publish has ended.
    pub(crate) fn reach(&mut self, advance: &Advance) {
        self.revision = advance.revision;
        self.commit = Some(advance.to);
        self.unfinished = None;
    }

    /// What is left when everything is forgotten: rows that are under way stay told apart.
    pub(crate) fn forgotten(&self) -> Self {
        Self { turn: self.turn.wrapping_add(1), ..Self::default() }
    }
}

/// A collection, as far as the rules look at it. What an engine keeps decides the first three
/// methods; the rules are the others.
pub(crate) trait Rules {
    type Epoch: EpochShape;

    /// Which state of its vault it holds.
    fn lineage(&self) -> &Lineage;

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

    /// The epoch that is searched, if it is the one asked for and so many of its rows may be fetched.
    fn fetched(&self, asked: Epoch, rows: usize) -> Result<&Self::Epoch, StoreError> {
        let held = self.searched(asked)?;
        let actual = rows.saturating_mul(held.width()).saturating_mul(size_of::<i32>());
        if actual > MOST_FETCHED_BYTES {
            let what = "bytes of the rows asked for";
            return Err(StoreError::TooLarge { what, actual, limit: MOST_FETCHED_BYTES });
        }
        Ok(held)
    }

    /// Whether a publish may begin: the next one, if it comes from the commit that is held. It takes
    /// the place of one that has not ended. `false` when this one has begun already.
    fn may_begin(&self, advance: &Advance) -> Result<bool, StoreError> {
        self.refuse_stale(advance.revision)?;
        self.refuse_forked(advance.from)?;
        let Lineage { unfinished, turn, .. } = *self.lineage();
        if advance.turn == turn && unfinished == Some(advance.to) {
            return Ok(false);
        }
        if advance.turn == turn.wrapping_add(1) { Ok(true) } else { Err(StoreError::Overtaken) }
    }

    /// Whether a publish may go on: what it comes from is held still, and no other has begun.
    fn may_go_on(&self, advance: &Advance) -> Result<(), StoreError> {
        self.refuse_stale(advance.revision)?;
        self.refuse_forked(advance.from)?;
        let Lineage { unfinished, turn, .. } = *self.lineage();
        if advance.turn == turn && unfinished.is_none_or(|commit| commit == advance.to) {
            Ok(())
        } else {
            Err(StoreError::Overtaken)
        }
    }

    /// Whether rows of this width may be put into an epoch. The first ones fix its width.
    fn may_upsert(&self, advance: &Advance, epoch: Epoch, width: usize) -> Result<(), StoreError> {
        self.may_go_on(advance)?;
        self.refuse_replaced(epoch)?;
        self.refuse_blocks(epoch)?;
        match self.epochs().get(&epoch) {
            Some(held) if held.width() != width => {
                Err(StoreError::Width { expected: held.width(), actual: width })
            }
            Some(_) => Ok(()),
            None => room("epochs of a collection", self.epochs().len(), MOST_EPOCHS),
        }
    }

    /// Whether rows of an epoch may be deleted.
    fn may_delete(&self, advance: &Advance, epoch: Epoch) -> Result<(), StoreError> {
        self.may_go_on(advance)?;
        self.refuse_replaced(epoch)?;
        self.refuse_blocks(epoch)?;
        self.epoch(epoch).map(drop)
    }

    /// Whether an epoch may become the one that is searched: one that holds rows. Those before
    /// the current one were erased when it was activated. `false` when it has become that already,
    /// by this very publish.
    fn may_activate(&self, advance: &Advance, epoch: Epoch) -> Result<bool, StoreError> {
        if self.has_reached(advance, epoch) {
            return Ok(false);
        }
        self.may_go_on(advance)?;
        self.refuse_blocks(epoch)?;
        self.epoch(epoch)?;
        Ok(true)
    }

    /// Whether blocks of rows of this width may become what is searched. An epoch that has blocks
    /// already gets these in their place. `false` when that was done already, by this very publish.
    fn may_activate_blocks(
        &self,
        advance: &Advance,
        epoch: Epoch,
        width: usize,
        blocks: u64,
    ) -> Result<bool, StoreError> {
        assert!(blocks > 0, "an epoch of blocks has at least one");
        let held = self.epochs().get(&epoch);
        if self.has_reached(advance, epoch)
            && held.is_some_and(|held| (held.width(), held.blocks()) == (width, blocks))
        {
            return Ok(false);
        }
        self.may_go_on(advance)?;
        self.refuse_replaced(epoch)?;
        match held {
            Some(held) if held.blocks() == 0 => {
                Err(StoreError::OtherKind { epoch, held: "rows", given: "blocks" })
            }
            Some(held) if held.width() != width => {
                Err(StoreError::Width { expected: held.width(), actual: width })
            }
            _ => Ok(true),
        }
    }

    /// Whether a publish has ended already, with this epoch.
    fn has_reached(&self, advance: &Advance, epoch: Epoch) -> bool {
        let mut reached = *self.lineage();
        reached.reach(advance);
        *self.lineage() == reached && self.current() == Some(epoch)
    }

    /// Whether all epochs may be forgotten: those of the commit named. `false` when there is nothing
    /// to forget.
    fn may_reset(&self, from: Option<CommitName>) -> Result<bool, StoreError> {
        let nothing = Lineage { turn: self.lineage().turn, ..Lineage::default() };
        if *self.lineage() == nothing && self.epochs().is_empty() {
            return Ok(false);
        }
        self.refuse_forked(from)?;
        Ok(true)
    }

    /// Refuses to go back behind the latest revision.
    fn refuse_stale(&self, given: Revision) -> Result<(), StoreError> {
        let latest = self.lineage().revision;
        if given < latest { Err(StoreError::Stale { given, latest }) } else { Ok(()) }
    }

    /// Refuses what comes from another commit than the one that is held.
    fn refuse_forked(&self, given: Option<CommitName>) -> Result<(), StoreError> {
        let held = self.lineage().commit;
        if given == held { Ok(()) } else { Err(StoreError::Forked { given, held }) }
    }

    /// Refuses rows for an epoch of blocks.
    fn refuse_blocks(&self, epoch: Epoch) -> Result<(), StoreError> {
        match self.epochs().get(&epoch) {
            Some(held) if held.blocks() > 0 => {
                Err(StoreError::OtherKind { epoch, held: "blocks", given: "rows" })
            }
            _ => Ok(()),
        }
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
            blocks: held.blocks(),
        };
        let Lineage { revision, commit, unfinished, turn } = *self.lineage();
        CollectionState {
            revision,
            turn,
            commit,
            unfinished,
            current: self.current(),
            epochs: self.epochs().iter().map(state).collect(),
            damage: None,
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
