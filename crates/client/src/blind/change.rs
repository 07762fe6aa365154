//! Rows put into places, and places freed: blocks that nothing happens to are neither read nor
//! written, unless a row is too long for the grid.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use rand_core::CryptoRng;
use shard_geometry::VectorSet;
use zeroize::Zeroizing;

use super::block::{BLOCKS_AT_ONCE, BlockRows, write_places, write_vectors};
use super::metadata::FieldChange;
use super::records::{RecordChange, read_records};
use super::vectors::longest_of;
use super::{BlindCollection, BlindHead};
use crate::collection::Written;
use crate::encoder_note::EncoderNote;
use crate::error::ClientError;
use crate::vault::{Slot, Transaction};

/// A blind collection that is being changed.
pub(crate) struct BlindChange<'v> {
    transaction: Transaction<'v>,
    collection: BlindCollection,
    /// What happens to places, by block and place in it.
    edits: BTreeMap<u32, BTreeMap<usize, Edit>>,
    /// Ids of the documents that are put.
    incoming: Vec<String>,
    /// Their vectors.
    vectors: Zeroizing<Vec<f32>>,
    /// The cell of each, where blocks are grouped by cell.
    incoming_cells: Option<Vec<u32>>,
    /// Which of them get a place that they do not have.
    appended: Vec<usize>,
    /// Which of them leave the row that they have, for a block of another cell.
    moved: Vec<(usize, u32)>,
    /// The cells of blocks that are new.
    new_blocks: BTreeMap<u32, u32>,
    deleted: Vec<String>,
    /// Rows that go.
    freed: Vec<u32>,
    /// Records by id; `None` takes one away.
    records: Vec<(String, GivenRecord)>,
    /// Records that documents take along to another cell. They are as they were: a merge that repeats this
    /// change does not repeat them.
    carried: Vec<(String, GivenRecord)>,
    encoder: Option<EncoderNote>,
}

/// A record that is given to a document, or that it is to have none.
pub(crate) type GivenRecord = Option<Zeroizing<Vec<u8>>>;

/// What happens to a place.
#[derive(Clone, Copy)]
enum Edit {
    Free,
    /// It gets this one of the incoming documents.
    Put(usize),
}

impl<'v> BlindChange<'v> {
    /// Begins to change a collection.
    pub(crate) fn begin(transaction: Transaction<'v>) -> Result<Self, ClientError> {
        let collection = BlindCollection::read(transaction.vault(), transaction.before())?;
        Ok(Self {
            transaction,
            collection,
            edits: BTreeMap::new(),
            incoming: Vec::new(),
            vectors: Zeroizing::new(Vec::new()),
            incoming_cells: None,
            appended: Vec::new(),
            moved: Vec::new(),
            new_blocks: BTreeMap::new(),
            deleted: Vec::new(),
            freed: Vec::new(),
            records: Vec::new(),
            carried: Vec::new(),
            encoder: None,
        })
    }

    /// Every row before the change, with its id.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, &str)> {
        self.collection.ids()
    }

    /// The width of the documents.
    pub(crate) fn width(&self) -> usize {
        self.collection.shape().dimension()
    }

    /// The vectors of rows, in their order.
    pub(crate) fn vectors_of(&self, rows: &[u32]) -> Result<Vec<f32>, ClientError> {
        self.collection.vectors_of(self.transaction.before(), rows)
    }

    /// Frees the places of rows.
    pub(crate) fn remove(&mut self, rows: &[u32]) {
        for &row in rows {
            self.deleted.extend(self.collection.id(row as usize).map(str::to_owned));
            self.edit(row, Edit::Free);
            self.freed.push(row);
        }
    }

    /// The rows that documents take up: each its own, or those of its chunks.
    pub(crate) fn rows_of_whole(&self, documents: &[&str]) -> Result<Vec<u32>, ClientError> {
        let wanted: HashSet<&str> = documents.iter().copied().collect();
        let own = self.rows().filter(|(_, id)| wanted.contains(id)).map(|(row, _)| row);
        let chunks = self.collection.chunks_of(documents)?;
        Ok(own.chain(chunks.into_iter().map(|(row, _)| row)).collect())
    }

    /// The rows of the chunks of documents, with the documents' ids.
    pub(crate) fn chunks_of(&self, documents: &[&str]) -> Result<Vec<(u32, String)>, ClientError> {
        self.collection.chunks_of(documents)
    }

    /// Notes which encoder the texts of documents went through.
    ///
    /// # Errors
    /// When those before went through another.
    pub(crate) fn set_encoder(&mut self, note: &EncoderNote) -> Result<(), ClientError> {
        let held = EncoderNote::read(self.transaction.before())?;
        self.encoder = note.over(held.as_ref())?.cloned();
        Ok(())
    }

    /// Gives documents records, those that are put by this change included. Returns how many are other
    /// than before. Called once for a change, after documents were put.
    pub(crate) fn set_records(
        &mut self,
        records: Vec<(String, GivenRecord)>,
    ) -> Result<usize, ClientError> {
        let rows: HashMap<&str, u32> = self.rows().map(|(row, id)| (id, row)).collect();
        let coming: HashSet<&str> = self.incoming.iter().map(String::as_str).collect();
        let going: HashSet<u32> = self.freed.iter().copied().collect();
        let stays = |id: &str| rows.get(id).is_some_and(|row| !going.contains(row));
        let missing = |id: &str| !stays(id) && !coming.contains(id);
        let missing: Vec<String> =
            records.iter().map(|(id, _)| id).filter(|id| missing(id)).cloned().collect();
        if !missing.is_empty() {
            return Err(ClientError::NoSuchDocuments(missing));
        }
        let known: Vec<u32> =
            records.iter().filter_map(|(id, _)| rows.get(id.as_str())).copied().collect();
        let held = read_records(self.transaction.before(), &self.collection, &known)?;
        let held: HashMap<u32, GivenRecord> = known.into_iter().zip(held).collect();
        let is_other = |(id, record): &(String, GivenRecord)| {
            let held = rows.get(id.as_str()).and_then(|row| held[row].as_ref());
            held != record.as_ref()
        };
        let changed: Vec<_> = records.into_iter().filter(is_other).collect();
        self.records = changed;
        Ok(self.records.len())
    }

    /// Puts documents, each in the place that it has or in a free one: of a block of its cell, where there
    /// are cells. Called once for a change.
    pub(crate) fn put(&mut self, ids: Vec<String>, vectors: VectorSet, existing: &[Option<u32>]) {
        self.incoming = ids;
        self.vectors = Zeroizing::new(vectors.into_values());
        self.incoming_cells = self.collection.cells().map(|cells| cells.assign(&self.vectors));
        for (at, row) in existing.iter().enumerate() {
            match *row {
                Some(row) if self.cell_of_row(row) == self.cell_of(at) => {
                    self.edit(row, Edit::Put(at));
                }
                Some(row) => {
                    self.edit(row, Edit::Free);
                    self.moved.push((at, row));
                    self.appended.push(at);
                }
                None => self.appended.push(at),
            }
        }
    }

    /// The cell of a document that is put.
    fn cell_of(&self, at: usize) -> Option<u32> {
        self.incoming_cells.as_ref().map(|cells| cells[at])
    }

    /// The cell that a row is in.
    fn cell_of_row(&self, row: u32) -> Option<u32> {
        let per_block = self.collection.shape().rows_per_block() as u32;
        self.collection.blocks()[(row / per_block) as usize].cell
    }

    fn edit(&mut self, row: u32, edit: Edit) {
        let per_block = self.collection.shape().rows_per_block();
        let (block, place) = (row / per_block as u32, row as usize % per_block);
        self.edits.entry(block).or_default().insert(place, edit);
    }

    /// Documents after the change.
    pub(crate) fn documents(&self) -> usize {
        self.collection.rows() + self.appended.len() - self.moved.len() - self.deleted.len()
    }

    /// Whether anything changes.
    pub(crate) fn is_any(&self) -> bool {
        let documents = !self.edits.is_empty() || !self.appended.is_empty();
        documents || !self.records.is_empty() || self.encoder.is_some()
    }

    /// What is left to be committed.
    pub(crate) fn written(self) -> Written<'v> {
        let (put, deleted) = (self.incoming, self.deleted);
        let recorded = self.records.into_iter().map(|(id, _)| id).collect();
        Written { transaction: self.transaction, put, deleted, recorded }
    }

    /// Writes what changed.
    pub(crate) fn write(&mut self, rng: &mut impl CryptoRng) -> Result<(), ClientError> {
        let mut head = *self.collection.head();
        head.rows = self.documents() as u64;
        self.find_places(&mut head)?;
        let all_anew = head.admit(longest_of(&self.vectors, self.width()));
        let numbers: Vec<u32> = if all_anew {
            (0..head.blocks).collect()
        } else {
            self.edits.keys().copied().collect()
        };
        for some in numbers.chunks(BLOCKS_AT_ONCE) {
            let blocks = self.edited(some)?;
            write_places(&mut self.transaction, &self.collection.keys, head.grid, &blocks, rng)?;
            let is_edited = |block: &&BlockRows| self.edits.contains_key(&block.number);
            let edited: Vec<&BlockRows> = blocks.iter().filter(is_edited).collect();
            write_vectors(&mut self.transaction, &edited, rng)?;
        }
        self.write_records(rng)?;
        if let Some(note) = &self.encoder {
            self.transaction.put(Slot::Encoder, &note.encode(), rng)?;
        }
        Ok(self.transaction.put(Slot::Blind, &head.encode(), rng)?)
    }

    /// Frees the records of rows that go, and writes those that are given.
    fn write_records(&mut self, rng: &mut impl CryptoRng) -> Result<(), ClientError> {
        let freeing = !self.freed.is_empty() || !self.moved.is_empty();
        if self.records.is_empty() && (!freeing || self.collection.records.is_none()) {
            return Ok(());
        }
        self.carry_records()?;
        let given = || self.records.iter().chain(&self.carried);
        let wanted: HashSet<&str> = given().map(|(id, _)| id.as_str()).collect();
        let mut rows: HashMap<&str, u32> =
            self.collection.ids().map(|(row, id)| (id, row)).collect();
        let per_block = self.collection.shape().rows_per_block();
        for (&block, edits) in &self.edits {
            for (&place, edit) in edits {
                if let Edit::Put(at) = *edit
                    && wanted.contains(self.incoming[at].as_str())
                {
                    let row = (block as usize * per_block + place) as u32;
                    rows.insert(&self.incoming[at], row);
                }
            }
        }
        // Those of unknown ids were refused.
        let given = given().map(|(id, record)| (rows[id.as_str()], record.as_ref()));
        let left = self.moved.iter().map(|(_, row)| row);
        let freed = self.freed.iter().chain(left).map(|&row| (row, None));
        let changes = freed.chain(given.map(|(row, record)| (row, record.map(|bytes| &bytes[..]))));
        change_records(&self.collection, &mut self.transaction, changes, rng)
    }

    /// Lets the records of documents that move to another cell go with them, where they are not given others.
    fn carry_records(&mut self) -> Result<(), ClientError> {
        let given: HashSet<&str> = self.records.iter().map(|(id, _)| id.as_str()).collect();
        let stays = |(at, _): &&(usize, u32)| !given.contains(self.incoming[*at].as_str());
        let (ids, rows): (Vec<usize>, Vec<u32>) = self.moved.iter().filter(stays).copied().unzip();
        let held = read_records(self.transaction.before(), &self.collection, &rows)?;
        let carried = ids.into_iter().zip(held).filter(|(_, record)| record.is_some());
        self.carried = carried.map(|(at, record)| (self.incoming[at].clone(), record)).collect();
        Ok(())
    }

    /// Finds places for the new rows, cell by cell.
    fn find_places(&mut self, head: &mut BlindHead) -> Result<(), ClientError> {
        let mut waiting: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
        for &at in &self.appended {
            waiting.entry(self.cell_of(at)).or_default().push(at);
        }
        waiting.into_iter().try_for_each(|(cell, rows)| self.find_places_in(cell, &rows, head))
    }

    /// Finds places for rows of a cell: in the blocks with most free places first, so that few blocks
    /// change, then in new blocks.
    fn find_places_in(
        &mut self,
        cell: Option<u32>,
        mut waiting: &[usize],
        head: &mut BlindHead,
    ) -> Result<(), ClientError> {
        let blocks = self.collection.blocks_of(cell.unwrap_or(0));
        let mut roomy: Vec<(u32, Vec<usize>)> =
            blocks.iter().map(|&block| (block, self.free_places(block))).collect();
        roomy.sort_by_key(|(_, places)| Reverse(places.len()));
        let mut roomy = roomy.into_iter().filter(|(_, places)| !places.is_empty());
        while !waiting.is_empty() {
            let (block, places) = match roomy.next() {
                Some(known) => known,
                None => {
                    let block = head.add_block()?;
                    self.new_blocks.extend(cell.map(|cell| (block, cell)));
                    (block, (0..head.shape.rows_per_block()).collect())
                }
            };
            let (now, later) = waiting.split_at(places.len().min(waiting.len()));
            let put = places.into_iter().zip(now.iter().map(|&at| Edit::Put(at)));
            self.edits.entry(block).or_default().extend(put);
            waiting = later;
        }
        Ok(())
    }

    /// The places of a block that are free when everything was freed.
    fn free_places(&self, block: u32) -> Vec<usize> {
        let edits = self.edits.get(&block);
        let is_freed =
            |place: &usize| matches!(edits.and_then(|edits| edits.get(place)), Some(Edit::Free));
        let ids = self.collection.blocks()[block as usize].ids().enumerate();
        ids.filter(|(place, id)| id.is_none() || is_freed(place)).map(|(place, _)| place).collect()
    }

    /// Some blocks as they will be.
    fn edited(&self, numbers: &[u32]) -> Result<Vec<BlockRows>, ClientError> {
        let width = self.width();
        let mut blocks = BlockRows::read(self.transaction.before(), &self.collection, numbers)?;
        for block in &mut blocks {
            block.cell = block.cell.or_else(|| self.new_blocks.get(&block.number).copied());
            for (&place, edit) in self.edits.get(&block.number).into_iter().flatten() {
                match *edit {
                    Edit::Free => block.free(place),
                    Edit::Put(at) => {
                        let vector = &self.vectors[at * width..][..width];
                        block.put(place, &self.incoming[at], vector);
                    }
                }
            }
        }
        Ok(blocks)
    }
}

/// Gives rows records, or takes them away, with the fields that follow from them.
pub(super) fn change_records<'r>(
    collection: &BlindCollection,
    transaction: &mut Transaction<'_>,
    changes: impl Iterator<Item = (u32, Option<&'r [u8]>)>,
    rng: &mut impl CryptoRng,
) -> Result<(), ClientError> {
    let (mut records, mut fields) = (RecordChange::begin(collection), FieldChange::default());
    for (row, record) in changes {
        match record {
            Some(record) => {
                records.set(row, record)?;
                fields.set(row, record);
            }
            None => {
                records.free(row);
                fields.free(row);
            }
        }
    }
    records.write(collection, transaction, rng)?;
    fields.write(collection, transaction, rng)
}
