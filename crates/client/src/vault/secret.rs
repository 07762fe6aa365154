//! The secrets a vault guards and what unlocks them.

use std::fmt;

use rand_core::CryptoRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::recovery::RecoveryCode;

/// Bytes in each of the vault's secrets.
pub(super) const SECRET_BYTES: usize = 32;

/// Defines a secret of 32 bytes.
///
/// It lives on the heap so that moving the value leaves no copy behind, is wiped when dropped, and
/// can be neither printed, compared, cloned nor serialised.
macro_rules! secret {
    ($(#[$documentation:meta])* $visibility:vis $name:ident) => {
        $(#[$documentation])*
        #[derive(Zeroize, ZeroizeOnDrop)]
        $visibility struct $name(Box<[u8; SECRET_BYTES]>);

        impl $name {
            /// The secret with these bytes, which the caller is left to wipe.
            $visibility fn from_bytes(bytes: &[u8; SECRET_BYTES]) -> Self {
                Self(Box::new(*bytes))
            }

            /// The bytes themselves, for key derivation only.
            $visibility fn expose(&self) -> &[u8; SECRET_BYTES] {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(concat!(stringify!($name), "(redacted)"))
            }
        }
    };
}

secret! {
    /// The 256-bit secret from which every key of the construction is derived, epoch by epoch.
    ///
    /// It can be neither printed, compared, cloned nor serialised, and is wiped when dropped.
    pub MasterSecret
}

secret! {
    /// The secret of one epoch: every key and name of that epoch derives from it, nothing of
    /// another epoch does, and the master secret cannot be found from it.
    ///
    /// It can be neither printed, compared, cloned nor serialised, and is wiped when dropped.
    pub EpochSecret
}

secret! {
    /// The key that seals the vault's own files. It never leaves the vault.
    ///
    /// Apart from the master secret, so that whoever re-derives the construction's keys elsewhere
    /// does not thereby hold the key to the files.
    pub(super) DataKey
}

/// Fresh random bytes for a secret.
fn draw(rng: &mut impl CryptoRng) -> Box<[u8; SECRET_BYTES]> {
    let mut bytes = Box::new([0; SECRET_BYTES]);
    rng.fill_bytes(bytes.as_mut_slice());
    bytes
}

impl MasterSecret {
    /// A fresh secret.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        Self(draw(rng))
    }
}

impl DataKey {
    pub(super) fn generate(rng: &mut impl CryptoRng) -> Self {
        Self(draw(rng))
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
    /// The code that [`Vault::prepare_recovery`](super::Vault::prepare_recovery) made: for the day on which
    /// the other is lost. It opens a vault that has one, and cannot be what a vault is made with.
    Recovery(RecoveryCode),
}

impl Unlock {
    /// A passphrase.
    pub fn passphrase(text: impl Into<String>) -> Self {
        Self::Passphrase(Zeroizing::new(text.into()))
    }

    /// The contents of a key file.
    pub fn key_file(bytes: impl Into<Vec<u8>>) -> Self {
        Self::KeyFile(Zeroizing::new(bytes.into()))
    }

    /// Which of the three this is.
    pub fn kind(&self) -> UnlockKind {
        match self {
            Self::Passphrase(_) => UnlockKind::Passphrase,
            Self::KeyFile(_) => UnlockKind::KeyFile,
            Self::Recovery(_) => UnlockKind::Recovery,
        }
    }
}

impl fmt::Debug for Unlock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passphrase(_) => formatter.write_str("Passphrase(redacted)"),
            Self::KeyFile(_) => formatter.write_str("KeyFile(redacted)"),
            Self::Recovery(_) => formatter.write_str("Recovery(redacted)"),
        }
    }
}

/// The ways to unlock a vault, without the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlockKind {
    /// See [`Unlock::Passphrase`].
    Passphrase,
    /// See [`Unlock::KeyFile`].
    KeyFile,
    /// See [`Unlock::Recovery`].
    Recovery,
}

impl fmt::Display for UnlockKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Passphrase => "passphrase",
            Self::KeyFile => "key file",
            Self::Recovery => "recovery code",
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
        let epoch = EpochSecret::from_bytes(&[0x12; 32]);
        assert_eq!(
            format!("{secret:?} {epoch:?} {key:?} {phrase:?} {file:?}"),
            "MasterSecret(redacted) EpochSecret(redacted) DataKey(redacted) Passphrase(redacted) \
             KeyFile(redacted)"
        );
    }
}
