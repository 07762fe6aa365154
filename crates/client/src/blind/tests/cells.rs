//! Blocks grouped by cell: who is where, and what goes with a document that moves.

use super::*;
use crate::collection::vault_settings;

/// Documents around four directions, so that it is plain which belong together.
fn around(number: usize, direction: usize) -> Vec<f32> {
    let mut vector = vector(number as u64, 0.2, false);
    vector[direction] += 1.0;
    vector
}

fn world() -> World {
    let mut world = World::in_cells(Some(4));
    world.put((0..40).map(|row| (row, around(row, row % 4))));
    world
}

fn cell_of(world: &World, number: usize) -> u32 {
    let collection = world.collection();
    let row = collection.ids().find(|(_, id)| *id == name(number)).unwrap().0;
    collection.blocks()[row as usize / PLACES].cell.unwrap()
}

#[test]
fn documents_of_one_direction_share_a_cell_and_no_block_has_two() {
    let world = world();
    world.check();
    let collection = world.collection();
    assert_eq!((collection.cell_count(), collection.blocks().len()), (4, 8));
    for number in 0..40 {
        assert_eq!(cell_of(&world, number), cell_of(&world, number % 4));
    }
    for direction in 0..4 {
        let query = around(0, direction);
        assert_eq!(collection.nearest_cells(&query, 1), Some(vec![cell_of(&world, direction)]));
        assert_eq!(collection.nearest_cells(&query, 3).unwrap().len(), 3);
        assert_eq!(collection.nearest_cells(&query, 4), None, "all of them");
        assert_eq!(collection.nearest_cells(&query, 0).unwrap().len(), 1, "at least one");
    }
    // A quarter, unless told otherwise.
    assert_eq!(collection.cells().unwrap().probe(), 1);
}

#[test]
fn a_document_that_is_replaced_goes_to_the_cell_of_its_new_vector_with_its_record() {
    let mut world = world();
    let record = |id: &str| Some(format!("{{\"id\":\"{id}\",\"year\":7}}").into_bytes());
    world.put_with((0..40).map(|row| (row, around(row, row % 4))), record);
    let stored = |world: &World, number: usize| {
        let ids = [name(number)];
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        stored_records_of(&world.vault, &ids).unwrap().remove(0).map(|bytes| bytes.to_vec())
    };
    let before = world.collection().blocks().len();
    // Within its cell, to another, and to another with another record.
    world.put([(5, around(99, 1)), (6, around(98, 3))].into_iter());
    world.put_with([(7, around(97, 0))].into_iter(), |_| Some(b"{\"year\":8}".to_vec()));
    world.check();
    assert_eq!(
        [5, 6, 7].map(|number| cell_of(&world, number)),
        [1, 3, 0].map(|d| cell_of(&world, d))
    );
    assert_eq!(stored(&world, 5), record(&name(5)));
    assert_eq!(stored(&world, 6), record(&name(6)));
    assert_eq!(stored(&world, 7), Some(b"{\"year\":8}".to_vec()));
    assert_eq!(world.collection().rows(), 40);
    assert_eq!(world.collection().blocks().len(), before, "free places were taken");
    let filter = "year = 7".parse().unwrap();
    let matching = world.collection().matching(&filter).unwrap();
    assert_eq!(matching.iter().filter(|matches| **matches).count(), 39);
}

#[test]
fn a_rekey_and_a_compaction_keep_who_is_in_which_cell() {
    let mut world = world();
    world.put_with((0..40).map(|row| (row, around(row, row % 4))), |id| Some(id.into()));
    let cells: Vec<u32> = (0..40).map(|number| cell_of(&world, number)).collect();
    let held = world.collection().cells().cloned();
    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    world.check();
    assert_eq!(world.collection().cells().cloned(), held);
    // All of one cell, and so much of two others that a block of each can go.
    let gone = |number: &usize| number.is_multiple_of(4) || (number % 4 < 3 && *number < 12);
    world.delete((0..40).filter(gone));
    let done = compact(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(done, Compacted { removed: 4, blocks: 4 });
    world.check();
    let collection = world.collection();
    for number in (0..40).filter(|number| !gone(number)) {
        assert_eq!(cell_of(&world, number), cells[number]);
        let id = name(number);
        let record = stored_records_of(&world.vault, &[&id]).unwrap().remove(0);
        assert_eq!(record.as_deref(), Some(id.as_bytes()));
    }
    assert_eq!(collection.rows_of(cells[0]), 0);
    // A cell without blocks gets one when a document comes.
    world.put([(0, around(0, 0))].into_iter());
    world.check();
    assert_eq!(cell_of(&world, 0), cells[0]);
}

#[test]
fn centroids_come_back_from_their_bytes_and_bad_ones_are_refused() {
    let world = world();
    let collection = world.collection();
    let cells = collection.cells().unwrap();
    let bytes = cells.encode();
    assert_eq!(BlindCells::decode(&bytes).as_ref(), Ok(cells));
    for length in 0..bytes.len() {
        assert!(BlindCells::decode(&bytes[..length]).is_err());
    }
    for (at, value) in [(2, 0_u8), (2, 5), (10, 7)] {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        assert!(BlindCells::decode(&bytes).is_err(), "{at} {value}");
    }
    assert!(!format!("{cells:?}").contains("0."), "centroids tell about a corpus");
}

#[test]
fn settings_ask_for_cells_and_fewer_documents_than_cells_are_refused() {
    let refused = |cells, probe| {
        Settings { cells, probe, ..Settings::blind() }.check().unwrap_err().to_string()
    };
    assert!(refused(CellCount::Cells(0), None).contains("0 cells"));
    assert!(refused(CellCount::Cells(4), Some(5)).contains("there are 4"));
    assert!(refused(CellCount::Auto, Some(1)).contains("without cells"));
    assert!(refused(CellCount::Micro, None).contains("a key per document"));
    let settings = vault_settings(&world().vault).unwrap();
    assert_eq!((settings.cells, settings.probe), (CellCount::Cells(4), None));
    let mut few = World::in_cells(Some(4));
    let (ids, vectors) = ([name(0)], VectorSet::new(WIDTH, vector(1, 1.0, false)).unwrap());
    let documents = Documents { ids: &ids, vectors: &vectors, sample_queries: None };
    let error = ingest(&mut few.vault, &documents, UNWATCHED, &mut few.rng).unwrap_err();
    assert!(error.to_string().contains("1 rows cannot fill 4 cells"), "{error}");
}

#[test]
fn a_block_in_no_cell_or_in_that_of_others_is_noticed() {
    let world = world();
    let collection = world.collection();
    for (cell, words) in [(None, "some are not"), (Some(9), "in no cell of these")] {
        let mut world = world.copy(7);
        let block = collection.blocks()[0].clone().in_cell(cell).encode();
        let mut transaction = world.vault.transaction(&mut world.rng).unwrap();
        transaction.put(Slot::Places(0), &block, &mut world.rng).unwrap();
        transaction.commit(&mut world.rng).unwrap();
        let error = BlindCollection::open(&world.vault).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let mut world = world.copy(8);
    let other = (collection.blocks()[0].cell.unwrap() + 1) % 4;
    let block = collection.blocks()[0].clone().in_cell(Some(other)).encode();
    let mut transaction = world.vault.transaction(&mut world.rng).unwrap();
    transaction.put(Slot::Places(0), &block, &mut world.rng).unwrap();
    transaction.commit(&mut world.rng).unwrap();
    let error = verify_vault(&world.vault, UNWATCHED).unwrap_err().to_string();
    assert!(error.contains("another cell than its own"), "{error}");
}
