//! The whole of a collection in memory, while it is changed.

use std::collections::HashSet;

use rand_core::CryptoRng;
use shard_geometry::VectorSet;
use shard_protocol::{Leak, Row, RowBatch, RowHandle, declassify};

use super::ingest::Documents;
use super::rows::encode_vectors;
use super::{Collection, model_drift, published_rows, stored_vectors, unusable};
use crate::canary::draw_canaries;
use crate::drift::{Energy, ModelDrift};
use crate::error::ClientError;
use crate::index::{Index, IndexedRow, Removal};
use crate::keys::{KeySchedule, SaltedEpoch};
use crate::model::{Model, Placed};
use crate::progress::{Progress, Watch, stretch};
use crate::protect::{assign_handle, attempt_of, protect};
use crate::settings::Settings;
use crate::vault::{FileKind, Transaction, Vault};

/// Picoseconds of one core to protect a row, for each of the square of its width.
const PROTECT_TIME: u64 = 100;

/// Model, index, rows, vectors and drift, which go together. What is kept by row is in the order
/// of the index, but for the rows for the server, which are known by their handles.
pub(super) struct Draft {
    pub(super) model: Model,
    pub(super) index: Index,
    pub(super) keys: KeySchedule,
    rows: Vec<Row>,
    width: usize,
    values: Vec<f32>,
    drift: ModelDrift,
    /// Documents removed since it was opened.
    deleted: usize,
    /// Whether the model is not yet in the vault.
    new_model: bool,
}

impl Draft {
    /// A collection as it is.
    pub(super) fn open(vault: &Vault) -> Result<Self, ClientError> {
        let Collection { model, index, keys, .. } = Collection::open(vault)?;
        let rows = published_rows(vault)?.into_rows();
        let (width, values) = (model.split().width(), stored_vectors(vault)?.into_values());
        let drift = model_drift(vault)?;
        if values.len() != index.rows() * width || drift.documents() != index.rows() {
            let problem = "its rows are not those of the index".to_owned();
            return Err(unusable("vectors")(crate::PayloadError::Invalid(problem)));
        }
        Ok(Self { model, index, keys, rows, width, values, drift, deleted: 0, new_model: false })
    }

    /// A collection of these documents under a model that is fitted to them.
    pub(super) fn fitted(
        settings: &Settings,
        epoch: SaltedEpoch,
        keys: KeySchedule,
        documents: &Documents<'_>,
        watch: &Watch<'_>,
    ) -> Result<Self, ClientError> {
        let (vectors, queries) = (documents.vectors, documents.sample_queries);
        let (rows, width) = (vectors.rows(), vectors.width());
        let fit = Model::fit_work(settings, rows, width, queries.map(VectorSet::rows));
        let protect = rows as u64 * PROTECT_TIME * (width * width) as u64;
        let total = fit + protect + ModelDrift::measure_work(rows, width);
        let part = stretch(watch, 0, fit, total);
        let (model, placed) = Model::fit(settings, epoch, vectors, queries, &part)?;
        let energies = placed.energies.clone();
        let part = stretch(watch, fit, protect, total);
        let mut draft = Self::protected((model, placed), keys, documents, &[], &part)?;
        draft.drift = ModelDrift::at_fit(&draft.model, &draft.index, vectors, &energies)?;
        if watch(Progress { done: total, total }).is_break() {
            return Err(ClientError::Cancelled);
        }
        Ok(draft)
    }

    /// A collection of these documents under keys and names of its own: rows and canaries are made
    /// anew, and what was recorded of the model's drift stays.
    pub(super) fn rekeyed(
        model: Model,
        keys: KeySchedule,
        documents: &Documents<'_>,
        (drift, late): (ModelDrift, &[bool]),
        watch: &Watch<'_>,
    ) -> Result<Self, ClientError> {
        let placed = model.place(documents.vectors)?;
        Ok(Self { drift, ..Self::protected((model, placed), keys, documents, late, watch)? })
    }

    fn protected(
        (model, placed): (Model, Placed),
        keys: KeySchedule,
        documents: &Documents<'_>,
        late: &[bool],
        watch: &Watch<'_>,
    ) -> Result<Self, ClientError> {
        let mut draft = Self {
            index: Index::empty(model.split().prefix()),
            rows: Vec::new(),
            width: documents.vectors.width(),
            values: Vec::new(),
            drift: ModelDrift::default(),
            deleted: 0,
            new_model: true,
            model,
            keys,
        };
        draft.put(documents, &placed, &|at| late.get(at).copied().unwrap_or(false), watch)?;
        let (model, keys) = (&draft.model, &draft.keys);
        let canaries = draw_canaries(model, keys, &draft.rows, &mut draft.index.handles_in_use())?;
        draft.rows.extend(canaries.iter().map(|canary| canary.row(keys)));
        draft.index.set_canaries(canaries);
        draft.rebuild_lists()?;
        Ok(draft)
    }

    /// Adds documents, or replaces those whose id is known, and returns how many were replaced.
    pub(super) fn upsert(
        &mut self,
        documents: &Documents<'_>,
        watch: &Watch<'_>,
    ) -> Result<usize, ClientError> {
        shard_geometry::check_vector(self.width, documents.vectors.row(0))?;
        let placed = self.model.place(documents.vectors)?;
        let places = self.put(documents, &placed, &|_| true, watch)?;
        let came = places.iter().zip(&placed.energies).filter(|(place, _)| place.is_changed);
        let came: Vec<Energy> = came.map(|(_, energy)| *energy).collect();
        self.drift.came(&came);
        Ok(documents.ids.len() - places.iter().filter(|place| place.is_new).count())
    }

    /// Protects documents and records them. Says where each of them went.
    fn put(
        &mut self,
        documents: &Documents<'_>,
        placed: &Placed,
        is_late: &dyn Fn(usize) -> bool,
        watch: &Watch<'_>,
    ) -> Result<Vec<Place>, ClientError> {
        let existing: Vec<Option<u32>> = {
            let known = self.index.rows_by_id();
            documents.ids.iter().map(|id| known.get(id.as_str()).copied()).collect()
        };
        let handles = self.name(documents, &existing);
        let replaced: HashSet<RowHandle> =
            existing.iter().flatten().map(|row| self.index.handle(*row)).collect();
        let changed = (0..).zip(&existing).filter_map(|(at, row)| {
            row.filter(|&row| self.vector(row) != documents.vectors.row(at))
        });
        let changed: Vec<u32> = changed.collect();
        self.forget_energies(&changed)?;
        let cells = placed.cells.as_deref();
        let rows = protect(&self.model, &self.keys, documents.vectors, cells, &handles, watch)?;
        let places = self.record(documents, &existing, placed, &rows, is_late);
        self.rows.retain(|row| !replaced.contains(&row.handle));
        self.rows.extend(rows);
        Ok(places)
    }

    /// The handle of each document. Another vector under a known id gets a new one, for two
    /// reasons: an older copy of the vault is then told that its row is gone, where it would
    /// otherwise add a new residual to an old prefix; and where the name makes the key, two
    /// vectors under one key would show their inner product. The same vector again is the same
    /// row.
    fn name(&self, documents: &Documents<'_>, existing: &[Option<u32>]) -> Vec<RowHandle> {
        let mut in_use = self.index.handles_in_use();
        let first = self.index.first_attempt();
        let ids = documents.ids.iter().zip(existing).enumerate();
        ids.map(|(at, (id, existing))| match existing {
            Some(row) if self.vector(*row) == documents.vectors.row(at) => self.index.handle(*row),
            _ => {
                let before = existing.map(|row| self.index.handle(row));
                assign_handle(&self.keys, id, before, first, &mut in_use)
            }
        })
        .collect()
    }

    fn vector(&self, row: u32) -> &[f32] {
        &self.values[row as usize * self.width..][..self.width]
    }

    fn record(
        &mut self,
        documents: &Documents<'_>,
        existing: &[Option<u32>],
        placed: &Placed,
        rows: &[Row],
        is_late: &dyn Fn(usize) -> bool,
    ) -> Vec<Place> {
        let width = self.model.split().prefix();
        let lengths = documents.vectors.norms();
        let mut places = Vec::with_capacity(documents.ids.len());
        for (at, id) in documents.ids.iter().enumerate() {
            let vector = documents.vectors.row(at);
            let place = match existing[at] {
                Some(row) => {
                    let held = &mut self.values[row as usize * self.width..][..self.width];
                    let is_changed = held != vector;
                    held.copy_from_slice(vector);
                    Place { row, is_new: false, is_changed }
                }
                None => {
                    self.values.extend_from_slice(vector);
                    Place { row: self.index.rows() as u32, is_new: true, is_changed: true }
                }
            };
            let row = IndexedRow {
                id,
                handle: rows[at].handle,
                prefix: &placed.prefixes[at * width..][..width],
                residual_norm: placed.residual_norms[at],
                cell: placed.cells.as_ref().map(|cells| cells[at]),
                length: lengths[at],
                is_late: if place.is_changed { is_late(at) } else { self.index.is_late(place.row) },
            };
            self.index.put(existing[at], &row);
            places.push(place);
        }
        places
    }

    /// Takes the energies of late documents out of the record of drift, before they are replaced
    /// or removed.
    fn forget_energies(&mut self, rows: &[u32]) -> Result<(), ClientError> {
        let late = rows.iter().copied().filter(|&row| self.index.is_late(row));
        let values: Vec<f32> = late.flat_map(|row| self.vector(row)).copied().collect();
        if !values.is_empty() {
            let placed = self.model.place(&VectorSet::new(self.width, values)?)?;
            self.drift.gone(&placed.energies);
        }
        Ok(())
    }

    /// Removes rows of the index, and everything that is kept of them.
    pub(super) fn remove(&mut self, rows: &[u32]) -> Result<(), ClientError> {
        self.forget_energies(rows)?;
        self.deleted += rows.len();
        let mut gone = HashSet::with_capacity(rows.len());
        for &row in rows {
            let handle = self.index.handle(row);
            self.index.retire(attempt_of(&self.keys, self.index.id(row), handle));
            gone.insert(handle);
        }
        let removal = Removal::new(self.index.rows(), rows);
        removal.apply(&mut self.values, self.width);
        self.index.remove(rows);
        self.rows.retain(|row| !gone.contains(&row.handle));
        Ok(())
    }

    /// After rows were put or removed: brings the cells and the drift up to date.
    pub(super) fn settle(&mut self) -> Result<(), ClientError> {
        self.rebuild_lists()?;
        self.drift.settle(&self.index, self.deleted);
        if !self.drift.measure_due(self.index.rows()) {
            return Ok(());
        }
        let vectors = VectorSet::new(self.width, std::mem::take(&mut self.values))?;
        let measured = self.drift.measure(&self.model, &self.index, &vectors);
        self.values = vectors.into_values();
        measured
    }

    fn rebuild_lists(&mut self) -> Result<(), ClientError> {
        let count = self.model.cells().map(|cells| cells.count());
        self.index.rebuild_lists(count).map_err(unusable("index"))
    }

    /// Writes all of it and commits.
    pub(super) fn commit(
        self,
        mut transaction: Transaction<'_>,
        rng: &mut impl CryptoRng,
    ) -> Result<(), ClientError> {
        let vectors = VectorSet::new(self.width, self.values)?;
        let batch = RowBatch::new(
            declassify(self.model.epoch(), Leak::CollectionShape),
            declassify(self.model.split().residual(), Leak::CollectionShape),
            declassify(self.rows, Leak::StoredRows),
        );
        if self.new_model {
            transaction.write(FileKind::Model, &self.model.encode(), rng)?;
        }
        transaction.write(FileKind::Index, &self.index.encode(), rng)?;
        transaction.write(FileKind::ModelDrift, &self.drift.encode(), rng)?;
        transaction.write(FileKind::Vectors, &encode_vectors(&vectors), rng)?;
        transaction.write(FileKind::PublishedRows, &batch.encode(), rng)?;
        Ok(transaction.commit(rng)?)
    }
}

/// Where a document went.
pub(super) struct Place {
    row: u32,
    is_new: bool,
    /// Whether it is new, or another vector than the one it replaced.
    is_changed: bool,
}
