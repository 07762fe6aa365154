//! The fitted model: basis, split, cells, fixed point. A secret of the client.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};
use shard_geometry::{
    Cells, Pca, Projected, SampleSource, Split, Transform, TuneRequest, Tuning, VectorError,
    VectorSet, tune,
};
use shard_protocol::{Epoch, Limits};
use shard_rlwe::OperandScale;
use std::sync::Arc;
use zeroize::Zeroizing;

use crate::error::ClientError;
use crate::keys::{KeyOwner, KeySchedule, SaltedEpoch};
use crate::payload::{PayloadError, Reader, Writer};
use crate::settings::{CellCount, Choice, Settings};

/// Version 1 belonged to a key schedule without secrets of epochs, version 2 to one without salts.
const VERSION: u16 = 3;

/// Fewest candidates that are chosen automatically: a corpus may grow after it was fitted.
const FEWEST_CANDIDATES: usize = 32;

/// Rows of a request that are kept free for canaries.
const CANARY_ROOM: usize = 64;

/// What was measured when width and shortlist were chosen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TuningRecord {
    /// Fraction of the true ten nearest rows inside the shortlist.
    pub held: f64,
    /// Queries in the sample.
    pub sample: usize,
    /// Whether the sample were the owner's queries, or documents with noise.
    pub owners_queries: bool,
    /// For every width tried, the shortest shortlist that holds the target.
    pub tried: Vec<WidthTried>,
}

/// One width that was tried.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WidthTried {
    /// Prefix width.
    pub d_pub: usize,
    /// The shortest shortlist that holds the target.
    pub candidates: usize,
}

impl From<&Tuning> for TuningRecord {
    fn from(tuning: &Tuning) -> Self {
        let tried = tuning.measured.iter();
        Self {
            held: tuning.held,
            sample: tuning.sample,
            owners_queries: tuning.source == SampleSource::Queries,
            tried: tried
                .map(|m| WidthTried { d_pub: m.d_pub, candidates: m.candidates_needed })
                .collect(),
        }
    }
}

/// A fitted model.
pub struct Model {
    settings: Settings,
    epoch: SaltedEpoch,
    pca: Pca,
    /// `V^T mu`, which centres a projected query.
    projected_mean: Vec<f64>,
    split: Split,
    /// `None` when every document has a key of its own.
    cells: Option<Cells>,
    operand_scale: OperandScale,
    candidates: usize,
    tuning: TuningRecord,
}

/// Documents as a model sees them. Each is projected once; whatever needs its coordinates takes
/// them from here.
pub(crate) struct Placed {
    /// Principal coordinates, prefix and residual.
    pub(crate) coordinates: Projected,
    /// The prefixes among them, which route.
    pub(crate) prefixes: Vec<f32>,
    /// The cell of each document; `None` when each has a key of its own.
    pub(crate) cells: Option<Vec<u32>>,
}

impl Model {
    /// Fits a model to documents, and places them in it. `queries`, where the owner has some, are
    /// what the automatic choices are made for.
    pub(crate) fn fit(
        settings: &Settings,
        epoch: SaltedEpoch,
        vectors: &VectorSet,
        queries: Option<&VectorSet>,
    ) -> Result<(Self, Placed), ClientError> {
        settings.check()?;
        let mut rng = ChaCha20Rng::seed_from_u64(settings.seed);
        let pca = Pca::fit(vectors)?;
        let coordinates = project(&pca, vectors)?;
        let fixed = |choice| match choice {
            Choice::Auto => None,
            Choice::Fixed(value) => Some(value),
        };
        let request =
            TuneRequest { d_pub: fixed(settings.d_pub), candidates: fixed(settings.candidates) };
        let tuning = tune(vectors, &pca, &coordinates, queries, request, &mut rng)?;
        let split = Split::new(vectors.width(), tuning.d_pub)?;
        let widest = Limits::default().width;
        if split.residual() > widest {
            return Err(ClientError::Setting(format!(
                "residuals of width {} are wider than the {widest} that servers take",
                split.residual()
            )));
        }
        let prefixes = coordinates.prefixes(split.prefix());
        let (cells, assigned) = match settings.cells {
            CellCount::Cells(count) => {
                let (cells, assigned) = Cells::fit(&prefixes, split.prefix(), count, &mut rng)?;
                (Some(cells), Some(assigned))
            }
            CellCount::Micro => (None, None),
        };
        let longest = longest_residual(&split, &coordinates);
        let candidates = match settings.candidates {
            Choice::Fixed(candidates) => candidates,
            Choice::Auto => tuning.candidates.max(FEWEST_CANDIDATES),
        };
        let model = Self {
            settings: settings.clone(),
            epoch,
            projected_mean: project_mean(&pca),
            pca,
            split,
            cells,
            // Residuals of the first documents may be short, or vanish, where those of later
            // ones do not; they are seldom longer than the vectors themselves.
            operand_scale: OperandScale::for_norm(longest.max(vectors.max_norm())),
            candidates: candidates.min(most_candidates(settings.cells)),
            tuning: TuningRecord::from(&tuning),
        };
        Ok((model, Placed { coordinates, prefixes, cells: assigned }))
    }

    /// Places documents in the model, which need not be those it was fitted to.
    pub(crate) fn place(&self, vectors: &VectorSet) -> Result<Placed, ClientError> {
        let coordinates = project(&self.pca, vectors)?;
        let prefixes = coordinates.prefixes(self.split.prefix());
        let cells = self.cells.as_ref().map(|cells| cells.assign(&prefixes));
        Ok(Placed { coordinates, prefixes, cells })
    }

    /// The same model under the keys and names of another epoch.
    pub(crate) fn in_epoch(self, epoch: SaltedEpoch) -> Self {
        Self { epoch, ..self }
    }

    /// What the owner asked for.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The generation of keys and names.
    pub fn epoch(&self) -> Epoch {
        self.epoch.epoch
    }

    /// What its keys and names are derived from beside the master secret.
    pub fn salted_epoch(&self) -> &SaltedEpoch {
        &self.epoch
    }

    /// The principal basis.
    pub fn pca(&self) -> &Pca {
        &self.pca
    }

    /// `V^T q` and the prefix of `V^T (q - mu)`.
    pub(crate) fn project_query(&self, query: &[f32]) -> (Zeroizing<Vec<f64>>, Vec<f32>) {
        let coordinates = Zeroizing::new(self.pca.uncentred(query));
        let prefix = coordinates.iter().zip(&self.projected_mean).take(self.split.prefix());
        let centred = prefix.map(|(q, mu)| (q - mu) as f32).collect();
        (coordinates, centred)
    }

    /// Where the prefix ends.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// The partition, unless every document has a key of its own.
    pub fn cells(&self) -> Option<&Cells> {
        self.cells.as_ref()
    }

    /// The fixed point of stored rows.
    pub fn operand_scale(&self) -> OperandScale {
        self.operand_scale
    }

    /// Default length of the shortlist.
    pub fn candidates(&self) -> usize {
        self.candidates
    }

    /// What was measured when width and shortlist were chosen.
    pub fn tuning(&self) -> &TuningRecord {
        &self.tuning
    }

    /// The key that rotates residuals of an owner.
    pub(crate) fn key(&self, keys: &KeySchedule, owner: KeyOwner) -> Arc<Transform> {
        keys.transform(self.settings.transform, self.split.residual(), owner)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let json = |value| serde_json::to_string(&value).expect("plain structures encode");
        let mut writer = Writer::new(VERSION);
        writer.string(&json(serde_json::json!(self.settings)));
        writer.string(&json(serde_json::json!(self.tuning)));
        writer.u64(self.epoch.epoch.0);
        writer.bytes.extend_from_slice(&self.epoch.salt);
        writer.u64(self.split.prefix() as u64);
        writer.u64(self.candidates as u64);
        writer.u64(i64::from(self.operand_scale.exponent()) as u64);
        writer.f64s(self.pca.mean());
        writer.f64s(self.pca.variances());
        writer.f64s(self.pca.basis());
        writer.f32s(self.cells.as_ref().map_or(&[], Cells::centroids));
        writer.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        fn invalid(error: impl ToString) -> PayloadError {
            PayloadError::Invalid(error.to_string())
        }
        let mut reader = Reader::new(bytes, VERSION)?;
        let settings: Settings = serde_json::from_str(&reader.string()?).map_err(invalid)?;
        let tuning = serde_json::from_str(&reader.string()?).map_err(invalid)?;
        let epoch = SaltedEpoch { epoch: Epoch(reader.u64()?), salt: reader.array()? };
        let prefix = reader.size()?;
        let candidates = reader.size()?;
        let exponent = i32::try_from(reader.u64()? as i64).map_err(invalid)?;
        let mean = reader.f64s()?;
        let variances = reader.f64s()?;
        let basis = reader.f64s()?;
        let centroids = reader.f32s()?;
        reader.finish()?;

        let pca = Pca::from_parts(mean, basis, variances).map_err(invalid)?;
        let split = Split::new(pca.width(), prefix).map_err(invalid)?;
        let cells = match settings.cells {
            CellCount::Cells(count) => {
                let cells = Cells::from_parts(prefix, centroids).map_err(invalid)?;
                if cells.count() != count {
                    return Err(invalid(format!("{} cells instead of {count}", cells.count())));
                }
                Some(cells)
            }
            CellCount::Micro => None,
        };
        let operand_scale = OperandScale::from_exponent(exponent);
        let projected_mean = project_mean(&pca);
        Ok(Self {
            settings,
            epoch,
            pca,
            projected_mean,
            split,
            cells,
            operand_scale,
            candidates,
            tuning,
        })
    }
}

/// The one place where documents are projected.
fn project(pca: &Pca, vectors: &VectorSet) -> Result<Projected, ClientError> {
    #[cfg(test)]
    PROJECTED_ROWS.with(|count| count.set(count.get() + vectors.rows()));
    pca.project(vectors).map_err(|error| match error {
        VectorError::NotFinite { .. } => ClientError::TooLong { norm: vectors.max_norm() },
        error => error.into(),
    })
}

#[cfg(test)]
thread_local! {
    /// Documents projected by this thread.
    pub(crate) static PROJECTED_ROWS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn longest_residual(split: &Split, coordinates: &Projected) -> f64 {
    let rows = coordinates.values().chunks_exact(split.width());
    let square = |r: &f32| f64::from(*r) * f64::from(*r);
    let norms = rows.map(|row| split.halves(row).1.iter().map(square).sum::<f64>());
    norms.fold(0.0, f64::max).sqrt()
}

fn project_mean(pca: &Pca) -> Vec<f64> {
    let directions = pca.basis().chunks_exact(pca.width());
    directions.map(|v| v.iter().zip(pca.mean()).map(|(v, mu)| v * mu).sum()).collect()
}

/// The most candidates a request can name beside its canaries.
pub(crate) fn most_candidates(cells: CellCount) -> usize {
    let limits = Limits::default();
    match cells {
        CellCount::Cells(_) => limits.candidates - CANARY_ROOM,
        CellCount::Micro => limits.cells - CANARY_ROOM,
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("epoch", &self.epoch.epoch)
            .field("split", &self.split)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
