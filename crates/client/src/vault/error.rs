//! Everything that can go wrong with a vault, in one line each.

use std::io;
use std::path::{Path, PathBuf};

use super::kdf::KdfCostError;
use super::kind::FileKind;
use super::secret::UnlockKind;

/// Why a vault operation failed: which file, what was wrong with it, and what to do.
///
/// No variant carries a secret or a payload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    /// [`create`](super::Vault::create) found a vault.
    #[error("{}: there is already a vault here; open it or choose another directory", .directory.display())]
    AlreadyExists {
        /// The directory asked for.
        directory: PathBuf,
    },
    /// [`create`](super::Vault::create) found other files.
    #[error("{}: the directory is not empty; choose a new or an empty one", .directory.display())]
    NotEmpty {
        /// The directory asked for.
        directory: PathBuf,
    },
    /// [`open`](super::Vault::open) found no keyring.
    #[error("{}: there is no vault here; check the path or create a vault first", .directory.display())]
    NotAVault {
        /// The directory asked for.
        directory: PathBuf,
    },
    /// A keyring without a manifest: creation was interrupted, or somebody removed the file.
    #[error("{}: the vault has no manifest; restore it from a backup, or delete the directory if creating the vault was interrupted", .directory.display())]
    Incomplete {
        /// The vault's directory.
        directory: PathBuf,
    },
    /// The file does not begin like a file of a vault.
    #[error("{}: not a shard vault file; restore it from a backup", .file.display())]
    NotShardFile {
        /// The file.
        file: PathBuf,
    },
    /// The file was written by another version of the format.
    #[error("{}: format version {found} is not supported (this program reads version {supported}); use a program that knows version {found}", .file.display())]
    UnsupportedVersion {
        /// The file.
        file: PathBuf,
        /// The version in the file.
        found: u16,
        /// The version this code reads and writes.
        supported: u16,
    },
    /// The file is shorter than its header or the manifest says.
    #[error("{}: truncated, {actual} of at least {expected} bytes are left; restore it from a backup", .file.display())]
    Truncated {
        /// The file.
        file: PathBuf,
        /// The least length the file must have.
        expected: u64,
        /// The length it has.
        actual: u64,
    },
    /// The file is longer than its header says.
    #[error("{}: {actual} bytes long where {expected} were written; restore it from a backup", .file.display())]
    Overlong {
        /// The file.
        file: PathBuf,
        /// The length the header states.
        expected: u64,
        /// The length it has.
        actual: u64,
    },
    /// The bytes do not match their checksum.
    #[error("{}: damaged, the checksum does not match; restore it from a backup", .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
    },
    /// An intact file, but not the one that belongs here.
    #[error("{}: intact, but not the file that belongs here (another kind, generation or vault); restore it from a backup", .file.display())]
    Misplaced {
        /// The file.
        file: PathBuf,
    },
    /// The checksum matches and the contents still make no sense.
    #[error("{}: malformed, {reason}; restore it from a backup", .file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The keyring asks for more work than this code will do.
    #[error("{}: refused, {source}; restore it from a backup", .file.display())]
    KdfCost {
        /// The keyring.
        file: PathBuf,
        /// Which limit it exceeds.
        source: KdfCostError,
    },
    /// The keyring's seal does not open.
    #[error("{}: wrong {unlock}; try again with the one the vault opens with", .file.display())]
    WrongUnlock {
        /// The keyring.
        file: PathBuf,
        /// What was presented.
        unlock: UnlockKind,
    },
    /// A passphrase where a key file is needed, or the reverse.
    #[error("{}: the vault opens with a {needed}, not with a {given}; supply the {needed}", .file.display())]
    UnlockMismatch {
        /// The keyring.
        file: PathBuf,
        /// What the keyring was sealed with.
        needed: UnlockKind,
        /// What was presented.
        given: UnlockKind,
    },
    /// The vault has no recovery code.
    #[error("{}: the vault has no recovery code; use its passphrase or key file", .directory.display())]
    NoRecovery {
        /// The vault's directory.
        directory: PathBuf,
    },
    /// A recovery code where a vault is made or its passphrase changed.
    #[error(
        "a recovery code opens a vault but is not what it is made with; choose a passphrase or a key file"
    )]
    RecoveryOnly,
    /// A query vault was asked for what only its owner's can do.
    #[error("{}: this is a query vault, which can be searched and cannot {refused}; ask its owner", .directory.display())]
    QueryVault {
        /// The vault's directory.
        directory: PathBuf,
        /// What was asked for, as a verb.
        refused: &'static str,
    },
    /// The passphrase is empty.
    #[error("the passphrase is empty; choose one that nobody can guess")]
    EmptyPassphrase,
    /// The key file is too short to be a key.
    #[error(
        "the key file holds {actual} bytes and needs at least {minimum}; make one from a random source"
    )]
    KeyFileTooShort {
        /// The least number of bytes.
        minimum: usize,
        /// The number of bytes presented.
        actual: usize,
    },
    /// Argon2 could not run: in practice, its memory could not be allocated.
    #[error(
        "the passphrase could not be stretched with {memory_kib} KiB of memory; free some memory and try again"
    )]
    KeyDerivation {
        /// The memory Argon2 asked for.
        memory_kib: u32,
    },
    /// A seal under the vault's own key does not open although the checksum matches.
    #[error("{}: the seal does not open with this vault's key, the file was altered or belongs to another vault; restore it from a backup", .file.display())]
    SealBroken {
        /// The file.
        file: PathBuf,
    },
    /// Nothing of this kind was ever committed.
    #[error("{}: the vault holds no {kind} yet; write one first", .directory.display())]
    Absent {
        /// The vault's directory.
        directory: PathBuf,
        /// The kind asked for.
        kind: FileKind,
    },
    /// The manifest lists the file, and it is gone.
    #[error("{}: missing although the manifest lists it; restore it from a backup", .file.display())]
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// Another writer committed since this vault was opened.
    #[error("{}: changed from generation {opened} to {current} since it was opened; open the vault again", .directory.display())]
    Superseded {
        /// The vault's directory.
        directory: PathBuf,
        /// The generation this value was opened at.
        opened: u64,
        /// The generation now on disk.
        current: u64,
    },
    /// Another writer is at work.
    #[error("{}: another process is writing to this vault; wait until it has finished", .directory.display())]
    Locked {
        /// The vault's directory.
        directory: PathBuf,
    },
    /// A writer of the transaction was dropped before it was finished.
    #[error(
        "the new {kind} was not written to its end; nothing was committed, start the transaction again"
    )]
    Unfinished {
        /// The kind begun and not finished.
        kind: FileKind,
    },
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", .file.display())]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// The file or directory concerned.
        file: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl VaultError {
    /// Wraps an operating system error: `.map_err(VaultError::io("read", path))`.
    pub(super) fn io(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, file: file.to_owned(), source }
    }
}

/// For [`io::Read`] and [`io::Write`], whose errors must be [`io::Error`].
impl From<VaultError> for io::Error {
    fn from(error: VaultError) -> Self {
        let kind = match &error {
            VaultError::Io { source, .. } => source.kind(),
            _ => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}
