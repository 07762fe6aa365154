use super::*;

#[test]
fn what_is_deleted_is_gone_from_index_vectors_and_release() {
    for cells in [CellCount::Cells(4), CellCount::Micro] {
        let mut world = World::with(cells, 40);
        let before = stored_vectors(&world.vault).unwrap();
        let gone: Vec<RowHandle> =
            [0, 7, 39].map(|row| world.collection().index().handle(row)).to_vec();
        let done = world.delete(&["doc-7", "doc-0", "doc-39", "doc-7"]).unwrap();
        assert_eq!(done, Deleted { deleted: 3, missing: Vec::new(), documents: 37 });
        let rest: Vec<usize> = (1..39).filter(|&row| row != 7).collect();
        let expected: Vec<String> = rest.iter().map(|row| format!("doc-{row}")).collect();
        assert!(world.collection().index().ids().eq(&expected));
        let vectors = stored_vectors(&world.vault).unwrap();
        for (at, row) in rest.into_iter().enumerate() {
            assert_eq!(vectors.row(at), before.row(row));
        }
        assert!(gone.iter().all(|handle| !world.handles().contains(handle)));
        world.check();
    }
}

#[test]
fn a_collection_after_deletions_searches_like_one_that_never_had_them() {
    let mut world = World::with(CellCount::Cells(1), 40);
    let all = stored_vectors(&world.vault).unwrap();
    let even: Vec<String> = (0..40).step_by(2).map(|row| format!("doc-{row}")).collect();
    world.delete(&even.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let (collection, searcher) = (world.collection(), searcher(&world.vault));
    for row in 0..10 {
        let query = all.row(row);
        let mut exact: Vec<usize> = (1..40).step_by(2).collect();
        let score = |row: usize| shard_geometry::dot_f64(query, all.row(row));
        exact.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
        let expected: Vec<String> = exact[..10].iter().map(|row| format!("doc-{row}")).collect();
        assert_eq!(found(&searcher, &collection, query), expected);
    }
}

#[test]
fn ids_that_are_not_there_are_named_and_nothing_is_deleted() {
    let mut world = World::with(CellCount::Cells(4), 20);
    let generation = world.generation();
    let error = world.delete(&["doc-3", "doc-99", "nobody"]).unwrap_err();
    assert!(matches!(&error, ClientError::UnknownIds(ids) if ids == &["doc-99", "nobody"]));
    assert_eq!(
        error.to_string(),
        "\"doc-99\", \"nobody\" are not in the vault; nothing was deleted"
    );
    assert_eq!(world.generation(), generation);
    let ids = ["doc-3", "doc-99"].map(String::from);
    let done =
        delete_documents(&mut world.vault, &ids, MissingIds::Ignore, &mut world.rng).unwrap();
    assert_eq!((done.deleted, done.missing.as_slice()), (1, &ids[1..]));
    // Nothing to do is no change.
    let generation = world.generation();
    delete_documents(&mut world.vault, &ids, MissingIds::Ignore, &mut world.rng).unwrap();
    assert_eq!(world.generation(), generation);
}

#[test]
fn the_last_document_stays() {
    let mut world = World::with(CellCount::Cells(1), 2);
    let error = world.delete(&["doc-0", "doc-1"]).unwrap_err();
    assert!(matches!(error, ClientError::NothingLeft(2)), "{error}");
    world.delete(&["doc-0"]).unwrap();
    assert!(matches!(world.delete(&["doc-1"]), Err(ClientError::NothingLeft(1))));
    world.check();
}

#[test]
fn a_deleted_document_that_comes_back_gets_a_name_it_never_had() {
    for cells in [CellCount::Micro, CellCount::Cells(4)] {
        let mut world = World::with(cells, 20);
        let mut names = world.handles();
        for round in 0..3 {
            let fresh = vectors(&mut world.rng, 1, WIDTH);
            // Replaced first, so that its words are used up further than those of the others.
            if round == 1 {
                world.ingest(&["doc-5".into()], &fresh);
                names.extend(world.handles());
            }
            world.delete(&["doc-5"]).unwrap();
            world.ingest(&["doc-5".into()], &fresh);
            let row = world.row("doc-5");
            assert!(names.insert(world.collection().index().handle(row)), "an old name");
        }
        world.check();
    }
}

#[test]
fn an_empty_vault_has_nothing_to_delete() {
    let mut world = World::empty(CellCount::Cells(4));
    assert!(matches!(world.delete(&["doc-0"]), Err(ClientError::Empty)));
}
