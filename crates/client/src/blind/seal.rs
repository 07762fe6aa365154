//! Seals of what a server keeps for all clients of an epoch: hints, checks and records.
//!
//! XChaCha20-Poly1305 under a key of the epoch and a random nonce, with what it is bound in: the hint of
//! another block, or the checks of another commit, do not open.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use shard_protocol::CommitName;
use shard_rlwe::{EntropyError, fill_from_os};
use zeroize::Zeroizing;

const NONCE_BYTES: usize = 24;

/// Bytes that sealing adds.
pub(crate) const SEAL_BYTES: usize = NONCE_BYTES + 16;

/// What is sealed.
#[derive(Clone, Copy)]
pub(crate) enum Subject {
    /// The hint of the block of a name.
    Hint([u8; 16]),
    /// The checks of a commit.
    Checks(CommitName),
    /// A slot of records, in a page that a commit sealed.
    Slot(u32, CommitName),
    /// The hint of the segment of records of a name.
    RecordHint([u8; 16]),
}

impl Subject {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Hint(name) => [&b"shard hint"[..], &name].concat(),
            Self::Checks(commit) => [&b"shard checks"[..], &commit.0].concat(),
            Self::Slot(slot, commit) => {
                [&b"shard record"[..], &slot.to_le_bytes(), &commit.0].concat()
            }
            Self::RecordHint(name) => [&b"shard record hint"[..], &name].concat(),
        }
    }
}

/// Seals and opens for the clients of one epoch.
pub(crate) struct Sealer(XChaCha20Poly1305);

impl Sealer {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(XChaCha20Poly1305::new(&Key::from(*key)))
    }

    pub(crate) fn seal(&self, subject: Subject, plain: &[u8]) -> Result<Vec<u8>, EntropyError> {
        let mut nonce = [0; NONCE_BYTES];
        fill_from_os(&mut nonce)?;
        let payload = Payload { msg: plain, aad: &subject.bytes() };
        let sealed = self.0.encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.expect("hints and checks are within the cipher's limit of 256 GiB");
        Ok([&nonce[..], &sealed].concat())
    }

    /// `None` when it was not sealed like this.
    pub(crate) fn open(&self, subject: Subject, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg: sealed, aad: &subject.bytes() };
        self.0.decrypt(&XNonce::from(*nonce), payload).ok().map(Zeroizing::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_opens_for_its_subject_and_for_no_other() {
        let sealer = Sealer::new(&[7; 32]);
        let (subject, commit) = (Subject::Hint([1; 16]), CommitName([1; 16]));
        let sealed = sealer.seal(subject, b"hint").unwrap();
        assert_eq!(sealed.len(), 4 + SEAL_BYTES);
        assert_eq!(&sealer.open(subject, &sealed).unwrap()[..], b"hint");
        for other in [
            Subject::Hint([2; 16]),
            Subject::Checks(commit),
            Subject::Slot(0, commit),
            Subject::RecordHint([1; 16]),
        ] {
            assert!(sealer.open(other, &sealed).is_none());
        }
        assert!(Sealer::new(&[8; 32]).open(subject, &sealed).is_none());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(sealer.open(subject, &changed).is_none());
        }
        assert!(sealer.open(subject, &sealed[..20]).is_none());
    }
}
