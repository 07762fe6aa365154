//! Small vaults.

use std::path::{Path, PathBuf};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use shard_client::vault::{KdfCost, Unlock, Vault};
use shard_client::{
    CellCount, Choice, Collection, Documents, Settings, UNWATCHED, create_vault, ingest,
};
use shard_geometry::VectorSet;
use tempfile::TempDir;
use zeroize::Zeroizing;

/// A vault in a directory of its own.
pub struct Owner {
    pub directory: TempDir,
    pub vault: Vault,
    rng: ChaCha20Rng,
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
        let directory = tempfile::tempdir().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let settings =
            Settings { candidates: Choice::Fixed(40), ..Settings::new(CellCount::Cells(4)) };
        let path = directory.path().join("vault");
        let vault =
            create_vault(&path, &unlock(), KdfCost::default(), &settings, &mut rng).unwrap();
        let mut owner = Self { directory, vault, rng, width, next: 0 };
        owner.add(count);
        owner
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
        let documents = Documents { ids, vectors: &vectors, sample_queries: None };
        ingest(&mut self.vault, &documents, UNWATCHED, &mut self.rng).unwrap();
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

/// Every file of a directory with its bytes, but the lock.
pub fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .filter(|(name, _)| name != "LOCK")
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
