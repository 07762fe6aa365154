//! The root: one commit of a vault, and the tag of every value it consists of.
//!
//! ```text
//! header: magic 8 | format u16 | generation u64 | commit 16 | parent 16 | vault 16 | epoch u64 | salt 32
//! nonce 24 | sealed list of ( slot i64 | length u32 | tag 16 ) | tag 16
//! ```
//!
//! The header is not secret and is covered by the seal. An epoch of 0 means that there is none yet:
//! then the vault's own key seals the list, otherwise a key of the epoch, which whoever may search
//! holds as well. Values are known by their tags, so a root fixes a whole state of a vault.

use std::collections::BTreeMap;

use rand_core::CryptoRng;
use shard_protocol::{CommitName, Epoch};

use super::value::{
    COMMIT_BYTES, FORMAT, NONCE_BYTES, OVERHEAD_BYTES, Slot, TAG_BYTES, Tag, ValueKey, draw_nonce,
};
use crate::keys::{SaltedEpoch, VAULT_ID_BYTES, VaultId};

const MAGIC: [u8; 8] = *b"SHARDVLT";
const HEADER_BYTES: usize = 8 + 2 + 8 + COMMIT_BYTES + COMMIT_BYTES + VAULT_ID_BYTES + 8 + 32;
const ENTRY_BYTES: usize = 8 + 4 + TAG_BYTES;

/// The parent of a vault's first commit.
const NO_PARENT: CommitName = CommitName([0; COMMIT_BYTES]);

/// The longest root that is read: one of a hundred million documents.
pub(crate) const MAX_ROOT_BYTES: usize = 1 << 28;

/// A value of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// What it is known by.
    pub(crate) tag: Tag,
    /// Bytes when sealed.
    pub(crate) length: u32,
}

/// What a root says without being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RootHeader {
    /// How many commits led here.
    pub(crate) generation: u64,
    /// The name of this commit.
    pub(crate) commit: CommitName,
    /// The name of the commit before.
    parent: CommitName,
    /// Whose it is.
    pub(crate) vault: VaultId,
    /// The epoch of keys and names, once there are documents.
    pub(crate) epoch: Option<SaltedEpoch>,
}

/// An opened root.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) header: RootHeader,
    pub(crate) entries: BTreeMap<Slot, Entry>,
}

/// A root that cannot be read.
#[derive(Debug)]
pub(crate) enum RootError {
    /// Not a root, or cut.
    NotARoot,
    /// Of a format that this code does not know.
    Format(u16),
    /// The seal does not open: another key, or altered.
    Sealed,
}

impl RootHeader {
    /// The header of a vault without commits.
    pub(super) fn before_the_first(vault: VaultId) -> Self {
        Self { generation: 0, commit: NO_PARENT, parent: NO_PARENT, vault, epoch: None }
    }

    /// The header of the commit after this one.
    pub(super) fn next(&self, commit: CommitName) -> Self {
        let generation = self.generation + 1;
        Self { generation, commit, parent: self.commit, ..*self }
    }

    /// The commit before, unless this is the first.
    pub(crate) fn parent(&self) -> Option<CommitName> {
        (self.parent != NO_PARENT).then_some(self.parent)
    }

    fn encode(&self) -> Vec<u8> {
        let (epoch, salt) = self.epoch.map_or((0, [0; 32]), |e| (e.epoch.0, e.salt));
        [
            &MAGIC[..],
            &FORMAT.to_le_bytes(),
            &self.generation.to_le_bytes(),
            &self.commit.0,
            &self.parent.0,
            &self.vault.0,
            &epoch.to_le_bytes(),
            &salt,
        ]
        .concat()
    }

    /// Reads what a root says of itself; it may lie until it is opened.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RootError> {
        let header = bytes.get(..HEADER_BYTES).ok_or(RootError::NotARoot)?;
        let mut rest = header;
        fn take<const L: usize>(rest: &mut &[u8]) -> [u8; L] {
            let (taken, left) = rest.split_first_chunk().expect("the header's length was checked");
            *rest = left;
            *taken
        }
        if take::<8>(&mut rest) != MAGIC {
            return Err(RootError::NotARoot);
        }
        let format = u16::from_le_bytes(take(&mut rest));
        if format != FORMAT {
            return Err(RootError::Format(format));
        }
        let generation = u64::from_le_bytes(take(&mut rest));
        let (commit, parent) = (CommitName(take(&mut rest)), CommitName(take(&mut rest)));
        let vault = VaultId(take(&mut rest));
        let (epoch, salt) = (u64::from_le_bytes(take(&mut rest)), take(&mut rest));
        let epoch = (epoch > 0).then_some(SaltedEpoch { epoch: Epoch(epoch), salt });
        Ok(Self { generation, commit, parent, vault, epoch })
    }
}

impl Root {
    /// Seals the root.
    pub(super) fn seal(&self, key: &ValueKey, rng: &mut impl CryptoRng) -> Vec<u8> {
        let mut list = Vec::with_capacity(self.entries.len() * ENTRY_BYTES + TAG_BYTES);
        for (slot, entry) in &self.entries {
            list.extend_from_slice(&slot.id().to_le_bytes());
            list.extend_from_slice(&entry.length.to_le_bytes());
            list.extend_from_slice(&entry.tag);
        }
        let header = self.header.encode();
        let nonce = draw_nonce(rng);
        let sealed = key.seal_under(&header, nonce, list);
        [&header[..], &nonce, &sealed].concat()
    }

    /// Opens a root.
    pub(super) fn open(bytes: &[u8], key: &ValueKey) -> Result<Self, RootError> {
        let header = RootHeader::decode(bytes)?;
        let (plain, rest) = bytes.split_at(HEADER_BYTES);
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(RootError::NotARoot)?;
        let list = key.open_under(plain, *nonce, sealed).map_err(|_| RootError::Sealed)?;
        let entries = list
            .chunks(ENTRY_BYTES)
            .map(|entry| {
                let (id, rest) = entry.split_first_chunk::<8>()?;
                let (length, tag) = rest.split_first_chunk::<4>()?;
                let slot = Slot::from_id(i64::from_le_bytes(*id))?;
                let length = u32::from_le_bytes(*length);
                Some((slot, Entry { tag: tag.try_into().ok()?, length }))
            })
            .collect::<Option<BTreeMap<_, _>>>()
            .filter(|entries| entries.len() * ENTRY_BYTES == list.len())
            .ok_or(RootError::NotARoot)?;
        Ok(Self { header, entries })
    }

    /// The numbers of the slots between two, which are of one table.
    pub(crate) fn numbered(&self, table: fn(u32) -> Slot) -> impl Iterator<Item = u32> + '_ {
        let slots = self.entries.range(table(0)..=table(u32::MAX));
        slots.map(|(slot, _)| slot.id() as u32)
    }

    /// Bytes of all its values when sealed.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.values().map(|entry| u64::from(entry.length)).sum()
    }

    /// Whether a value could have this length.
    pub(super) fn is_possible(length: u32) -> bool {
        (OVERHEAD_BYTES..=super::value::MAX_VALUE_BYTES).contains(&(length as usize))
    }
}
