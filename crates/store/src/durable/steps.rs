//! Steps that several changes have in common.

use shard_protocol::{BlobName, Epoch};

use super::cache::Stale;
use super::catalogue::CatalogueEntry;
use super::draft::Draft;
use super::key::{CollectionId, Table};
use super::record::EpochRecord;
use crate::StoreError;
use crate::rules::room_for_blob;

/// Tables with the rows of an epoch.
pub(super) const OF_ROWS: [Table; 3] = [Table::Rows, Table::Names, Table::Tombstones];

/// Removes an epoch with its rows.
pub(super) fn erase_epoch(
    draft: &mut Draft<'_>,
    id: CollectionId,
    epoch: Epoch,
) -> Result<(), StoreError> {
    let prefix = id.epoch(epoch);
    let mut bytes = 0;
    for table in OF_ROWS {
        bytes += draft.remove_prefix(table, &prefix)?;
    }
    draft.remove(Table::Epochs, &prefix)?;
    draft.leave_epoch(bytes);
    draft.stale(Stale::Epoch(id, epoch));
    Ok(())
}

/// Removes every epoch but one.
pub(super) fn erase_others(
    draft: &mut Draft<'_>,
    held: &mut CatalogueEntry,
    epoch: Epoch,
) -> Result<(), StoreError> {
    for &old in held.epochs.keys().filter(|other| **other != epoch) {
        erase_epoch(draft, held.record.id, old)?;
    }
    held.epochs.retain(|&other, _| other == epoch);
    Ok(())
}

/// Writes a blob, unless it is there as it is to be; returns whether it was written.
pub(super) fn put_blob(
    draft: &mut Draft<'_>,
    held: &mut CatalogueEntry,
    name: &BlobName,
    sealed: &[u8],
) -> Result<bool, StoreError> {
    let key = held.record.id.blob(name);
    // One that is damaged is replaced.
    let same = draft.read(Table::Blobs, &key, |kept| Some(kept == sealed));
    if matches!(same, Ok(Some(true))) {
        return Ok(false);
    }
    let length = (sealed.len() as u64).to_le_bytes().to_vec();
    if draft.put(Table::Lengths, &key, length)?.is_none() {
        room_for_blob(held.record.blobs as usize)?;
        held.record.blobs += 1;
    }
    if let Some(bytes) = draft.put(Table::Blobs, &key, sealed.to_vec())? {
        draft.leave_bytes(bytes);
    }
    Ok(true)
}

/// Keeps the record of an epoch.
pub(super) fn put_epoch(
    draft: &mut Draft<'_>,
    held: &mut CatalogueEntry,
    number: Epoch,
    epoch: EpochRecord,
) -> Result<(), StoreError> {
    held.epochs.insert(number, epoch);
    draft.put(Table::Epochs, &held.record.id.epoch(number), epoch.encode())?;
    Ok(())
}
