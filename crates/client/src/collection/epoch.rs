//! Epochs: every row under another key and another name.
//!
//! The server goes from the old epoch to the new one when the new one is published; until then it
//! holds rows that this vault can no longer search. The documents' own vectors stay as they are
//! stored.

use std::ops::{ControlFlow, Range};

use rand_core::CryptoRng;
use shard_geometry::VectorSet;
use shard_protocol::{Epoch, RowHandle};

use super::canaries::{Canaries, Choice};
use super::chunk::{RoutingRows, is_half};
use super::journal::Journal;
use super::rotated::record_of;
use super::rows::stored_vectors_of;
use super::{Collection, Names, drift_of, encode_settings, require_rotated, settings_of};
use crate::blind;
use crate::drift::ModelDrift;
use crate::error::ClientError;
use crate::keys::{KeySchedule, SaltedEpoch};
use crate::model::{Model, Placed};
use crate::progress::{Progress, Watch, stretch};
use crate::protect::assign_handle;
use crate::settings::{CellCount, Settings};
use crate::vault::{Slot, Transaction, Vault};

/// An epoch that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewEpoch {
    /// Its number.
    pub epoch: Epoch,
    /// Documents protected anew.
    pub documents: usize,
}

/// Fits a new model to the documents as they are now, with the settings of the vault, and begins a
/// new epoch with it. With `cells`, the vault goes over to another number of keys.
///
/// # Errors
/// When the vault is empty, blind, a query vault or being written to, no model can be fitted, or the disk
/// refuses. Nothing has changed then.
pub fn refit(
    vault: &mut Vault,
    cells: Option<CellCount>,
    sample_queries: Option<&VectorSet>,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<NewEpoch, ClientError> {
    vault.require_owner("be refitted")?;
    let mut transaction = vault.transaction(rng)?;
    require_rotated(transaction.before())?;
    let held = Held::read(&transaction)?;
    let mut settings = settings_of(transaction.before())?;
    if let Some(cells) = cells {
        settings = settings.with_cells(cells);
        settings.check()?;
        transaction.put(Slot::Settings, &encode_settings(&settings), rng)?;
    }
    let epoch = held.next_epoch(rng);
    let plan = FitPlan::new(&settings, &held.vectors, sample_queries, watch);
    let fitted = Model::fit(&settings, epoch, &held.vectors, sample_queries, &plan.fitting())?;
    let begun = held.write(transaction, fitted, Drift::Fitted, &plan.writing(), rng)?;
    plan.finish();
    Ok(begun)
}

/// Begins a new epoch with the same model: fresh keys and names; in a blind vault fresh keys
/// and tags of all blocks. Query vaults exported
/// before hold the secret of another epoch, and find nothing in this one.
///
/// # Errors
/// When the vault is empty, a query vault or being written to, or the disk refuses. Nothing has
/// changed then.
pub fn rekey(
    vault: &mut Vault,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<NewEpoch, ClientError> {
    vault.require_owner("be rekeyed")?;
    let transaction = vault.transaction(rng)?;
    if transaction.before().contains(Slot::Blind) {
        return blind::rekey(transaction, watch, rng);
    }
    let mut held = Held::read(&transaction)?;
    let epoch = held.next_epoch(rng);
    let drift = drift_of(transaction.before())?;
    let placed = held.placed();
    let model = held.model.take().expect("it was just read").in_epoch(epoch);
    held.write(transaction, (model, placed), Drift::Kept(drift), watch, rng)
}

/// How the time of fitting a model and writing what follows from it is told.
pub(super) struct FitPlan<'a> {
    watch: &'a Watch<'a>,
    fit: u64,
    write: u64,
    total: u64,
}

impl<'a> FitPlan<'a> {
    pub(super) fn new(
        settings: &Settings,
        vectors: &VectorSet,
        queries: Option<&VectorSet>,
        watch: &'a Watch<'a>,
    ) -> Self {
        let (rows, width) = (vectors.rows(), vectors.width());
        let fit = Model::fit_work(settings, rows, width, queries.map(VectorSet::rows));
        let write = WRITE_TIME * (rows * width) as u64;
        let total = fit + write + ModelDrift::measure_work(rows, width);
        Self { watch, fit, write, total }
    }

    /// The part that the fit is.
    pub(super) fn fitting(&self) -> impl Fn(Progress) -> ControlFlow<()> + Sync + 'a {
        stretch(self.watch, 0, self.fit, self.total)
    }

    /// The part that writing is.
    pub(super) fn writing(&self) -> impl Fn(Progress) -> ControlFlow<()> + Sync + 'a {
        stretch(self.watch, self.fit, self.write, self.total)
    }

    /// All of it is done, and committed: it cannot be ended any more.
    pub(super) fn finish(&self) {
        let _ = (self.watch)(Progress { done: self.total, total: self.total });
    }
}

/// Picoseconds of one core to encode, seal and write a row, for each of its coordinates.
const WRITE_TIME: u64 = 12_000;

/// What becomes of the record of drift.
pub(super) enum Drift {
    /// The model was just fitted to these documents.
    Fitted,
    /// The model stays, and so does what was recorded of it.
    Kept(ModelDrift),
}

/// Documents and the chunks they are stored in.
pub(super) struct Layout<'a> {
    pub(super) ids: &'a [String],
    pub(super) vectors: &'a VectorSet,
    pub(super) spans: &'a [(u32, Range<usize>)],
}

/// A collection that goes over to another epoch.
struct Held {
    /// Taken by whoever keeps it.
    model: Option<Model>,
    epoch: Epoch,
    ids: Vec<String>,
    rows: RoutingRows,
    vectors: VectorSet,
    spans: Vec<(u32, Range<usize>)>,
}

impl Held {
    fn read(transaction: &Transaction<'_>) -> Result<Self, ClientError> {
        let before = transaction.before();
        let collection = Collection::read(transaction.vault(), before)?;
        let vectors = stored_vectors_of(before, &collection)?;
        let Collection { model, index, .. } = collection;
        let span = |chunk: &crate::index::ChunkSpan| {
            (chunk.number, chunk.first as usize..(chunk.first + chunk.rows) as usize)
        };
        let ids = index.ids().map(str::to_owned).collect();
        let spans = index.chunks().iter().map(span).collect();
        let rows = index.into_rows();
        Ok(Self { epoch: model.epoch(), model: Some(model), ids, rows, vectors, spans })
    }

    fn next_epoch(&self, rng: &mut impl CryptoRng) -> SaltedEpoch {
        let epoch = self.epoch.0.checked_add(1);
        let epoch = Epoch(epoch.expect("epochs are begun one by one, fewer than 2^64 times"));
        SaltedEpoch::begin(epoch, rng)
    }

    /// The documents as the present model sees them, which is recorded.
    fn placed(&mut self) -> Placed {
        Placed {
            prefix_width: self.rows.prefix_width,
            prefixes: std::mem::take(&mut self.rows.prefixes),
            residual_norms: std::mem::take(&mut self.rows.residual_norms),
            cells: self.rows.take_cells(),
            energies: Vec::new(),
        }
    }

    fn write(
        self,
        mut transaction: Transaction<'_>,
        fitted: (Model, Placed),
        drift: Drift,
        watch: &Watch<'_>,
        rng: &mut impl CryptoRng,
    ) -> Result<NewEpoch, ClientError> {
        let epoch = fitted.0.epoch();
        let layout = Layout { ids: &self.ids, vectors: &self.vectors, spans: &self.spans };
        let late = match drift {
            Drift::Fitted => &[][..],
            Drift::Kept(_) => &self.rows.late,
        };
        let drift = write_epoch(&mut transaction, fitted, &layout, drift, late, watch, rng)?;
        transaction.put(Slot::Drift, &drift.encode(), rng)?;
        Journal::Epoch.record(&mut transaction, rng)?;
        transaction.commit(rng)?;
        Ok(NewEpoch { epoch, documents: self.ids.len() })
    }
}

/// Begins an epoch: writes the model, canaries, and what routing needs of every row under its keys
/// and names. `late` says which rows came after the fit; none, if it is empty.
pub(super) fn write_epoch(
    transaction: &mut Transaction<'_>,
    (model, placed): (Model, Placed),
    layout: &Layout<'_>,
    drift: Drift,
    late: &[bool],
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<ModelDrift, ClientError> {
    let epoch = *model.salted_epoch();
    let keys = KeySchedule::new(transaction.vault().master()?, &epoch);
    let mut in_use = std::collections::HashSet::with_capacity(layout.ids.len());
    let handles: Vec<RowHandle> =
        layout.ids.iter().map(|id| assign_handle(&keys, id, None, 0, &mut in_use)).collect();
    let choice = Choice::new(&model, &keys);
    let (chosen, room) = (choice.among(&handles), choice.room(handles.len()));
    let canaries = Canaries::new(
        chosen.iter().map(|&row| handles[row]).collect(),
        chosen.iter().flat_map(|&row| layout.vectors.row(row)).copied().collect(),
        is_half(layout.vectors.values()),
    );
    transaction.begin_epoch(epoch)?;
    transaction.put(Slot::Model, &model.encode(), rng)?;
    transaction.put(Slot::Canaries, &canaries.encode(model.split().width(), room), rng)?;
    let names = Names { first_attempt: 0, rows: layout.ids.len() as u64 };
    transaction.put(Slot::Names, &names.encode(), rng)?;
    let routing = |(number, span): &(u32, Range<usize>)| {
        let mut rows = RoutingRows::empty(placed.prefix_width, placed.cells.is_some());
        for at in span.clone() {
            let is_late = late.get(at).copied().unwrap_or(false);
            let vector = layout.vectors.row(at);
            let id = &layout.ids[at];
            rows.push(&record_of(&placed, at, id, handles[at], vector, is_late));
        }
        (Slot::Routing(*number), rows.encode())
    };
    let total = layout.ids.len() as u64;
    for spans in layout.spans.chunks(SPANS_AT_ONCE) {
        transaction.put_many(spans, routing, rng)?;
        let done = spans.last().map_or(0, |(_, span)| span.end as u64);
        if watch(Progress { done, total }).is_break() {
            return Err(ClientError::Cancelled);
        }
    }
    match drift {
        Drift::Kept(drift) => Ok(drift),
        Drift::Fitted => {
            let Placed { energies, .. } = placed;
            transaction.refresh();
            let collection = Collection::read(transaction.vault(), transaction.before())?;
            ModelDrift::at_fit(&collection.model, &collection.index, layout.vectors, &energies)
        }
    }
}

/// Chunks that are sealed before they are written: enough for every core, few enough to stay in
/// memory.
pub(super) const SPANS_AT_ONCE: usize = 256;
