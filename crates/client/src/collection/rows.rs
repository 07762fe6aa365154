//! What the server gets of the documents, derived from their vectors; and the vectors themselves.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, OnceLock};

use shard_geometry::VectorSet;
use shard_protocol::{Leak, Row, RowBatch, RowHandle, declassify};

use super::chunk::decode_vectors;
use super::{Collection, unusable};
use crate::blind::{BlindCollection, documents_of};
use crate::error::ClientError;
use crate::index::ChunkSpan;
use crate::model::Model;
use crate::payload::PayloadError;
use crate::progress::{UNWATCHED, Watch};
use crate::protect::protect;
use crate::vault::{Slot, Snapshot, Vault, VaultAccess};

/// What the server would hold: every row of the current epoch.
///
/// # Errors
/// When the vault is empty or blind, or a query vault, which has no rows.
pub fn published_rows(vault: &Vault) -> Result<RowBatch, ClientError> {
    refuse_query_vault(vault)?;
    let snapshot = vault.snapshot()?;
    let collection = Collection::read(vault, &snapshot)?;
    all_rows(&snapshot, &collection, UNWATCHED)
}

/// Every row of a commit.
pub(crate) fn all_rows(
    snapshot: &Snapshot,
    collection: &Collection,
    watch: &Watch<'_>,
) -> Result<RowBatch, ClientError> {
    let Collection { model, index, keys, .. } = collection;
    let vectors = stored_vectors_of(snapshot, collection)?;
    let rows = protect(model, keys, &vectors, index.handles(), index.cells(), watch)?;
    Ok(batch(model, rows))
}

fn batch(model: &Model, rows: Vec<Row>) -> RowBatch {
    RowBatch::new(
        declassify(model.epoch(), Leak::CollectionShape),
        declassify(model.split().residual(), Leak::CollectionShape),
        declassify(rows, Leak::StoredRows),
    )
}

fn refuse_query_vault(vault: &Vault) -> Result<(), ClientError> {
    match vault.access() {
        VaultAccess::Owner => Ok(()),
        VaultAccess::Query => Err(ClientError::RowsOnServer),
    }
}

/// Rows of a vault, derived when they are asked for: a search of a few rows does not derive all.
///
/// It goes on reading the commit that it was opened at, as [`Collection::open`] does.
pub struct DerivedRows {
    collection: Arc<Collection>,
    places: OnceLock<HashMap<RowHandle, u32, BuildHasherDefault<Word>>>,
}

/// Names of rows are pseudorandom words, and need no hash.
#[derive(Default)]
struct Word(u64);

impl Hasher for Word {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl DerivedRows {
    /// The rows of a vault's latest commit.
    ///
    /// # Errors
    /// When the vault is empty or blind, or a query vault, which has no rows.
    pub fn open(vault: &Vault) -> Result<Self, ClientError> {
        refuse_query_vault(vault)?;
        Ok(Self { collection: Collection::open(vault)?.into(), places: OnceLock::new() })
    }

    /// The collection that they are rows of.
    pub fn collection(&self) -> &Arc<Collection> {
        &self.collection
    }

    /// The rows of these names, in any order; names that are nobody's are left out.
    ///
    /// # Errors
    /// When the vault is damaged or the disk refuses.
    pub fn rows(&self, handles: &[RowHandle]) -> Result<RowBatch, ClientError> {
        let Collection { model, index, keys, .. } = &*self.collection;
        let places = self.places.get_or_init(|| index.handles().iter().copied().zip(0..).collect());
        let wanted: Vec<u32> =
            handles.iter().filter_map(|handle| places.get(handle).copied()).collect();
        if wanted.is_empty() {
            return Ok(batch(model, Vec::new()));
        }
        let values = self.collection.vectors(&wanted)?.into_iter().flatten().flatten().collect();
        let vectors = VectorSet::new(model.split().width(), values)?;
        let names: Vec<RowHandle> = wanted.iter().map(|&row| index.handle(row)).collect();
        let cells: Option<Vec<u32>> =
            index.cells().map(|cells| wanted.iter().map(|&row| cells[row as usize]).collect());
        let rows = protect(model, keys, &vectors, &names, cells.as_deref(), UNWATCHED)?;
        Ok(batch(model, rows))
    }
}

/// The vectors of a chunk.
pub(super) fn read_vectors(
    snapshot: &Snapshot,
    span: &ChunkSpan,
    width: usize,
) -> Result<Vec<f32>, ClientError> {
    let bytes = snapshot.read(Slot::Vectors(span.number))?;
    let values = decode_vectors(&bytes, width).map_err(unusable("vectors"))?;
    check_rows(&values, span, width)?;
    Ok(values)
}

pub(super) fn check_rows(
    values: &[f32],
    span: &ChunkSpan,
    width: usize,
) -> Result<(), ClientError> {
    if values.len() == span.rows as usize * width {
        return Ok(());
    }
    let problem = "its rows are not those of the index".to_owned();
    Err(unusable("vectors")(PayloadError::Invalid(problem)))
}

/// The vectors of rows, in their order. Reads the chunks they are in.
pub(super) fn vectors_of(
    snapshot: &Snapshot,
    collection: &Collection,
    rows: &[u32],
) -> Result<Vec<f32>, ClientError> {
    let (index, width) = (&collection.index, collection.model.split().width());
    // By chunk: which of the rows are in it, and where.
    let mut wanted: BTreeMap<u32, (ChunkSpan, Vec<(usize, usize)>)> = BTreeMap::new();
    for (place, &row) in rows.iter().enumerate() {
        let span = index.chunks()[index.chunk_of(row)];
        let (_, places) = wanted.entry(span.number).or_insert((span, Vec::new()));
        places.push((place, (row - span.first) as usize));
    }
    let numbers: Vec<u32> = wanted.keys().copied().collect();
    let mut vectors = vec![0.0; rows.len() * width];
    // Of a chunk no more is kept than what is wanted.
    let decode = |number: u32, bytes: &[u8]| {
        let values = decode_vectors(bytes, width).map_err(unusable("vectors"))?;
        let (span, places) = &wanted[&number];
        check_rows(&values, span, width)?;
        Ok(places.iter().flat_map(|(_, at)| &values[at * width..][..width]).copied().collect())
    };
    snapshot.each(Slot::Vectors, &numbers, decode, |number, values: Vec<f32>| {
        for ((place, _), vector) in wanted[&number].1.iter().zip(values.chunks_exact(width)) {
            vectors[place * width..][..width].copy_from_slice(vector);
        }
        Ok::<_, ClientError>(())
    })?;
    Ok(vectors)
}

/// The documents' own vectors, as they were ingested, by row.
///
/// # Errors
/// When the vault is empty, or a query vault, which has vectors of canaries alone.
pub fn stored_vectors(vault: &Vault) -> Result<VectorSet, ClientError> {
    vault.require_owner("show the documents' vectors")?;
    let snapshot = vault.snapshot()?;
    if snapshot.contains(Slot::Blind) {
        return all_documents(vault, &snapshot).map(|(_, vectors)| vectors);
    }
    let collection = Collection::read(vault, &snapshot)?;
    stored_vectors_of(&snapshot, &collection)
}

/// The documents as they were ingested: their ids and their vectors, by row.
///
/// # Errors
/// When the vault is empty, or a query vault, which has vectors of canaries alone.
pub fn stored_documents(vault: &Vault) -> Result<(Vec<String>, VectorSet), ClientError> {
    vault.require_owner("show the documents' vectors")?;
    all_documents(vault, &vault.snapshot()?)
}

fn all_documents(
    vault: &Vault,
    snapshot: &Snapshot,
) -> Result<(Vec<String>, VectorSet), ClientError> {
    let (ids, vectors) = documents_where(vault, snapshot, |_| true)?;
    Ok((ids, vectors.ok_or(ClientError::Empty)?))
}

/// The vectors of a commit.
pub(crate) fn stored_vectors_of(
    snapshot: &Snapshot,
    collection: &Collection,
) -> Result<VectorSet, ClientError> {
    let width = collection.model.split().width();
    let spans = collection.index.chunks();
    let numbers: Vec<u32> = spans.iter().map(|span| span.number).collect();
    let mut values = Vec::with_capacity(collection.index.rows() * width);
    let mut spans = spans.iter();
    let decode = |_, bytes: &[u8]| decode_vectors(bytes, width).map_err(unusable("vectors"));
    snapshot.each(Slot::Vectors, &numbers, decode, |_, part: Vec<f32>| {
        check_rows(&part, spans.next().expect("a span for each number"), width)?;
        values.extend_from_slice(&part);
        Ok(())
    })?;
    Ok(VectorSet::new(width, values)?)
}

/// The documents of a commit whose ids are wanted: ids and vectors, unless there are none.
pub(crate) fn documents_where(
    vault: &Vault,
    snapshot: &Snapshot,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(Vec<String>, Option<VectorSet>), ClientError> {
    if snapshot.contains(Slot::Blind) {
        return documents_of(snapshot, &BlindCollection::read(vault, snapshot)?, is_wanted);
    }
    let collection = Collection::read(vault, snapshot)?;
    let wanted = (0..).zip(collection.index.ids()).filter(|(_, id)| is_wanted(id));
    let (rows, ids): (Vec<u32>, Vec<String>) = wanted.map(|(row, id)| (row, id.to_owned())).unzip();
    if rows.is_empty() {
        return Ok((ids, None));
    }
    let values = vectors_of(snapshot, &collection, &rows)?;
    Ok((ids, Some(VectorSet::new(collection.model.split().width(), values)?)))
}
