use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;

/// Residuals have a single coordinate here, and this weight, so every estimate is exact in `f32`, and ties are frequent.
const WEIGHT: f64 = 0.5;

/// Rows and queries on a coarse grid, a prefix and a residual each.
#[derive(Debug, Clone)]
struct Case {
    width: usize,
    prefixes: Vec<f32>,
    residual_norms: Vec<f32>,
    queries: Vec<Vec<f64>>,
    k: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    (1usize..40).prop_flat_map(|width| {
        let row = || prop::collection::vec(-3i8..4, width + 1);
        let rows = prop::collection::vec(row(), 1..60);
        let queries = prop::collection::vec(row(), 0..10);
        (rows, queries, 0usize..70).prop_map(move |(rows, queries, k)| Case {
            width,
            prefixes: rows.iter().flat_map(|row| &row[..width]).map(|&x| x.into()).collect(),
            residual_norms: rows.iter().map(|row| f32::from(row[width].abs())).collect(),
            queries: queries.iter().map(|q| q.iter().map(|&x| x.into()).collect()).collect(),
            k,
        })
    })
}

impl Case {
    fn routed(&self) -> Vec<RouteQuery> {
        self.queries.iter().map(|query| RouteQuery::new(query, self.width, WEIGHT)).collect()
    }

    fn flat(&self) -> FlatRouter<'_> {
        FlatRouter::new(self.width, &self.prefixes, &self.residual_norms).unwrap()
    }

    fn partition(&self, seed: u64) -> (Cells, Vec<u32>, CellLists) {
        let count = 1 + seed as usize % self.residual_norms.len();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (cells, chosen) = Cells::fit(&self.prefixes, self.width, count, &mut rng).unwrap();
        let lists = CellLists::new(count, &chosen).unwrap();
        (cells, chosen, lists)
    }

    /// All rows by falling estimate, in whole numbers.
    fn oracle(&self, query: &[f64]) -> Vec<u32> {
        let estimate = |(prefix, norm): (&[f32], &f32)| {
            let prefix: i64 = prefix.iter().zip(query).map(|(x, q)| *x as i64 * *q as i64).sum();
            -(2 * prefix + query[self.width].abs() as i64 * *norm as i64)
        };
        let rows = self.prefixes.chunks_exact(self.width).zip(&self.residual_norms);
        let mut order: Vec<(i64, u32)> = rows.map(estimate).zip(0..).collect();
        order.sort();
        order.iter().map(|&(_, row)| row).collect()
    }
}

proptest! {
    #[test]
    fn flat_scan_equals_a_full_sort(case in cases()) {
        let shortlists = case.flat().shortlist(&case.routed(), case.k).unwrap();
        for (query, shortlist) in case.queries.iter().zip(shortlists) {
            let expected: Vec<u32> = case.oracle(query).into_iter().take(case.k).collect();
            prop_assert_eq!(shortlist, expected);
        }
    }

    #[test]
    fn probing_all_cells_equals_the_flat_scan(case in cases(), seed: u64) {
        let (cells, _, lists) = case.partition(seed);
        let inverted = InvertedRouter::new(&cells, &lists, &case.prefixes, &case.residual_norms).unwrap();
        prop_assert_eq!(
            inverted.shortlist(&case.routed(), case.k, cells.count()).unwrap(),
            case.flat().shortlist(&case.routed(), case.k).unwrap()
        );
    }

    #[test]
    fn probing_some_cells_ranks_their_rows(case in cases(), seed: u64, nprobe in 0usize..6) {
        let (cells, chosen, lists) = case.partition(seed);
        let rows = chosen.len();
        let inverted = InvertedRouter::new(&cells, &lists, &case.prefixes, &case.residual_norms).unwrap();
        let shortlists = inverted.shortlist(&case.routed(), case.k, nprobe).unwrap();
        for ((query, routed), shortlist) in case.queries.iter().zip(case.routed()).zip(shortlists) {
            let order = inverted.order(&routed);
            let enough = (0..=cells.count()).find(|&probed| {
                probed >= nprobe.min(cells.count())
                    && order[..probed].iter().map(|&cell| lists.members(cell).len()).sum::<usize>() >= case.k.min(rows)
            });
            let probed = &order[..enough.unwrap()];
            let expected: Vec<u32> = case.oracle(query)
                .into_iter()
                .filter(|&row| probed.contains(&chosen[row as usize]))
                .take(case.k)
                .collect();
            prop_assert_eq!(shortlist, expected);
        }
    }

    #[test]
    fn a_shortlist_does_not_depend_on_the_length_of_the_query(case in cases(), exponent in -66i32..66) {
        let scaled: Vec<RouteQuery> = case
            .queries
            .iter()
            .map(|query| {
                let longer: Vec<f64> = query.iter().map(|q| q * 2f64.powi(exponent)).collect();
                RouteQuery::new(&longer, case.width, WEIGHT)
            })
            .collect();
        let flat = case.flat();
        prop_assert_eq!(
            flat.shortlist(&scaled, case.k).unwrap(),
            flat.shortlist(&case.routed(), case.k).unwrap()
        );
    }
}

#[test]
fn blocks_of_rows_are_merged() {
    let rows = 2 * BLOCK_ROWS + 100;
    // Row `i` lies at `i mod 1000` on a line, so equal estimates lie in different blocks.
    let prefixes: Vec<f32> = (0..rows).map(|row| (row % 1000) as f32).collect();
    let norms: Vec<f32> = (0..rows).map(|row| (row % 7) as f32 * 100.0).collect();
    let coordinates = [[1.0, 1.0], [-1.0, 2.0], [0.0, 3.0], [2.0, 0.0], [-1.0, 0.0]];
    let queries = coordinates.map(|query| RouteQuery::new(&query, 1, 1.0));
    let router = FlatRouter::new(1, &prefixes, &norms).unwrap();
    let shortlists = router.shortlist(&queries, 40).unwrap();
    for (query, shortlist) in coordinates.iter().zip(shortlists) {
        let mut order: Vec<u32> = (0..rows as u32).collect();
        order.sort_by(|&a, &b| {
            let estimate = |row: u32| {
                f64::from(prefixes[row as usize]) * query[0]
                    + f64::from(norms[row as usize]) * query[1]
            };
            estimate(b).total_cmp(&estimate(a))
        });
        assert_eq!(shortlist, order[..40]);
    }
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let (prefixes, norms) = (vec![0.0; 12], vec![0.0; 4]);
    assert_eq!(FlatRouter::new(0, &prefixes, &norms).unwrap_err(), RouteError::ZeroWidth);
    assert_eq!(
        FlatRouter::new(5, &prefixes, &norms).unwrap_err(),
        RouteError::Ragged { values: 12, width: 5 }
    );
    assert_eq!(
        FlatRouter::new(3, &prefixes, &norms[1..]).unwrap_err(),
        RouteError::WrongNorms { norms: 3, rows: 4 }
    );
    let flat = FlatRouter::new(3, &prefixes, &norms).unwrap();
    let query = RouteQuery::new(&[0.0; 6], 4, 0.0);
    let wrong = RouteError::WrongQuery { expected: 3, actual: 4 };
    assert_eq!(flat.shortlist(&[query], 1), Err(wrong));
    let cells = Cells::from_parts(3, vec![0.0; 6]).unwrap();
    let lists = CellLists::new(2, &[0, 1, 0]).unwrap();
    let expected = RouteError::WrongLists { lists: 2, list_rows: 3, cells: 2, rows: 4 };
    assert_eq!(InvertedRouter::new(&cells, &lists, &prefixes, &norms).unwrap_err(), expected);
}
