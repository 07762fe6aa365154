//! Rows in memory, while another process changes them.

use shard_protocol::{Advance, CommitName, Revision, RowMac};
use shard_protocol::{Candidates, CellHandle, Epoch, Leak, Row, RowBatch, RowHandle, declassify};

use super::*;
use crate::StoreError;

const EPOCH: Epoch = Epoch(1);

fn write(rows: &PostgresRows, handle: u64, coordinates: &[i32]) {
    let state = rows.describe(&main_collection()).unwrap();
    let to = CommitName([1; 16]);
    let advance = Advance { from: state.commit, to, revision: Revision(1), turn: state.turn };
    let row = Row {
        handle: RowHandle(handle),
        cell: declassify(CellHandle(7), Leak::CellMembership),
        coordinates: coordinates.to_vec(),
    };
    let batch = RowBatch::new(
        declassify(EPOCH, Leak::CollectionShape),
        declassify(coordinates.len(), Leak::CollectionShape),
        declassify(vec![row], Leak::StoredRows),
    );
    // The same MAC whatever the row is: the engine does not take an owner at its word.
    rows.upsert(&main_collection(), &advance, batch, &[RowMac([9; 16])]).unwrap();
    rows.activate(&main_collection(), &advance, EPOCH).unwrap();
}

fn fetch(rows: &PostgresRows) -> Result<Vec<Vec<i32>>, StoreError> {
    let cells = declassify(vec![CellHandle(7)], Leak::ActiveCells);
    let handles = vec![vec![RowHandle(1), RowHandle(2)]];
    let asked = Candidates::new(cells, declassify(handles, Leak::CandidateHandles)).unwrap();
    let found = rows.fetch(&main_collection(), EPOCH, &asked)?;
    Ok(found.rows[0].iter().map(|row| row.to_vec()).collect())
}

#[test]
fn rows_in_memory_are_those_of_the_database_whoever_changes_them() {
    let Some(cluster) = cluster() else { return };
    let database = address(&cluster.database());
    let open = |cache_bytes| {
        let options = PostgresOptions { connections: 2, cache_bytes, ..PostgresOptions::default() };
        PostgresRows::open(&database, options).unwrap()
    };
    let (reader, writer) = (open(1 << 20), open(0));
    write(&writer, 1, &[1, 10]);
    write(&writer, 2, &[2, 20]);
    for _ in 0..2 {
        assert_eq!(fetch(&reader).unwrap(), [[1, 10], [2, 20]]);
    }
    let metrics = reader.metrics();
    assert_eq!((metrics.cache_hits, metrics.cache_misses), (2, 2));
    assert!(metrics.cache_bytes > 0);
    write(&writer, 2, &[3, 30]);
    assert_eq!(fetch(&reader).unwrap(), [[1, 10], [3, 30]]);
    assert_eq!(fetch(&writer).unwrap(), [[1, 10], [3, 30]]);
    assert_eq!(writer.metrics().cache_hits, 0, "it has no memory for rows");
    assert!(writer.drop_collection(&main_collection()).unwrap());
    assert!(fetch(&reader).is_err());
    write(&writer, 1, &[4, 40]);
    let gone = StoreError::UnknownRow { cell: CellHandle(7), handle: RowHandle(2) };
    assert_eq!(fetch(&reader), Err(gone));
}
