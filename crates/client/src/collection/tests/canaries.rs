use super::*;

/// The words and vectors of all canaries.
fn made(world: &World) -> Vec<(String, Vec<f32>)> {
    let collection = world.collection();
    let words = collection.index().canary_words().map(str::to_owned);
    let vectors = collection.index().canary_vectors().chunks_exact(WIDTH).map(<[f32]>::to_vec);
    words.zip(vectors).collect()
}

#[test]
fn a_new_epoch_keeps_canaries_under_other_names_and_rows() {
    for cells in [CellCount::Cells(4), CellCount::Micro] {
        let mut world = World::with(cells, 60);
        let (before, names) = (made(&world), world.handles());
        rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
        assert_eq!(made(&world), before);
        assert!(world.handles().is_disjoint(&names));
        refit(&mut world.vault, None, None, UNWATCHED, &mut world.rng).unwrap();
        assert_eq!(made(&world), before);
        world.check();
    }
}

#[test]
fn canaries_come_and_go_as_documents_do() {
    let mut world = World::with(CellCount::Cells(4), 400);
    let first = made(&world);
    let more = vectors(&mut world.rng, 400, WIDTH);
    world.ingest(&ids(400..800), &more);
    let grown = made(&world);
    assert!(grown.len() > first.len() * 3 / 2, "{} of {}", grown.len(), first.len());
    assert!(first.iter().all(|canary| grown.contains(canary)), "nothing was deleted");
    // A quarter goes, then everything is another document.
    let gone = ids(0..200);
    world.delete(&gone.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let left = made(&world);
    let share = left.len() as f64 / grown.len() as f64;
    assert!((0.6..0.9).contains(&share), "{share} for three quarters");
    let others = vectors(&mut world.rng, 100, WIDTH);
    let documents = Documents { ids: &ids(900..1000), vectors: &others, sample_queries: None };
    synchronise(&mut world.vault, &documents, UNWATCHED, &mut world.rng).unwrap();
    let last = made(&world);
    assert!(last.len() >= 24 && last.iter().all(|canary| !left.contains(canary)));
    world.check();
}

#[test]
fn the_value_of_canaries_says_their_number_to_within_a_multiple() {
    let world = World::with(CellCount::Cells(4), 60);
    let collection = world.collection();
    let mut canaries = collection.index().canaries_apart();
    let length = canaries.encode(WIDTH).len();
    let mut first = true;
    canaries.retain(WIDTH, || !std::mem::take(&mut first));
    assert_eq!(canaries.rows.rows() + 1, collection.index().canaries());
    assert_eq!(canaries.encode(WIDTH).len(), length);
}
