use super::super::canaries::{Canaries, FEWEST};
use super::*;

/// The ids of all canaries.
fn chosen(world: &World) -> HashSet<String> {
    let collection = world.collection();
    let index = collection.index();
    index.canary_rows().map(|row| index.id(row).to_owned()).collect()
}

/// Bytes of the stored value.
fn length(world: &World) -> u32 {
    world.root().entries[&Slot::Canaries].length
}

#[test]
fn a_new_epoch_chooses_other_documents_and_stores_as_many_rows() {
    for cells in [CellCount::Cells(4), CellCount::Micro] {
        let mut world = World::with(cells, 400);
        let first = chosen(&world);
        rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
        let second = chosen(&world);
        refit(&mut world.vault, None, None, UNWATCHED, &mut world.rng).unwrap();
        let third = chosen(&world);
        // Two of one hundred each have about 25 in common, of four hundred.
        for (one, other) in [(&first, &second), (&second, &third)] {
            let common = one.intersection(other).count();
            assert!(common < one.len() / 2, "{common} of {} and {}", one.len(), other.len());
        }
        assert_eq!(world.handles().len(), 400, "no row but those of documents");
        world.check();
    }
}

#[test]
fn the_same_query_names_the_same_documents_whichever_are_canaries() {
    let mut world = World::with(CellCount::Cells(4), 400);
    let queries = vectors(&mut world.rng, 20, WIDTH);
    let named = |world: &World| -> Vec<HashSet<String>> {
        let collection = world.collection();
        let index = collection.index();
        let id = |handle: RowHandle| {
            let row = index.handles().iter().position(|own| *own == handle);
            index.id(row.expect("a row of the collection") as u32).to_owned()
        };
        let asked = (0..queries.rows()).map(|row| {
            let asked = collection.asked_for(queries.row(row), &SearchOptions::default()).unwrap();
            assert_eq!(asked.len(), 20, "as many as the settings say");
            asked.into_iter().map(id).collect()
        });
        asked.collect()
    };
    let (before, first) = (named(&world), chosen(&world));
    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    assert_ne!(chosen(&world), first);
    assert_eq!(named(&world), before);
}

#[test]
fn canaries_come_and_go_with_their_documents() {
    let mut world = World::with(CellCount::Cells(4), 400);
    let first = chosen(&world);
    let share = first.len() as f64 / 400.0;
    assert!((0.1..0.4).contains(&share), "{share} of all documents");
    let more = vectors(&mut world.rng, 400, WIDTH);
    world.ingest(&ids(400..800), &more);
    let grown = chosen(&world);
    assert!(first.is_subset(&grown), "who is chosen stays so within an epoch");
    let came = grown.len() - first.len();
    assert!((share - came as f64 / 400.0).abs() < 0.12, "{came} of 400 for a share of {share}");
    world.delete(&ids(0..200).iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let gone: HashSet<String> = ids(0..200).into_iter().collect();
    assert_eq!(chosen(&world), &grown - &gone);
    // Another vector under a known id is another row, and chosen by that one's name.
    let others = vectors(&mut world.rng, 600, WIDTH);
    world.ingest(&ids(200..800), &others);
    let common = chosen(&world).intersection(&grown).count();
    assert!(common < grown.len() / 2, "{common} of {}", grown.len());
    world.check();
}

#[test]
fn a_small_collection_has_as_many_canaries_as_it_can() {
    let mut world = World::with(CellCount::Cells(2), 20);
    assert_eq!(chosen(&world).len(), 20);
    for (last, expected) in [(30, 30), (40, FEWEST)] {
        let more = vectors(&mut world.rng, last - 20, WIDTH);
        world.ingest(&ids(20..last), &more);
        assert_eq!(chosen(&world).len(), expected);
        world.check();
    }
    // Where one goes, another takes its place.
    let canary = chosen(&world).into_iter().next().unwrap();
    world.delete(&[&canary]).unwrap();
    assert_eq!(chosen(&world).len(), FEWEST);
    world.check();
}

#[test]
fn the_length_of_the_value_follows_from_the_number_of_documents() {
    let mut world = World::with(CellCount::Cells(4), 400);
    let first = length(&world);
    let mut numbers = HashSet::new();
    for _ in 0..20 {
        let others = vectors(&mut world.rng, 400, WIDTH);
        world.ingest(&ids(0..400), &others);
        assert_eq!(length(&world), first);
        numbers.insert(chosen(&world).len());
    }
    assert!(numbers.len() > 5, "{numbers:?} canaries");
    // Twice as many documents have more room.
    let more = vectors(&mut world.rng, 400, WIDTH);
    world.ingest(&ids(400..800), &more);
    assert!(length(&world) > first);
}

#[test]
fn the_length_of_the_value_does_not_say_whether_a_document_of_single_precision_is_a_canary() {
    let mut world = World::empty(CellCount::Cells(2));
    let halves = |rng: &mut ChaCha20Rng, rows| {
        let values = vectors(rng, rows, WIDTH).into_values().into_iter();
        let values = values.map(|v| half::f16::from_f32(v).to_f32()).collect();
        VectorSet::new(WIDTH, values).unwrap()
    };
    let documents = halves(&mut world.rng, 100);
    world.ingest(&ids(0..100), &documents);
    let in_half = length(&world);
    let another = halves(&mut world.rng, 1);
    world.ingest(&ids(7..8), &another);
    assert_eq!(length(&world), in_half);
    // One of single precision that is no canary makes the value as long as one that is.
    let (mut lengths, mut kinds) = (HashSet::new(), HashSet::new());
    for _ in 0..40 {
        let single = vectors(&mut world.rng, 1, WIDTH);
        world.ingest(&ids(7..8), &single);
        kinds.insert(chosen(&world).contains("doc-7"));
        lengths.insert(length(&world));
    }
    assert_eq!((kinds.len(), lengths.len()), (2, 1));
    assert!(lengths.into_iter().all(|length| length > in_half));
    // A new epoch looks at the documents that there are.
    world.ingest(&ids(7..8), &another);
    assert!(!world.collection().index().all_half());
    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    assert!(world.collection().index().all_half());
    world.check();
}

#[test]
fn canaries_that_are_not_the_keys_choice_or_not_their_documents_are_found() {
    let mut world = World::with(CellCount::Cells(2), 100);
    let collection = world.collection();
    let index = collection.index();
    let rows: Vec<u32> = index.canary_rows().collect();
    let vectors = stored_vectors(&world.vault).unwrap();
    let other = (0..100).find(|row| !index.is_canary(*row)).unwrap();
    let value = |rows: &[u32], from: &dyn Fn(u32) -> Vec<f32>| {
        let handles = rows.iter().map(|&row| index.handle(row)).collect();
        let values = rows.iter().flat_map(|&row| from(row)).collect();
        Canaries::new(handles, values, false).encode(WIDTH, 0)
    };
    let own = |row: u32| vectors.row(row as usize).to_vec();
    let nudged = |row: u32| own(row).into_iter().map(|x| x + 1e-7).collect();
    let moved = |row: u32| own(row).into_iter().map(|x| x + 0.5).collect();
    let exchanged: Vec<u32> = rows[1..].iter().copied().chain([other]).collect();
    let mut write = |value: &[u8]| {
        let mut transaction = world.vault.transaction(&mut world.rng).unwrap();
        transaction.put(Slot::Canaries, value, &mut world.rng).unwrap();
        transaction.commit(&mut world.rng).unwrap();
        verify_vault(&world.vault, UNWATCHED).map(|_| ()).map_err(|error| error.to_string())
    };
    write(&value(&rows, &own)).unwrap();
    for (value, problem) in [
        (value(&rows[1..], &own), "not those that the keys choose"),
        (value(&exchanged, &own), "not those that the keys choose"),
        (value(&rows, &nudged), "not its document's"),
        (value(&rows, &moved), "not that of its vector"),
    ] {
        let refused = write(&value).unwrap_err();
        assert!(refused.contains(problem), "{refused}");
    }
    let sound = value(&rows, &own);
    let mut padded = sound.clone();
    *padded.last_mut().unwrap() = 1;
    for damaged in [&sound[..sound.len() / 2], &sound[..9], &[], &padded] {
        assert!(Canaries::decode(damaged, WIDTH).is_err());
    }
    assert!(Canaries::decode(&sound, WIDTH + 1).is_err(), "of another width");
    assert!(Canaries::decode(&sound, WIDTH).is_ok());
}
