//! The first half of the journey: which rows to ask about, and the query under each key.

use std::collections::HashSet;

use rayon::prelude::*;
use shard_geometry::{FlatRouter, InvertedRouter, RouteQuery, check_vector};
use shard_protocol::{CellHandle, RowHandle};
use shard_rlwe::{OperandBound, fill_from_os};
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
pub(super) struct RotatedQuery {
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
    pub(super) members: Vec<(RowHandle, Member)>,
}

/// What a scored row is to the client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Member {
    /// A document, by row.
    Document(u32),
    /// A canary, by number.
    Canary(u32),
}

impl RotatedQuery {
    /// Rows in the order in which they are scored.
    pub(super) fn members(&self) -> impl Iterator<Item = Member> {
        self.cells.iter().flat_map(|cell| cell.members.iter().map(|(_, member)| *member))
    }
}

impl Collection {
    /// Chooses the rows to ask about.
    pub(super) fn route(
        &self,
        query: &[f32],
        options: &SearchOptions,
    ) -> Result<RoutedQuery, ClientError> {
        let model = self.model();
        check_vector(model.split().width(), query)?;
        let projected = model.project_query(query);
        let count = options.candidates.unwrap_or(model.candidates().max(options.top)).max(1);
        let most = model.settings().cells.most_candidates();
        if count.min(self.index().rows()) > most {
            return Err(ClientError::Setting(format!(
                "{count} candidates: a request can name at most {most}"
            )));
        }
        let shortlist = self.shortlist(model.route_query(&projected), count, options.probe)?;
        Ok(RoutedQuery { projected, shortlist })
    }

    /// Rotates the query by the key of every cell of the shortlist, and mixes canaries in.
    pub(super) fn rotate(
        &self,
        query: &[f32],
        routed: &RoutedQuery,
        canaries: usize,
    ) -> Result<RotatedQuery, ClientError> {
        let model = self.model();
        let ProjectedQuery { coordinates, scale } = &routed.projected;
        let (prefix, residual) = model.split().halves(coordinates);
        let cells = self.by_cell(&routed.shortlist, canaries)?;
        let bounds = cells.iter().flat_map(|cell| &cell.members).map(|(_, member)| match member {
            Member::Document(row) => {
                model.operand_bound(self.index().residual_norms()[*row as usize])
            }
            Member::Canary(number) => {
                OperandBound::of(&self.index().canaries()[*number as usize].coordinates)
            }
        });
        let bound = bounds.fold(OperandBound::new(0.0), OperandBound::max);
        let lengths = routed.shortlist.iter().map(|row| self.index().length(*row));
        let longest = lengths.fold(0.0, f64::max);
        let mut queries = Zeroizing::new(vec![0.0; cells.len() * residual.len()]);
        queries.par_chunks_mut(residual.len()).zip(&cells).for_each(|(rotated, cell)| {
            rotated.copy_from_slice(residual);
            model.key(self.keys(), cell.owner).apply(rotated);
        });
        let terms = query.iter().zip(model.pca().mean()).map(|(q, mu)| f64::from(*q) * mu);
        let offset = terms.sum::<f64>() / scale;
        let prefix_scores = self.prefix_scores(prefix, &cells)?;
        let prefix = Zeroizing::new(prefix.to_vec());
        let scale = *scale;
        Ok(RotatedQuery { cells, bound, longest, queries, prefix, prefix_scores, offset, scale })
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

    /// Candidates and canaries by cell, cells and rows in the order of handles, as they are sent.
    fn by_cell(&self, shortlist: &[u32], canaries: usize) -> Result<Vec<ActiveCell>, ClientError> {
        let index = self.index();
        let mut named: Vec<(KeyOwner, RowHandle, Member)> = shortlist
            .iter()
            .map(|&row| {
                let handle = index.handle(row);
                let owner = index.cell(row).map_or(KeyOwner::Row(handle), KeyOwner::Cell);
                (owner, handle, Member::Document(row))
            })
            .collect();
        let active: HashSet<KeyOwner> = named.iter().map(|(owner, _, _)| *owner).collect();
        for number in self.choose_canaries(&active, canaries)? {
            let canary = &index.canaries()[number as usize];
            named.push((canary.owner(), canary.handle, Member::Canary(number)));
        }
        named.sort_unstable();
        let mut cells: Vec<ActiveCell> = named
            .chunk_by(|a, b| a.0 == b.0)
            .map(|members| ActiveCell {
                handle: self.keys().cell_handle(members[0].0),
                owner: members[0].0,
                members: members.iter().map(|(_, handle, member)| (*handle, *member)).collect(),
            })
            .collect();
        cells.sort_unstable_by_key(|cell| cell.handle);
        Ok(cells)
    }

    /// A random choice among the canaries of the active cells (or among all, where each has a
    /// key of its own): no cell is asked about for a canary's sake.
    fn choose_canaries(
        &self,
        active: &HashSet<KeyOwner>,
        count: usize,
    ) -> Result<Vec<u32>, ClientError> {
        let canaries = self.index().canaries().iter().zip(0..);
        let mut eligible: Vec<u32> = canaries
            .filter(|(canary, _)| canary.cell.is_none() || active.contains(&canary.owner()))
            .map(|(_, number)| number)
            .collect();
        let mut words = vec![0; 8 * count.min(eligible.len())];
        fill_from_os(&mut words)?;
        Ok(words
            .chunks_exact(8)
            .map(|word| {
                let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                eligible.swap_remove((word % eligible.len() as u64) as usize)
            })
            .collect())
    }

    /// `<u_q, u_i>` of every candidate. A canary has no prefix; it gets a random point between
    /// those of two random documents, so that it does not stand out where these are disclosed.
    fn prefix_scores(
        &self,
        prefix: &[f64],
        cells: &[ActiveCell],
    ) -> Result<Zeroizing<Vec<f64>>, ClientError> {
        let members = || cells.iter().flat_map(|cell| &cell.members).map(|(_, member)| *member);
        let own = |member: Member| match member {
            Member::Document(row) => {
                let stored = self.index().prefix(row);
                Some(prefix.iter().zip(stored).map(|(q, u)| q * f64::from(*u)).sum::<f64>())
            }
            Member::Canary(_) => None,
        };
        let of_documents: Vec<f64> = members().filter_map(own).collect();
        let mut scores = Zeroizing::new(Vec::with_capacity(members().count()));
        let mut documents = of_documents.iter();
        for member in members() {
            scores.push(match member {
                Member::Document(_) => *documents.next().expect("a score for each document"),
                Member::Canary(_) => between(&of_documents)?,
            });
        }
        Ok(scores)
    }
}

/// A random point between two random ones of some scores.
fn between(scores: &[f64]) -> Result<f64, ClientError> {
    let mut words = [0; 24];
    fill_from_os(&mut words)?;
    let (words, _) = words.as_chunks::<8>();
    let unit = |word: &[u8; 8]| u64::from_le_bytes(*word) as f64 * 2_f64.powi(-64);
    let pick = |word| scores[((unit(word) * scores.len() as f64) as usize).min(scores.len() - 1)];
    let weight = unit(&words[0]);
    Ok(weight * pick(&words[1]) + (1.0 - weight) * pick(&words[2]))
}
