use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;
use crate::gaussian::Normals;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn gaussian(rows: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut rng = rng(seed);
    let mut normals = Normals::new(&mut rng);
    (0..rows * width).map(|_| normals.draw() as f32).collect()
}

/// The first nearest centroid, by plain sums.
fn oracle(cells: &Cells, row: &[f32]) -> u32 {
    let distance = |centroid: &[f32]| -> f64 {
        centroid.iter().zip(row).map(|(&c, &x)| (f64::from(c) - f64::from(x)).powi(2)).sum()
    };
    let mut best = (0, f64::INFINITY);
    for cell in 0..cells.count() {
        let distance = distance(cells.centroid(cell));
        if distance < best.1 {
            best = (cell as u32, distance);
        }
    }
    best.0
}

proptest! {
    #[test]
    fn assignment_by_products_equals_a_search_with_ties_to_the_first_cell(
        width in 1usize..20, seed: u64, exponent in prop::sample::select(vec![-100, -10, 0, 50, 100]),
    ) {
        // A coarse grid makes exact ties and duplicate centroids frequent, and sums of it are exact at any power of two.
        let scale = 2f32.powi(exponent);
        let coarse = |values: Vec<f32>| values.iter().map(|x| (2.0 * x).round() * scale).collect::<Vec<f32>>();
        let cells = Cells::from_parts(width, coarse(gaussian(30, width, seed))).unwrap();
        let rows = coarse(gaussian(100, width, seed ^ 1));
        let expected: Vec<u32> = rows.chunks_exact(width).map(|row| oracle(&cells, row)).collect();
        prop_assert_eq!(&cells.assign(&rows), &expected);
        let nearest: Vec<u32> = rows.chunks_exact(width).map(|row| cells.nearest(row)).collect();
        prop_assert_eq!(nearest, expected);
    }

    #[test]
    fn no_cell_is_empty_while_there_are_distinct_rows(
        values in prop::collection::vec(0u8..6, 1..60), width in 1usize..3, seed: u64,
    ) {
        let rows = values.len() / width;
        prop_assume!(rows > 0);
        let prefixes: Vec<f32> = values[..rows * width].iter().map(|&x| f32::from(x)).collect();
        let mut distinct: Vec<&[u8]> = values[..rows * width].chunks_exact(width).collect();
        distinct.sort();
        distinct.dedup();
        for count in [1, distinct.len(), rows] {
            let (cells, chosen) = Cells::fit(&prefixes, width, count, &mut rng(seed)).unwrap();
            let lists = CellLists::new(count, &chosen).unwrap();
            let filled = lists.iter().filter(|members| !members.is_empty()).count();
            prop_assert_eq!(filled, count.min(distinct.len()));
            prop_assert_eq!(cells.assign(&prefixes), chosen);
        }
    }
}

#[test]
fn far_clusters_are_found() {
    let mut prefixes = gaussian(600, 2, 1);
    for (row, values) in prefixes.chunks_exact_mut(2).enumerate() {
        values[0] += 100.0 * (row % 6) as f32;
    }
    let (_, chosen) = Cells::fit(&prefixes, 2, 6, &mut rng(2)).unwrap();
    for row in 6..600 {
        assert_eq!(chosen[row], chosen[row % 6]);
    }
    let mut first = chosen[..6].to_vec();
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn converged_centroids_are_the_means_of_their_rows() {
    let prefixes = gaussian(300, 3, 3);
    let (cells, chosen) = Cells::fit(&prefixes, 3, 4, &mut rng(4)).unwrap();
    for (cell, members) in CellLists::new(4, &chosen).unwrap().iter().enumerate() {
        for column in 0..3 {
            let sum: f64 =
                members.iter().map(|&row| f64::from(prefixes[row as usize * 3 + column])).sum();
            let mean = sum / members.len() as f64;
            // Not converged means within a round's step; this sample converges.
            assert!((f64::from(cells.centroid(cell)[column]) - mean).abs() < 1e-6);
        }
    }
}

#[test]
fn fit_depends_on_the_words_and_not_on_the_threads() {
    let prefixes = gaussian(5000, 8, 5);
    let with = |threads, seed| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Cells::fit(&prefixes, 8, 40, &mut rng(seed)).unwrap())
    };
    assert!(with(1, 6) == with(3, 6));
    assert!(with(1, 6) != with(1, 7));
}

#[test]
fn the_nearest_cell_is_the_first_of_equals() {
    let cells = Cells::from_parts(1, vec![4.0, 1.0, -1.0, 9.0]).unwrap();
    assert_eq!((cells.nearest(&[0.0]), cells.nearest(&[8.0])), (1, 3));
}

#[test]
fn of_many_rows_a_sample_makes_the_cells_and_all_are_assigned() {
    // Two far groups, a hundred times as many rows as the rounds take.
    let prefixes: Vec<f32> = gaussian(60_000, 1, 9).iter().map(|x| x + 50.0 * x.signum()).collect();
    let told = std::sync::atomic::AtomicU64::new(0);
    let watch = |amount| {
        told.fetch_add(amount, std::sync::atomic::Ordering::Relaxed);
        std::ops::ControlFlow::Continue(())
    };
    let (cells, chosen) =
        Cells::fit_watched(&prefixes, 1, 2, &mut rng(10), Work::new(&watch)).unwrap();
    assert_eq!(told.into_inner(), Cells::work(60_000, 1, 2));
    assert_eq!(chosen, cells.assign(&prefixes));
    let group = |x: f32| chosen[prefixes.iter().position(|&y| y.signum() == x).unwrap()];
    assert_ne!(group(1.0), group(-1.0));
    for (x, &cell) in prefixes.iter().zip(&chosen) {
        assert_eq!(cell, group(x.signum()));
    }
    let end = |_| std::ops::ControlFlow::Break(());
    let ended = Cells::fit_watched(&prefixes, 1, 2, &mut rng(10), Work::new(&end));
    assert_eq!(ended.unwrap_err(), CellsError::Stopped(Stopped));
}

#[test]
fn fits_that_cannot_be_made_are_errors() {
    let fit =
        |values: &[f32], width, count| Cells::fit(values, width, count, &mut rng(8)).unwrap_err();
    assert_eq!(fit(&[0.0; 4], 0, 1), CellsError::ZeroWidth);
    assert_eq!(fit(&[0.0; 5], 2, 1), CellsError::Ragged { values: 5, width: 2 });
    assert_eq!(fit(&[0.0; 4], 2, 0), CellsError::NoCells);
    assert_eq!(fit(&[0.0; 4], 2, 3), CellsError::FewerRowsThanCells { rows: 2, count: 3 });
    assert_eq!(fit(&[0.0; 9000], 1, 4097), CellsError::TooMany { count: 4097 });
    assert_eq!(fit(&[0.0, f32::NAN], 1, 1), CellsError::NotFinite { row: 1, column: 0 });
    assert_eq!(fit(&[], 1, 1), CellsError::FewerRowsThanCells { rows: 0, count: 1 });
    assert_eq!(Cells::from_parts(2, vec![]).unwrap_err(), CellsError::NoCells);
    let expected = CellsError::NoSuchCell { row: 1, cell: 2, count: 2 };
    assert_eq!(CellLists::new(2, &[0, 2]).unwrap_err(), expected);
}

#[test]
fn lists_grow_by_a_row_at_a_time() {
    let mut lists = CellLists::new(2, &[1, 0, 1]).unwrap();
    lists.push(0).unwrap();
    assert_eq!((lists.rows(), lists.count()), (4, 2));
    assert_eq!(lists.iter().collect::<Vec<_>>(), [&[1, 3][..], &[0, 2][..]]);
}
