//! What the owner chose when the vault was made.

use serde::{Deserialize, Serialize};
use shard_geometry::Cells;

use crate::error::ClientError;

/// How many keys there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellCount {
    /// This many cells, each with a key.
    Cells(usize),
    /// A key for every document.
    Micro,
}

/// The family a key is drawn from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransformKind {
    /// Uniform over all orthogonal maps.
    Orthogonal,
    /// Signs, permutations and Hadamard rounds: `O(d log d)`.
    Structured,
}

/// A figure that is given, or measured when the model is fitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The smallest that meets the recall target on a held-out sample.
    Auto,
    /// This one.
    Fixed(usize),
}

/// Everything that shapes a model.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Number of keys.
    pub cells: CellCount,
    /// Family of keys.
    pub transform: TransformKind,
    /// Width of the routing prefix.
    pub d_pub: Choice,
    /// Length of the shortlist.
    pub candidates: Choice,
    /// Seed of the partition and of the tuning sample. Not a secret.
    pub seed: u64,
}

impl Settings {
    /// Default number of cells.
    pub const DEFAULT_CELLS: CellCount = CellCount::Cells(256);

    /// The defaults for a number of keys: a dense key per cell, a fast one per document.
    pub fn new(cells: CellCount) -> Self {
        let transform = match cells {
            CellCount::Cells(_) => TransformKind::Orthogonal,
            CellCount::Micro => TransformKind::Structured,
        };
        Self { cells, transform, d_pub: Choice::Auto, candidates: Choice::Auto, seed: 2026 }
    }

    /// Refuses what no corpus could satisfy.
    pub fn check(&self) -> Result<(), ClientError> {
        if let CellCount::Cells(count) = self.cells
            && !(1..=Cells::MAX).contains(&count)
        {
            return Err(ClientError::Setting(format!(
                "{count} cells: between 1 and {} are supported, or `micro`",
                Cells::MAX
            )));
        }
        if self.d_pub == Choice::Fixed(0) {
            return Err(ClientError::Setting("a routing prefix of width 0".into()));
        }
        if self.candidates == Choice::Fixed(0) {
            return Err(ClientError::Setting("a shortlist of 0 candidates".into()));
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(Self::DEFAULT_CELLS)
    }
}
