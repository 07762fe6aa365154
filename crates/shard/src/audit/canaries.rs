//! The attacker who looks for canaries, alone and with as many requests as are wanted.

use std::collections::HashMap;

use rand_core::Rng;
use shard_audit::linkage::canaries;
use shard_audit::view::{Release, SeenRequest};
use shard_client::{Collection, SearchOptions};
use shard_geometry::VectorSet;
use shard_geometry::gaussian::Normals;
use shard_protocol::{RowBatch, RowHandle};

use super::Section;
use crate::Error;

/// How far a query that is asked again in other words is from the first, as a part of its length.
const APART: f64 = 0.3;

/// So many queries, those given over and over: every other time to the bit, and else a little different.
pub fn asked_again(queries: &VectorSet, count: usize, rng: &mut impl Rng) -> VectorSet {
    let mut normals = Normals::new(rng);
    let mut values = Vec::with_capacity(count * queries.width());
    for number in 0..count {
        let query = queries.row(number % queries.rows());
        let is_other = number / queries.rows() % 2 == 1;
        let length = query.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        let deviation = APART * length / (queries.width() as f64).sqrt();
        let mut moved = || if is_other { (deviation * normals.draw()) as f32 } else { 0.0 };
        values.extend(query.iter().map(|&x| x + moved()));
    }
    VectorSet::new(queries.width(), values).expect("at least one query, and all of one width")
}

/// Looks for the canaries of a collection as the audit's channel does, by the rows that the server holds,
/// those of an epoch before where it kept them, and the request of every query. Nothing is encrypted:
/// which rows a request names follows from the query alone.
///
/// # Errors
/// When a query does not fit the collection.
///
/// # Panics
/// When the rows are not those of the collection.
pub fn look_for_canaries(
    collection: &Collection,
    rows: &RowBatch,
    older: Option<&RowBatch>,
    queries: &VectorSet,
    seed: u64,
) -> Result<Section, Error> {
    let index = collection.index();
    let places: HashMap<RowHandle, usize> =
        rows.rows().iter().map(|row| row.handle).zip(0..).collect();
    let mut is_canary = vec![false; places.len()];
    for row in 0..index.rows() as u32 {
        is_canary[places[&index.handle(row)]] = index.is_canary(row);
    }
    let options = SearchOptions::default();
    let request = |query: usize| -> Result<SeenRequest, Error> {
        let asked = collection.asked_for(queries.row(query), &options)?;
        Ok(SeenRequest { candidates: asked.iter().map(|handle| places[handle]).collect() })
    };
    let requests = (0..queries.rows()).map(request).collect::<Result<Vec<_>, Error>>()?;
    let older = older.map(Release::from_batch);
    Ok(canaries::look(&Release::from_batch(rows), older.as_ref(), &requests, &is_canary, seed))
}

#[cfg(test)]
mod tests;
