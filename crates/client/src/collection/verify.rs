//! Every value of a vault opened, and held against the others.

use std::collections::HashSet;

use shard_geometry::{Cells, VectorSet};

use super::canaries::Choice;
use super::rows::read_vectors;
use super::{Collection, drift_of, settings_of, unusable};
use crate::blind::{self, BlindCollection};
use crate::error::ClientError;
use crate::payload::PayloadError;
use crate::progress::{Progress, Watch};
use crate::protect::attempt_of;
use crate::settings::Protection;
use crate::vault::{Looked, Slot, Snapshot, Vault, VaultAccess};

/// A vault that is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verified {
    /// How many commits led to it.
    pub generation: u64,
    /// Values opened.
    pub values: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// Values that are with the server alone, and were not looked at.
    pub elsewhere: usize,
    /// Documents.
    pub documents: usize,
}

/// By how much a recorded prefix may differ from one computed anew, as a part of its length: another
/// machine may add in another order.
const ROUNDING: f64 = 1e-4;

/// Opens every value of a vault's latest commit and holds them against each other: ids and names
/// without a double, a vector for every row, rows where the model places their vectors, names that
/// the keys make; in a blind vault tags that the keys make of the vectors.
///
/// # Errors
/// When anything is missing, altered, damaged or contradicts the rest: the error names it.
pub fn verify_vault(vault: &Vault, watch: &Watch<'_>) -> Result<Verified, ClientError> {
    verify_commit(vault, &vault.snapshot()?, watch)
}

/// As [`verify_vault`], of one commit.
pub(crate) fn verify_commit(
    vault: &Vault,
    snapshot: &Snapshot,
    watch: &Watch<'_>,
) -> Result<Verified, ClientError> {
    let Looked { values, bytes, elsewhere } = snapshot.verify()?;
    let owner = vault.access() == VaultAccess::Owner;
    let generation = snapshot.root().header.generation;
    let mut verified = Verified { generation, values, bytes, elsewhere, documents: 0 };
    let (is_blind, is_rotated) = (snapshot.contains(Slot::Blind), snapshot.contains(Slot::Model));
    if owner {
        let settings = settings_of(snapshot)?;
        if verified.elsewhere > 0 && settings.keep_vectors {
            return Err(contradiction("vectors", "some are not in a vault that keeps all of them"));
        }
        let otherwise = match settings.protection {
            Protection::Blind => is_rotated,
            Protection::Rotated => is_blind,
        };
        if otherwise {
            return Err(contradiction("settings", "its documents are protected in another way"));
        }
        let header = snapshot.root().header;
        let named = snapshot.commit_at(generation - 1)?;
        if generation > 1 && named != header.parent() {
            return Err(contradiction("history", "its last name is not the parent's"));
        }
    }
    if is_blind {
        let collection = BlindCollection::read(vault, snapshot)?;
        verified.documents = collection.rows();
        blind::verify(&collection, snapshot, watch)?;
        return Ok(verified);
    }
    if !is_rotated {
        return Ok(verified);
    }
    let collection = Collection::read(vault, snapshot)?;
    verified.documents = collection.index().rows();
    check_names(&collection)?;
    check_canaries(&collection)?;
    if owner {
        let chunks: Vec<u32> = collection.index().chunks().iter().map(|c| c.number).collect();
        if !snapshot.root().numbered(Slot::Vectors).eq(chunks) {
            return Err(contradiction("vectors", "its chunks are not those of the routing"));
        }
        if drift_of(snapshot)?.documents() != verified.documents {
            return Err(contradiction("record of drift", "it counts other documents"));
        }
        let total = verified.documents as u64;
        for span in collection.index().chunks() {
            let width = collection.model().split().width();
            let vectors = VectorSet::new(width, read_vectors(snapshot, span, width)?)?;
            check_places(&collection, span.first.., &vectors)?;
            let canary = |row: u32| collection.index().canary_vector(row);
            let same = (span.first..).zip(vectors.values().chunks_exact(width));
            if same.into_iter().any(|(row, own)| canary(row).is_some_and(|held| held != own)) {
                return Err(contradiction(
                    "canaries",
                    "one has a vector that is not its document's",
                ));
            }
            let done = u64::from(span.first + span.rows);
            if watch(Progress { done, total }).is_break() {
                return Err(ClientError::Cancelled);
            }
        }
    }
    Ok(verified)
}

fn contradiction(file: &'static str, problem: &str) -> ClientError {
    unusable(file)(PayloadError::Invalid(problem.to_owned()))
}

/// No id and no name twice, and every name one that the keys make for the id.
fn check_names(collection: &Collection) -> Result<(), ClientError> {
    let Collection { index, keys, .. } = collection;
    let mut ids = HashSet::with_capacity(index.rows());
    if !index.ids().all(|id| !id.is_empty() && ids.insert(id)) {
        return Err(contradiction("routing", "an id is there twice"));
    }
    let mut names = HashSet::with_capacity(index.handles().len());
    if !index.handles().iter().all(|handle| names.insert(*handle)) {
        return Err(contradiction("routing", "a name is there twice"));
    }
    let most = index.first_attempt().saturating_add(ATTEMPTS);
    for (row, id) in (0..).zip(index.ids()) {
        if attempt_of(keys, id, index.handle(row), most).is_none() {
            return Err(contradiction("routing", "a row has a name that its keys do not make"));
        }
    }
    Ok(())
}

/// The distance of a prefix from the centre of a cell.
fn distance_to(cells: &Cells, cell: u32, prefix: &[f32]) -> f64 {
    let centre = &cells.centroids()[cell as usize * prefix.len()..][..prefix.len()];
    let apart = prefix.iter().zip(centre).map(|(a, b)| f64::from(a - b) * f64::from(a - b));
    apart.sum::<f64>().sqrt()
}

/// How often one document may have been replaced within an epoch.
const ATTEMPTS: u32 = 1 << 20;

/// The canaries are those that the keys choose, and their vectors are of these documents.
fn check_canaries(collection: &Collection) -> Result<(), ClientError> {
    let Collection { index, model, keys, .. } = collection;
    let rows: Vec<u32> = index.canary_rows().collect();
    let chosen = Choice::new(model, keys).among(index.handles());
    if !rows.iter().map(|&row| row as usize).eq(chosen) {
        return Err(contradiction("canaries", "they are not those that the keys choose"));
    }
    let vectors = rows.iter().filter_map(|&row| index.canary_vector(row)).flatten();
    let vectors = VectorSet::new(model.split().width(), vectors.copied().collect())?;
    check_places(collection, rows.into_iter(), &vectors)
}

/// These rows are where the model places these vectors.
fn check_places(
    collection: &Collection,
    rows: impl Iterator<Item = u32>,
    vectors: &VectorSet,
) -> Result<(), ClientError> {
    let Collection { index, model, .. } = collection;
    let placed = model.place(vectors)?;
    for (at, row) in rows.take(vectors.rows()).enumerate() {
        let recorded = index.prefix(row);
        let square = |x: f32| f64::from(x) * f64::from(x);
        let norm = |values: &[f32]| values.iter().copied().map(square).sum::<f64>().sqrt();
        let apart = recorded.iter().zip(placed.prefix(at)).map(|(a, b)| square(a - b));
        let residual = f64::from(index.residual_norms()[row as usize]);
        let allowed = ROUNDING * (norm(recorded) + residual + norm(vectors.row(at)));
        if apart.sum::<f64>().sqrt() > allowed {
            return Err(contradiction("routing", "a prefix is not that of its vector"));
        }
        if (residual - f64::from(placed.residual_norms[at])).abs() > allowed
            || (index.length(row) - norm(vectors.row(at))).abs() > allowed
        {
            return Err(contradiction("routing", "a norm is not that of its vector"));
        }
        // Between two cells that are equally near, another machine may choose the other.
        if let (Some(cells), Some(cell)) = (model.cells(), index.cell(row)) {
            let chosen = placed.cells.as_ref().map_or(cell, |cells| cells[at]);
            let distance = |cell| distance_to(cells, cell, recorded);
            if (distance(cell) - distance(chosen)).abs() > allowed.max(ROUNDING * distance(cell)) {
                return Err(contradiction("routing", "a row is not in the cell of its vector"));
            }
        }
    }
    Ok(())
}
