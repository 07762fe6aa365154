//! Rows of a rotated collection put and removed, chunk by chunk: what did not change is neither read
//! nor written.

use std::collections::BTreeMap;

use rand_core::CryptoRng;
use shard_geometry::VectorSet;
use shard_protocol::RowHandle;

use super::canaries::{Canaries, Choice, FEWEST};
use super::change::Written;
use super::chunk::{RoutingRows, RowRecord, encode_vectors, is_half, rows_per_chunk};
use super::epoch::SPANS_AT_ONCE;
use super::rows::{read_vectors, stored_vectors_of, vectors_of};
use super::{Collection, Names, drift_of, unusable};
use crate::drift::ModelDrift;
use crate::error::ClientError;
use crate::index::ChunkSpan;
use crate::model::Placed;
use crate::payload::PayloadError;
use crate::protect::{assign_handles, own_attempt};
use crate::vault::{Slot, Transaction};

/// A chunk that has fewer than this part of the rows it could have is put together with the one
/// before it, if both fit.
const THIN: usize = 4;

/// A rotated collection that is being changed.
pub(crate) struct RotatedChange<'v> {
    transaction: Transaction<'v>,
    collection: Collection,
    drift: ModelDrift,
    /// What happens to rows: by the place of their chunk and the row in it.
    edits: BTreeMap<usize, BTreeMap<usize, Edit>>,
    /// Documents that are put.
    incoming: Incoming,
    /// Which of them are new.
    appended: Vec<usize>,
    deleted: Vec<String>,
    first_attempt: u32,
}

/// Where a document is that is there after the change.
#[derive(Clone, Copy)]
enum Source {
    /// In a row that stays.
    Held(u32),
    /// Among the incoming.
    New(usize),
}

/// What happens to a row.
#[derive(Clone, Copy)]
enum Edit {
    Remove,
    /// This one of the incoming documents takes its place.
    Replace(usize),
}

/// Documents that are put: new ones, and those whose vector is another than before.
struct Incoming {
    ids: Vec<String>,
    vectors: Vec<f32>,
    handles: Vec<RowHandle>,
    placed: Placed,
}

impl Incoming {
    fn record(&self, at: usize, width: usize, is_late: bool) -> RowRecord<'_> {
        record_of(
            &self.placed,
            at,
            &self.ids[at],
            self.handles[at],
            self.vector(at, width),
            is_late,
        )
    }

    fn vector(&self, at: usize, width: usize) -> &[f32] {
        &self.vectors[at * width..][..width]
    }
}

/// What is recorded of a placed document.
pub(super) fn record_of<'a>(
    placed: &'a Placed,
    at: usize,
    id: &'a str,
    handle: RowHandle,
    vector: &[f32],
    is_late: bool,
) -> RowRecord<'a> {
    RowRecord {
        id,
        handle,
        cell: placed.cells.as_ref().map(|cells| cells[at]),
        residual_norm: placed.residual_norms[at],
        length: length(vector),
        is_late,
        prefix: placed.prefix(at),
    }
}

fn length(vector: &[f32]) -> f32 {
    vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt() as f32
}

impl<'v> RotatedChange<'v> {
    /// Begins to change a collection.
    pub(super) fn begin(transaction: Transaction<'v>) -> Result<Self, ClientError> {
        let before = transaction.before();
        let collection = Collection::read(transaction.vault(), before)?;
        let drift = drift_of(before)?;
        let first_attempt = collection.index.first_attempt();
        let incoming = Incoming {
            ids: Vec::new(),
            vectors: Vec::new(),
            handles: Vec::new(),
            placed: Placed::default(),
        };
        Ok(Self {
            transaction,
            collection,
            drift,
            edits: BTreeMap::new(),
            incoming,
            appended: Vec::new(),
            deleted: Vec::new(),
            first_attempt,
        })
    }

    /// The ids of all rows before the change, in order.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.collection.index.ids()
    }

    /// The width of the documents.
    pub(super) fn width(&self) -> usize {
        self.collection.model.split().width()
    }

    /// Removes rows.
    pub(super) fn remove(&mut self, rows: &[u32]) -> Result<(), ClientError> {
        let index = &self.collection.index;
        for &row in rows {
            let attempt = own_attempt(&self.collection.keys, index.id(row), index.handle(row));
            self.first_attempt = self.first_attempt.max(attempt.saturating_add(1));
            self.deleted.push(index.id(row).to_owned());
        }
        self.forget(rows)?;
        for &row in rows {
            self.edit(row, Edit::Remove);
        }
        Ok(())
    }

    /// Puts documents, each in the row that it has or in a new one. Called once for a change.
    pub(super) fn put(
        &mut self,
        ids: Vec<String>,
        vectors: VectorSet,
        existing: &[Option<u32>],
    ) -> Result<(), ClientError> {
        let placed = self.collection.model.place(&vectors)?;
        let handles = self.name(&ids, existing);
        let replaced: Vec<u32> = existing.iter().flatten().copied().collect();
        self.forget(&replaced)?;
        self.drift.came(&placed.energies);
        for (at, row) in existing.iter().enumerate() {
            match row {
                Some(row) => self.edit(*row, Edit::Replace(at)),
                None => self.appended.push(at),
            }
        }
        self.incoming = Incoming { ids, vectors: vectors.into_values(), handles, placed };
        Ok(())
    }

    /// The vectors of rows, in their order.
    pub(super) fn vectors_of(&self, rows: &[u32]) -> Result<Vec<f32>, ClientError> {
        vectors_of(self.transaction.before(), &self.collection, rows)
    }

    /// The handle of each document. Another vector under a known id gets a new one, for two
    /// reasons: an older copy of the vault is then told that its row is gone, where it would
    /// otherwise add a new residual to an old prefix; and where the name makes the key, two
    /// vectors under one key would show their inner product.
    fn name(&self, ids: &[String], existing: &[Option<u32>]) -> Vec<RowHandle> {
        let Collection { index, keys, .. } = &self.collection;
        let before = existing.iter().map(|row| row.map(|row| index.handle(row)));
        let before: Vec<Option<RowHandle>> = before.collect();
        assign_handles(keys, ids, &before, self.first_attempt, index)
    }

    /// Takes late documents that go, or change, out of the record of drift.
    fn forget(&mut self, rows: &[u32]) -> Result<(), ClientError> {
        let index = &self.collection.index;
        let late: Vec<u32> = rows.iter().copied().filter(|&row| index.is_late(row)).collect();
        if !late.is_empty() {
            let width = self.collection.model.split().width();
            let vectors = VectorSet::new(width, self.vectors_of(&late)?)?;
            self.drift.gone(&self.collection.model.place(&vectors)?.energies);
        }
        Ok(())
    }

    fn edit(&mut self, row: u32, edit: Edit) {
        let place = self.collection.index.chunk_of(row);
        let first = self.collection.index.chunks()[place].first;
        self.edits.entry(place).or_default().insert((row - first) as usize, edit);
    }

    /// Documents after the change.
    pub(super) fn documents(&self) -> usize {
        self.collection.index.rows() + self.appended.len() - self.deleted.len()
    }

    /// What is left to be committed.
    pub(super) fn written(self) -> Written<'v> {
        let (put, deleted) = (self.incoming.ids, self.deleted);
        Written { transaction: self.transaction, put, deleted, recorded: Vec::new() }
    }

    /// Whether anything changes.
    pub(super) fn is_any(&self) -> bool {
        !self.edits.is_empty() || !self.appended.is_empty()
    }

    /// Writes what changed.
    pub(super) fn write(&mut self, rng: &mut impl CryptoRng) -> Result<(), ClientError> {
        let room =
            Choice::new(&self.collection.model, &self.collection.keys).room(self.documents());
        let canaries = self.canaries()?.encode(self.width(), room);
        self.transaction.put(Slot::Canaries, &canaries, rng)?;
        let rebuilt = self.rebuild()?;
        write_chunks(&mut self.transaction, &rebuilt, rng)?;
        let names = Names { first_attempt: self.first_attempt, rows: self.documents() as u64 };
        self.transaction.put(Slot::Names, &names.encode(), rng)?;
        self.measure()?;
        Ok(self.transaction.put(Slot::Drift, &self.drift.encode(), rng)?)
    }

    /// Canaries after the change. They are sealed anew with every change, so that which value was written
    /// does not say whether one of the documents is a canary.
    fn canaries(&self) -> Result<Canaries, ClientError> {
        let Collection { index, model, keys, .. } = &self.collection;
        let choice = Choice::new(model, keys);
        let handle = |source: &Source| match source {
            Source::Held(row) => index.handle(*row),
            Source::New(at) => self.incoming.handles[*at],
        };
        let stays = |rows: &mut dyn Iterator<Item = u32>| -> Vec<Source> {
            rows.filter(|&row| !self.is_edited(row)).map(Source::Held).collect()
        };
        let coming = (0..self.incoming.ids.len()).map(Source::New);
        let mut chosen = stays(&mut index.canary_rows());
        chosen.extend(coming.clone());
        chosen.retain(|source| choice.takes(handle(source)));
        if chosen.len() < FEWEST {
            // A small collection: others are chosen beside those that their own word chooses.
            let mut all = stays(&mut (0..index.rows() as u32));
            all.extend(coming);
            let handles: Vec<RowHandle> = all.iter().map(handle).collect();
            chosen = choice.among(&handles).into_iter().map(|at| all[at]).collect();
        }
        let unknown = |source: &Source| match source {
            Source::Held(row) => Some(*row).filter(|&row| !index.is_canary(row)),
            Source::New(_) => None,
        };
        let read: Vec<u32> = chosen.iter().filter_map(unknown).collect();
        let read = self.vectors_of(&read)?;
        let mut read = read.chunks_exact(self.width());
        let mut vectors = Vec::with_capacity(chosen.len() * self.width());
        for source in &chosen {
            vectors.extend_from_slice(match source {
                Source::Held(row) => index
                    .canary_vector(*row)
                    .unwrap_or_else(|| read.next().expect("a vector for every row")),
                Source::New(at) => self.incoming.vector(*at, self.width()),
            });
        }
        let all_half = index.all_half() && is_half(&self.incoming.vectors);
        Ok(Canaries::new(chosen.iter().map(handle).collect(), vectors, all_half))
    }

    fn is_edited(&self, row: u32) -> bool {
        let place = self.collection.index.chunk_of(row);
        let first = self.collection.index.chunks()[place].first;
        self.edits.get(&place).is_some_and(|edits| edits.contains_key(&((row - first) as usize)))
    }

    /// Brings the record of drift up to date.
    fn measure(&mut self) -> Result<(), ClientError> {
        let documents = self.documents();
        self.drift.settle(documents, self.members().as_deref(), self.deleted.len());
        if self.drift.measure_due(documents) {
            self.transaction.refresh();
            let now = self.transaction.before();
            let collection = Collection::read(self.transaction.vault(), now)?;
            let vectors = stored_vectors_of(now, &collection)?;
            self.drift.measure(&collection.model, &collection.index, &vectors)?;
        }
        Ok(())
    }

    /// Documents of every cell after the change.
    fn members(&self) -> Option<Vec<usize>> {
        let index = &self.collection.index;
        let mut members = index.members()?;
        for (&place, edits) in &self.edits {
            let first = index.chunks()[place].first;
            for &at in edits.keys() {
                members[index.cell(first + at as u32)? as usize] -= 1;
            }
        }
        for &cell in self.incoming.placed.cells.iter().flatten() {
            members[cell as usize] += 1;
        }
        Some(members)
    }

    /// The chunks that change, as they will be.
    fn rebuild(&mut self) -> Result<Vec<Chunk>, ClientError> {
        let index = &self.collection.index;
        let width = self.collection.model.split().width();
        let values = &self.incoming.vectors;
        let capacity = rows_per_chunk(values, width);
        let mut spare = self.appended.iter().copied();
        let last = index.chunks().len() - 1;
        if !self.appended.is_empty() {
            self.edits.entry(last).or_default();
        }
        let mut rebuilt: Vec<Chunk> = Vec::new();
        for (&place, edits) in &self.edits {
            let span = index.chunks()[place];
            let mut chunk = self.edited(&span, edits)?;
            let mut own = rows_per_chunk(&chunk.vectors, width);
            if place == last {
                own = own.min(capacity);
                let room = own.saturating_sub(chunk.rows.rows());
                spare.by_ref().take(room).for_each(|at| chunk.push(&self.incoming, at, width));
            }
            let thin = chunk.rows.rows() < own / THIN && !edits.is_empty();
            let fits = |before: &Chunk| {
                let most = own.min(rows_per_chunk(&before.vectors, width));
                before.rows.rows() + chunk.rows.rows() <= most
            };
            if let Some(before) = place.checked_sub(1).filter(|_| thin && chunk.rows.rows() > 0) {
                if let Some(done) = rebuilt.last_mut().filter(|c| c.place == Some(before)) {
                    if fits(done) {
                        done.absorb(&mut chunk);
                    }
                } else {
                    let mut whole = self.edited(&index.chunks()[before], &BTreeMap::new())?;
                    if fits(&whole) {
                        whole.place = Some(before);
                        whole.absorb(&mut chunk);
                        rebuilt.push(whole);
                    }
                }
            }
            chunk.place = Some(place);
            rebuilt.push(chunk);
        }
        let mut number = index.chunks()[last].number;
        let rest: Vec<usize> = spare.collect();
        for some in rest.chunks(capacity) {
            number = number.checked_add(1).ok_or_else(|| {
                unusable("routing")(PayloadError::Invalid("no chunk number is left".into()))
            })?;
            let rows =
                RoutingRows::empty(self.collection.model.split().prefix(), index.cells().is_some());
            let mut chunk = Chunk { number, place: None, rows, vectors: Vec::new(), width };
            some.iter().for_each(|&at| chunk.push(&self.incoming, at, width));
            rebuilt.push(chunk);
        }
        Ok(rebuilt)
    }

    /// A chunk with its edits.
    fn edited(
        &self,
        span: &ChunkSpan,
        edits: &BTreeMap<usize, Edit>,
    ) -> Result<Chunk, ClientError> {
        let index = &self.collection.index;
        let width = self.collection.model.split().width();
        let before = index.chunk_rows(span);
        let held = read_vectors(self.transaction.before(), span, width)?;
        let mut chunk = Chunk {
            number: span.number,
            place: None,
            rows: before.none(),
            vectors: Vec::with_capacity(held.len()),
            width,
        };
        for at in 0..span.rows as usize {
            match edits.get(&at) {
                None => {
                    chunk.rows.push(&before.row(at));
                    chunk.vectors.extend_from_slice(&held[at * width..][..width]);
                }
                Some(Edit::Remove) => {}
                Some(Edit::Replace(coming)) => chunk.push(&self.incoming, *coming, width),
            }
        }
        Ok(chunk)
    }
}

/// Rows that are stored together, in memory.
pub(super) struct Chunk {
    pub(super) number: u32,
    /// Its place among the chunks of the index, unless it is new.
    place: Option<usize>,
    pub(super) rows: RoutingRows,
    pub(super) vectors: Vec<f32>,
    pub(super) width: usize,
}

impl Chunk {
    fn push(&mut self, incoming: &Incoming, at: usize, width: usize) {
        self.rows.push(&incoming.record(at, width, true));
        self.vectors.extend_from_slice(incoming.vector(at, width));
    }

    /// Takes over all rows of the chunk after it.
    fn absorb(&mut self, next: &mut Self) {
        (0..next.rows.rows()).for_each(|at| self.rows.push(&next.rows.row(at)));
        self.vectors.append(&mut next.vectors);
        next.rows = next.rows.none();
    }
}

/// Writes chunks; one without rows is removed.
pub(super) fn write_chunks(
    transaction: &mut Transaction<'_>,
    chunks: &[Chunk],
    rng: &mut impl CryptoRng,
) -> Result<(), ClientError> {
    let (kept, empty): (Vec<&Chunk>, Vec<&Chunk>) =
        chunks.iter().partition(|chunk| chunk.rows.rows() > 0);
    for chunk in empty {
        transaction.remove(Slot::Routing(chunk.number))?;
        transaction.remove(Slot::Vectors(chunk.number))?;
    }
    let routing = |chunk: &&Chunk| (Slot::Routing(chunk.number), chunk.rows.encode());
    let vectors =
        |chunk: &&Chunk| (Slot::Vectors(chunk.number), encode_vectors(&chunk.vectors, chunk.width));
    for some in kept.chunks(SPANS_AT_ONCE) {
        transaction.put_many(some, routing, rng)?;
        transaction.put_many(some, vectors, rng)?;
    }
    Ok(())
}
