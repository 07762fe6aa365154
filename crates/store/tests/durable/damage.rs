//! Damaged files: what is wrong is said, and a wrong row is never served.

use std::path::{Path, PathBuf};

use shard_protocol::{Advance, CollectionName, CommitName, Revision, RowMac};
use shard_store::{RedbRows, RowStore, StoreError, StoreOptions, verify};

use crate::support::*;

const ROWS: u64 = 120;
const WIDTH: usize = 16;

fn row_file(directory: &Path) -> PathBuf {
    directory.join("rows-00000001.redb")
}

fn flip(directory: &Path, byte: usize, bit: u8) {
    let mut bytes = std::fs::read(row_file(directory)).unwrap();
    bytes[byte] ^= 1 << bit;
    std::fs::write(row_file(directory), bytes).unwrap();
}

#[test]
fn a_damaged_row_is_named_and_not_served() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), ROWS, WIDTH));
    let row: Vec<u8> = coordinates(30, 0, WIDTH).into_iter().flat_map(i32::to_le_bytes).collect();
    let bytes = std::fs::read(row_file(directory.path())).unwrap();
    // redb may hold older copies of the page; damage them all.
    let places: Vec<usize> =
        (0..bytes.len() - row.len()).filter(|&at| bytes[at..at + row.len()] == row).collect();
    places.iter().for_each(|&at| flip(directory.path(), at + 5, 3));
    let found = verify(directory.path()).unwrap();
    let named = format!("collection main, epoch 3, row {:016x} in cell {}", 30, cell(30));
    assert!(found.problems.iter().any(|problem| problem.contains(&named)), "{found:?}");
    let rows = open(directory.path());
    let refused = fetch(&rows, EPOCH, [30]).unwrap_err();
    assert!(refused.to_string().contains("damaged"), "{refused}");
    assert!(holds(&rows, EPOCH, 31, 0));
    // A copy would hide it.
    assert!(rows.compact().is_err());
    assert!(rows.snapshot(&directory.path().join("snapshot")).is_err());
    // The owner can put the row back.
    upsert(&rows, 2, EPOCH, [30], 1, WIDTH).unwrap();
    assert!(holds(&rows, EPOCH, 30, 1));
}

#[test]
fn wherever_a_bit_flips_it_is_reported_or_the_rows_are_still_right() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), ROWS, WIDTH);
    delete(&rows, 2, &[5]);
    rows.put_blob(&main_collection(), &"b".parse().unwrap(), &[7; 500]).unwrap();
    drop(rows);
    let whole = std::fs::read(row_file(directory.path())).unwrap();
    // Pages that hold something, and the header byte by byte.
    let used: Vec<usize> = (0..whole.len())
        .filter(|&at| at < 320 || whole[at & !63..(at & !63) + 64].iter().any(|b| *b != 0))
        .collect();
    let mut state = 0x2026_u64;
    let mut reported = 0;
    for round in 0..60 {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let at = if round < 20 { 16 * round } else { used[(state >> 20) as usize % used.len()] };
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (state >> 60 & 7);
        std::fs::write(row_file(directory.path()), bytes).unwrap();
        let found = verify(directory.path()).unwrap();
        reported += usize::from(!found.is_sound());
        let Ok(rows) = RedbRows::open(directory.path(), StoreOptions::default()) else {
            assert!(!found.is_sound(), "byte {at}: opening fails and the check says nothing");
            continue;
        };
        for handle in (0..ROWS).filter(|handle| *handle != 5) {
            match fetch(&rows, EPOCH, [handle]) {
                Ok(row) => {
                    assert_eq!(*row.rows[0][0], coordinates(handle, 0, WIDTH)[..], "byte {at}")
                }
                Err(error) => {
                    assert!(!found.is_sound(), "byte {at}: {error}, and the check says nothing");
                }
            }
        }
        assert!(fetch(&rows, EPOCH, [5]).is_err(), "byte {at}: a deleted row is back");
    }
    assert!(reported > 10, "{reported}");
}

#[test]
fn a_file_that_is_cut_or_no_row_file_at_all_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), ROWS, WIDTH));
    let whole = std::fs::read(row_file(directory.path())).unwrap();
    for length in [0, 100, 4096, whole.len() / 2, whole.len() - 4096] {
        std::fs::write(row_file(directory.path()), &whole[..length]).unwrap();
        assert!(!verify(directory.path()).unwrap().is_sound(), "{length} bytes");
        assert_eq!(std::fs::read(row_file(directory.path())).unwrap().len(), length);
    }
    std::fs::write(row_file(directory.path()), vec![0x5a; 100_000]).unwrap();
    assert!(!verify(directory.path()).unwrap().is_sound());
    assert!(RedbRows::open(directory.path(), StoreOptions::default()).is_err());
    assert!(verify(&directory.path().join("nowhere")).is_err());
}

#[test]
fn a_check_leaves_the_directory_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let rows = filled(directory.path(), ROWS, WIDTH);
    let crashed = tempfile::tempdir().unwrap();
    copy_directory(directory.path(), crashed.path());
    drop(rows);
    let before = std::fs::read(row_file(crashed.path())).unwrap();
    let found = verify(crashed.path()).unwrap();
    assert_eq!((found.rows, found.problems), (ROWS, Vec::new()));
    assert_eq!(std::fs::read(row_file(crashed.path())).unwrap(), before);
}

fn other() -> CollectionName {
    "other".parse().unwrap()
}

/// Two collections with rows of salts 0 and 3, and a blob each.
fn two_collections(directory: &Path) -> RedbRows {
    let rows = filled(directory, ROWS, WIDTH);
    let first = Advance { from: None, ..advance(&rows, 1) };
    let batch = batch(EPOCH, 0..ROWS, 3, WIDTH);
    rows.upsert(&other(), &first, batch, &vec![RowMac([3; 16]); ROWS as usize]).unwrap();
    rows.activate(&other(), &first, EPOCH).unwrap();
    for name in [main_collection(), other()] {
        rows.put_blob(&name, &"vault.head".parse().unwrap(), b"sealed").unwrap();
    }
    rows
}

/// What reading every row of a collection comes to; a row that is read is right.
fn read_all(rows: &RedbRows, name: &CollectionName, salt: u64) -> Result<(), StoreError> {
    rows.macs(name, EPOCH, None, 1000)?;
    for handle in 0..ROWS {
        let found = rows.fetch(name, EPOCH, &candidates([handle]))?;
        assert_eq!(*found.rows[0][0], coordinates(handle, salt, WIDTH)[..]);
    }
    Ok(())
}

/// Publishes a collection from nothing, as its owner does after a reset.
fn publish_again(rows: &RedbRows, name: &CollectionName, salt: u64) {
    let state = rows.describe(name).unwrap();
    assert_eq!((state.commit, state.damage), (None, None));
    let turn = state.turn + 1;
    let advance = Advance { from: None, to: CommitName([9; 16]), revision: Revision(1), turn };
    rows.begin(name, &advance).unwrap();
    let macs = vec![RowMac([salt as u8; 16]); ROWS as usize];
    rows.upsert(name, &advance, batch(EPOCH, 0..ROWS, salt, WIDTH), &macs).unwrap();
    rows.activate(name, &advance, EPOCH).unwrap();
}

fn set_aside(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("damaged-rows-")).collect();
    names.sort();
    names
}

/// Flips a bit wherever these bytes are: redb may hold older copies of a page.
pub fn flip_all(directory: &Path, pattern: &[u8], offset: usize) {
    let mut bytes = std::fs::read(row_file(directory)).unwrap();
    let places: Vec<usize> = (0..bytes.len() - pattern.len())
        .filter(|&at| bytes[at..at + pattern.len()] == *pattern)
        .collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[at + offset] ^= 8);
    std::fs::write(row_file(directory), bytes).unwrap();
}

#[test]
fn a_damaged_row_is_told_of_its_collection_and_a_reset_sets_the_file_aside() {
    let directory = tempfile::tempdir().unwrap();
    drop(two_collections(directory.path()));
    let row: Vec<u8> = coordinates(30, 0, WIDTH).into_iter().flat_map(i32::to_le_bytes).collect();
    flip_all(directory.path(), &row, 5);
    let damaged = std::fs::read(row_file(directory.path())).unwrap();
    let rows = open(directory.path());
    assert_eq!(rows.describe(&main_collection()).unwrap().damage, None, "not noticed yet");
    let what = format!("row {:016x} in cell {} of epoch 3", 30, cell(30));
    assert_eq!(fetch(&rows, EPOCH, [30]), Err(StoreError::Damaged { what: what.clone() }));
    let state = rows.describe(&main_collection()).unwrap();
    assert_eq!(state.damage, Some(what));
    assert!(holds(&rows, EPOCH, 31, 0), "other rows are served");
    assert_eq!(rows.describe(&other()).unwrap().damage, None);
    assert_eq!(read_all(&rows, &other(), 3), Ok(()));

    let strange = rows.reset(&main_collection(), Some(CommitName([1; 16])));
    assert!(matches!(strange, Err(StoreError::Forked { .. })), "{strange:?}");
    rows.reset(&main_collection(), state.commit).unwrap();
    publish_again(&rows, &main_collection(), 5);
    assert_eq!(set_aside(directory.path()), ["damaged-rows-00000001-1.redb"]);
    let kept = directory.path().join("damaged-rows-00000001-1.redb");
    assert_eq!(std::fs::read(kept).unwrap().len(), damaged.len());
    rows.compact().unwrap();
    drop(rows);
    assert_eq!(verify(directory.path()).unwrap().problems, Vec::<String>::new());
    let rows = open(directory.path());
    assert_eq!(read_all(&rows, &main_collection(), 5), Ok(()));
    assert_eq!(read_all(&rows, &other(), 3), Ok(()));
    for name in [main_collection(), other()] {
        assert_eq!(rows.blob(&name, &"vault.head".parse().unwrap()).unwrap(), b"sealed");
    }
    assert_eq!(set_aside(directory.path()).len(), 1, "it is nobody's to remove but the operator's");
}

#[test]
fn a_damaged_record_of_a_collection_leaves_the_others_served() {
    // The commit in the record of `other`, and the width in that of its epoch.
    let directory = tempfile::tempdir().unwrap();
    for (key, offset) in [("other", 20), ("epoch", 0)] {
        let directory = directory.path().join(key);
        drop(two_collections(&directory));
        if key == "other" {
            let words = [1_u64, 1, 1, EPOCH.0, 0].map(u64::to_le_bytes).concat();
            flip_all(&directory, &words, offset);
        } else {
            let words = [WIDTH as u64, ROWS].map(u64::to_le_bytes).concat();
            let mut bytes = std::fs::read(row_file(&directory)).unwrap();
            // Of both collections: the one of the second comes after that of the first.
            let places: Vec<usize> = (0..bytes.len() - words.len())
                .filter(|&at| bytes[at..at + words.len()] == words)
                .collect();
            for pair in places.chunks(2).filter(|pair| pair.len() == 2) {
                bytes[pair[1]] ^= 8;
            }
            std::fs::write(row_file(&directory), bytes).unwrap();
        }
        let found = verify(&directory).unwrap();
        assert!(found.problems.iter().any(|p| p.contains("collection other")), "{found:?}");
        let rows = open(&directory);
        let state = rows.describe(&other()).unwrap();
        assert!(state.damage.is_some(), "{key}");
        assert!(matches!(read_all(&rows, &other(), 3), Err(StoreError::Damaged { .. })));
        assert_eq!(read_all(&rows, &main_collection(), 0), Ok(()), "{key}");
        assert_eq!(rows.collections().unwrap().len(), 2);
        let put = rows.put_blob(&other(), &"b".parse().unwrap(), b"x");
        assert!(matches!(put, Err(StoreError::Damaged { .. })));
        upsert(&rows, 2, EPOCH, [1], 0, WIDTH).unwrap();
        rows.reset(&other(), state.commit).unwrap();
        publish_again(&rows, &other(), 4);
        drop(rows);
        assert_eq!(verify(&directory).unwrap().problems, Vec::<String>::new(), "{key}");
        let rows = open(&directory);
        assert_eq!(read_all(&rows, &main_collection(), 0), Ok(()));
        assert_eq!(read_all(&rows, &other(), 4), Ok(()));
        assert_eq!(rows.drop_collection(&other()), Ok(true));
    }
}

#[test]
fn whatever_bit_flips_resets_bring_a_sound_file_back_without_harm_to_the_other_collection() {
    let sound = tempfile::tempdir().unwrap();
    drop(two_collections(sound.path()));
    let whole = std::fs::read(row_file(sound.path())).unwrap();
    let used: Vec<usize> = (0..whole.len())
        .filter(|&at| whole[at & !63..(at & !63) + 64].iter().any(|byte| *byte != 0))
        .collect();
    let (mut state, mut resets, mut anew, mut untouched) = (0x5eed_u64, 0, 0, 0);
    for round in 0..120 {
        let directory = tempfile::tempdir().unwrap();
        copy_directory(sound.path(), directory.path());
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let at = used[(state >> 20) as usize % used.len()];
        // A bit, or a stretch of a page.
        let stretch = if round % 3 == 0 { 300 } else { 1 };
        let mut bytes = whole.clone();
        let end = (at + stretch).min(bytes.len());
        bytes[at..end].iter_mut().for_each(|byte| *byte ^= 1 << (state >> 60 & 7));
        std::fs::write(row_file(directory.path()), bytes).unwrap();
        let Ok(rows) = RedbRows::open(directory.path(), StoreOptions::default()) else {
            let kept = RedbRows::begin_anew(directory.path()).unwrap();
            assert!(kept.exists());
            let rows = open(directory.path());
            publish_again(&rows, &main_collection(), 0);
            anew += 1;
            continue;
        };
        let mut broken = Vec::new();
        for (name, salt) in [(main_collection(), 0), (other(), 3)] {
            if let Err(error) = read_all(&rows, &name, salt) {
                assert!(matches!(error, StoreError::Damaged { .. }), "byte {at}: {error}");
                broken.push((name, salt));
            }
        }
        untouched += usize::from(broken.is_empty());
        let there = broken.len();
        for (name, salt) in broken {
            let held = rows.describe(&name).unwrap();
            assert!(held.damage.is_some(), "byte {at}");
            rows.reset(&name, held.commit).unwrap();
            publish_again(&rows, &name, salt);
            resets += 1;
        }
        for (name, salt) in [(main_collection(), 0), (other(), 3)] {
            assert_eq!(read_all(&rows, &name, salt), Ok(()), "byte {at}");
        }
        drop(rows);
        if there > 0 {
            let found = verify(directory.path()).unwrap();
            assert_eq!(found.problems, Vec::<String>::new(), "byte {at}");
        }
    }
    assert!(resets >= 10 && untouched >= 1, "{resets} resets, {anew} anew, {untouched} untouched");
}

#[test]
fn a_file_that_cannot_be_opened_is_set_aside_on_request() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), ROWS, WIDTH));
    let whole = std::fs::read(row_file(directory.path())).unwrap();
    std::fs::write(row_file(directory.path()), &whole[..whole.len() / 2]).unwrap();
    let refused = RedbRows::open(directory.path(), StoreOptions::default()).unwrap_err();
    let words = refused.to_string();
    assert!(words.contains("rows-00000001.redb") && words.contains("set it aside"), "{words}");
    let kept = RedbRows::begin_anew(directory.path()).unwrap();
    assert_eq!(std::fs::read(kept).unwrap(), whole[..whole.len() / 2]);
    let rows = open(directory.path());
    assert_eq!(rows.collections(), Ok(Vec::new()));
    publish_again(&rows, &main_collection(), 2);
    let running = RedbRows::begin_anew(directory.path()).unwrap_err();
    assert!(running.to_string().contains("a server is running on"), "{running}");
    drop(rows);
    assert_eq!(read_all(&open(directory.path()), &main_collection(), 2), Ok(()));
    let nothing = RedbRows::begin_anew(&directory.path().join("empty")).unwrap_err();
    assert!(nothing.to_string().contains("holds no rows"), "{nothing}");
}
