//! A vault opened for use: model, routing index and keys together.

use std::collections::HashSet;
use std::path::Path;

use rand_core::CryptoRng;
use shard_geometry::VectorSet;
use shard_protocol::{Epoch, Leak, Limits, RowBatch, declassify};
use shard_rlwe::OperandBound;

use crate::canary::draw_canaries;

use crate::error::ClientError;
use crate::index::{Index, IndexedRow};
use crate::keys::KeySchedule;
use crate::model::Model;
use crate::payload::{PayloadError, Reader, Writer};
use crate::protect::{Protected, assign_handle, protect};
use crate::settings::Settings;
use crate::vault::{FileKind, KdfCost, Unlock, Vault};

const VECTORS_VERSION: u16 = 1;

/// Longest id that is stored.
const MAX_ID_BYTES: usize = 65_535;

/// A collection of documents that has a model.
pub struct Collection {
    model: Model,
    index: Index,
    keys: KeySchedule,
}

/// What an ingest did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ingested {
    /// New documents.
    pub added: usize,
    /// Documents that replaced one of the same id.
    pub replaced: usize,
    /// Whether the model was fitted to these documents.
    pub fitted: bool,
}

/// Documents to be ingested.
pub struct Documents<'a> {
    /// The owner's ids, one a vector.
    pub ids: &'a [String],
    /// Their vectors.
    pub vectors: &'a VectorSet,
    /// Queries to make the automatic choices for, where the owner has some.
    pub sample_queries: Option<&'a VectorSet>,
}

/// Makes a vault that remembers its settings and holds no documents.
pub fn create_vault(
    directory: &Path,
    unlock: &Unlock,
    cost: KdfCost,
    settings: &Settings,
    rng: &mut impl CryptoRng,
) -> Result<Vault, ClientError> {
    settings.check()?;
    let mut vault = Vault::create(directory, unlock, cost, rng)?;
    let json = serde_json::to_vec(settings).expect("settings are plain data");
    let mut transaction = vault.transaction()?;
    transaction.write(FileKind::Settings, &json, rng)?;
    transaction.commit(rng)?;
    Ok(vault)
}

/// The settings a vault was made with.
pub fn vault_settings(vault: &Vault) -> Result<Settings, ClientError> {
    let bytes = vault.read(FileKind::Settings)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| unusable("settings")(PayloadError::Invalid(error.to_string())))
}

fn unusable(file: &'static str) -> impl Fn(PayloadError) -> ClientError {
    move |problem| ClientError::Payload { file, problem }
}

impl Collection {
    /// Reads model and index.
    pub fn open(vault: &Vault) -> Result<Self, ClientError> {
        if !vault.contains(FileKind::Model) {
            return Err(ClientError::Empty);
        }
        let model = Model::decode(&vault.read(FileKind::Model)?).map_err(unusable("model"))?;
        let count = model.cells().map(|cells| cells.count());
        let index = Index::decode(&vault.read(FileKind::Index)?, model.split().public(), count)
            .map_err(unusable("index"))?;
        Ok(Self { model, index, keys: KeySchedule::new(vault.master()) })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The routing index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    pub(crate) fn keys(&self) -> &KeySchedule {
        &self.keys
    }
}

/// Adds documents, or replaces those whose id is known. The first ingest fits the model. Either
/// all of it is in the vault afterwards or nothing has changed.
pub fn ingest(
    vault: &mut Vault,
    documents: &Documents<'_>,
    progress: &(dyn Fn(usize) + Sync),
    rng: &mut impl CryptoRng,
) -> Result<Ingested, ClientError> {
    check_ids(documents)?;
    let fitted = !vault.contains(FileKind::Model);
    let (mut collection, mut rows, mut vectors) = if fitted {
        let settings = vault_settings(vault)?;
        let model = Model::fit(&settings, Epoch(1), documents.vectors, documents.sample_queries)?;
        let index = Index::empty(model.split().public());
        let keys = KeySchedule::new(vault.master());
        (Collection { model, index, keys }, Vec::new(), Vec::new())
    } else {
        let collection = Collection::open(vault)?;
        let width = collection.model.split().width();
        shard_geometry::check_vector(width, documents.vectors.row(0))?;
        (collection, release(vault)?.into_rows(), stored_vectors(vault)?.into_values())
    };

    let existing: Vec<Option<u32>> = {
        let known = collection.index.rows_by_id();
        documents.ids.iter().map(|id| known.get(id.as_str()).copied()).collect()
    };
    let mut in_use = collection.index.handles_in_use();
    let handles: Vec<_> = documents
        .ids
        .iter()
        .zip(&existing)
        .map(|(id, existing)| match existing {
            // A row whose key is its own gets a new name and with it a new key: two vectors
            // under one key would show their inner product.
            Some(row) if collection.model.cells().is_some() => collection.index.handle(*row),
            _ => {
                let before = existing.map(|row| collection.index.handle(row));
                assign_handle(&collection.model, &collection.keys, id, before, &mut in_use)
            }
        })
        .collect();
    let replaced: HashSet<_> =
        existing.iter().flatten().map(|row| collection.index.handle(*row)).collect();
    let protected =
        protect(&collection.model, &collection.keys, documents.vectors, &handles, progress)?;

    record(&mut collection.index, documents, &existing, &protected);
    if fitted {
        let (model, keys) = (&collection.model, &collection.keys);
        let canaries = draw_canaries(model, keys, &protected.rows, &mut in_use)?;
        rows.extend(canaries.iter().map(|canary| canary.row(model, keys)));
        collection.index.set_canaries(canaries);
    }
    let cell_count = collection.model.cells().map(|cells| cells.count());
    collection.index.rebuild_lists(cell_count).map_err(unusable("index"))?;
    replace_vectors(&mut vectors, documents.vectors, &existing);
    rows.retain(|row| !replaced.contains(&row.handle));
    rows.extend(protected.rows);
    let batch = RowBatch::new(
        declassify(collection.model.epoch(), Leak::CollectionShape),
        declassify(collection.model.split().private(), Leak::CollectionShape),
        declassify(rows, Leak::StoredRows),
    );

    let mut transaction = vault.transaction()?;
    if fitted {
        transaction.write(FileKind::Model, &collection.model.encode(), rng)?;
    }
    transaction.write(FileKind::Index, &collection.index.encode(), rng)?;
    transaction.write(
        FileKind::Vectors,
        &encode_vectors(documents.vectors.width(), &vectors),
        rng,
    )?;
    transaction.write(FileKind::Release, &batch.encode(), rng)?;
    transaction.commit(rng)?;

    let replaced = replaced.len();
    Ok(Ingested { added: documents.ids.len() - replaced, replaced, fitted })
}

fn check_ids(documents: &Documents<'_>) -> Result<(), ClientError> {
    let (ids, vectors) = (documents.ids.len(), documents.vectors.rows());
    if ids != vectors {
        return Err(ClientError::IdCount { ids, vectors });
    }
    let mut seen = HashSet::with_capacity(ids);
    for id in documents.ids {
        if id.is_empty() || id.len() > MAX_ID_BYTES {
            return Err(ClientError::IdLength(id.len()));
        }
        if !seen.insert(id.as_str()) {
            return Err(ClientError::DuplicateId(id.clone()));
        }
    }
    Ok(())
}

fn record(
    index: &mut Index,
    documents: &Documents<'_>,
    existing: &[Option<u32>],
    protected: &Protected,
) {
    let width = protected.prefixes.len() / documents.ids.len();
    let lengths = documents.vectors.norms();
    for (at, id) in documents.ids.iter().enumerate() {
        let row = IndexedRow {
            id,
            handle: protected.rows[at].handle,
            prefix: &protected.prefixes[at * width..][..width],
            cell: protected.cells.as_ref().map(|cells| cells[at]),
            bound: OperandBound::of(&protected.rows[at].coordinates),
            length: lengths[at],
        };
        index.put(existing[at], &row);
    }
}

fn replace_vectors(held: &mut Vec<f32>, new: &VectorSet, existing: &[Option<u32>]) {
    let width = new.width();
    for (at, existing) in existing.iter().enumerate() {
        match existing {
            Some(row) => held[*row as usize * width..][..width].copy_from_slice(new.row(at)),
            None => held.extend_from_slice(new.row(at)),
        }
    }
}

/// What the server would hold: every row of the current epoch.
pub fn release(vault: &Vault) -> Result<RowBatch, ClientError> {
    if !vault.contains(FileKind::Release) {
        return Err(ClientError::Empty);
    }
    let unlimited = Limits { bytes: usize::MAX, rows: u32::MAX as usize, ..Limits::default() };
    RowBatch::decode(&vault.read(FileKind::Release)?, &unlimited)
        .map_err(|error| unusable("release")(PayloadError::Invalid(error.to_string())))
}

/// The documents' own vectors, as they were ingested, by row.
pub fn stored_vectors(vault: &Vault) -> Result<VectorSet, ClientError> {
    if !vault.contains(FileKind::Vectors) {
        return Err(ClientError::Empty);
    }
    let bytes = vault.read(FileKind::Vectors)?;
    let read = || {
        let mut reader = Reader::new(&bytes, VECTORS_VERSION)?;
        let width = reader.size()?;
        let values = reader.f32s()?;
        reader.finish()?;
        VectorSet::new(width, values).map_err(|error| PayloadError::Invalid(error.to_string()))
    };
    read().map_err(unusable("vectors"))
}

fn encode_vectors(width: usize, values: &[f32]) -> Vec<u8> {
    let mut writer = Writer::new(VECTORS_VERSION);
    writer.u64(width as u64);
    writer.f32s(values);
    writer.bytes
}
