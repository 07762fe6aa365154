//! From what the owner presents to the key that opens the keyring.

use argon2::{Algorithm, Argon2, Params, Version};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::error::VaultError;
use super::secret::{SECRET_BYTES, Unlock};

/// The fewest bytes a key file may hold.
pub const MIN_KEY_FILE_BYTES: usize = 32;

/// Bytes of salt, for either way of unlocking.
pub(super) const SALT_BYTES: usize = 32;

/// Separates keys made from key files by this format from any other use of the same file.
const KEY_FILE_INFO: &[u8] = b"shard vault keyring v1 key file";

/// Separates keys made from recovery codes from those made from key files.
const RECOVERY_INFO: &[u8] = b"shard vault keyring v1 recovery code";

/// How much work Argon2id does for one passphrase.
///
/// The limits hold for values read from disk as well: a hostile keyring can make opening fail
/// but cannot exhaust memory or hang the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KdfCost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl KdfCost {
    /// The most memory, 1 GiB.
    pub const MAX_MEMORY_KIB: u32 = 1 << 20;
    /// The most passes over the memory.
    pub const MAX_PASSES: u32 = 16;
    /// The most lanes.
    pub const MAX_LANES: u32 = 8;
    /// The least memory for each lane: what Argon2 itself demands.
    pub const MIN_MEMORY_KIB_PER_LANE: u32 = 8;

    /// A cost of `memory_kib` KiB of memory, passed over `passes` times in `lanes` lanes.
    ///
    /// Values near the lower limits are for tests: they protect no passphrase.
    ///
    /// # Errors
    /// When a value is outside its limits.
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Result<Self, KdfCostError> {
        let within = |quantity, minimum, maximum, actual| {
            if (minimum..=maximum).contains(&actual) {
                Ok(())
            } else {
                Err(KdfCostError { quantity, minimum, maximum, actual })
            }
        };
        within("lanes", 1, Self::MAX_LANES, lanes)?;
        within("passes", 1, Self::MAX_PASSES, passes)?;
        within(
            "KiB of memory",
            Self::MIN_MEMORY_KIB_PER_LANE * lanes,
            Self::MAX_MEMORY_KIB,
            memory_kib,
        )?;
        Ok(Self { memory_kib, passes, lanes })
    }

    /// Memory in KiB.
    pub fn memory_kib(self) -> u32 {
        self.memory_kib
    }

    /// Passes over the memory.
    pub fn passes(self) -> u32 {
        self.passes
    }

    /// Lanes.
    pub fn lanes(self) -> u32 {
        self.lanes
    }
}

impl Default for KdfCost {
    /// 64 MiB, three passes, one lane: the second recommended option of RFC 9106 with its four
    /// lanes folded into one, because the lanes would not run in parallel here.
    fn default() -> Self {
        Self { memory_kib: 64 << 10, passes: 3, lanes: 1 }
    }
}

/// A parameter of Argon2id outside its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Argon2id with {actual} {quantity} is outside the limits {minimum} to {maximum}")]
pub struct KdfCostError {
    /// Which parameter, with its unit.
    pub quantity: &'static str,
    /// The least value.
    pub minimum: u32,
    /// The largest value.
    pub maximum: u32,
    /// The value found.
    pub actual: u32,
}

/// How a keyring turns what the owner presents into its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kdf {
    /// `Argon2id(passphrase, salt; cost)`, version 0x13.
    Argon2id(KdfCost),
    /// `HKDF-SHA256(salt, key file, info = KEY_FILE_INFO)`.
    KeyFile,
    /// `HKDF-SHA256(salt, recovery code, info = RECOVERY_INFO)`.
    Recovery,
}

/// Whether the owner's secret is fit to seal or open anything at all.
pub(super) fn check_unlock(unlock: &Unlock) -> Result<(), VaultError> {
    match unlock {
        Unlock::Passphrase(passphrase) if passphrase.is_empty() => Err(VaultError::EmptyPassphrase),
        Unlock::KeyFile(bytes) if bytes.len() < MIN_KEY_FILE_BYTES => {
            Err(VaultError::KeyFileTooShort { minimum: MIN_KEY_FILE_BYTES, actual: bytes.len() })
        }
        _ => Ok(()),
    }
}

/// The keyring's key from a passphrase.
pub(super) fn stretch_passphrase(
    passphrase: &str,
    cost: KdfCost,
    salt: &[u8; SALT_BYTES],
) -> Result<Zeroizing<[u8; SECRET_BYTES]>, VaultError> {
    let failed = |_| VaultError::KeyDerivation { memory_kib: cost.memory_kib };
    let parameters = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(SECRET_BYTES))
        .map_err(failed)?;
    let mut key = Zeroizing::new([0; SECRET_BYTES]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters)
        .hash_password_into(passphrase.as_bytes(), salt, key.as_mut_slice())
        .map_err(failed)?;
    Ok(key)
}

/// The keyring's key from the contents of a key file.
pub(super) fn extract_key_file(
    contents: &[u8],
    salt: &[u8; SALT_BYTES],
) -> Zeroizing<[u8; SECRET_BYTES]> {
    extract(contents, salt, KEY_FILE_INFO)
}

/// The keyring's key from the bytes of a recovery code, which are random and need no stretching.
pub(super) fn extract_recovery(
    code: &[u8; SECRET_BYTES],
    salt: &[u8; SALT_BYTES],
) -> Zeroizing<[u8; SECRET_BYTES]> {
    extract(code, salt, RECOVERY_INFO)
}

fn extract(secret: &[u8], salt: &[u8; SALT_BYTES], info: &[u8]) -> Zeroizing<[u8; SECRET_BYTES]> {
    let mut key = Zeroizing::new([0; SECRET_BYTES]);
    Hkdf::<Sha256>::new(Some(salt), secret)
        .expand(info, key.as_mut_slice())
        .expect("32 bytes are within the 255 hashes HKDF can expand to");
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_limits_are_inclusive_and_enforced() {
        for (memory, passes, lanes) in [(8, 1, 1), (64, 16, 8), (1 << 20, 16, 8)] {
            assert!(KdfCost::new(memory, passes, lanes).is_ok());
        }
        for (memory, passes, lanes) in [
            (7, 1, 1),
            (15, 1, 2),
            ((1 << 20) + 1, 1, 1),
            (u32::MAX, 1, 1),
            (64, 0, 1),
            (64, 17, 1),
            (64, 1, 0),
            (128, 1, 9),
            (u32::MAX, u32::MAX, u32::MAX),
        ] {
            assert!(KdfCost::new(memory, passes, lanes).is_err());
        }
    }

    #[test]
    fn cost_error_carries_the_limits() {
        let error = KdfCost::new(64, 17, 1).unwrap_err();
        assert_eq!((error.minimum, error.maximum, error.actual), (1, 16, 17));
    }

    #[test]
    fn default_cost_is_within_the_limits() {
        let cost = KdfCost::default();
        assert_eq!(KdfCost::new(cost.memory_kib, cost.passes, cost.lanes), Ok(cost));
    }

    #[test]
    fn empty_passphrases_and_short_key_files_are_refused() {
        let passphrase = Unlock::Passphrase(Zeroizing::new(String::new()));
        assert!(matches!(check_unlock(&passphrase), Err(VaultError::EmptyPassphrase)));
        let short = Unlock::KeyFile(Zeroizing::new(vec![1; MIN_KEY_FILE_BYTES - 1]));
        assert!(matches!(
            check_unlock(&short),
            Err(VaultError::KeyFileTooShort { minimum: 32, actual: 31 })
        ));
        let enough = Unlock::KeyFile(Zeroizing::new(vec![1; MIN_KEY_FILE_BYTES]));
        assert!(check_unlock(&enough).is_ok());
    }
}
