use super::*;
use crate::drift::RefitReason;

#[test]
fn a_rekey_keeps_the_model_and_changes_every_name_and_row() {
    for cells in [CellCount::Cells(4), CellCount::Micro] {
        let mut world = World::with(cells, 30);
        let (before, names) = (world.collection(), world.handles());
        let kept = model_drift(&world.vault).unwrap();
        let rows = published_rows(&world.vault).unwrap().into_rows();
        let done = rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
        assert_eq!(done, NewEpoch { epoch: Epoch(2), documents: 30 });
        let after = world.collection();
        assert_eq!(after.epoch(), Epoch(2));
        assert_eq!(published_rows(&world.vault).unwrap().epoch(), Epoch(2));
        assert!(world.handles().is_disjoint(&names));
        let coordinates: HashSet<_> = rows.into_iter().map(|row| row.coordinates).collect();
        let now = published_rows(&world.vault).unwrap();
        assert!(now.rows().iter().all(|row| !coordinates.contains(&row.coordinates)));
        assert_eq!(after.model().pca().basis(), before.model().pca().basis());
        assert_eq!(after.model().candidates(), before.model().candidates());
        assert!(after.index().ids().eq(before.index().ids()));
        assert_eq!(after.index().prefixes(), before.index().prefixes());
        assert_eq!(model_drift(&world.vault).unwrap(), kept);
        world.check();
    }
}

#[test]
fn a_refit_fits_the_documents_that_are_there() {
    let mut world = World::empty(CellCount::Cells(4));
    // Documents of eight dimensions, then others of sixteen.
    let narrow = vectors(&mut world.rng, 40, 8);
    world.ingest(&ids(0..40), &narrow);
    assert_eq!(model_drift(&world.vault).unwrap().refit_due(), []);
    let wide = vectors(&mut world.rng, 60, WIDTH);
    world.ingest(&ids(40..100), &wide);
    let moved = model_drift(&world.vault).unwrap();
    assert_eq!((moved.late(), moved.documents()), (60, 100));
    assert!(moved.now().outside_basis > 0.01, "{:?}", moved.now());
    let reasons = moved.refit_due();
    assert!(reasons.iter().any(|reason| matches!(reason, RefitReason::OutsideBasis(_))));
    assert!(reasons.iter().any(|reason| matches!(reason, RefitReason::Growth { late: 60, .. })));

    let names = world.handles();
    let done = refit(&mut world.vault, None, None, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(done, NewEpoch { epoch: Epoch(2), documents: 100 });
    assert!(world.handles().is_disjoint(&names));
    let fresh = model_drift(&world.vault).unwrap();
    assert_eq!((fresh.late(), fresh.refit_due().len()), (0, 0));
    assert!(fresh.fitted().outside_basis < 1e-6);
    world.check();
}

#[test]
fn documents_like_the_fitted_ones_are_no_drift() {
    let mut world = World::of(&Settings {
        candidates: Choice::Fixed(1000),
        d_pub: Choice::Fixed(12),
        ..Settings::new(CellCount::Cells(4))
    });
    let first = vectors(&mut world.rng, 600, WIDTH);
    world.ingest(&ids(0..600), &first);
    let more = vectors(&mut world.rng, 240, WIDTH);
    world.ingest(&ids(600..840), &more);
    let now = model_drift(&world.vault).unwrap();
    assert_eq!((now.late(), now.documents()), (240, 840));
    assert_eq!(now.refit_due(), [], "{now:?}");
    // One that is given again as it was has not changed.
    world.ingest(&ids(0..600), &first);
    assert_eq!(model_drift(&world.vault).unwrap().late(), 240);
    // A replaced document is a new one, and a deleted one is forgotten.
    world.ingest(&ids(0..1), &vectors(&mut ChaCha20Rng::seed_from_u64(3), 1, WIDTH));
    assert_eq!(model_drift(&world.vault).unwrap().late(), 241);
    world.delete(&["doc-0", "doc-600", "doc-1"]).unwrap();
    let now = model_drift(&world.vault).unwrap();
    assert_eq!((now.late(), now.documents()), (239, 837));
}

#[test]
fn a_new_epoch_of_an_empty_vault_is_refused() {
    let mut world = World::empty(CellCount::Cells(4));
    let refitted = refit(&mut world.vault, None, None, UNWATCHED, &mut world.rng);
    assert!(matches!(refitted, Err(ClientError::Empty)));
    let rekeyed = rekey(&mut world.vault, UNWATCHED, &mut world.rng);
    assert!(matches!(rekeyed, Err(ClientError::Empty)));
}

#[test]
fn a_refit_that_cannot_be_changes_nothing() {
    let mut world = World::with(CellCount::Cells(4), 20);
    let most: Vec<String> = ids(0..17);
    world.delete(&most.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let generation = world.generation();
    let refitted = refit(&mut world.vault, None, None, UNWATCHED, &mut world.rng);
    assert!(matches!(refitted, Err(ClientError::Cells(_))));
    assert_eq!(world.generation(), generation);
    world.check();
}

/// A vault that was put back to an earlier state begins an epoch of a number it has used before.
#[test]
fn two_epochs_of_one_number_share_no_keys_and_no_names() {
    let mut world = World::with(CellCount::Cells(4), 20);
    let earlier = world.directory.path().join("earlier");
    std::fs::create_dir(&earlier).unwrap();
    for entry in std::fs::read_dir(world.vault.directory()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), earlier.join(entry.file_name())).unwrap();
    }
    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    let names = world.handles();
    world.vault = Vault::open(&earlier, &unlock()).unwrap();
    let done = rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(done.epoch, Epoch(2));
    assert!(world.handles().is_disjoint(&names));
    world.check();
}

#[test]
fn a_refit_may_go_over_to_another_number_of_keys_for_good() {
    let mut world = World::with(CellCount::Cells(4), 30);
    for cells in [CellCount::Micro, CellCount::Cells(2)] {
        refit(&mut world.vault, Some(cells), None, UNWATCHED, &mut world.rng).unwrap();
        assert_eq!(vault_settings(&world.vault).unwrap().cells, cells);
        assert_eq!(world.collection().index().cell(0).is_none(), cells == CellCount::Micro);
        world.check();
    }
}

#[test]
fn a_new_epoch_that_is_ended_changes_nothing() {
    let mut world = World::with(CellCount::Cells(4), 30);
    let head = world.vault.head().unwrap();
    let end = |_: Progress| ControlFlow::Break(());
    let rekeyed = rekey(&mut world.vault, &end, &mut world.rng);
    assert!(matches!(rekeyed, Err(ClientError::Cancelled)), "{rekeyed:?}");
    let refitted = refit(&mut world.vault, None, None, &end, &mut world.rng);
    assert!(matches!(refitted, Err(ClientError::Cancelled)), "{refitted:?}");
    assert_eq!(world.vault.head().unwrap(), head);
    world.check();
}

#[test]
fn a_rekey_leaves_the_documents_vectors_as_they_are_sealed() {
    let mut world = World::with(CellCount::Cells(4), 30);
    let before = world.root();
    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    let after = world.root();
    for (slot, entry) in &after.entries {
        let kept = matches!(slot, Slot::Settings | Slot::Vectors(_) | Slot::Journal(2));
        assert_eq!(before.entries.get(slot) == Some(entry), kept, "{slot}");
    }
}
