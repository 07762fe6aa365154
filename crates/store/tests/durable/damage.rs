//! Damaged files: what is wrong is said, and a wrong row is never served.

use std::path::{Path, PathBuf};

use shard_store::{RedbRows, RowStore, StoreOptions, verify};

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
                Ok(row) => assert_eq!(*row[0][0], coordinates(handle, 0, WIDTH)[..], "byte {at}"),
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
