//! The secrets a vault guards and what unlocks them.

use std::fmt;

use rand_core::CryptoRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Bytes in each of the vault's secrets.
pub(super) const SECRET_BYTES: usize = 32;

/// The 256-bit secret from which every key of the construction is derived.
///
/// It lives on the heap so that moving the value leaves no copy behind, is wiped when dropped,
/// and can be neither printed, compared, cloned nor serialised.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct MasterSecret(Box<[u8; SECRET_BYTES]>);

impl MasterSecret {
    /// A fresh secret.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut secret = Box::new([0; SECRET_BYTES]);
        rng.fill_bytes(secret.as_mut_slice());
        Self(secret)
    }

    /// The secret with these bytes, which the caller is left to wipe.
    pub fn from_bytes(bytes: &[u8; SECRET_BYTES]) -> Self {
        Self(Box::new(*bytes))
    }

    /// The bytes themselves, for key derivation only.
    pub fn expose(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

impl fmt::Debug for MasterSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MasterSecret(redacted)")
    }
}

/// The key that seals the vault's own files. It never leaves the vault.
///
/// Apart from the master secret, so that whoever re-derives the construction's keys elsewhere
/// does not thereby hold the key to the files.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct DataKey(Box<[u8; SECRET_BYTES]>);

impl DataKey {
    pub(super) fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut key = Box::new([0; SECRET_BYTES]);
        rng.fill_bytes(key.as_mut_slice());
        Self(key)
    }

    pub(super) fn from_bytes(bytes: &[u8; SECRET_BYTES]) -> Self {
        Self(Box::new(*bytes))
    }

    pub(super) fn expose(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DataKey(redacted)")
    }
}

/// What the owner presents to open a vault.
pub enum Unlock {
    /// A passphrase, stretched with Argon2id. Its UTF-8 bytes count as they are: no Unicode
    /// normalisation takes place.
    Passphrase(Zeroizing<String>),
    /// The contents of a key file: at least [`MIN_KEY_FILE_BYTES`](super::MIN_KEY_FILE_BYTES)
    /// bytes of real randomness, because they are not stretched.
    KeyFile(Zeroizing<Vec<u8>>),
}

impl Unlock {
    /// Which of the two this is.
    pub fn kind(&self) -> UnlockKind {
        match self {
            Self::Passphrase(_) => UnlockKind::Passphrase,
            Self::KeyFile(_) => UnlockKind::KeyFile,
        }
    }
}

impl fmt::Debug for Unlock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passphrase(_) => formatter.write_str("Passphrase(redacted)"),
            Self::KeyFile(_) => formatter.write_str("KeyFile(redacted)"),
        }
    }
}

/// The two ways to unlock a vault, without the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlockKind {
    /// See [`Unlock::Passphrase`].
    Passphrase,
    /// See [`Unlock::KeyFile`].
    KeyFile,
}

impl fmt::Display for UnlockKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Passphrase => "passphrase",
            Self::KeyFile => "key file",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_no_secret() {
        let secret = MasterSecret::from_bytes(&[0xab; 32]);
        let key = DataKey::from_bytes(&[0xcd; 32]);
        let phrase = Unlock::Passphrase(Zeroizing::new("hunter2".into()));
        let file = Unlock::KeyFile(Zeroizing::new(vec![0xef; 32]));
        assert_eq!(
            format!("{secret:?} {key:?} {phrase:?} {file:?}"),
            "MasterSecret(redacted) DataKey(redacted) Passphrase(redacted) KeyFile(redacted)"
        );
    }
}
