//! A server in this process, filled with the blocks of a vault.

use std::collections::BTreeMap;

use shard_protocol::{ActivateEpoch, Advance, BeginPublish, Leak, Limits, Transport, declassify};

use super::BlindCollection;
use super::publish::send_blocks;
use super::records::send_records;
use crate::error::ClientError;
use crate::progress::{UNWATCHED, Watch};
use crate::transport::accepted;
use crate::vault::Vault;

/// What a server in this process is filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filling {
    /// Blocks, for searches.
    Rows,
    /// Blocks and records, for searches and fetches.
    RowsAndRecords,
}

/// Encrypts the rows of a vault and leaves them with a server that holds nothing yet, over the same
/// messages as a publish. Returns the collection, to search it with.
///
/// # Errors
/// When the vault is empty, rotated, a query vault or damaged, the server refuses, and when `watch`
/// ended it.
pub fn fill_server(
    vault: &Vault,
    filling: Filling,
    transport: &impl Transport<Error: Into<ClientError>>,
    watch: &Watch<'_>,
) -> Result<BlindCollection, ClientError> {
    let snapshot = vault.snapshot()?;
    let collection = BlindCollection::read(vault, &snapshot)?;
    let advance =
        Advance { from: None, to: collection.commit(), revision: collection.revision(), turn: 1 };
    let disclosed = || declassify(advance, Leak::CollectionShape);
    let limits = Limits::default();
    accepted(transport, BeginPublish::new(disclosed()).encode(), &limits)?;
    if filling == Filling::RowsAndRecords {
        send_records(&snapshot, &collection, &BTreeMap::new(), transport, UNWATCHED)?;
    }
    send_blocks(&snapshot, &collection, &BTreeMap::new(), None, &[], transport, watch)?;
    let epoch = declassify(collection.epoch(), Leak::CollectionShape);
    accepted(transport, ActivateEpoch::new(disclosed(), epoch).encode(), &limits)?;
    Ok(collection)
}
