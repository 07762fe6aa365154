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

fn canaries(cells: Option<u32>) -> Canaries {
    Canaries { rows: rows(9..11, cells), vectors: vec![0.5; 14] }
}

fn index(cells: Option<u32>) -> Index {
    // Numbers of chunks have gaps: the chunks between were emptied.
    let count = cells.map(|cells| cells as usize);
    let chunks = [(0, 4), (7, 1), (8, 4)];
    Index::new(rows(0..9, cells), &chunks, count, canaries(cells), 3).unwrap()
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
        // Canaries are routed with the documents and are none of them.
        assert_eq!((index.canaries(), index.handles().len()), (2, 11));
        assert!((0..11).all(|row| index.is_canary(row) == (row > 8)));
        assert_eq!(index.residual_norms().len(), 11);
        assert_eq!(index.of_documents().1, &index.residual_norms()[..9]);
        let (documents, apart) = index.into_parts();
        assert_eq!((documents, apart.rows), (rows(0..9, cells), rows(9..11, cells)));
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
fn rows_and_canaries_that_do_not_go_with_the_cells_are_refused() {
    let build = |cells: u32, count| {
        let made = canaries(Some(cells));
        Index::new(rows(0..4, Some(4)), &[(0, 4)], Some(count), made, 0).is_ok()
    };
    assert!(build(4, 4));
    assert!(!build(4, 3), "a document in a cell that is not there");
    assert!(!build(11, 4), "a canary in a cell that is not there");
}
