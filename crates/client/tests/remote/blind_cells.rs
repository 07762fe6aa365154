//! Blind collections whose blocks are grouped by cell: what is found, what is asked for, what a server that
//! lies about it meets.

use std::sync::Arc;

use shard_client::remote::pull;
use shard_client::vault::KdfCost;
use shard_client::{
    BlindCollection, BlindSearcher, CellCount, ClientError, Filter, Hints, Record, SearchOptions,
    Settings, Transport, UNWATCHED, compact, export_query_vault, set_records,
};
use shard_protocol::{
    BlindAnswer, BlindQuery, BlobName, CollectionName, Limits, MessageKind, message_kind,
};

use crate::blind::{
    PLACES, assert_exact, assert_exact_in, collection, search, search_with, searcher,
};
use crate::blind_lies::{Liar, add, published_in_cells, with_numbers};
use crate::blind_publish::{blobs_of_blocks, change};
use crate::support::Served;
use crate::vaults::{Owner, unlock};

/// Bytes of the answer of a block.
const BLOCK: usize = PLACES * 3;
/// Blocks of checks of a cell.
const CHECKS: usize = 22;

fn probing(probe: usize) -> SearchOptions {
    SearchOptions { top: usize::MAX, probe: Some(probe), ..SearchOptions::default() }
}

#[test]
fn scores_are_inner_products_over_the_asked_cells_for_every_number_of_them() {
    let (served, mut owner) = published_in_cells();
    let (searcher, collection) = (searcher(&*served), collection(&owner));
    let queries = owner.queries(12);
    for row in 0..12 {
        let query = queries.row(row);
        let mut found = 0;
        for probe in 1..=5 {
            let answer = searcher.search(&collection, query, &probing(probe)).unwrap();
            let asked = collection.nearest_cells(query, probe);
            assert_eq!(asked.is_none(), probe >= 4);
            assert_exact_in(&answer, query, &owner, asked.as_deref());
            assert!(answer.hits.len() > found || probe == 5, "more cells, more documents");
            found = answer.hits.len();
        }
    }
}

#[test]
fn a_search_of_all_cells_finds_what_a_collection_without_cells_finds() {
    let (served, mut owner) = published_in_cells();
    let (plain_server, plain) = (Served::new(None), Owner::blind(3, 62));
    plain.publish(&*plain_server).unwrap();
    let queries = owner.queries(10);
    let (one, two) = (searcher(&*served), searcher(&*plain_server));
    for row in 0..10 {
        let query = queries.row(row);
        let answer = one.search(&collection(&owner), query, &probing(4)).unwrap();
        let other = two.search(&collection(&plain), query, &probing(4)).unwrap();
        let ids = |hits: &[shard_client::Hit]| -> Vec<String> {
            hits.iter().map(|hit| hit.id.clone()).collect()
        };
        assert_eq!(ids(&answer.hits), ids(&other.hits));
        for (a, b) in answer.hits.iter().zip(&other.hits) {
            assert!((a.score - b.score).abs() <= answer.error_bound + other.error_bound + 1e-5);
        }
    }
}

/// What was sent, besides: the size of an answer follows the asked cells and nothing else.
#[test]
fn a_search_names_its_cells_unless_it_asks_for_all() {
    let (served, mut owner) = published_in_cells();
    let collection = collection(&owner);
    let asked = std::sync::Mutex::new(Vec::new());
    let watched = Watched { served: &served, asked: &asked };
    let searcher = searcher(watched);
    let queries = owner.queries(8);
    for (row, probe) in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 9), (5, 2)] {
        let query = queries.row(row);
        let answer = searcher.search(&collection, query, &probing(probe)).unwrap();
        let cells = collection.nearest_cells(query, probe);
        assert_eq!(asked.lock().unwrap().pop().unwrap(), cells);
        let cells = cells.unwrap_or_else(|| (0..4).collect());
        let blocks: usize = cells.iter().map(|&cell| collection.blocks_of(cell).len()).sum();
        assert_eq!(answer.cost.blocks, blocks + CHECKS * cells.len());
    }
    // A batch asks query by query, for the cells of each.
    let mut rows = Vec::new();
    let each = |row: usize, answer: shard_client::Answer| {
        assert_exact(&answer, queries.row(row), &owner);
        rows.push(row);
        std::ops::ControlFlow::Continue(())
    };
    let options = SearchOptions { probe: None, ..probing(1) };
    searcher.search_many(&collection, &queries, &options, 1, each).unwrap();
    assert!(rows.into_iter().eq(0..8));
    assert_eq!(asked.lock().unwrap().len(), 8);
}

/// A document that matches may be in any cell.
#[test]
fn a_search_with_a_filter_asks_for_all_cells_unless_told_how_many() {
    let (served, mut owner) = published_in_cells();
    let ids: Vec<String> = collection(&owner).ids().map(|(_, id)| id.to_owned()).collect();
    let record = |id: &String| Record { id: id.clone(), bytes: b"{\"kind\":1}".to_vec() };
    let given = ids.iter().map(record).collect();
    set_records(&mut owner.vault, given, &mut owner.rng).unwrap();
    owner.publish(&*served).unwrap();
    let held = collection(&owner);
    let asked = std::sync::Mutex::new(Vec::new());
    let searcher = searcher(Watched { served: &served, asked: &asked });
    let filter = Some(Filter::Exists { field: "kind".to_owned() });
    let options = SearchOptions { probe: None, filter, ..probing(1) };
    let queries = owner.queries(3);
    let query = queries.row(0);
    let answer = searcher.search(&held, query, &options).unwrap();
    assert_eq!(answer.hits.len(), ids.len());
    assert_exact_in(&answer, query, &owner, None);
    assert_eq!(asked.lock().unwrap().pop().unwrap(), None);
    let some = SearchOptions { probe: Some(2), ..options.clone() };
    let answer = searcher.search(&held, query, &some).unwrap();
    assert!(answer.hits.len() < ids.len());
    assert_eq!(asked.lock().unwrap().pop().unwrap(), held.nearest_cells(query, 2));
    let each = |_: usize, answer: shard_client::Answer| {
        assert_eq!(answer.hits.len(), ids.len());
        std::ops::ControlFlow::Continue(())
    };
    searcher.search_many(&held, &queries, &options, 1, each).unwrap();
    assert_eq!(asked.lock().unwrap().split_off(0), [None], "one message");
}

/// A cell that lost its documents keeps its blocks until a compaction, and is asked for like the others.
#[test]
fn a_cell_whose_documents_are_gone_is_asked_for_while_it_has_blocks() {
    let (served, mut owner) = published_in_cells();
    let held = collection(&owner);
    let blocks = held.blocks_of(0).iter().map(|&block| &held.blocks()[block as usize]);
    let gone: Vec<String> =
        blocks.flat_map(|block| block.ids().flatten()).map(str::to_owned).collect();
    gone.iter().for_each(|id| owner.delete(id));
    owner.publish(&*served).unwrap();
    let held = collection(&owner);
    let asks = |held: &BlindCollection, query: &[f32]| held.nearest_cells(query, 3);
    assert_eq!((held.rows_of(0), held.blocks_of(0).is_empty()), (0, false));
    let queries = owner.queries(40);
    let mut rows = (0..40).map(|row| queries.row(row));
    let query = rows.find(|query| asks(&held, query).unwrap().contains(&0)).unwrap();
    let answer = searcher(&*served).search(&held, query, &probing(3)).unwrap();
    assert_exact_in(&answer, query, &owner, asks(&held, query).as_deref());
    compact(&mut owner.vault, UNWATCHED, &mut owner.rng).unwrap();
    assert_eq!(asks(&collection(&owner), query), None, "three are left");
}

/// Writes down which cells queries name.
struct Watched<'a> {
    served: &'a Served,
    asked: &'a std::sync::Mutex<Vec<Option<Vec<u32>>>>,
}

impl Transport for Watched<'_> {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        if message_kind(&message)? == MessageKind::BlindQuery {
            let query = BlindQuery::decode(&message, &Limits::default())?;
            self.asked.lock().unwrap().push(query.cells().map(<[u32]>::to_vec));
        }
        self.served.exchange(message)
    }
}

#[test]
fn hints_of_a_cell_are_fetched_when_it_is_first_asked_for_and_kept() {
    let (served, mut owner) = published_in_cells();
    let (path, held) = (owner.path(), collection(&owner));
    let searcher = BlindSearcher::new(&*served, Hints::kept_in(&path).unwrap());
    assert_eq!(searcher.missing_bytes(&held), 0, "nothing that every search needs");
    let query = owner.queries(1);
    let whole = Hints::in_memory().missing_bytes(&held);
    let once: Vec<usize> = (1..=4)
        .map(|probe| searcher.search(&held, query.row(0), &probing(probe)).unwrap().cost.bytes_once)
        .collect();
    assert!(once.iter().all(|bytes| *bytes > 0), "{once:?}");
    assert!(once[1..].iter().sum::<usize>() < whole, "{once:?} of {whole}");
    assert_eq!(Hints::kept_in(&path).unwrap().missing_bytes(&held), 0);
    let again = searcher.search(&held, query.row(0), &probing(3)).unwrap();
    assert_eq!(again.cost.bytes_once, 0);
    // After a change, those of the blocks that changed.
    owner.put("3");
    owner.publish(&*served).unwrap();
    let changed = collection(&owner);
    let kept = Hints::kept_in(&path).unwrap();
    assert!((1..=whole / 3).contains(&kept.missing_bytes(&changed)));
    search_with(&searcher, &mut owner).unwrap();
}

/// What lies in which cell changes, and what is published follows.
#[test]
fn changes_that_move_documents_between_cells_are_published_by_what_changed() {
    let (served, mut owner) = published_in_cells();
    let warm = searcher(&*served);
    for round in 0..6 {
        let ids: Vec<String> = (round * 5..round * 5 + 5).map(|n| n.to_string()).collect();
        owner.ingest(&ids);
        if round == 3 {
            (30..50).for_each(|n| owner.delete(&n.to_string()));
        }
        if round == 4 {
            compact(&mut owner.vault, UNWATCHED, &mut owner.rng).unwrap();
        }
        owner.publish(&*served).unwrap();
        for _ in 0..4 {
            search_with(&warm, &mut owner).unwrap();
            search(&mut owner, &served).unwrap();
        }
        served.restart();
        search_with(&warm, &mut owner).unwrap();
        let collection = collection(&owner);
        let query = owner.queries(1);
        let all = warm.search(&collection, query.row(0), &probing(4)).unwrap();
        assert_exact_in(&all, query.row(0), &owner, None);
    }
    owner.rekey();
    owner.publish(&*served).unwrap();
    search_with(&warm, &mut owner).unwrap();
}

/// A cell in which nothing changed keeps its checks: nothing of it is fetched or sent.
#[test]
fn a_publish_sends_the_checks_of_the_cells_that_changed() {
    let (served, mut owner) = published_in_cells();
    let all = CollectionName::default();
    let blocks = |served: &Served| -> std::collections::BTreeSet<BlobName> {
        let names = blobs_of_blocks(served).into_iter();
        names.filter(|name| name.as_str().starts_with("block.")).collect()
    };
    let (before, held) = (blocks(&served), collection(&owner));
    assert_eq!(before.len(), held.blocks().len() + 4 * CHECKS);
    owner.delete("3");
    owner.publish(&*served).unwrap();
    let after = blocks(&served);
    assert_eq!(after.len(), before.len());
    assert_eq!(after.difference(&before).count(), 1 + CHECKS, "a block and the checks of its cell");
    assert!(served.rows().blob(&all, after.first().unwrap()).is_ok());
    search(&mut owner, &served).unwrap();
}

#[test]
fn a_reader_searches_with_the_centroids_of_the_export() {
    let (served, mut owner) = published_in_cells();
    let directory = tempfile::tempdir().unwrap();
    let (path, cost) = (directory.path().join("vault"), KdfCost::default());
    let mut reader =
        export_query_vault(&owner.vault, &path, &unlock(), cost, &mut owner.rng).unwrap();
    let with = searcher(&*served);
    for round in 0..2 {
        let held = BlindCollection::open(&reader).unwrap();
        assert_eq!(held.cells(), collection(&owner).cells());
        let query = owner.queries(1);
        let answer = with.search(&held, query.row(0), &probing(2)).unwrap();
        assert_exact_in(
            &answer,
            query.row(0),
            &owner,
            held.nearest_cells(query.row(0), 2).as_deref(),
        );
        if round == 0 {
            owner.put("5");
            owner.publish(&*served).unwrap();
            pull(&mut reader, &*served, UNWATCHED, &mut owner.rng).unwrap();
        }
    }
}

/// Answers from the whole collection, block by block.
struct Relay<'a, L: Fn(&mut Picking<'_>) + Send + Sync> {
    served: &'a Served,
    collection: &'a BlindCollection,
    lie: L,
}

/// The blocks of an answer by their numbers in the list.
struct Picking<'a> {
    collection: &'a BlindCollection,
    asked: Vec<u32>,
    picked: Vec<usize>,
}

impl Picking<'_> {
    /// The numbers of a cell's blocks, and of its checks.
    fn of_cell(&self, cell: u32) -> (Vec<usize>, Vec<usize>) {
        let rows = self.collection.blocks_of(cell).iter().map(|&number| number as usize);
        let first = self.collection.blocks().len() + cell as usize * CHECKS;
        (rows.collect(), (first..first + CHECKS).collect())
    }

    fn position(&self, number: usize) -> usize {
        self.picked.iter().position(|picked| *picked == number).unwrap()
    }

    /// A cell that is not asked for.
    fn other(&self) -> u32 {
        (0..4).find(|cell| !self.asked.contains(cell)).unwrap()
    }
}

impl<L: Fn(&mut Picking<'_>) + Send + Sync> Transport for Relay<'_, L> {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        if message_kind(&message)? != MessageKind::BlindQuery {
            return self.served.exchange(message);
        }
        let query = BlindQuery::decode(&message, &Limits::default())?;
        let asked = query.cells().expect("some cells").to_vec();
        // The message without what it says of cells is the one that asks for all.
        let whole = message[..message.len() - 4 - 4 * asked.len()].to_vec();
        let blocks = self.collection.blocks().len() + 4 * CHECKS;
        let answer = self.served.exchange(whole)?;
        let answer = BlindAnswer::decode(&answer, 1, blocks * BLOCK, &Limits::default())?;
        let mut picking = Picking { collection: self.collection, asked, picked: Vec::new() };
        let cells: Vec<_> = picking.asked.iter().map(|&cell| picking.of_cell(cell)).collect();
        picking.picked = cells.iter().flat_map(|(rows, _)| rows).copied().collect();
        picking.picked.sort_unstable();
        picking.picked.extend(cells.iter().flat_map(|(_, checks)| checks));
        (self.lie)(&mut picking);
        let bytes =
            picking.picked.iter().flat_map(|&at| &answer.answers()[0][at * BLOCK..][..BLOCK]);
        Ok(BlindAnswer::new(vec![bytes.copied().collect()]).encode())
    }
}

#[test]
fn an_answer_from_blocks_of_other_cells_is_an_alarm() {
    let (served, mut owner) = published_in_cells();
    let held = collection(&owner);
    type Lie = (&'static str, bool, fn(&mut Picking<'_>));
    let lies: [Lie; 6] = [
        ("nothing", false, |_| {}),
        ("a block of another cell", true, |picking| {
            picking.picked[0] = picking.of_cell(picking.other()).0[0];
        }),
        ("a cell's blocks and checks for another's", true, |picking| {
            let (rows, checks) = picking.of_cell(picking.asked[0]);
            let (other_rows, other_checks) = picking.of_cell(picking.other());
            for (at, row) in rows.iter().enumerate() {
                let position = picking.position(*row);
                picking.picked[position] = other_rows[at % other_rows.len()];
            }
            for (check, other) in checks.iter().zip(other_checks) {
                let position = picking.position(*check);
                picking.picked[position] = other;
            }
        }),
        ("blocks of two asked cells swapped", true, |picking| {
            let [one, two] = [0, 1].map(|at| picking.of_cell(picking.asked[at]).0[0]);
            let (one, two) = (picking.position(one), picking.position(two));
            picking.picked.swap(one, two);
        }),
        ("checks of two asked cells swapped", true, |picking| {
            let [one, two] = [0, 1].map(|at| picking.of_cell(picking.asked[at]).1);
            for (one, two) in one.into_iter().zip(two) {
                let (one, two) = (picking.position(one), picking.position(two));
                picking.picked.swap(one, two);
            }
        }),
        ("a block of a cell twice", true, |picking| {
            let rows = picking.of_cell(picking.asked[0]).0;
            let (first, last) =
                (picking.position(rows[0]), picking.position(*rows.last().unwrap()));
            picking.picked[first] = picking.picked[last];
            if first == last {
                picking.picked[first] = 0;
                picking.picked[first + 1] = 0;
            }
        }),
    ];
    for (name, is_false, lie) in lies {
        let searcher = searcher(Relay { served: &served, collection: &held, lie });
        let outcome = search_with(&searcher, &mut owner);
        match outcome {
            Ok(_) => assert!(!is_false, "{name} passed"),
            Err(error) => {
                assert!(is_false && matches!(error, ClientError::Forged), "{name}: {error}");
            }
        }
    }
}

#[test]
fn a_false_block_is_noticed_by_the_searches_that_ask_for_its_cell_and_by_no_others() {
    let (served, mut owner) = published_in_cells();
    let all = CollectionName::default();
    let old = collection(&owner);
    let holder = (0..old.blocks().len())
        .find(|&block| old.blocks()[block].ids().flatten().any(|id| id == "3"))
        .unwrap();
    let bytes =
        served.rows().blob(&all, &BlobName::block(old.blocks()[holder].file_name())).unwrap();
    owner.delete("3");
    owner.publish(&*served).unwrap();
    let held = collection(&owner);
    let new = BlobName::block(held.blocks()[holder].file_name());
    change(&served, &new, |stored| stored.clone_from(&bytes));
    served.restart();
    let cell = held.blocks()[holder].cell.unwrap();
    let queries = owner.queries(30);
    let (mut alarms, mut passed) = (0, 0);
    for row in 0..30 {
        let query = queries.row(row);
        let outcome = searcher(&*served).search(&held, query, &probing(2));
        if held.nearest_cells(query, 2).unwrap().contains(&cell) {
            assert!(matches!(outcome, Err(ClientError::Forged)));
            alarms += 1;
        } else {
            assert_exact(&outcome.unwrap(), query, &owner);
            passed += 1;
        }
    }
    assert!(alarms > 0 && passed > 0, "{alarms} {passed}");
}

#[test]
fn one_bit_changed_in_anything_stored_is_never_a_wrong_result_of_the_asked_cells() {
    let (served, mut owner) = published_in_cells();
    let query = owner.queries(1);
    let held = collection(&owner);
    let asked = held.nearest_cells(query.row(0), 2).unwrap();
    let used: Vec<BlobName> = asked
        .iter()
        .flat_map(|&cell| held.blocks_of(cell))
        .map(|&block| held.blocks()[block as usize].file_name())
        .flat_map(|name| [BlobName::block(name), BlobName::hint(name)])
        .collect();
    for name in blobs_of_blocks(&served) {
        let length = served.rows().blob(&CollectionName::default(), &name).unwrap().len();
        for at in [20, length / 2, length - 1] {
            let flip = |bytes: &mut Vec<u8>| bytes[at] ^= 1 << (at % 8);
            change(&served, &name, flip);
            served.restart();
            if let Ok(answer) = searcher(&*served).search(&held, query.row(0), &probing(2)) {
                assert!(!used.contains(&name), "{name}");
                assert_exact(&answer, query.row(0), &owner);
            }
            change(&served, &name, flip);
        }
    }
    served.restart();
    search(&mut owner, &served).unwrap();
}

/// An answer with one score moved.
fn one_score(message: Vec<u8>) -> Vec<u8> {
    with_numbers(&message, |answer| add(answer, 7, 1 << 18))
}

#[test]
fn two_alarms_use_up_the_checks_of_the_asked_cells_until_the_owner_publishes() {
    let (served, mut owner) = published_in_cells();
    let held = collection(&owner);
    let liar = Liar::new(&served, MessageKind::BlindAnswer, one_score);
    let kept = || BlindSearcher::new(&liar, Hints::kept_in(&owner.path()).unwrap());
    let with = kept();
    let mut queries = owner.copy(5);
    let one = queries.queries(1);
    let asked = held.nearest_cells(one.row(0), 1).unwrap();
    let elsewhere = queries.queries(200);
    let other = (0..200).map(|row| elsewhere.row(row));
    let other = other.clone().find(|query| held.nearest_cells(query, 1).unwrap() != asked).unwrap();
    for _ in 0..2 {
        let error = with.search(&held, one.row(0), &probing(1)).unwrap_err();
        assert!(matches!(error, ClientError::Forged), "{error}");
    }
    liar.lies(false);
    for searcher in [&with, &kept()] {
        let error = searcher.search(&held, one.row(0), &probing(1)).unwrap_err();
        assert!(matches!(error, ClientError::ChecksRetired), "{error}");
        searcher.search(&held, other, &probing(1)).expect("the checks of another cell are good");
    }
    let published = owner.publish_with_fresh_checks(&*served, false).unwrap();
    assert_eq!((published.uploaded, published.activated), (0, true));
    let held = collection(&owner);
    with.search(&held, one.row(0), &probing(1)).unwrap();
    with.search(&held, other, &probing(4)).unwrap();
}

#[test]
fn cells_that_a_collection_does_not_have_are_refused() {
    let (served, _) = published_in_cells();
    let plain = Served::new(None);
    let without = Owner::blind(3, 20);
    without.publish(&*plain).unwrap();
    let refused = |served: &Arc<Served>, owner: &Owner, cells: &[u32]| {
        let held = collection(owner);
        let shown =
            |commit| shard_protocol::declassify(commit, shard_protocol::Leak::CollectionShape);
        let query = vec![0; held.shape().query_bytes()];
        let epoch = shard_protocol::declassify(held.epoch(), shard_protocol::Leak::CollectionShape);
        let cells = shard_protocol::declassify(cells.to_vec(), shard_protocol::Leak::ActiveCells);
        let message =
            BlindQuery::new(shard_protocol::Table::Rows, epoch, shown(held.commit()), vec![query]);
        let answer = served.exchange(message.of_cells(cells).encode()).unwrap();
        message_kind(&answer).unwrap() == MessageKind::Refusal
    };
    assert!(refused(&plain, &without, &[0]));
    let settings = Settings { cells: CellCount::Cells(4), ..Settings::blind() };
    let owner = Owner::blind_with(settings, 3, 62);
    let served_again = Served::new(None);
    owner.publish(&*served_again).unwrap();
    assert!(!refused(&served_again, &owner, &[0, 3]));
    assert!(refused(&served_again, &owner, &[0, 4]));
    drop(served);
}
