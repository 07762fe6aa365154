//! Everything that is planned for a vault, or for a collection that is yet to be.

use serde::Serialize;
use shard_client::ClientError;
use shard_client::vault::{VaultAccess, VaultError};
use shard_geometry::VectorSet;

use super::{
    Capacity, Prices, Probes, Wanted, Ways, capacity, compare_probes, compare_ways_in_cells,
    compare_ways_measured,
};
use crate::{Error, Vault};

/// What the ways to search cost, and more where it can be said.
#[derive(Serialize)]
pub struct Planned {
    /// The ways side by side.
    #[serde(flatten)]
    pub ways: Ways,
    /// What searches of some cells find, of a vault that has cells and vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cells: Option<Probes>,
    /// What a collection without a vault takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// The prices that this is by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

impl Vault {
    /// Plans for the collection of the vault. Queries are for measuring what searches of some cells find;
    /// without any, documents are looked for.
    ///
    /// # Errors
    /// When the vault is empty, there is no such link, or there are queries and no cells or no vectors.
    pub fn plan(
        &self,
        megabits: Option<f64>,
        queries: Option<&VectorSet>,
    ) -> Result<Planned, Error> {
        let held = self.collection()?.ok_or(ClientError::Empty)?;
        let with_cells = held.blind().filter(|blind| blind.cells().is_some());
        let cells = match with_cells {
            None if queries.is_some() => {
                let reason =
                    "queries measure what searches of some cells find, and this vault has no cells";
                return Err(ClientError::Setting(reason.to_owned()).into());
            }
            // A query vault has no vectors to measure with.
            Some(blind) if self.access() == VaultAccess::Owner => match self.documents() {
                Ok(documents) => compare_probes(blind, &documents, queries)?,
                Err(Error::Client(ClientError::Vault(VaultError::Elsewhere { .. })))
                    if queries.is_none() =>
                {
                    None
                }
                Err(error) => return Err(error),
            },
            _ => None,
        };
        let measured = cells.as_ref().and_then(Probes::usual);
        let ways = compare_ways_measured(&held, measured, megabits)?;
        Ok(Planned { ways, cells, capacity: None, prices: None })
    }
}

impl Wanted {
    /// Plans for a collection that is to be like this.
    ///
    /// # Errors
    /// When there is no shape for the dimension, there cannot be so many cells, or prices are none.
    pub fn plan(&self, prices: Prices) -> Result<Planned, Error> {
        let capacity = capacity(self, &prices)?;
        let ways = compare_ways_in_cells(self.rows, self.dimension, self.cells, self.megabits)?;
        Ok(Planned { ways, cells: None, capacity: Some(capacity), prices: Some(prices) })
    }
}
