//! Records between client and server: fetched as they were set, and by nobody who lies unnoticed.

use std::collections::BTreeMap;

use shard_client::remote::{PublishOptions, publish, pull};
use shard_client::vault::KdfCost;
use shard_client::{
    BlindCollection, BlindSearcher, ClientError, FetchWay, Hints, Record, Transport, UNWATCHED,
    export_query_vault, set_records, stored_documents, stored_records,
};
use shard_protocol::{BlobName, CollectionName, MessageKind};

use crate::blind::{collection, searcher};
use crate::blind_lies::{Liar, add, published_in_cells};
use crate::blind_publish::change;
use crate::support::Served;
use crate::vaults::{Owner, unlock};

type Model = BTreeMap<String, Vec<u8>>;

fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + seed * 7 + at / 251) as u8).collect()
}

fn set(owner: &mut Owner, model: &mut Model, given: &[(&str, usize)]) {
    let record = |&(id, length): &(&str, usize)| Record {
        id: id.to_owned(),
        bytes: bytes(id.len() + length, length),
    };
    let given: Vec<Record> = given.iter().map(record).collect();
    model.extend(given.iter().map(|record| (record.id.clone(), record.bytes.clone())));
    set_records(&mut owner.vault, given, &mut owner.rng).unwrap();
}

fn fetch<T: Transport<Error: Into<ClientError>>>(
    transport: T,
    collection: &BlindCollection,
    ids: &[&str],
    way: FetchWay,
) -> Result<Vec<Option<Vec<u8>>>, ClientError> {
    Ok(searcher(transport).fetch(collection, ids, way)?.records)
}

/// Both ways give the records of the model.
fn assert_fetched(served: &Served, collection: &BlindCollection, ids: &[&str], model: &Model) {
    let expected: Vec<Option<Vec<u8>>> = ids.iter().map(|id| model.get(*id).cloned()).collect();
    for way in [FetchWay::Private, FetchWay::Direct] {
        assert!(fetch(served, collection, ids, way).unwrap() == expected, "{way:?}");
    }
}

/// The vector of a document.
fn stored(owner: &Owner, id: &str) -> Vec<f32> {
    let (ids, vectors) = stored_documents(&owner.vault).unwrap();
    vectors.row(ids.iter().position(|held| held == id).unwrap()).to_vec()
}

fn names(served: &Served, prefix: &str) -> Vec<BlobName> {
    let all = served.rows().blobs(&CollectionName::default(), None, 10_000).unwrap();
    let names = all.into_iter().map(|(name, _)| name);
    names.filter(|name| name.as_str().starts_with(prefix)).collect()
}

#[test]
fn records_are_fetched_as_they_were_set_by_owners_and_readers() {
    let (served, mut owner, mut model) = (Served::new(None), Owner::blind(3, 38), Model::new());
    set(&mut owner, &mut model, &[("1", 1), ("5", 1024), ("7", 9000), ("20", 3)]);
    owner.publish(&*served).unwrap();
    let ids = ["7", "1", "2", "20", "5", "1"];
    assert_fetched(&served, &collection(&owner), &ids, &model);
    let directory = owner.directory.path().join("reader");
    let cost = KdfCost::new(8, 1, 1).unwrap();
    let mut reader =
        export_query_vault(&owner.vault, &directory, &unlock(), cost, &mut owner.rng).unwrap();
    let opened = BlindCollection::open(&reader).unwrap();
    assert_fetched(&served, &opened, &ids, &model);
    assert!(matches!(
        fetch(&*served, &opened, &["1", "x"], FetchWay::Private),
        Err(ClientError::NoSuchDocuments(ids)) if ids == ["x"]
    ));
    // Changed, deleted, published and swept.
    set(&mut owner, &mut model, &[("5", 50), ("6", 700)]);
    owner.delete("20");
    owner.publish(&*served).unwrap();
    assert_eq!((names(&served, "page.").len(), names(&served, "record-hint.").len()), (1, 1));
    assert_eq!(names(&served, "records.").len(), 1);
    let refused = fetch(&*served, &opened, &["5"], FetchWay::Private);
    assert!(matches!(refused, Err(ClientError::Outdated { .. })), "{refused:?}");
    let refused = fetch(&*served, &opened, &["5"], FetchWay::Direct);
    assert!(matches!(refused, Err(ClientError::Outdated { .. })), "{refused:?}");
    pull(&mut reader, &*served, UNWATCHED, &mut owner.rng).unwrap();
    let opened = BlindCollection::open(&reader).unwrap();
    assert_fetched(&served, &opened, &["5", "6", "7", "1"], &model);
    served.restart();
    owner.rekey();
    owner.publish(&*served).unwrap();
    assert_fetched(&served, &collection(&owner), &["5", "6", "7", "1"], &model);
}

#[test]
fn a_fetch_shows_how_many_slots_and_nothing_else() {
    let (served, mut owner, mut model) = (Served::new(None), Owner::blind(3, 38), Model::new());
    set(&mut owner, &mut model, &[("1", 1), ("5", 1024), ("7", 9000), ("20", 3)]);
    owner.publish(&*served).unwrap();
    let (collection, searcher) = (collection(&owner), searcher(&*served));
    searcher.prepare_fetch(&collection, UNWATCHED).unwrap();
    served.take_seen();
    let costs: Vec<_> = ["1", "5", "20"]
        .iter()
        .map(|id| searcher.fetch(&collection, &[id], FetchWay::Private).unwrap().cost)
        .collect();
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
    assert_eq!(served.take_seen(), [MessageKind::RecordQuery; 3]);
    let nine = searcher.fetch(&collection, &["7"], FetchWay::Private).unwrap().cost;
    assert_eq!((nine.slots, nine.messages, nine.bytes_once), (9, 2, 0));
    let direct = searcher.fetch(&collection, &["7", "1"], FetchWay::Direct).unwrap().cost;
    assert_eq!((direct.messages, direct.bytes_once), (1, 0));
    assert!(direct.bytes_up < 100 && direct.bytes_down < 40_000, "{direct:?}");
}

#[test]
fn hints_of_records_are_fetched_once_and_kept() {
    let (served, mut owner, mut model) = (Served::new(None), Owner::blind(3, 20), Model::new());
    set(&mut owner, &mut model, &[("1", 10)]);
    owner.publish(&*served).unwrap();
    let collection = collection(&owner);
    let directory = tempfile::tempdir().unwrap();
    for expected in [true, false] {
        let searcher = BlindSearcher::new(&*served, Hints::kept_in(directory.path()).unwrap());
        assert_eq!(searcher.missing_fetch_bytes(&collection) > 0, expected);
        let cost = searcher.fetch(&collection, &["1"], FetchWay::Private).unwrap().cost;
        assert_eq!(cost.bytes_once > 0, expected);
    }
}

/// Whoever is asked for, one error.
fn assert_noticed(served: &Served, owner: &Owner, what: &str) {
    for id in ["1", "5", "7"] {
        let found = fetch(served, &collection(owner), &[id], FetchWay::Private);
        assert!(matches!(found, Err(ClientError::Forged)), "{what}, asked for {id}");
    }
}

#[test]
fn a_lie_about_anything_is_noticed_whichever_record_is_fetched() {
    let (served, mut owner, mut model) = (Served::new(None), Owner::blind(3, 38), Model::new());
    set(&mut owner, &mut model, &[("1", 1), ("5", 1024), ("7", 40_000), ("20", 3)]);
    owner.publish(&*served).unwrap();
    let all = CollectionName::default();
    let blob = |name: &BlobName| served.rows().blob(&all, name).unwrap();
    let (pages, hints) = (names(&served, "page."), names(&served, "record-hint."));
    let old: Vec<Vec<u8>> = pages.iter().chain(&hints).map(blob).collect();
    // A bit of a slot that nobody asks for, in any page.
    for page in &pages {
        let sound = blob(page);
        change(&served, page, |bytes| bytes[31 * 1068 + 500] ^= 1);
        served.restart();
        assert_noticed(&served, &owner, "a changed slot");
        change(&served, page, |bytes| bytes.copy_from_slice(&sound));
    }
    // Two slots exchanged.
    change(&served, &pages[0], |bytes| {
        let (one, two) = bytes.split_at_mut(1068);
        one.swap_with_slice(&mut two[1068..2136]);
    });
    served.restart();
    assert_noticed(&served, &owner, "two slots exchanged");
    change(&served, &pages[0], |bytes| bytes.copy_from_slice(&old[0]));
    // A number of the answer, moved by a word.
    let liar = Liar::new(&served, MessageKind::BlindAnswer, |mut message| {
        let at = message.len() - 3 * 100;
        add(&mut message[at..], 0, 256);
        message
    });
    let found = fetch(&liar, &collection(&owner), &["1"], FetchWay::Private);
    assert!(matches!(found, Err(ClientError::Forged)));
    // A hint of other bytes.
    change(&served, &hints[0], |bytes| bytes[70] ^= 1);
    assert_noticed(&served, &owner, "a changed hint");
    change(&served, &hints[0], |bytes| bytes.copy_from_slice(&old[pages.len()]));
    served.restart();
    assert!(fetch(&*served, &collection(&owner), &["1"], FetchWay::Private).is_ok());
    // Pages and hints of before, in place of those of now.
    set(&mut owner, &mut model, &[("20", 500)]);
    owner.publish(&*served).unwrap();
    let now = names(&served, "page.").into_iter().find(|name| !pages.contains(name)).unwrap();
    let (stale_page, fresh_page) =
        (pages.iter().position(|name| !names(&served, "page.").contains(name)), blob(&now));
    change(&served, &now, |bytes| bytes.copy_from_slice(&old[stale_page.unwrap()]));
    served.restart();
    assert_noticed(&served, &owner, "a stale page");
    let found = fetch(&*served, &collection(&owner), &["20"], FetchWay::Direct);
    assert!(matches!(found, Err(ClientError::Forged)), "a stale page, by name");
    change(&served, &now, |bytes| bytes.copy_from_slice(&fresh_page));
    served.restart();
    let hint = names(&served, "record-hint.").remove(0);
    change(&served, &hint, |bytes| bytes.copy_from_slice(&old[pages.len()]));
    assert_noticed(&served, &owner, "a stale hint");
}

/// Else a server that changes half of the slots of a page would learn in which half the wanted one is.
#[test]
fn a_changed_slot_that_nobody_asked_for_is_noticed_in_a_page_that_was() {
    let (served, mut owner, mut model) = (Served::new(None), Owner::blind(3, 38), Model::new());
    set(&mut owner, &mut model, &[("1", 1), ("5", 1024), ("7", 9000)]);
    owner.publish(&*served).unwrap();
    let (collection, page) = (collection(&owner), names(&served, "page.").remove(0));
    let direct = |id| fetch(&*served, &collection, &[id], FetchWay::Direct);
    // Of the 32 slots 11 are used.
    for slot in [0, 1, 5, 10, 11, 31] {
        change(&served, &page, |bytes| bytes[slot * 1068 + 500] ^= 1);
        for id in ["1", "5", "7"] {
            assert!(matches!(direct(id), Err(ClientError::Forged)), "slot {slot}, asked for {id}");
        }
        change(&served, &page, |bytes| bytes[slot * 1068 + 500] ^= 1);
    }
    assert_eq!(direct("5").unwrap(), [model.get("5").cloned()]);
}

/// More than 32,768 slots make a second segment, of which the same query asks something else.
#[test]
fn a_lie_about_one_segment_is_noticed_by_whoever_fetches_from_another() {
    let (served, mut owner, mut model) = (Served::new(None), Owner::blind(3, 10), Model::new());
    let long = 16 << 20;
    set(&mut owner, &mut model, &[("1", 900), ("2", long), ("3", long), ("4", 800), ("5", 7)]);
    owner.publish(&*served).unwrap();
    let collection = collection(&owner);
    assert_eq!(names(&served, "record-hint.").len(), 2);
    // Slots 0, 32769 and 32770: the columns 0, 1 and 2 of the first and the second segment.
    assert_fetched(&served, &collection, &["1", "4", "5"], &model);
    let searcher = searcher(&*served);
    searcher.prepare_fetch(&collection, UNWATCHED).unwrap();
    for segment in [0, 1] {
        let liar = Liar::new(&served, MessageKind::BlindAnswer, move |mut message| {
            // After header, count and length, 534 numbers for each segment.
            add(&mut message[16..], segment * 534 + 17, 256);
            message
        });
        for id in ["1", "4", "5"] {
            let found = fetch(&liar, &collection, &[id], FetchWay::Private);
            assert!(matches!(found, Err(ClientError::Forged)), "segment {segment}, {id}");
        }
    }
}

#[test]
fn two_copies_that_changed_records_merge() {
    let (served, mut one, mut model) = (Served::new(None), Owner::blind(3, 20), Model::new());
    set(&mut one, &mut model, &[("1", 10), ("2", 20)]);
    one.publish(&*served).unwrap();
    let mut two = one.copy(9);
    set(&mut one, &mut model, &[("2", 1500), ("3", 30)]);
    one.publish(&*served).unwrap();
    set(&mut two, &mut model, &[("1", 4000), ("4", 40)]);
    two.delete("5");
    let refused = publish(&two.vault, PublishOptions::default(), &*served, UNWATCHED);
    assert!(refused.is_err());
    let pulled = pull(&mut two.vault, &*served, UNWATCHED, &mut two.rng).unwrap();
    assert_eq!((pulled.put_again, pulled.deleted_again), (2, 1));
    two.publish(&*served).unwrap();
    assert_fetched(&served, &collection(&two), &["1", "2", "3", "4"], &model);
    let stored = stored_records(&two.vault).unwrap();
    assert_eq!(stored.len(), 4);
}

/// A record that a document takes along to another cell is not a change of the record.
#[test]
fn a_document_that_moved_to_another_cell_keeps_the_record_of_the_other_copy() {
    for mover_pulls in [true, false] {
        let (served, mut one) = published_in_cells();
        let mut model = Model::new();
        set(&mut one, &mut model, &[("1", 10), ("2", 20)]);
        one.publish(&*served).unwrap();
        let mut two = one.copy(9);
        let cell = |owner: &Owner| {
            let held = collection(owner);
            let block = |number: &u32| held.blocks()[*number as usize].ids();
            let has =
                |cell: &u32| held.blocks_of(*cell).iter().flat_map(block).any(|id| id == Some("1"));
            (0..4).find(has).unwrap()
        };
        let before = cell(&one);
        while cell(&one) == before {
            one.put("1");
        }
        let moved = stored(&one, "1");
        set(&mut two, &mut model, &[("1", 1500)]);
        let (first, second) = if mover_pulls { (&mut two, &mut one) } else { (&mut one, &mut two) };
        first.publish(&*served).unwrap();
        pull(&mut second.vault, &*served, UNWATCHED, &mut second.rng).unwrap();
        second.publish(&*served).unwrap();
        pull(&mut first.vault, &*served, UNWATCHED, &mut first.rng).unwrap();
        for owner in [&one, &two] {
            assert_eq!(stored(owner, "1"), moved, "mover pulls: {mover_pulls}");
            assert_fetched(&served, &collection(owner), &["1", "2"], &model);
        }
    }
}
