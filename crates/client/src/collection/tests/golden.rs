//! A vault of format 2 opens forever.

use std::path::{Path, PathBuf};

use super::*;

const DOCUMENTS: usize = 12;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vault-format-2")
}

fn fixed_unlock() -> Unlock {
    Unlock::KeyFile(Zeroizing::new(vec![0x42; 32]))
}

/// The vectors of the fixture: sixteenths, so that they are what they are everywhere.
fn fixed(row: usize) -> Vec<f32> {
    (0..WIDTH).map(|at| ((row * 7 + at * at * 3 + row * at * 5) % 33) as f32 / 16.0 - 1.0).collect()
}

fn fixed_documents(rows: std::ops::Range<usize>) -> VectorSet {
    VectorSet::new(WIDTH, rows.flat_map(fixed).collect()).unwrap()
}

#[test]
fn the_vault_of_format_2_still_opens() {
    // A copy: SQLite puts its log beside the file.
    let parent = tempfile::tempdir().unwrap();
    for name in ["KEYRING", "vault.sqlite"] {
        std::fs::copy(fixture().join(name), parent.path().join(name)).unwrap();
    }
    let mut vault = Vault::open(parent.path(), &fixed_unlock()).unwrap();
    let verified = verify_vault(&vault, UNWATCHED).unwrap();
    assert_eq!((verified.generation, verified.documents), (6, DOCUMENTS));
    let (collection, vectors) =
        (Collection::open(&vault).unwrap(), stored_vectors(&vault).unwrap());
    assert_eq!(collection.epoch(), Epoch(2));
    // The second was replaced, the fourth deleted, another came at the end.
    let expected = [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    for (at, row) in expected.into_iter().enumerate() {
        assert_eq!(collection.index().id(at as u32), format!("doc-{row}"));
        let vector = if row == 1 { fixed(50) } else { fixed(row) };
        assert_eq!(vectors.row(at), vector);
    }
    assert_eq!(model_drift(&vault).unwrap().late(), 2);
    assert_eq!(collection.position().commit_at(Revision(6)), Some(collection.position().commit()));
    assert!((1..6).all(|revision| collection.position().commit_at(Revision(revision)).is_some()));
    let changes = Changes::since(&vault.snapshot().unwrap(), 2).unwrap().unwrap();
    assert_eq!(changes.documents.get("doc-3"), Some(&Fate::Deleted));
    assert!(changes.epoch && changes.documents.contains_key("doc-1"));
    // It is searched, and written to.
    let best = found(&searcher(&vault), &collection, &fixed(7));
    assert!(best.contains(&"doc-7".to_owned()), "{best:?}");
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let names = ids(3..4);
    let vectors = fixed_documents(3..4);
    let documents = Documents { ids: &names, vectors: &vectors, sample_queries: None };
    assert_eq!(ingest(&mut vault, &documents, UNWATCHED, &mut rng).unwrap().added, 1);
    rekey(&mut vault, UNWATCHED, &mut rng).unwrap();
    verify_vault(&vault, UNWATCHED).unwrap();
}

#[test]
#[ignore = "writes the fixture anew, for a new version of the format only"]
fn write_the_vault() {
    let mut rng = ChaCha20Rng::seed_from_u64(2026);
    let settings = Settings {
        candidates: Choice::Fixed(6),
        d_pub: Choice::Fixed(4),
        ..Settings::new(CellCount::Cells(2))
    };
    let mut vault = create_vault(&fixture(), &fixed_unlock(), cost(), &settings, &mut rng).unwrap();
    let mut put = |vault: &mut Vault, ids: &[String], vectors: &VectorSet| {
        let documents = Documents { ids, vectors, sample_queries: None };
        ingest(vault, &documents, UNWATCHED, &mut rng).unwrap();
    };
    put(&mut vault, &ids(0..DOCUMENTS), &fixed_documents(0..DOCUMENTS));
    put(&mut vault, &ids(1..2), &fixed_documents(50..51));
    let mut other = ChaCha20Rng::seed_from_u64(2027);
    delete_documents(&mut vault, &ids(3..4), MissingIds::Refuse, &mut other).unwrap();
    rekey(&mut vault, UNWATCHED, &mut other).unwrap();
    put(&mut vault, &ids(12..13), &fixed_documents(12..13));
}
