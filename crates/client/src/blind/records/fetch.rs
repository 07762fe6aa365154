//! Records from a server: privately, with encrypted unit vectors, or by the names of their pages.
//!
//! A private fetch opens the slot in the wanted column of *every* segment, and all of them must be what
//! the owner sealed: a server that changes something finds out that somebody noticed, and not where they
//! looked. A fetch by name opens every slot of the pages it asked for, so that the server does not learn
//! more than the pages.

use std::collections::{BTreeMap, HashMap, HashSet};

use rayon::prelude::*;
use shard_protocol::{
    BlindAnswer, BlindQuery, DecodeError, FetchSharedMany, Leak, Limits, Table, Transport,
    declassify,
};
use shard_rlwe::blind::{FetchOpening, QueryEntropy};
use zeroize::Zeroizing;

use super::index::Records;
use super::slot::{SlotContent, open_page, page_of, slots_in};
use crate::blind::hints::outdated;
use crate::blind::many::most_of;
use crate::blind::{BlindCollection, BlindSearcher, contradiction};
use crate::error::ClientError;
use crate::progress::{UNWATCHED, Watch};
use crate::transport::{exchange, exchange_blobs};

/// How records are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FetchWay {
    /// With an encrypted unit vector for every slot: the server sees how many slots are asked for.
    #[default]
    Private,
    /// By the names of the pages they are in, which the server then knows.
    Direct,
}

/// What a fetch took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FetchCost {
    /// Slots asked for.
    pub slots: usize,
    /// Messages.
    pub messages: usize,
    /// Bytes sent.
    pub bytes_up: usize,
    /// Bytes received.
    pub bytes_down: usize,
    /// Bytes of hints, which are kept.
    pub bytes_once: usize,
}

/// Records that were fetched.
pub struct Fetched {
    /// In the order of the ids; `None` where a document has no record.
    pub records: Vec<Option<Vec<u8>>>,
    /// What it took.
    pub cost: FetchCost,
}

impl std::fmt::Debug for Fetched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let found = self.records.iter().flatten().count();
        write!(f, "Fetched({found} of {} records, {:?})", self.records.len(), self.cost)
    }
}

impl<T: Transport<Error: Into<ClientError>>> BlindSearcher<T> {
    /// Fetches the hints that a private fetch needs and that are not here, so that its progress can be
    /// shown. Returns how many bytes came. A fetch does it by itself.
    ///
    /// # Errors
    /// When the server does not have them, cannot be reached or refuses, and when `watch` ended it.
    pub fn prepare_fetch(
        &self,
        collection: &BlindCollection,
        watch: &Watch<'_>,
    ) -> Result<usize, ClientError> {
        if collection.records.is_none() {
            return Ok(0);
        }
        let (names, each) =
            (hint_names(collection)?, collection.record_keys()?.shape().hint_bytes());
        self.hints().fetch_for_records(collection, &names, each, self.transport(), watch)
    }

    /// Bytes that [`BlindSearcher::prepare_fetch`] would fetch.
    pub fn missing_fetch_bytes(&self, collection: &BlindCollection) -> usize {
        let names = collection.records.as_ref().and_then(|_| hint_names(collection).ok());
        let each = collection.record_keys().map_or(0, |keys| keys.shape().hint_bytes());
        names.map_or(0, |names| each * self.hints().missing_for_records(&names))
    }

    /// Fetches the records of documents.
    ///
    /// # Errors
    /// When an id is nobody's, the server cannot be reached, refuses or holds another commit, and when
    /// what it gives is not what was published.
    pub fn fetch(
        &self,
        collection: &BlindCollection,
        ids: &[&str],
        way: FetchWay,
    ) -> Result<Fetched, ClientError> {
        let rows = rows_of(collection, ids)?;
        let Some(records) = &collection.records else {
            let records = vec![None; rows.len()];
            return Ok(Fetched { records, cost: FetchCost::default() });
        };
        let wanted: Vec<u32> =
            rows.iter().filter_map(|&row| records.of(row)).flatten().copied().collect();
        let mut cost = FetchCost { slots: wanted.len(), ..FetchCost::default() };
        let contents = match way {
            _ if wanted.is_empty() => Vec::new(),
            FetchWay::Private => self.fetch_privately(collection, records, &wanted, &mut cost)?,
            FetchWay::Direct => self.fetch_directly(collection, records, &wanted, &mut cost)?,
        };
        let mut contents = &contents[..];
        let mut found = Vec::with_capacity(rows.len());
        for &row in &rows {
            let Some(slots) = records.of(row) else {
                found.push(None);
                continue;
            };
            let (own, rest) = contents.split_at(slots.len());
            contents = rest;
            let record = SlotContent::join(own);
            let record =
                record.ok_or_else(|| contradiction("records", "slots that make no record"))?;
            found.push(Some(record.to_vec()));
        }
        Ok(Fetched { records: found, cost })
    }

    fn fetch_privately(
        &self,
        collection: &BlindCollection,
        records: &Records,
        wanted: &[u32],
        cost: &mut FetchCost,
    ) -> Result<Vec<SlotContent>, ClientError> {
        cost.bytes_once = self.prepare_fetch(collection, UNWATCHED)?;
        let hints: Vec<Zeroizing<Vec<u8>>> = hint_names(collection)?
            .par_iter()
            .map(|name| self.hints().of_records(collection, *name))
            .collect::<Result<_, _>>()?;
        let keys = collection.record_keys()?;
        let shape = keys.shape();
        let mut contents = Vec::with_capacity(wanted.len());
        // All messages are sent whatever is found wrong on the way, and told of at the end.
        let mut sound = true;
        let bytes = shape.query_bytes().max(shape.answer_bytes());
        let together = most_of(bytes, shape.residues());
        for wanted in wanted.chunks(together) {
            let mut sent: Vec<(usize, usize, FetchOpening)> = Vec::with_capacity(wanted.len());
            let mut queries = Vec::with_capacity(wanted.len());
            for &slot in wanted {
                let (segment, column) = shape.column_of(slot as usize);
                let (query, opening) = keys.encrypt(QueryEntropy::from_os()?, column);
                queries.push(query.to_bytes());
                sent.push((segment, column, opening));
            }
            let message = BlindQuery::new(
                Table::Records,
                declassify(collection.epoch(), Leak::CollectionShape),
                declassify(collection.commit(), Leak::CollectionShape),
                queries,
            )
            .encode();
            cost.messages += 1;
            cost.bytes_up += message.len();
            let limits = Limits::default();
            let answer = exchange(self.transport(), message, &limits)?;
            cost.bytes_down += answer.len();
            let answers =
                BlindAnswer::decode(&answer, wanted.len(), shape.answer_bytes(), &limits)?;
            for ((segment, column, opening), answer) in sent.iter().zip(answers.answers()) {
                let opened = keys.open(opening, answer, &hints).map_err(DecodeError::Ciphertext)?;
                let slots = authenticated(collection, records, *column, &opened);
                sound &= slots.is_some();
                contents.extend(slots.and_then(|mut slots| slots.remove(segment)));
            }
        }
        if sound && contents.len() == wanted.len() {
            Ok(contents)
        } else {
            Err(ClientError::Forged)
        }
    }

    fn fetch_directly(
        &self,
        collection: &BlindCollection,
        records: &Records,
        wanted: &[u32],
        cost: &mut FetchCost,
    ) -> Result<Vec<SlotContent>, ClientError> {
        // In the order of the pages: that in which records were asked for does not travel.
        let mut pages: Vec<u32> = wanted.iter().map(|&slot| page_of(slot)).collect();
        pages.sort_unstable();
        pages.dedup();
        let is_wanted: HashSet<u32> = wanted.iter().copied().collect();
        let mut held: HashMap<u32, SlotContent> = HashMap::new();
        // Whoever changed some slots of a page must not learn from an error whether these were wanted: every
        // slot of a page has to open, and all pages are asked for whatever is found wrong on the way.
        let mut sound = true;
        let mut rest = &pages[..];
        while !rest.is_empty() {
            let asked = &rest[..rest.len().min(FetchSharedMany::MOST)];
            let names = asked.iter().map(|&page| collection.page_name(records, page)).collect();
            let names = declassify(names, Leak::FetchedRecords);
            let message = FetchSharedMany::pages(names).encode();
            cost.messages += 1;
            cost.bytes_up += message.len();
            let (came, bytes) = exchange_blobs(self.transport(), message, asked.len())?;
            cost.bytes_down += bytes;
            for (&page, blob) in asked.iter().zip(&came.blobs) {
                let blob = blob.as_ref().ok_or_else(outdated)?;
                let by = records.sealed_by(slots_in(page).start);
                let slots = open_page(collection.sealer(), page, by, blob);
                sound &= slots.is_some();
                let numbered = slots_in(page).zip(slots.into_iter().flatten());
                held.extend(numbered.filter(|(slot, _)| is_wanted.contains(slot)));
            }
            rest = &rest[came.blobs.len()..];
        }
        let contents: Option<Vec<SlotContent>> =
            wanted.iter().map(|slot| held.get(slot).cloned()).collect();
        contents.filter(|_| sound).ok_or(ClientError::Forged)
    }
}

/// The rows of documents.
pub(super) fn rows_of(collection: &BlindCollection, ids: &[&str]) -> Result<Vec<u32>, ClientError> {
    let mut rows: HashMap<&str, Option<u32>> = ids.iter().map(|id| (*id, None)).collect();
    for (row, id) in collection.ids() {
        if let Some(found) = rows.get_mut(id) {
            *found = Some(row);
        }
    }
    let missing: Vec<String> =
        ids.iter().filter(|id| rows[*id].is_none()).map(|id| (*id).to_owned()).collect();
    if !missing.is_empty() {
        return Err(ClientError::NoSuchDocuments(missing));
    }
    Ok(ids.iter().filter_map(|id| rows[id]).collect())
}

/// The names of the hints of all segments.
fn hint_names(collection: &BlindCollection) -> Result<Vec<[u8; 16]>, ClientError> {
    let shape = collection.record_keys()?.shape();
    let records = collection.records.as_ref().ok_or(ClientError::NoRecords)?;
    let name = |segment| collection.record_hint_name(records, shape, segment);
    Ok((0..shape.segments()).map(name).collect())
}

/// What is in the column of every segment that has a slot there; `None` unless all of it is what was sealed
/// there, and nothing where there is no slot.
fn authenticated(
    collection: &BlindCollection,
    records: &Records,
    column: usize,
    opened: &[Zeroizing<Vec<u8>>],
) -> Option<BTreeMap<usize, SlotContent>> {
    let shape = collection.record_keys().ok()?.shape();
    let mut contents = BTreeMap::new();
    let mut sound = true;
    for (segment, opened) in opened.iter().enumerate() {
        match shape.slot_at(segment, column) {
            Some(slot) => {
                let slot = slot as u32;
                let by = records.sealed_by(slot);
                let content = SlotContent::open(collection.sealer(), slot, by, opened);
                sound &= content.is_some();
                contents.extend(content.map(|content| (segment, content)));
            }
            None => sound &= opened.iter().fold(0, |any, byte| any | byte) == 0,
        }
    }
    sound.then_some(contents)
}
