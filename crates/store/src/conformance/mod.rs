//! What every engine must do, as functions to run on one: [`run`] runs all of them, and
//! [`conformance_suite!`](crate::conformance_suite) makes a test of each. Each wants an engine that holds
//! nothing yet.

mod blocks;
#[cfg(feature = "postgres")]
mod cluster;

use std::ops::Deref;

pub use blocks::*;
#[cfg(feature = "postgres")]
pub use cluster::{Cluster, as_postgres, free_port, programs};

use shard_protocol::{
    Advance, BlobName, Candidates, CellHandle, CollectionName, CollectionState, CommitName, Epoch,
    EpochState, Leak, Revision, Row, RowBatch, RowHandle, RowMac, declassify,
};

use crate::{EpochStatistics, MOST_EPOCHS, MOST_FETCHED_BYTES, RowStore, StoreError};

/// A rule, as a function of a fresh engine; it panics where the engine does not keep the rule.
pub type Rule = fn(&dyn RowStore);

/// Every rule with its name.
pub const RULES: [(&str, Rule); 23] = [
    ("rows_come_back_cell_by_cell", rows_come_back_cell_by_cell),
    ("a_fetch_of_too_many_bytes_is_refused", a_fetch_of_too_many_bytes_is_refused),
    (
        "an_upsert_replaces_a_row_and_moves_it_to_its_new_cell",
        an_upsert_replaces_a_row_and_moves_it_to_its_new_cell,
    ),
    (
        "a_row_is_found_only_under_its_own_cell_and_epoch",
        a_row_is_found_only_under_its_own_cell_and_epoch,
    ),
    ("a_batch_of_another_width_changes_nothing", a_batch_of_another_width_changes_nothing),
    (
        "deleted_rows_are_gone_and_remembered_as_deleted",
        deleted_rows_are_gone_and_remembered_as_deleted,
    ),
    (
        "an_earlier_revision_is_refused_and_changes_nothing",
        an_earlier_revision_is_refused_and_changes_nothing,
    ),
    (
        "an_epoch_is_searched_from_its_activation_on_and_the_others_are_erased",
        an_epoch_is_searched_from_its_activation_on_and_the_others_are_erased,
    ),
    ("macs_are_listed_by_page_in_handle_order", macs_are_listed_by_page_in_handle_order),
    ("collections_do_not_see_each_other", collections_do_not_see_each_other),
    ("blobs_are_kept_replaced_and_removed", blobs_are_kept_replaced_and_removed),
    ("an_unpublished_collection_is_empty", an_unpublished_collection_is_empty),
    ("a_collection_has_so_many_epochs_and_no_more", a_collection_has_so_many_epochs_and_no_more),
    (
        "a_change_from_another_commit_is_refused_and_changes_nothing",
        a_change_from_another_commit_is_refused_and_changes_nothing,
    ),
    (
        "a_commit_is_reached_by_its_activation_and_that_can_be_repeated",
        a_commit_is_reached_by_its_activation_and_that_can_be_repeated,
    ),
    (
        "the_publish_that_began_last_goes_on_and_the_other_is_told",
        the_publish_that_began_last_goes_on_and_the_other_is_told,
    ),
    (
        "a_reset_forgets_rows_and_commit_and_keeps_blobs",
        a_reset_forgets_rows_and_commit_and_keeps_blobs,
    ),
    (
        "blobs_are_listed_by_page_in_the_order_of_their_names",
        blobs_are_listed_by_page_in_the_order_of_their_names,
    ),
    ("many_blobs_are_stored_at_once", many_blobs_are_stored_at_once),
    ("many_blobs_are_read_at_once_as_many_as_fit", many_blobs_are_read_at_once_as_many_as_fit),
    (
        "blocks_are_activated_by_the_rules_of_rows_and_keep_blobs",
        blocks_are_activated_by_the_rules_of_rows_and_keep_blobs,
    ),
    ("an_epoch_holds_rows_or_blocks_and_not_both", an_epoch_holds_rows_or_blocks_and_not_both),
    ("a_reset_and_a_drop_forget_blocks", a_reset_and_a_drop_forget_blocks),
];

/// Runs every rule, each on a fresh engine.
///
/// # Panics
/// At the first rule that an engine does not keep; standard error names it.
pub fn run<E: Deref<Target = dyn RowStore>>(mut fresh: impl FnMut() -> E) {
    for (name, rule) in RULES {
        eprintln!("conformance: {name}");
        rule(&*fresh());
    }
}

/// Makes a test of every rule; `$engine` is an expression for a fresh engine, as a `dyn RowStore`.
#[macro_export]
macro_rules! conformance_suite {
    ($engine:expr) => {
        $crate::conformance_suite!($engine;
            rows_come_back_cell_by_cell,
            a_fetch_of_too_many_bytes_is_refused,
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
            a_change_from_another_commit_is_refused_and_changes_nothing,
            a_commit_is_reached_by_its_activation_and_that_can_be_repeated,
            the_publish_that_began_last_goes_on_and_the_other_is_told,
            a_reset_forgets_rows_and_commit_and_keeps_blobs,
            blobs_are_listed_by_page_in_the_order_of_their_names,
            many_blobs_are_stored_at_once,
            many_blobs_are_read_at_once_as_many_as_fit,
            blocks_are_activated_by_the_rules_of_rows_and_keep_blobs,
            an_epoch_holds_rows_or_blocks_and_not_both,
            a_reset_and_a_drop_forget_blocks,
        );
    };
    ($engine:expr; $($test:ident),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                $crate::conformance::$test(&$engine);
            }
        )+
    };
}

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

fn commit(number: u8) -> CommitName {
    CommitName([number; 16])
}

/// A step from one commit to another, of the first publish that begins.
fn step(from: Option<u8>, to: u8, revision: Revision) -> Advance {
    Advance { from: from.map(commit), to: commit(to), revision, turn: 1 }
}

/// A step from whatever is held, that of commit 1 where nothing else is said.
fn advance(rows: &dyn RowStore, revision: Revision) -> Advance {
    let state = rows.describe(&main_collection()).unwrap();
    Advance { from: state.commit, to: commit(1), revision, turn: state.turn }
}

fn activate(rows: &dyn RowStore, revision: Revision, epoch: Epoch) -> Result<(), StoreError> {
    rows.activate(&main_collection(), &advance(rows, revision), epoch)
}

fn upsert(
    rows: &dyn RowStore,
    revision: Revision,
    epoch: Epoch,
    new: Vec<Row>,
) -> Result<(), StoreError> {
    upsert_by(rows, &advance(rows, revision), epoch, new)
}

fn upsert_by(
    rows: &dyn RowStore,
    advance: &Advance,
    epoch: Epoch,
    new: Vec<Row>,
) -> Result<(), StoreError> {
    let width = new[0].coordinates.len();
    let batch = batch_of(epoch, width, new);
    let tags: Vec<RowMac> = batch.rows().iter().map(|row| tag(row.handle.0)).collect();
    rows.upsert(&main_collection(), advance, batch, &tags)
}

fn fill(rows: &dyn RowStore) {
    let three = vec![row(1, 10, &[5, 0]), row(2, 10, &[6, 0]), row(3, 11, &[7, 0])];
    upsert(rows, FIRST, EPOCH, three).unwrap();
    activate(rows, FIRST, EPOCH).unwrap();
}

fn candidates(cells: &[(u64, &[u64])]) -> Candidates {
    let tags = cells.iter().map(|(tag, _)| CellHandle(*tag)).collect();
    let handles = |rows: &[u64]| rows.iter().map(|row| RowHandle(*row)).collect();
    let rows = cells.iter().map(|(_, rows)| handles(rows)).collect();
    let rows = declassify(rows, Leak::CandidateHandles);
    Candidates::new(declassify(tags, Leak::ActiveCells), rows).unwrap()
}

fn first(rows: &dyn RowStore, epoch: Epoch, cell: u64, handle: u64) -> Result<i32, StoreError> {
    Ok(rows.fetch(&main_collection(), epoch, &candidates(&[(cell, &[handle])]))?.rows[0][0][0])
}

/// Rows come back cell by cell.
pub fn rows_come_back_cell_by_cell(rows: &dyn RowStore) {
    fill(rows);
    let asked = candidates(&[(11, &[3]), (10, &[2, 1])]);
    let found = rows.fetch(&main_collection(), EPOCH, &asked).unwrap();
    let first: Vec<Vec<i32>> =
        found.rows.iter().map(|cell| cell.iter().map(|row| row[0]).collect()).collect();
    assert_eq!(first, vec![vec![5, 6], vec![7]]);
    assert_eq!(found.width, 2);
}

/// A fetch of too many bytes is refused, before a row is looked for.
pub fn a_fetch_of_too_many_bytes_is_refused(rows: &dyn RowStore) {
    const WIDTH: usize = 1 << 14;
    upsert(rows, FIRST, EPOCH, vec![row(1, 10, &[5; WIDTH])]).unwrap();
    activate(rows, FIRST, EPOCH).unwrap();
    let most = MOST_FETCHED_BYTES / (4 * WIDTH);
    let ask = |count: usize| {
        let handles: Vec<u64> = (1..=count as u64).collect();
        rows.fetch(&main_collection(), EPOCH, &candidates(&[(10, &handles)]))
    };
    assert!(matches!(ask(most + 1), Err(StoreError::TooLarge { .. })));
    let missing = StoreError::UnknownRow { cell: CellHandle(10), handle: RowHandle(2) };
    assert_eq!(ask(most), Err(missing));
    assert_eq!(ask(1).unwrap().rows[0][0].len(), WIDTH);
}

/// An upsert replaces a row and moves it to its new cell.
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

/// A row is found only under its own cell and epoch.
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

/// A batch of another width changes nothing.
pub fn a_batch_of_another_width_changes_nothing(rows: &dyn RowStore) {
    fill(rows);
    let refused = upsert(rows, Revision(2), EPOCH, vec![row(9, 10, &[1])]);
    assert_eq!(refused, Err(StoreError::Width { expected: 2, actual: 1 }));
    assert_eq!(rows.statistics(&main_collection(), EPOCH).unwrap().rows, 3);
    assert_eq!(rows.describe(&main_collection()).unwrap().revision, FIRST);
}

/// Deleted rows are gone and remembered as deleted.
pub fn deleted_rows_are_gone_and_remembered_as_deleted(rows: &dyn RowStore) {
    fill(rows);
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5));
    let second = Revision(2);
    let handles = [RowHandle(1), RowHandle(99)];
    let gone = rows.delete(&main_collection(), &advance(rows, second), EPOCH, &handles);
    assert_eq!(gone, Ok(1));
    let deleted = StoreError::Deleted { handle: RowHandle(1), revision: second };
    assert_eq!(first(rows, EPOCH, 10, 1), Err(deleted));
    assert_eq!(first(rows, EPOCH, 10, 2), Ok(6));
    // A row can come back with a later change.
    upsert(rows, Revision(3), EPOCH, vec![row(1, 10, &[8, 0])]).unwrap();
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(8));
}

/// An earlier revision is refused and changes nothing.
pub fn an_earlier_revision_is_refused_and_changes_nothing(rows: &dyn RowStore) {
    fill(rows);
    upsert(rows, Revision(5), EPOCH, vec![row(4, 10, &[9, 0])]).unwrap();
    activate(rows, Revision(5), EPOCH).unwrap();
    let stale = StoreError::Stale { given: Revision(4), latest: Revision(5) };
    let change = vec![row(4, 10, &[1, 0])];
    assert_eq!(upsert(rows, Revision(4), EPOCH, change), Err(stale.clone()));
    let handles = [RowHandle(4)];
    let deleted = rows.delete(&main_collection(), &advance(rows, Revision(4)), EPOCH, &handles);
    assert_eq!(deleted, Err(stale.clone()));
    assert_eq!(activate(rows, Revision(4), EPOCH), Err(stale.clone()));
    assert_eq!(rows.begin(&main_collection(), &advance(rows, Revision(4))), Err(stale));
    assert_eq!(first(rows, EPOCH, 10, 4), Ok(9));
}

/// An epoch is searched from its activation on and the others are erased.
pub fn an_epoch_is_searched_from_its_activation_on_and_the_others_are_erased(rows: &dyn RowStore) {
    fill(rows);
    let next = Epoch(4);
    upsert(rows, Revision(2), next, vec![row(1, 10, &[1, 2, 3])]).unwrap();
    assert_eq!(first(rows, next, 10, 1), Err(StoreError::Pending(next)));
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5));
    activate(rows, Revision(2), next).unwrap();
    assert_eq!(first(rows, next, 10, 1), Ok(1));
    let replaced = StoreError::Replaced { asked: EPOCH, current: next };
    assert_eq!(first(rows, EPOCH, 10, 1), Err(replaced.clone()));
    let late = vec![row(1, 10, &[5, 0])];
    assert_eq!(upsert(rows, Revision(2), EPOCH, late), Err(replaced.clone()));
    let second = advance(rows, Revision(2));
    let deleted = rows.delete(&main_collection(), &second, EPOCH, &[RowHandle(1)]);
    assert_eq!(deleted, Err(replaced));
    let state = rows.describe(&main_collection()).unwrap();
    assert_eq!((state.revision, state.current), (Revision(2), Some(next)));
    assert_eq!(state.epochs, vec![EpochState { epoch: next, width: 3, rows: 1, blocks: 0 }]);
    let absent = Epoch(9);
    assert_eq!(activate(rows, Revision(3), absent), Err(StoreError::UnknownEpoch(absent)));
}

/// Macs are listed by page in handle order.
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

/// Collections do not see each other.
pub fn collections_do_not_see_each_other(rows: &dyn RowStore) {
    fill(rows);
    let other: CollectionName = "other".parse().unwrap();
    let asked = candidates(&[(10, &[1])]);
    assert_eq!(
        rows.fetch(&other, EPOCH, &asked),
        Err(StoreError::UnknownCollection(other.clone()))
    );
    let batch = batch_of(EPOCH, 1, vec![row(1, 10, &[77])]);
    let first_step = Advance { turn: 0, ..step(None, 5, FIRST) };
    rows.upsert(&other, &first_step, batch, &[tag(1)]).unwrap();
    rows.activate(&other, &first_step, EPOCH).unwrap();
    assert_eq!(rows.fetch(&other, EPOCH, &asked).unwrap().rows[0][0][0], 77);
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5));
    assert_eq!(rows.collections().unwrap(), vec![main_collection(), other.clone()]);
    assert_eq!(rows.drop_collection(&other), Ok(true));
    assert_eq!(rows.drop_collection(&other), Ok(false));
    assert!(rows.fetch(&other, EPOCH, &asked).is_err());
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5));
}

/// Blobs are kept replaced and removed.
pub fn blobs_are_kept_replaced_and_removed(rows: &dyn RowStore) {
    let (collection, name) = (main_collection(), "vault.1".parse().unwrap());
    rows.put_blob(&collection, &name, b"sealed").unwrap();
    rows.put_blob(&collection, &name, b"sealed again").unwrap();
    assert_eq!(rows.blob(&collection, &name).unwrap(), b"sealed again");
    assert_eq!(rows.blobs(&collection, None, 9).unwrap(), vec![(name.clone(), 12)]);
    assert_eq!(rows.delete_blob(&collection, &name), Ok(true));
    assert_eq!(rows.delete_blob(&collection, &name), Ok(false));
    assert_eq!(rows.blob(&collection, &name), Err(StoreError::UnknownBlob(name)));
}

/// An unpublished collection is empty.
pub fn an_unpublished_collection_is_empty(rows: &dyn RowStore) {
    let state = rows.describe(&main_collection()).unwrap();
    assert_eq!((state.revision, state.current, state.epochs.len()), (Revision(0), None, 0));
    assert_eq!(rows.collections(), Ok(Vec::new()));
}

/// A collection has so many epochs and no more.
pub fn a_collection_has_so_many_epochs_and_no_more(rows: &dyn RowStore) {
    let number = |epoch: usize| Epoch(epoch as u64);
    let put = |epoch| upsert(rows, FIRST, epoch, vec![row(1, 10, &[5, 0])]);
    for epoch in 0..MOST_EPOCHS {
        put(number(epoch)).unwrap();
    }
    let full = StoreError::TooMany { what: "epochs of a collection", most: MOST_EPOCHS };
    assert_eq!(put(number(MOST_EPOCHS)), Err(full));
    assert_eq!(put(number(0)), Ok(()), "those that are there take rows");
    activate(rows, FIRST, number(1)).unwrap();
    assert_eq!(put(number(MOST_EPOCHS)), Ok(()), "an activation makes room");
}

/// A change from another commit is refused and changes nothing.
pub fn a_change_from_another_commit_is_refused_and_changes_nothing(rows: &dyn RowStore) {
    fill(rows);
    let (main, later) = (main_collection(), Revision(2));
    let before = rows.describe(&main).unwrap();
    assert_eq!((before.commit, before.unfinished), (Some(commit(1)), None));
    for from in [None, Some(9)] {
        let strange = step(from, 2, later);
        let given = from.map(commit);
        let forked = StoreError::Forked { given, held: Some(commit(1)) };
        assert_eq!(rows.begin(&main, &strange), Err(forked.clone()));
        let new = vec![row(1, 10, &[99, 0])];
        assert_eq!(upsert_by(rows, &strange, EPOCH, new), Err(forked.clone()));
        let deleted = rows.delete(&main, &strange, EPOCH, &[RowHandle(1)]);
        assert_eq!(deleted, Err(forked.clone()));
        assert_eq!(rows.activate(&main, &strange, EPOCH), Err(forked.clone()));
        assert_eq!(rows.reset(&main, given), Err(forked));
    }
    assert_eq!(rows.describe(&main).unwrap(), before);
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5));
    // Of a collection that is not there, everything comes from elsewhere.
    let other: CollectionName = "other".parse().unwrap();
    let forked = Err(StoreError::Forked { given: Some(commit(1)), held: None });
    assert_eq!(rows.begin(&other, &step(Some(1), 2, later)), forked);
    assert_eq!(rows.collections(), Ok(vec![main]), "and it is not made");
}

/// A commit is reached by its activation and that can be repeated.
pub fn a_commit_is_reached_by_its_activation_and_that_can_be_repeated(rows: &dyn RowStore) {
    fill(rows);
    let (main, next) = (main_collection(), step(Some(1), 2, Revision(2)));
    rows.begin(&main, &next).unwrap();
    upsert_by(rows, &next, EPOCH, vec![row(4, 10, &[9, 0])]).unwrap();
    let state = rows.describe(&main).unwrap();
    assert_eq!((state.revision, state.commit), (FIRST, Some(commit(1))), "not yet");
    assert_eq!(state.unfinished, Some(commit(2)));
    for _ in 0..2 {
        rows.activate(&main, &next, EPOCH).unwrap();
        let state = rows.describe(&main).unwrap();
        assert_eq!((state.revision, state.commit), (Revision(2), Some(commit(2))));
        assert_eq!(state.unfinished, None);
    }
    // Late repetitions of what came before it.
    let forked = StoreError::Forked { given: Some(commit(1)), held: Some(commit(2)) };
    let late = vec![row(1, 10, &[1, 0])];
    assert_eq!(upsert_by(rows, &next, EPOCH, late), Err(forked.clone()));
    assert_eq!(rows.delete(&main, &next, EPOCH, &[RowHandle(1)]), Err(forked));
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5));
    // Rows of the commit that is held can be sent again.
    let again = Advance { turn: 2, ..step(Some(2), 2, Revision(2)) };
    rows.begin(&main, &again).unwrap();
    upsert_by(rows, &again, EPOCH, vec![row(1, 10, &[6, 0])]).unwrap();
    rows.activate(&main, &again, EPOCH).unwrap();
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(6));
}

/// The publish that began last goes on and the other is told.
pub fn the_publish_that_began_last_goes_on_and_the_other_is_told(rows: &dyn RowStore) {
    fill(rows);
    let main = main_collection();
    let one = step(Some(1), 2, Revision(2));
    let two = Advance { turn: 2, ..step(Some(1), 3, Revision(2)) };
    let rows_of = |handle| vec![row(handle, 10, &[9, 0])];
    let overtaken = || StoreError::Overtaken;
    assert_eq!(rows.begin(&main, &two), Err(overtaken()), "one has not begun yet");
    for _ in 0..2 {
        rows.begin(&main, &one).unwrap();
    }
    upsert_by(rows, &one, EPOCH, rows_of(4)).unwrap();
    assert_eq!(upsert_by(rows, &two, EPOCH, rows_of(5)), Err(overtaken()), "not begun");
    let same_turn = Advance { turn: 1, ..two };
    assert_eq!(rows.begin(&main, &same_turn), Err(overtaken()), "the turn is taken");
    assert_eq!(upsert_by(rows, &same_turn, EPOCH, rows_of(5)), Err(overtaken()));
    rows.begin(&main, &two).unwrap();
    assert_eq!(rows.begin(&main, &one), Err(overtaken()), "a late repetition");
    assert_eq!(upsert_by(rows, &one, EPOCH, rows_of(6)), Err(overtaken()));
    assert_eq!(rows.delete(&main, &one, EPOCH, &[RowHandle(1)]), Err(overtaken()));
    assert_eq!(rows.activate(&main, &one, EPOCH), Err(overtaken()));
    upsert_by(rows, &two, EPOCH, rows_of(5)).unwrap();
    assert_eq!(rows.delete(&main, &two, EPOCH, &[RowHandle(4)]), Ok(1));
    rows.activate(&main, &two, EPOCH).unwrap();
    let state = rows.describe(&main).unwrap();
    assert_eq!((state.commit, state.unfinished, state.turn), (Some(commit(3)), None, 2));
    let forked = StoreError::Forked { given: Some(commit(1)), held: Some(commit(3)) };
    assert_eq!(rows.begin(&main, &one), Err(forked));
}

/// A reset forgets rows and commit and keeps blobs.
pub fn a_reset_forgets_rows_and_commit_and_keeps_blobs(rows: &dyn RowStore) {
    let (main, name) = (main_collection(), "vault.1".parse().unwrap());
    assert_eq!(rows.reset(&main, Some(commit(9))), Ok(()), "nothing to forget");
    assert_eq!(rows.collections(), Ok(Vec::new()));
    fill(rows);
    rows.put_blob(&main, &name, b"sealed").unwrap();
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5)); // into a cache, if there is one
    assert!(matches!(rows.reset(&main, None), Err(StoreError::Forked { .. })));
    for _ in 0..2 {
        rows.reset(&main, Some(commit(1))).unwrap();
        assert_eq!(rows.describe(&main).unwrap(), empty(1));
        assert_eq!(first(rows, EPOCH, 10, 1), Err(StoreError::UnknownEpoch(EPOCH)));
        assert_eq!(rows.macs(&main, EPOCH, None, 9), Ok(Vec::new()));
        assert_eq!(rows.blob(&main, &name).unwrap(), b"sealed");
    }
    // Another vault, at an earlier epoch and revision.
    let other = Advance { turn: 2, ..step(None, 8, Revision(0)) };
    rows.begin(&main, &other).unwrap();
    upsert_by(rows, &other, Epoch(1), vec![row(1, 10, &[4])]).unwrap();
    rows.activate(&main, &other, Epoch(1)).unwrap();
    assert_eq!(first(rows, Epoch(1), 10, 1), Ok(4));
    // A publish that was cut off is forgotten as well.
    let unfinished = Advance { turn: 3, ..step(Some(8), 9, Revision(1)) };
    rows.begin(&main, &unfinished).unwrap();
    upsert_by(rows, &unfinished, Epoch(2), vec![row(1, 10, &[4])]).unwrap();
    rows.reset(&main, Some(commit(8))).unwrap();
    assert_eq!(rows.describe(&main).unwrap(), empty(4));
    let late = vec![row(1, 10, &[4])];
    let forked = Err(StoreError::Forked { given: Some(commit(8)), held: None });
    assert_eq!(upsert_by(rows, &unfinished, Epoch(2), late), forked);
}

/// A collection that holds nothing any more.
fn empty(turn: u64) -> CollectionState {
    CollectionState { turn, ..CollectionState::default() }
}

/// Blobs are listed by page in the order of their names.
pub fn blobs_are_listed_by_page_in_the_order_of_their_names(rows: &dyn RowStore) {
    let main = main_collection();
    let name = |text: &str| -> BlobName { text.parse().unwrap() };
    for text in ["c", "a", "b", "a.b", "0"] {
        rows.put_blob(&main, &name(text), text.as_bytes()).unwrap();
    }
    let listed = |after: Option<&str>, most| -> Vec<String> {
        let after = after.map(name);
        let page = rows.blobs(&main, after.as_ref(), most).unwrap();
        assert!(page.iter().all(|(name, length)| name.as_str().len() as u64 == *length));
        page.into_iter().map(|(name, _)| name.to_string()).collect()
    };
    assert_eq!(listed(None, 2), ["0", "a"]);
    assert_eq!(listed(Some("a"), 2), ["a.b", "b"]);
    assert_eq!(listed(Some("b"), 2), ["c"]);
    assert_eq!(listed(Some("a.a"), 1), ["a.b"], "after a name that is not there");
    assert!(listed(Some("c"), 2).is_empty());
}
