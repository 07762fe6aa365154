//! Blind vaults beside a map of the documents that must be in them.

mod cells;
mod change;
mod damage;
mod epoch;
mod export;
mod kill;
mod metadata;
mod records;
mod values;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use half::f16;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use shard_geometry::VectorSet;
use tempfile::TempDir;

use super::*;
use crate::collection::{
    Documents, Ingested, Intake, MissingIds, create_vault, delete_documents, ingest, rekey,
    stored_documents, take_in, verify_vault,
};
use crate::progress::{Progress, UNWATCHED};
use crate::vault::{KdfCost, MIN_KEY_FILE_BYTES, Root, Unlock};

pub(crate) const WIDTH: usize = 24;

/// Rows of a block: tiles of the greatest width make the smallest blocks.
const PLACES: usize = 8;

pub(crate) fn unlock() -> Unlock {
    Unlock::KeyFile(Zeroizing::new(vec![9; MIN_KEY_FILE_BYTES]))
}

fn cost() -> KdfCost {
    KdfCost::new(8, 1, 1).unwrap()
}

/// A vector of a length that follows from its seed, in half or single precision.
pub(crate) fn vector(seed: u64, length: f32, is_half: bool) -> Vec<f32> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let values: Vec<f32> =
        (0..WIDTH).map(|_| rng.next_u32() as f32 / u32::MAX as f32 - 0.5).collect();
    let norm = vectors::length(&values) as f32;
    let scaled = values.iter().map(|v| v / norm * length);
    if is_half { scaled.map(|v| f16::from_f32(v).to_f32()).collect() } else { scaled.collect() }
}

fn name(number: usize) -> String {
    format!("doc-{number:03}")
}

/// A blind vault, and what must be in it.
pub(crate) struct World {
    pub(crate) directory: TempDir,
    pub(crate) vault: Vault,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) model: BTreeMap<String, Vec<f32>>,
}

impl World {
    pub(crate) fn empty() -> Self {
        Self::of(Settings::blind())
    }

    /// A vault without documents whose blocks are grouped by so many cells, or not at all.
    fn in_cells(count: Option<usize>) -> Self {
        let cells = count.map_or(CellCount::Auto, CellCount::Cells);
        Self::of(Settings { cells, ..Settings::blind() })
    }

    fn of(settings: Settings) -> Self {
        let settings = Settings { tile: Choice::Fixed(256), ..settings };
        let directory = tempfile::tempdir().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let path = directory.path().join("vault");
        let vault = create_vault(&path, &unlock(), cost(), &settings, &mut rng).unwrap();
        Self { directory, vault, rng, model: BTreeMap::new() }
    }

    /// A vault of documents of length one.
    pub(crate) fn with(rows: usize) -> Self {
        let mut world = Self::empty();
        world.put((0..rows).map(|row| (row, vector(row as u64, 1.0, row % 5 == 0))));
        world
    }

    /// A copy of the directory, with other randomness.
    pub(crate) fn copy(&self, seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vault");
        copy_files(self.vault.directory(), &path);
        let vault = Vault::open(&path, &unlock()).unwrap();
        let rng = ChaCha20Rng::seed_from_u64(seed);
        Self { directory, vault, rng, model: self.model.clone() }
    }

    pub(crate) fn put(&mut self, documents: impl Iterator<Item = (usize, Vec<f32>)>) -> Ingested {
        self.put_with(documents, |_| None)
    }

    /// Puts documents with records, in one commit.
    fn put_with(
        &mut self,
        documents: impl Iterator<Item = (usize, Vec<f32>)>,
        record: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Ingested {
        let documents: BTreeMap<usize, Vec<f32>> = documents.collect();
        let ids: Vec<String> = documents.keys().copied().map(name).collect();
        let values = documents.values().flatten().copied().collect();
        let vectors = VectorSet::new(WIDTH, values).unwrap();
        let given = Documents { ids: &ids, vectors: &vectors, sample_queries: None };
        let records =
            ids.iter().filter_map(|id| Some(Record { id: id.clone(), bytes: record(id)? }));
        let intake = Intake { records: records.collect(), ..Intake::of(given) };
        let done = take_in(&mut self.vault, intake, UNWATCHED, &mut self.rng).unwrap();
        self.model.extend(ids.into_iter().zip(documents.into_values()));
        done
    }

    pub(crate) fn delete(&mut self, numbers: impl Iterator<Item = usize>) {
        let ids: Vec<String> = numbers.map(name).collect();
        let there = ids.iter().filter(|id| self.model.contains_key(*id)).count();
        let done = delete_documents(&mut self.vault, &ids, MissingIds::Ignore, &mut self.rng);
        if there == self.model.len() {
            assert!(matches!(done, Err(ClientError::NothingLeft(_))));
            return;
        }
        assert_eq!(done.unwrap().deleted, there);
        ids.iter().for_each(|id| drop(self.model.remove(id)));
    }

    pub(crate) fn collection(&self) -> BlindCollection {
        BlindCollection::open(&self.vault).unwrap()
    }

    fn root(&self) -> Root {
        self.vault.snapshot().unwrap().root().clone()
    }

    fn tags(&self) -> Vec<[u8; 32]> {
        self.collection().blocks().iter().map(|block| *block.tag.expose()).collect()
    }

    /// The slots that are other values than in an earlier root.
    fn changed(&self, before: &Root) -> Vec<Slot> {
        let after = self.root();
        let entries = after.entries.iter();
        let changed = entries.filter(|(slot, entry)| before.entries.get(slot) != Some(entry));
        changed.map(|(slot, _)| *slot).collect()
    }

    /// The vault holds the documents of the model, to the bit, and is whole.
    pub(crate) fn check(&self) {
        let verified = verify_vault(&self.vault, UNWATCHED).unwrap();
        assert_eq!(verified.documents, self.model.len());
        assert!(contents(&self.vault) == bits(&self.model), "other documents");
        let snapshot = self.vault.snapshot().unwrap();
        let collection = BlindCollection::read(&self.vault, &snapshot).unwrap();
        assert_eq!(collection.rows(), self.model.len());
        assert_eq!(collection.places(), collection.blocks().len() * PLACES);
        let mut grouped: Vec<u32> = (0..collection.cell_count() as u32)
            .flat_map(|cell| collection.blocks_of(cell))
            .copied()
            .collect();
        grouped.sort_unstable();
        assert!(grouped.into_iter().eq(0..collection.head().blocks), "every block is in one cell");
        for block in 0..collection.blocks().len() {
            let integers = collection.integers(&snapshot, block).unwrap();
            for (place, row) in integers.chunks_exact(WIDTH).enumerate() {
                let expected: Vec<i32> = match collection.id(block * PLACES + place) {
                    Some(id) => collection.grid().encode(&self.model[id]).collect(),
                    None => vec![0; WIDTH],
                };
                assert_eq!(row, expected, "block {block}, place {place}");
            }
        }
    }
}

/// The documents of a vault, with the bits of their vectors.
pub(crate) fn contents(vault: &Vault) -> BTreeMap<String, Vec<u32>> {
    let (ids, vectors) = stored_documents(vault).unwrap();
    let rows = (0..vectors.rows()).map(|row| vectors.row(row).to_vec());
    bits(&ids.into_iter().zip(rows).collect())
}

fn bits(documents: &BTreeMap<String, Vec<f32>>) -> BTreeMap<String, Vec<u32>> {
    let bits = |vector: &Vec<f32>| vector.iter().map(|v| v.to_bits()).collect();
    documents.iter().map(|(id, vector)| (id.clone(), bits(vector))).collect()
}

fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
