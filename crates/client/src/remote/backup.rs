//! Keeps a vault on the server: its keyrings and every value of a commit, sealed as they are.
//!
//! A backup is a blob with the keyrings and the root of a commit, named by the time at which it was
//! made; the values that the root lists are blobs of their own, which backups share. A new backup
//! takes nothing from those before it: its values are sent and read back, then the blob that names
//! them, and only then is the oldest removed. Where there is a backup, its values were read back.
//!
//! The keyring is sealed under the passphrase. A server that holds it can try passphrases at the
//! price that Argon2id sets; whoever keeps a backup on it needs one that cannot be guessed, or a key
//! file. What a server can do beside that is to give an older backup for the latest, or none.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use shard_protocol::{BlobName, CollectionState, CommitName, Revision, Transport};
use subtle::ConstantTimeEq;

use super::blobs::{self, Kept};
use super::claim::{claim, kept_root, root_to_keep};
use super::lineage::{Head, Lineage, Standing, standing};
use super::publish::describe;
use super::sweep::collect;
use crate::collection::{came_from, verify_commit};
use crate::error::ClientError;
use crate::payload::{PayloadError, Reader, Writer};
use crate::progress::{UNWATCHED, Watch};
use crate::transport::Channel;
use crate::vault::{Keyrings, MAX_ROOT_BYTES, Root, RootHeader, Slot, Snapshot, Vault, digest_of};

/// How the names of backups begin.
const BACKUP: &str = "backup.";

const VERSION: u16 = 1;

/// Backups that are kept, unless the owner asks for another number.
const KEPT: usize = 3;

/// The longest keyring that is read.
const MAX_KEYRING_BYTES: usize = 1 << 16;

/// How to back up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackupOptions {
    /// Whether to go on although the server keeps another vault, or backups of a state that this
    /// copy did not come from.
    pub replace: bool,
    /// Backups that are kept, this one among them; at least one.
    pub keep: usize,
}

impl Default for BackupOptions {
    fn default() -> Self {
        Self { replace: false, keep: KEPT }
    }
}

/// What a backup did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackedUp {
    /// The generation of the vault.
    pub generation: u64,
    /// Its commit.
    pub commit: CommitName,
    /// When it was made.
    pub made: SystemTime,
    /// Its values.
    pub values: usize,
    /// Bytes of its values.
    pub bytes: u64,
    /// Bytes that had to be sent.
    pub sent: u64,
    /// Backups that are kept now.
    pub kept: usize,
    /// Blobs of earlier backups that were removed.
    pub removed: usize,
}

/// A backup that a server keeps, as far as it says without being opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptBackup {
    name: BlobName,
    /// When it was made, by the clock of whoever made it.
    pub made: SystemTime,
    /// The commit.
    pub commit: CommitName,
}

/// Why there is no backup, or no vault from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// Nothing is kept there.
    #[error("the server keeps no backup of a vault in this collection; check the address")]
    Absent,
    /// No backup of that name.
    #[error(
        "none of the {kept} backups that the server keeps is of a commit that begins with {at}"
    )]
    NoSuchBackup {
        /// Backups there are.
        kept: usize,
        /// What was asked for.
        at: String,
    },
    /// The newest backup is of a commit that this copy did not come from.
    #[error(
        "the newest backup is of commit {kept} (generation {generation}), which this copy of the \
         vault did not come from: another copy was backed up since; bring this copy forward, or \
         replace the backup deliberately"
    )]
    Parted {
        /// The commit of the backup.
        kept: CommitName,
        /// Its generation.
        generation: u64,
    },
    /// It makes no sense.
    #[error("the backup cannot be used: {reason}")]
    Unusable {
        /// What is wrong with it.
        reason: String,
    },
    /// A value is missing or was changed.
    #[error("the backup is damaged: the value \"{value}\" is missing or was changed")]
    Damaged {
        /// Which.
        value: String,
    },
    /// What was sent did not come back.
    #[error(
        "the server gave back another \"{value}\" than was sent: this backup does not count, those \
         before it stay as they are"
    )]
    NotReadBack {
        /// Which.
        value: String,
    },
}

/// A backup, read.
pub(super) struct BackupRecord {
    pub(super) keyrings: Keyrings,
    /// As the server keeps it, with the claim in place of the vault's id.
    pub(super) root: Vec<u8>,
}

impl BackupRecord {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(VERSION);
        let recovery = self.keyrings.recovery.as_deref().unwrap_or_default();
        for part in [&self.keyrings.main, recovery, &self.root] {
            writer.u64(part.len() as u64);
            writer.bytes.extend_from_slice(part);
        }
        writer.bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, BackupError> {
        let read = || {
            let mut reader = Reader::new(bytes, VERSION)?;
            let mut part = |most: usize| match reader.size()? {
                length if length <= most => Ok(reader.take(length)?.to_vec()),
                _ => Err(PayloadError::Invalid("a part that is too long".into())),
            };
            let main = part(MAX_KEYRING_BYTES)?;
            let recovery = Some(part(MAX_KEYRING_BYTES)?).filter(|bytes| !bytes.is_empty());
            let root = part(MAX_ROOT_BYTES)?;
            reader.finish()?;
            Ok(Self { keyrings: Keyrings { main, recovery }, root })
        };
        read()
            .map_err(|problem: PayloadError| BackupError::Unusable { reason: problem.to_string() })
    }
}

impl KeptBackup {
    /// A backup made now. It is the newest, also where the clock of whoever made the one before is
    /// ahead of this one.
    fn now(commit: CommitName, newest: Option<&Self>) -> Self {
        let now = milliseconds(SystemTime::now());
        let least = newest.map_or(0, |newest| milliseconds(newest.made).saturating_add(1));
        let time = now.max(least);
        let name = blobs::named(format!("{BACKUP}{time:016x}.{commit}"));
        let made = SystemTime::UNIX_EPOCH + Duration::from_millis(time);
        Self { name, made, commit }
    }

    fn parse(name: &BlobName) -> Option<Self> {
        let (time, commit) = name.as_str().strip_prefix(BACKUP)?.split_once('.')?;
        let milliseconds = u64::from_str_radix(time, 16).ok()?;
        let made = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds))?;
        let commit = HEXLOWER.decode(commit.as_bytes()).ok()?.try_into().ok()?;
        Some(Self { name: name.clone(), made, commit: CommitName(commit) })
    }

    /// Reads it.
    pub(super) fn read(&self, transport: &dyn Channel) -> Result<BackupRecord, ClientError> {
        let absent = || BackupError::Damaged { value: "root".into() };
        let bytes = blobs::fetch(transport, &self.name)?.ok_or_else(absent)?;
        Ok(BackupRecord::decode(&bytes)?)
    }

    /// Reads it and opens its root, so that what it says is not the server's word.
    pub(super) fn opened(
        &self,
        vault: &Vault,
        transport: &dyn Channel,
    ) -> Result<Root, ClientError> {
        let record = self.read(transport)?;
        let unusable = || BackupError::Unusable {
            reason: format!("what is kept of commit {} does not open", self.commit),
        };
        let id = vault.snapshot()?.root().header.vault;
        let root = kept_root(&record.root, id, transport).ok_or(ClientError::AnotherVault)?;
        Ok(vault.open_root(&root).map_err(|_| unusable())?.0)
    }
}

/// Milliseconds after 1970.
fn milliseconds(time: SystemTime) -> u64 {
    let elapsed = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// The backups that a server keeps, the newest first.
///
/// # Errors
/// When the server refuses or cannot be reached.
pub fn kept_backups(
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<Vec<KeptBackup>, ClientError> {
    Ok(newest_first(&blobs::list(transport)?))
}

pub(super) fn newest_first(kept: &Kept) -> Vec<KeptBackup> {
    let mut backups: Vec<KeptBackup> = kept.keys().filter_map(KeptBackup::parse).collect();
    backups.sort_by(|a, b| b.name.cmp(&a.name));
    backups
}

/// Verifies the vault and keeps it on the server, beside earlier backups of it.
///
/// # Errors
/// When this is a query vault, it is damaged, another vault or a copy that has gone another way is
/// kept there, what was sent does not come back, the server refuses or cannot be reached, and when
/// `watch` ended it. Earlier backups are then as they were.
pub fn backup(
    vault: &Vault,
    options: BackupOptions,
    transport: &impl Transport<Error: Into<ClientError>>,
    watch: &Watch<'_>,
) -> Result<BackedUp, ClientError> {
    vault.require_owner("be backed up")?;
    let snapshot = vault.snapshot()?;
    verify_commit(vault, &snapshot, UNWATCHED)?;
    let header = snapshot.root().header;
    let kept = blobs::list(transport)?;
    claim(header.vault, options.replace, transport)?;
    let before = newest_first(&kept);
    let newest = match before.first().map(|newest| newest.opened(vault, transport)) {
        Some(Err(error)) if !options.replace => return Err(error),
        newest => newest.and_then(Result::ok),
    };
    if !options.replace {
        refuse_if_forked(vault, &snapshot, transport)?;
        refuse_if_parted(&snapshot, newest.as_ref())?;
    }
    let sent = blobs::send_values(&snapshot, &kept, transport, watch)?;
    read_values_back(&snapshot, newest.as_ref(), transport)?;
    let made = KeptBackup::now(header.commit, before.first());
    let root = root_to_keep(&snapshot, transport)?;
    let record = BackupRecord { keyrings: vault.keyrings()?, root };
    put_record(&made, &record.encode(), transport)?;
    // Another copy that looked before the backup was there may have taken its values for left over;
    // from now on nobody does.
    blobs::complete_values(&snapshot, transport, watch)?;
    let keep = options.keep.max(1) - 1;
    let (stay, go) = before.split_at(before.len().min(keep));
    let removed = prune(vault, &snapshot, go, transport)?;
    Ok(BackedUp {
        generation: header.generation,
        commit: header.commit,
        made: made.made,
        values: snapshot.root().entries.len(),
        bytes: snapshot.root().bytes(),
        sent,
        kept: stay.len() + 1,
        removed,
    })
}

/// Refuses where this copy and the published one have parted.
fn refuse_if_forked(
    vault: &Vault,
    snapshot: &Snapshot,
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<(), ClientError> {
    let state = describe(transport)?;
    let history = snapshot.whole_history()?;
    let commit_at = |revision: Revision| history.get(usize::try_from(revision.0).ok()?).copied();
    let header = &snapshot.root().header;
    let head = Head { name: header.commit, revision: Revision(header.generation) };
    let lineage = Lineage { head, commit_at: &commit_at };
    let has_parted = match standing(&state, lineage) {
        Standing::Forked => true,
        Standing::Behind => !led_to_published(vault, header, &state, transport)?,
        _ => false,
    };
    if has_parted { Err(ClientError::forked(&state, lineage)) } else { Ok(()) }
}

/// Whether a commit is one of those that led to the published one, which is at a later generation.
/// Where that cannot be known, it may be.
fn led_to_published(
    vault: &Vault,
    header: &RootHeader,
    state: &CollectionState,
    transport: &dyn Channel,
) -> Result<bool, ClientError> {
    let name = blobs::state_name(state.commit.unwrap_or_default());
    let Some(bytes) = blobs::fetch(transport, &name)? else { return Ok(true) };
    let root = kept_root(&bytes, header.vault, transport).unwrap_or_default();
    let Ok((published, _)) = vault.open_root(&root) else { return Ok(true) };
    let number = (header.generation / Vault::HISTORY_COMMITS) as u32;
    let Some(entry) = published.entries.get(&Slot::History(number)) else { return Ok(false) };
    let Some(sealed) = blobs::fetch_value(entry, transport)? else { return Ok(true) };
    let Ok(names) = vault.open_history(&published, number, &sealed) else { return Ok(true) };
    let at = (header.generation % Vault::HISTORY_COMMITS) as usize;
    Ok(names.get(at) == Some(&header.commit))
}

/// Refuses where the newest backup is of a commit that did not lead to this one.
fn refuse_if_parted(snapshot: &Snapshot, newest: Option<&Root>) -> Result<(), ClientError> {
    let Some(newest) = newest else { return Ok(()) };
    let RootHeader { commit, generation, .. } = newest.header;
    if came_from(snapshot, commit, generation)? {
        Ok(())
    } else {
        Err(BackupError::Parted { kept: commit, generation }.into())
    }
}

/// Fetches the values of a commit and compares them, but for those of the newest backup, which were
/// read back when it was made. A value that is another than was sent is removed, so that it is sent
/// again the next time.
fn read_values_back(
    snapshot: &Snapshot,
    newest: Option<&Root>,
    transport: &dyn Channel,
) -> Result<(), ClientError> {
    let wrong = |slot: Slot| BackupError::NotReadBack { value: slot.to_string() };
    let entries = newest.iter().flat_map(|root| root.entries.values());
    let known: HashSet<_> = entries.map(|entry| entry.digest).collect();
    let root = snapshot.root();
    for (&slot, entry) in root.entries.iter().filter(|(_, entry)| !known.contains(&entry.digest)) {
        let came = blobs::fetch_value(entry, transport)?;
        if came.is_none_or(|sealed| digest_of(&sealed) != entry.digest) {
            // What is not here may be had there all the same, another time.
            if !snapshot.is_elsewhere(slot)? {
                blobs::delete_value(entry, transport)?;
            }
            return Err(wrong(slot).into());
        }
    }
    match blobs::first_missing(root, &blobs::list(transport)?) {
        None => Ok(()),
        Some(slot) => Err(wrong(slot).into()),
    }
}

/// Puts the blob of a backup and reads it back: from then on the backup counts.
fn put_record(made: &KeptBackup, bytes: &[u8], transport: &dyn Channel) -> Result<(), ClientError> {
    blobs::put(transport, &made.name, bytes.to_vec())?;
    if is_same(blobs::fetch(transport, &made.name)?, bytes) {
        return Ok(());
    }
    blobs::delete(transport, &made.name)?;
    Err(BackupError::NotReadBack { value: "root".into() }.into())
}

fn is_same(found: Option<Vec<u8>>, expected: &[u8]) -> bool {
    found.is_some_and(|found| bool::from(found.ct_eq(expected)))
}

/// Removes the backups that go, and the values that nothing lists any more.
fn prune(
    vault: &Vault,
    snapshot: &Snapshot,
    go: &[KeptBackup],
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<usize, ClientError> {
    for backup in go {
        blobs::delete(transport, &backup.name)?;
    }
    Ok(go.len() + collect(vault, snapshot, None, transport)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_a_server_gives_for_a_backup_is_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            cut in 0_usize..400,
        ) {
            let _ = BackupRecord::decode(&bytes);
            let keyrings = Keyrings { main: bytes.clone(), recovery: None };
            let sound = BackupRecord { keyrings, root: bytes.clone() }.encode();
            let back = BackupRecord::decode(&sound).unwrap();
            prop_assert!(back.root == bytes && back.keyrings.main == bytes);
            prop_assert!(BackupRecord::decode(&sound[..cut.min(sound.len() - 1)]).is_err());
        }
    }
}
