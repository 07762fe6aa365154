//! What the server has of the documents under attack.

use std::collections::HashMap;

use shard_audit::view::{Release, SeenRequest, ServerView};
use shard_protocol::{Leak, Row, RowBatch, RowHandle, declassify};

/// The server's side of a subject.
pub(super) struct ServerSide {
    pub(super) view: ServerView,
    /// The document of each row.
    pub(super) documents: Vec<usize>,
    /// Lengths of rows that were left out.
    pub(super) other_lengths: Vec<f64>,
}

impl ServerSide {
    /// Takes the rows of these documents out of `batch`, and out of `requests`.
    pub(super) fn of(
        batch: RowBatch,
        documents: &HashMap<RowHandle, usize>,
        requests: Vec<SeenRequest>,
    ) -> Self {
        let stays = |row: &Row| documents.contains_key(&row.handle);
        let mut next = 0..;
        let places: Vec<Option<usize>> =
            batch.rows().iter().map(|row| if stays(row) { next.next() } else { None }).collect();
        let length = |row: &Row| {
            row.coordinates.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
        };
        let left_out = batch.rows().iter().zip(&places).filter(|(_, place)| place.is_none());
        let other_lengths = left_out.map(|(row, _)| length(row)).collect();
        let (epoch, width) = (batch.epoch(), batch.width());
        let rows: Vec<Row> = batch.into_rows().into_iter().filter(stays).collect();
        let documents = rows.iter().map(|row| documents[&row.handle]).collect();
        // Some of the rows that the server has: nothing is disclosed that was not.
        let batch = RowBatch::new(
            declassify(epoch, Leak::CollectionShape),
            declassify(width, Leak::CollectionShape),
            declassify(rows, Leak::StoredRows),
        );
        let seen = |request: SeenRequest| SeenRequest {
            candidates: request.candidates.into_iter().filter_map(|at| places[at]).collect(),
        };
        let view = ServerView {
            releases: vec![Release::from_batch(&batch)],
            requests: requests.into_iter().map(seen).collect(),
        };
        Self { view, documents, other_lengths }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shard_protocol::{CellHandle, Epoch};

    /// Rows 10, 11 and 12 in cell 1 and 20, 21 in cell 2, of which some are kept.
    fn server_side(kept: &[u64]) -> ServerSide {
        let row = |handle: u64| Row {
            cell: declassify(CellHandle(handle / 10), Leak::CellMembership),
            handle: RowHandle(handle),
            coordinates: vec![handle as i32],
        };
        let rows = [10, 11, 12, 20, 21].map(row).to_vec();
        let batch = RowBatch::new(
            declassify(Epoch(1), Leak::CollectionShape),
            declassify(1, Leak::CollectionShape),
            declassify(rows, Leak::StoredRows),
        );
        // The owner's order is not the server's.
        let documents = kept.iter().rev().enumerate();
        let documents = documents.map(|(at, &handle)| (RowHandle(handle), at)).collect();
        let requests = vec![SeenRequest { candidates: vec![0, 2, 3, 4] }];
        ServerSide::of(batch, &documents, requests)
    }

    fn stored(held: &ServerSide) -> &[f64] {
        held.view.releases[0].rows.values()
    }

    #[test]
    fn everything_is_there_when_everything_is_kept() {
        let held = server_side(&[10, 11, 12, 20, 21]);
        assert_eq!(stored(&held), [10.0, 11.0, 12.0, 20.0, 21.0]);
        assert_eq!(held.documents, [4, 3, 2, 1, 0]);
        assert_eq!(held.view.requests[0].candidates, [0, 2, 3, 4]);
        assert!(held.other_lengths.is_empty());
    }

    #[test]
    fn what_is_left_out_is_in_neither_rows_nor_requests_and_leaves_its_length() {
        let held = server_side(&[11, 12, 21]);
        assert_eq!(stored(&held), [11.0, 12.0, 21.0]);
        assert_eq!(held.documents, [2, 1, 0]);
        assert_eq!(held.view.requests[0].candidates, [1, 2]);
        assert_eq!(held.other_lengths, [10.0, 20.0]);
    }
}
