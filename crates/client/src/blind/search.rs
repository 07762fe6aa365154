//! A query's journey through a blind collection: encrypt, ask, check, open, refine.
//!
//! The journey is `BlindSearcher::search_together`, for the queries of one message. While the server computes, the client computes the secret
//! products of all blocks; when the answer is there it is checked first, and nothing of it is used
//! unless it is that of the blocks that the owner published. Of a collection with cells only the blocks of
//! some are asked for, and every asked cell is checked by itself; one without is searched as one cell.

use std::sync::{Arc, RwLock};
use std::time::Instant;

use rayon::prelude::*;
use shard_geometry::check_vector;
use shard_protocol::{
    BlindAnswer, BlindQuery, DecodeError, Leak, Limits, Table, Transport, declassify,
};
use shard_rlwe::blind::{self, BlockSecrets, Forged, Opening, QueryEntropy};

use super::BlindCollection;
use super::cells::Asked;
use super::hints::Hints;
use super::rank::{Wanted, rank};
use super::ready::{Checking, Ready, Searched};
use crate::error::ClientError;
use crate::progress::Watch;
use crate::search::{Answer, Cost, SearchOptions};
use crate::transport::exchange;

/// Memory for what opening needs of blocks, unless told otherwise.
pub const SECRET_BYTES: usize = 512 << 20;

/// Blocks that are opened together.
const TOGETHER: usize = 32;

/// Searches a blind collection through one server. Keep it: it holds the hints and, within its budget,
/// what opening needs of every block. Many threads may search at once.
pub struct BlindSearcher<T> {
    pub(super) transport: T,
    pub(super) limits: Limits,
    pub(super) hints: Hints,
    /// What was made ready for the commit that was searched last.
    pub(super) ready: RwLock<Option<Arc<Ready>>>,
    pub(super) budget: usize,
}

impl<T: Transport<Error: Into<ClientError>>> BlindSearcher<T> {
    /// A searcher that has fetched nothing yet, with hints as they were kept.
    pub fn new(transport: T, hints: Hints) -> Self {
        Self {
            transport,
            limits: Limits::default(),
            hints,
            ready: RwLock::new(None),
            budget: SECRET_BYTES,
        }
    }

    /// The same with so many bytes for what opening needs of blocks.
    #[must_use]
    pub fn with_secret_bytes(self, budget: usize) -> Self {
        Self { budget, ..self }
    }

    /// The server it searches through.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// The hints it has.
    pub(super) fn hints(&self) -> &Hints {
        &self.hints
    }

    /// Fetches the hints that every search of a collection needs and that are not here, so that its progress
    /// can be shown. Returns how many bytes came. A search does it by itself. Of a collection with cells
    /// searches need different ones, and those of a cell are fetched when it is first asked for.
    ///
    /// # Errors
    /// When the server does not have them, cannot be reached or refuses, and when `watch` ended it.
    pub fn prepare(
        &self,
        collection: &BlindCollection,
        watch: &Watch<'_>,
    ) -> Result<usize, ClientError> {
        if collection.cells().is_some() {
            return Ok(0);
        }
        self.hints.fetch(collection, collection.blocks_of(0), &self.transport, watch)
    }

    /// Bytes that [`BlindSearcher::prepare`] would fetch.
    pub fn missing_bytes(&self, collection: &BlindCollection) -> usize {
        if collection.cells().is_some() { 0 } else { self.hints.missing_bytes(collection) }
    }

    /// Searches a collection. The server sees that there was a search and, of a collection with cells, which
    /// of them it asks for, unless it asks for all.
    ///
    /// # Errors
    /// When the query does not fit the collection, the server cannot be reached, refuses or holds
    /// another commit, and when its answer is not that of the published blocks.
    pub fn search(
        &self,
        collection: &BlindCollection,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<Answer, ClientError> {
        // As many answers as queries, unless there is an error among them.
        self.search_together(collection, &[query], options)?.remove(0)
    }

    /// Searches for the queries of one message, [`BlindQuery::MOST`] at most. Answers are in the order of
    /// the queries, up to the first that fails: what comes after a false one is not looked at, so that no
    /// second set of checks is spent on it.
    pub(super) fn search_together(
        &self,
        collection: &BlindCollection,
        queries: &[&[f32]],
        options: &SearchOptions,
    ) -> Result<Vec<Result<Answer, ClientError>>, ClientError> {
        for query in queries {
            check_vector(collection.shape().dimension(), query)?;
        }
        let allowed = options.filter.as_ref().map(|filter| collection.matching(filter));
        let allowed = allowed.transpose()?;
        let mut cost = Cost::default();
        let Asked { cells, is_some } = collection.asked(queries, options);
        cost.candidates = cells.iter().map(|&cell| collection.rows_of(cell)).sum();
        cost.active_cells = if is_some { cells.len() } else { 0 };
        let ready = self.ready(collection, &mut cost)?;
        let searched = Searched::new(collection, ready, cells);
        self.prepare_cells(&searched, &mut cost)?;
        // Nothing is asked when alarms have retired all sets of a cell.
        self.checking(&searched)?;

        let start = Instant::now();
        let encrypt = |query: &&[f32]| -> Result<(Vec<u8>, Opening), ClientError> {
            let (grid, longest) = (collection.grid(), collection.longest());
            let entropy = QueryEntropy::from_os()?;
            let (sent, opening) = collection.keys().encrypt_query(entropy, query, grid, longest);
            Ok((sent.to_bytes(), opening))
        };
        let encrypted = queries.iter().map(encrypt).collect::<Result<Vec<_>, _>>()?;
        let (sent, openings): (Vec<_>, Vec<_>) = encrypted.into_iter().unzip();
        let mut query = BlindQuery::new(
            Table::Rows,
            declassify(collection.epoch(), Leak::CollectionShape),
            declassify(collection.commit(), Leak::CollectionShape),
            sent,
        );
        if is_some {
            query = query.of_cells(declassify(searched.cells.clone(), Leak::ActiveCells));
        }
        let message = query.encode();
        cost.bytes_up = message.len();
        cost.timings.encrypt = start.elapsed();

        // None of the products waits for the answer.
        let start = Instant::now();
        let (answer, products) = std::thread::scope(|scope| {
            let answer = scope.spawn(|| exchange(&self.transport, message, &self.limits));
            let products = self.secret_products(&searched, &openings);
            (answer.join().expect("an exchange does not panic"), products)
        });
        // A hint that does not open is fetched again by the next search.
        let products = products.inspect_err(|_| self.forget(&searched.ready));
        let (answer, products) = (answer?, products?);
        cost.bytes_down = answer.len();
        cost.timings.server = start.elapsed();

        let start = Instant::now();
        let blocks = searched.blocks;
        cost.blocks = blocks;
        let length = collection.shape().answer_bytes(blocks);
        let answers = BlindAnswer::decode(&answer, queries.len(), length, &self.limits)?;
        let mut cost = cost.shared_by(queries.len());
        let mut start = Some(start);
        let mut done = Vec::with_capacity(queries.len());
        let opened = openings.iter().zip(&products);
        for ((bytes, query), (opening, products)) in
            answers.answers().iter().zip(queries).zip(opened)
        {
            let start = start.take().unwrap_or_else(Instant::now);
            let answer = blind::Answer::from_bytes(collection.shape(), blocks, bytes)
                .map_err(|error| DecodeError::Ciphertext(error).into())
                .and_then(|answer| self.checked(&searched, opening, &answer, products))
                .map(|scores| {
                    let wanted = Wanted { top: options.top, allowed: allowed.as_deref() };
                    rank(&searched, opening, &scores, query, &wanted, cost.clone(), start)
                });
            let failed = answer.is_err();
            done.push(answer);
            if failed {
                break;
            }
            cost.bytes_once = 0; // of the first
        }
        Ok(done)
    }

    /// The scores of an answer that passes the checks. What a forger learns from an alarm is about the sets
    /// in use, none of which is used again, whichever of them it was.
    fn checked(
        &self,
        searched: &Searched<'_>,
        opening: &Opening,
        answer: &blind::Answer,
        products: &[Vec<u64>],
    ) -> Result<Vec<f64>, ClientError> {
        let checking = self.checking(searched)?;
        open(searched, &checking, opening, answer, products).map_err(|Forged| {
            for (at, checking) in checking.iter().enumerate() {
                self.retire(searched.ready_cell(at), checking.set);
            }
            ClientError::Forged
        })
    }

    /// `s2 H + s k + s' k'` of every block that is searched, query by query, on all cores.
    fn secret_products(
        &self,
        searched: &Searched<'_>,
        openings: &[Opening],
    ) -> Result<Vec<Vec<Vec<u64>>>, ClientError> {
        let (collection, numbers) = (searched.collection, &searched.numbers);
        let kept = searched.kept();
        let some = |(numbers, kept): (&[u32], &[Option<&BlockSecrets>])| {
            let made: Vec<BlockSecrets> = numbers
                .iter()
                .zip(kept)
                .filter(|(_, kept)| kept.is_none())
                .map(|(&number, _)| self.block_secrets(collection, number))
                .collect::<Result<_, _>>()?;
            let mut made = made.iter();
            let secrets: Vec<&BlockSecrets> =
                kept.iter().filter_map(|kept| kept.or_else(|| made.next())).collect();
            let of = |opening: &Opening| {
                let mut products = Vec::with_capacity(numbers.len());
                let each = |_: usize, places: &[u64]| products.push(places.to_vec());
                collection.keys().secret_products(opening, &secrets, each);
                products
            };
            Ok::<_, ClientError>(openings.iter().map(of).collect())
        };
        let parts: Result<Vec<Vec<Vec<Vec<u64>>>>, ClientError> =
            numbers.par_chunks(TOGETHER).zip(kept.par_chunks(TOGETHER)).map(some).collect();
        let mut products = vec![Vec::with_capacity(numbers.len()); openings.len()];
        for part in parts? {
            products.iter_mut().zip(part).for_each(|(all, more)| all.extend(more));
        }
        Ok(products)
    }
}

/// Checks, then the range, then scores: in this order, and with one error.
fn open(
    searched: &Searched<'_>,
    checking: &[Checking],
    opening: &Opening,
    answer: &blind::Answer,
    products: &[Vec<u64>],
) -> Result<Vec<f64>, Forged> {
    let keys = searched.collection.keys();
    // All of them, whichever fails: that a search takes longer is not to say which cell it was.
    let check = |(at, checking): (usize, &Checking)| {
        let first = searched.checks[at] + checking.first;
        checking.checker.check_at(keys, opening, answer, &searched.positions[at], first)
    };
    let checked: Vec<Result<(), Forged>> = checking.par_iter().enumerate().map(check).collect();
    checked.into_iter().fold(Ok(()), Result::and)?;
    let per_block = searched.collection.shape().rows_per_block();
    let mut scores = Vec::with_capacity(searched.numbers.len() * per_block);
    let each = products.iter().enumerate();
    each.map(|(block, products)| opening.open(answer, block, products, &mut scores))
        .fold(Ok(()), Result::and)?;
    Ok(scores)
}
