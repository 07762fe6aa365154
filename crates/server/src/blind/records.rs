//! Records: their pages expanded in memory, and fetches over them.
//!
//! What a page holds is sealed and in no other way hidden, so its blob is its slots, one after the other.
//! Expanded it is six bytes for every two, under the same budget as blocks.

use std::sync::Arc;

use shard_protocol::{BlobName, CollectionName, CommitName, Epoch, RecordList};
use shard_rlwe::blind::{DEGREE, PAGE_SLOTS, PreparedFetch, RecordServer, RecordShape, Segment};
use shard_store::StoreError;

use super::BlockError;
use super::memory::{Reserved, Taking};
use super::passes::{Passes, Tally};
use crate::{Server, ServerError};

/// Pages of a tile, the least that is expanded.
const TILE_PAGES: usize = DEGREE / PAGE_SLOTS;

/// Words of a part of a pass: a millisecond of one core.
const PART: usize = 48;

/// A segment in memory.
type HeldSegment = Taking<Segment>;

/// The records of one commit.
pub(super) struct HeldRecords {
    names: Vec<[u8; 16]>,
    /// Those that are held here.
    segments: Vec<Option<Arc<HeldSegment>>>,
    /// Which of them this server answers as long as all others are there.
    own: Vec<u32>,
    evaluator: RecordServer,
    passes: Passes<PreparedFetch>,
}

impl HeldRecords {
    fn shape(&self) -> &RecordShape {
        self.evaluator.shape()
    }

    pub(super) fn bytes(&self) -> usize {
        let held = self.segments.iter().enumerate().filter(|(_, segment)| segment.is_some());
        held.map(|(number, _)| self.shape().segment_bytes(number)).sum()
    }

    /// The blobs of pages of segments that are not held here, with their lengths.
    pub(super) fn not_held(&self) -> impl Iterator<Item = (BlobName, usize)> {
        let shape = self.shape();
        let missing = self.segments.iter().enumerate().filter(|(_, segment)| segment.is_none());
        let names = missing.flat_map(|(number, _)| &self.names[shape.pages_of(number)]);
        names.map(|name| (BlobName::page(*name), shape.page_bytes()))
    }

    pub(super) fn segments(&self) -> &[Option<Arc<HeldSegment>>] {
        &self.segments
    }

    /// Bytes of the answer of a segment.
    pub(super) fn unit_bytes(&self) -> usize {
        self.shape().answer_bytes() / self.shape().segments()
    }

    /// Records of a list of which nothing is held yet.
    pub(super) fn none_of(list: &RecordList, own: Vec<u32>, tally: Arc<Tally>) -> Self {
        Self {
            names: list.names().to_vec(),
            segments: vec![None; list.shape().segments()],
            own,
            evaluator: RecordServer::new(*list.shape()),
            passes: Passes::new(tally),
        }
    }

    /// Bytes of those of some segments that are not shared with records that are known.
    pub(super) fn new_bytes(list: &RecordList, known: &[&Self], wanted: &[bool]) -> usize {
        let shape = list.shape();
        let is_new = |number: &usize| {
            let names = &list.names()[shape.pages_of(*number)];
            let same =
                |known: &&Self| known.segment(shape, *number).is_some_and(|it| it.1 == names);
            !known.iter().any(same)
        };
        let new = (0..shape.segments()).filter(|&number| wanted[number]).filter(is_new);
        new.map(|number| shape.segment_bytes(number)).sum()
    }

    /// What is held of a segment of a list, if it has as many tiles, with the names of its pages.
    fn segment(
        &self,
        shape: &RecordShape,
        number: usize,
    ) -> Option<(&Arc<HeldSegment>, &[[u8; 16]])> {
        let held = self.shape();
        let alike = (held.slot_bytes(), held.tiles()) == (shape.slot_bytes(), shape.tiles())
            && number < held.segments()
            && held.tiles_of(number) == shape.tiles_of(number);
        let segment = self.segments.get(number)?.as_ref().filter(|_| alike)?;
        Some((segment, &self.names[held.pages_of(number)]))
    }

    /// Parts of the words of some segments, one after the other.
    fn answer_part(&self, units: &[u32], part: usize, queries: &[&PreparedFetch]) -> Vec<Vec<u8>> {
        let words = self.shape().words();
        let (at, part) = (part / words.div_ceil(PART), part % words.div_ceil(PART));
        let words = part * PART..((part + 1) * PART).min(words);
        let number = units[at] as usize;
        let segment = self.segments[number].as_ref().expect("a segment that is held");
        self.evaluator.answer_part(number, &segment.value, words, queries)
    }
}

impl Server {
    /// The list of a commit's records, if there is one.
    pub(super) fn record_list(
        &self,
        collection: &CollectionName,
        commit: CommitName,
        asked: Epoch,
    ) -> Result<Option<RecordList>, ServerError> {
        let list = match self.rows.blob(collection, &BlobName::records(commit)) {
            Ok(bytes) => RecordList::decode(&bytes, &self.limits)?,
            Err(StoreError::UnknownBlob(_) | StoreError::UnknownCollection(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if list.epoch() != asked {
            return Err(BlockError::Epoch { commit, listed: list.epoch(), asked }.into());
        }
        Ok(Some(list))
    }

    /// Loads the wanted records, in memory that was reserved for them. Of those that are known, segments without
    /// another page are shared, and of the others the tiles without one are copied. What was loaded before
    /// something was missing stays.
    pub(super) fn load_records(
        &self,
        (collection, commit): (&CollectionName, CommitName),
        records: &mut HeldRecords,
        known: &[&HeldRecords],
        wanted: &[bool],
        reserved: &mut Reserved,
    ) -> Result<(), ServerError> {
        let shape = *records.shape();
        for (number, _) in wanted.iter().enumerate().filter(|(_, wanted)| **wanted) {
            let names = &records.names[shape.pages_of(number)];
            let alike = || known.iter().filter_map(|known| known.segment(&shape, number));
            if let Some((segment, _)) = alike().find(|(_, held)| *held == names) {
                records.segments[number] = Some(segment.clone());
                continue;
            }
            let held = alike().next();
            let held_tiles: Vec<&[[u8; 16]]> =
                held.map_or_else(Vec::new, |(_, names)| names.chunks(TILE_PAGES).collect());
            let mut segment = match held {
                Some((segment, _)) => segment.value.clone(),
                None => Segment::zero(&shape, number),
            };
            for (tile, names) in names.chunks(TILE_PAGES).enumerate() {
                if held_tiles.get(tile) != Some(&names) {
                    segment.put(tile, &self.load_pages(collection, commit, names, &shape)?);
                }
            }
            let segment = reserved.hold(segment, shape.segment_bytes(number));
            records.segments[number] = Some(Arc::new(segment));
        }
        Ok(())
    }

    /// Reads every page of a list, to see that it is there.
    pub(super) fn check_pages(
        &self,
        collection: &CollectionName,
        commit: CommitName,
        list: &RecordList,
    ) -> Result<(), ServerError> {
        let mut tiles = list.names().chunks(TILE_PAGES);
        tiles.try_for_each(|names| {
            self.load_pages(collection, commit, names, list.shape()).map(drop)
        })
    }

    /// The slots of some pages, one after the other.
    fn load_pages(
        &self,
        collection: &CollectionName,
        commit: CommitName,
        names: &[[u8; 16]],
        shape: &RecordShape,
    ) -> Result<Vec<u8>, ServerError> {
        let mut slots = Vec::with_capacity(names.len() * shape.page_bytes());
        let names = names.iter().map(|&name| BlobName::page(name)).collect();
        self.read_all(collection, commit, names, |_, name, page| {
            let (expected, actual) = (shape.page_bytes(), page.len());
            if actual != expected {
                let name = name.clone();
                return Err(BlockError::Malformed { commit, name, expected, actual }.into());
            }
            slots.extend_from_slice(&page);
            Ok(())
        })?;
        Ok(slots)
    }

    /// Refuses a fetch that would take too long, or whose answer would.
    pub(super) fn admit_fetch(
        &self,
        records: &HeldRecords,
        queries: usize,
    ) -> Result<(), ServerError> {
        let shape = records.shape();
        self.admit_products(shape.residues(), queries, shape.answer_bytes())
    }

    /// Multiplies the words of some segments with the queries of a message.
    pub(super) fn fetch_units(
        &self,
        records: &HeldRecords,
        queries: &[Vec<u8>],
        units: &[u32],
    ) -> Result<Vec<Vec<u8>>, ServerError> {
        let prepare = |bytes: &Vec<u8>| records.evaluator.prepare(bytes);
        let queries: Vec<PreparedFetch> = queries.iter().map(prepare).collect::<Result<_, _>>()?;
        let parts = units.len() * records.shape().words().div_ceil(PART);
        let work =
            |part: usize, queries: &[&PreparedFetch]| records.answer_part(units, part, queries);
        // Passes are shared by those who ask for the same.
        Ok(if units == records.own && self.may_wait() {
            records.passes.answer(queries, parts, work)
        } else {
            records.passes.alone(&queries, parts, work)
        })
    }
}
