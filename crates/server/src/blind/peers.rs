//! A search over what several servers hold: each multiplies its share, and the answers are put together.
//!
//! The server that a client asks divides the units of a table (blocks, or segments of records) among those
//! that hold them, sends each the query with the numbers of its units, computes its own meanwhile, and puts
//! every unit's part of the answer where the list of the commit has it. A server that does not answer is not
//! counted on from then on, and what it was asked for goes to whoever holds it without it. The client's check
//! is over the whole answer, so a part that is missing or of another commit cannot pass for one.

use std::collections::BTreeMap;
use std::sync::Arc;

use shard_protocol::{BlindAnswer, BlindQuery, CollectionName, DecodeError, Limits, Refusal};
use shard_store::WorkerId;

use super::{Held, View};
use crate::{Server, ServerError};

/// How often what a server did not answer is given to others.
const ATTEMPTS: usize = 4;

/// Why another server gave no answer.
#[derive(Debug, thiserror::Error, Clone)]
pub enum PeerError {
    /// It cannot be reached, or went away.
    #[error("{0}")]
    Unreachable(String),
    /// It refused, for a reason that the client is to be told.
    #[error("{}", .0.text)]
    Refused(Refusal),
}

/// An answer to wait for.
pub type Asked = Box<dyn FnOnce() -> Result<Vec<u8>, PeerError>>;

/// The other servers that share what is held.
pub trait Peers: Send + Sync {
    /// Who is asked now.
    fn view(&self) -> Arc<View>;

    /// Among whom blocks are to be divided: those who are asked once everybody had time to load.
    fn next_view(&self) -> Arc<View>;

    /// Sends a [`PartQuery`] to another server, and returns what waits for its answer of so many bytes at most.
    fn ask(
        &self,
        worker: WorkerId,
        collection: &CollectionName,
        message: Vec<u8>,
        most: usize,
    ) -> Asked;

    /// Does not count on a server for a while.
    fn suspect(&self, worker: WorkerId, why: &str);
}

/// A query for some units of its table, from one server to another.
pub struct PartQuery {
    units: Vec<u32>,
    query: BlindQuery,
}

impl PartQuery {
    /// Its bytes: how many units, their numbers, the query as a client sends it.
    fn encode(units: &[u32], query: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 + 4 * units.len() + query.len());
        bytes.extend_from_slice(&(units.len() as u32).to_le_bytes());
        units.iter().for_each(|unit| bytes.extend_from_slice(&unit.to_le_bytes()));
        bytes.extend_from_slice(query);
        bytes
    }

    /// Reads the bytes. Units are numbered in rising order, and there is one at least.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        let short = || DecodeError::Invalid("a part of a search without its units");
        let (count, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let length = (u32::from_le_bytes(*count) as usize).checked_mul(4).ok_or_else(short)?;
        let (units, query) = rest.split_at_checked(length).ok_or_else(short)?;
        let units: Vec<u32> =
            units.as_chunks().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        if units.is_empty() || !units.is_sorted_by(|a, b| a < b) {
            return Err(DecodeError::Invalid("units of a search that are not in rising order"));
        }
        Ok(Self { units, query: BlindQuery::decode(query, limits)? })
    }
}

impl Server {
    /// Answers another server's part of a search.
    ///
    /// # Errors
    /// When the part is malformed, its commit is not the one that is held, or a unit cannot be loaded.
    pub fn answer_for_peer(
        &self,
        collection: &CollectionName,
        message: &[u8],
    ) -> Result<Vec<u8>, ServerError> {
        let PartQuery { units, query } = PartQuery::decode(message, &self.limits)?;
        let held = self.searched(collection, query.epoch(), query.commit())?;
        let most = held.units(query.table())?;
        if units.last().is_some_and(|&last| last as usize >= most) {
            return Err(DecodeError::Invalid("a unit that the commit does not have").into());
        }
        let held = self.with_units(collection, held, query.table(), &units)?;
        let answers = self.products(&held, &query, &units)?;
        Ok(BlindAnswer::new(answers).encode())
    }

    /// The answers of some units to a search, of which others compute their shares: unit after unit, in rising
    /// order.
    pub(super) fn answer_together(
        &self,
        peers: &dyn Peers,
        collection: &CollectionName,
        held: &Arc<Held>,
        query: &BlindQuery,
        units: &[u32],
    ) -> Result<Vec<Vec<u8>>, ServerError> {
        let table = query.table();
        let each = held.unit_bytes(table)?;
        let message = query.encode();
        let mut answers = vec![vec![0; units.len() * each]; query.queries().len()];
        let mut put = |some: &[u32], parts: &[Vec<u8>]| put(&mut answers, units, some, each, parts);
        let mut left = units.to_vec();
        let mut reason = None;
        for _ in 0..ATTEMPTS {
            let view = peers.view();
            let parts = divided(&view, collection, query, &left);
            let asked: Vec<(WorkerId, &Vec<u32>, Asked)> = parts
                .iter()
                .filter(|(worker, _)| **worker != view.me())
                .map(|(&worker, units)| {
                    let part = PartQuery::encode(units, &message);
                    // The answers, and what a message has besides.
                    let most = units.len() * each * query.queries().len() + 1024;
                    (worker, units, peers.ask(worker, collection, part, most))
                })
                .collect();
            let own = parts.get(&view.me()).map(|units| -> Result<(), ServerError> {
                let held = self.with_units(collection, held.clone(), table, units)?;
                put(units, &self.products(&held, query, units)?);
                Ok(())
            });
            left.clear();
            let mut refused = own.transpose().err();
            for (worker, units, wait) in asked {
                let length = units.len() * each;
                let answer = wait().and_then(|bytes| {
                    BlindAnswer::decode(&bytes, query.queries().len(), length, &self.limits)
                        .map_err(|error| PeerError::Unreachable(error.to_string()))
                });
                match answer {
                    Ok(answer) => put(units, answer.answers()),
                    Err(PeerError::Refused(refusal)) => {
                        refused = refused.or(Some(ServerError::Peer(refusal)));
                    }
                    Err(PeerError::Unreachable(why)) => {
                        peers.suspect(worker, &why);
                        left.extend(units);
                        reason = Some(why);
                    }
                }
            }
            if let Some(refused) = refused {
                return Err(refused);
            }
            if left.is_empty() {
                return Ok(answers);
            }
            left.sort_unstable();
        }
        Err(ServerError::Unreachable(reason.unwrap_or_default()))
    }
}

/// Who is asked for which units.
fn divided(
    view: &View,
    collection: &CollectionName,
    query: &BlindQuery,
    units: &[u32],
) -> BTreeMap<WorkerId, Vec<u32>> {
    let share = view.of(collection, query.table());
    let mut parts: BTreeMap<WorkerId, Vec<u32>> = BTreeMap::new();
    for &unit in units {
        parts.entry(share.first(unit)).or_default().push(unit);
    }
    parts
}

/// Puts the parts of some units where they belong in the answers of all that are asked for.
fn put(answers: &mut [Vec<u8>], all: &[u32], some: &[u32], each: usize, parts: &[Vec<u8>]) {
    for (answer, part) in answers.iter_mut().zip(parts) {
        for (unit, part) in some.iter().zip(part.chunks_exact(each)) {
            let at = all.binary_search(unit).expect("one of those that are asked for");
            answer[at * each..][..each].copy_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_without_units_or_out_of_order_are_refused() {
        let limits = Limits::default();
        for units in [vec![], vec![2, 1], vec![3, 3]] {
            assert!(PartQuery::decode(&PartQuery::encode(&units, b""), &limits).is_err());
        }
        for bytes in [&[][..], &[1, 0, 0, 0], &[255; 8]] {
            assert!(PartQuery::decode(bytes, &limits).is_err());
        }
    }

    #[test]
    fn parts_are_put_where_the_list_has_them() {
        let mut answers = vec![vec![0; 8]; 2];
        put(&mut answers, &[2, 4, 6, 9], &[4, 9], 2, &[vec![1, 2, 3, 4], vec![5, 6, 7, 8]]);
        assert_eq!(answers, [[0, 0, 1, 2, 0, 0, 3, 4], [0, 0, 5, 6, 0, 0, 7, 8]]);
    }
}
