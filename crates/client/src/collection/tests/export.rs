use super::*;

fn colleague() -> Unlock {
    Unlock::KeyFile(Zeroizing::new(vec![3; MIN_KEY_FILE_BYTES]))
}

fn exported(world: &mut World) -> Vault {
    let directory = world.directory.path().join("query");
    export_query_vault(&world.vault, &directory, &colleague(), cost(), &mut world.rng).unwrap();
    Vault::open(&directory, &colleague()).unwrap()
}

#[test]
fn an_exported_vault_finds_what_its_owner_finds() {
    for cells in [CellCount::Cells(4), CellCount::Micro] {
        let mut world = World::with(cells, 40);
        let query_vault = exported(&mut world);
        assert_eq!(query_vault.access(), VaultAccess::Query);
        let searcher = searcher(&world.vault);
        let (owner, colleague) = (world.collection(), Collection::open(&query_vault).unwrap());
        let query = vectors(&mut world.rng, 1, WIDTH);
        assert_eq!(
            found(&searcher, &colleague, query.row(0)),
            found(&searcher, &owner, query.row(0))
        );
        assert_eq!(colleague.position().revision().0, world.generation());
        assert_eq!(owner.position().revision().0, world.generation());
        assert_eq!(verify_vault(&query_vault, UNWATCHED).unwrap().documents, 40);
    }
}

#[test]
fn an_exported_vault_has_neither_vectors_nor_rows_nor_its_owners_secrets() {
    let mut world = World::with(CellCount::Cells(4), 20);
    let query_vault = exported(&mut world);
    let snapshot = query_vault.snapshot().unwrap();
    for slot in snapshot.root().entries.keys() {
        assert_eq!(snapshot.read(*slot).is_ok(), slot.is_shared(), "{slot}");
    }
    assert!(Vault::open(query_vault.directory(), &unlock()).is_err());
    assert!(Vault::open(world.vault.directory(), &colleague()).is_err());
}

#[test]
fn an_exported_vault_refuses_everything_but_a_search() {
    let mut world = World::with(CellCount::Cells(4), 20);
    let mut vault = exported(&mut world);
    let (head, mut rng) = (vault.head().unwrap(), ChaCha20Rng::seed_from_u64(5));
    let more = vectors(&mut rng, 1, WIDTH);
    let names = ids(0..1);
    let documents = Documents { ids: &names, vectors: &more, sample_queries: None };
    let elsewhere = world.directory.path().join("elsewhere");
    let refusals = [
        ingest(&mut vault, &documents, UNWATCHED, &mut rng).map(drop),
        synchronise(&mut vault, &documents, UNWATCHED, &mut rng).map(drop),
        delete_documents(&mut vault, &names, MissingIds::Refuse, &mut rng).map(drop),
        refit(&mut vault, None, None, UNWATCHED, &mut rng).map(drop),
        rekey(&mut vault, UNWATCHED, &mut rng).map(drop),
        export_query_vault(&vault, &elsewhere, &colleague(), cost(), &mut rng).map(drop),
        vault.prepare_recovery(&mut rng).map(drop).map_err(ClientError::from),
        stored_vectors(&vault).map(drop),
        model_drift(&vault).map(drop),
    ];
    assert!(matches!(published_rows(&vault), Err(ClientError::RowsOnServer)));
    for refusal in refusals {
        let error = refusal.unwrap_err();
        assert!(matches!(error, ClientError::Vault(VaultError::QueryVault { .. })), "{error}");
        assert!(error.to_string().contains("query vault"), "{error}");
    }
    assert_eq!(vault.head().unwrap(), head);
    assert!(!elsewhere.exists());
}

#[cfg(feature = "remote")]
#[test]
fn an_exported_vault_is_neither_published_nor_backed_up() {
    use crate::remote::{BackupOptions, PublishOptions, backup, publish};

    let mut world = World::with(CellCount::Cells(4), 20);
    let vault = exported(&mut world);
    let searcher = searcher(&world.vault);
    let server = searcher.transport();
    let saved = backup(&vault, BackupOptions::default(), server, UNWATCHED);
    assert!(matches!(saved, Err(ClientError::Vault(VaultError::QueryVault { .. }))), "{saved:?}");
    let published = publish(&vault, PublishOptions::default(), server, UNWATCHED);
    assert!(matches!(published, Err(ClientError::SearchOnly)), "{published:?}");
}

#[test]
fn a_rekey_revokes_an_exported_vault() {
    let mut world = World::with(CellCount::Cells(4), 40);
    let query_vault = exported(&mut world);
    let colleague = Collection::open(&query_vault).unwrap();
    rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap();
    // The server holds the new epoch and no other.
    let searcher = searcher(&world.vault);
    let query = vectors(&mut world.rng, 1, WIDTH);
    let refused = searcher.search(&colleague, query.row(0), &SearchOptions::default());
    let error = refused.unwrap_err();
    assert!(matches!(error, ClientError::Revoked { .. }), "{error}");
    let words = error.to_string();
    assert!(words.contains("ask its owner") && !words.contains("restore"), "{words}");
    // None of its names is a name of the new epoch, and none of its keys makes one: all it has is
    // the secret of the old.
    let names = world.handles();
    let old = KeySchedule::of_epoch(EpochSecret::from_bytes(
        query_vault.epoch_secret().expect("a query vault").expose(),
    ));
    for id in world.collection().index().ids() {
        assert!((0..4).all(|attempt| !names.contains(&old.row_handle(id, attempt))));
    }
    assert!(query_vault.master().is_err());
}

#[test]
fn an_export_overwrites_nothing() {
    let mut world = World::with(CellCount::Cells(4), 20);
    let query_vault = exported(&mut world);
    let directory = query_vault.directory().to_owned();
    let mut export = |directory: &Path| {
        export_query_vault(&world.vault, directory, &colleague(), cost(), &mut world.rng)
    };
    let again = export(&directory);
    assert!(matches!(again, Err(ClientError::Vault(VaultError::AlreadyExists { .. }))));
    let full = world.directory.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("notes"), "mine").unwrap();
    let among = export(&full);
    assert!(matches!(among, Err(ClientError::Vault(VaultError::NotEmpty { .. }))));
}
