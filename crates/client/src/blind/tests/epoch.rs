//! All blocks written anew, and what a blind vault refuses.

use shard_protocol::Epoch;

use super::*;
use crate::collection::{
    Collection, DerivedRows, NewEpoch, model_drift, published_rows, refit, vault_settings,
};
use crate::settings::{CellCount, Protection};

#[test]
fn a_rekey_changes_every_tag_and_leaves_the_vectors_as_they_are_sealed() {
    let mut world = World::with(40);
    world.put([(3, vector(1, 1.5, false))].into_iter());
    let (before, tags, context) =
        (world.root(), world.tags(), world.collection().context().to_vec());
    let done = rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(done, NewEpoch { epoch: Epoch(2), documents: 40 });
    let after = world.collection();
    assert_eq!(after.epoch(), Epoch(2));
    assert!(after.context() != context && after.context()[..16] == context[..16]);
    assert!(world.tags().iter().zip(&tags).all(|(new, old)| new != old));
    let kept =
        |slot: &Slot| matches!(slot, Slot::Settings | Slot::Vectors(_) | Slot::Journal(2 | 3));
    let changed = world.changed(&before);
    assert!(world.root().entries.keys().all(|slot| changed.contains(slot) != kept(slot)));
    world.check();
}

#[test]
fn a_compaction_moves_rows_together_in_their_order_and_changes_every_tag() {
    let mut world = World::with(40);
    let nothing = compact(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(nothing, Compacted { removed: 0, blocks: 5 });
    world.delete([0, 1, 2, 3, 9, 10, 11, 20, 21, 22, 23, 39].into_iter());
    let order: Vec<String> = world.collection().ids().map(|(_, id)| id.to_owned()).collect();
    let tags = world.tags();
    let done = compact(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(done, Compacted { removed: 1, blocks: 4 });
    let collection = world.collection();
    assert!(collection.ids().map(|(_, id)| id).eq(order.iter().map(String::as_str)));
    assert!((0..28).all(|place| collection.id(place) == Some(&order[place])));
    assert!((28..32).all(|place| collection.id(place).is_none()));
    assert!(world.tags().iter().all(|tag| !tags.contains(tag)));
    assert_eq!(collection.epoch(), Epoch(1));
    world.check();
    let head = world.vault.head().unwrap();
    assert_eq!(compact(&mut world.vault, UNWATCHED, &mut world.rng).unwrap().removed, 0);
    assert_eq!(world.vault.head().unwrap(), head);
}

/// A vault that was put back to an earlier state uses a number of an epoch, and of a revision, again.
#[test]
fn two_histories_of_one_vault_share_no_tag() {
    let mut world = World::with(24);
    let mut other = world.copy(2);
    for (world, seed) in [(&mut world, 5), (&mut other, 6)] {
        world.put([(3, vector(seed, 1.0, false))].into_iter());
    }
    let (one, two) = (world.collection(), other.collection());
    assert_eq!(one.blocks()[0].revision, two.blocks()[0].revision);
    assert_ne!(one.blocks()[0].tag.expose(), two.blocks()[0].tag.expose());
    assert_eq!(one.blocks()[1].tag.expose(), two.blocks()[1].tag.expose());
    for world in [&mut world, &mut other] {
        rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    }
    let (one, two) = (world.tags(), other.tags());
    assert!(one.iter().all(|tag| !two.contains(tag)));
}

#[test]
fn work_that_is_ended_changes_nothing() {
    let end = |_: Progress| ControlFlow::Break(());
    let mut world = World::empty();
    let head = world.vault.head().unwrap();
    let (ids, vectors) = ([name(0)], VectorSet::new(WIDTH, vector(1, 1.0, true)).unwrap());
    let documents = Documents { ids: &ids, vectors: &vectors, sample_queries: None };
    let ended = ingest(&mut world.vault, &documents, &end, &mut world.rng);
    assert!(matches!(ended, Err(ClientError::Cancelled)), "{ended:?}");
    assert_eq!(world.vault.head().unwrap(), head);
    assert!(matches!(BlindCollection::open(&world.vault), Err(ClientError::Empty)));

    let mut world = World::with(40);
    world.delete(0..20);
    let head = world.vault.head().unwrap();
    let rekeyed = rekey(&mut world.vault, &end, &mut world.rng);
    assert!(matches!(rekeyed, Err(ClientError::Cancelled)), "{rekeyed:?}");
    let compacted = compact(&mut world.vault, &end, &mut world.rng);
    assert!(matches!(compacted, Err(ClientError::Cancelled)), "{compacted:?}");
    assert_eq!(world.vault.head().unwrap(), head);
    world.check();
}

#[test]
fn what_takes_a_model_is_refused_in_words_before_and_after_the_first_documents() {
    for mut world in [World::empty(), World::with(16)] {
        let is_empty = world.model.is_empty();
        let head = world.vault.head().unwrap();
        let refused = |outcome: Result<(), ClientError>, words: &str| {
            let error = outcome.unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, ClientError::OtherProtection { .. }), "{text}");
            assert!(text.contains("this vault is blind") && text.contains(words), "{text}");
        };
        let refitted = refit(&mut world.vault, None, None, UNWATCHED, &mut world.rng);
        refused(refitted.map(drop), "nothing is fitted");
        refused(model_drift(&world.vault).map(drop), "nothing is fitted");
        let rows = [
            published_rows(&world.vault).map(drop),
            DerivedRows::open(&world.vault).map(drop),
            Collection::open(&world.vault).map(drop),
        ];
        for rows in rows {
            if is_empty {
                assert!(matches!(rows, Err(ClientError::Empty)));
            } else {
                refused(rows, "blocks");
            }
        }
        assert_eq!(world.vault.head().unwrap(), head);
        assert_eq!(vault_settings(&world.vault).unwrap().protection, Protection::Blind);
    }
    let mut empty = World::empty();
    let rekeyed = rekey(&mut empty.vault, UNWATCHED, &mut empty.rng);
    assert!(matches!(rekeyed, Err(ClientError::Empty)));
    let compacted = compact(&mut empty.vault, UNWATCHED, &mut empty.rng);
    assert!(matches!(compacted, Err(ClientError::Empty)));
}

#[test]
fn a_rotated_vault_is_not_opened_as_a_blind_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let settings = Settings { d_pub: Choice::Fixed(2), ..Settings::new(CellCount::Cells(1)) };
    let path = directory.path().join("vault");
    let mut vault = create_vault(&path, &unlock(), cost(), &settings, &mut rng).unwrap();
    let ids: Vec<String> = (0..60).map(name).collect();
    let values = (0..60).flat_map(|row| vector(row, 1.0, true)).collect();
    let vectors = VectorSet::new(WIDTH, values).unwrap();
    let documents = Documents { ids: &ids, vectors: &vectors, sample_queries: None };
    ingest(&mut vault, &documents, UNWATCHED, &mut rng).unwrap();
    for error in [
        BlindCollection::open(&vault).unwrap_err(),
        compact(&mut vault, UNWATCHED, &mut rng).unwrap_err(),
    ] {
        assert!(error.to_string().contains("this vault is rotated"), "{error}");
    }
    let (stored, again) = stored_documents(&vault).unwrap();
    assert!(stored == ids && again.values() == vectors.values());
}
