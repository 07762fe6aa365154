//! Whose collection it is.
//!
//! The first vault that publishes or backs up to a collection leaves its id there, and another
//! vault is refused: it would delete the rows and the backup of the first. The id is a blob of 16
//! bytes that the server keeps for the owner. It guards against a mistyped address, not against
//! the server, which can forget it, nor against two vaults that begin at the same moment.

use shard_protocol::{BlobName, Leak, Limits, PutBlob, declassify};
use subtle::ConstantTimeEq;

use super::backup::fetch;
use crate::error::ClientError;
use crate::keys::VaultId;
use crate::transport::{Channel, accepted};

/// The blob with the id.
pub(super) const IDENTITY: &str = "vault.id";

/// Makes the collection this vault's, if it is nobody's; with `replace`, whoever's it is.
///
/// # Errors
/// When it is another vault's, and when the server refuses or cannot be reached.
pub(super) fn claim(
    id: VaultId,
    replace: bool,
    transport: &dyn Channel,
) -> Result<(), ClientError> {
    let name: BlobName = IDENTITY.parse().expect("letters and a dot");
    match fetch(transport, &name)? {
        Some(kept) if bool::from(kept.ct_eq(&id.0)) => return Ok(()),
        Some(_) if !replace => return Err(ClientError::AnotherVault),
        _ => {}
    }
    let message = PutBlob::new(
        declassify(name, Leak::SealedBlobs),
        declassify(id.0.to_vec(), Leak::SealedBlobs),
    );
    accepted(transport, message.encode(), &Limits::default())
}
