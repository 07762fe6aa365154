//! A vault for somebody who may search and nothing else.
//!
//! It holds the secret of the present epoch in place of the master secret, a data key of its own,
//! settings, model and index; no vectors and no rows. Whoever has it can do what searching takes:
//! route, rotate queries, name rows, read ids and prefixes. It cannot make the keys of another epoch,
//! so the next [`rekey`](crate::rekey) or [`refit`](crate::refit) revokes it.

use std::path::Path;

use rand_core::CryptoRng;
use shard_protocol::{Epoch, Revision};
use zeroize::Zeroizing;

use super::{Collection, unusable};
use crate::error::ClientError;
use crate::keys::epoch_secret;
use crate::payload::{PayloadError, Reader, Writer};
use crate::vault::{FileKind, KdfCost, Unlock, Vault, VaultError};

const VERSION: u16 = 1;

/// Of which state of its owner's vault a query vault is a copy.
pub(super) struct Origin {
    epoch: Epoch,
    /// The generation of the owner's vault.
    pub(super) revision: Revision,
}

impl Origin {
    /// Reads it beside a model of this epoch.
    pub(super) fn read(vault: &Vault, epoch: Epoch) -> Result<Self, ClientError> {
        let bytes = vault.read(FileKind::Origin)?;
        let read = || {
            let mut reader = Reader::new(&bytes, VERSION)?;
            let origin = Self { epoch: Epoch(reader.u64()?), revision: Revision(reader.u64()?) };
            reader.finish()?;
            if origin.epoch != epoch {
                return Err(PayloadError::Invalid("its epoch is not the model's".into()));
            }
            Ok(origin)
        };
        read().map_err(unusable("origin"))
    }

    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(VERSION);
        writer.u64(self.epoch.0);
        writer.u64(self.revision.0);
        writer.bytes
    }
}

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
    let collection = Collection::open(vault)?;
    let epoch = collection.epoch();
    let origin = Origin { epoch, revision: collection.revision() };
    // Everything is read before anything is made.
    let mut payloads = vec![(FileKind::Origin, origin.encode().into())];
    for kind in [FileKind::Settings, FileKind::Model, FileKind::Index] {
        payloads.push((kind, vault.read(kind)?));
    }
    let secret = epoch_secret(vault.master()?, collection.model().salted_epoch());
    let mut exported = Vault::create_query(directory, secret, unlock, cost, rng)?;
    match fill(&mut exported, &payloads, rng) {
        Ok(()) => Ok(exported),
        Err(error) => {
            exported.discard();
            Err(error.into())
        }
    }
}

fn fill(
    vault: &mut Vault,
    payloads: &[(FileKind, Zeroizing<Vec<u8>>)],
    rng: &mut impl CryptoRng,
) -> Result<(), VaultError> {
    let mut transaction = vault.transaction()?;
    for (kind, payload) in payloads {
        transaction.write(*kind, payload, rng)?;
    }
    transaction.commit(rng)
}
