//! Blobs in numbers, and epochs of blocks.

use super::*;

fn blob(text: &str) -> (BlobName, Vec<u8>) {
    (text.parse().unwrap(), text.as_bytes().to_vec())
}

/// Many blobs are stored at once.
pub fn many_blobs_are_stored_at_once(rows: &dyn RowStore) {
    let main = main_collection();
    rows.put_blob(&main, &blob("b").0, b"old").unwrap();
    rows.put_blobs(&main, &[blob("a"), blob("b"), blob("c")]).unwrap();
    rows.put_blobs(&main, &[blob("b"), blob("c")]).unwrap();
    let listed = rows.blobs(&main, None, 9).unwrap();
    assert_eq!(listed, ["a", "b", "c"].map(|text| (blob(text).0, 1)));
    assert_eq!(rows.blob(&main, &blob("b").0).unwrap(), b"b");
}

/// Many blobs are read at once, as many as fit, and those that are not there are told.
pub fn many_blobs_are_read_at_once_as_many_as_fit(rows: &dyn RowStore) {
    let main = main_collection();
    let names = ["block.a", "nothing", "c", "long"].map(|text| text.parse::<BlobName>().unwrap());
    let unknown = StoreError::UnknownCollection(main.clone());
    assert_eq!(rows.many_blobs(&main, &names, 1 << 20), Err(unknown));
    let long = (names[3].clone(), vec![7; 100_000]);
    rows.put_blobs(&main, &[blob("block.a"), blob("c"), long.clone()]).unwrap();
    let found = [Some(b"block.a".to_vec()), None, Some(b"c".to_vec()), Some(long.1)];
    let read = |names: &[BlobName], most| rows.many_blobs(&main, names, most).unwrap();
    assert_eq!(read(&names, 1 << 20), found);
    assert_eq!(read(&names, 100_008), found, "just as many");
    assert_eq!(read(&names, 100_007), found[..3]);
    assert_eq!(read(&names, 7), found[..2]);
    assert_eq!(read(&names[3..], 7), found[3..], "at least one");
    let twice = [names[2].clone(), names[0].clone(), names[2].clone()];
    assert_eq!(read(&twice, 100), [found[2].clone(), found[0].clone(), found[2].clone()]);
    assert!(read(&[], 100).is_empty());
}

/// Activates so many blocks of rows of width 384.
fn activate_blocks(
    rows: &dyn RowStore,
    advance: &Advance,
    epoch: Epoch,
    blocks: u64,
) -> Result<(), StoreError> {
    rows.activate_blocks(&main_collection(), advance, epoch, 384, blocks)
}

fn of_blocks(epoch: Epoch, blocks: u64) -> Vec<EpochState> {
    vec![EpochState { epoch, width: 384, rows: 0, blocks }]
}

/// Blocks are activated by the rules of rows and keep blobs.
pub fn blocks_are_activated_by_the_rules_of_rows_and_keep_blobs(rows: &dyn RowStore) {
    let main = main_collection();
    let first = step(None, 1, FIRST);
    let unknown = StoreError::UnknownCollection(main.clone());
    assert_eq!(activate_blocks(rows, &first, EPOCH, 5), Err(unknown));
    rows.begin(&main, &first).unwrap();
    rows.put_blobs(&main, &[blob("block.a"), blob("block.b")]).unwrap();
    for _ in 0..2 {
        activate_blocks(rows, &first, EPOCH, 5).unwrap();
        let state = rows.describe(&main).unwrap();
        assert_eq!((state.commit, state.unfinished), (Some(commit(1)), None));
        assert_eq!((state.revision, state.current), (FIRST, Some(EPOCH)));
        assert_eq!(state.epochs, of_blocks(EPOCH, 5));
    }
    // The next commit of the same epoch has more blocks.
    let second = Advance { turn: 2, ..step(Some(1), 2, Revision(2)) };
    assert_eq!(activate_blocks(rows, &second, EPOCH, 6), Err(StoreError::Overtaken));
    rows.begin(&main, &second).unwrap();
    let narrow = rows.activate_blocks(&main, &second, EPOCH, 383, 6);
    assert_eq!(narrow, Err(StoreError::Width { expected: 384, actual: 383 }));
    assert_eq!(rows.describe(&main).unwrap().epochs, of_blocks(EPOCH, 5), "nothing changed");
    activate_blocks(rows, &second, EPOCH, 6).unwrap();
    assert_eq!(rows.describe(&main).unwrap().epochs, of_blocks(EPOCH, 6));
    let forked = StoreError::Forked { given: Some(commit(1)), held: Some(commit(2)) };
    assert_eq!(activate_blocks(rows, &step(Some(1), 3, Revision(3)), EPOCH, 7), Err(forked));
    let stale = StoreError::Stale { given: FIRST, latest: Revision(2) };
    assert_eq!(activate_blocks(rows, &step(Some(2), 3, FIRST), EPOCH, 7), Err(stale));
    // Another epoch takes the place of this one, of another width.
    let third = Advance { turn: 3, ..step(Some(2), 3, Revision(3)) };
    rows.begin(&main, &third).unwrap();
    let replaced = StoreError::Replaced { asked: Epoch(2), current: EPOCH };
    assert_eq!(activate_blocks(rows, &third, Epoch(2), 1), Err(replaced));
    rows.activate_blocks(&main, &third, Epoch(4), 100, 1).unwrap();
    let state = rows.describe(&main).unwrap();
    assert_eq!(state.epochs, [EpochState { epoch: Epoch(4), width: 100, rows: 0, blocks: 1 }]);
    assert_eq!(rows.blobs(&main, None, 9).unwrap().len(), 2, "blobs stay");
    assert_eq!(rows.blob(&main, &blob("block.a").0).unwrap(), b"block.a");
}

/// An epoch holds rows or blocks and not both.
pub fn an_epoch_holds_rows_or_blocks_and_not_both(rows: &dyn RowStore) {
    fill(rows);
    let main = main_collection();
    let next = step(Some(1), 2, Revision(2));
    rows.begin(&main, &next).unwrap();
    let refused = StoreError::OtherKind { epoch: EPOCH, held: "rows", given: "blocks" };
    assert_eq!(activate_blocks(rows, &next, EPOCH, 5), Err(refused));
    assert_eq!(first(rows, EPOCH, 10, 1), Ok(5));
    activate_blocks(rows, &next, Epoch(4), 5).unwrap();
    assert_eq!(rows.describe(&main).unwrap().epochs, of_blocks(Epoch(4), 5), "rows are erased");
    let again = Advance { turn: 2, ..step(Some(2), 3, Revision(3)) };
    rows.begin(&main, &again).unwrap();
    let refused = StoreError::OtherKind { epoch: Epoch(4), held: "blocks", given: "rows" };
    let row_of_blocks = row(1, 10, &[0; 384]);
    assert_eq!(upsert_by(rows, &again, Epoch(4), vec![row_of_blocks]), Err(refused.clone()));
    assert_eq!(rows.delete(&main, &again, Epoch(4), &[RowHandle(1)]), Err(refused.clone()));
    assert_eq!(rows.activate(&main, &again, Epoch(4)), Err(refused));
    upsert_by(rows, &again, Epoch(5), vec![row(1, 10, &[8, 0])]).unwrap();
    rows.activate(&main, &again, Epoch(5)).unwrap();
    assert_eq!(first(rows, Epoch(5), 10, 1), Ok(8));
}

/// A reset and a drop forget blocks.
pub fn a_reset_and_a_drop_forget_blocks(rows: &dyn RowStore) {
    let main = main_collection();
    let first = step(None, 1, FIRST);
    rows.begin(&main, &first).unwrap();
    rows.put_blobs(&main, &[blob("block.a")]).unwrap();
    activate_blocks(rows, &first, EPOCH, 5).unwrap();
    rows.reset(&main, Some(commit(1))).unwrap();
    assert_eq!(rows.describe(&main).unwrap(), empty(2));
    assert_eq!(rows.blob(&main, &blob("block.a").0).unwrap(), b"block.a");
    let again = Advance { turn: 3, ..step(None, 2, FIRST) };
    rows.begin(&main, &again).unwrap();
    activate_blocks(rows, &again, Epoch(1), 2).unwrap();
    assert_eq!(rows.drop_collection(&main), Ok(true));
    assert_eq!(rows.describe(&main).unwrap(), CollectionState::default());
    assert!(rows.blob(&main, &blob("block.a").0).is_err());
}
