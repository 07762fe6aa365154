//! Rows in memory, while another process changes them.

use shard_protocol::{Advance, CommitName, Revision, RowMac};
use shard_protocol::{Candidates, CellHandle, Epoch, Leak, Row, RowBatch, RowHandle, declassify};

use super::*;
use crate::StoreError;

const EPOCH: Epoch = Epoch(1);

/// The next commit of a collection.
fn next(rows: &PostgresRows) -> Advance {
    let state = rows.describe(&main_collection()).unwrap();
    let to = CommitName([1; 16]);
    Advance { from: state.commit, to, revision: Revision(1), turn: state.turn }
}

fn write(rows: &PostgresRows, handle: u64, coordinates: &[i32]) {
    write_in(EPOCH, rows, handle, coordinates);
}

fn write_in(epoch: Epoch, rows: &PostgresRows, handle: u64, coordinates: &[i32]) {
    let advance = next(rows);
    let row = Row {
        handle: RowHandle(handle),
        cell: declassify(CellHandle(7), Leak::CellMembership),
        coordinates: coordinates.to_vec(),
    };
    let batch = RowBatch::new(
        declassify(epoch, Leak::CollectionShape),
        declassify(coordinates.len(), Leak::CollectionShape),
        declassify(vec![row], Leak::StoredRows),
    );
    // The same MAC whatever the row is: the engine does not take an owner at its word.
    rows.upsert(&main_collection(), &advance, batch, &[RowMac([9; 16])]).unwrap();
    rows.activate(&main_collection(), &advance, epoch).unwrap();
}

fn fetch(rows: &PostgresRows) -> Result<Vec<Vec<i32>>, StoreError> {
    fetch_from(EPOCH, rows, &[1, 2])
}

fn fetch_from(
    epoch: Epoch,
    rows: &PostgresRows,
    handles: &[u64],
) -> Result<Vec<Vec<i32>>, StoreError> {
    let cells = declassify(vec![CellHandle(7)], Leak::ActiveCells);
    let handles = vec![handles.iter().copied().map(RowHandle).collect()];
    let asked = Candidates::new(cells, declassify(handles, Leak::CandidateHandles)).unwrap();
    let found = rows.fetch(&main_collection(), epoch, &asked)?;
    Ok(found.rows[0].iter().map(|row| row.to_vec()).collect())
}

fn open(database: &DatabaseAddress, cache_bytes: usize) -> PostgresRows {
    let options = PostgresOptions { connections: 2, cache_bytes, ..PostgresOptions::default() };
    PostgresRows::open(database, options).unwrap()
}

#[test]
fn rows_in_memory_are_those_of_the_database_whoever_changes_them() {
    let Some(cluster) = cluster() else { return };
    let database = address(&cluster.database());
    let (reader, writer) = (open(&database, 1 << 20), open(&database, 0));
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
    let metrics = reader.metrics();
    assert_eq!((metrics.cache_hits, metrics.cache_misses), (3, 3), "one is as it was");
    assert_eq!(fetch(&writer).unwrap(), [[1, 10], [3, 30]]);
    assert_eq!(writer.metrics().cache_hits, 0, "it has no memory for rows");
    assert!(writer.drop_collection(&main_collection()).unwrap());
    assert!(fetch(&reader).is_err());
    write(&writer, 1, &[4, 40]);
    let gone = StoreError::UnknownRow { cell: CellHandle(7), handle: RowHandle(2) };
    assert_eq!(fetch(&reader), Err(gone));
}

#[test]
fn rows_that_are_gone_are_let_go_of_where_that_is_seen() {
    let Some(cluster) = cluster() else { return };
    let database = address(&cluster.database());
    let (reader, writer) = (open(&database, 1 << 20), open(&database, 1 << 20));
    let (main, next_epoch) = (main_collection(), Epoch(2));
    let held = |rows: &PostgresRows| rows.metrics().cache_bytes;
    let fill = |epoch: Epoch| {
        for handle in [1, 2] {
            write_in(epoch, &writer, handle, &[1, 10]);
        }
        for rows in [&reader, &writer] {
            fetch_from(epoch, rows, &[1, 2]).unwrap();
        }
    };
    fill(EPOCH);
    let (whole, one) = (held(&reader), held(&reader) / 2);
    assert!(one > 0 && held(&writer) == whole);
    // A row that was deleted: here at once, elsewhere when it is asked for.
    writer.delete(&main, &next(&writer), EPOCH, &[RowHandle(2)]).unwrap();
    assert_eq!((held(&writer), held(&reader)), (one, whole));
    assert!(matches!(fetch(&reader), Err(StoreError::Deleted { .. })));
    assert_eq!(held(&reader), one);
    // An epoch that was replaced: here at once, elsewhere when something is asked of the collection.
    write_in(next_epoch, &writer, 1, &[1, 10]);
    assert_eq!((held(&writer), held(&reader)), (0, one));
    assert!(fetch_from(EPOCH, &reader, &[1]).is_err());
    assert_eq!(held(&reader), 0);
    fill(next_epoch);
    write_in(Epoch(3), &writer, 1, &[1, 10]);
    fetch_from(Epoch(3), &reader, &[1]).unwrap();
    assert_eq!(held(&reader), one, "of the epoch that is searched");
    // A reset and a drop, which others see when they look for what is new.
    writer.reset(&main, writer.describe(&main).unwrap().commit).unwrap();
    assert_eq!(held(&writer), 0);
    reader.describe(&main).unwrap();
    assert_eq!(held(&reader), 0);
    writer.drop_collection(&main).unwrap();
    fill(EPOCH);
    assert!(writer.drop_collection(&main).unwrap());
    assert_eq!((held(&writer), held(&reader)), (0, whole));
    assert_eq!(reader.describe(&main).unwrap().current, None);
    assert_eq!(held(&reader), 0);
}
