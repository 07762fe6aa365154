//! A vault for somebody who may search and nothing else.
//!
//! It holds the secret of the present epoch in place of the master secret, and of the owner's vault
//! what searching needs, sealed under a key of the epoch as it is: model, canaries and routing, or the
//! head and the places of a blind one's blocks. It has no settings, and no vectors but the canaries'. Whoever has it can do what
//! searching takes: route, rotate or encrypt queries, name rows, read ids and prefixes. It cannot make the keys of another epoch, so the next
//! [`rekey`](crate::rekey) or [`refit`](crate::refit) revokes it.

use std::path::Path;

use rand_core::CryptoRng;

use super::read_model;
use crate::error::ClientError;
use crate::keys::epoch_secret;
use crate::vault::{KdfCost, Slot, Unlock, Vault};

/// Makes a query vault of the collection as it is now, in `directory`, which must be empty or not
/// exist; `unlock` is what its holder will open it with.
///
/// # Errors
/// When the vault is empty or itself a query vault, there is anything in the directory, `unlock` is
/// not fit to seal a vault, or the disk refuses.
pub fn export_query_vault(
    vault: &Vault,
    directory: &Path,
    unlock: &Unlock,
    cost: KdfCost,
    rng: &mut impl CryptoRng,
) -> Result<Vault, ClientError> {
    vault.require_owner("be exported")?;
    let snapshot = vault.snapshot()?;
    let epoch = if snapshot.contains(Slot::Blind) {
        snapshot.root().header.epoch.ok_or(ClientError::Empty)?
    } else {
        *read_model(&snapshot)?.salted_epoch()
    };
    let secret = epoch_secret(vault.master()?, &epoch);
    Ok(Vault::create_query(directory, secret, unlock, cost, &snapshot, rng)?)
}
