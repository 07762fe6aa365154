//! The first half of the journey: which rows to ask about, and the query under each key.

use rayon::prelude::*;
use shard_geometry::{FlatRouter, InvertedRouter, RouteQuery, check_vector};
use shard_protocol::{CellHandle, RowHandle};
use shard_rlwe::OperandBound;
use zeroize::Zeroizing;

use super::options::SearchOptions;
use crate::collection::Collection;
use crate::error::ClientError;
use crate::keys::KeyOwner;
use crate::model::ProjectedQuery;

/// A query that has been routed.
pub(super) struct RoutedQuery {
    /// In principal coordinates, and brought to a length near one.
    projected: ProjectedQuery,
    /// The rows to ask about, the most promising first.
    pub(super) shortlist: Vec<u32>,
}

/// A query that has been rotated, before anything is encrypted. It was divided by `scale`, and so
/// was all that is computed of it here.
pub(super) struct RotatedQuery<'q> {
    /// The query as it was given.
    pub(super) given: &'q [f32],
    /// Active cells and their candidates, each in the order of handles.
    pub(super) cells: Vec<ActiveCell>,
    /// The longest of them, as stored.
    pub(super) bound: OperandBound,
    /// The longest document among them.
    pub(super) longest: f64,
    /// The rotated query of each cell, one after the other.
    pub(super) queries: Zeroizing<Vec<f64>>,
    /// The prefix `V_pub^T q`.
    pub(super) prefix: Zeroizing<Vec<f64>>,
    /// `<u_q, u_i>` of every candidate, in order.
    pub(super) prefix_scores: Zeroizing<Vec<f64>>,
    /// `q . mu`, which turns a centred score back into an inner product.
    pub(super) offset: f64,
    /// The power of two that the query was divided by, and scores are multiplied with.
    pub(super) scale: f64,
}

pub(super) struct ActiveCell {
    pub(super) handle: CellHandle,
    pub(super) owner: KeyOwner,
    /// Names and rows of its candidates.
    pub(super) members: Vec<(RowHandle, u32)>,
}

impl RotatedQuery<'_> {
    /// Rows in the order in which they are scored.
    pub(super) fn members(&self) -> impl Iterator<Item = u32> {
        self.cells.iter().flat_map(|cell| cell.members.iter().map(|(_, row)| *row))
    }
}

impl Collection {
    /// Chooses the rows to ask about: those of the `K` largest estimates. Which of them are canaries plays
    /// no part.
    pub(super) fn route(
        &self,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<RoutedQuery, ClientError> {
        let (model, index) = (self.model(), self.index());
        check_vector(model.split().width(), query)?;
        let projected = model.project_query(query);
        let asked = options.candidates.unwrap_or(model.candidates().max(options.top)).max(1);
        let wanted = asked.min(index.rows());
        let most = model.settings().cells.most_candidates();
        if wanted > most {
            return Err(ClientError::Setting(format!(
                "{asked} candidates: a request can name at most {most}"
            )));
        }
        let shortlist = self.shortlist(model.route_query(&projected), wanted, options.probe)?;
        Ok(RoutedQuery { projected, shortlist })
    }

    /// The names of the rows that a search for this query would ask about, in the order in which they are
    /// sent. They follow from the query alone: the same query names the same rows.
    ///
    /// # Errors
    /// When the query or the options do not fit the collection.
    pub fn asked_for(
        &self,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<Vec<RowHandle>, ClientError> {
        let cells = self.by_cell(&self.route(query, options)?.shortlist);
        Ok(cells.into_iter().flat_map(|cell| cell.members).map(|(handle, _)| handle).collect())
    }

    /// Rotates the query by the key of every cell of the shortlist.
    pub(super) fn rotate<'q>(&self, query: &'q [f32], routed: &RoutedQuery) -> RotatedQuery<'q> {
        let (model, index) = (self.model(), self.index());
        let ProjectedQuery { coordinates, scale } = &routed.projected;
        let (prefix, residual) = model.split().halves(coordinates);
        let cells = self.by_cell(&routed.shortlist);
        let norms = routed.shortlist.iter().map(|&row| index.residual_norms()[row as usize]);
        let bound = model.operand_bound(norms.fold(0.0, f32::max));
        let lengths = routed.shortlist.iter().map(|row| index.length(*row));
        let longest = lengths.fold(0.0, f64::max);
        let mut queries = Zeroizing::new(vec![0.0; cells.len() * residual.len()]);
        queries.par_chunks_mut(residual.len()).zip(&cells).for_each(|(rotated, cell)| {
            rotated.copy_from_slice(residual);
            model.key(self.keys(), cell.owner).apply(rotated);
        });
        let terms = query.iter().zip(model.pca().mean()).map(|(q, mu)| f64::from(*q) * mu);
        let offset = terms.sum::<f64>() / scale;
        let prefix_scores = self.prefix_scores(prefix, &cells);
        let prefix = Zeroizing::new(prefix.to_vec());
        let scale = *scale;
        RotatedQuery {
            given: query,
            cells,
            bound,
            longest,
            queries,
            prefix,
            prefix_scores,
            offset,
            scale,
        }
    }

    fn shortlist(
        &self,
        query: RouteQuery,
        count: usize,
        probe: Option<usize>,
    ) -> Result<Vec<u32>, ClientError> {
        let index = self.index();
        if probe.is_some() && self.model().cells().is_none() {
            return Err(ClientError::Setting(
                "a vault with a key for every document has no cells to probe".into(),
            ));
        }
        let (prefixes, norms) = (index.prefixes(), index.residual_norms());
        let mut lists = match (probe, self.model().cells(), index.lists()) {
            (Some(probe), Some(cells), Some(lists)) => InvertedRouter::new(
                cells, lists, prefixes, norms,
            )?
            .shortlist(&[query], count, probe)?,
            _ => FlatRouter::new(self.model().split().prefix(), prefixes, norms)?
                .shortlist(&[query], count)?,
        };
        Ok(lists.swap_remove(0))
    }

    /// Candidates by cell, cells and rows in the order of handles, as they are sent.
    fn by_cell(&self, shortlist: &[u32]) -> Vec<ActiveCell> {
        let index = self.index();
        let mut named: Vec<(KeyOwner, RowHandle, u32)> = shortlist
            .iter()
            .map(|&row| {
                let handle = index.handle(row);
                let owner = index.cell(row).map_or(KeyOwner::Row(handle), KeyOwner::Cell);
                (owner, handle, row)
            })
            .collect();
        named.sort_unstable();
        let mut cells: Vec<ActiveCell> = named
            .chunk_by(|a, b| a.0 == b.0)
            .map(|members| ActiveCell {
                handle: self.keys().cell_handle(members[0].0),
                owner: members[0].0,
                members: members.iter().map(|(_, handle, row)| (*handle, *row)).collect(),
            })
            .collect();
        cells.sort_unstable_by_key(|cell| cell.handle);
        cells
    }

    /// `<u_q, u_i>` of every candidate.
    fn prefix_scores(&self, prefix: &[f64], cells: &[ActiveCell]) -> Zeroizing<Vec<f64>> {
        let members = cells.iter().flat_map(|cell| &cell.members);
        let score = |&(_, row): &(RowHandle, u32)| {
            let stored = self.index().prefix(row);
            prefix.iter().zip(stored).map(|(q, u)| q * f64::from(*u)).sum::<f64>()
        };
        Zeroizing::new(members.map(score).collect())
    }
}
