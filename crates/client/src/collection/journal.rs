//! Which documents a commit changed.
//!
//! Two copies of a vault that both changed are brought together by repeating the changes of one on
//! top of the other. What to repeat, the journal says; the documents themselves are in the vault. A
//! journal is kept for the last commits only: copies part for days, not for years.
//!
//! The commit that repeats changes names the commits that they are from. Another copy may have those
//! very commits, from a backup: it then knows that they are repeated already. Otherwise it would
//! repeat them again, on top of whatever came after.

use std::collections::{BTreeMap, BTreeSet};

use rand_core::CryptoRng;
use shard_protocol::CommitName;

use super::unusable;
use crate::error::ClientError;
use crate::payload::{PayloadError, Reader, Writer};
use crate::vault::{Slot, Snapshot, Transaction};

const VERSION: u16 = 2;
/// Before documents had records.
const WITHOUT_RECORDS: u16 = 1;

/// Commits whose journal is kept.
const KEPT: usize = 512;

/// What a commit did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Journal {
    /// Put and deleted these documents.
    Documents {
        /// Ids of documents that are new or another vector.
        put: Vec<String>,
        /// Ids of documents that went.
        deleted: Vec<String>,
        /// Ids of documents that are another record, or have none any more.
        recorded: Vec<String>,
    },
    /// Put every document there is: the first ingest.
    Everything,
    /// Began an epoch with the same documents.
    Epoch,
    /// Repeated changes of commits that are not among those that led here.
    Merged {
        /// Ids of documents that are new or another vector, and the commits that put them.
        put: Vec<(String, CommitName)>,
        /// Ids of documents that went, and the commits that deleted them.
        deleted: Vec<(String, CommitName)>,
        /// Ids of documents that are another record, and the commits that set them.
        recorded: Vec<(String, CommitName)>,
        /// All commits whose changes are in this one, also those that changed nothing here.
        repeated: Vec<CommitName>,
    },
}

/// Whether a document was last put or deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is there, and changed.
    Put,
    /// It is gone.
    Deleted,
}

/// The changes of some commits together.
#[derive(Default, Debug)]
pub(crate) struct Changes {
    /// What became of each document that was touched.
    pub(crate) documents: BTreeMap<String, Fate>,
    /// Whether all documents count as put.
    pub(crate) everything: bool,
    /// Whether an epoch began.
    pub(crate) epoch: bool,
    /// The commit that each of these changes is from.
    pub(crate) origins: BTreeMap<String, CommitName>,
    /// Documents whose record may be another than before, and the commit that made it so.
    pub(crate) records: BTreeMap<String, CommitName>,
    /// The commit that put every document there is.
    pub(crate) first: Option<CommitName>,
    /// Every commit whose changes these are.
    pub(crate) commits: BTreeSet<CommitName>,
}

impl Journal {
    /// Of a commit that leaves the documents as they are.
    pub(crate) fn nothing() -> Self {
        Self::Documents { put: Vec::new(), deleted: Vec::new(), recorded: Vec::new() }
    }

    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(VERSION);
        fn ids(changes: &[(String, CommitName)]) -> Vec<&str> {
            changes.iter().map(|(id, _)| id.as_str()).collect()
        }
        fn all(ids: &[String]) -> Vec<&str> {
            ids.iter().map(String::as_str).collect()
        }
        let (kind, lists): (u64, [Vec<&str>; 3]) = match self {
            Self::Documents { put, deleted, recorded } => {
                (0, [all(put), all(deleted), all(recorded)])
            }
            Self::Everything => (1, Default::default()),
            Self::Epoch => (2, Default::default()),
            Self::Merged { put, deleted, recorded, .. } => {
                (3, [ids(put), ids(deleted), ids(recorded)])
            }
        };
        writer.u64(kind);
        for ids in lists {
            writer.u64(ids.len() as u64);
            ids.iter().for_each(|id| writer.string(id));
        }
        if let Self::Merged { put, deleted, recorded, repeated } = self {
            let origins = put.iter().chain(deleted).chain(recorded).map(|(_, origin)| origin);
            origins.for_each(|origin| writer.bytes.extend_from_slice(&origin.0));
            writer.u64(repeated.len() as u64);
            repeated.iter().for_each(|commit| writer.bytes.extend_from_slice(&commit.0));
        }
        writer.bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        let earlier = bytes.starts_with(&WITHOUT_RECORDS.to_le_bytes());
        let mut reader = Reader::new(bytes, if earlier { WITHOUT_RECORDS } else { VERSION })?;
        let kind = reader.u64()?;
        let mut ids = || (0..reader.size()?).map(|_| reader.string()).collect::<Result<_, _>>();
        let (put, deleted): (Vec<_>, Vec<_>) = (ids()?, ids()?);
        let recorded = if earlier { Vec::new() } else { ids()? };
        let journal = match kind {
            0 => Self::Documents { put, deleted, recorded },
            1 => Self::Everything,
            2 => Self::Epoch,
            3 => {
                let mut from = |ids: Vec<String>| -> Result<Vec<_>, PayloadError> {
                    ids.into_iter().map(|id| Ok((id, CommitName(reader.array()?)))).collect()
                };
                let (put, deleted, recorded) = (from(put)?, from(deleted)?, from(recorded)?);
                let names = (0..reader.size()?).map(|_| Ok(CommitName(reader.array()?)));
                let repeated = names.collect::<Result<_, PayloadError>>()?;
                Self::Merged { put, deleted, recorded, repeated }
            }
            _ => return Err(PayloadError::Invalid("an unknown kind of change".into())),
        };
        reader.finish()?;
        Ok(journal)
    }

    /// Records what a commit does, and forgets commits of long ago.
    pub(crate) fn record(
        &self,
        transaction: &mut Transaction<'_>,
        rng: &mut impl CryptoRng,
    ) -> Result<(), ClientError> {
        let kept: Vec<u32> = transaction.before().root().numbered(Slot::Journal).collect();
        let surplus = (kept.len() + 1).saturating_sub(KEPT);
        for &generation in &kept[..surplus] {
            transaction.remove(Slot::Journal(generation))?;
        }
        // After 2^32 commits of one vault the journal of the last is lost, and nothing else.
        let slot = Slot::Journal(transaction.generation() as u32);
        Ok(transaction.put(slot, &self.encode(), rng)?)
    }
}

impl Changes {
    /// What was changed after a generation; `None` when that is not known any more.
    pub(crate) fn since(snapshot: &Snapshot, generation: u64) -> Result<Option<Self>, ClientError> {
        let mut changes = Self::default();
        for generation in generation + 1..=snapshot.root().header.generation {
            let slot = Slot::Journal(generation as u32);
            if !snapshot.contains(slot) {
                return Ok(None);
            }
            let journal = Journal::decode(&snapshot.read(slot)?).map_err(unusable("journal"))?;
            let commit = snapshot.commit_at(generation)?.unwrap_or_default();
            changes.commits.insert(commit);
            match journal {
                Journal::Documents { put, deleted, recorded } => {
                    deleted.into_iter().for_each(|id| changes.add(id, Fate::Deleted, commit));
                    put.into_iter().for_each(|id| changes.add(id, Fate::Put, commit));
                    changes.records.extend(recorded.into_iter().map(|id| (id, commit)));
                }
                Journal::Everything => {
                    changes.everything = true;
                    changes.first = Some(commit);
                }
                Journal::Epoch => changes.epoch = true,
                Journal::Merged { put, deleted, recorded, repeated } => {
                    deleted.into_iter().for_each(|(id, from)| changes.add(id, Fate::Deleted, from));
                    put.into_iter().for_each(|(id, from)| changes.add(id, Fate::Put, from));
                    changes.records.extend(recorded);
                    changes.commits.extend(repeated);
                }
            }
        }
        Ok(Some(changes))
    }

    fn add(&mut self, id: String, fate: Fate, from: CommitName) {
        // A record goes with its document, and a document that comes again comes without.
        let gone = Some(&Fate::Deleted);
        if fate == Fate::Deleted || self.documents.get(&id) == gone {
            self.records.insert(id.clone(), from);
        }
        self.origins.insert(id.clone(), from);
        self.documents.insert(id, fate);
    }

    /// Whether a document was put.
    #[cfg(feature = "remote")]
    pub(crate) fn has_put(&self, id: &str) -> bool {
        self.documents.get(id).map_or(self.everything, |fate| *fate == Fate::Put)
    }

    /// Whether a document that is there has, or may have, another record than before.
    #[cfg(feature = "remote")]
    pub(crate) fn has_recorded(&self, id: &str) -> bool {
        self.records.contains_key(id) && self.documents.get(id) != Some(&Fate::Deleted)
    }

    /// Leaves out the changes of commits that somebody has already.
    pub(crate) fn without(&mut self, known: &BTreeSet<CommitName>) {
        self.origins.retain(|_, from| !known.contains(from));
        self.documents.retain(|id, _| self.origins.contains_key(id));
        self.records.retain(|_, from| !known.contains(from));
        if self.first.is_some_and(|first| known.contains(&first)) {
            self.everything = false;
        }
    }
}

/// Whether a commit led to this one: it is in its history, or its changes were repeated in a commit
/// whose journal is kept.
#[cfg(feature = "remote")]
pub(crate) fn came_from(
    snapshot: &Snapshot,
    commit: CommitName,
    generation: u64,
) -> Result<bool, ClientError> {
    if snapshot.commit_at(generation)? == Some(commit) {
        return Ok(true);
    }
    for number in snapshot.root().numbered(Slot::Journal) {
        let bytes = snapshot.read(Slot::Journal(number))?;
        if let Journal::Merged { repeated, .. } =
            Journal::decode(&bytes).map_err(unusable("journal"))?
            && repeated.contains(&commit)
        {
            return Ok(true);
        }
    }
    Ok(false)
}
