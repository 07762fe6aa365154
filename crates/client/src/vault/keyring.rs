//! The keyring: the vault's two secrets, sealed under what the owner presents.
//!
//! The payload has a fixed length:
//!
//! ```text
//! kdf u8 | memory KiB u32 | passes u32 | lanes u32 | salt 32 | nonce 24 | sealed 64 + 16
//! ```
//!
//! The sealed body is `secret ‖ data key`. What the secret is, the header's content says: the master
//! secret in an owner's vault, the secret of one epoch in a query vault. The associated data is the
//! header and everything before the nonce, so neither that nor the parameters of the derivation can
//! be exchanged.

use std::path::Path;

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::error::VaultError;
use super::frame::{self, CHECKSUM_BYTES, Content, HEADER_BYTES};
use super::kdf::{self, Kdf, KdfCost, SALT_BYTES};
use super::secret::{DataKey, EpochSecret, MasterSecret, SECRET_BYTES, Unlock, UnlockKind};
use super::value::{NONCE_BYTES, TAG_BYTES};

const KDF_ARGON2ID: u8 = 1;
const KDF_KEY_FILE: u8 = 2;
const KDF_RECOVERY: u8 = 3;

const BODY_BYTES: usize = 2 * SECRET_BYTES;
const SALT_START: usize = 13;
const NONCE_START: usize = SALT_START + SALT_BYTES;
const BODY_START: usize = NONCE_START + NONCE_BYTES;
const PAYLOAD_BYTES: usize = BODY_START + BODY_BYTES + TAG_BYTES;

/// The length of a keyring file. Nothing longer is read into memory.
pub(super) const FILE_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES + CHECKSUM_BYTES;

/// The opened keyring.
#[derive(Debug)]
pub(super) struct Keyring {
    pub(super) secret: KeyringSecret,
    pub(super) data: DataKey,
}

/// The secret from which the construction's keys derive, as far as the vault has it.
#[derive(Debug)]
pub(super) enum KeyringSecret {
    /// All epochs: the vault is its owner's.
    Master(MasterSecret),
    /// One epoch: the vault can be searched.
    Epoch(EpochSecret),
}

impl Keyring {
    /// The keyring of a new vault of an owner.
    pub(super) fn generate(rng: &mut impl CryptoRng) -> Self {
        Self {
            secret: KeyringSecret::Master(MasterSecret::generate(rng)),
            data: DataKey::generate(rng),
        }
    }

    /// The keyring of a new query vault.
    pub(super) fn of_epoch(secret: EpochSecret, rng: &mut impl CryptoRng) -> Self {
        Self { secret: KeyringSecret::Epoch(secret), data: DataKey::generate(rng) }
    }

    /// What a file that `unlock` opens says it holds.
    fn content(&self, unlock: &Unlock) -> Content {
        match (&self.secret, unlock) {
            (_, Unlock::Recovery(_)) => Content::RecoveryKeyring,
            (KeyringSecret::Master(_), _) => Content::Keyring,
            (KeyringSecret::Epoch(_), _) => Content::QueryKeyring,
        }
    }

    /// The bytes of the keyring file. `cost` matters to passphrases only.
    pub(super) fn seal(
        &self,
        unlock: &Unlock,
        cost: KdfCost,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<u8>, VaultError> {
        kdf::check_unlock(unlock)?;
        let mut salt = [0; SALT_BYTES];
        rng.fill_bytes(&mut salt);
        let mut nonce = [0; NONCE_BYTES];
        rng.fill_bytes(&mut nonce);

        let (kdf, key) = match unlock {
            Unlock::Passphrase(passphrase) => {
                (Kdf::Argon2id(cost), kdf::stretch_passphrase(passphrase, cost, &salt)?)
            }
            Unlock::KeyFile(contents) => (Kdf::KeyFile, kdf::extract_key_file(contents, &salt)),
            Unlock::Recovery(code) => (Kdf::Recovery, kdf::extract_recovery(code.bytes(), &salt)),
        };
        let content = self.content(unlock);
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES);
        payload.extend_from_slice(&encode_kdf(kdf));
        payload.extend_from_slice(&salt);
        let associated = associated_data(content, &payload);

        let mut body = Zeroizing::new(Vec::with_capacity(BODY_BYTES + TAG_BYTES));
        body.extend_from_slice(match &self.secret {
            KeyringSecret::Master(master) => master.expose(),
            KeyringSecret::Epoch(secret) => secret.expose(),
        });
        body.extend_from_slice(self.data.expose());
        XChaCha20Poly1305::new(&Key::from(*key))
            .encrypt_in_place(&XNonce::from(nonce), &associated, &mut *body)
            .expect("64 bytes are within the cipher's limit");

        payload.extend_from_slice(&nonce);
        payload.extend_from_slice(&body);
        Ok(frame::encode(content, &payload))
    }

    /// Opens the bytes of a keyring file.
    pub(super) fn open(bytes: &[u8], unlock: &Unlock, file: &Path) -> Result<Self, VaultError> {
        let allowed: &[Content] = match unlock {
            Unlock::Recovery(_) => &[Content::RecoveryKeyring],
            _ => &[Content::Keyring, Content::QueryKeyring],
        };
        let (content, payload) = frame::decode(bytes, allowed, file)?;
        let malformed = |reason| VaultError::Malformed { file: file.to_owned(), reason };
        let payload: &[u8; PAYLOAD_BYTES] =
            payload.try_into().map_err(|_| malformed("the keyring has the wrong length"))?;
        let kdf = decode_kdf(payload, file)?;
        let salt: &[u8; SALT_BYTES] =
            payload[SALT_START..NONCE_START].try_into().expect("the range is as long as a salt");
        let nonce: [u8; NONCE_BYTES] =
            payload[NONCE_START..BODY_START].try_into().expect("the range is as long as a nonce");

        let mismatch = |needed| VaultError::UnlockMismatch {
            file: file.to_owned(),
            needed,
            given: unlock.kind(),
        };
        let key = match (kdf, unlock) {
            (Kdf::Argon2id(cost), Unlock::Passphrase(passphrase)) => {
                kdf::check_unlock(unlock)?;
                kdf::stretch_passphrase(passphrase, cost, salt)?
            }
            (Kdf::KeyFile, Unlock::KeyFile(contents)) => {
                kdf::check_unlock(unlock)?;
                kdf::extract_key_file(contents, salt)
            }
            (Kdf::Recovery, Unlock::Recovery(code)) => kdf::extract_recovery(code.bytes(), salt),
            (Kdf::Argon2id(_), _) => return Err(mismatch(UnlockKind::Passphrase)),
            (Kdf::KeyFile, _) => return Err(mismatch(UnlockKind::KeyFile)),
            (Kdf::Recovery, _) => return Err(mismatch(UnlockKind::Recovery)),
        };

        let mut body = Zeroizing::new(payload[BODY_START..].to_vec());
        XChaCha20Poly1305::new(&Key::from(*key))
            .decrypt_in_place(
                &XNonce::from(nonce),
                &associated_data(content, &payload[..NONCE_START]),
                &mut *body,
            )
            .map_err(|_| VaultError::WrongUnlock {
                file: file.to_owned(),
                unlock: unlock.kind(),
            })?;
        let (secret, data) =
            body.split_first_chunk::<SECRET_BYTES>().expect("the payload's length was checked");
        Ok(Self {
            secret: match content {
                Content::QueryKeyring => KeyringSecret::Epoch(EpochSecret::from_bytes(secret)),
                _ => KeyringSecret::Master(MasterSecret::from_bytes(secret)),
            },
            data: DataKey::from_bytes(
                data.try_into().expect("the body is two secrets of equal length"),
            ),
        })
    }
}

/// What the keyring's seal covers beside its body: the header and the payload before the nonce.
fn associated_data(content: Content, derivation: &[u8]) -> Vec<u8> {
    [&frame::header(content, PAYLOAD_BYTES)[..], derivation].concat()
}

fn encode_kdf(kdf: Kdf) -> [u8; SALT_START] {
    let (code, words) = match kdf {
        Kdf::Argon2id(cost) => (KDF_ARGON2ID, [cost.memory_kib(), cost.passes(), cost.lanes()]),
        Kdf::KeyFile => (KDF_KEY_FILE, [0; 3]),
        Kdf::Recovery => (KDF_RECOVERY, [0; 3]),
    };
    let mut bytes = [0; SALT_START];
    bytes[0] = code;
    for (field, word) in bytes[1..].chunks_exact_mut(4).zip(words) {
        field.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Decodes and limits the parameters before any work is done with them.
fn decode_kdf(payload: &[u8; PAYLOAD_BYTES], file: &Path) -> Result<Kdf, VaultError> {
    let malformed = |reason| VaultError::Malformed { file: file.to_owned(), reason };
    let word = |index: usize| {
        let start = 1 + 4 * index;
        let mut word = [0; 4];
        word.copy_from_slice(&payload[start..start + 4]);
        u32::from_le_bytes(word)
    };
    let words = [word(0), word(1), word(2)];
    match payload[0] {
        KDF_ARGON2ID => KdfCost::new(words[0], words[1], words[2])
            .map(Kdf::Argon2id)
            .map_err(|source| VaultError::KdfCost { file: file.to_owned(), source }),
        KDF_KEY_FILE if words == [0; 3] => Ok(Kdf::KeyFile),
        KDF_RECOVERY if words == [0; 3] => Ok(Kdf::Recovery),
        KDF_KEY_FILE | KDF_RECOVERY => Err(malformed("only a passphrase has a cost")),
        _ => Err(malformed("the key derivation is unknown")),
    }
}
