use super::*;
use proptest::prelude::*;

const WIDTH: usize = 3;

/// A row whose every field follows from one number.
fn row(number: u32, cells: Option<u32>, act: impl FnOnce(&IndexedRow<'_>)) {
    let prefix = [number as f32, 1.0 / (number as f32 + 1.0), -2.0];
    act(&IndexedRow {
        id: &format!("id-{number}"),
        handle: RowHandle(u64::from(number) << 32),
        prefix: &prefix,
        cell: cells.map(|cells| number % cells),
        residual_norm: number as f32 + 0.5,
        is_late: number.is_multiple_of(3),
        length: f64::from(number) / 3.0,
    });
}

fn built(numbers: impl Iterator<Item = u32>, cells: Option<u32>) -> Index {
    let mut index = Index::empty(WIDTH);
    numbers.for_each(|number| row(number, cells, |row| index.put(None, row)));
    index.rebuild_lists(cells.map(|cells| cells as usize)).unwrap();
    index
}

fn members(index: &Index) -> Option<Vec<Vec<u32>>> {
    Some(index.lists()?.iter().map(<[u32]>::to_vec).collect())
}

proptest! {
    #[test]
    fn an_index_after_removals_is_one_built_from_the_rest(
        numbers in proptest::collection::hash_set(0_u32..1000, 1..40),
        choice in proptest::collection::vec(any::<bool>(), 40),
        cells in proptest::option::of(1_u32..6),
    ) {
        let numbers: Vec<u32> = numbers.into_iter().collect();
        let mut index = built(numbers.iter().copied(), cells);
        let gone: Vec<u32> = (0..numbers.len() as u32).filter(|&at| choice[at as usize]).collect();
        index.remove(&gone);
        index.rebuild_lists(cells.map(|cells| cells as usize)).unwrap();
        let rest = (0..numbers.len()).filter(|&at| !choice[at]).map(|at| numbers[at]);
        let fresh = built(rest, cells);
        prop_assert_eq!(index.encode(), fresh.encode());
        prop_assert_eq!(members(&index), members(&fresh));
    }
}

#[test]
fn the_first_attempt_only_grows_and_is_remembered() {
    let mut index = built(0..4, Some(2));
    index.retire(3);
    index.retire(1);
    assert_eq!(index.first_attempt(), 4);
    let back = Index::decode(&index.encode(), WIDTH, Some(2)).unwrap();
    assert_eq!(back.first_attempt(), 4);
}

#[test]
fn an_index_of_the_first_version_is_refused_in_words() {
    let mut bytes = built(0..4, Some(2)).encode();
    bytes[0] = 1;
    let error = Index::decode(&bytes, WIDTH, Some(2)).unwrap_err().to_string();
    assert!(error.contains("version 1") && error.contains("ingest the documents again"), "{error}");
}
