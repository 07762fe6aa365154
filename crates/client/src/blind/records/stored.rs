//! The owner's records, read from the vault and held against what is known of them.

use std::collections::{BTreeMap, BTreeSet};

use shard_rlwe::blind::PAGE_SLOTS;
use zeroize::Zeroizing;

use super::Record;
use super::change::{PAGES_AT_ONCE, read_pages};
use super::fetch::rows_of;
use super::slot::{SlotContent, page_of};
#[cfg(feature = "remote")]
use crate::blind::GivenRecord;
use crate::blind::{BlindCollection, contradiction};
use crate::error::ClientError;
use crate::progress::{Progress, Watch};
use crate::vault::{Slot, Snapshot, Vault, VaultAccess};

/// The records of rows, in their order; `None` where a row has none.
pub(in crate::blind) fn read_records(
    snapshot: &Snapshot,
    collection: &BlindCollection,
    rows: &[u32],
) -> Result<Vec<Option<Zeroizing<Vec<u8>>>>, ClientError> {
    let Some(records) = &collection.records else { return Ok(vec![None; rows.len()]) };
    let slots_of = |row: &u32| records.of(*row);
    let wanted: BTreeSet<u32> = rows.iter().filter_map(slots_of).flatten().copied().collect();
    let pages: BTreeSet<u32> = wanted.iter().map(|&slot| page_of(slot)).collect();
    let pages: Vec<u32> = pages.into_iter().collect();
    // Of a page no more is kept than what is wanted.
    let mut held: BTreeMap<u32, SlotContent> = BTreeMap::new();
    for some in pages.chunks(PAGES_AT_ONCE) {
        let opened = read_pages(snapshot, records, &collection.keys.sealer, some)?;
        for (&page, slots) in some.iter().zip(opened) {
            let numbered = (page * PAGE_SLOTS as u32..).zip(slots);
            held.extend(numbered.filter(|(slot, _)| wanted.contains(slot)));
        }
    }
    let record = |row: &u32| {
        let Some(slots) = records.of(*row) else { return Ok(None) };
        let contents: Vec<SlotContent> = slots.iter().map(|slot| held[slot].clone()).collect();
        let joined = SlotContent::join(&contents);
        joined.map(Some).ok_or_else(|| contradiction("records", "slots that make no record"))
    };
    rows.iter().map(record).collect()
}

/// The records of an owner's vault, by row.
///
/// # Errors
/// When the vault is empty, rotated, a query vault or damaged.
pub fn stored_records(vault: &Vault) -> Result<Vec<Record>, ClientError> {
    vault.require_owner("show its records")?;
    let snapshot = vault.snapshot()?;
    let collection = BlindCollection::read(vault, &snapshot)?;
    let rows: Vec<u32> =
        collection.records.iter().flat_map(|records| records.slots.keys()).copied().collect();
    let found = read_records(&snapshot, &collection, &rows)?;
    let record = |(&row, bytes): (&u32, Option<Zeroizing<Vec<u8>>>)| {
        let id = collection.id(row as usize);
        let id = id.ok_or_else(|| contradiction("records", "one is of a free place"))?.to_owned();
        Ok(Record { id, bytes: bytes.map(|bytes| bytes.to_vec()).unwrap_or_default() })
    };
    rows.iter().zip(found).map(record).collect()
}

/// The records of some documents of an owner's vault, in the order of the ids; `None` where a document
/// has none.
///
/// # Errors
/// When an id is nobody's, or the vault is empty, rotated, a query vault or damaged.
pub fn stored_records_of(vault: &Vault, ids: &[&str]) -> Result<Vec<Option<Vec<u8>>>, ClientError> {
    vault.require_owner("show its records")?;
    let snapshot = vault.snapshot()?;
    let collection = BlindCollection::read(vault, &snapshot)?;
    let rows = rows_of(&collection, ids)?;
    let found = read_records(&snapshot, &collection, &rows)?;
    Ok(found.into_iter().map(|record| record.map(|bytes| bytes.to_vec())).collect())
}

/// The records that documents of a commit have, or that they have none; nothing where rows are rotated.
#[cfg(feature = "remote")]
pub(crate) fn records_of(
    vault: &Vault,
    snapshot: &Snapshot,
    ids: &[String],
) -> Result<Vec<(String, GivenRecord)>, ClientError> {
    if ids.is_empty() || !snapshot.contains(Slot::Blind) {
        return Ok(Vec::new());
    }
    let collection = BlindCollection::read(vault, snapshot)?;
    let wanted: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
    let found = collection.ids().filter(|(_, id)| wanted.contains(id));
    let (rows, ids): (Vec<u32>, Vec<String>) = found.map(|(row, id)| (row, id.to_owned())).unzip();
    Ok(ids.into_iter().zip(read_records(snapshot, &collection, &rows)?).collect())
}

/// Every record is that of a document; in an owner's vault also: every slot opens, those of a record make
/// one, and the others are free.
pub(in crate::blind) fn verify_records(
    collection: &BlindCollection,
    snapshot: &Snapshot,
    watch: &Watch<'_>,
) -> Result<(), ClientError> {
    let Some(records) = &collection.records else {
        let any = snapshot.root().numbered(Slot::RecordPage).next().is_some()
            || snapshot.root().numbered(Slot::RecordPlaces).next().is_some();
        return if any {
            Err(contradiction("records", "pages that nothing lists"))
        } else {
            Ok(())
        };
    };
    if records.slots.keys().any(|&row| collection.id(row as usize).is_none()) {
        return Err(contradiction("records", "one is of a free place"));
    }
    if collection.position().access() == VaultAccess::Query {
        return Ok(());
    }
    let pages: Vec<u32> = snapshot.root().numbered(Slot::RecordPage).collect();
    if !pages.iter().copied().eq(0..records.page_count() as u32) {
        return Err(contradiction("records", "its pages are not those that are listed"));
    }
    let mut used: BTreeMap<u32, SlotContent> = BTreeMap::new();
    let all: BTreeSet<u32> = records.slots.values().flatten().copied().collect();
    let total = pages.len() as u64;
    for some in pages.chunks(PAGES_AT_ONCE) {
        let opened = read_pages(snapshot, records, &collection.keys.sealer, some)?;
        let slots = (some[0] * PAGE_SLOTS as u32..).zip(opened.into_iter().flatten());
        for (number, slot) in slots {
            if all.contains(&number) {
                used.insert(number, slot);
            } else if !slot.is_free() {
                return Err(contradiction("records", "a slot that is nobody's is not free"));
            }
        }
        let done = some.last().map_or(0, |&last| u64::from(last) + 1);
        if watch(Progress { done, total }).is_break() {
            return Err(ClientError::Cancelled);
        }
    }
    for (&row, slots) in &records.slots {
        let contents: Vec<SlotContent> =
            slots.iter().filter_map(|slot| used.remove(slot)).collect();
        let record = SlotContent::join(&contents);
        let record = record.ok_or_else(|| contradiction("records", "slots that make no record"))?;
        collection.check_fields(row, &record)?;
    }
    Ok(())
}
