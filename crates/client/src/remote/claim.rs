//! Whose collection it is.
//!
//! The first vault that publishes or backs up to a collection leaves its id there, and another
//! vault is refused: it would delete the rows and the backup of the first. The id is a blob of 16
//! bytes that the server keeps for the owner. It guards against a mistyped address, not against
//! the server, which can forget it, nor against two vaults that begin at the same moment.

use shard_protocol::{BlobName, Transport};
use subtle::ConstantTimeEq;

use super::blobs::{fetch, put};
use crate::collection::Position;
use crate::error::ClientError;
use crate::keys::VaultId;
use crate::transport::Channel;

/// The blob with the id.
pub(super) const IDENTITY: &str = "vault.id";

/// Whose a collection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// Nobody has claimed it.
    Nobody,
    /// It is this vault's.
    ThisVault,
    /// It is another vault's.
    Another,
}

/// Whose the collection is, as the server says.
///
/// # Errors
/// When the server refuses or cannot be reached.
pub(super) fn owner(id: VaultId, transport: &dyn Channel) -> Result<Owner, ClientError> {
    Ok(match fetch(transport, &identity())? {
        None => Owner::Nobody,
        Some(kept) if bool::from(kept.ct_eq(&id.0)) => Owner::ThisVault,
        Some(_) => Owner::Another,
    })
}

/// Whether the collection is that of this vault; `None` while it is nobody's.
///
/// # Errors
/// When the server refuses or cannot be reached.
pub fn is_of_vault(
    position: &Position,
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<Option<bool>, ClientError> {
    Ok(match owner(position.vault(), transport)? {
        Owner::Nobody => None,
        Owner::ThisVault => Some(true),
        Owner::Another => Some(false),
    })
}

/// Makes the collection this vault's, whoever's it is.
///
/// # Errors
/// When the server refuses or cannot be reached.
pub(super) fn take(id: VaultId, transport: &dyn Channel) -> Result<(), ClientError> {
    put(transport, &identity(), id.0.to_vec())
}

/// Makes the collection this vault's, if it is nobody's; with `replace`, whoever's it is.
///
/// # Errors
/// When it is another vault's, and when the server refuses or cannot be reached.
pub(super) fn claim(
    id: VaultId,
    replace: bool,
    transport: &dyn Channel,
) -> Result<(), ClientError> {
    match owner(id, transport)? {
        Owner::ThisVault => Ok(()),
        Owner::Another if !replace => Err(ClientError::AnotherVault),
        Owner::Another | Owner::Nobody => take(id, transport),
    }
}

fn identity() -> BlobName {
    IDENTITY.parse().expect("letters and a dot")
}
