//! Which documents a commit changed.
//!
//! Two copies of a vault that both changed are brought together by repeating the changes of one on
//! top of the other. What to repeat, the journal says; the documents themselves are in the vault. A
//! journal is kept for the last commits only: copies part for days, not for years.

use std::collections::BTreeMap;

use rand_core::CryptoRng;

use super::unusable;
use crate::error::ClientError;
use crate::payload::{PayloadError, Reader, Writer};
use crate::vault::{Slot, Snapshot, Transaction};

const VERSION: u16 = 1;

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
    },
    /// Put every document there is: the first ingest.
    Everything,
    /// Began an epoch with the same documents.
    Epoch,
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
}

impl Journal {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(VERSION);
        let (kind, put, deleted): (u64, &[String], &[String]) = match self {
            Self::Documents { put, deleted } => (0, put, deleted),
            Self::Everything => (1, &[], &[]),
            Self::Epoch => (2, &[], &[]),
        };
        writer.u64(kind);
        for ids in [put, deleted] {
            writer.u64(ids.len() as u64);
            ids.iter().for_each(|id| writer.string(id));
        }
        writer.bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let kind = reader.u64()?;
        let mut ids = || (0..reader.size()?).map(|_| reader.string()).collect::<Result<_, _>>();
        let (put, deleted): (Vec<String>, Vec<String>) = (ids()?, ids()?);
        reader.finish()?;
        match kind {
            0 => Ok(Self::Documents { put, deleted }),
            1 => Ok(Self::Everything),
            2 => Ok(Self::Epoch),
            _ => Err(PayloadError::Invalid("an unknown kind of change".into())),
        }
    }

    /// Records what a commit does, and forgets commits of long ago.
    pub(super) fn record(
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
            match journal {
                Journal::Documents { put, deleted } => {
                    changes.documents.extend(deleted.into_iter().map(|id| (id, Fate::Deleted)));
                    changes.documents.extend(put.into_iter().map(|id| (id, Fate::Put)));
                }
                Journal::Everything => changes.everything = true,
                Journal::Epoch => changes.epoch = true,
            }
        }
        Ok(Some(changes))
    }
}
