//! Documents put, replaced and deleted over several commits, place by place.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::collection::synchronise;

/// What one commit does.
#[derive(Clone, Debug)]
enum Step {
    Put(BTreeSet<usize>, u64, f32),
    Delete(BTreeSet<usize>),
    Stretch(usize, usize),
    Rekey,
    Compact,
}

fn steps() -> impl Strategy<Value = Step> {
    let some = |most| prop::collection::btree_set(0_usize..80, 1..most);
    let length = prop_oneof![Just(1.0_f32), Just(1.7), Just(9.0), Just(1e-3), Just(0.0)];
    prop_oneof![
        4 => (some(30), 1000_u64..1_000_000, length)
            .prop_map(|(ids, seed, length)| Step::Put(ids, seed, length)),
        3 => some(30).prop_map(Step::Delete),
        2 => (0_usize..80, 8_usize..50).prop_map(|(from, count)| Step::Stretch(from, count)),
        1 => Just(Step::Rekey),
        1 => Just(Step::Compact),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_vault_holds_what_a_map_holds_after_every_commit(
        steps in prop::collection::vec(steps(), 1..9),
        cells in prop::sample::select(vec![None, Some(1), Some(3), Some(7)]),
    ) {
        let mut world = World::in_cells(cells);
        world.put((0..50).map(|row| (row, vector(row as u64, 1.0, row % 5 == 0))));
        world.check();
        for step in steps {
            let before = world.collection();
            match step {
                Step::Put(ids, seed, length) => {
                    // Adding zero takes the sign from zeros, by which two of them would differ.
                    let new = |&id: &usize| {
                        let vector = vector(seed + id as u64, length, seed % 2 == 0);
                        (id, vector.into_iter().map(|x| x + 0.0).collect::<Vec<f32>>())
                    };
                    let new: Vec<(usize, Vec<f32>)> = ids.iter().map(new).collect();
                    let held = |id: usize| world.model.get(&name(id));
                    let added = ids.iter().filter(|id| held(**id).is_none()).count();
                    // Two vectors of length zero are one and the same.
                    let differs = |(id, new): &&(usize, Vec<f32>)| {
                        held(*id).is_some_and(|old| old[..] != new[..])
                    };
                    let replaced = new.iter().filter(differs).count();
                    let done = world.put(new.into_iter());
                    prop_assert_eq!((done.added, done.replaced), (added, replaced));
                }
                Step::Delete(ids) => world.delete(ids.into_iter()),
                Step::Stretch(from, count) => world.delete(from..from + count),
                Step::Rekey => {
                    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
                }
                Step::Compact => {
                    let done = compact(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
                    let rows = |cell: u32| world.collection().rows_of(cell);
                    let needed = (0..cells.unwrap_or(1) as u32).map(|c| rows(c).div_ceil(PLACES));
                    prop_assert_eq!(done.blocks, needed.sum::<usize>());
                }
            }
            world.check();
            // One pad hides one content: a tag that stayed is of a block that did not change.
            let after = world.collection();
            for (old, new) in before.blocks().iter().zip(after.blocks()) {
                let same = old.tag.expose() == new.tag.expose();
                prop_assert_eq!(same, old.revision == new.revision);
            }
        }
    }
}

#[test]
fn three_hundred_rows_of_mixed_lengths_are_held_to_the_bit() {
    let mut world = World::empty();
    let length = |row: usize| [0.0, 1e-30, 0.01, 1.0, 37.0, 1e20][row % 6];
    world.put((0..300).map(|row| (row, vector(row as u64, length(row), row % 4 == 0))));
    world.check();
    let collection = world.collection();
    assert_eq!((collection.rows(), collection.blocks().len()), (300, 38));
    assert!((collection.longest() / 1e20 - 1.0).abs() < 1e-6);
    // The first ingest puts rows into places in the order given.
    assert!((0..300).all(|row| collection.id(row) == Some(&name(row))));
    assert!((300..304).all(|place| collection.id(place).is_none()));
}

#[test]
fn new_rows_take_the_free_places_of_the_emptiest_blocks_and_then_new_blocks() {
    let mut world = World::with(24);
    let new = |number: usize| (number, vector(number as u64, 1.0, false));
    let place = |world: &World, number: usize| {
        let collection = world.collection();
        collection.ids().find(|(_, id)| *id == name(number)).map(|(row, _)| row)
    };
    world.delete([1, 9, 12, 14].into_iter());
    assert_eq!(world.collection().blocks().len(), 3);
    world.put([new(100), new(101)].into_iter());
    assert_eq!([100, 101].map(|number| place(&world, number)), [Some(9), Some(12)]);
    // Two free places, in two blocks; then a block of its own.
    world.put((102..106).map(new));
    let places = [102, 103, 104, 105].map(|number| place(&world, number));
    assert_eq!(places, [Some(1), Some(14), Some(24), Some(25)]);
    assert_eq!(world.collection().blocks().len(), 4);
    // A replaced document stays where it is, and one that comes back takes any place.
    world.put([(5, vector(77, 1.0, false)), new(1)].into_iter());
    assert_eq!([5, 1].map(|number| place(&world, number)), [Some(5), Some(26)]);
    world.check();
}

#[test]
fn places_freed_by_a_change_are_taken_by_its_own_documents() {
    let mut world = World::with(16);
    let ids: Vec<String> = (8..24).map(name).collect();
    let rows = ids.iter().enumerate();
    let values: Vec<Vec<f32>> = rows.map(|(at, _)| vector(500 + at as u64, 1.0, false)).collect();
    let vectors = VectorSet::new(WIDTH, values.concat()).unwrap();
    let documents = Documents { ids: &ids, vectors: &vectors, sample_queries: None };
    let done = synchronise(&mut world.vault, &documents, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(done, Ingested { added: 8, replaced: 8, deleted: 8, ..Ingested::default() });
    world.model = ids.into_iter().zip(values).collect();
    world.check();
    assert_eq!(world.collection().blocks().len(), 2);
}

#[test]
fn a_change_writes_the_blocks_it_touches_and_nothing_else() {
    let mut world = World::with(80);
    let revision = world.vault.head().unwrap().generation;
    let slots = |journal| {
        let (block, head) = ([Slot::Places(4)], [Slot::Blind]);
        let owners = [Slot::History(0), Slot::Journal(journal), Slot::Vectors(4)];
        [&owners[..], &head, &block].concat()
    };
    let before = world.root();
    world.put([(35, vector(1, 1.0, false))].into_iter());
    assert_eq!(world.changed(&before), slots(revision as u32 + 1));
    let before = world.root();
    world.delete([36].into_iter());
    assert_eq!(world.changed(&before), slots(revision as u32 + 2));
    let before = world.root();
    world.put([(300, vector(2, 1.0, false))].into_iter());
    assert_eq!(world.changed(&before), slots(revision as u32 + 3));
    let collection = world.collection();
    assert_eq!(collection.id(36), Some(&*name(300)));
    assert_eq!(collection.blocks()[4].revision, revision + 3);
    assert_eq!(collection.block_name(4).revision, revision + 3);
    assert_eq!(collection.blocks()[5].revision, revision);
    world.check();
}

#[test]
fn the_same_documents_again_write_nothing() {
    let mut world = World::with(40);
    let file = world.vault.directory().join("vault.sqlite");
    let (head, bytes) = (world.vault.head().unwrap(), std::fs::read(&file).unwrap());
    for some in [0..1, 0..40, 7..23] {
        let count = some.len();
        let done = world.put(some.map(|row| (row, vector(row as u64, 1.0, row % 5 == 0))));
        assert_eq!((done.added, done.replaced, done.unchanged), (0, 0, count));
    }
    assert_eq!(world.vault.head().unwrap(), head);
    assert!(std::fs::read(&file).unwrap() == bytes, "the database was written to");
}

#[test]
fn a_row_that_outgrows_the_grid_makes_another_and_a_shorter_one_does_not() {
    let mut world = World::with(40);
    let (first, tags) = (world.collection(), world.tags());
    // Half as long again: the grid bears it, and one block changes.
    world.put([(3, vector(1, 1.5, false))].into_iter());
    let longer = world.collection();
    assert_eq!(longer.grid(), first.grid());
    assert!((longer.longest() - 1.5).abs() < 1e-6);
    assert!(world.tags()[0] != tags[0] && world.tags()[1..] == tags[1..]);
    world.check();
    // More than twice as long as it was made for: every block is tagged anew, and vectors stay.
    let before = world.root();
    world.put([(3, vector(2, 2.5, false))].into_iter());
    let outgrown = world.collection();
    assert!(outgrown.grid().scale() < first.grid().scale() / 2.4);
    assert!((outgrown.longest() - 2.5).abs() < 1e-6);
    assert!(world.tags().iter().zip(&tags).all(|(new, old)| new != old));
    let revision = outgrown.revision().0;
    assert!(outgrown.blocks().iter().all(|block| block.revision == revision));
    let vectors = |slot: &Slot| matches!(slot, Slot::Vectors(_));
    let written: Vec<Slot> = world.changed(&before).into_iter().filter(vectors).collect();
    assert_eq!(written, [Slot::Vectors(0)]);
    world.check();
    // What was longest may go: the bound stays until everything is written anew.
    world.delete([3].into_iter());
    assert_eq!(world.collection().longest(), outgrown.longest());
    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    assert!((world.collection().longest() - 1.0).abs() < 1e-3);
    world.check();
}

#[test]
fn rows_of_length_zero_count_as_one() {
    let mut world = World::empty();
    world.put((0..3).map(|row| (row, vec![0.0; WIDTH])));
    assert_eq!(world.collection().longest(), 1.0);
    world.check();
    world.put([(7, vector(1, 50.0, false))].into_iter());
    assert!((world.collection().longest() - 50.0).abs() < 1e-4);
    world.check();
}

#[test]
fn a_block_without_rows_stays_and_the_last_document_cannot_go() {
    let mut world = World::with(24);
    world.delete(8..16);
    let collection = world.collection();
    assert_eq!((collection.blocks().len(), collection.blocks()[1].rows()), (3, 0));
    world.check();
    world.delete(0..24);
    assert_eq!(world.model.len(), 16);
    world.check();
}

#[test]
fn vectors_of_another_width_and_bad_ids_change_nothing() {
    let mut world = World::with(16);
    let head = world.vault.head().unwrap();
    let narrow = VectorSet::new(WIDTH - 1, vec![0.5; WIDTH - 1]).unwrap();
    let fitting = VectorSet::new(WIDTH, vec![0.5; WIDTH]).unwrap();
    for (id, vectors) in [("new", &narrow), ("", &fitting)] {
        let ids = [id.to_owned()];
        let documents = Documents { ids: &ids, vectors, sample_queries: None };
        assert!(ingest(&mut world.vault, &documents, UNWATCHED, &mut world.rng).is_err());
    }
    assert_eq!(world.vault.head().unwrap(), head);
    world.check();
}

#[test]
fn the_first_documents_decide_how_wide_tiles_are_unless_the_owner_did() {
    let directory = tempfile::tempdir().unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    for (at, tile) in [Choice::Auto, Choice::Fixed(16)].into_iter().enumerate() {
        let settings = Settings { tile, ..Settings::blind() };
        let path = directory.path().join(at.to_string());
        let mut vault = create_vault(&path, &unlock(), cost(), &settings, &mut rng).unwrap();
        let (ids, vectors) = ([name(0)], VectorSet::new(WIDTH, vector(1, 1.0, true)).unwrap());
        let documents = Documents { ids: &ids, vectors: &vectors, sample_queries: None };
        ingest(&mut vault, &documents, UNWATCHED, &mut rng).unwrap();
        let shape = *BlindCollection::open(&vault).unwrap().shape();
        assert_eq!(shape, settings.shape_for(1, WIDTH).unwrap());
        verify_vault(&vault, UNWATCHED).unwrap();
    }
}
