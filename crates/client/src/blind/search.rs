//! A query's journey through a blind collection: encrypt, ask, check, open, refine.
//!
//! The journey is `BlindSearcher::search_together`, for the queries of one message. While the server computes, the client computes the secret
//! products of all blocks; when the answer is there it is checked first, and nothing of it is used
//! unless it is that of the blocks that the owner published.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use rayon::prelude::*;
use shard_geometry::check_vector;
use shard_protocol::{
    BlindAnswer, BlindQuery, CommitName, DecodeError, Leak, Limits, Table, Transport, declassify,
};
use shard_rlwe::blind::{self, BlockSecrets, Checker, Forged, Opening, Precision, QueryEntropy};

use super::BlindCollection;
use super::checks::{CheckSet, Checks, SETS};
use super::hints::Hints;
use crate::error::ClientError;
use crate::progress::{UNWATCHED, Watch};
use crate::search::{Answer, Cost, Hit, SearchOptions, grid};
use crate::transport::exchange;

/// Memory for what opening needs of blocks, unless told otherwise.
pub const SECRET_BYTES: usize = 512 << 20;

/// Deviations of noise between a score as opened and as it is.
const DEVIATIONS: f64 = 7.0;

/// Blocks that are opened together.
const TOGETHER: usize = 32;

/// Searches a blind collection through one server. Keep it: it holds the hints and, within its budget,
/// what opening needs of every block. Many threads may search at once.
pub struct BlindSearcher<T> {
    transport: T,
    limits: Limits,
    hints: Hints,
    /// What was made ready for the commit that was searched last.
    ready: RwLock<Option<Arc<Ready>>>,
    budget: usize,
}

/// What outlives a search of one commit.
struct Ready {
    commit: CommitName,
    sets: Vec<CheckSet>,
    /// The set in use.
    checking: Mutex<Option<Checking>>,
    /// Of the first blocks, as many as the budget allows.
    kept: Arc<Vec<BlockSecrets>>,
}

/// A set of checks in use.
#[derive(Clone)]
struct Checking {
    set: u64,
    /// Where its blocks begin among those of checks.
    first: usize,
    checker: Arc<Checker>,
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

    /// Fetches the hints that a search of a collection needs and that are not here, so that its progress
    /// can be shown. Returns how many bytes came. A search does it by itself.
    ///
    /// # Errors
    /// When the server does not have them, cannot be reached or refuses, and when `watch` ended it.
    pub fn prepare(
        &self,
        collection: &BlindCollection,
        watch: &Watch<'_>,
    ) -> Result<usize, ClientError> {
        self.hints.fetch(collection, &self.transport, watch)
    }

    /// Bytes that [`BlindSearcher::prepare`] would fetch.
    pub fn missing_bytes(&self, collection: &BlindCollection) -> usize {
        self.hints.missing_bytes(collection)
    }

    /// Searches a collection. The server sees that there was a search.
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
        let mut cost = Cost { candidates: collection.rows(), ..Cost::default() };
        let ready = self.ready(collection, &mut cost)?;
        // Nothing is asked when alarms have retired all sets.
        self.checking(collection, &ready)?;

        let start = Instant::now();
        let encrypt = |query: &&[f32]| -> Result<(Vec<u8>, Opening), ClientError> {
            let (grid, longest) = (collection.grid(), collection.longest());
            let entropy = QueryEntropy::from_os()?;
            let (sent, opening) = collection.keys().encrypt_query(entropy, query, grid, longest);
            Ok((sent.to_bytes(), opening))
        };
        let encrypted = queries.iter().map(encrypt).collect::<Result<Vec<_>, _>>()?;
        let (sent, openings): (Vec<_>, Vec<_>) = encrypted.into_iter().unzip();
        let message = BlindQuery::new(
            Table::Rows,
            declassify(collection.epoch(), Leak::CollectionShape),
            declassify(collection.commit(), Leak::CollectionShape),
            sent,
        )
        .encode();
        cost.bytes_up = message.len();
        cost.timings.encrypt = start.elapsed();

        // None of the products waits for the answer.
        let start = Instant::now();
        let (answer, products) = std::thread::scope(|scope| {
            let answer = scope.spawn(|| exchange(&self.transport, message, &self.limits));
            let products = self.secret_products(collection, &ready, &openings);
            (answer.join().expect("an exchange does not panic"), products)
        });
        // A hint that does not open is fetched again by the next search.
        let products = products.inspect_err(|_| self.forget(&ready));
        let (answer, products) = (answer?, products?);
        cost.bytes_down = answer.len();
        cost.timings.server = start.elapsed();

        let start = Instant::now();
        let blocks = collection.blocks().len() + self.check_blocks(&ready);
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
                .and_then(|answer| self.checked(collection, &ready, opening, &answer, products))
                .map(|scores| {
                    let wanted = Wanted { top: options.top, allowed: allowed.as_deref() };
                    rank(collection, opening, &scores, query, &wanted, cost.clone(), start)
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

    /// The scores of an answer that passes the checks. What a forger learns from an alarm is about the set
    /// in use, which is never used again.
    fn checked(
        &self,
        collection: &BlindCollection,
        ready: &Arc<Ready>,
        opening: &Opening,
        answer: &blind::Answer,
        products: &[Vec<u64>],
    ) -> Result<Vec<f64>, ClientError> {
        let open = |checking: &Checking| open(collection, checking, opening, answer, products);
        let checking = self.checking(collection, ready)?;
        open(&checking).map_err(|Forged| {
            self.retire(ready, checking.set);
            ClientError::Forged
        })
    }

    /// Never uses a set again.
    fn retire(&self, ready: &Ready, set: u64) {
        if !self.hints.is_retired(set) {
            self.hints.retire(set);
        }
        let mut checking = ready.checking.lock().unwrap_or_else(PoisonError::into_inner);
        checking.take_if(|checking| checking.set == set);
    }

    /// Makes the next search fetch what it needs.
    fn forget(&self, ready: &Arc<Ready>) {
        let mut held = self.ready.write().unwrap_or_else(PoisonError::into_inner);
        held.take_if(|held| Arc::ptr_eq(held, ready));
    }

    /// `s2 H + s k + s' k'` of every block, query by query, on all cores.
    fn secret_products(
        &self,
        collection: &BlindCollection,
        ready: &Ready,
        openings: &[Opening],
    ) -> Result<Vec<Vec<Vec<u64>>>, ClientError> {
        let numbers: Vec<usize> = (0..collection.blocks().len()).collect();
        let some = |numbers: &[usize]| {
            let made: Vec<BlockSecrets> = numbers
                .iter()
                .filter(|&&number| number >= ready.kept.len())
                .map(|&number| self.block_secrets(collection, number))
                .collect::<Result<_, _>>()?;
            let mut made = made.iter();
            let secrets: Vec<&BlockSecrets> = numbers
                .iter()
                .filter_map(|&number| ready.kept.get(number).or_else(|| made.next()))
                .collect();
            let of = |opening: &Opening| {
                let mut products = Vec::with_capacity(numbers.len());
                let each = |_: usize, places: &[u64]| products.push(places.to_vec());
                collection.keys().secret_products(opening, &secrets, each);
                products
            };
            Ok::<_, ClientError>(openings.iter().map(of).collect())
        };
        let parts: Result<Vec<Vec<Vec<Vec<u64>>>>, ClientError> =
            numbers.par_chunks(TOGETHER).map(some).collect();
        let mut products = vec![Vec::with_capacity(numbers.len()); openings.len()];
        for part in parts? {
            products.iter_mut().zip(part).for_each(|(all, more)| all.extend(more));
        }
        Ok(products)
    }

    fn block_secrets(
        &self,
        collection: &BlindCollection,
        number: usize,
    ) -> Result<BlockSecrets, ClientError> {
        let tag = &collection.blocks()[number].tag;
        let hint = self.hints.of(collection, number)?;
        collection.keys().block_secrets(tag, &hint).map_err(|_| ClientError::Forged)
    }

    /// Fetches what a search of this commit needs, unless it is here.
    fn ready(
        &self,
        collection: &BlindCollection,
        cost: &mut Cost,
    ) -> Result<Arc<Ready>, ClientError> {
        let held = self.ready.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(ready) = held.filter(|ready| ready.commit == collection.commit()) {
            return Ok(ready);
        }
        let (sets, bytes) = self.fetch_sets(collection)?;
        cost.bytes_once = bytes + self.hints.fetch(collection, &self.transport, UNWATCHED)?;
        let each = (collection.shape().query_rank().secrets() + 2) * blind::DEGREE * 6;
        let numbers: Vec<usize> = (0..collection.blocks().len().min(self.budget / each)).collect();
        let kept: Result<Vec<_>, ClientError> =
            numbers.par_iter().map(|&number| self.block_secrets(collection, number)).collect();
        let ready = Arc::new(Ready {
            commit: collection.commit(),
            sets,
            checking: Mutex::new(None),
            kept: Arc::new(kept?),
        });
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) = Some(ready.clone());
        Ok(ready)
    }

    fn fetch_sets(
        &self,
        collection: &BlindCollection,
    ) -> Result<(Vec<CheckSet>, usize), ClientError> {
        let sealed = self.hints.checks(collection, &self.transport)?;
        let opened = Checks::open(collection.sealer(), collection.commit(), &sealed);
        let checks = opened.ok_or(ClientError::Forged)?;
        let shape = collection.shape();
        let sound = checks.revision == collection.revision().0
            && checks.sets.len() == SETS
            && checks.sets.iter().all(|set| set.tags.len() == shape.checks());
        if sound { Ok((checks.sets, sealed.len())) } else { Err(ClientError::Forged) }
    }

    fn check_blocks(&self, ready: &Ready) -> usize {
        ready.sets.iter().map(|set| set.tags.len()).sum()
    }

    /// The first set that no alarm has retired.
    fn checking(
        &self,
        collection: &BlindCollection,
        ready: &Ready,
    ) -> Result<Checking, ClientError> {
        let mut held = ready.checking.lock().unwrap_or_else(PoisonError::into_inner);
        // Another searcher of these hints may have retired it.
        if let Some(checking) = held.as_ref().filter(|held| !self.hints.is_retired(held.set)) {
            return Ok(checking.clone());
        }
        let mut first = 0;
        for set in &ready.sets {
            if self.hints.is_retired(set.number) {
                first += set.tags.len();
                continue;
            }
            let blocks = collection.blocks().len();
            let checker = Arc::new(Checker::new(collection.keys(), set.number, &set.tags, blocks));
            let checking = Checking { set: set.number, first, checker };
            *held = Some(checking.clone());
            return Ok(checking);
        }
        Err(ClientError::ChecksRetired)
    }
}

/// Checks, then the range, then scores: in this order, and with one error.
fn open(
    collection: &BlindCollection,
    checking: &Checking,
    opening: &Opening,
    answer: &blind::Answer,
    products: &[Vec<u64>],
) -> Result<Vec<f64>, Forged> {
    let first = collection.blocks().len() + checking.first;
    checking.checker.check(collection.keys(), opening, answer, first)?;
    let mut scores = Vec::with_capacity(collection.places());
    let each = products.iter().enumerate();
    each.map(|(block, products)| opening.open(answer, block, products, &mut scores))
        .fold(Ok(()), Result::and)?;
    Ok(scores)
}

/// Gives equal rows one score, the mean of theirs, and sorts by falling score, rows of one score by place,
/// as raw search does. Rows that are alike and further apart than `most` are not equal.
fn sort(best: &mut [(usize, f64)], likeness: impl Fn(usize) -> u32, most: f64) {
    best.sort_by_cached_key(|&(place, _)| likeness(place));
    for alike in best.chunk_by_mut(|a, b| likeness(a.0) == likeness(b.0)) {
        alike.sort_by(|a, b| b.1.total_cmp(&a.1));
        for equal in alike.chunk_by_mut(|a, b| a.1 - b.1 <= most) {
            let mean = equal.iter().map(|(_, score)| score).sum::<f64>() / equal.len() as f64;
            equal.iter_mut().for_each(|(_, score)| *score = mean);
        }
    }
    best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
}

/// What is to be returned.
struct Wanted<'a> {
    top: usize,
    /// Which places may be, where not all may.
    allowed: Option<&'a [bool]>,
}

/// The best rows, refined: from every score that may belong to them the errors of its block are taken.
fn rank(
    collection: &BlindCollection,
    opening: &Opening,
    scores: &[f64],
    query: &[f32],
    wanted: &Wanted<'_>,
    mut cost: Cost,
    start: Instant,
) -> Answer {
    let shape = collection.shape();
    let length = query.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let unit = collection.longest() * length;
    let precision = Precision::of(shape, collection.grid(), collection.longest());
    let mut best: Vec<(usize, f64)> = scores
        .iter()
        .enumerate()
        .filter(|(place, _)| wanted.allowed.is_none_or(|allowed| allowed[*place]))
        .filter(|(place, _)| collection.id(*place).is_some())
        .map(|(place, &score)| (place, score))
        .collect();
    let top = wanted.top.min(best.len());
    if top == 0 {
        return Answer { hits: Vec::new(), precision: 0.0, error_bound: 0.0, cost };
    }
    best.select_nth_unstable_by(top - 1, |a, b| b.1.total_cmp(&a.1));
    let least = best[top - 1].1 - 2.0 * DEVIATIONS * precision.opened * unit;
    best.retain(|(_, score)| *score >= least);
    let refine = |(place, score): &mut (usize, f64)| {
        let (block, row) = (*place / shape.rows_per_block(), *place % shape.rows_per_block());
        let tag = &collection.blocks()[block].tag;
        *score = collection.keys().refine(opening, tag, row, *score);
    };
    best.par_iter_mut().with_min_len(64).for_each(refine);
    let error_bound = DEVIATIONS * precision.refined * unit;
    sort(&mut best, |place| collection.likeness(place), 2.0 * error_bound);
    // Finer digits are noise that depends on the key.
    let step = grid(precision.refined * unit / 2.0);
    let round = |score: f64| if step > 0.0 { (score / step).round() * step } else { score };
    let hit = |&(place, score): &(usize, f64)| Hit {
        id: collection.id(place).unwrap_or_default().to_owned(),
        row: place as u32,
        score: round(score),
    };
    let hits = best[..top].iter().map(hit).collect();
    cost.timings.open = start.elapsed();
    Answer { hits, precision: step, error_bound, cost }
}

#[cfg(test)]
mod tests {
    use super::sort;

    #[test]
    fn equal_rows_have_one_score_and_the_order_of_their_places() {
        // Rows 3, 7 and 8 are equal, 5 is another between them, and 1 is alike by chance.
        let likeness = |place| if [1, 3, 7, 8].contains(&place) { 6 } else { place as u32 };
        let mut best = [(1, 0.2), (7, 0.5), (9, 0.9), (5, 0.499), (3, 0.498), (8, 0.496)];
        sort(&mut best, likeness, 0.01);
        assert_eq!(best.map(|hit| hit.0), [9, 5, 3, 7, 8, 1]);
        assert!(best[2..5].iter().all(|hit| (hit.1 - 0.498).abs() < 1e-12), "{best:?}");
        assert_eq!((best[1].1, best[5].1), (0.499, 0.2));
        sort(&mut [], likeness, 0.01);
    }
}
