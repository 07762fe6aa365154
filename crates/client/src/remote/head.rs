//! What a backup consists of: the head, a blob that is written last.
//!
//! A backup is the files of a vault, cut into pieces. A piece is a blob named by the SHA-256 of its
//! bytes, so that one blob never changes, what is there is not sent again, and a backup that was
//! cut off leaves the one before it whole. The head lists files and pieces; replacing it is the
//! moment at which a new backup takes the place of the old one.
//!
//! The head is not sealed: it says no more than the blobs' own names and lengths, and hashes of
//! bytes that the server has. Nor does it vouch for anything. That is done by what is inside: every
//! file but the published rows is sealed, and the sealed manifest has the checksum of each, so a server
//! that changes a byte is found out when the vault is opened. What it can do is to give an older
//! backup for the latest, or none.
//!
//! The keyring is among the files, sealed under the passphrase. A server that holds it can try
//! passphrases at the price that Argon2id sets; whoever keeps a backup on it needs one that cannot
//! be guessed, or a key file.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shard_protocol::{BlobList, BlobName};

use super::digest::Sha256Digest;
use crate::vault::FileKind;

/// Bytes of every piece of a file but the last.
pub(super) const PIECE_BYTES: usize = 8 << 20;

/// The blob that says what belongs together.
pub(super) const HEAD: &str = "vault.head";

/// How the names of all blobs of a backup begin.
pub(super) const PREFIX: &str = "vault.";

const VERSION: u16 = 1;

/// Bytes of a file without a generation at most: these are fetched before anything vouches for
/// what the head says.
const SMALL_BYTES: u64 = 1 << 20;

/// Files without a generation in their name, in the order in which a restore needs them.
const FIXED: [&str; 3] = ["KEYRING", "KEYRING.recovery", "MANIFEST"];

/// Why there is no backup, or no vault from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// Nothing is kept there.
    #[error("the server keeps no backup of a vault in this collection; check the address")]
    Absent,
    /// A later state of the vault is kept there.
    #[error(
        "the server keeps generation {kept} of a vault and this one is at generation {given}: \
         restore the later one, use another collection, or replace it deliberately"
    )]
    Later {
        /// Generation of the backup.
        kept: u64,
        /// Generation of the vault.
        given: u64,
    },
    /// The head makes no sense.
    #[error("the head of the backup cannot be used: {reason}")]
    Head {
        /// What is wrong with it.
        reason: String,
    },
    /// A piece is not what the head says.
    #[error("the backup is damaged: a piece of {file} is missing or was changed")]
    Damaged {
        /// The file.
        file: String,
    },
    /// A directory that should be without a vault or anything else.
    #[error("{}: not an empty directory; restore into a new one", .directory.display())]
    Occupied {
        /// The directory.
        directory: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", .file.display())]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// The file or directory.
        file: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl BackupError {
    /// Wraps an operating system error.
    pub(super) fn io(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, file: file.to_owned(), source }
    }
}

/// A backup: which vault files there are, and which blobs they are in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupHead {
    version: u16,
    generation: u64,
    files: Vec<BackupFile>,
}

/// One file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackupFile {
    pub(super) name: String,
    pub(super) length: u64,
    /// SHA-256 of each piece in order.
    #[serde(with = "digests")]
    pub(super) pieces: Vec<Sha256Digest>,
}

impl BackupHead {
    pub(super) fn new(generation: u64, files: Vec<BackupFile>) -> Self {
        Self { version: VERSION, generation, files }
    }

    /// The generation of the vault.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Files of the vault.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.length).sum()
    }

    pub(super) fn files(&self) -> &[BackupFile] {
        &self.files
    }

    /// Names of all pieces.
    pub(super) fn pieces(&self) -> BTreeSet<BlobName> {
        self.files.iter().flat_map(|file| &file.pieces).map(piece_name).collect()
    }

    /// The blob's bytes: JSON.
    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a head is plain data")
    }

    /// Reads a head and refuses what no backup could have written, above all names that lead
    /// anywhere but into the vault's directory.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, BackupError> {
        let wrong = |reason: &str| BackupError::Head { reason: reason.to_owned() };
        let head: Self =
            serde_json::from_slice(bytes).map_err(|error| wrong(&error.to_string()))?;
        if head.version != VERSION {
            return Err(wrong(&format!(
                "version {} where this program knows {VERSION}",
                head.version
            )));
        }
        let names: BTreeSet<&str> = head.files.iter().map(|file| file.name.as_str()).collect();
        if names.len() != head.files.len() || !names.iter().all(|name| is_vault_file(name)) {
            return Err(wrong("names that are not those of a vault's files"));
        }
        if !names.contains("KEYRING") || !names.contains("MANIFEST") {
            return Err(wrong("no keyring or no manifest"));
        }
        let pieces = |file: &BackupFile| file.length.div_ceil(PIECE_BYTES as u64);
        if head.files.iter().any(|file| pieces(file) != file.pieces.len() as u64) {
            return Err(wrong("files of another length than their pieces"));
        }
        let small = |file: &&BackupFile| FIXED.contains(&file.name.as_str());
        if head.files.iter().filter(small).any(|file| file.length > SMALL_BYTES) {
            return Err(wrong("a keyring or manifest longer than any"));
        }
        if head.files.iter().map(|file| file.pieces.len()).sum::<usize>() > BlobList::MOST {
            return Err(wrong("more pieces than a collection keeps"));
        }
        Ok(head)
    }
}

/// The blob of a piece.
pub(super) fn piece_name(digest: &Sha256Digest) -> BlobName {
    format!("{PREFIX}{digest}").parse().expect("letters, a dot and digits")
}

/// Whether a vault gives this name to one of its files: everything else in the directory is
/// somebody's own and does not leave it.
pub(super) fn is_vault_file(name: &str) -> bool {
    FIXED.contains(&name) || is_payload(name)
}

/// Whether the file is one that the manifest lists.
pub(super) fn is_payload(name: &str) -> bool {
    let Some((kind, generation)) =
        name.strip_suffix(".shard").and_then(|stem| stem.split_once('-'))
    else {
        return false;
    };
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    FileKind::ALL.iter().any(|known| known.name() == kind)
        && generation.len() == 16
        && generation.bytes().all(digit)
}

/// Digests as hexadecimal text.
mod digests {
    use serde::de::{Deserializer, Error};
    use serde::{Deserialize, Serializer};

    use super::Sha256Digest;

    pub(super) fn serialize<S: Serializer>(
        digests: &[Sha256Digest],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(digests.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Sha256Digest>, D::Error> {
        let parse = |text: String| {
            Sha256Digest::parse(&text).ok_or_else(|| D::Error::custom("a digest that is none"))
        };
        Vec::<String>::deserialize(deserializer)?.into_iter().map(parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: &[u8]) -> BackupFile {
        let pieces = bytes.chunks(PIECE_BYTES).map(Sha256Digest::of).collect();
        BackupFile { name: name.to_owned(), length: bytes.len() as u64, pieces }
    }

    fn sound() -> Vec<BackupFile> {
        let release = file("release-000000000000000a.shard", b"rows");
        vec![file("KEYRING", b"sealed"), file("MANIFEST", b""), release]
    }

    #[test]
    fn heads_read_as_they_were_written() {
        let head = BackupHead::new(10, sound());
        assert_eq!(BackupHead::decode(&head.encode()).unwrap(), head);
        assert_eq!((head.file_count(), head.bytes(), head.pieces().len()), (3, 10, 2));
    }

    #[test]
    fn heads_that_no_backup_wrote_are_refused() {
        let refused = |files: Vec<BackupFile>, reason: &str| {
            let error = BackupHead::decode(&BackupHead::new(1, files).encode()).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        };
        for name in ["../x", "/etc/passwd", "LOCK", "notes.txt", "model-1.shard", "MANIFEST"] {
            refused([sound(), vec![file(name, b"x")]].concat(), "names");
        }
        refused(sound()[1..].to_vec(), "no keyring");
        refused(vec![file("KEYRING", b"sealed")], "no manifest");
        let mut long = sound();
        long[0].length = u64::MAX;
        refused(long, "another length");
        let mut vast = sound();
        vast[1] = file("MANIFEST", &vec![0; SMALL_BYTES as usize + 1]);
        refused(vast, "longer than any");
        let mut other = BackupHead::new(1, sound());
        other.version = 2;
        assert!(BackupHead::decode(&other.encode()).unwrap_err().to_string().contains("version 2"));
        for noise in [&b""[..], b"{}", b"[1]", b"\xff"] {
            assert!(BackupHead::decode(noise).is_err());
        }
    }
}
