//! Documents put, replaced and deleted over several commits, chunk by chunk.

use std::collections::{BTreeMap, BTreeSet};

use half::f16;
use proptest::prelude::*;

use super::super::chunk::rows_per_chunk;
use super::super::rows::stored_vectors_of;
use super::*;
use crate::index::ChunkSpan;

/// Wide enough that a chunk of single precision has few rows.
const WIDE: usize = 384;
const FULL: usize = 64;

/// A vector that follows from its seed, in half or single precision.
fn vector(seed: u64, is_half: bool) -> Vec<f32> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let unit = || rng.next_u32() as f32 / u32::MAX as f32 - 0.5;
    let values = std::iter::repeat_with(unit).take(WIDE);
    if is_half { values.map(|v| f16::from_f32(v).to_f32()).collect() } else { values.collect() }
}

fn to_bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// A vault of wide vectors, and what must be in it.
struct Wide {
    world: World,
    model: BTreeMap<String, Vec<f32>>,
}

impl Wide {
    fn with(rows: usize) -> Self {
        let world = World::of(&Settings {
            candidates: Choice::Fixed(10),
            d_pub: Choice::Fixed(2),
            ..Settings::new(CellCount::Cells(2))
        });
        let mut wide = Self { world, model: BTreeMap::new() };
        wide.put((0..rows).map(|row| (row, vector(row as u64, row % 5 == 0))));
        wide
    }

    fn put(&mut self, documents: impl Iterator<Item = (usize, Vec<f32>)>) -> Ingested {
        let documents: BTreeMap<usize, Vec<f32>> = documents.collect();
        let ids: Vec<String> = documents.keys().map(|id| format!("doc-{id:03}")).collect();
        let values = documents.values().flatten().copied().collect();
        let done = self.world.ingest(&ids, &VectorSet::new(WIDE, values).unwrap());
        self.model.extend(ids.into_iter().zip(documents.into_values()));
        done
    }

    fn delete(&mut self, ids: &BTreeSet<usize>) {
        let ids: Vec<String> = ids.iter().map(|id| format!("doc-{id:03}")).collect();
        let (vault, rng) = (&mut self.world.vault, &mut self.world.rng);
        let there = ids.iter().filter(|id| self.model.contains_key(*id)).count();
        let done = delete_documents(vault, &ids, MissingIds::Ignore, rng);
        if there == self.model.len() {
            assert!(matches!(done, Err(ClientError::NothingLeft(_))));
            return;
        }
        assert_eq!(done.unwrap().deleted, there);
        ids.iter().for_each(|id| drop(self.model.remove(id)));
    }

    fn chunks(&self) -> Vec<ChunkSpan> {
        self.world.collection().index().chunks().to_vec()
    }

    /// The vault holds the documents of the model, to the bit, and is whole.
    fn check(&self) {
        let verified = verify_vault(&self.world.vault, UNWATCHED).unwrap();
        assert_eq!(verified.documents, self.model.len());
        let snapshot = self.world.vault.snapshot().unwrap();
        let collection = Collection::read(&self.world.vault, &snapshot).unwrap();
        let vectors = stored_vectors_of(&snapshot, &collection).unwrap();
        let held: BTreeMap<&str, Vec<u32>> = (0..)
            .zip(collection.index().ids())
            .map(|(row, id)| (id, to_bits(vectors.row(row))))
            .collect();
        assert_eq!(held.len(), self.model.len());
        for (id, vector) in &self.model {
            assert!(held[id.as_str()] == to_bits(vector), "{id}");
        }
        for span in collection.index().chunks() {
            assert!(span.rows >= 1 && span.rows <= 128, "{span:?}");
        }
    }
}

/// What one commit does.
#[derive(Clone, Debug)]
enum Step {
    Put(BTreeSet<usize>, u64, bool),
    Delete(BTreeSet<usize>),
    Stretch(usize, usize),
    Rekey,
}

fn steps() -> impl Strategy<Value = Step> {
    let some = |most| prop::collection::btree_set(0_usize..200, 1..most);
    prop_oneof![
        4 => (some(60), 1000_u64..1_000_000, any::<bool>())
            .prop_map(|(ids, seed, is_half)| Step::Put(ids, seed, is_half)),
        3 => some(60).prop_map(Step::Delete),
        2 => (0_usize..200, 20_usize..90).prop_map(|(from, count)| Step::Stretch(from, count)),
        1 => Just(Step::Rekey),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]
    #[test]
    fn a_vault_holds_what_a_map_holds_after_every_commit(
        steps in prop::collection::vec(steps(), 1..7),
    ) {
        let mut wide = Wide::with(150);
        wide.check();
        for step in steps {
            match step {
                Step::Put(ids, seed, is_half) => {
                    let there = |id: &usize| wide.model.contains_key(&format!("doc-{id:03}"));
                    let replaced = ids.iter().filter(|id| there(id)).count();
                    let new = ids.iter().map(|&id| (id, vector(seed + id as u64, is_half)));
                    let done = wide.put(new);
                    prop_assert_eq!((done.added, done.replaced), (ids.len() - replaced, replaced));
                }
                Step::Delete(ids) => wide.delete(&ids),
                Step::Stretch(from, count) => wide.delete(&(from..from + count).collect()),
                Step::Rekey => {
                    rekey(&mut wide.world.vault, UNWATCHED, &mut wide.world.rng).unwrap();
                }
            }
            wide.check();
        }
    }
}

#[test]
fn vectors_of_half_precision_take_half_the_room() {
    let mut sizes = [false, true].map(|is_half| {
        let mut wide = Wide::with(2);
        wide.put((0..32).map(|row| (row, vector(row as u64 + 50, is_half))));
        wide.check();
        let root = wide.world.root();
        u64::from(root.entries[&Slot::Vectors(0)].length)
    });
    sizes.reverse();
    assert!(sizes[0] * 2 < sizes[1] + 200, "{sizes:?}");
    // One document of single precision among those of half is kept as it is, to the bit.
    let mut wide = Wide::with(2);
    wide.put((0..32).map(|row| (row, vector(row as u64 + 50, row != 3))));
    wide.check();
}

#[test]
fn chunks_are_filled_in_order_and_thin_ones_are_put_together() {
    let mut wide = Wide::with(200);
    let rows = |wide: &Wide| wide.chunks().iter().map(|span| span.rows).collect::<Vec<_>>();
    assert_eq!(rows_per_chunk(&vector(1, false), WIDE), FULL);
    assert_eq!(rows(&wide), [64, 64, 64, 8]);
    // New documents fill the last chunk, then others.
    wide.put((200..340).map(|id| (id, vector(id as u64, false))));
    assert_eq!(rows(&wide), [64, 64, 64, 64, 64, 20]);
    // Few are left of the second, which does not fit into the first: it stays as it is.
    wide.delete(&(64..120).collect());
    assert_eq!(rows(&wide), [64, 8, 64, 64, 64, 20]);
    // Few are left of the third as well: they go to the second.
    wide.delete(&(128..184).collect());
    assert_eq!(rows(&wide), [64, 16, 64, 64, 20]);
    // One without rows is gone, and its neighbours are as they were.
    wide.delete(&(192..256).collect());
    assert_eq!(rows(&wide), [64, 16, 64, 20]);
    wide.check();
    // Rows stay in the order in which they came.
    let collection = wide.world.collection();
    assert!(collection.index().ids().is_sorted());
}

#[test]
fn adding_one_document_rewrites_few_values() {
    let mut wide = Wide::with(500);
    let before = wide.world.root();
    assert!(before.entries.len() > 20, "{} values", before.entries.len());
    wide.put([(500, vector(7, false))].into_iter());
    let after = wide.world.root();
    let changed: Vec<Slot> = after
        .entries
        .iter()
        .filter(|(slot, entry)| before.entries.get(slot) != Some(entry))
        .map(|(slot, _)| *slot)
        .collect();
    // The last chunk, how many rows there are, the record of drift, that there was a commit, and the
    // canaries, whether or not one came.
    let expected = [
        Slot::Drift,
        Slot::History(0),
        Slot::Journal(3),
        Slot::Vectors(7),
        Slot::Canaries,
        Slot::Names,
        Slot::Routing(7),
    ];
    assert_eq!(changed, expected);
    assert!(before.entries.keys().all(|slot| after.entries.contains_key(slot)));
    // Replacing one in the middle, and deleting one, is as little.
    for act in [0, 1] {
        let before = wide.world.root();
        if act == 0 {
            wide.put([(200, vector(8, false))].into_iter());
        } else {
            wide.delete(&[201].into());
        }
        let after = wide.world.root();
        let entries = after.entries.iter();
        let changed = entries.filter(|(slot, entry)| before.entries.get(slot) != Some(entry));
        assert_eq!(changed.count(), 7);
    }
    wide.check();
}

#[test]
fn the_same_documents_again_write_nothing() {
    let mut wide = Wide::with(100);
    let file = wide.world.vault.directory().join("vault.sqlite");
    let (head, bytes) = (wide.world.vault.head().unwrap(), std::fs::read(&file).unwrap());
    for some in [0..1, 0..100, 31..65] {
        let count = some.len();
        let done = wide.put(some.map(|row| (row, vector(row as u64, row % 5 == 0))));
        let expected = Ingested { unchanged: count, ..Ingested::default() };
        assert_eq!(done, expected);
    }
    assert_eq!(wide.world.vault.head().unwrap(), head);
    assert!(std::fs::read(&file).unwrap() == bytes, "the database was written to");
    // One that changed among those that did not is the only one that counts.
    let done = wide.put((0..50).map(|row| {
        let seed = if row == 9 { 999 } else { row as u64 };
        (row, vector(seed, row % 5 == 0))
    }));
    assert_eq!((done.replaced, done.unchanged), (1, 49));
    assert_eq!(wide.world.vault.head().unwrap().parent, Some(head.name));
    wide.check();
}

#[test]
fn a_document_of_which_no_row_can_be_made_is_refused_before_it_is_stored() {
    let mut world = World::with(CellCount::Cells(4), 30);
    let head = world.vault.head().unwrap();
    let long = VectorSet::new(WIDTH, vec![1e6; WIDTH]).unwrap();
    for id in ["doc-3", "new"].map(String::from) {
        let ids = [id];
        let documents = Documents { ids: &ids, vectors: &long, sample_queries: None };
        let refused = ingest(&mut world.vault, &documents, UNWATCHED, &mut world.rng);
        assert!(matches!(refused, Err(ClientError::Overflow(_))), "{refused:?}");
    }
    assert_eq!(world.vault.head().unwrap(), head);
    world.check();
}
