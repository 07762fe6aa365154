//! Small vaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use shard_client::vault::{KdfCost, Unlock, Vault};
use shard_client::{
    CellCount, Choice, Collection, Documents, MissingIds, Settings, UNWATCHED, create_vault,
    delete_documents, ingest, rekey, stored_vectors, verify_vault,
};
use shard_geometry::VectorSet;
use tempfile::TempDir;
use zeroize::Zeroizing;

/// A vault in a directory of its own.
pub struct Owner {
    pub directory: TempDir,
    pub vault: Vault,
    pub rng: ChaCha20Rng,
    width: usize,
    next: usize,
}

impl Owner {
    /// A vault of this many narrow documents in four cells.
    pub fn with_documents(count: usize) -> Self {
        Self::with_vectors(count, 24)
    }

    /// A vault of this many documents of this width in four cells.
    pub fn with_vectors(count: usize, width: usize) -> Self {
        Self::seeded(3, count, width)
    }

    /// The same with other secrets and other documents.
    pub fn seeded(seed: u64, count: usize, width: usize) -> Self {
        let mut owner = Self::empty(seed, width);
        owner.add(count);
        owner
    }

    /// A vault without documents.
    pub fn empty(seed: u64, width: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let settings =
            Settings { candidates: Choice::Fixed(40), ..Settings::new(CellCount::Cells(4)) };
        let path = directory.path().join("vault");
        let vault =
            create_vault(&path, &unlock(), KdfCost::default(), &settings, &mut rng).unwrap();
        Self { directory, vault, rng, width, next: 0 }
    }

    /// A blind vault of this many documents, eight to a block.
    pub fn blind(seed: u64, count: usize) -> Self {
        Self::blind_with(Settings::blind(), seed, count)
    }

    /// A blind vault with other settings.
    pub fn blind_with(settings: Settings, seed: u64, count: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let settings = Settings { tile: Choice::Fixed(256), ..settings };
        let path = directory.path().join("vault");
        let vault =
            create_vault(&path, &unlock(), KdfCost::default(), &settings, &mut rng).unwrap();
        let mut owner = Self { directory, vault, rng, width: 24, next: 0 };
        owner.add(count);
        owner
    }

    /// The vault in `directory/vault`, of which this is another copy. It draws other random words
    /// than the first, so its commits have other names.
    pub fn at(directory: TempDir, seed: u64, like: &Self) -> Self {
        let vault = Vault::open(&directory.path().join("vault"), &unlock()).unwrap();
        let rng = ChaCha20Rng::seed_from_u64(seed);
        Self { directory, vault, rng, width: like.width, next: like.next }
    }

    /// A copy of the directory, as somebody makes who copies files.
    pub fn copy(&self, seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vault");
        std::fs::create_dir(&path).unwrap();
        for (name, bytes) in files(&self.path()) {
            std::fs::write(path.join(name), bytes).unwrap();
        }
        Self::at(directory, seed, self)
    }

    /// Ingests documents of new names.
    pub fn add(&mut self, count: usize) {
        let ids: Vec<String> = (self.next..self.next + count).map(|n| n.to_string()).collect();
        self.next += count;
        self.ingest(&ids);
    }

    /// Ingests other vectors under these names.
    pub fn ingest(&mut self, ids: &[String]) {
        let vectors = vectors(&mut self.rng, ids.len(), self.width);
        self.ingest_vectors(ids, &vectors);
    }

    /// Ingests these vectors.
    pub fn ingest_vectors(&mut self, ids: &[String], vectors: &VectorSet) {
        let documents = Documents { ids, vectors, sample_queries: None };
        ingest(&mut self.vault, &documents, UNWATCHED, &mut self.rng).unwrap();
    }

    /// Puts one document, new or other than before.
    pub fn put(&mut self, id: &str) {
        self.ingest(&[id.to_owned()]);
    }

    pub fn delete(&mut self, id: &str) {
        let ids = [id.to_owned()];
        delete_documents(&mut self.vault, &ids, MissingIds::Refuse, &mut self.rng).unwrap();
    }

    pub fn rekey(&mut self) {
        rekey(&mut self.vault, UNWATCHED, &mut self.rng).unwrap();
    }

    /// Every document with its vector, once the vault is known to be whole.
    pub fn documents(&self) -> BTreeMap<String, Vec<f32>> {
        verify_vault(&self.vault, UNWATCHED).unwrap();
        let (collection, vectors) = (self.collection(), stored_vectors(&self.vault).unwrap());
        let ids = collection.index().ids().enumerate();
        ids.map(|(at, id)| (id.to_owned(), vectors.row(at).to_vec())).collect()
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("vault")
    }

    pub fn collection(&self) -> Collection {
        Collection::open(&self.vault).unwrap()
    }

    pub fn queries(&mut self, count: usize) -> VectorSet {
        vectors(&mut self.rng, count, self.width)
    }
}

pub fn unlock() -> Unlock {
    Unlock::KeyFile(Zeroizing::new(vec![9; 32]))
}

/// Keyrings, root and values.
pub type Contents = (Vec<(String, Vec<u8>)>, Vec<u8>, BTreeMap<i64, Vec<u8>>);

/// What a vault consists of, however its database lays it out: the keyrings, the sealed root, and
/// every sealed value by the number of its slot.
pub fn contents(directory: &Path) -> Contents {
    let mut keyrings = files(directory);
    keyrings.retain(|(name, _)| name.starts_with("KEYRING"));
    let db = rusqlite::Connection::open(directory.join(DATABASE)).unwrap();
    let root = db.query_row("SELECT value FROM root", [], |row| row.get(0)).unwrap();
    let mut values = db.prepare("SELECT id, value FROM vals").unwrap();
    let values = values.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    (keyrings, root, values.map(Result::unwrap).collect())
}

/// The database of a vault.
pub const DATABASE: &str = "vault.sqlite";

/// Every file of a directory with its bytes.
pub fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .map(|(name, path)| (name, std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Anisotropic vectors around a mean, as embeddings are.
pub fn vectors(rng: &mut ChaCha20Rng, rows: usize, width: usize) -> VectorSet {
    let mut uniform = || (rng.next_u32() as f32 / u32::MAX as f32) - 0.5;
    let values =
        (0..rows * width).map(|at| 0.1 + uniform() / (1.0 + (at % width) as f32 / 8.0)).collect();
    VectorSet::new(width, values).unwrap()
}
