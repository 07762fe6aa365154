//! Sealing of payloads of any length, chunk by chunk.
//!
//! A sealed payload is a random 16-byte prefix followed by chunks of XChaCha20-Poly1305. Chunk `i`
//! uses the nonce `prefix ‖ i` (little-endian `u64`). XChaCha20 derives a fresh key from the first
//! 16 bytes of its nonce, so the prefix amounts to a key for each file and the counter to the nonce
//! under that key: no pair repeats unless two prefixes drawn at random from 2^128 do.
//!
//! The associated data of a chunk names the file's content, its generation, the chunk's number
//! and whether it is the last. A chunk that was moved, dropped, repeated, or taken from another file
//! or generation does not open.

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use rand_core::CryptoRng;

use super::frame::VERSION;
use super::kind::Content;
use super::secret::DataKey;

/// Plaintext bytes in every chunk but the last.
pub(super) const CHUNK_BYTES: usize = 1 << 20;
/// What sealing adds to a chunk.
pub(super) const TAG_BYTES: usize = 16;
/// Random bytes at the start of a sealed payload.
pub(super) const PREFIX_BYTES: usize = 16;
/// A whole nonce of XChaCha20.
pub(super) const NONCE_BYTES: usize = 24;

/// Separates these seals from any other use of the same key.
const LABEL: &[u8; 17] = b"shard vault chunk";
const ASSOCIATED_BYTES: usize = LABEL.len() + 2 + 2 + 8 + 8 + 1;

/// The random start of a sealed payload.
pub(super) type Prefix = [u8; PREFIX_BYTES];

/// A seal did not open: wrong key, or bytes that were not sealed like this.
#[derive(Debug)]
pub(super) struct SealError;

/// A fresh prefix, one for each payload ever sealed.
pub(super) fn draw_prefix(rng: &mut impl CryptoRng) -> Prefix {
    let mut prefix = [0; PREFIX_BYTES];
    rng.fill_bytes(&mut prefix);
    prefix
}

/// Seals or opens the chunks of one payload in order.
pub(super) struct ChunkCipher {
    cipher: XChaCha20Poly1305,
    prefix: Prefix,
    content: Content,
    generation: u64,
    next: u64,
}

impl ChunkCipher {
    pub(super) fn new(key: &DataKey, prefix: Prefix, content: Content, generation: u64) -> Self {
        Self {
            cipher: XChaCha20Poly1305::new(&Key::from(*key.expose())),
            prefix,
            content,
            generation,
            next: 0,
        }
    }

    /// Seals the next chunk in place, which grows by [`TAG_BYTES`].
    pub(super) fn seal(&mut self, chunk: &mut Vec<u8>, last: bool) {
        let (nonce, associated) = self.advance(last);
        self.cipher
            .encrypt_in_place(&nonce, &associated, chunk)
            .expect("a chunk of 1 MiB is within the cipher's limit of 256 GiB");
    }

    /// Opens the next chunk in place, which shrinks by [`TAG_BYTES`].
    pub(super) fn open(&mut self, chunk: &mut Vec<u8>, last: bool) -> Result<(), SealError> {
        let (nonce, associated) = self.advance(last);
        self.cipher.decrypt_in_place(&nonce, &associated, chunk).map_err(|_| SealError)
    }

    fn advance(&mut self, last: bool) -> (XNonce, [u8; ASSOCIATED_BYTES]) {
        let number = self.next.to_le_bytes();
        self.next += 1;

        let mut nonce = [0; NONCE_BYTES];
        nonce[..PREFIX_BYTES].copy_from_slice(&self.prefix);
        nonce[PREFIX_BYTES..].copy_from_slice(&number);

        let mut associated = [0; ASSOCIATED_BYTES];
        associated[..17].copy_from_slice(LABEL);
        associated[17..19].copy_from_slice(&VERSION.to_le_bytes());
        associated[19..21].copy_from_slice(&self.content.code().to_le_bytes());
        associated[21..29].copy_from_slice(&self.generation.to_le_bytes());
        associated[29..37].copy_from_slice(&number);
        associated[37] = u8::from(last);
        (XNonce::from(nonce), associated)
    }
}

/// The plaintext length of a sealed payload of `sealed` bytes, prefix included; `None` when
/// sealing produces no such length.
///
/// With `n = max(1, ceil(plain / 2^20))` chunks, `sealed = 16 + plain + 16 n`.
pub(super) fn plain_length(sealed: u64) -> Option<u64> {
    let sealed_chunk = (CHUNK_BYTES + TAG_BYTES) as u64;
    let chunks_length = sealed.checked_sub(PREFIX_BYTES as u64)?;
    let chunks = chunks_length.div_ceil(sealed_chunk).max(1);
    let plain = chunks_length.checked_sub(chunks * TAG_BYTES as u64)?;
    let canonical = plain.div_ceil(CHUNK_BYTES as u64).max(1);
    (chunks == canonical).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONTENT: Content = Content::Manifest;

    fn cipher(generation: u64) -> ChunkCipher {
        let key = DataKey::from_bytes(&[7; 32]);
        ChunkCipher::new(&key, [9; PREFIX_BYTES], CONTENT, generation)
    }

    /// Two chunks, the second of them the last.
    fn sealed() -> [Vec<u8>; 2] {
        let mut chunks = [b"first".to_vec(), b"second".to_vec()];
        let mut sealer = cipher(4);
        sealer.seal(&mut chunks[0], false);
        sealer.seal(&mut chunks[1], true);
        chunks
    }

    #[test]
    fn chunks_open_in_the_order_they_were_sealed() {
        let [mut first, mut second] = sealed();
        let mut opener = cipher(4);
        opener.open(&mut first, false).unwrap();
        opener.open(&mut second, true).unwrap();
        assert_eq!((&first[..], &second[..]), (&b"first"[..], &b"second"[..]));
    }

    #[test]
    fn a_moved_dropped_or_cut_chunk_does_not_open() {
        let [mut first, mut second] = sealed();
        assert!(cipher(4).open(&mut second, true).is_err(), "dropped first");
        assert!(cipher(4).open(&mut second, false).is_err(), "swapped");
        assert!(cipher(4).open(&mut first, true).is_err(), "cut after first");
        assert!(cipher(4).open(&mut first[..15].to_vec(), false).is_err());
    }

    #[test]
    fn a_chunk_of_another_generation_content_prefix_or_key_does_not_open() {
        let key = DataKey::from_bytes(&[7; 32]);
        let other = DataKey::from_bytes(&[8; 32]);
        let prefix = [9; PREFIX_BYTES];
        let [first, _] = sealed();
        for mut cipher in [
            cipher(5),
            ChunkCipher::new(&key, prefix, Content::Keyring, 4),
            ChunkCipher::new(&key, [8; PREFIX_BYTES], CONTENT, 4),
            ChunkCipher::new(&other, prefix, CONTENT, 4),
        ] {
            assert!(cipher.open(&mut first.clone(), false).is_err());
        }
    }

    #[test]
    fn lengths_no_sealer_produces_are_refused() {
        let full = (CHUNK_BYTES + TAG_BYTES) as u64;
        for impossible in [0, 15, 16, 31, 16 + full + 1, 16 + full + 16] {
            assert_eq!(plain_length(impossible), None, "{impossible}");
        }
        assert_eq!(plain_length(32), Some(0));
        assert_eq!(plain_length(16 + full), Some(CHUNK_BYTES as u64));
        assert_eq!(plain_length(16 + full + 17), Some(CHUNK_BYTES as u64 + 1));
    }

    proptest! {
        #[test]
        fn plain_length_inverts_the_sealed_length(plain in 0_u64..1 << 40) {
            let chunks = plain.div_ceil(1 << 20).max(1);
            prop_assert_eq!(plain_length(16 + plain + 16 * chunks), Some(plain));
        }

        #[test]
        fn plain_length_never_overflows(sealed: u64) {
            if let Some(plain) = plain_length(sealed) {
                prop_assert!(plain < sealed);
            }
        }
    }
}
