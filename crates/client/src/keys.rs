//! The key schedule: one master secret, every key and name derived from it.
//!
//! ```text
//! prk  = HKDF-Extract(salt = "shard/v1", master)                      SHA-256
//! seed = HKDF-Expand(prk, purpose || 0 || epoch || subject, 32)       epoch: u64 little-endian
//! key  = Transform::sample(width, ChaCha20(seed))
//! ```
//!
//! The same secret gives the same keys on every machine: the sampler uses IEEE arithmetic in a
//! fixed order and no platform library. Nothing here feeds encryption, whose randomness comes
//! fresh from the operating system for every request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hkdf::Hkdf;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::Sha256;
use shard_geometry::{OrthogonalKey, StructuredKey, Transform};
use shard_protocol::{CellTag, Epoch, RowHandle};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::settings::TransformKind;
use crate::vault::MasterSecret;

/// Memory for derived keys: 256 keys of width 288 take 49 MB, of width 576 182 MB.
const CACHE_BYTES: usize = 512 << 20;

/// Whose key it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KeyOwner {
    /// All rows of a cell share it.
    Cell(u32),
    /// One row has it alone.
    Row(RowHandle),
}

/// Derives keys and names, and keeps recently used keys.
pub struct KeySchedule {
    prk: PseudoRandomKey,
    cache: KeyCache,
}

#[derive(ZeroizeOnDrop)]
struct PseudoRandomKey([u8; 32]);

impl KeySchedule {
    /// The schedule of a master secret.
    pub fn new(master: &MasterSecret) -> Self {
        let (prk, _) = Hkdf::<Sha256>::extract(Some(b"shard/v1"), master.expose());
        let prk = Zeroizing::new(<[u8; 32]>::from(prk));
        Self { prk: PseudoRandomKey(*prk), cache: KeyCache::new(CACHE_BYTES) }
    }

    fn expand<const L: usize>(
        &self,
        purpose: &str,
        epoch: Epoch,
        subject: &[u8],
    ) -> Zeroizing<[u8; L]> {
        let hkdf = Hkdf::<Sha256>::from_prk(&self.prk.0).expect("a PRK of 32 bytes is long enough");
        let mut out = Zeroizing::new([0; L]);
        let info = [purpose.as_bytes(), &[0], &epoch.0.to_le_bytes(), subject];
        hkdf.expand_multi_info(&info, &mut *out).expect("at most 32 bytes are asked for");
        out
    }

    fn word(&self, purpose: &str, epoch: Epoch, subject: &[u8]) -> u64 {
        u64::from_le_bytes(*self.expand::<8>(purpose, epoch, subject))
    }

    /// The server's name for a row. `attempt` counts up when two ids collide, and when a row with
    /// a key of its own is replaced.
    pub fn row_handle(&self, epoch: Epoch, id: &str, attempt: u32) -> RowHandle {
        let subject = [&attempt.to_le_bytes()[..], id.as_bytes()].concat();
        RowHandle(self.word("row handle", epoch, &subject))
    }

    /// The server's name for canary number `number`.
    pub(crate) fn canary_handle(&self, epoch: Epoch, number: u32, attempt: u32) -> RowHandle {
        let subject = [attempt.to_le_bytes(), number.to_le_bytes()].concat();
        RowHandle(self.word("canary handle", epoch, &subject))
    }

    /// The words that canary number `number` is drawn from.
    pub(crate) fn canary_words(&self, epoch: Epoch, number: u32) -> ChaCha20Rng {
        ChaCha20Rng::from_seed(*self.expand("canary", epoch, &number.to_le_bytes()))
    }

    /// The server's name for a cell. A row with a key of its own is a cell of its own.
    pub fn cell_tag(&self, epoch: Epoch, owner: KeyOwner) -> CellTag {
        match owner {
            KeyOwner::Cell(cell) => CellTag(self.word("cell tag", epoch, &cell.to_le_bytes())),
            KeyOwner::Row(handle) => CellTag(handle.0),
        }
    }

    /// Derives a key anew.
    pub fn derive(
        &self,
        kind: TransformKind,
        width: usize,
        epoch: Epoch,
        owner: KeyOwner,
    ) -> Transform {
        let seed = match owner {
            KeyOwner::Cell(cell) => self.expand("cell key", epoch, &cell.to_le_bytes()),
            KeyOwner::Row(handle) => self.expand("row key", epoch, &handle.0.to_le_bytes()),
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
    pub fn transform(
        &self,
        kind: TransformKind,
        width: usize,
        epoch: Epoch,
        owner: KeyOwner,
    ) -> Arc<Transform> {
        let KeyOwner::Cell(cell) = owner else {
            return Arc::new(self.derive(kind, width, epoch, owner));
        };
        let label = (epoch, cell, kind, width);
        if let Some(key) = self.cache.find(&label) {
            return key;
        }
        // Derived outside the lock, so that the keys of one query are derived side by side.
        let key = Arc::new(self.derive(kind, width, epoch, owner));
        self.cache.insert(label, key.clone());
        key
    }
}

impl std::fmt::Debug for KeySchedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeySchedule(redacted)")
    }
}

type KeyLabel = (Epoch, u32, TransformKind, usize);

/// Least recently used keys give way once the budget is spent.
struct KeyCache {
    budget: usize,
    state: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    keys: HashMap<KeyLabel, (u64, Arc<Transform>)>,
    bytes: usize,
    clock: u64,
}

impl KeyCache {
    fn new(budget: usize) -> Self {
        Self { budget, state: Mutex::default() }
    }

    fn find(&self, label: &KeyLabel) -> Option<Arc<Transform>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        let (used, key) = state.keys.get_mut(label)?;
        *used = now;
        Some(key.clone())
    }

    fn insert(&self, label: KeyLabel, key: Arc<Transform>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        state.bytes += key.bytes();
        if let Some((_, replaced)) = state.keys.insert(label, (now, key)) {
            state.bytes -= replaced.bytes();
        }
        while state.bytes > self.budget && state.keys.len() > 1 {
            let oldest = *state.keys.iter().min_by_key(|(_, (used, _))| used).expect("not empty").0;
            if let Some((_, key)) = state.keys.remove(&oldest) {
                state.bytes -= key.bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch(1);

    fn schedule() -> KeySchedule {
        KeySchedule::new(&MasterSecret::from_bytes(&[7; 32]))
    }

    fn image(key: &Transform) -> Vec<f64> {
        let mut x: Vec<f64> = (0..key.width()).map(|i| 1.0 / (i as f64 + 1.0)).collect();
        key.apply(&mut x);
        x
    }

    fn fingerprint(values: &[f64]) -> u64 {
        // FNV-1a over the exact bits.
        values
            .iter()
            .flat_map(|v| v.to_bits().to_le_bytes())
            .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
    }

    /// Master secret of 32 bytes 7, epoch 1, width 288, the image of `x_i = 1 / (i + 1)`. These
    /// figures must hold on every machine and in every later version: rows on servers depend on
    /// them.
    #[test]
    fn golden_keys_and_names_do_not_change() {
        let keys = schedule();
        let orthogonal = keys.derive(TransformKind::Orthogonal, 288, EPOCH, KeyOwner::Cell(3));
        let structured =
            keys.derive(TransformKind::Structured, 288, EPOCH, KeyOwner::Row(RowHandle(5)));
        assert_eq!(
            [
                fingerprint(&image(&orthogonal)),
                fingerprint(&image(&structured)),
                keys.row_handle(EPOCH, "doc-1", 0).0,
                keys.cell_tag(EPOCH, KeyOwner::Cell(3)).0,
            ],
            [
                14_195_428_812_069_444_948,
                7_653_024_491_064_473_053,
                3_235_735_305_333_622_930,
                202_381_961_112_835_116,
            ]
        );
    }

    #[test]
    fn every_part_of_the_label_changes_the_key() {
        let keys = schedule();
        let derive = |kind, epoch, owner| image(&keys.derive(kind, 16, epoch, owner));
        let base = derive(TransformKind::Orthogonal, EPOCH, KeyOwner::Cell(1));
        assert_ne!(base, derive(TransformKind::Orthogonal, Epoch(2), KeyOwner::Cell(1)));
        assert_ne!(base, derive(TransformKind::Orthogonal, EPOCH, KeyOwner::Cell(2)));
        assert_ne!(base, derive(TransformKind::Orthogonal, EPOCH, KeyOwner::Row(RowHandle(1))));
        assert_ne!(base, derive(TransformKind::Structured, EPOCH, KeyOwner::Cell(1)));
        let other = KeySchedule::new(&MasterSecret::from_bytes(&[8; 32]));
        assert_ne!(
            base,
            image(&other.derive(TransformKind::Orthogonal, 16, EPOCH, KeyOwner::Cell(1)))
        );
        assert_ne!(keys.row_handle(EPOCH, "a", 0), keys.row_handle(Epoch(2), "a", 0));
        assert_ne!(keys.row_handle(EPOCH, "a", 0), keys.row_handle(EPOCH, "a", 1));
    }

    #[test]
    fn cache_stays_within_its_budget_and_keeps_the_recent() {
        let keys = schedule();
        let derive = |cell| {
            Arc::new(keys.derive(TransformKind::Orthogonal, 32, EPOCH, KeyOwner::Cell(cell)))
        };
        let size = derive(0).bytes();
        let cache = KeyCache::new(3 * size);
        let label = |cell| (EPOCH, cell, TransformKind::Orthogonal, 32);
        for cell in 0..3 {
            cache.insert(label(cell), derive(cell));
        }
        assert!(cache.find(&label(0)).is_some()); // now cell 1 is the oldest
        cache.insert(label(3), derive(3));
        assert!(cache.find(&label(1)).is_none());
        assert!([0, 2, 3].iter().all(|&cell| cache.find(&label(cell)).is_some()));
        assert_eq!(cache.state.lock().unwrap().bytes, 3 * size);
    }
}
