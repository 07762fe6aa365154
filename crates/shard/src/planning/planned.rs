//! Everything that is planned for a vault, or for a collection that is yet to be.

use serde::Serialize;
use shard_client::ClientError;
use shard_client::vault::VaultAccess;
use shard_geometry::VectorSet;

use super::{
    Capacity, Prices, Probes, Wanted, Ways, capacity, compare_probes, compare_ways, compare_ways_of,
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
    /// When the vault is empty, or there are queries and no cells.
    pub fn plan(
        &self,
        megabits: Option<f64>,
        queries: Option<&VectorSet>,
    ) -> Result<Planned, Error> {
        let held = self.collection()?.ok_or(ClientError::Empty)?;
        let ways = compare_ways_of(&held, megabits).map_err(ClientError::from)?;
        let with_cells = held.blind().filter(|blind| blind.cells().is_some());
        let cells = match with_cells {
            None if queries.is_some() => {
                let reason =
                    "queries measure what searches of some cells find, and this vault has no cells";
                return Err(ClientError::Setting(reason.to_owned()).into());
            }
            // A query vault has no vectors to measure with.
            Some(blind) if self.access() == VaultAccess::Owner => {
                compare_probes(blind, &self.documents()?, queries)?
            }
            _ => None,
        };
        Ok(Planned { ways, cells, capacity: None, prices: None })
    }
}

impl Wanted {
    /// Plans for a collection that is to be like this.
    ///
    /// # Errors
    /// When there is no shape for the dimension, or there cannot be so many cells.
    pub fn plan(&self, prices: Prices) -> Result<Planned, Error> {
        let rows = self.rows;
        let impossible =
            |(cells, probe): &(usize, usize)| *probe == 0 || probe > cells || *cells > rows;
        if let Some((cells, probe)) = self.cells.filter(impossible) {
            return Err(ClientError::Setting(format!(
                "{probe} of {cells} cells of {rows} documents: a search asks for 1 to {cells} cells, and \
                 there are at most {rows}"
            ))
            .into());
        }
        let ways = compare_ways(rows, self.dimension, self.megabits).map_err(ClientError::from)?;
        let capacity = capacity(self, &prices)?;
        Ok(Planned { ways, cells: None, capacity: Some(capacity), prices: Some(prices) })
    }
}
