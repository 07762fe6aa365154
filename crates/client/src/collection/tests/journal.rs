//! What the journal says of the commits since one.

use super::*;

fn changes(world: &World, since: u64) -> Option<Changes> {
    Changes::since(&world.vault.snapshot().unwrap(), since).unwrap()
}

fn fates(changes: &Changes) -> Vec<(&str, Fate)> {
    changes.documents.iter().map(|(id, fate)| (id.as_str(), *fate)).collect()
}

#[test]
fn the_journal_has_the_last_that_became_of_every_document() {
    let mut world = World::with(CellCount::Cells(4), 20);
    let first = world.generation();
    let all = changes(&world, first - 1).unwrap();
    assert!(all.everything && !all.epoch && all.documents.is_empty());
    let put = |world: &mut World, rows: std::ops::Range<usize>| {
        let fresh = vectors(&mut world.rng, rows.len(), WIDTH);
        world.ingest(&ids(rows), &fresh);
    };
    put(&mut world, 19..21);
    world.delete(&["doc-19", "doc-3"]).unwrap();
    put(&mut world, 3..4);
    world.delete(&["doc-5"]).unwrap();
    let since = changes(&world, first).unwrap();
    let expected = [
        ("doc-19", Fate::Deleted),
        ("doc-20", Fate::Put),
        ("doc-3", Fate::Put),
        ("doc-5", Fate::Deleted),
    ];
    assert_eq!(fates(&since), expected);
    assert!(!since.everything && !since.epoch);
    let late = changes(&world, world.generation() - 1).unwrap();
    assert_eq!(fates(&late), [("doc-5", Fate::Deleted)]);
    assert_eq!(fates(&changes(&world, world.generation()).unwrap()), []);
    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    let since = changes(&world, first).unwrap();
    assert!(since.epoch && since.documents.len() == 4);
    // The vault was made without a journal: what came before is not known.
    assert!(changes(&world, 0).is_none());
}

#[test]
fn documents_given_again_as_they_are_are_not_in_the_journal() {
    let mut world = World::with(CellCount::Cells(4), 20);
    let (first, held) = (world.generation(), stored_vectors(&world.vault).unwrap());
    let mut values = held.values()[..3 * WIDTH].to_vec();
    values[WIDTH] += 0.5;
    world.ingest(&ids(0..3), &VectorSet::new(WIDTH, values).unwrap());
    assert_eq!(fates(&changes(&world, first).unwrap()), [("doc-1", Fate::Put)]);
}

#[test]
fn a_collection_knows_the_names_of_its_commits() {
    let mut world = World::with(CellCount::Cells(1), 4);
    let head = world.vault.head().unwrap();
    let mut names = vec![head.parent.unwrap(), head.name];
    for round in 0..8 {
        let one = vectors(&mut world.rng, 1, WIDTH);
        world.ingest(&ids(round % 4..round % 4 + 1), &one);
        names.push(world.vault.head().unwrap().name);
    }
    let (collection, last) = (world.collection(), world.generation());
    assert_eq!((last, collection.position().commit()), (10, names[9]));
    for (generation, name) in (1..).zip(&names) {
        assert_eq!(
            collection.position().commit_at(Revision(generation)),
            Some(*name),
            "{generation}"
        );
    }
    for none in [0, last + 1, u64::MAX] {
        assert_eq!(collection.position().commit_at(Revision(none)), None);
    }
}

#[test]
fn the_journal_forgets_commits_of_long_ago() {
    let mut world = World::with(CellCount::Cells(1), 4);
    let first = world.generation();
    let mut transaction = world.vault.transaction(&mut world.rng).unwrap();
    let one = transaction.before().read(Slot::Journal(first as u32)).unwrap();
    // As of a vault that has come further, so that the next commits have the highest numbers here.
    for number in 0..600 {
        transaction.put(Slot::Journal(number), &one, &mut world.rng).unwrap();
    }
    transaction.remove(Slot::Journal(4)).unwrap();
    transaction.commit(&mut world.rng).unwrap();
    world.delete(&["doc-1"]).unwrap();
    let kept: Vec<u32> = world.root().numbered(Slot::Journal).collect();
    assert_eq!(kept.len(), 512);
    assert_eq!(kept, [4].into_iter().chain(89..600).collect::<Vec<u32>>());
    verify_vault(&world.vault, UNWATCHED).unwrap();
}
