//! What a server has: the rows it was sent and the requests it answered, nothing else.
//!
//! An attack is given a [`ServerView`], made from bytes that the server really holds, and what its
//! attacker is granted beside it (known pairs, a reference corpus). Attacks have no access to the vault.

use std::collections::HashMap;

use shard_protocol::RowBatch;

use crate::tools::matrix::Matrix;

/// One release of rows, in the server's own order.
#[derive(Clone, Debug)]
pub struct Release {
    /// The stored coordinates. Fixed point is left as it is: no attack depends on the scale.
    pub rows: Matrix,
    /// Which rows share a key, numbered from zero in the order of appearance. Every row has its
    /// own with micro-keys.
    pub cells: Vec<u32>,
    /// The prefixes, where the server holds them as in the paper; by default it does not.
    pub prefixes: Option<Matrix>,
}

impl Release {
    /// The release in a batch of rows.
    ///
    /// # Panics
    /// When the batch is empty.
    pub fn from_batch(batch: &RowBatch) -> Self {
        let mut numbers = HashMap::new();
        let cells = batch.rows().iter().map(|row| {
            let next = numbers.len() as u32;
            *numbers.entry(*row.cell).or_insert(next)
        });
        let cells = cells.collect();
        let mut values = Vec::with_capacity(batch.rows().len() * batch.width());
        for row in batch.rows() {
            values.extend(row.coordinates.iter().map(|&x| f64::from(x)));
        }
        Self { rows: Matrix::new(batch.width(), values), cells, prefixes: None }
    }

    /// Rows of each cell.
    pub fn members(&self) -> Vec<Vec<usize>> {
        let count = self.cells.iter().max().map_or(0, |&last| last as usize + 1);
        let mut members = vec![Vec::new(); count];
        self.cells.iter().enumerate().for_each(|(row, &cell)| members[cell as usize].push(row));
        members
    }
}

/// What the server learned from one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenRequest {
    /// Rows that were asked for, by their place in the release, in the order of the request.
    pub candidates: Vec<usize>,
}

/// Everything a server has.
#[derive(Clone, Debug, Default)]
pub struct ServerView {
    /// Releases, oldest first.
    pub releases: Vec<Release>,
    /// Requests, oldest first.
    pub requests: Vec<SeenRequest>,
}
