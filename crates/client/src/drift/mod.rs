//! Whether the model still fits the documents.
//!
//! A model is fitted once; documents come and go afterwards. When it is fitted, a few figures of
//! how well it serves are recorded, and at every later change the same figures again: energies over
//! the documents that came or changed since the fit, cells and recall over all that are there now.
//! [`ModelDrift::refit_due`] compares them.
//!
//! Nothing here changes a model, and a search never looks at it.

mod measure;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use shard_geometry::{VectorSet, tune};

use crate::error::ClientError;
use crate::index::{Index, Removal};
use crate::model::Model;
use crate::payload::{PayloadError, Reader, Writer};
pub(crate) use measure::{Energy, energies};

const VERSION: u16 = 1;

/// A refit is due when recall falls below this part of what it was at the fit.
const RECALL_KEPT: f64 = 0.99;

/// By how much a recall measured on [`measure::SAMPLE`] queries may miss the target of the fit for no
/// reason but chance.
const RECALL_MARGIN: f64 = 0.005;

/// A refit is due when new documents have more than this many times the energy outside the prefix
/// that the fitted ones had.
const PREFIX_GROWTH: f64 = 1.25;

/// A refit is due when new documents have more than this part of their energy where the fitted ones
/// had none.
const OUTSIDE_BASIS: f64 = 0.01;

/// A refit is due when the largest cell has grown, against the mean, by more than this factor.
const IMBALANCE_GROWTH: f64 = 2.0;

/// A refit is due when more than this part of the documents came after the fit.
const LATE_PART: f64 = 0.5;

/// Energies of fewer documents than these are not judged: one odd document is no drift.
const FEWEST_JUDGED: usize = 10;

/// How well a model serves its documents.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Mean part of a document's energy outside the routing prefix: `|r|^2 / |x - mu|^2`.
    pub outside_prefix: f64,
    /// Mean part of a document's energy in directions in which the fitted documents did not vary.
    pub outside_basis: f64,
    /// How even the cells are, unless every document has a key of its own.
    pub cells: Option<Balance>,
    /// Part of the true ten nearest documents that the shortlist holds, for a sample of documents
    /// with noise.
    pub recall: f64,
}

/// How evenly documents are spread over cells.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Balance {
    /// Documents of the largest cell, over the mean.
    pub imbalance: f64,
    /// `exp(H) / C`, where `H` is the entropy of the cell of a random document: 1 if all `C` cells
    /// are equal, `1 / C` if one has everything.
    pub effective: f64,
}

/// The figures of the fit beside those of now.
#[derive(Clone, PartialEq, Default)]
pub struct ModelDrift {
    fitted: Figures,
    now: Figures,
    /// By row, the energies of documents that came or changed since the fit.
    late: Vec<Option<Energy>>,
}

/// Why a model should be fitted anew.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefitReason {
    /// The router finds less than it did.
    #[error("the shortlist holds {:.2} % of the true top 10, {:.2} % when the model was fitted", 100.0 * .now, 100.0 * .fitted)]
    RecallFell {
        /// Recall now.
        now: f64,
        /// Recall at the fit.
        fitted: f64,
    },
    /// The router found what it should, and does no longer.
    #[error("the shortlist holds {:.2} % of the true top 10, and {:.2} % are the target", 100.0 * .now, 100.0 * .target)]
    RecallBelowTarget {
        /// Recall now.
        now: f64,
        /// Recall that the fit aims at.
        target: f64,
    },
    /// Prefixes tell less of the new documents.
    #[error("new documents have {:.1} % of their energy outside the prefix, fitted ones {:.1} %", 100.0 * .now, 100.0 * .fitted)]
    OutsidePrefix {
        /// Of new documents.
        now: f64,
        /// Of fitted documents.
        fitted: f64,
    },
    /// The new documents vary where the fitted ones did not.
    #[error("new documents have {:.1} % of their energy in directions that the model does not know", 100.0 * .0)]
    OutsideBasis(f64),
    /// A cell has outgrown the others.
    #[error(
        "the largest cell is {now:.1} times the mean, {fitted:.1} times when the model was fitted"
    )]
    Imbalance {
        /// Largest over mean now.
        now: f64,
        /// Largest over mean at the fit.
        fitted: f64,
    },
    /// Most documents are new.
    #[error("{late} of {documents} documents came after the model was fitted")]
    Growth {
        /// Documents that came or changed since the fit.
        late: usize,
        /// All documents.
        documents: usize,
    },
}

impl ModelDrift {
    /// The record of a model just fitted to documents of these energies.
    pub(crate) fn at_fit(
        model: &Model,
        index: &Index,
        vectors: &VectorSet,
        energies: &[Energy],
    ) -> Result<Self, ClientError> {
        let mean = Energy::mean(energies.iter());
        let fitted = Figures {
            outside_prefix: mean.outside_prefix.into(),
            outside_basis: mean.outside_basis.into(),
            cells: index.lists().map(measure::balance),
            recall: measure::recall(model, index, vectors)?,
        };
        Ok(Self { fitted, now: fitted, late: vec![None; index.rows()] })
    }

    /// The energies of documents that came or changed, by row, of a collection that now has `rows`.
    pub(crate) fn record(&mut self, rows: usize, came: impl Iterator<Item = (u32, Energy)>) {
        self.late.resize(rows, None);
        came.for_each(|(row, energy)| self.late[row as usize] = Some(energy));
    }

    /// Forgets rows.
    pub(crate) fn remove(&mut self, removal: &Removal) {
        removal.apply(&mut self.late, 1);
    }

    /// Measures the collection as it is now.
    pub(crate) fn measure(
        &mut self,
        model: &Model,
        index: &Index,
        vectors: &VectorSet,
    ) -> Result<(), ClientError> {
        let mean = match self.late() {
            0 => None,
            _ => Some(Energy::mean(self.late.iter().flatten())),
        };
        self.now = Figures {
            outside_prefix: mean
                .map_or(self.fitted.outside_prefix, |mean| mean.outside_prefix.into()),
            outside_basis: mean.map_or(self.fitted.outside_basis, |mean| mean.outside_basis.into()),
            cells: index.lists().map(measure::balance),
            recall: measure::recall(model, index, vectors)?,
        };
        Ok(())
    }

    /// Of the documents the model was fitted to.
    pub fn fitted(&self) -> &Figures {
        &self.fitted
    }

    /// Energies of the documents that came or changed since, if there are any; the rest of all
    /// documents, at the last change.
    pub fn now(&self) -> &Figures {
        &self.now
    }

    /// Documents that came or changed since the fit.
    pub fn late(&self) -> usize {
        self.late.iter().flatten().count()
    }

    /// All documents.
    pub fn documents(&self) -> usize {
        self.late.len()
    }

    /// Every reason to fit a new model; none, as a rule.
    pub fn refit_due(&self) -> Vec<RefitReason> {
        let (now, fitted) = (&self.now, &self.fitted);
        let (late, documents) = (self.late(), self.documents());
        let mut reasons = Vec::new();
        let target = tune::HELD;
        if now.recall < RECALL_KEPT * fitted.recall {
            reasons.push(RefitReason::RecallFell { now: now.recall, fitted: fitted.recall });
        } else if fitted.recall >= target && now.recall < target - RECALL_MARGIN {
            // Where the fit itself missed the target, another fit would miss it as well.
            reasons.push(RefitReason::RecallBelowTarget { now: now.recall, target });
        }
        if late >= FEWEST_JUDGED {
            if now.outside_prefix > PREFIX_GROWTH * fitted.outside_prefix {
                let (now, fitted) = (now.outside_prefix, fitted.outside_prefix);
                reasons.push(RefitReason::OutsidePrefix { now, fitted });
            }
            if now.outside_basis > OUTSIDE_BASIS {
                reasons.push(RefitReason::OutsideBasis(now.outside_basis));
            }
        }
        if let (Some(now), Some(fitted)) = (now.cells, fitted.cells)
            && now.imbalance > IMBALANCE_GROWTH * fitted.imbalance
        {
            let (now, fitted) = (now.imbalance, fitted.imbalance);
            reasons.push(RefitReason::Imbalance { now, fitted });
        }
        if late as f64 > LATE_PART * documents as f64 {
            reasons.push(RefitReason::Growth { late, documents });
        }
        reasons
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let json = |figures| serde_json::to_string(figures).expect("plain structures encode");
        let late = (0..).zip(&self.late).filter_map(|(row, energy)| Some((row, (*energy)?)));
        let (rows, energies): (Vec<u32>, Vec<Energy>) = late.unzip();
        let mut writer = Writer::new(VERSION);
        writer.string(&json(&self.fitted));
        writer.string(&json(&self.now));
        writer.u64(self.late.len() as u64);
        writer.u32s(&rows);
        writer.f32s(&energies.iter().map(|energy| energy.outside_prefix).collect::<Vec<_>>());
        writer.f32s(&energies.iter().map(|energy| energy.outside_basis).collect::<Vec<_>>());
        writer.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        let invalid = |error: serde_json::Error| PayloadError::Invalid(error.to_string());
        let mut reader = Reader::new(bytes, VERSION)?;
        let fitted = serde_json::from_str(&reader.string()?).map_err(invalid)?;
        let now = serde_json::from_str(&reader.string()?).map_err(invalid)?;
        let documents = reader.size()?;
        let (rows, prefix, basis) = (reader.u32s()?, reader.f32s()?, reader.f32s()?);
        reader.finish()?;
        let ascending = rows.is_sorted_by(|a, b| a < b);
        let last = rows.last().map_or(0, |&row| row as usize + 1);
        if !ascending
            || last > documents
            || u32::try_from(documents).is_err()
            || [prefix.len(), basis.len()] != [rows.len(); 2]
        {
            return Err(PayloadError::Invalid("its parts do not go together".into()));
        }
        let mut late = vec![None; documents];
        for ((row, outside_prefix), outside_basis) in rows.into_iter().zip(prefix).zip(basis) {
            late[row as usize] = Some(Energy { outside_prefix, outside_basis });
        }
        Ok(Self { fitted, now, late })
    }
}

/// Energies of single documents tell about them, so only the figures print.
impl std::fmt::Debug for ModelDrift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelDrift")
            .field("fitted", &self.fitted)
            .field("now", &self.now)
            .field("late", &self.late())
            .field("documents", &self.documents())
            .finish()
    }
}
