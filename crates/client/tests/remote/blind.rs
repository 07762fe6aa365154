//! Blind collections between client and server: what is published is found, by owners and readers.

use std::ops::ControlFlow;

use shard_client::remote::{Published, diagnose, pull};
use shard_client::vault::{KdfCost, Vault};
use shard_client::{
    Answer, BlindCollection, BlindSearcher, ClientError, Hints, Hit, SearchOptions, Transport,
    UNWATCHED, export_query_vault, stored_documents,
};
use shard_geometry::VectorSet;
use shard_protocol::MessageKind;
use tempfile::TempDir;

use crate::support::Served;
use crate::vaults::{Owner, unlock};

/// Rows of a block of the vaults here.
pub const PLACES: usize = 8;

pub fn collection(owner: &Owner) -> BlindCollection {
    BlindCollection::open(&owner.vault).unwrap()
}

/// A searcher that keeps nothing.
pub fn searcher<T: Transport<Error: Into<ClientError>>>(transport: T) -> BlindSearcher<T> {
    BlindSearcher::new(transport, Hints::in_memory())
}

/// Every document is asked for.
fn all() -> SearchOptions {
    SearchOptions { top: usize::MAX, ..SearchOptions::default() }
}

/// Asserts that an answer has all documents of a vault, with their inner products; where it has cells, those
/// of the cells that the query asks for.
pub fn assert_exact(answer: &Answer, query: &[f32], owner: &Owner) {
    let collection = collection(owner);
    let asked = collection.cells().and_then(|cells| collection.nearest_cells(query, cells.probe()));
    assert_exact_in(answer, query, owner, asked.as_deref());
}

/// The same for the documents of some cells, or of all.
pub fn assert_exact_in(answer: &Answer, query: &[f32], owner: &Owner, asked: Option<&[u32]>) {
    let (ids, vectors) = stored_documents(&owner.vault).unwrap();
    let collection = collection(owner);
    let mut expected: Vec<&str> = match asked {
        None => collection.ids().map(|(_, id)| id).collect(),
        Some(cells) => {
            let blocks = cells.iter().flat_map(|&cell| collection.blocks_of(cell));
            blocks.flat_map(|&block| collection.blocks()[block as usize].ids().flatten()).collect()
        }
    };
    let mut found: Vec<&str> = answer.hits.iter().map(|hit| hit.id.as_str()).collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(answer.cost.active_cells, asked.map_or(0, <[u32]>::len));
    assert_eq!(answer.cost.candidates, expected.len());
    assert!(answer.error_bound < 1e-3, "{}", answer.error_bound);
    assert!(answer.hits.is_sorted_by(|a, b| a.score >= b.score));
    for hit in &answer.hits {
        let row = ids.iter().position(|id| *id == hit.id).expect("a document of the vault");
        let products = vectors.row(row).iter().zip(query).map(|(a, b)| f64::from(a * b));
        let (exact, bound) = (products.sum::<f64>(), answer.error_bound + answer.precision + 1e-6);
        assert!((hit.score - exact).abs() <= bound, "{} for {exact}, ±{bound}", hit.score);
    }
}

/// Searches with a searcher, and compares what is found with the vault.
pub fn search_with<T: Transport<Error: Into<ClientError>>>(
    searcher: &BlindSearcher<T>,
    owner: &mut Owner,
) -> Result<Answer, ClientError> {
    let query = owner.queries(1);
    let answer = searcher.search(&collection(owner), query.row(0), &all())?;
    assert_exact(&answer, query.row(0), owner);
    Ok(answer)
}

/// The same by somebody who has fetched nothing yet.
pub fn search(owner: &mut Owner, served: &Served) -> Result<Answer, ClientError> {
    search_with(&searcher(served), owner)
}

/// Sent, removed and there already.
pub fn counts(done: &Published) -> (usize, usize, usize) {
    (done.uploaded, done.deleted, done.unchanged)
}

#[test]
fn scores_are_inner_products_within_the_stated_bound() {
    let served = Served::new(None);
    let mut owner = Owner::blind(3, 37);
    owner.publish(&*served).unwrap();
    let searcher = searcher(&*served);
    let first = search_with(&searcher, &mut owner).unwrap();
    let second = search_with(&searcher, &mut owner).unwrap();
    // Hints of five blocks and the tags of two sets of eleven checks, each sealed by 40 bytes: fetched once.
    let hints = 5 * (2048 * 28 / 8 + 40);
    let checks = 40 + 2 + 3 * 8 + 2 * (2 * 8 + 11 * 32) + 5 * (8 + 32);
    assert_eq!((first.cost.bytes_once, second.cost.bytes_once), (hints + checks, 0));
    // Also when nothing of a block is kept between searches.
    search_with(&BlindSearcher::new(&*served, Hints::in_memory()).with_secret_bytes(0), &mut owner)
        .unwrap();
    served.restart();
    search_with(&searcher, &mut owner).unwrap();
}

/// Errors differ from row to row, also where the rows are equal; the order does not follow them.
#[test]
fn equal_documents_have_one_score_and_the_order_of_their_places() {
    let served = Served::new(None);
    let mut owner = Owner::blind(3, 29);
    let (_, vectors) = stored_documents(&owner.vault).unwrap();
    let twins: Vec<String> = (0..12).map(|n| format!("twin {n}")).collect();
    let repeated = vectors.row(4).repeat(twins.len());
    owner.ingest_vectors(&twins, &VectorSet::new(24, repeated).unwrap());
    owner.publish(&*served).unwrap();
    let expected: Vec<&str> =
        std::iter::once("4").chain(twins.iter().map(String::as_str)).collect();
    let searcher = searcher(&*served);
    for _ in 0..8 {
        let answer = search_with(&searcher, &mut owner).unwrap();
        let is_one = |hit: &&Hit| expected.contains(&hit.id.as_str());
        let equal: Vec<&Hit> = answer.hits.iter().filter(is_one).collect();
        assert!(equal.iter().map(|hit| hit.id.as_str()).eq(expected.iter().copied()), "{equal:?}");
        assert!(equal.iter().all(|hit| hit.score == equal[0].score), "{equal:?}");
    }
}

#[test]
fn a_search_sends_and_receives_the_same_bytes_for_every_query() {
    let served = Served::new(None);
    let mut owner = Owner::blind(3, 30);
    owner.publish(&*served).unwrap();
    let (searcher, collection) = (searcher(&*served), collection(&owner));
    let mut queries: Vec<Vec<f32>> = vec![vec![1e-6; 24], vec![1e6; 24], vec![-1.0; 24]];
    queries.push((0..24).map(|at| f32::from(u8::from(at == 5))).collect());
    queries.extend((0..4).map(|_| owner.queries(1).row(0).to_vec()));
    search_with(&searcher, &mut owner).unwrap();
    served.take_seen();
    let mut sizes = Vec::new();
    for (query, top) in queries.iter().zip([1, 30, 7, 2, 1, 30, 3, 0]) {
        let options = SearchOptions { top, ..SearchOptions::default() };
        let answer = searcher.search(&collection, query, &options).unwrap();
        sizes.push((answer.cost.bytes_up, answer.cost.bytes_down));
        let seen = std::mem::take(&mut *served.seen.lock().unwrap());
        assert_eq!(seen, [(MessageKind::BlindQuery, answer.cost.bytes_up)], "one message");
    }
    sizes.dedup();
    assert_eq!(sizes.len(), 1, "{sizes:?}");
}

#[test]
fn a_batch_finds_what_single_searches_find_in_messages_of_eight() {
    let served = Served::new(None);
    let mut owner = Owner::blind(3, 37);
    owner.publish(&*served).unwrap();
    let (searcher, collection, queries) =
        (searcher(&*served), collection(&owner), owner.queries(19));
    let alone: Vec<Answer> = (0..19)
        .map(|row| searcher.search(&collection, queries.row(row), &all()).unwrap())
        .collect();
    // One query more or less in a message makes no difference, nor do block secrets that are not kept.
    let keeps_nothing = self::searcher(&*served).with_secret_bytes(0);
    for (parallel, messages, with) in [(0, 3, &searcher), (1, 3, &keeps_nothing), (5, 5, &searcher)]
    {
        with.search(&collection, queries.row(0), &all()).unwrap();
        served.take_seen();
        let mut seen = Vec::new();
        let each = |row: usize, answer: Answer| {
            assert_exact(&answer, queries.row(row), &owner);
            assert_eq!(answer.cost.blocks, alone[row].cost.blocks);
            assert!(answer.cost.bytes_up <= alone[row].cost.bytes_up, "its share of the message");
            let ids = |answer: &Answer| -> Vec<String> {
                answer.hits.iter().map(|hit| hit.id.clone()).collect()
            };
            assert_eq!(ids(&answer), ids(&alone[row]));
            seen.push(row);
            ControlFlow::Continue(())
        };
        with.search_many(&collection, &queries, &all(), parallel, each).unwrap();
        assert!(seen.into_iter().eq(0..19));
        let sent = served.take_seen();
        assert_eq!(sent.len(), messages, "{sent:?}");
    }
    let narrow = VectorSet::new(3, vec![1.0; 9]).unwrap();
    let each = |_, _| ControlFlow::Continue(());
    searcher.search_many(&collection, &narrow, &all(), 1, each).unwrap_err();
    assert!(served.take_seen().is_empty(), "what does not fit is not sent");
}

#[test]
fn two_thousand_honest_searches_raise_no_alarm() {
    let served = Served::new(None);
    let mut owner = Owner::blind(3, 20);
    owner.publish(&*served).unwrap();
    let (searcher, collection) = (searcher(&*served), collection(&owner));
    let queries = owner.queries(2000);
    for query in 0..2000 {
        let answer = searcher.search(&collection, queries.row(query), &all()).unwrap();
        if query % 100 == 0 {
            assert_exact(&answer, queries.row(query), &owner);
        }
    }
}

/// Somebody who may search, and what they ask with.
struct Reader {
    _directory: TempDir,
    vault: Vault,
}

impl Reader {
    fn of(owner: &mut Owner) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (path, cost) = (directory.path().join("vault"), KdfCost::default());
        let vault = export_query_vault(&owner.vault, &path, &unlock(), cost, &mut owner.rng);
        Self { _directory: directory, vault: vault.unwrap() }
    }

    fn search(&self, with: &BlindSearcher<&Served>, owner: &mut Owner) -> Result<(), ClientError> {
        let (collection, query) = (BlindCollection::open(&self.vault)?, owner.queries(1));
        let answer = with.search(&collection, query.row(0), &all());
        let answer =
            answer.map_err(|error| diagnose(collection.position(), *with.transport(), error))?;
        assert_exact(&answer, query.row(0), owner);
        Ok(())
    }

    fn pull(&mut self, served: &Served, owner: &mut Owner) -> Result<(), ClientError> {
        pull(&mut self.vault, served, UNWATCHED, &mut owner.rng).map(drop)
    }
}

#[test]
fn a_reader_who_is_behind_pulls_and_searches_again_until_a_rekey() {
    let served = Served::new(None);
    let mut owner = Owner::blind(3, 30);
    owner.publish(&*served).unwrap();
    let mut reader = Reader::of(&mut owner);
    let warm = searcher(&*served);
    reader.search(&warm, &mut owner).unwrap();
    owner.put("7");
    owner.delete("9");
    owner.publish(&*served).unwrap();
    // Whether or not it had searched the commit before.
    for behind in [&warm, &searcher(&*served)] {
        let error = reader.search(behind, &mut owner).unwrap_err();
        assert!(matches!(error, ClientError::Behind { .. }), "{error}");
    }
    reader.pull(&served, &mut owner).unwrap();
    reader.search(&warm, &mut owner).unwrap();

    owner.rekey();
    owner.publish(&*served).unwrap();
    search(&mut owner, &served).unwrap();
    for revoked in [&warm, &searcher(&*served)] {
        let error = reader.search(revoked, &mut owner).unwrap_err();
        assert!(matches!(error, ClientError::Revoked { .. }), "{error}");
    }
    let error = reader.pull(&served, &mut owner).unwrap_err();
    assert!(matches!(error, ClientError::Revoked { .. }), "{error}");
    let fresh = Reader::of(&mut owner);
    fresh.search(&warm, &mut owner).unwrap();
}

#[test]
fn an_owner_who_has_not_published_is_told_so() {
    let served = Served::new(None);
    let mut owner = Owner::blind(3, 30);
    let said = |owner: &mut Owner| {
        let error = search(owner, &served).unwrap_err();
        diagnose(collection(owner).position(), &*served, error)
    };
    let error = said(&mut owner);
    assert!(matches!(error, ClientError::Unpublished { .. }), "{error}");
    owner.publish(&*served).unwrap();
    owner.put("new");
    let error = said(&mut owner);
    assert!(matches!(error, ClientError::Unpublished { .. }), "{error}");
}
