//! Fields changed, moved and sealed anew with their records.

use std::collections::{BTreeMap, BTreeSet};

use rand_core::CryptoRng;

use super::{BlockFields, Fields};
use crate::blind::{BlindCollection, contradiction};
use crate::collection::unusable;
use crate::error::ClientError;
use crate::vault::{Slot, Snapshot, Transaction};

/// Fields that are being changed.
#[derive(Default)]
pub(in crate::blind) struct FieldChange {
    /// By row; `None` takes them away.
    rows: BTreeMap<u32, Option<Fields>>,
}

impl FieldChange {
    /// A row has no record any more.
    pub(in crate::blind) fn free(&mut self, row: u32) {
        self.rows.insert(row, None);
    }

    /// A row has this record.
    pub(in crate::blind) fn set(&mut self, row: u32, record: &[u8]) {
        self.rows.insert(row, Fields::of_record(record));
    }

    /// Writes the blocks that changed.
    pub(in crate::blind) fn write(
        self,
        collection: &BlindCollection,
        transaction: &mut Transaction<'_>,
        rng: &mut impl CryptoRng,
    ) -> Result<(), ClientError> {
        let places = collection.head.shape.rows_per_block() as u32;
        let mut changed: BTreeMap<u32, BlockFields> = BTreeMap::new();
        for (row, fields) in &self.rows {
            let number = row / places;
            let held = || collection.fields.get(&number).cloned().unwrap_or_default();
            changed.entry(number).or_insert_with(held).set(row % places, fields.as_ref());
        }
        changed.retain(|number, block| collection.fields.get(number) != Some(block));
        write_blocks(transaction, &changed, rng)
    }
}

/// Writes blocks, and removes those without any fields.
fn write_blocks(
    transaction: &mut Transaction<'_>,
    blocks: &BTreeMap<u32, BlockFields>,
    rng: &mut impl CryptoRng,
) -> Result<(), ClientError> {
    for (number, block) in blocks {
        match block.encode() {
            Some(value) => transaction.put(Slot::Metadata(*number), &value, rng)?,
            None => transaction.remove(Slot::Metadata(*number))?,
        }
    }
    Ok(())
}

/// Lets fields follow their rows, by where each row goes and where it was.
pub(in crate::blind) fn move_fields(
    transaction: &mut Transaction<'_>,
    collection: &BlindCollection,
    moves: &[(u32, u32)],
    rng: &mut impl CryptoRng,
) -> Result<(), ClientError> {
    let places = collection.head.shape.rows_per_block() as u32;
    let mut moved: BTreeMap<u32, BlockFields> =
        collection.fields.keys().map(|&number| (number, BlockFields::default())).collect();
    for &(now, before) in moves {
        if let Some(fields) = collection.fields.get(&(before / places)) {
            let block = moved.entry(now / places).or_default();
            block.take_from(now % places, fields, before % places);
        }
    }
    write_blocks(transaction, &moved, rng)
}

/// Seals all fields under the keys of an epoch that begins.
pub(in crate::blind) fn rekey_fields(
    transaction: &mut Transaction<'_>,
    collection: &BlindCollection,
    rng: &mut impl CryptoRng,
) -> Result<(), ClientError> {
    write_blocks(transaction, &collection.fields, rng)
}

impl BlindCollection {
    /// The fields of a commit's documents, as they are stored.
    pub(in crate::blind) fn read_fields(
        snapshot: &Snapshot,
        places: u32,
        blocks: u32,
    ) -> Result<BTreeMap<u32, BlockFields>, ClientError> {
        let numbers: Vec<u32> = snapshot.root().numbered(Slot::Metadata).collect();
        let mut fields = BTreeMap::new();
        let decode = |block: u32, bytes: &[u8]| {
            if block >= blocks {
                return Err(contradiction("fields", "they are of a block that is not there"));
            }
            BlockFields::decode(bytes, places).map_err(unusable("fields"))
        };
        snapshot.each(Slot::Metadata, &numbers, decode, |block, found| {
            fields.insert(block, found);
            Ok(())
        })?;
        Ok(fields)
    }

    /// Holds the fields of a row against its record.
    pub(in crate::blind) fn check_fields(
        &self,
        row: u32,
        record: &[u8],
    ) -> Result<(), ClientError> {
        let places = self.head.shape.rows_per_block() as u32;
        let kept = self.fields.get(&(row / places)).and_then(|block| block.of(row % places));
        if kept.transpose().map_err(unusable("fields"))? != Fields::of_record(record) {
            return Err(contradiction("fields", "they are not those of a record"));
        }
        Ok(())
    }
}

/// Whoever has fields has a record, and fields can be read.
pub(in crate::blind) fn verify_fields(collection: &BlindCollection) -> Result<(), ClientError> {
    let places = collection.head.shape.rows_per_block() as u32;
    let recorded: BTreeSet<u32> =
        collection.records.iter().flat_map(|records| records.rows()).collect();
    let mut rows = collection
        .fields
        .iter()
        .flat_map(|(block, fields)| fields.places().map(move |place| block * places + place));
    if rows.any(|row| !recorded.contains(&row)) {
        return Err(contradiction("fields", "they are of a document without a record"));
    }
    collection.metadata().map(drop)
}
