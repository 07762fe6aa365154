//! The root: one commit of a vault, and the digest of every value it consists of.
//!
//! ```text
//! header: magic 8 | format u16 | generation u64 | commit 16 | parent 16 | vault 16 | epoch u64 | salt 32
//! nonce 24 | sealed list of ( slot i64 | length u32 | digest 16 ) | tag 16 | mac 32
//! ```
//!
//! The header is not secret and is covered by the seal. An epoch of 0 means that there is none yet:
//! then the vault's own key seals the list, otherwise a key of the epoch, which whoever may search
//! holds as well. Values are known by their digests, so a root fixes a whole state of a vault.
//!
//! The MAC is over everything before it, under a key that only the owner has: whoever may search
//! could seal a root, and an owner takes none without it. A query vault cannot check it.

use std::collections::BTreeMap;

use hkdf::Hkdf;
use rand_core::CryptoRng;
use sha2::Sha256;
use shard_protocol::{CommitName, Epoch};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::value::{
    COMMIT_BYTES, DIGEST_BYTES, Digest, FORMAT, NONCE_BYTES, OVERHEAD_BYTES, Slot, TAG_BYTES,
    ValueKey, draw_nonce,
};
use crate::keys::{SaltedEpoch, VAULT_ID_BYTES, VaultId};

const MAGIC: [u8; 8] = *b"SHARDVLT";
const HEADER_BYTES: usize = 8 + 2 + 8 + COMMIT_BYTES + COMMIT_BYTES + VAULT_ID_BYTES + 8 + 32;
const ENTRY_BYTES: usize = 8 + 4 + DIGEST_BYTES;
const MAC_BYTES: usize = 32;

/// The parent of a vault's first commit.
const NO_PARENT: CommitName = CommitName([0; COMMIT_BYTES]);

/// The longest root that is read: one of a hundred million documents.
pub(crate) const MAX_ROOT_BYTES: usize = 1 << 28;

/// A value of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// What it is known by.
    pub(crate) digest: Digest,
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

/// What shows that a root is the owner's.
pub(super) struct OwnerKey(Zeroizing<[u8; 32]>);

impl OwnerKey {
    /// Derived from the vault's own key.
    pub(super) fn new(data: &[u8; 32]) -> Self {
        let hkdf = Hkdf::<Sha256>::from_prk(data).expect("a key of 32 bytes is long enough");
        let mut key = Zeroizing::new([0; 32]);
        hkdf.expand(b"shard vault root", &mut *key).expect("32 bytes are few enough");
        Self(key)
    }

    /// `HMAC-SHA-256(key, root)`.
    fn mac(&self, root: &[u8]) -> [u8; MAC_BYTES] {
        // HKDF-Extract is HMAC with the salt as its key.
        let (mac, _) = Hkdf::<Sha256>::extract(Some(&self.0[..]), root);
        mac.into()
    }
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

/// Where the id of the vault is in a root.
const VAULT_AT: std::ops::Range<usize> = 8 + 2 + 8 + 2 * COMMIT_BYTES..HEADER_BYTES - 8 - 32;

/// A root with another id in its header, if it has the first one. It does not open until the id that it
/// was sealed with is back.
pub(crate) fn with_id(root: &[u8], from: VaultId, to: VaultId) -> Option<Vec<u8>> {
    (root.get(VAULT_AT)? == from.0)
        .then(|| [&root[..VAULT_AT.start], &to.0, &root[VAULT_AT.end..]].concat())
}

impl Root {
    /// Seals the root.
    pub(super) fn seal(
        &self,
        key: &ValueKey,
        owner: &OwnerKey,
        rng: &mut impl CryptoRng,
    ) -> Vec<u8> {
        let mut list = Vec::with_capacity(self.entries.len() * ENTRY_BYTES + TAG_BYTES);
        for (slot, entry) in &self.entries {
            list.extend_from_slice(&slot.id().to_le_bytes());
            list.extend_from_slice(&entry.length.to_le_bytes());
            list.extend_from_slice(&entry.digest);
        }
        let header = self.header.encode();
        let nonce = draw_nonce(rng);
        let sealed = key.seal_under(&header, nonce, list);
        let mut root = [&header[..], &nonce, &sealed].concat();
        root.extend_from_slice(&owner.mac(&root));
        root
    }

    /// Opens a root.
    pub(super) fn open(
        bytes: &[u8],
        key: &ValueKey,
        owner: Option<&OwnerKey>,
    ) -> Result<Self, RootError> {
        let header = RootHeader::decode(bytes)?;
        let (bytes, mac) = bytes.split_last_chunk::<MAC_BYTES>().ok_or(RootError::NotARoot)?;
        if bytes.len() < HEADER_BYTES {
            return Err(RootError::NotARoot);
        }
        if let Some(owner) = owner
            && !bool::from(owner.mac(bytes).ct_eq(mac))
        {
            return Err(RootError::Sealed);
        }
        let (plain, rest) = bytes.split_at(HEADER_BYTES);
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(RootError::NotARoot)?;
        let list = key.open_under(plain, *nonce, sealed).map_err(|_| RootError::Sealed)?;
        let entries = list
            .chunks(ENTRY_BYTES)
            .map(|entry| {
                let (id, rest) = entry.split_first_chunk::<8>()?;
                let (length, digest) = rest.split_first_chunk::<4>()?;
                let slot = Slot::from_id(i64::from_le_bytes(*id))?;
                let length = u32::from_le_bytes(*length);
                Some((slot, Entry { digest: digest.try_into().ok()?, length }))
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

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn sealed(owner: u8) -> Vec<u8> {
        let vault = VaultId([7; VAULT_ID_BYTES]);
        let header = RootHeader::before_the_first(vault).next(CommitName([1; 16]));
        let entry = Entry { digest: [3; 16], length: 100 };
        let entries = BTreeMap::from([(Slot::Model, entry), (Slot::Vectors(4), entry)]);
        let (shared, owner) = (ValueKey::new(&[9; 32]), OwnerKey::new(&[owner; 32]));
        Root { header, entries }.seal(&shared, &owner, &mut StdRng::seed_from_u64(1))
    }

    fn open(bytes: &[u8], owner: Option<u8>) -> Result<Root, RootError> {
        let owner = owner.map(|byte| OwnerKey::new(&[byte; 32]));
        Root::open(bytes, &ValueKey::new(&[9; 32]), owner.as_ref())
    }

    #[test]
    fn a_root_made_by_somebody_who_may_only_search_is_refused_by_its_owner() {
        let (own, forged) = (sealed(1), sealed(2));
        assert_eq!(open(&own, Some(1)).unwrap().entries.len(), 2);
        assert!(matches!(open(&forged, Some(1)), Err(RootError::Sealed)));
        // Who may only search cannot tell.
        assert!(open(&own, None).is_ok() && open(&forged, None).is_ok());
    }

    #[test]
    fn a_root_under_another_id_opens_once_its_own_is_back() {
        let (id, other) = (VaultId([7; VAULT_ID_BYTES]), VaultId([8; VAULT_ID_BYTES]));
        let own = sealed(1);
        let kept = with_id(&own, id, other).unwrap();
        assert!(own.windows(id.0.len()).any(|bytes| bytes == id.0));
        assert!(!kept.windows(id.0.len()).any(|bytes| bytes == id.0));
        assert!(matches!(open(&kept, None), Err(RootError::Sealed)));
        assert_eq!(with_id(&kept, other, id), Some(own));
        assert_eq!(with_id(&kept, id, other), None);
        assert!((0..VAULT_AT.end).all(|length| with_id(&kept[..length], other, id).is_none()));
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_noticed() {
        let own = sealed(1);
        for bit in 0..own.len() * 8 {
            let mut bytes = own.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&bytes, Some(1)).is_err(), "bit {bit}");
        }
        for length in 0..own.len() {
            assert!(open(&own[..length], Some(1)).is_err() && open(&own[..length], None).is_err());
        }
    }
}
