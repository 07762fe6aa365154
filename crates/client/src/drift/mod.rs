//! Whether the model still fits the documents.
//!
//! A model is fitted once; documents come and go afterwards. When it is fitted, a few figures of
//! how well it serves are recorded, and at later changes the same figures again: energies over the
//! documents that came or changed since the fit, cells and recall over all that are there now.
//! [`ModelDrift::refit_due`] compares them.
//!
//! A change costs as much as the documents that it changes. Energies are kept as sums, to which
//! documents are added and from which they are taken; cells are counted. Recall takes a look at all
//! documents, so it is measured again only after as many changes as [`ModelDrift::measure_due`] says.
//!
//! Nothing here changes a model, and a search never looks at it.

mod measure;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use shard_geometry::{VectorSet, tune};

use crate::error::ClientError;
use crate::index::Index;
use crate::model::Model;
use crate::payload::{PayloadError, Reader, Writer};
pub(crate) use measure::Energy;
use measure::EnergySum;

/// Version 1 kept the energies of each document.
const VERSION: u16 = 2;

/// Recall is measured again after this part of the documents has changed.
const MEASURED_PART: f64 = 0.01;

/// Recall is not measured again after fewer changes.
const FEWEST_CHANGES: u64 = 1000;

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
    documents: u64,
    /// The documents that came or changed since the fit.
    late: EnergySum,
    /// Documents that came, changed or went since recall was measured.
    changes: u64,
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
        let (outside_prefix, outside_basis) = EnergySum::of(energies).means().unwrap_or_default();
        let fitted = Figures {
            outside_prefix,
            outside_basis,
            cells: index.members().as_deref().map(measure::balance),
            recall: measure::recall(model, index, vectors)?,
        };
        let documents = index.rows() as u64;
        Ok(Self { fitted, now: fitted, documents, late: EnergySum::default(), changes: 0 })
    }

    /// How much work a measurement of recall is, in picoseconds of one core.
    pub(crate) fn measure_work(documents: usize, width: usize) -> u64 {
        2 * tune::neighbours_work(documents, width, documents.min(measure::SAMPLE))
    }

    /// Documents came, or changed to these.
    pub(crate) fn came(&mut self, energies: &[Energy]) {
        self.late.add(EnergySum::of(energies));
        self.changes += energies.len() as u64;
    }

    /// Documents that had come or changed since the fit are replaced or deleted. Those the model
    /// was fitted to have left no energy behind: [`settle`](Self::settle) counts them.
    pub(crate) fn gone(&mut self, energies: &[Energy]) {
        self.late.remove(EnergySum::of(energies));
    }

    /// After a change, and after [`came`](Self::came) and [`gone`](Self::gone): the collection has
    /// so many documents now, and so many in each cell, and `deleted` are no longer in it.
    pub(crate) fn settle(&mut self, documents: usize, cells: Option<&[usize]>, deleted: usize) {
        self.documents = documents as u64;
        self.changes += deleted as u64;
        let fitted = (self.fitted.outside_prefix, self.fitted.outside_basis);
        (self.now.outside_prefix, self.now.outside_basis) = self.late.means().unwrap_or(fitted);
        self.now.cells = cells.map(measure::balance);
    }

    /// Whether enough has changed for recall to be measured again: more than a thousand documents
    /// and more than one in a hundred.
    pub(crate) fn measure_due(&self, documents: usize) -> bool {
        let part = (MEASURED_PART * documents as f64) as u64;
        self.changes > part.max(FEWEST_CHANGES)
    }

    /// Measures recall over the collection as it is now.
    pub(crate) fn measure(
        &mut self,
        model: &Model,
        index: &Index,
        vectors: &VectorSet,
    ) -> Result<(), ClientError> {
        self.now.recall = measure::recall(model, index, vectors)?;
        self.changes = 0;
        Ok(())
    }

    /// Of the documents the model was fitted to.
    pub fn fitted(&self) -> &Figures {
        &self.fitted
    }

    /// Energies of the documents that came or changed since, if there are any; cells of all
    /// documents; recall of all documents [some changes ago](Self::changes).
    pub fn now(&self) -> &Figures {
        &self.now
    }

    /// Documents that came or changed since the fit.
    pub fn late(&self) -> usize {
        self.late.count as usize
    }

    /// All documents.
    pub fn documents(&self) -> usize {
        self.documents as usize
    }

    /// Documents that came, changed or went since recall was measured.
    pub fn changes(&self) -> usize {
        self.changes as usize
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
        let mut writer = Writer::new(VERSION);
        writer.string(&json(&self.fitted));
        writer.string(&json(&self.now));
        let EnergySum { count, outside_prefix, outside_basis } = self.late;
        for number in [self.documents, self.changes, count, outside_prefix, outside_basis] {
            writer.u64(number);
        }
        writer.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        let invalid = |error: serde_json::Error| PayloadError::Invalid(error.to_string());
        let mut reader = Reader::new(bytes, VERSION)?;
        let fitted = serde_json::from_str(&reader.string()?).map_err(invalid)?;
        let now = serde_json::from_str(&reader.string()?).map_err(invalid)?;
        let (documents, changes) = (reader.u64()?, reader.u64()?);
        let (count, outside_prefix) = (reader.u64()?, reader.u64()?);
        let late = EnergySum { count, outside_prefix, outside_basis: reader.u64()? };
        reader.finish()?;
        if count > documents || u32::try_from(documents).is_err() || !late.is_sum() {
            return Err(PayloadError::Invalid("its parts do not go together".into()));
        }
        Ok(Self { fitted, now, documents, late, changes })
    }
}

impl std::fmt::Debug for ModelDrift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelDrift")
            .field("fitted", &self.fitted)
            .field("now", &self.now)
            .field("late", &self.late())
            .field("documents", &self.documents())
            .field("changes", &self.changes())
            .finish()
    }
}
