//! Live updates, new epochs and exports, with a real server where something is searched.

mod canaries;
mod change;
mod chunk;
mod damage;
mod delete;
mod epoch;
mod export;
mod full;
mod golden;
mod journal;
mod kill;

use std::collections::HashSet;
use std::ops::ControlFlow;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use shard_geometry::VectorSet;
use shard_protocol::RowHandle;
use shard_server::Embedded;
use tempfile::TempDir;
use zeroize::Zeroizing;

use super::*;
use crate::progress::{Progress, UNWATCHED};
use crate::search::{SearchOptions, Searcher};
use crate::settings::{CellCount, Choice};
use crate::vault::{MIN_KEY_FILE_BYTES, Root, VaultError};

const WIDTH: usize = 16;

fn unlock() -> Unlock {
    Unlock::KeyFile(Zeroizing::new(vec![9; MIN_KEY_FILE_BYTES]))
}

fn cost() -> KdfCost {
    KdfCost::new(8, 1, 1).unwrap()
}

/// Vectors with falling variance around a mean, the first `varying` coordinates of them.
fn vectors(rng: &mut ChaCha20Rng, rows: usize, varying: usize) -> VectorSet {
    let values = (0..rows * WIDTH).map(|at| {
        let unit = rng.next_u32() as f32 / u32::MAX as f32 - 0.5;
        let column = at % WIDTH;
        if column < varying { 0.1 + unit / (1.0 + column as f32 / 4.0) } else { 0.1 }
    });
    VectorSet::new(WIDTH, values.collect()).unwrap()
}

fn ids(rows: std::ops::Range<usize>) -> Vec<String> {
    rows.map(|row| format!("doc-{row}")).collect()
}

/// A vault, and randomness to change it with.
struct World {
    directory: TempDir,
    vault: Vault,
    rng: ChaCha20Rng,
}

impl World {
    fn empty(cells: CellCount) -> Self {
        Self::of(&Settings {
            candidates: Choice::Fixed(20),
            d_pub: Choice::Fixed(4),
            ..Settings::new(cells)
        })
    }

    fn of(settings: &Settings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let path = directory.path().join("vault");
        let vault = create_vault(&path, &unlock(), cost(), settings, &mut rng).unwrap();
        Self { directory, vault, rng }
    }

    fn with(cells: CellCount, rows: usize) -> Self {
        let mut world = Self::empty(cells);
        let documents = vectors(&mut world.rng, rows, WIDTH);
        world.ingest(&ids(0..rows), &documents);
        world
    }

    fn ingest(&mut self, ids: &[String], vectors: &VectorSet) -> Ingested {
        let documents = Documents { ids, vectors, sample_queries: None };
        ingest(&mut self.vault, &documents, UNWATCHED, &mut self.rng).unwrap()
    }

    fn delete(&mut self, ids: &[&str]) -> Result<Deleted, ClientError> {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        delete_documents(&mut self.vault, &ids, MissingIds::Refuse, &mut self.rng)
    }

    fn collection(&self) -> Collection {
        Collection::open(&self.vault).unwrap()
    }

    fn handles(&self) -> HashSet<RowHandle> {
        published_rows(&self.vault).unwrap().rows().iter().map(|row| row.handle).collect()
    }

    fn generation(&self) -> u64 {
        self.vault.head().unwrap().generation
    }

    fn root(&self) -> Root {
        self.vault.snapshot().unwrap().root().clone()
    }

    fn row(&self, id: &str) -> u32 {
        let collection = self.collection();
        let row = collection.index().ids().position(|held| held == id);
        row.expect("a document of this id") as u32
    }

    /// Everything goes together: index, vectors and published rows.
    fn check(&self) {
        verify_vault(&self.vault, UNWATCHED).unwrap();
        let (collection, vectors) = (self.collection(), stored_vectors(&self.vault).unwrap());
        let index = collection.index();
        assert_eq!(vectors.rows(), index.rows());
        let mut named: HashSet<RowHandle> = index.handles().iter().copied().collect();
        assert_eq!(named.len(), index.rows());
        assert!(index.canaries() >= 32.min(index.rows()));
        for row in published_rows(&self.vault).unwrap().rows() {
            assert!(named.remove(&row.handle), "a row that the index does not know");
        }
        assert!(named.is_empty(), "a document without a row");
        let searcher = searcher(&self.vault);
        for row in 0..index.rows().min(8) {
            let options = SearchOptions { candidates: Some(index.rows()), ..Default::default() };
            let answer = searcher.search(&collection, vectors.row(row), &options).unwrap();
            for hit in &answer.hits {
                let exact =
                    shard_geometry::dot_f64(vectors.row(row), vectors.row(hit.row as usize));
                assert!((hit.score - exact).abs() < 1e-4, "{} for {exact}", hit.score);
            }
        }
    }
}

/// A server that holds the published rows of the vault.
fn searcher(vault: &Vault) -> Searcher<Embedded> {
    Searcher::new(Embedded::serving(published_rows(vault).unwrap()))
}

fn found(searcher: &Searcher<Embedded>, collection: &Collection, query: &[f32]) -> Vec<String> {
    let answer = searcher.search(collection, query, &SearchOptions::default()).unwrap();
    answer.hits.into_iter().map(|hit| hit.id).collect()
}

#[test]
fn of_two_ingests_at_once_the_second_is_refused_before_it_works() {
    let mut world = World::empty(CellCount::Cells(4));
    let mut second = Vault::open(world.vault.directory(), &unlock()).unwrap();
    let (more, names) = (vectors(&mut world.rng, 30, WIDTH), ids(0..30));
    // The first ingest stops in the middle of its work until the second has been refused.
    let documents = Documents { ids: &names, vectors: &more, sample_queries: None };
    let refused = std::sync::OnceLock::new();
    let attempt = std::sync::Mutex::new(&mut second);
    let try_again = |_: Progress| {
        refused.get_or_init(|| {
            let mut rng = ChaCha20Rng::seed_from_u64(2);
            let worked = |_: Progress| panic!("work in vain");
            ingest(&mut attempt.lock().unwrap(), &documents, &worked, &mut rng).unwrap_err()
        });
        ControlFlow::Continue(())
    };
    ingest(&mut world.vault, &documents, &try_again, &mut world.rng).unwrap();
    let error = refused.into_inner().expect("the second ingest was tried");
    assert!(matches!(error, ClientError::Vault(VaultError::Locked { .. })), "{error}");
    assert!(error.to_string().contains("another process is writing"));
    // Now it may, from what the first has left.
    let mut second = Vault::open(world.vault.directory(), &unlock()).unwrap();
    let done = ingest(&mut second, &documents, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(done.unchanged, 30);
}

#[test]
fn a_synchronised_vault_holds_what_was_given_and_nothing_else() {
    let mut world = World::empty(CellCount::Cells(4));
    let first = vectors(&mut world.rng, 20, WIDTH);
    let names = ids(0..20);
    let documents = Documents { ids: &names, vectors: &first, sample_queries: None };
    let done = synchronise(&mut world.vault, &documents, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(done, Ingested { added: 20, fitted: true, ..Ingested::default() });
    let second = vectors(&mut world.rng, 15, WIDTH);
    let names = ids(10..25);
    let documents = Documents { ids: &names, vectors: &second, sample_queries: None };
    let done = synchronise(&mut world.vault, &documents, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!(done, Ingested { added: 5, replaced: 10, deleted: 10, ..Ingested::default() });
    assert!(world.collection().index().ids().eq(&names));
    assert_eq!(stored_vectors(&world.vault).unwrap().values(), second.values());
    world.check();
    // All of it exchanged.
    let names = ids(50..60);
    let third = vectors(&mut world.rng, 10, WIDTH);
    let documents = Documents { ids: &names, vectors: &third, sample_queries: None };
    let done = synchronise(&mut world.vault, &documents, UNWATCHED, &mut world.rng).unwrap();
    assert_eq!((done.added, done.deleted), (10, 15));
    world.check();
}

#[test]
fn an_ingest_that_is_ended_changes_nothing() {
    let mut world = World::empty(CellCount::Micro);
    let head = world.vault.head().unwrap();
    let (more, names) = (vectors(&mut world.rng, 30, WIDTH), ids(0..30));
    let documents = Documents { ids: &names, vectors: &more, sample_queries: None };
    for calls in [0, 1, 3] {
        let left = std::sync::atomic::AtomicUsize::new(calls);
        let end = |_: Progress| {
            let counted = |left: usize| left.checked_sub(1);
            let order = std::sync::atomic::Ordering::SeqCst;
            let goes_on = left.fetch_update(order, order, counted).is_ok();
            if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let ended = ingest(&mut world.vault, &documents, &end, &mut world.rng);
        assert!(matches!(ended, Err(ClientError::Cancelled)), "{ended:?}");
        assert_eq!(world.vault.head().unwrap(), head);
        assert!(matches!(Collection::open(&world.vault), Err(ClientError::Empty)));
        verify_vault(&world.vault, UNWATCHED).unwrap();
    }
    world.ingest(&names, &more);
    world.check();
}

#[test]
fn a_document_is_placed_the_same_whether_it_comes_first_or_later() {
    for cells in [CellCount::Cells(4), CellCount::Micro] {
        let mut world = World::with(cells, 40);
        let (collection, documents) = (world.collection(), stored_vectors(&world.vault).unwrap());
        let index = collection.index();
        let rows = published_rows(&world.vault).unwrap();
        let coordinates = |rows: &shard_protocol::RowBatch, handle: RowHandle| {
            let row = rows.rows().iter().find(|row| row.handle == handle);
            row.unwrap().coordinates.clone()
        };
        for row in [0, 17, 39] {
            let vector = VectorSet::new(WIDTH, documents.row(row).to_vec()).unwrap();
            let other = vectors(&mut world.rng, 1, WIDTH);
            world.ingest(&ids(row..row + 1), &other);
            world.ingest(&ids(row..row + 1), &vector);
            let (now, row) = (world.collection(), row as u32);
            assert_eq!(now.index().prefix(row), index.prefix(row));
            assert_eq!(now.index().cell(row), index.cell(row));
            assert!(now.index().is_late(row) && !index.is_late(row));
            let later = published_rows(&world.vault).unwrap();
            let same = coordinates(&later, now.index().handle(row))
                == coordinates(&rows, index.handle(row));
            // With a key of its own, a new name is a new key.
            assert_eq!(same, cells != CellCount::Micro);
        }
    }
}

#[test]
fn a_model_of_the_first_version_is_refused_in_words() {
    let mut world = World::with(CellCount::Cells(4), 20);
    let mut transaction = world.vault.transaction(&mut world.rng).unwrap();
    let mut model = transaction.before().read(Slot::Model).unwrap().to_vec();
    model[0] = 1;
    transaction.put(Slot::Model, &model, &mut world.rng).unwrap();
    transaction.commit(&mut world.rng).unwrap();
    let error = Collection::open(&world.vault).map(drop).unwrap_err().to_string();
    for words in ["model", "version 1", "reads version 4", "make a new vault"] {
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn settings_are_remembered_and_a_refused_setting_makes_no_vault() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("vault");
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let wrong = Settings::new(CellCount::Cells(0));
    assert!(create_vault(&path, &unlock(), cost(), &wrong, &mut rng).is_err());
    assert!(!path.exists());
    let chosen = Settings { d_pub: Choice::Fixed(7), ..Settings::new(CellCount::Micro) };
    create_vault(&path, &unlock(), cost(), &chosen, &mut rng).unwrap();
    let vault = Vault::open(&path, &unlock()).unwrap();
    assert_eq!(vault_settings(&vault).unwrap(), chosen);
    assert_eq!(verify_vault(&vault, UNWATCHED).unwrap().documents, 0);
}
