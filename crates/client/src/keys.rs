//! The key schedule: one master secret, a secret for every epoch, every key and name of the epoch
//! derived from that.
//!
//! ```text
//! prk       = HKDF-Extract(salt = "shard/v1", master)                 SHA-256
//! epoch_prk = HKDF-Expand(prk, "epoch" || 0 || epoch || salt, 32)     epoch: u64 little-endian
//! vault id  = HKDF-Expand(prk, "vault id" || 0, 16)
//! seed      = HKDF-Expand(epoch_prk, purpose || 0 || subject, 32)
//! key       = Transform::sample(width, ChaCha20(seed))
//! ```
//!
//! The salt is 32 random bytes drawn when the epoch begins. A vault that was put back to an earlier
//! state and begins an epoch of a number it has used before thereby gets other keys than then.
//!
//! Who holds the secret of an epoch can derive all of that epoch and nothing of another, which is
//! what a vault that can only search is given.
//!
//! The same secret gives the same keys on every machine: the sampler uses IEEE arithmetic in a
//! fixed order and no platform library. Nothing here feeds encryption, whose randomness comes
//! fresh from the operating system for every request.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use hkdf::{Hkdf, HkdfExtract};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_core::CryptoRng;
use sha2::Sha256;
use shard_geometry::{OrthogonalKey, StructuredKey, Transform};
use shard_protocol::{CellHandle, Epoch, Row, RowHandle};
use shard_rlwe::blind::EpochKey;
use zeroize::{Zeroize, Zeroizing};

use crate::settings::TransformKind;
use crate::vault::{EpochSecret, MasterSecret};

/// Memory for derived keys: 256 keys of width 288 take 49 MB, of width 576 182 MB.
const CACHE_BYTES: u64 = 512 << 20;

/// Keys that the cache is first laid out for: the default number of cells.
const EXPECTED_KEYS: usize = 256;

/// Bytes of a row's MAC.
pub const ROW_MAC_BYTES: usize = 16;

/// Bytes of an epoch's salt.
const SALT_BYTES: usize = 32;

/// Bytes of a vault's id.
pub(crate) const VAULT_ID_BYTES: usize = 16;

/// Tells a vault from every other. It opens nothing; servers get claims that follow from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VaultId(pub(crate) [u8; VAULT_ID_BYTES]);

/// Whose key it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KeyOwner {
    /// All rows of a cell share it.
    Cell(u32),
    /// One row has it alone.
    Row(RowHandle),
}

/// Derives the keys and names of one epoch, and keeps recently used keys.
pub struct KeySchedule {
    secret: EpochSecret,
    /// Keys the MACs of rows.
    mac_key: Zeroizing<[u8; 32]>,
    /// Recently used keys of cells.
    cache: KeyCache,
}

/// Cell, family and width. A cache belongs to one epoch.
type KeyLabel = (u32, TransformKind, usize);

type KeyCache = Cache<KeyLabel, Arc<Transform>, KeyBytes>;

/// Keys weigh what memory they take.
#[derive(Clone)]
struct KeyBytes;

impl Weighter<KeyLabel, Arc<Transform>> for KeyBytes {
    fn weight(&self, _: &KeyLabel, key: &Arc<Transform>) -> u64 {
        key.bytes() as u64
    }
}

/// One shard: the whole budget is there for each key, however wide.
fn key_cache(budget: u64) -> KeyCache {
    let options = OptionsBuilder::new()
        .shards(1)
        .estimated_items_capacity(EXPECTED_KEYS)
        .weight_capacity(budget)
        .build()
        .expect("capacities are given");
    Cache::with_options(
        options,
        KeyBytes,
        DefaultHashBuilder::default(),
        DefaultLifecycle::default(),
    )
}

/// An epoch by its number, which everybody may know, and its salt, which makes it unlike any other
/// of that number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SaltedEpoch {
    /// The number.
    pub epoch: Epoch,
    /// The salt: no secret, as long as the master secret is one.
    pub salt: [u8; SALT_BYTES],
}

impl SaltedEpoch {
    /// An epoch that begins now.
    pub fn begin(epoch: Epoch, rng: &mut impl CryptoRng) -> Self {
        let mut salt = [0; SALT_BYTES];
        rng.fill_bytes(&mut salt);
        Self { epoch, salt }
    }
}

/// The secret of one epoch.
pub(crate) fn epoch_secret(master: &MasterSecret, epoch: &SaltedEpoch) -> EpochSecret {
    let subject = [&epoch.epoch.0.to_le_bytes()[..], &epoch.salt].concat();
    EpochSecret::from_bytes(&expand(&extract(master), "epoch", &subject))
}

/// What copies of a vault are known by: the same in every epoch, and derived from nothing else.
pub(crate) fn vault_id(master: &MasterSecret) -> VaultId {
    VaultId(*expand(&extract(master), "vault id", &[]))
}

/// The key under which a vault's values are sealed that whoever may search can open.
pub(crate) fn value_key(secret: &EpochSecret) -> Zeroizing<[u8; 32]> {
    expand(secret.expose(), "vault values", &[])
}

/// The key of an epoch's encrypted rows and queries.
pub(crate) fn blind_key(secret: &EpochSecret) -> EpochKey {
    EpochKey::new(*expand(secret.expose(), "blind", &[]))
}

/// The key that seals hints, checks and records of an epoch.
pub(crate) fn blind_seal_key(secret: &EpochSecret) -> Zeroizing<[u8; 32]> {
    expand(secret.expose(), "blind seal", &[])
}

/// The key under which pages and hints of an epoch's records have their names.
pub(crate) fn record_name_key(secret: &EpochSecret) -> Zeroizing<[u8; 32]> {
    expand(secret.expose(), "record names", &[])
}

/// `HKDF-Extract("shard/v1", master)`.
fn extract(master: &MasterSecret) -> Zeroizing<[u8; 32]> {
    let (mut prk, _) = Hkdf::<Sha256>::extract(Some(b"shard/v1"), master.expose());
    let copy = Zeroizing::new(prk.into());
    prk[..].zeroize();
    copy
}

/// `HKDF-Expand(prk, purpose || 0 || subject, L)`.
fn expand<const L: usize>(prk: &[u8; 32], purpose: &str, subject: &[u8]) -> Zeroizing<[u8; L]> {
    let hkdf = Hkdf::<Sha256>::from_prk(prk).expect("a PRK of 32 bytes is long enough");
    let mut out = Zeroizing::new([0; L]);
    hkdf.expand_multi_info(&[purpose.as_bytes(), &[0], subject], &mut *out)
        .expect("at most 32 bytes are asked for");
    out
}

impl KeySchedule {
    /// The schedule of one epoch of a master secret.
    pub fn new(master: &MasterSecret, epoch: &SaltedEpoch) -> Self {
        Self::of_epoch(epoch_secret(master, epoch))
    }

    /// The schedule of the epoch this secret belongs to.
    pub fn of_epoch(secret: EpochSecret) -> Self {
        let mac_key = expand(secret.expose(), "content tag", &[]);
        Self { secret, mac_key, cache: key_cache(CACHE_BYTES) }
    }

    fn expand<const L: usize>(&self, purpose: &str, subject: &[u8]) -> Zeroizing<[u8; L]> {
        expand(self.secret.expose(), purpose, subject)
    }

    fn word(&self, purpose: &str, subject: &[u8]) -> u64 {
        u64::from_le_bytes(*self.expand::<8>(purpose, subject))
    }

    fn fraction(&self, purpose: &str, subject: &[u8]) -> f64 {
        (self.word(purpose, subject) >> 11) as f64 * 2_f64.powi(-53)
    }

    /// The server's name for a row. `attempt` counts up when two ids collide, when a document
    /// is replaced, and when rows were deleted.
    pub fn row_handle(&self, id: &str, attempt: u32) -> RowHandle {
        let subject = [&attempt.to_le_bytes()[..], id.as_bytes()].concat();
        RowHandle(self.word("row handle", &subject))
    }

    /// What decides whether a row is a canary: from 0 to below 1.
    pub(crate) fn canary_word(&self, handle: RowHandle) -> f64 {
        self.fraction("canary", &handle.0.to_le_bytes())
    }

    /// Where the number of canaries lies in its range: from 0 to below 1.
    pub(crate) fn canary_spread(&self) -> f64 {
        self.fraction("canary spread", &[])
    }

    /// The server's name for a cell. A row with a key of its own is a cell of its own.
    pub fn cell_handle(&self, owner: KeyOwner) -> CellHandle {
        match owner {
            KeyOwner::Cell(cell) => CellHandle(self.word("cell tag", &cell.to_le_bytes())),
            KeyOwner::Row(handle) => CellHandle(handle.0),
        }
    }

    /// What a row is recognised by when it is published again:
    ///
    /// ```text
    /// mac = HMAC-SHA-256(mac key, cell || handle || coordinates), cut to 16 bytes
    /// ```
    ///
    /// Its key is the epoch's own, so equal rows of two epochs have MACs that say nothing of each
    /// other, and nobody else can compute the MAC of a row they guess.
    pub fn row_mac(&self, row: &Row) -> [u8; ROW_MAC_BYTES] {
        // HKDF-Extract is HMAC with the salt as its key, and takes its message in pieces.
        let mut hmac = HkdfExtract::<Sha256>::new(Some(&self.mac_key[..]));
        hmac.input_ikm(&row.cell.0.to_le_bytes());
        hmac.input_ikm(&row.handle.0.to_le_bytes());
        row.coordinates.iter().for_each(|z| hmac.input_ikm(&z.to_le_bytes()));
        let (whole, _) = hmac.finalize();
        std::array::from_fn(|at| whole[at])
    }

    /// Derives a key anew.
    pub fn derive(&self, kind: TransformKind, width: usize, owner: KeyOwner) -> Transform {
        let seed = match owner {
            KeyOwner::Cell(cell) => self.expand("cell key", &cell.to_le_bytes()),
            KeyOwner::Row(handle) => self.expand("row key", &handle.0.to_le_bytes()),
        };
        let mut words = ChaCha20Rng::from_seed(*seed);
        match kind {
            TransformKind::Orthogonal => {
                Transform::Orthogonal(OrthogonalKey::sample(width, &mut words))
            }
            TransformKind::Structured => {
                Transform::Structured(StructuredKey::sample(width, &mut words))
            }
        }
    }

    /// A cell's key, from the cache or derived. Keys of single rows are never kept.
    pub fn transform(&self, kind: TransformKind, width: usize, owner: KeyOwner) -> Arc<Transform> {
        let KeyOwner::Cell(cell) = owner else {
            return Arc::new(self.derive(kind, width, owner));
        };
        let label = (cell, kind, width);
        if let Some(key) = self.cache.get(&label) {
            return key;
        }
        // Derived outside the lock, so that the keys of one query are derived side by side.
        let key = Arc::new(self.derive(kind, width, owner));
        self.cache.insert(label, key.clone());
        key
    }
}

impl std::fmt::Debug for KeySchedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeySchedule(redacted)")
    }
}
