//! The documents' own vectors, read when an owner's search needs them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::chunk::decode_vectors;
use super::rows::check_rows;
use super::{Collection, unusable};
use crate::error::ClientError;
use crate::index::ChunkSpan;
use crate::vault::{Slot, Snapshot};

/// Memory for vectors that were read: those of 170,000 documents of 384 dimensions.
const CACHE_BYTES: u64 = 256 << 20;

/// Chunks that the cache is first laid out for.
const EXPECTED_CHUNKS: usize = 256;

/// The vectors of a commit, by chunk. Recently used ones are kept.
pub(super) struct Originals {
    snapshot: Mutex<Snapshot>,
    cache: Cache<u32, Arc<Vec<f32>>, VectorBytes>,
}

/// Vectors weigh what memory they take.
#[derive(Clone)]
struct VectorBytes;

impl Weighter<u32, Arc<Vec<f32>>> for VectorBytes {
    fn weight(&self, _: &u32, vectors: &Arc<Vec<f32>>) -> u64 {
        4 * vectors.len() as u64
    }
}

impl Originals {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(EXPECTED_CHUNKS)
            .weight_capacity(CACHE_BYTES)
            .build()
            .expect("capacities are given");
        let (hash, life) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let cache = Cache::with_options(options, VectorBytes, hash, life);
        Self { snapshot: snapshot.into(), cache }
    }

    /// The vectors of these chunks, by number.
    fn chunks(
        &self,
        spans: &[ChunkSpan],
        width: usize,
    ) -> Result<HashMap<u32, Arc<Vec<f32>>>, ClientError> {
        let cached = |span: &ChunkSpan| Some((span.number, self.cache.get(&span.number)?));
        let mut found: HashMap<u32, Arc<Vec<f32>>> = spans.iter().filter_map(cached).collect();
        let missing: HashMap<u32, &ChunkSpan> = spans
            .iter()
            .filter(|span| !found.contains_key(&span.number))
            .map(|span| (span.number, span))
            .collect();
        let mut numbers: Vec<u32> = missing.keys().copied().collect();
        numbers.sort_unstable();
        let decode = |number: u32, bytes: &[u8]| {
            let values = decode_vectors(bytes, width).map_err(unusable("vectors"))?;
            check_rows(&values, missing[&number], width)?;
            Ok::<_, ClientError>(values)
        };
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        snapshot.each(Slot::Vectors, &numbers, decode, |number, values| {
            let values = Arc::new(values);
            self.cache.insert(number, values.clone());
            found.insert(number, values);
            Ok(())
        })?;
        Ok(found)
    }
}

impl Collection {
    /// Whether it has the documents' own vectors.
    pub(crate) fn has_originals(&self) -> bool {
        self.originals.is_some()
    }

    /// The vectors of rows, in their order. Of a collection that was opened from a query vault, those of
    /// canaries alone.
    pub(crate) fn vectors(&self, rows: &[u32]) -> Result<Vec<Option<Vec<f32>>>, ClientError> {
        let (index, width) = (&self.index, self.model.split().width());
        let places: BTreeSet<usize> = rows
            .iter()
            .filter(|&&row| self.originals.is_some() && !index.is_canary(row))
            .map(|&row| index.chunk_of(row))
            .collect();
        let spans: Vec<ChunkSpan> = places.iter().map(|&place| index.chunks()[place]).collect();
        let chunks = match &self.originals {
            Some(originals) => originals.chunks(&spans, width)?,
            None => HashMap::new(),
        };
        let vector = |&row: &u32| {
            if let Some(vector) = index.canary_vector(row) {
                return Some(vector.to_vec());
            }
            let span = index.chunks()[index.chunk_of(row)];
            let values = chunks.get(&span.number)?;
            Some(values[(row - span.first) as usize * width..][..width].to_vec())
        };
        Ok(rows.iter().map(vector).collect())
    }
}
