//! What whoever may search knows of records: the commit that sealed each page, and the slots of each
//! place.

use std::collections::BTreeMap;

use hkdf::HkdfExtract;
use sha2::Sha256;
use shard_protocol::CommitName;
use shard_rlwe::blind::{QueryRank, RecordKeys, RecordShape};

use super::slot::{MAX_RECORD_BYTES, SLOT_BYTES, page_of, slots_of};
use crate::blind::{BlindCollection, BlindHead, contradiction};
use crate::collection::unusable;
use crate::error::ClientError;
use crate::payload::{PayloadError, Reader, Writer};
use crate::vault::{Slot, Snapshot};

const VERSION: u16 = 1;

/// The records of a collection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Records {
    /// The commit that sealed each page.
    pub(super) pages: Vec<CommitName>,
    /// By row, the slots of its record.
    pub(super) slots: BTreeMap<u32, Vec<u32>>,
}

impl Records {
    /// No page.
    pub(super) fn none() -> Self {
        Self { pages: Vec::new(), slots: BTreeMap::new() }
    }

    /// Documents that have a record.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The rows that have a record, ascending.
    pub(in crate::blind) fn rows(&self) -> impl Iterator<Item = u32> {
        self.slots.keys().copied()
    }

    /// Slots of all pages, free ones included.
    pub fn slot_count(&self) -> usize {
        self.pages.len() * shard_rlwe::blind::PAGE_SLOTS
    }

    /// Pages.
    pub fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// The slots of a row's record, if it has one.
    pub(super) fn of(&self, row: u32) -> Option<&[u32]> {
        self.slots.get(&row).map(Vec::as_slice)
    }

    /// How slots lie in columns.
    pub(super) fn shape(&self, query_rank: QueryRank) -> Result<RecordShape, ClientError> {
        let shape = RecordShape::new(self.pages.len(), SLOT_BYTES, query_rank);
        shape.map_err(|error| ClientError::Setting(error.to_string()))
    }

    /// The commit that sealed the page of a slot.
    pub(super) fn sealed_by(&self, slot: u32) -> CommitName {
        self.pages[page_of(slot) as usize]
    }

    /// The records of a commit, if it has pages.
    pub(in crate::blind) fn read(
        snapshot: &Snapshot,
        head: &BlindHead,
    ) -> Result<Option<Self>, ClientError> {
        if !snapshot.contains(Slot::Records) {
            return Ok(None);
        }
        let pages = decode_head(&snapshot.read(Slot::Records)?).map_err(unusable("records"))?;
        let mut records = Self { pages, slots: BTreeMap::new() };
        let mut used = vec![false; records.slot_count()];
        let numbers: Vec<u32> = snapshot.root().numbered(Slot::RecordPlaces).collect();
        let (places, most) = (head.shape.rows_per_block() as u32, records.slot_count() as u32);
        let decode = |block: u32, bytes: &[u8]| {
            if block >= head.blocks {
                return Err(contradiction("records", "they are of a block that is not there"));
            }
            decode_places(bytes, places, most).map_err(unusable("records"))
        };
        snapshot.each(Slot::RecordPlaces, &numbers, decode, |block, places_slots| {
            for (place, slots) in places_slots {
                if slots.iter().any(|&slot| std::mem::replace(&mut used[slot as usize], true)) {
                    return Err(contradiction("records", "a slot has two records"));
                }
                records.slots.insert(block * places + place, slots);
            }
            Ok(())
        })?;
        Ok(Some(records))
    }

    /// The value with the commits of all pages.
    pub(super) fn encode_head(&self) -> Vec<u8> {
        let mut writer = Writer::new(VERSION);
        writer.u64(self.pages.len() as u64);
        self.pages.iter().for_each(|commit| writer.bytes.extend_from_slice(&commit.0));
        writer.bytes
    }

    /// The value of a block of so many places; `None` if none of them has a record.
    pub(super) fn encode_places(&self, block: u32, places: u32) -> Option<Vec<u8>> {
        let of_block = self.slots.range(block * places..(block + 1) * places);
        let mut writer = Writer::new(VERSION);
        writer.u64(of_block.clone().count() as u64);
        for (row, slots) in of_block.clone() {
            writer.u64((row % places).into());
            writer.u32s(slots);
        }
        (of_block.count() > 0).then_some(writer.bytes)
    }
}

fn decode_head(bytes: &[u8]) -> Result<Vec<CommitName>, PayloadError> {
    let mut reader = Reader::new(bytes, VERSION)?;
    let count = reader.size()?;
    if !(1..=shard_rlwe::blind::MOST_PAGES).contains(&count) {
        return Err(PayloadError::Invalid(format!("{count} pages")));
    }
    let names = reader.take(16 * count)?.as_chunks().0.iter().copied().map(CommitName).collect();
    reader.finish()?;
    Ok(names)
}

/// Places with their slots, ascending; slots are below `most`.
fn decode_places(
    bytes: &[u8],
    places: u32,
    most: u32,
) -> Result<Vec<(u32, Vec<u32>)>, PayloadError> {
    let invalid = || PayloadError::Invalid("its parts do not go together".into());
    let mut reader = Reader::new(bytes, VERSION)?;
    let mut found: Vec<(u32, Vec<u32>)> = Vec::new();
    let count = reader.size()?;
    if count == 0 || count > places as usize {
        return Err(invalid());
    }
    for _ in 0..count {
        let place = u32::try_from(reader.u64()?).map_err(|_| invalid())?;
        let slots = reader.u32s()?;
        let ascends = found.last().is_none_or(|(last, _)| *last < place);
        let sound = (1..=slots_of(MAX_RECORD_BYTES)).contains(&slots.len())
            && slots.iter().all(|&slot| slot < most);
        if !ascends || place >= places || !sound {
            return Err(invalid());
        }
        found.push((place, slots));
    }
    reader.finish()?;
    Ok(found)
}

impl BlindCollection {
    /// The records of its documents, if any ever had one.
    pub fn records(&self) -> Option<&Records> {
        self.records.as_ref()
    }

    /// The keys of fetches, expanded when they are first needed.
    pub(super) fn record_keys(&self) -> Result<&RecordKeys, ClientError> {
        if let Some(keys) = self.record_keys.get() {
            return Ok(keys);
        }
        let records = self.records.as_ref().ok_or(ClientError::NoRecords)?;
        let shape = records.shape(self.head.shape.query_rank())?;
        Ok(self.record_keys.get_or_init(|| RecordKeys::expand(&self.keys.record_key, shape)))
    }

    /// The name of a page on a server: pseudorandom, another for every seal of it.
    ///
    /// ```text
    /// name = HMAC-SHA-256(name key, "page" | number | commit), cut to 16 bytes
    /// ```
    pub(super) fn page_name(&self, records: &Records, page: u32) -> [u8; 16] {
        let commit = records.pages[page as usize].0;
        self.keys.record_name(&[b"page", &page.to_le_bytes(), &commit])
    }

    /// The name of a segment's hint on a server: another when any of its pages is, or when the columns
    /// lie in another way.
    pub(super) fn record_hint_name(
        &self,
        records: &Records,
        shape: &RecordShape,
        segment: usize,
    ) -> [u8; 16] {
        let numbers = [segment, shape.tiles(), shape.slot_bytes(), shape.query_rank().secrets()];
        let numbers: Vec<u8> =
            numbers.iter().flat_map(|&number| (number as u64).to_le_bytes()).collect();
        let commits: Vec<u8> =
            records.pages[shape.pages_of(segment)].iter().flat_map(|commit| commit.0).collect();
        self.keys.record_name(&[b"hint", &numbers, &commits])
    }
}

impl crate::blind::BlockKeys {
    fn record_name(&self, parts: &[&[u8]]) -> [u8; 16] {
        // HKDF-Extract is HMAC with the salt as its key.
        let mut hmac = HkdfExtract::<Sha256>::new(Some(&self.record_names[..]));
        parts.iter().for_each(|part| hmac.input_ikm(part));
        let (whole, _) = hmac.finalize();
        std::array::from_fn(|at| whole[at])
    }
}
