//! What a server need not keep any more: states that were published once, and values that nothing
//! lists.

use shard_protocol::{BlobName, CommitName, Transport};

use super::backup::newest_first;
use super::blobs;
use super::claim::kept_root;
use super::publish::describe;
use crate::error::ClientError;
use crate::vault::{Root, Snapshot, Vault};

/// Removes the states that were published before this commit, and the values that nothing lists any
/// more.
pub(super) fn sweep(
    vault: &Vault,
    snapshot: &Snapshot,
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<usize, ClientError> {
    collect(vault, snapshot, Some(snapshot.root().header.commit), transport)
}

/// Removes the values that neither a backup, nor this commit, nor a state lists; of states, all stay
/// or the `only` one does. Nothing is removed where a backup or a state does not open, since another
/// vault was here or it is damaged; nor while another copy publishes, since what it has sent is not
/// listed yet.
pub(super) fn collect(
    vault: &Vault,
    snapshot: &Snapshot,
    only: Option<CommitName>,
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<usize, ClientError> {
    // Listed anew: another copy may have sent something meanwhile. What it sends after it began is
    // either not in the list, or its publish is told of.
    let kept = blobs::list(transport)?;
    let state = describe(transport)?;
    if state.unfinished.is_some() || only.is_some_and(|only| state.commit != Some(only)) {
        return Ok(0);
    }
    let only = only.map(blobs::state_name);
    let stays = |name: &BlobName| match &only {
        Some(only) => name == only,
        None => name.as_str().starts_with(blobs::STATE),
    };
    let mut roots = Vec::new();
    for backup in newest_first(&kept) {
        match backup.opened(vault, transport) {
            Ok(root) => roots.push(root),
            Err(ClientError::Backup(_) | ClientError::AnotherVault) => return Ok(0),
            Err(error) => return Err(error),
        }
    }
    for name in kept.keys().filter(|name| stays(name)) {
        if let Some(bytes) = blobs::fetch(transport, name)? {
            let id = snapshot.root().header.vault;
            let root = kept_root(&bytes, id, transport).unwrap_or_default();
            let Ok((root, _)) = vault.open_root(&root) else { return Ok(0) };
            roots.push(root);
        }
    }
    let listed: Vec<&Root> = roots.iter().chain([snapshot.root()]).collect();
    blobs::collect(&kept, &listed, stays, transport)
}
