//! The fitted model: basis, split, cells, fixed point. A secret of the client.

mod fit;

use serde::{Deserialize, Serialize};
use shard_geometry::{
    Cells, Pca, RouteQuery, SampleSource, Split, Transform, Tuning, power_of_two_above,
};
use shard_protocol::Epoch;
use shard_rlwe::{OperandBound, OperandScale};
use std::sync::Arc;
use zeroize::Zeroizing;

use crate::keys::{KeyOwner, KeySchedule, SaltedEpoch};
use crate::payload::{PayloadError, Reader, Writer};
use crate::settings::{CellCount, Settings};

pub(crate) use fit::Placed;

/// Version 1 belonged to a key schedule without secrets of epochs, version 2 to one without salts,
/// version 3 to routing by distance.
const VERSION: u16 = 4;

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
    split: Split,
    /// `None` when every document has a key of its own.
    cells: Option<Cells>,
    /// `c` of [`shard_geometry::route`].
    residual_weight: f64,
    operand_scale: OperandScale,
    candidates: usize,
    tuning: TuningRecord,
}

/// A query in principal coordinates, brought to a length between a half and one. What is computed
/// for it scales with the query: scores and errors are multiplied by `scale` in the end, so a query
/// of any length is searched with the same digits.
pub(crate) struct ProjectedQuery {
    /// `V^T q / scale`.
    pub(crate) coordinates: Zeroizing<Vec<f64>>,
    /// A power of two; one for a query of zeros.
    pub(crate) scale: f64,
}

impl Model {
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

    /// A query in principal coordinates.
    pub(crate) fn project_query(&self, query: &[f32]) -> ProjectedQuery {
        let mut coordinates = Zeroizing::new(self.pca.uncentred(query));
        let norm = coordinates.iter().map(|x| x * x).sum::<f64>().sqrt();
        let scale = power_of_two_above(norm);
        coordinates.iter_mut().for_each(|x| *x /= scale);
        ProjectedQuery { coordinates, scale }
    }

    /// A query as routers take it.
    pub(crate) fn route_query(&self, query: &ProjectedQuery) -> RouteQuery {
        RouteQuery::new(&query.coordinates, self.split.prefix(), self.residual_weight)
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

    /// A bound on the norm of a stored row whose residual has this norm. Rotation keeps the norm,
    /// and rounding moves each coordinate by at most a half.
    pub(crate) fn operand_bound(&self, residual_norm: f32) -> OperandBound {
        let exact = f64::from(residual_norm) * 2_f64.powi(self.operand_scale.exponent());
        // Coordinates are rounded to single precision before they are rotated.
        let rotated = exact * (1.0 + f64::from(f32::EPSILON));
        OperandBound::new(rotated + (self.split.residual() as f64).sqrt() / 2.0)
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
        writer.f64(self.residual_weight);
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
        let residual_weight = reader.f64()?;
        if !(0.0..=1e3).contains(&residual_weight) {
            return Err(invalid(format!("residuals of the weight {residual_weight}")));
        }
        let mean = reader.f64s()?;
        let variances = reader.f64s()?;
        let basis = reader.f64s()?;
        let centroids = reader.f32s()?;
        reader.finish()?;

        let pca = Pca::from_parts(mean, basis, variances).map_err(invalid)?;
        let split = Split::new(pca.width(), prefix).map_err(invalid)?;
        let cells = match settings.cells {
            CellCount::Micro => None,
            CellCount::Auto | CellCount::Cells(_) => {
                Some(Cells::from_parts(prefix, centroids).map_err(invalid)?)
            }
        };
        if let (CellCount::Cells(count), Some(cells)) = (settings.cells, &cells)
            && cells.count() != count
        {
            return Err(invalid(format!("{} cells instead of {count}", cells.count())));
        }
        let operand_scale = OperandScale::from_exponent(exponent);
        Ok(Self {
            settings,
            epoch,
            pca,
            split,
            cells,
            residual_weight,
            operand_scale,
            candidates,
            tuning,
        })
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
