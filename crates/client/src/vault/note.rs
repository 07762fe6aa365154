//! Where and when a vault was last backed up: a small file beside the database, for people. It
//! vouches for nothing, and a vault without it is whole.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use shard_protocol::CommitName;

use super::error::VaultError;
use super::{KEYRING, RECOVERY, Vault};

/// The note.
pub(super) const LAST_BACKUP: &str = "LAST_BACKUP";
/// A note about to take the place of another.
pub(super) const NEXT_NOTE: &str = "LAST_BACKUP.next";

/// The longest note that is read.
const MAX_NOTE_BYTES: usize = 4096;

/// The last backup of a vault, as this copy remembers it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BackupNote {
    /// The server and the collection.
    pub server: String,
    /// The commit, as text.
    pub commit: String,
    /// Milliseconds after 1970.
    made: u64,
}

/// What has changed since the last backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupAge {
    /// The last backup; `None` when this copy knows of none.
    pub last: Option<BackupNote>,
    /// Whether the vault has changed since.
    pub vault_changed: bool,
    /// Whether what opens the vault has changed since.
    pub unlock_changed: bool,
}

impl BackupNote {
    /// When it was made.
    pub fn made(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.made)
    }
}

impl Vault {
    /// Remembers a backup.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn note_backup(
        &self,
        server: &str,
        commit: CommitName,
        made: SystemTime,
    ) -> Result<(), VaultError> {
        let made = made.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let note = BackupNote {
            server: server.to_owned(),
            commit: commit.to_string(),
            made: made.as_millis() as u64,
        };
        let bytes = serde_json::to_vec(&note).expect("a note is plain data");
        let written = self.disk.replace_with(LAST_BACKUP, NEXT_NOTE, &bytes);
        written.map_err(VaultError::io("write", &self.disk.path(LAST_BACKUP)))
    }

    /// The last backup, and what has changed since.
    ///
    /// # Errors
    /// When the vault is damaged or the disk refuses.
    pub fn backup_age(&self) -> Result<BackupAge, VaultError> {
        let bytes = self.disk.read_small(LAST_BACKUP, MAX_NOTE_BYTES).unwrap_or_default();
        let last: Option<BackupNote> = serde_json::from_slice(&bytes).ok();
        let Some(note) = &last else {
            return Ok(BackupAge { last, vault_changed: true, unlock_changed: false });
        };
        let vault_changed = self.head()?.name.to_string() != note.commit;
        let since = |name| {
            let changed = self.disk.path(name).metadata().and_then(|data| data.modified());
            changed.is_ok_and(|changed| changed > note.made())
        };
        let unlock_changed = since(KEYRING) || since(RECOVERY);
        Ok(BackupAge { last, vault_changed, unlock_changed })
    }
}
