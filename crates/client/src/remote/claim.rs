//! Whose collection it is.
//!
//! The first vault that publishes or backs up to a collection leaves its claim there, and another
//! vault is refused: it would delete the rows and the backup of the first. The claim is a blob of 16
//! bytes that the server keeps for the owner:
//!
//! ```text
//! claim = HKDF-SHA256(salt = "shard/v1 claim", input = vault id, info = name of the collection)
//! ```
//!
//! The id itself is not sent, and a root is kept with the claim in its place; so the claims of one vault on two collections have nothing in common
//! for who does not hold a copy of it. A claim guards against a mistyped address, not against the
//! server, which can forget it, nor against two vaults that begin at the same moment.

use hkdf::Hkdf;
use sha2::Sha256;
use shard_protocol::{BlobName, CollectionName, Transport};
use subtle::ConstantTimeEq;

use super::blobs::{fetch, put};
use crate::collection::Position;
use crate::error::ClientError;
use crate::keys::{VAULT_ID_BYTES, VaultId};
use crate::transport::Channel;
use crate::vault::{Snapshot, with_id};

/// The blob with the claim.
pub(super) const CLAIM: &str = "claim";

/// What a vault leaves in a collection of this name, and is known by there.
fn claim_of(id: VaultId, collection: &CollectionName) -> VaultId {
    let hkdf = Hkdf::<Sha256>::new(Some(b"shard/v1 claim"), &id.0);
    let mut claim = VaultId([0; VAULT_ID_BYTES]);
    hkdf.expand(collection.as_str().as_bytes(), &mut claim.0).expect("16 bytes are few enough");
    claim
}

/// A root as a server keeps it: with the claim in place of the id of the vault.
///
/// # Errors
/// When the disk refuses.
pub(super) fn root_to_keep(
    snapshot: &Snapshot,
    transport: &dyn Channel,
) -> Result<Vec<u8>, ClientError> {
    let (root, id) = (snapshot.sealed_root()?, snapshot.root().header.vault);
    let claim = claim_of(id, &transport.collection_name());
    Ok(with_id(&root, id, claim).expect("a root has the id of its vault"))
}

/// The root that a server keeps, as it was sealed; `None` when it is not of this vault.
pub(super) fn kept_root(kept: &[u8], id: VaultId, transport: &dyn Channel) -> Option<Vec<u8>> {
    with_id(kept, claim_of(id, &transport.collection_name()), id)
}

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
    let claim = claim_of(id, &transport.collection_name());
    Ok(match fetch(transport, &blob())? {
        None => Owner::Nobody,
        Some(kept) if bool::from(kept.ct_eq(&claim.0)) => Owner::ThisVault,
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
    put(transport, &blob(), claim_of(id, &transport.collection_name()).0.to_vec())
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

fn blob() -> BlobName {
    CLAIM.parse().expect("letters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_follow_from_the_vault_and_the_collection() {
        let (one, two) = (VaultId([1; 16]), VaultId([2; 16]));
        let (main, papers) = (CollectionName::default(), "papers".parse().unwrap());
        let claims = [
            claim_of(one, &main),
            claim_of(one, &papers),
            claim_of(two, &main),
            claim_of(two, &papers),
        ];
        for (at, claim) in claims.iter().enumerate() {
            assert!(!claims[..at].contains(claim));
            assert!(*claim != one && *claim != two);
        }
        assert_eq!(claim_of(one, &main), claims[0]);
    }
}
