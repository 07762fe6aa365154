//! What every engine must do. `suite!(engine)` runs each of these on a fresh engine.

use shard_protocol::{
    Candidates, CellHandle, CollectionName, Epoch, EpochState, Leak, Revision, Row, RowBatch,
    RowHandle, RowMac, declassify,
};
use shard_store::{EpochStatistics, MOST_EPOCHS, RowStore, StoreError};

/// Makes a test of every function below; `$engine` is an expression for a fresh engine.
macro_rules! suite {
    ($engine:expr) => {
        conformance::suite!($engine;
            rows_come_back_cell_by_cell,
            an_upsert_replaces_a_row_and_moves_it_to_its_new_cell,
            a_row_is_found_only_under_its_own_cell_and_epoch,
            a_batch_of_another_width_changes_nothing,
            deleted_rows_are_gone_and_remembered_as_deleted,
            an_earlier_revision_is_refused_and_changes_nothing,
            an_epoch_is_searched_from_its_activation_on_and_the_others_are_erased,
            macs_are_listed_by_page_in_handle_order,
            collections_do_not_see_each_other,
            blobs_are_kept_replaced_and_removed,
            an_unpublished_collection_is_empty,
            a_collection_has_so_many_epochs_and_no_more,
        );
    };
    ($engine:expr; $($test:ident),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                conformance::$test(&$engine);
            }
        )+
    };
}
pub(crate) use suite;

const EPOCH: Epoch = Epoch(3);
const FIRST: Revision = Revision(1);

fn main_collection() -> CollectionName {
    CollectionName::default()
}

fn row(handle: u64, cell: u64, coordinates: &[i32]) -> Row {
    Row {
        handle: RowHandle(handle),
        cell: declassify(CellHandle(cell), Leak::CellMembership),
        coordinates: coordinates.to_vec(),
    }
}

fn batch_of(epoch: Epoch, width: usize, rows: Vec<Row>) -> RowBatch {
    RowBatch::new(
        declassify(epoch, Leak::CollectionShape),
        declassify(width, Leak::CollectionShape),
        declassify(rows, Leak::StoredRows),
    )
}

fn tag(handle: u64) -> RowMac {
    RowMac([handle as u8; 16])
}

fn upsert(
    rows: &dyn RowStore,
    revision: Revision,
    epoch: Epoch,
    new: Vec<Row>,
) -> Result<(), StoreError> {
    let width = new[0].coordinates.len();
    let batch = batch_of(epoch, width, new);
    let tags: Vec<RowMac> = batch.rows().iter().map(|row| tag(row.handle.0)).collect();
    rows.upsert(&main_collection(), revision, batch, &tags)
}

fn fill(rows: &dyn RowStore) {
    let three = vec![row(1, 10, &[5, 0]), row(2, 10, &[6, 0]), row(3, 11, &[7, 0])];
    upsert(rows, FIRST, EPOCH, three).unwrap();
    rows.activate(&main_collection(), FIRST, EPOCH).unwrap();
}

fn candidates(cells: &[(u64, &[u64])]) -> Candidates {
    let tags = cells.iter().map(|(tag, _)| CellHandle(*tag)).collect();
    let handles = |rows: &[u64]| rows.iter().map(|row| RowHandle(*row)).collect();
    let rows = cells.iter().map(|(_, rows)| handles(rows)).collect();
    let rows = declassify(rows, Leak::CandidateHandles);
    Candidates::new(declassify(tags, Leak::ActiveCells), rows).unwrap()
}

fn first(rows: &dyn RowStore, epoch: Epoch, cell: u64, handle: u64) -> Result<i32, StoreError> {
    Ok(rows.fetch(&main_collection(), epoch, &candidates(&[(cell, &[handle])]))?[0][0][0])
}

pub fn rows_come_back_cell_by_cell(rows: &dyn RowStore) {
    fill(rows);
    let asked = candidates(&[(11, &[3]), (10, &[2, 1])]);
    let found = rows.fetch(&main_collection(), EPOCH, &asked).unwrap();
    let first: Vec<Vec<i32>> =
        found.iter().map(|cell| cell.iter().map(|row| row[0]).collect()).collect();
    assert_eq!(first, vec![vec![5, 6], vec![7]]);
    assert_eq!(rows.width(&main_collection(), EPOCH), Ok(2));
}

pub fn an_upsert_replaces_a_row_and_moves_it_to_its_new_cell(rows: &dyn RowStore) {
    fill(rows);
    // Read first, so that an engine with a cache has the old row in it.
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5));
    upsert(rows, FIRST, EPOCH, vec![row(1, 11, &[50, 0])]).unwrap();
    assert_eq!(first(rows, EPOCH, 11, 1), Ok(50));
    assert!(first(rows, EPOCH, 10, 1).is_err());
    assert_eq!(
        rows.statistics(&main_collection(), EPOCH).unwrap(),
        EpochStatistics { rows: 3, cells: 2, width: 2 }
    );
}

pub fn a_row_is_found_only_under_its_own_cell_and_epoch(rows: &dyn RowStore) {
    fill(rows);
    let missing = StoreError::UnknownRow { cell: CellHandle(11), handle: RowHandle(1) };
    assert_eq!(first(rows, EPOCH, 11, 1), Err(missing));
    assert_eq!(first(rows, Epoch(4), 10, 1), Err(StoreError::UnknownEpoch(Epoch(4))));
    assert_eq!(
        first(rows, Epoch(2), 10, 1),
        Err(StoreError::Replaced { asked: Epoch(2), current: EPOCH })
    );
}

pub fn a_batch_of_another_width_changes_nothing(rows: &dyn RowStore) {
    fill(rows);
    let refused = upsert(rows, Revision(2), EPOCH, vec![row(9, 10, &[1])]);
    assert_eq!(refused, Err(StoreError::Width { expected: 2, actual: 1 }));
    assert_eq!(rows.statistics(&main_collection(), EPOCH).unwrap().rows, 3);
    assert_eq!(rows.describe(&main_collection()).unwrap().revision, FIRST);
}

pub fn deleted_rows_are_gone_and_remembered_as_deleted(rows: &dyn RowStore) {
    fill(rows);
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5));
    let second = Revision(2);
    let gone = rows.delete(&main_collection(), second, EPOCH, &[RowHandle(1), RowHandle(99)]);
    assert_eq!(gone, Ok(1));
    let deleted = StoreError::Deleted { handle: RowHandle(1), revision: second };
    assert_eq!(first(rows, EPOCH, 10, 1), Err(deleted));
    assert_eq!(first(rows, EPOCH, 10, 2), Ok(6));
    // A row can come back with a later change.
    upsert(rows, Revision(3), EPOCH, vec![row(1, 10, &[8, 0])]).unwrap();
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(8));
}

pub fn an_earlier_revision_is_refused_and_changes_nothing(rows: &dyn RowStore) {
    fill(rows);
    upsert(rows, Revision(5), EPOCH, vec![row(4, 10, &[9, 0])]).unwrap();
    let stale = StoreError::Stale { given: Revision(4), latest: Revision(5) };
    let change = vec![row(4, 10, &[1, 0])];
    assert_eq!(upsert(rows, Revision(4), EPOCH, change), Err(stale.clone()));
    let handles = [RowHandle(4)];
    let deleted = rows.delete(&main_collection(), Revision(4), EPOCH, &handles);
    assert_eq!(deleted, Err(stale.clone()));
    assert_eq!(rows.activate(&main_collection(), Revision(4), EPOCH), Err(stale));
    assert_eq!(first(rows, EPOCH, 10, 4), Ok(9));
}

pub fn an_epoch_is_searched_from_its_activation_on_and_the_others_are_erased(rows: &dyn RowStore) {
    fill(rows);
    let next = Epoch(4);
    upsert(rows, Revision(2), next, vec![row(1, 10, &[1, 2, 3])]).unwrap();
    assert_eq!(first(rows, next, 10, 1), Err(StoreError::Pending(next)));
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5));
    rows.activate(&main_collection(), Revision(2), next).unwrap();
    assert_eq!(first(rows, next, 10, 1), Ok(1));
    let replaced = StoreError::Replaced { asked: EPOCH, current: next };
    assert_eq!(first(rows, EPOCH, 10, 1), Err(replaced.clone()));
    let late = vec![row(1, 10, &[5, 0])];
    assert_eq!(upsert(rows, Revision(2), EPOCH, late), Err(replaced.clone()));
    let deleted = rows.delete(&main_collection(), Revision(2), EPOCH, &[RowHandle(1)]);
    assert_eq!(deleted, Err(replaced));
    let state = rows.describe(&main_collection()).unwrap();
    assert_eq!((state.revision, state.current), (Revision(2), Some(next)));
    assert_eq!(state.epochs, vec![EpochState { epoch: next, width: 3, rows: 1 }]);
    let absent = Epoch(9);
    assert_eq!(
        rows.activate(&main_collection(), Revision(3), absent),
        Err(StoreError::UnknownEpoch(absent))
    );
}

pub fn macs_are_listed_by_page_in_handle_order(rows: &dyn RowStore) {
    fill(rows);
    let page = |after, most| rows.macs(&main_collection(), EPOCH, after, most).unwrap();
    let listed = |handles: &[u64]| -> Vec<(RowHandle, RowMac)> {
        handles.iter().map(|&handle| (RowHandle(handle), tag(handle))).collect()
    };
    assert_eq!(page(None, 2), listed(&[1, 2]));
    assert_eq!(page(Some(RowHandle(2)), 2), listed(&[3]));
    assert_eq!(page(Some(RowHandle(u64::MAX)), 2), listed(&[]));
    assert_eq!(rows.macs(&main_collection(), Epoch(8), None, 2), Ok(Vec::new()));
}

pub fn collections_do_not_see_each_other(rows: &dyn RowStore) {
    fill(rows);
    let other: CollectionName = "other".parse().unwrap();
    let asked = candidates(&[(10, &[1])]);
    assert_eq!(
        rows.fetch(&other, EPOCH, &asked),
        Err(StoreError::UnknownCollection(other.clone()))
    );
    let batch = batch_of(EPOCH, 1, vec![row(1, 10, &[77])]);
    rows.upsert(&other, FIRST, batch, &[tag(1)]).unwrap();
    rows.activate(&other, FIRST, EPOCH).unwrap();
    assert_eq!(rows.fetch(&other, EPOCH, &asked).unwrap()[0][0][0], 77);
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5));
    assert_eq!(rows.collections().unwrap(), vec![main_collection(), other.clone()]);
    assert_eq!(rows.drop_collection(&other), Ok(true));
    assert_eq!(rows.drop_collection(&other), Ok(false));
    assert!(rows.fetch(&other, EPOCH, &asked).is_err());
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5));
}

pub fn blobs_are_kept_replaced_and_removed(rows: &dyn RowStore) {
    let (collection, name) = (main_collection(), "vault.1".parse().unwrap());
    rows.put_blob(&collection, &name, b"sealed").unwrap();
    rows.put_blob(&collection, &name, b"sealed again").unwrap();
    assert_eq!(rows.blob(&collection, &name).unwrap(), b"sealed again");
    assert_eq!(rows.blobs(&collection).unwrap(), vec![(name.clone(), 12)]);
    assert_eq!(rows.delete_blob(&collection, &name), Ok(true));
    assert_eq!(rows.delete_blob(&collection, &name), Ok(false));
    assert_eq!(rows.blob(&collection, &name), Err(StoreError::UnknownBlob(name)));
}

pub fn an_unpublished_collection_is_empty(rows: &dyn RowStore) {
    let state = rows.describe(&main_collection()).unwrap();
    assert_eq!((state.revision, state.current, state.epochs.len()), (Revision(0), None, 0));
    assert_eq!(rows.collections(), Ok(Vec::new()));
}

pub fn a_collection_has_so_many_epochs_and_no_more(rows: &dyn RowStore) {
    let number = |epoch: usize| Epoch(epoch as u64);
    let put = |epoch| upsert(rows, FIRST, epoch, vec![row(1, 10, &[5, 0])]);
    for epoch in 0..MOST_EPOCHS {
        put(number(epoch)).unwrap();
    }
    let full = StoreError::TooMany { what: "epochs of a collection", most: MOST_EPOCHS };
    assert_eq!(put(number(MOST_EPOCHS)), Err(full));
    assert_eq!(put(number(0)), Ok(()), "those that are there take rows");
    rows.activate(&main_collection(), FIRST, number(1)).unwrap();
    assert_eq!(put(number(MOST_EPOCHS)), Ok(()), "an activation makes room");
}
