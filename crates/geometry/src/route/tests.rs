use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;

/// Values on a coarse grid: every distance is exact in `f32`, and ties are frequent.
fn grid(rows: std::ops::Range<usize>, width: usize) -> impl Strategy<Value = Vec<f32>> {
    let row = prop::collection::vec((-3i8..4).prop_map(f32::from), width);
    prop::collection::vec(row, rows).prop_map(|rows| rows.concat())
}

fn cases() -> impl Strategy<Value = (usize, Vec<f32>, Vec<f32>, usize)> {
    (1usize..40)
        .prop_flat_map(|width| (Just(width), grid(1..60, width), grid(0..10, width), 0usize..70))
}

fn oracle(width: usize, prefixes: &[f32], query: &[f32], k: usize) -> Vec<u32> {
    let distance =
        |row: &[f32]| row.iter().zip(query).map(|(x, q)| ((x - q) * (x - q)) as i64).sum::<i64>();
    let mut order: Vec<(i64, u32)> = prefixes.chunks_exact(width).map(distance).zip(0..).collect();
    order.sort();
    order.iter().take(k).map(|&(_, row)| row).collect()
}

proptest! {
    #[test]
    fn flat_scan_equals_a_full_sort((width, prefixes, queries, k) in cases()) {
        let shortlists = FlatRouter::new(width, &prefixes).unwrap().shortlist(&queries, k).unwrap();
        let expected: Vec<Vec<u32>> =
            queries.chunks_exact(width).map(|query| oracle(width, &prefixes, query, k)).collect();
        prop_assert_eq!(shortlists, expected);
    }

    #[test]
    fn probing_all_cells_equals_the_flat_scan((width, prefixes, queries, k) in cases(), seed: u64) {
        let rows = prefixes.len() / width;
        let count = 1 + seed as usize % rows;
        let (cells, chosen) = Cells::fit(&prefixes, width, count, &mut ChaCha8Rng::seed_from_u64(seed)).unwrap();
        let lists = CellLists::new(count, &chosen).unwrap();
        let inverted = InvertedRouter::new(&cells, &lists, &prefixes).unwrap();
        let flat = FlatRouter::new(width, &prefixes).unwrap();
        prop_assert_eq!(inverted.shortlist(&queries, k, count).unwrap(), flat.shortlist(&queries, k).unwrap());
    }

    #[test]
    fn probing_some_cells_ranks_their_rows((width, prefixes, queries, k) in cases(), seed: u64, nprobe in 0usize..6) {
        let rows = prefixes.len() / width;
        let count = 1 + seed as usize % rows;
        let (cells, chosen) = Cells::fit(&prefixes, width, count, &mut ChaCha8Rng::seed_from_u64(seed)).unwrap();
        let lists = CellLists::new(count, &chosen).unwrap();
        let shortlists = InvertedRouter::new(&cells, &lists, &prefixes).unwrap().shortlist(&queries, k, nprobe).unwrap();
        for (query, shortlist) in queries.chunks_exact(width).zip(shortlists) {
            let order = cells.nearest_many(query, count);
            let enough = (0..=count).find(|&probed| {
                probed >= nprobe.min(count)
                    && order[..probed].iter().map(|&cell| lists.members(cell).len()).sum::<usize>() >= k.min(rows)
            });
            let probed = &order[..enough.unwrap()];
            let expected: Vec<u32> = oracle(width, &prefixes, query, rows)
                .into_iter()
                .filter(|&row| probed.contains(&chosen[row as usize]))
                .take(k)
                .collect();
            prop_assert_eq!(shortlist, expected);
        }
    }
}

#[test]
fn blocks_of_rows_are_merged() {
    let rows = 2 * BLOCK_ROWS + 100;
    // Row `i` lies at `i mod 1000` on a line, so equal distances lie in different blocks.
    let prefixes: Vec<f32> = (0..rows).map(|row| (row % 1000) as f32).collect();
    let queries = [250.25, 0.0, 999.0, 500.0, 600.0];
    let shortlists = FlatRouter::new(1, &prefixes).unwrap().shortlist(&queries, 40).unwrap();
    for (query, shortlist) in queries.iter().zip(shortlists) {
        let mut order: Vec<u32> = (0..rows as u32).collect();
        order.sort_by(|&a, &b| {
            let distance = |row: u32| (prefixes[row as usize] - query).powi(2);
            distance(a).total_cmp(&distance(b))
        });
        assert_eq!(shortlist, order[..40]);
    }
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let prefixes = vec![0.0; 12];
    assert_eq!(FlatRouter::new(0, &prefixes).unwrap_err(), RouteError::ZeroWidth);
    assert_eq!(
        FlatRouter::new(5, &prefixes).unwrap_err(),
        RouteError::Ragged { values: 12, width: 5 }
    );
    let flat = FlatRouter::new(3, &prefixes).unwrap();
    assert_eq!(flat.shortlist(&[0.0; 4], 1), Err(RouteError::Ragged { values: 4, width: 3 }));
    let cells = Cells::from_parts(3, vec![0.0; 6]).unwrap();
    let lists = CellLists::new(2, &[0, 1, 0]).unwrap();
    let expected = RouteError::WrongLists { lists: 2, list_rows: 3, cells: 2, rows: 4 };
    assert_eq!(InvertedRouter::new(&cells, &lists, &prefixes).unwrap_err(), expected);
}
