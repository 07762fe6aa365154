//! A vault from nothing but the server's address and what opens it.

use std::path::Path;

use data_encoding::HEXLOWER;
use shard_protocol::{CommitName, Transport};

use super::backup::{BackupError, kept_backups};
use super::blobs;
use super::claim::kept_root;
use crate::error::ClientError;
use crate::keys::vault_id;
use crate::progress::{Progress, Watch};
use crate::vault::{NewVault, Unlock, Vault, open_value};

/// What a restore did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The generation of the vault.
    pub generation: u64,
    /// Its commit.
    pub commit: CommitName,
    /// Its values.
    pub values: usize,
    /// Bytes of its values.
    pub bytes: u64,
}

/// Fetches a vault that a server keeps into `directory`, which must be empty or not exist: the
/// newest backup, or with `at` the newest of the commit whose name begins like that.
///
/// The keyring comes first, so that a wrong passphrase is noticed before much is fetched. Every
/// value is opened before it is written. Until the end there is no vault in `directory`, and a
/// restore that was cut off can be begun again there.
///
/// # Errors
/// When there is no backup, it is damaged, `unlock` does not open it, the disk refuses, or `watch`
/// ended it.
pub fn restore(
    transport: &impl Transport<Error: Into<ClientError>>,
    directory: &Path,
    unlock: &Unlock,
    at: Option<&str>,
    watch: &Watch<'_>,
) -> Result<Restored, ClientError> {
    let backups = kept_backups(transport)?;
    let begins = |commit: &CommitName| {
        at.is_none_or(|at| HEXLOWER.encode(&commit.0).starts_with(&at.to_ascii_lowercase()))
    };
    let Some(chosen) = backups.iter().find(|backup| begins(&backup.commit)) else {
        return Err(match at {
            Some(at) if !backups.is_empty() => {
                BackupError::NoSuchBackup { kept: backups.len(), at: at.to_owned() }
            }
            _ => BackupError::Absent,
        }
        .into());
    };
    let record = chosen.read(transport)?;
    let opened = Vault::opens(&record.keyrings, unlock, directory)?;
    let sealed_root =
        kept_root(&record.root, vault_id(opened.master()?), transport).ok_or_else(|| {
            BackupError::Unusable { reason: "its root is of another vault or collection".into() }
        })?;
    let (root, keys) = opened.open_root(&sealed_root)?;
    if root.header.commit != chosen.commit {
        let reason = format!("it is of commit {} and not of {}", root.header.commit, chosen.commit);
        return Err(BackupError::Unusable { reason }.into());
    }
    let new = NewVault::begin(directory)?;
    let mut progress = Progress { done: 0, total: root.bytes() };
    for (&slot, entry) in &root.entries {
        let damaged = || BackupError::Damaged { value: slot.to_string() };
        let sealed = blobs::fetch_value(entry, transport)?.ok_or_else(damaged)?;
        open_value(&keys, slot, entry, &sealed, directory).map_err(|_| damaged())?;
        new.put_sealed(slot, &sealed)?;
        progress.done += u64::from(entry.length);
        if watch(progress).is_break() {
            return Err(ClientError::Cancelled);
        }
    }
    new.finish(&sealed_root, &record.keyrings)?;
    let (generation, commit) = (root.header.generation, root.header.commit);
    Ok(Restored { generation, commit, values: root.entries.len(), bytes: progress.done })
}
