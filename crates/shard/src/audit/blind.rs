//! The subject of an audit, from a blind vault: the collection is published to a server in this process and
//! searched there, and every message is noted.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;
use shard_audit::blind::reading::{self, Domain};
use shard_audit::blind::{
    BlindSubject, Changes, Reading, Requests, Seen, SeenCells, SeenRecords, Stream,
};
use shard_audit::linkage::candidates::JITTERS;
use shard_audit::linkage::requests::jittered;
use shard_audit::subject::Subject;
use shard_audit::tools::matrix::Matrix;
use shard_audit::tools::statistics::{generator, sample};
use shard_audit::tools::uniformity::MOST_PIECES;
use shard_audit::view::Release;
use shard_client::{
    BlindCells, BlindCollection, ClientError, FetchWay, Filling, Hints, Progress, SearchOptions,
    UNWATCHED, Watch,
};
use shard_geometry::{Pca, VectorSet};
use shard_protocol::{BlindAnswer, BlindQuery, BlobName, Limits, PutBlob, PutBlobs, RecordList};
use shard_rlwe::blind::{
    Block, BlockName, EpochKey, Keys, MODULUS, RecordShape, SCORE_BITS, Shape,
};
use shard_rlwe::fill_from_os;
use shard_server::Embedded;

use super::recorded::Recording;
use super::{AuditOptions, foreign, select};
use crate::{Error, Searcher, Vault};

/// Queries whose requests are compared, each asked twice.
const QUERIES: usize = 100;

/// Requests for one query.
const REPEATS: usize = 200;

/// Requests whose sizes are noted.
const REQUESTS: usize = 1_000;

/// Documents whose records are fetched. One without a record causes no request.
const FETCHES: usize = 50;

/// Blocks that are encrypted again with some rows replaced.
const CHANGED_BLOCKS: usize = 32;

/// Of the rows of such a block, one in so many is replaced.
const REPLACED: usize = 4;

/// Words of an answer that are compared.
const ANSWER_WORDS: usize = 2_048;

/// The block of every document, in the order of the vault's documents.
pub(super) fn blocks_of(collection: &BlindCollection) -> Vec<u32> {
    let places = collection.shape().rows_per_block() as u32;
    collection.ids().map(|(place, _)| place / places).collect()
}

/// The documents that are attacked.
pub(super) struct Sampled<'a> {
    pub(super) vectors: &'a VectorSet,
    /// Their numbers among all documents.
    pub(super) kept: &'a [usize],
    pub(super) texts: Option<Vec<String>>,
}

/// Publishes, searches, and takes what the server got for the subject of an audit.
pub(super) fn subject(
    vault: &Vault,
    collection: &Arc<BlindCollection>,
    sampled: Sampled<'_>,
    queries: Option<&VectorSet>,
    options: &AuditOptions<'_>,
) -> Result<BlindSubject, Error> {
    let Sampled { vectors, kept, texts } = sampled;
    let layout = Layout::of(collection, kept);
    let server = Embedded::empty(collection.epoch());
    let stored = publish(vault, collection, &server, &layout)?;
    // In random order, since a file of queries may be sorted and each is compared with the next. Documents stand in
    // where there are none.
    let queries = queries.unwrap_or(vectors);
    let drawn = sample(queries.rows(), QUERIES, &mut generator(options.seed, 0xb11d));
    let queries = select(queries, &drawn);
    let shape = collection.shape();
    let length = shape.answer_bytes(collection.blocks().len() + stored.checks.len());
    let mut heard = ask(collection, &server, &queries, &layout, length, options.watch)?;
    let cells = if collection.cells().is_some() {
        Some(ask_for_cells(collection, &server, &queries, &layout, options, &mut heard)?)
    } else {
        None
    };
    if let Some(shape) = &stored.records {
        fetch(collection, &server, shape, options.seed, &mut heard)?;
    }
    drop(server);

    let integers = layout.integers(collection, vectors);
    let other_epoch = another_epoch(collection, &layout, &integers)?;
    let (before, after, changed) = changes(collection, &layout, &stored.blocks, &integers);
    let count = queries.rows();
    let release = |rows: Matrix| {
        let cells = layout.members.iter().map(|&(block, _)| block as u32).collect();
        Release { rows, cells, prefixes: None }
    };
    let axes = Pca::fit(vectors).map_err(ClientError::from)?;
    let mut readings = Vec::new();
    for domain in Domain::ALL {
        let read =
            |blocks: &[Block]| release(reading::rows(domain, shape, blocks, &layout.members));
        let releases = vec![read(&other_epoch), read(&stored.blocks)];
        let subject = foreign::subject(vectors, &axes, releases, false, options.seed);
        readings.push(Reading { name: domain.name(), subject });
    }
    let answers = release(layout.answers_by_row(&heard.answers[..count]));
    let subject = foreign::subject(vectors, &axes, vec![answers], false, options.seed);
    readings.push(Reading { name: "answers", subject });
    let first: &mut Subject = &mut readings[0].subject;
    (first.texts, first.queries) = (texts, Some(Matrix::from_vectors(&queries)));

    let changed_rows: Vec<(usize, usize)> = layout.in_first_blocks(before.len()).collect();
    let rows = |blocks: &[Block]| reading::rows(Domain::Coefficients, shape, blocks, &changed_rows);
    let differences = reading::differences(&rows(&after), &rows(before));
    Ok(BlindSubject {
        readings,
        changes: Changes { differences, changed },
        requests: requests(shape, &queries, &heard),
        streams: streams(&stored, &[before, &after].concat(), count, &heard),
        seen: Seen {
            shape: *shape,
            documents: collection.rows(),
            blocks: collection.blocks().len(),
            checks: stored.checks.len(),
            stored_bytes: stored.bytes,
            requests: heard.sizes,
            cells,
            records: stored.records.map(|shape| SeenRecords { shape, fetches: heard.fetches }),
        },
        seed: options.seed,
    })
}

/// Where the documents that are attacked lie.
struct Layout {
    /// The blocks they are in, ascending.
    numbers: Vec<u32>,
    /// The block of every document, as a place in that list, and its place in the block.
    members: Vec<(usize, usize)>,
    places: usize,
}

impl Layout {
    fn of(collection: &BlindCollection, kept: &[usize]) -> Self {
        let places = collection.shape().rows_per_block();
        let all: Vec<usize> = collection.ids().map(|(place, _)| place as usize).collect();
        let mut numbers: Vec<u32> = kept.iter().map(|&at| (all[at] / places) as u32).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let member = |&at: &usize| {
            let block = (all[at] / places) as u32;
            (numbers.partition_point(|&number| number < block), all[at] % places)
        };
        let members = kept.iter().map(member).collect();
        Self { numbers, members, places }
    }

    /// The documents of the first blocks.
    fn in_first_blocks(&self, blocks: usize) -> impl Iterator<Item = (usize, usize)> {
        self.members.iter().copied().filter(move |&(block, _)| block < blocks)
    }

    /// The integers of every block, place after place.
    fn integers(&self, collection: &BlindCollection, vectors: &VectorSet) -> Vec<Vec<i32>> {
        let width = vectors.width();
        let mut integers = vec![vec![0; self.places * width]; self.numbers.len()];
        for (row, &(block, place)) in self.members.iter().enumerate() {
            let encoded = collection.grid().encode(vectors.row(row));
            let places = integers[block][place * width..][..width].iter_mut();
            places.zip(encoded).for_each(|(place, value)| *place = value);
        }
        integers
    }

    /// The words of an answer that are of these blocks.
    fn words(&self, answer: &[u64]) -> Vec<u64> {
        let block = |&number: &u32| &answer[number as usize * self.places..][..self.places];
        self.numbers.iter().flat_map(block).copied().collect()
    }

    /// Of every document, what the server computed of it for each request.
    fn answers_by_row(&self, answers: &[Vec<u64>]) -> Matrix {
        let values: Vec<Vec<f64>> =
            answers.iter().map(|words| reading::answer_values(words)).collect();
        let row = |&(block, place): &(usize, usize)| {
            values.iter().map(move |values| values[block * self.places + place])
        };
        Matrix::new(answers.len().max(1), self.members.iter().flat_map(row).collect())
    }
}

/// What a publish left with the server.
struct Stored {
    blocks: Vec<Block>,
    checks: Vec<Block>,
    /// As the server reads it from the list of pages.
    records: Option<RecordShape>,
    /// Of everything.
    bytes: usize,
}

/// Publishes a vault, and takes the blocks out of the messages.
fn publish(
    vault: &Vault,
    collection: &BlindCollection,
    server: &Embedded,
    layout: &Layout,
) -> Result<Stored, Error> {
    let name = |number: usize| BlobName::block(collection.blocks()[number].file_name());
    let wanted: HashMap<BlobName, usize> = layout
        .numbers
        .iter()
        .enumerate()
        .map(|(at, &number)| (name(number as usize), at))
        .collect();
    let own: HashSet<BlobName> = (0..collection.blocks().len()).map(name).collect();
    let tiles = collection.shape().tiles();
    let blocks = Mutex::new(vec![None; layout.numbers.len()]);
    let (checks, records, bytes) = (Mutex::new(Vec::new()), Mutex::new(None), Mutex::new(0));
    let list_of_records = BlobName::records(collection.commit());
    let note = |message: &[u8], _: &[u8]| {
        let limits = Limits::default();
        if let Ok(put) = PutBlob::decode(message, &limits) {
            *lock(&bytes) += put.sealed().len();
            if *put.name() == list_of_records {
                let list = RecordList::decode(put.sealed(), &limits);
                *lock(&records) = list.ok().map(|list| *list.shape());
            }
        }
        let Ok(put) = PutBlobs::decode(message, &limits) else { return };
        for (name, blob) in put.blobs() {
            *lock(&bytes) += blob.len();
            if let Some(&at) = wanted.get(name) {
                lock(&blocks)[at] = Block::from_bytes(tiles, blob);
            } else if name.as_str().starts_with("block.") && !own.contains(name) {
                lock(&checks).extend(Block::from_bytes(tiles, blob));
            }
        }
    };
    vault.fill(Filling::RowsAndRecords, &Recording { server, note }, UNWATCHED)?;
    let blocks: Option<Vec<Block>> = taken(blocks).into_iter().collect();
    let blocks = blocks.ok_or_else(|| Error::audit("the server did not get every block"))?;
    let (checks, records) = (taken(checks), taken(records));
    if records.is_none() && collection.records().is_some() {
        return Err(Error::audit("the server did not get the list of records"));
    }
    Ok(Stored { blocks, checks, records, bytes: taken(bytes) })
}

/// What the server got and gave in searches.
#[derive(Default)]
struct Heard {
    /// Of every request and its answer, as a search of the vault makes them.
    sizes: Vec<(usize, usize)>,
    /// Of the first `2 * queries + REPEATS` requests.
    requests: Vec<Block>,
    /// Their answers, at the blocks that are attacked.
    answers: Vec<Vec<u64>>,
    /// Slots and sizes of every fetch of records.
    fetches: Vec<(usize, usize, usize)>,
    /// What was sent for each slot.
    fetch_requests: Vec<Block>,
    /// What came for each slot.
    fetch_answers: Vec<Vec<u64>>,
}

/// Asks for every query, for every query again, for the first one over and over, and then, where every search
/// asks for all blocks, for all of them until there are enough requests to compare sizes. Where there are
/// cells, all of them are asked for, so that every row is answered. Answers have `length` bytes.
fn ask(
    collection: &Arc<BlindCollection>,
    server: &Embedded,
    queries: &VectorSet,
    layout: &Layout,
    length: usize,
    watch: &Watch<'_>,
) -> Result<Heard, Error> {
    let heard = Mutex::new(Heard::default());
    let (count, tiles) = (queries.rows(), collection.shape().tiles());
    let kept = 2 * count + REPEATS;
    let note = |message: &[u8], answer: &[u8]| {
        let limits = Limits::default();
        let Ok(request) = BlindQuery::decode(message, &limits) else { return };
        let mut heard = lock(&heard);
        heard.sizes.push((message.len(), answer.len()));
        let Ok(answers) = BlindAnswer::decode(answer, 1, length, &limits) else { return };
        if heard.requests.len() < kept {
            heard.requests.extend(Block::from_bytes(tiles, &request.queries()[0]));
            heard.answers.push(layout.words(&reading::answer_words(&answers.answers()[0])));
        }
    };
    let recording = Recording { server, note };
    let searcher = Searcher::blind(collection.clone(), recording, Hints::in_memory());
    let total = if collection.cells().is_some() { kept } else { REQUESTS.max(kept) };
    let all = SearchOptions { probe: Some(usize::MAX), ..SearchOptions::default() };
    for at in 0..total {
        let row = if (2 * count..kept).contains(&at) { 0 } else { at % count };
        searcher.search(queries.row(row), &all)?;
        tell(watch, at + 1, total)?;
    }
    drop(searcher);
    let heard = taken(heard);
    if heard.requests.len() < kept || heard.answers.len() < kept {
        return Err(Error::audit("a request or an answer could not be read"));
    }
    Ok(heard)
}

/// Asks for every query and for one near each, at every distance, for as many cells as a search of this vault
/// asks for; notes which the requests name, and takes their sizes for those of searches.
fn ask_for_cells(
    collection: &Arc<BlindCollection>,
    server: &Embedded,
    queries: &VectorSet,
    layout: &Layout,
    options: &AuditOptions<'_>,
    heard: &mut Heard,
) -> Result<SeenCells, Error> {
    let cells = 0..collection.cell_count();
    // The cells that a request named, its bytes and those of its answer.
    let noted = Mutex::new(Vec::<(Vec<usize>, usize, usize)>::new());
    let note = |message: &[u8], answer: &[u8]| {
        let Ok(request) = BlindQuery::decode(message, &Limits::default()) else { return };
        let named = request.cells().map(|named| named.iter().map(|&cell| cell as usize).collect());
        let asked = named.unwrap_or_else(|| cells.clone().collect());
        lock(&noted).push((asked, message.len(), answer.len()));
    };
    let recording = Recording { server, note };
    let searcher = Searcher::blind(collection.clone(), recording, Hints::in_memory());
    let own = Matrix::from_vectors(queries);
    let rng = &mut generator(options.seed, 0xce11);
    let near = JITTERS.map(|jitter| jittered(&own, jitter, rng));
    let all: Vec<&[f64]> = own.iter().chain(near.iter().flat_map(Matrix::iter)).collect();
    for (at, query) in all.iter().enumerate() {
        let query: Vec<f32> = query.iter().map(|&x| x as f32).collect();
        searcher.search(&query, &SearchOptions::default())?;
        tell(options.watch, at + 1, all.len())?;
    }
    drop(searcher);
    let noted = taken(noted).into_iter().map(|(asked, up, down)| (asked, (up, down)));
    let (asked, sizes): (Vec<_>, Vec<_>) = noted.unzip();
    if asked.len() != all.len() {
        return Err(Error::audit("a request for cells could not be read"));
    }
    heard.sizes = sizes;
    let mut parts = asked.chunks(queries.rows()).map(<[_]>::to_vec);
    let asked = parts.next().unwrap_or_default();
    let mut cell_of_block = vec![0; collection.blocks().len()];
    for cell in cells.clone() {
        let blocks = collection.blocks_of(cell as u32);
        blocks.iter().for_each(|&block| cell_of_block[block as usize] = cell as u32);
    }
    let cell_of = |&(block, _): &(usize, usize)| cell_of_block[layout.numbers[block] as usize];
    Ok(SeenCells {
        blocks: cells.map(|cell| collection.blocks_of(cell as u32).len()).collect(),
        probe: collection.cells().map_or(0, BlindCells::probe),
        of_documents: layout.members.iter().map(cell_of).collect(),
        asked,
        near: JITTERS.into_iter().zip(parts).collect(),
    })
}

/// Says how many searches are done, and ends where that is asked for.
fn tell(watch: &Watch<'_>, done: usize, total: usize) -> Result<(), Error> {
    let progress = Progress { done: done as u64, total: total as u64 };
    if watch(progress).is_break() { Err(ClientError::Cancelled.into()) } else { Ok(()) }
}

/// Fetches the records of some documents privately, one after the other.
fn fetch(
    collection: &Arc<BlindCollection>,
    server: &Embedded,
    shape: &RecordShape,
    seed: u64,
    heard: &mut Heard,
) -> Result<(), Error> {
    let noted = Mutex::new(heard);
    let note = |message: &[u8], answer: &[u8]| {
        let limits = Limits::default();
        let Ok(request) = BlindQuery::decode(message, &limits) else { return };
        let (queries, length) = (request.queries(), shape.answer_bytes());
        let Ok(answers) = BlindAnswer::decode(answer, queries.len(), length, &limits) else {
            return;
        };
        let mut heard = lock(&noted);
        heard.fetches.push((queries.len(), message.len(), answer.len()));
        let blocks = queries.iter().filter_map(|query| Block::from_bytes(shape.tiles(), query));
        heard.fetch_requests.extend(blocks);
        let words = answers.answers().iter().map(|answer| reading::answer_words(answer));
        heard.fetch_answers.extend(words);
    };
    let recording = Recording { server, note };
    let searcher = Searcher::blind(collection.clone(), recording, Hints::in_memory());
    let ids: Vec<&str> = collection.ids().map(|(_, id)| id).collect();
    let mut messages = 0;
    for at in sample(ids.len(), FETCHES, &mut generator(seed, 0xfe7c)) {
        messages += searcher.fetch(&[ids[at]], FetchWay::Private)?.cost.messages;
    }
    drop(searcher);
    let heard = taken(noted);
    let slots: usize = heard.fetches.iter().map(|(slots, ..)| slots).sum();
    if heard.fetches.len() < messages || heard.fetch_requests.len() < slots {
        return Err(Error::audit("a fetch or its answer could not be read"));
    }
    Ok(())
}

/// The same rows under the keys of another epoch, without a rekey of the vault.
fn another_epoch(
    collection: &BlindCollection,
    layout: &Layout,
    integers: &[Vec<i32>],
) -> Result<Vec<Block>, Error> {
    let mut secret = [0; 32];
    fill_from_os(&mut secret).map_err(ClientError::from)?;
    let keys = Keys::expand(&EpochKey::new(secret), *collection.shape());
    let encrypt = |(&number, rows): (&u32, &Vec<i32>)| {
        keys.encrypt_block(&collection.block_name(number), rows).1
    };
    Ok(layout.numbers.par_iter().zip(integers).map(encrypt).collect())
}

/// The first blocks as they are stored and as a next revision would write them with some rows replaced by
/// others of the block, without a change of the vault; and which documents of these blocks were replaced.
fn changes<'a>(
    collection: &BlindCollection,
    layout: &Layout,
    stored: &'a [Block],
    integers: &[Vec<i32>],
) -> (&'a [Block], Vec<Block>, Vec<bool>) {
    let before = &stored[..stored.len().min(CHANGED_BLOCKS)];
    let is_replaced = |place: usize| place % REPLACED == 1;
    let width = collection.shape().dimension();
    let encrypt = |(&number, rows): (&u32, &Vec<i32>)| {
        let mut after = rows.clone();
        for place in (0..layout.places).filter(|&place| is_replaced(place)) {
            let other = &rows[(place - 1) * width..place * width];
            after[place * width..(place + 1) * width].copy_from_slice(other);
        }
        let name = collection.block_name(number);
        let name = BlockName { revision: name.revision + 1, ..name };
        collection.keys().encrypt_block(&name, &after).1
    };
    let after = layout.numbers.par_iter().zip(integers).take(before.len()).map(encrypt).collect();
    let changed = layout.in_first_blocks(before.len()).map(|(_, place)| is_replaced(place));
    (before, after, changed.collect())
}

/// Requests for every query, the first and the second, in each way that they are read.
fn requests(shape: &Shape, queries: &VectorSet, heard: &Heard) -> Requests {
    let count = queries.rows();
    let both = |read: &dyn Fn(Range<usize>) -> Matrix| [read(0..count), read(count..2 * count)];
    let mut readings = Vec::new();
    for domain in Domain::ALL {
        let read =
            |requests: Range<usize>| reading::queries(domain, shape, &heard.requests[requests]);
        readings.push((domain.name(), both(&read)));
    }
    let read = |requests: Range<usize>| {
        let answers = heard.answers[requests].iter().map(|words| cut(words));
        let width = cut(&heard.answers[0]).len();
        Matrix::new(width, answers.flat_map(reading::answer_values).collect())
    };
    readings.push(("answers", both(&read)));
    Requests { queries: Matrix::from_vectors(queries), readings }
}

fn cut(words: &[u64]) -> &[u64] {
    &words[..words.len().min(ANSWER_WORDS)]
}

/// Everything that should be noise.
fn streams(stored: &Stored, changed: &[Block], queries: usize, heard: &Heard) -> Vec<Stream> {
    let (different, repeated) = (&heard.requests[..queries], &heard.requests[2 * queries..]);
    let blocks: [(&str, &[Block]); 6] = [
        ("stored-blocks", &stored.blocks),
        ("checks", &stored.checks),
        ("blocks-before-and-after", changed),
        ("requests", different),
        ("one-query-repeated", repeated),
        ("fetches", &heard.fetch_requests),
    ];
    let mut streams = Vec::new();
    for (of, blocks) in blocks.into_iter().filter(|(_, blocks)| !blocks.is_empty()) {
        let most = (MOST_PIECES / blocks[0].polynomials()).max(1).min(blocks.len());
        for domain in Domain::ALL {
            let pieces = domain.pieces(&blocks[..most]);
            streams.push(Stream { of, reading: domain.name(), modulus: MODULUS, pieces });
        }
    }
    let modulus = 1 << SCORE_BITS;
    for (of, answers) in [("answers", &heard.answers), ("fetch-answers", &heard.fetch_answers)] {
        if !answers.is_empty() {
            let pieces = answers.iter().map(|words| cut(words).to_vec()).collect();
            streams.push(Stream { of, reading: "answers", modulus, pieces });
        }
    }
    streams
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn taken<T>(held: Mutex<T>) -> T {
    held.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
