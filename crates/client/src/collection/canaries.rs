//! The canaries of a collection: how many there are, their names, how they come and go, and the
//! value they are stored in.
//!
//! A collection has a share of canaries beside its documents, about
//! [`IN_A_REQUEST`] for every shortlist:
//!
//! ```text
//! share = v clamp(IN_A_REQUEST / K, 1/32, 1/4) ,   v of the epoch's secret, between 3/4 and 5/4 ,
//! ```
//!
//! and never fewer than [`FEWEST`]. They come with documents, each after one that comes, and go as
//! documents go: where `n` of `N` documents are deleted or replaced, every canary goes with the
//! probability `n / N`. So they are as old as documents are. A new epoch keeps them.

use std::collections::{BTreeMap, HashSet};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_core::Rng;
use rayon::prelude::*;
use shard_geometry::VectorSet;
use shard_protocol::RowHandle;

use super::chunk::{RoutingRows, decode_vectors, encode_vectors};
use super::rotated::record_of;
use crate::canary::{Company, below, fitting, nearest, nearness_in_cell};
use crate::error::ClientError;
use crate::keys::KeySchedule;
use crate::model::{Model, Placed};
use crate::payload::{PayloadError, Reader, Writer};

const VERSION: u16 = 2;

/// Canaries of a collection at least.
pub(super) const FEWEST: usize = 32;

/// Canaries that a shortlist has, about.
const IN_A_REQUEST: f64 = 8.0;

/// Documents that are looked at for the nearest to one, where there are no cells.
const MOST_NEAR: usize = 1 << 14;

/// Documents of a cell whose residuals are compared.
const MOST_COMPARED: usize = 1 << 13;

/// Canaries to whose multiple the stored value is padded: its length says no more.
const PADDED_TO: usize = 64;

/// Characters of a canary's own name.
const NAME_CHARACTERS: usize = 16;

/// Canaries beside every document, under a model and the keys of an epoch.
pub(super) fn share(model: &Model, keys: &KeySchedule) -> f64 {
    let wanted = (IN_A_REQUEST / model.candidates() as f64).clamp(1.0 / 32.0, 0.25);
    wanted * (0.75 + keys.canary_spread() / 2.0)
}

/// Canaries as they are stored: what routing needs of them, and their vectors.
pub(crate) struct Canaries {
    pub(crate) rows: RoutingRows,
    pub(crate) vectors: Vec<f32>,
}

/// Vectors of canaries that have no names yet, after some of the documents of a first ingest.
pub(super) fn draw_first(
    model: &Model,
    keys: &KeySchedule,
    documents: &VectorSet,
    placed: &Placed,
    rng: &mut impl Rng,
) -> Result<Vec<f32>, ClientError> {
    let rows = documents.rows();
    let count = (rows as f64 * share(model, keys)).round() as usize;
    let fewest = FEWEST - FEWEST / 4 + (FEWEST as f64 / 2.0 * keys.canary_spread()) as usize;
    let cell = |row: usize| placed.cells.as_ref().map(|cells| cells[row]);
    let mut by_cell: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
    let step = if placed.cells.is_some() { 1 } else { rows.div_ceil(MOST_NEAR) };
    (0..rows).step_by(step).for_each(|row| by_cell.entry(cell(row)).or_default().push(row));
    let mut nearness: BTreeMap<Option<u32>, Vec<f64>> = BTreeMap::new();
    for (&cell, members) in &by_cell {
        let some = members.iter().step_by(members.len().div_ceil(MOST_COMPARED));
        let values = some.flat_map(|&row| documents.row(row)).copied().collect();
        let some = VectorSet::new(documents.width(), values)?;
        nearness.insert(cell, nearness_in_cell(model, &some, rng));
    }
    let drawn = std::iter::repeat_with(|| {
        let (after, mut seed) = (below(rows, rng), [0; 32]);
        rng.fill_bytes(&mut seed);
        (after, seed)
    });
    let drawn: Vec<(usize, [u8; 32])> = drawn.take(count.max(fewest)).collect();
    let made = drawn.into_par_iter().map(|(after, seed)| {
        let near = by_cell.get(&cell(after)).into_iter().flatten().filter(|row| **row != after);
        let near = nearest(placed.prefix(after), near.map(|&row| (row, placed.prefix(row))));
        let company = std::iter::once(after).chain(near).flat_map(|row| documents.row(row));
        let company = VectorSet::new(documents.width(), company.copied().collect())?;
        Ok(Company::new(model, &company)
            .draw(&nearness[&cell(after)], &mut ChaCha20Rng::from_seed(seed)))
    });
    let made: Vec<Vec<f32>> = made.collect::<Result<_, ClientError>>()?;
    Ok(made.concat())
}

impl Canaries {
    /// No canaries.
    pub(super) fn none(model: &Model) -> Self {
        let rows = RoutingRows::empty(model.split().prefix(), model.cells().is_some());
        Self { rows, vectors: Vec::new() }
    }

    /// Places vectors in the model and gives them names that nobody has. A canary is known by a
    /// random word, which it keeps over epochs.
    pub(super) fn add(
        &mut self,
        model: &Model,
        keys: &KeySchedule,
        vectors: Vec<f32>,
        words: Option<&[String]>,
        in_use: &mut HashSet<RowHandle>,
        rng: &mut impl Rng,
    ) -> Result<(), ClientError> {
        if vectors.is_empty() {
            return Ok(());
        }
        let width = model.split().width();
        let fitted = vectors.chunks_exact(width).flat_map(|one| fitting(model, one.to_vec()));
        let vectors = VectorSet::new(width, fitted.collect())?;
        let placed = model.place(&vectors)?;
        for at in 0..vectors.rows() {
            let kept = words.map(|words| words[at].clone());
            let fresh = std::iter::repeat_with(|| format!("{:016x}", rng.next_u64()));
            let (word, handle) = kept
                .into_iter()
                .chain(fresh)
                .map(|word| (keys.canary_handle(&word), word))
                .find(|(handle, _)| in_use.insert(*handle))
                .map(|(handle, word)| (word, handle))
                .expect("random words do not end");
            self.rows.push(&record_of(&placed, at, &word, handle, vectors.row(at), false));
        }
        self.vectors.extend(vectors.into_values());
        Ok(())
    }

    /// Those that are to stay.
    pub(super) fn retain(&mut self, width: usize, mut stays: impl FnMut() -> bool) {
        let mut kept = Self { rows: self.rows.none(), vectors: Vec::new() };
        for at in (0..self.rows.rows()).filter(|_| stays()) {
            kept.rows.push(&self.rows.row(at));
            kept.vectors.extend_from_slice(&self.vectors[at * width..][..width]);
        }
        *self = kept;
    }

    /// The stored value.
    pub(super) fn encode(&self, width: usize) -> Vec<u8> {
        let (rows, vectors) = (self.rows.encode(), encode_vectors(&self.vectors, width));
        let mut writer = Writer::new(VERSION);
        writer.u64(rows.len() as u64);
        writer.u64(vectors.len() as u64);
        writer.bytes.extend_from_slice(&rows);
        writer.bytes.extend_from_slice(&vectors);
        let empty = self.rows.none().encode().len() + encode_vectors(&[], width).len();
        let one = (rows.len() + vectors.len() - empty) / self.rows.rows().max(1);
        let missing = self.rows.rows().next_multiple_of(PADDED_TO) - self.rows.rows();
        writer.bytes.resize(writer.bytes.len() + missing * one, 0);
        writer.bytes
    }

    /// Reads the stored value, of a model with these widths, with or without cells.
    pub(super) fn decode(
        bytes: &[u8],
        prefix_width: usize,
        width: usize,
        has_cells: bool,
    ) -> Result<Self, PayloadError> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let (rows, vectors) = (reader.size()?, reader.size()?);
        let rows = RoutingRows::decode(reader.take(rows)?, prefix_width, has_cells)?;
        let vectors = decode_vectors(reader.take(vectors)?, width)?;
        let padding = reader.rest();
        let named = rows.ids.iter().all(|word| word.len() == NAME_CHARACTERS);
        let whole = rows.rows() > 0 && vectors.len() == rows.rows() * width;
        if !whole || !named || padding.iter().any(|&byte| byte != 0) {
            return Err(PayloadError::Invalid("its parts do not go together".into()));
        }
        Ok(Self { rows, vectors })
    }
}
