//! What the server has of the documents under attack.

use std::collections::{HashMap, HashSet};

use shard_audit::view::{Release, SeenRequest, ServerView};
use shard_protocol::{CellHandle, Leak, Row, RowBatch, RowHandle, declassify};

/// The server's side of a subject.
pub(super) struct ServerSide {
    pub(super) view: ServerView,
    /// The document of each row; canaries have none.
    pub(super) documents: Vec<Option<usize>>,
    /// Lengths of rows that were left out.
    pub(super) other_lengths: Vec<f64>,
}

impl ServerSide {
    /// Takes `batch` and `requests` without the documents that were `dropped` for a sample. A cell
    /// that has lost all its documents goes as a whole; canaries of the others stay, since the
    /// server cannot tell them from documents.
    pub(super) fn of(
        batch: RowBatch,
        documents: &HashMap<RowHandle, usize>,
        dropped: &HashSet<RowHandle>,
        requests: Vec<SeenRequest>,
    ) -> Self {
        let known = batch.rows().iter().filter(|row| documents.contains_key(&row.handle));
        let cells: HashSet<CellHandle> = known.map(|row| *row.cell).collect();
        let stays = |row: &Row| {
            dropped.is_empty() || (cells.contains(&row.cell) && !dropped.contains(&row.handle))
        };
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
        let documents = rows.iter().map(|row| documents.get(&row.handle).copied()).collect();
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
    use shard_protocol::Epoch;

    /// Rows 10, 11 and 12 in cell 1 and 20, 21 in cell 2; 12 and 21 are canaries.
    fn server_side(dropped: &[u64]) -> ServerSide {
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
        let kept = [10, 11, 20].into_iter().filter(|handle| !dropped.contains(handle));
        let documents = kept.enumerate().map(|(at, handle)| (RowHandle(handle), at)).collect();
        let dropped = dropped.iter().map(|&handle| RowHandle(handle)).collect();
        let requests = vec![SeenRequest { candidates: vec![0, 2, 3, 4] }];
        ServerSide::of(batch, &documents, &dropped, requests)
    }

    fn stored(held: &ServerSide) -> &[f64] {
        held.view.releases[0].rows.values()
    }

    #[test]
    fn everything_is_there_when_nothing_was_dropped() {
        let held = server_side(&[]);
        assert_eq!(stored(&held), [10.0, 11.0, 12.0, 20.0, 21.0]);
        assert_eq!(held.documents, [Some(0), Some(1), None, Some(2), None]);
        assert_eq!(held.view.requests[0].candidates, [0, 2, 3, 4]);
    }

    #[test]
    fn a_cell_goes_with_its_last_document_and_keeps_its_canaries_until_then() {
        let partly = server_side(&[10]);
        assert_eq!(stored(&partly), [11.0, 12.0, 20.0, 21.0]);
        assert_eq!(partly.view.requests[0].candidates, [1, 2, 3]);
        let without = server_side(&[20]);
        assert_eq!(stored(&without), [10.0, 11.0, 12.0]);
        assert_eq!(without.documents, [Some(0), Some(1), None]);
        assert_eq!(without.view.requests[0].candidates, [0, 2]);
    }
}
