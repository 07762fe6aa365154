//! Vectors that are with the server alone: a vault that does not keep them leaves them there once they are
//! published, and fetches what it needs of them.
//!
//! What is left are the sealed values that a publish leaves for other copies anyway, each known to the
//! vault by its digest.

use std::sync::Arc;

use shard_protocol::Transport;

use super::blobs;
use super::publish::describe;
use crate::collection::settings_of;
use crate::error::ClientError;
use crate::progress::{Progress, Watch};
use crate::vault::{Elsewhere, Entry, Slot, Vault, VaultAccess, digest_of};

/// Values that are read back at once.
const AT_ONCE: usize = 32;

/// Lets a vault fetch vectors that it has left with a server.
pub fn fetch_vectors_from<T>(vault: &mut Vault, server: Arc<T>)
where
    T: Transport<Error: Into<ClientError>> + Send + Sync + 'static,
{
    vault.look_elsewhere(Elsewhere::new(move |entries| {
        blobs::fetch_values(entries, &*server).map_err(Into::into)
    }));
}

/// Removes the vectors of a vault that is not to keep them, once the server has given each of them back
/// as it was sent. Returns how many bytes were removed: none before the vault was published, and none from
/// a vault that keeps them.
///
/// # Errors
/// When the server cannot be reached or gives back something else, the vault is being written to, or
/// `watch` ended it. Vectors that were not read back are still here then.
pub fn leave_vectors(
    vault: &mut Vault,
    transport: &impl Transport<Error: Into<ClientError>>,
    watch: &Watch<'_>,
) -> Result<u64, ClientError> {
    if vault.access() == VaultAccess::Query {
        return Ok(0);
    }
    let snapshot = vault.snapshot()?;
    if settings_of(&snapshot)?.keep_vectors {
        return Ok(0);
    }
    if describe(transport)?.commit != Some(snapshot.root().header.commit) {
        return Ok(0);
    }
    let here = snapshot.leavable()?;
    drop(snapshot);
    if here.is_empty() {
        return Ok(0);
    }
    let mut progress = Progress { done: 0, total: bytes(&here) };
    for values in here.chunks(AT_ONCE) {
        let entries: Vec<_> = values.iter().map(|(_, entry)| *entry).collect();
        for ((slot, entry), came) in values.iter().zip(blobs::fetch_values(&entries, transport)?) {
            if came.is_none_or(|sealed| digest_of(&sealed) != entry.digest) {
                return Err(super::BackupError::NotReadBack { value: slot.to_string() }.into());
            }
        }
        progress.done += bytes(values);
        if watch(progress).is_break() {
            return Err(ClientError::Cancelled);
        }
    }
    vault.leave(&here)?;
    Ok(progress.done)
}

fn bytes(values: &[(Slot, Entry)]) -> u64 {
    values.iter().map(|(_, entry)| u64::from(entry.length)).sum()
}
