use super::*;
use crate::collection::RowRecord;

const WIDTH: usize = 3;

/// Rows whose every field follows from a number.
fn rows(numbers: impl Iterator<Item = u32>, cells: Option<u32>) -> RoutingRows {
    let mut rows = RoutingRows::empty(WIDTH, cells.is_some());
    for number in numbers {
        rows.push(&RowRecord {
            id: &format!("id-{number}"),
            handle: RowHandle(u64::from(number) << 32),
            cell: cells.map(|cells| number % cells),
            residual_norm: number as f32 + 0.5,
            length: number as f32 / 3.0,
            is_late: number % 2 == 1,
            prefix: &[number as f32, 1.0 / (number as f32 + 1.0), -2.0],
        });
    }
    rows
}

/// Rows 4 and 7, with vectors of width two.
fn canaries() -> Canaries {
    let handles = [7, 4].map(|row| RowHandle(row << 32)).to_vec();
    Canaries::new(handles, vec![7.0, 0.5, 4.0, 0.5], true)
}

fn index(cells: Option<u32>) -> Index {
    // Numbers of chunks have gaps: the chunks between were emptied.
    let count = cells.map(|cells| cells as usize);
    let chunks = [(0, 4), (7, 1), (8, 4)];
    Index::new(rows(0..9, cells), &chunks, count, canaries(), 3).unwrap()
}

#[test]
fn an_index_has_the_rows_of_its_chunks_in_order() {
    for cells in [Some(2), None] {
        let index = index(cells);
        assert_eq!((index.rows(), index.first_attempt()), (9, 3));
        let expected: Vec<String> = (0..9).map(|number| format!("id-{number}")).collect();
        assert!(index.ids().eq(&expected));
        for row in 0..9 {
            assert_eq!(index.handle(row), RowHandle(u64::from(row) << 32));
            assert_eq!(index.id(row), expected[row as usize]);
            assert_eq!(index.cell(row), cells.map(|cells| row % cells));
            assert_eq!(index.prefix(row)[0], row as f32);
            assert_eq!(index.is_late(row), row % 2 == 1);
        }
        assert_eq!(index.cells().is_some(), cells.is_some());
        assert_eq!(index.members(), cells.map(|_| vec![5, 4]));
        assert!(index.canary_rows().eq([4, 7]) && index.canaries() == 2);
        assert!((0..9).all(|row| index.is_canary(row) == (row == 4 || row == 7)));
        assert_eq!(index.canary_vector(4), Some(&[4.0, 0.5][..]));
        assert_eq!((index.canary_vector(5), index.all_half()), (None, true));
        assert_eq!(index.into_rows(), rows(0..9, cells));
    }
}

#[test]
fn every_row_is_found_in_its_chunk() {
    let index = index(Some(2));
    let spans: Vec<(u32, u32, u32)> =
        index.chunks().iter().map(|span| (span.number, span.first, span.rows)).collect();
    assert_eq!(spans, [(0, 0, 4), (7, 4, 1), (8, 5, 4)]);
    let places: Vec<usize> = (0..9).map(|row| index.chunk_of(row)).collect();
    assert_eq!(places, [0, 0, 0, 0, 1, 2, 2, 2, 2]);
    for (place, numbers) in [0..4, 4..5, 5..9].into_iter().enumerate() {
        assert_eq!(index.chunk_rows(&index.chunks()[place]), rows(numbers, Some(2)));
    }
}

#[test]
fn rows_of_no_cell_and_canaries_of_no_row_are_refused() {
    let build = |count, canaries| {
        Index::new(rows(0..8, Some(4)), &[(0, 8)], Some(count), canaries, 0).is_ok()
    };
    assert!(build(4, canaries()));
    assert!(!build(3, canaries()), "a document in a cell that is not there");
    let named = |handles: [u64; 2]| {
        Canaries::new(handles.map(|row| RowHandle(row << 32)).to_vec(), vec![0.0; 4], true)
    };
    assert!(!build(4, named([4, 9])), "a canary that is no document");
    assert!(!build(4, named([4, 4])), "a canary twice");
}
