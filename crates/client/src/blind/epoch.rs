//! All blocks under the keys of an epoch that begins.

use std::collections::{HashMap, HashSet};

use rand_core::CryptoRng;
use shard_protocol::Epoch;

use super::block::{BLOCKS_AT_ONCE, BlockRows, write_places, write_vectors};
use super::change::change_records;
use super::metadata::rekey_fields;
use super::records::rekey_records;
use super::vectors::longest_of;
use super::{BlindCells, BlindCollection, BlindHead, BlockKeys, Record};

use crate::collection::{FIRST_EPOCH, Ingested, Intake, Journal, NewEpoch};
use crate::encoder_note::EncoderNote;
use crate::error::ClientError;
use crate::keys::SaltedEpoch;
use crate::progress::{Progress, Watch};
use crate::settings::Settings;
use crate::vault::{Slot, Transaction};

/// Chooses a shape and a grid for the first documents, and writes everything.
pub(crate) fn first(
    mut transaction: Transaction<'_>,
    settings: &Settings,
    intake: &Intake<'_>,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<Ingested, ClientError> {
    let Intake { documents, records, encoder, .. } = intake;
    check_known(documents.ids, records)?;
    let (rows, width) = (documents.vectors.rows(), documents.vectors.width());
    let shape = settings.shape_for(rows, width)?;
    let mut head = BlindHead::for_length(shape, longest_of(documents.vectors.values(), width));
    head.rows = rows as u64;
    let cells = BlindCells::fit(settings, documents.vectors.values(), width, rng)?;
    let per_block = shape.rows_per_block();
    let planned = rows_by_block(rows, cells.as_ref().map(|(_, chosen)| &chosen[..]), per_block);
    for _ in &planned {
        head.add_block()?;
    }
    let epoch = SaltedEpoch::begin(FIRST_EPOCH, rng);
    let id = transaction.before().root().header.vault;
    let keys = BlockKeys::of_owner(transaction.vault(), id, &epoch, shape)?;
    transaction.begin_epoch(epoch)?;
    let numbers: Vec<u32> = (0..head.blocks).collect();
    for some in numbers.chunks(BLOCKS_AT_ONCE) {
        let filled = |&number: &u32| {
            let (cell, rows) = &planned[number as usize];
            let mut block = BlockRows::empty(number, *cell, &shape);
            for (place, &row) in rows.iter().enumerate() {
                block.put(place, &documents.ids[row], documents.vectors.row(row));
            }
            block
        };
        let blocks: Vec<BlockRows> = some.iter().map(filled).collect();
        write_places(&mut transaction, &keys, head.grid, &blocks, rng)?;
        write_vectors(&mut transaction, &blocks.iter().collect::<Vec<_>>(), rng)?;
        tell(watch, some, &head)?;
    }
    if let Some((cells, _)) = &cells {
        transaction.put(Slot::Cells, &cells.encode(), rng)?;
    }
    transaction.put(Slot::Blind, &head.encode(), rng)?;
    if let Some(note) = encoder {
        note.over(None)?;
        transaction.put(Slot::Encoder, &note.encode(), rng)?;
    }
    if !records.is_empty() {
        transaction.refresh();
        let collection = BlindCollection::read(transaction.vault(), transaction.before())?;
        let rows: HashMap<&str, u32> = collection.ids().map(|(row, id)| (id, row)).collect();
        let given =
            records.iter().map(|record| (rows[record.id.as_str()], Some(&record.bytes[..])));
        change_records(&collection, &mut transaction, given, rng)?;
    }
    Journal::Everything.record(&mut transaction, rng)?;
    transaction.commit(rng)?;
    Ok(Ingested { added: rows, records: records.len(), ..Ingested::default() })
}

/// The rows of every block, and its cell: in the order of the rows, cell after cell.
fn rows_by_block(
    rows: usize,
    cells: Option<&[u32]>,
    per_block: usize,
) -> Vec<(Option<u32>, Vec<usize>)> {
    let mut ordered: Vec<usize> = (0..rows).collect();
    let cell = |row: usize| cells.map(|cells| cells[row]);
    ordered.sort_by_key(|&row| cell(row));
    let groups = ordered.chunk_by(|&a, &b| cell(a) == cell(b));
    let blocks = groups.flat_map(|group| group.chunks(per_block));
    blocks.map(|rows| (cell(rows[0]), rows.to_vec())).collect()
}

/// Records of the first documents are of these.
fn check_known(ids: &[String], records: &[Record]) -> Result<(), ClientError> {
    let known: HashSet<&str> = ids.iter().map(String::as_str).collect();
    let missing = records.iter().map(|record| &record.id).filter(|id| !known.contains(id.as_str()));
    let missing: Vec<String> = missing.cloned().collect();
    if missing.is_empty() { Ok(()) } else { Err(ClientError::NoSuchDocuments(missing)) }
}

/// Begins a new epoch: every tag anew, every record sealed anew, and a grid for the rows that are there.
/// Stored vectors stay as they are.
pub(crate) fn rekey(
    mut transaction: Transaction<'_>,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<NewEpoch, ClientError> {
    let before = transaction.before();
    let collection = BlindCollection::read(transaction.vault(), before)?;
    let longest = collection.measure_longest(before)?;
    let encoder = EncoderNote::read(before)?;
    let BlindHead { shape, blocks, rows, .. } = *collection.head();
    let head = BlindHead { blocks, rows, ..BlindHead::for_length(shape, longest) };
    let next = collection.epoch.0.checked_add(1);
    let next = Epoch(next.expect("epochs are begun one by one, fewer than 2^64 times"));
    let epoch = SaltedEpoch::begin(next, rng);
    let keys =
        BlockKeys::of_owner(transaction.vault(), collection.position.vault(), &epoch, shape)?;
    transaction.begin_epoch(epoch)?;
    let numbers: Vec<u32> = (0..head.blocks).collect();
    for some in numbers.chunks(BLOCKS_AT_ONCE) {
        let blocks = BlockRows::read(transaction.before(), &collection, some)?;
        write_places(&mut transaction, &keys, head.grid, &blocks, rng)?;
        tell(watch, some, &head)?;
    }
    rekey_records(&mut transaction, &collection, &keys, rng)?;
    rekey_fields(&mut transaction, &collection, rng)?;
    // Rows stay where they are, so cells stay what they are.
    if let Some(cells) = collection.cells() {
        transaction.put(Slot::Cells, &cells.encode(), rng)?;
    }
    if let Some(note) = encoder {
        transaction.put(Slot::Encoder, &note.encode(), rng)?;
    }
    transaction.put(Slot::Blind, &head.encode(), rng)?;
    Journal::Epoch.record(&mut transaction, rng)?;
    transaction.commit(rng)?;
    Ok(NewEpoch { epoch: next, documents: collection.rows() })
}

/// Says that some blocks were written, and ends where that is wanted.
fn tell(watch: &Watch<'_>, written: &[u32], head: &BlindHead) -> Result<(), ClientError> {
    let done = written.last().map_or(0, |&last| u64::from(last) + 1);
    if watch(Progress { done, total: head.blocks.into() }).is_break() {
        return Err(ClientError::Cancelled);
    }
    Ok(())
}
