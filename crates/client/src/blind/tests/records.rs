//! Records of documents beside a map of what they must be.

use super::*;
use crate::collection::export_query_vault;
use crate::{MAX_RECORD_BYTES, Record, SLOT_PAYLOAD, set_records, stored_records};

type Model = BTreeMap<String, Vec<u8>>;

fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + seed * 7 + at / 251) as u8).collect()
}

fn set(world: &mut World, model: &mut Model, given: &[(usize, usize)]) -> usize {
    let given: Vec<Record> = given
        .iter()
        .map(|&(number, length)| Record { id: name(number), bytes: bytes(number + length, length) })
        .collect();
    model.extend(given.iter().map(|record| (record.id.clone(), record.bytes.clone())));
    set_records(&mut world.vault, given, &mut world.rng).unwrap()
}

/// The vault is whole and has the records of the model.
fn check(world: &World, model: &Model) {
    world.check();
    let stored = stored_records(&world.vault).unwrap();
    let stored: Model = stored.into_iter().map(|record| (record.id, record.bytes)).collect();
    assert!(stored == *model, "other records");
    assert_eq!(world.collection().records().map_or(0, Records::count), model.len());
}

#[test]
fn records_follow_their_documents_through_every_change() {
    let (mut world, mut model) = (World::with(40), Model::new());
    let lengths = [(0, 1), (7, 1024), (8, 1025), (9, 5000), (39, 40_000)];
    assert_eq!(set(&mut world, &mut model, &lengths), 5);
    check(&world, &model);
    // The same again is no change.
    let generation = world.root().header.generation;
    assert_eq!(set(&mut world, &mut model, &lengths), 0);
    assert_eq!(world.root().header.generation, generation);
    // Another vector keeps the record, another record keeps the vector.
    world.put([(8, vector(800, 1.0, false))].into_iter());
    assert_eq!(set(&mut world, &mut model, &[(9, 300), (10, 2000)]), 2);
    check(&world, &model);
    // Slots of deleted documents are overwritten and used again.
    let slots = world.collection().records().unwrap().slot_count();
    world.delete([39, 0, 7].into_iter());
    ["doc-039", "doc-000", "doc-007"].iter().for_each(|id| drop(model.remove(*id)));
    check(&world, &model);
    assert_eq!(set(&mut world, &mut model, &[(20, 39_000)]), 1);
    assert_eq!(world.collection().records().unwrap().slot_count(), slots);
    check(&world, &model);
    // A place that is freed and filled again has no record.
    world.put([(50, vector(50, 1.0, false)), (51, vector(51, 1.0, false))].into_iter());
    check(&world, &model);
    world.delete([1, 2, 3, 4, 5, 6, 11, 12, 13, 14].into_iter());
    compact(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    check(&world, &model);
    let before = world.collection().records().unwrap().clone();
    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    check(&world, &model);
    assert_ne!(world.collection().records().unwrap(), &before, "sealed by another commit");
}

#[test]
fn a_change_writes_the_pages_it_touches_and_no_others() {
    let (mut world, mut model) = (World::with(40), Model::new());
    let all: Vec<(usize, usize)> = (0..40).map(|number| (number, 3 * SLOT_PAYLOAD)).collect();
    set(&mut world, &mut model, &all);
    let pages = world.collection().records().unwrap().page_count();
    assert_eq!(pages, 120_usize.div_ceil(32));
    let before = world.root();
    assert_eq!(set(&mut world, &mut model, &[(0, 100)]), 1);
    let changed = world.changed(&before);
    let page = |slot: &&Slot| matches!(slot, Slot::RecordPage(_));
    assert_eq!(changed.iter().filter(page).collect::<Vec<_>>(), [&Slot::RecordPage(0)]);
    let block = |slot: &&Slot| matches!(slot, Slot::RecordPlaces(_));
    assert_eq!(changed.iter().filter(block).count(), 1);
    assert!(!changed.iter().any(|slot| matches!(slot, Slot::Places(_) | Slot::Vectors(_))));
    check(&world, &model);
}

#[test]
fn what_cannot_be_a_record_is_refused_and_changes_nothing() {
    let mut world = World::with(10);
    let generation = world.root().header.generation;
    let record = |id: &str, length: usize| Record { id: id.to_owned(), bytes: vec![1; length] };
    let mut refused = |records: Vec<Record>| {
        set_records(&mut world.vault, records, &mut world.rng).unwrap_err().to_string()
    };
    assert!(refused(vec![record("doc-001", 5), record("nobody", 5)]).contains("\"nobody\""));
    assert!(refused(vec![record("doc-001", 0)]).contains("doc-001"));
    assert!(refused(vec![record("doc-001", MAX_RECORD_BYTES + 1)]).contains("16777217"));
    assert!(refused(vec![record("doc-001", 1), record("doc-001", 2)]).contains("doc-001"));
    assert_eq!(world.root().header.generation, generation);
    check(&world, &Model::new());
}

#[test]
fn readers_know_the_slots_and_have_no_pages() {
    let (mut world, mut model) = (World::with(20), Model::new());
    set(&mut world, &mut model, &[(3, 10), (4, 2000)]);
    let directory = world.directory.path().join("query");
    let vault =
        export_query_vault(&world.vault, &directory, &unlock(), cost(), &mut world.rng).unwrap();
    let (owner, reader) = (world.collection(), BlindCollection::open(&vault).unwrap());
    assert_eq!(reader.records(), owner.records());
    assert!(stored_records(&vault).is_err());
    assert!(vault.snapshot().unwrap().read(Slot::RecordPage(0)).is_err());
    verify_vault(&vault, UNWATCHED).unwrap();
}

#[test]
fn damage_of_records_is_found() {
    let (mut world, mut model) = (World::with(20), Model::new());
    set(&mut world, &mut model, &[(3, 10), (4, 2000)]);
    type Damage = fn(&mut crate::vault::Transaction<'_>, &mut ChaCha20Rng);
    let damages: [(&str, Damage); 5] = [
        ("a page that is gone", |transaction, _| transaction.remove(Slot::RecordPage(0)).unwrap()),
        ("a page of other bytes", |transaction, rng| {
            let mut page = transaction.before().read(Slot::RecordPage(0)).unwrap().to_vec();
            page[9000] ^= 1;
            transaction.put(Slot::RecordPage(0), &page, rng).unwrap();
        }),
        ("a page that nothing lists", |transaction, rng| {
            let page = transaction.before().read(Slot::RecordPage(0)).unwrap().to_vec();
            transaction.put(Slot::RecordPage(1), &page, rng).unwrap();
        }),
        ("places that are gone", |transaction, _| {
            transaction.remove(Slot::RecordPlaces(0)).unwrap();
        }),
        ("a head that is gone", |transaction, _| transaction.remove(Slot::Records).unwrap()),
    ];
    for (what, damage) in damages {
        let mut copy = world.copy(8);
        let mut transaction = copy.vault.transaction(&mut copy.rng).unwrap();
        damage(&mut transaction, &mut world.rng);
        transaction.commit(&mut copy.rng).unwrap();
        assert!(verify_vault(&copy.vault, UNWATCHED).is_err(), "{what}");
    }
    check(&world, &model);
}
