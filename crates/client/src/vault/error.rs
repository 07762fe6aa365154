//! Everything that can go wrong with a vault, in one line each.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::kdf::KdfCostError;
use super::secret::UnlockKind;

/// Why a vault operation failed: which file, what was wrong with it, and what to do.
///
/// No variant carries a secret or a payload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    /// Where a vault was to be made, there is one.
    #[error("{}: there is already a vault here; open it or choose another directory", .directory.display())]
    AlreadyExists {
        /// The directory asked for.
        directory: PathBuf,
    },
    /// Where a vault was to be made, there are other files.
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
    /// A vault that was being made when the process ended.
    #[error("{}: making a vault here was cut off before its end; make it again, nothing is lost", .directory.display())]
    Unfinished {
        /// The directory.
        directory: PathBuf,
    },
    /// A vault of the format before this one.
    #[error("{}: this vault has format 1, which no release has had; make a new vault and ingest the documents again", .directory.display())]
    OldVault {
        /// The vault's directory.
        directory: PathBuf,
    },
    /// A database without a keyring.
    #[error("{}: the keyring is gone, and without it nothing here can be opened; put a copy of it back, use the recovery code, or restore the vault", .file.display())]
    NoKeyring {
        /// Where it should be.
        file: PathBuf,
    },
    /// A keyring without a database.
    #[error("{}: the database is gone; restore the vault from a backup", .file.display())]
    NoDatabase {
        /// Where it should be.
        file: PathBuf,
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
        found: i64,
        /// The version this code reads and writes.
        supported: i64,
    },
    /// The keyring is shorter than its header says.
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
    /// The bytes are not those that were written.
    #[error("{}: damaged; restore it from a backup", .file.display())]
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
    /// A value is not the one that was committed, or does not open.
    #[error("{}: the value \"{value}\" is damaged or was altered; restore the vault from a backup", .file.display())]
    SealBroken {
        /// The database.
        file: PathBuf,
        /// Which value.
        value: String,
    },
    /// There is no such value in this commit.
    #[error("{}: the vault holds no {value} yet", .file.display())]
    Absent {
        /// The database.
        file: PathBuf,
        /// Which value.
        value: String,
    },
    /// The root lists a value, and it is gone.
    #[error("{}: the value \"{value}\" is missing; restore the vault from a backup", .file.display())]
    Missing {
        /// The database.
        file: PathBuf,
        /// Which value.
        value: String,
    },
    /// The root lists a value that is kept elsewhere, and nobody has said where.
    #[error("{}: the value \"{value}\" is with the server that the vault was published to, and not here", .file.display())]
    Elsewhere {
        /// The database.
        file: PathBuf,
        /// Which value.
        value: String,
    },
    /// A value that is kept elsewhere did not come.
    #[error("the value \"{value}\" of the vault is with its server, and was not fetched")]
    Fetch {
        /// Which value.
        value: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A value that is longer than a vault holds.
    #[error("{}: the value \"{value}\" is longer than a vault can hold; change fewer documents at once", .file.display())]
    TooLarge {
        /// The database.
        file: PathBuf,
        /// Which value.
        value: String,
    },
    /// A value that no root lists.
    #[error("{}: value {id:#x} belongs to no commit; something else has written to the vault", .file.display())]
    Surplus {
        /// The database.
        file: PathBuf,
        /// Its key.
        id: i64,
    },
    /// Another writer is at work.
    #[error("{}: another process is writing to this vault; wait until it has finished", .directory.display())]
    Locked {
        /// The vault's directory.
        directory: PathBuf,
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
    pub(crate) fn io(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, file: file.to_owned(), source }
    }

    /// What an error of SQLite means for the vault in this file.
    pub(super) fn database(action: &'static str, file: &Path, error: rusqlite::Error) -> Self {
        let other = |kind, error: &rusqlite::Error| Self::Io {
            action,
            file: file.to_owned(),
            source: io::Error::new(kind, error.to_string()),
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                let directory = file.parent().unwrap_or(file).to_owned();
                Self::Locked { directory }
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { file: file.to_owned() }
            }
            Some(ErrorCode::DiskFull) => other(io::ErrorKind::StorageFull, &error),
            Some(ErrorCode::ReadOnly) => other(io::ErrorKind::ReadOnlyFilesystem, &error),
            Some(ErrorCode::PermissionDenied) => other(io::ErrorKind::PermissionDenied, &error),
            Some(_) => other(io::ErrorKind::Other, &error),
            // A column of another type than ours.
            None => Self::Damaged { file: file.to_owned() },
        }
    }
}
