//! Records set and freed: pages that nothing happens to are neither read nor written.

use std::collections::{BTreeMap, BTreeSet};

use rand_core::CryptoRng;
use rayon::prelude::*;
use shard_protocol::CommitName;
use shard_rlwe::blind::{MOST_PAGES, PAGE_SLOTS};

use super::index::Records;
use super::slot::{SlotContent, open_page, page_of, seal_page, slots_in, slots_of};
use crate::blind::seal::Sealer;
use crate::blind::{BlindCollection, BlockKeys, contradiction};
use crate::error::ClientError;
use crate::vault::{Slot, Snapshot, Transaction};

/// Pages that are in memory at once.
pub(super) const PAGES_AT_ONCE: usize = 256;

/// Records that are being changed.
pub(in crate::blind) struct RecordChange {
    records: Records,
    free: BTreeSet<u32>,
    /// What slots will hold.
    written: BTreeMap<u32, SlotContent>,
    /// Rows whose slots are others.
    rows: BTreeSet<u32>,
}

impl RecordChange {
    pub(in crate::blind) fn begin(collection: &BlindCollection) -> Self {
        let records = collection.records.clone().unwrap_or_else(Records::none);
        let mut free: BTreeSet<u32> = (0..records.slot_count() as u32).collect();
        records.slots.values().flatten().for_each(|slot| {
            free.remove(slot);
        });
        Self { records, free, written: BTreeMap::new(), rows: BTreeSet::new() }
    }

    /// Frees the slots of a row's record and overwrites them.
    pub(in crate::blind) fn free(&mut self, row: u32) {
        for slot in self.records.slots.remove(&row).into_iter().flatten() {
            self.written.insert(slot, SlotContent::free());
            self.free.insert(slot);
            self.rows.insert(row);
        }
    }

    /// Gives a row a record, in place of the one it has.
    pub(in crate::blind) fn set(&mut self, row: u32, record: &[u8]) -> Result<(), ClientError> {
        self.free(row);
        while self.free.len() < slots_of(record.len()) {
            self.add_page()?;
        }
        let mut slots = Vec::with_capacity(slots_of(record.len()));
        for content in SlotContent::cut(record) {
            let slot = self.free.pop_first().expect("pages were added until there are enough");
            self.written.insert(slot, content);
            slots.push(slot);
        }
        self.records.slots.insert(row, slots);
        self.rows.insert(row);
        Ok(())
    }

    fn add_page(&mut self) -> Result<(), ClientError> {
        let page = self.records.pages.len();
        if page >= MOST_PAGES {
            let problem =
                format!("there is no room for more than {} KB of records", page * PAGE_SLOTS);
            return Err(ClientError::Setting(problem));
        }
        self.records.pages.push(CommitName::default());
        for slot in slots_in(page as u32) {
            self.free.insert(slot);
            self.written.insert(slot, SlotContent::free());
        }
        Ok(())
    }

    /// Writes what changed.
    pub(in crate::blind) fn write(
        mut self,
        collection: &BlindCollection,
        transaction: &mut Transaction<'_>,
        rng: &mut impl CryptoRng,
    ) -> Result<(), ClientError> {
        if self.rows.is_empty() && self.written.is_empty() {
            return Ok(());
        }
        let held = collection.records.as_ref().map_or(0, Records::page_count) as u32;
        let pages: BTreeSet<u32> = self.written.keys().map(|&slot| page_of(slot)).collect();
        let pages: Vec<u32> = pages.into_iter().collect();
        for some in pages.chunks(PAGES_AT_ONCE) {
            let known = some.partition_point(|&page| page < held);
            let mut contents = match &collection.records {
                Some(records) if known > 0 => {
                    let sealer = &collection.keys.sealer;
                    read_pages(transaction.before(), records, sealer, &some[..known])?
                }
                _ => Vec::new(),
            };
            contents.resize(some.len(), vec![SlotContent::free(); PAGE_SLOTS]);
            for (&page, contents) in some.iter().zip(&mut contents) {
                for (slot, content) in slots_in(page).zip(contents) {
                    if let Some(written) = self.written.remove(&slot) {
                        *content = written;
                    }
                }
            }
            write_pages(transaction, &mut self.records, &collection.keys, some, &contents, rng)?;
        }
        let places = collection.head.shape.rows_per_block() as u32;
        let blocks: BTreeSet<u32> = self.rows.iter().map(|row| row / places).collect();
        write_index(transaction, &self.records, places, blocks, rng)
    }
}

/// Opens pages of a commit.
pub(super) fn read_pages(
    snapshot: &Snapshot,
    records: &Records,
    sealer: &Sealer,
    pages: &[u32],
) -> Result<Vec<Vec<SlotContent>>, ClientError> {
    let mut opened = Vec::with_capacity(pages.len());
    let open = |page: u32, sealed: &[u8]| {
        open_page(sealer, page, records.pages[page as usize], sealed)
            .ok_or_else(|| contradiction("pages of records", "a slot does not open"))
    };
    snapshot.each(Slot::RecordPage, pages, open, |_, slots| {
        opened.push(slots);
        Ok(())
    })?;
    Ok(opened)
}

/// Seals pages as of the commit to come, and writes them.
fn write_pages(
    transaction: &mut Transaction<'_>,
    records: &mut Records,
    keys: &BlockKeys,
    pages: &[u32],
    contents: &[Vec<SlotContent>],
    rng: &mut impl CryptoRng,
) -> Result<(), ClientError> {
    let commit = transaction.name();
    let seal = |(&page, slots): (&u32, &Vec<SlotContent>)| {
        Ok((page, seal_page(&keys.sealer, page, commit, slots)?))
    };
    let sealed: Result<Vec<_>, ClientError> = pages.par_iter().zip(contents).map(seal).collect();
    pages.iter().for_each(|&page| records.pages[page as usize] = commit);
    let value = |(page, sealed): &(u32, Vec<u8>)| (Slot::RecordPage(*page), sealed.clone());
    Ok(transaction.put_many(&sealed?, value, rng)?)
}

/// Writes which commit sealed each page, and the slots of some blocks' places.
fn write_index(
    transaction: &mut Transaction<'_>,
    records: &Records,
    places: u32,
    blocks: impl IntoIterator<Item = u32>,
    rng: &mut impl CryptoRng,
) -> Result<(), ClientError> {
    for block in blocks {
        match records.encode_places(block, places) {
            Some(value) => transaction.put(Slot::RecordPlaces(block), &value, rng)?,
            None => transaction.remove(Slot::RecordPlaces(block))?,
        }
    }
    Ok(transaction.put(Slot::Records, &records.encode_head(), rng)?)
}

/// Lets records follow their rows, by where each row goes and where it was.
pub(in crate::blind) fn move_records(
    transaction: &mut Transaction<'_>,
    collection: &BlindCollection,
    moves: &[(u32, u32)],
    rng: &mut impl CryptoRng,
) -> Result<(), ClientError> {
    let Some(records) = &collection.records else { return Ok(()) };
    let mut moved = Records { pages: records.pages.clone(), slots: BTreeMap::new() };
    for &(now, before) in moves {
        if let Some(slots) = records.of(before) {
            moved.slots.insert(now, slots.to_vec());
        }
    }
    let places = collection.head.shape.rows_per_block() as u32;
    write_index(transaction, &moved, places, 0..collection.head.blocks, rng)
}

/// Seals all records under the keys of an epoch that begins.
pub(in crate::blind) fn rekey_records(
    transaction: &mut Transaction<'_>,
    collection: &BlindCollection,
    keys: &BlockKeys,
    rng: &mut impl CryptoRng,
) -> Result<(), ClientError> {
    let Some(records) = &collection.records else { return Ok(()) };
    let mut fresh = records.clone();
    let pages: Vec<u32> = (0..records.page_count() as u32).collect();
    for some in pages.chunks(PAGES_AT_ONCE) {
        let contents = read_pages(transaction.before(), records, &collection.keys.sealer, some)?;
        write_pages(transaction, &mut fresh, keys, some, &contents, rng)?;
    }
    let places = collection.head.shape.rows_per_block() as u32;
    write_index(transaction, &fresh, places, 0..collection.head.blocks, rng)
}
