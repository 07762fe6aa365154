use faer::{Mat, MatRef};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::*;
use crate::gaussian::Normals;

/// Rows with a different spread along every axis of a skewed frame, away from the origin.
fn anisotropic(rows: usize, width: usize, rng: &mut impl Rng) -> VectorSet {
    let mut normals = Normals::new(rng);
    let mut values = vec![0.0; rows * width];
    for row in values.chunks_exact_mut(width) {
        let mut before = 0.0;
        for (at, value) in row.iter_mut().enumerate() {
            before = 0.3 * before + normals.draw() / (1.0 + at as f64);
            *value = (0.5 + before) as f32;
        }
    }
    VectorSet::new(width, values).unwrap()
}

fn covariance_oracle(vectors: &VectorSet) -> Vec<f64> {
    let (width, count) = (vectors.width(), vectors.rows() as f64);
    let column = |at: usize| (0..vectors.rows()).map(move |row| f64::from(vectors.row(row)[at]));
    let means: Vec<f64> = (0..width).map(|at| column(at).sum::<f64>() / count).collect();
    (0..width * width)
        .map(|at| {
            let (a, b) = (at / width, at % width);
            column(a).zip(column(b)).map(|(x, y)| (x - means[a]) * (y - means[b])).sum::<f64>()
                / count
        })
        .collect()
}

/// The entries of `|B B^T - I|`, all of them.
fn gram_off(basis: &[f64], width: usize) -> Vec<f64> {
    let basis = MatRef::from_row_major_slice(basis, width, width);
    let off = basis * basis.transpose() - Mat::<f64>::identity(width, width);
    (0..width * width).map(|at| off[(at / width, at % width)].abs()).collect()
}

fn gram_deviation(basis: &[f64], width: usize) -> f64 {
    gram_off(basis, width).into_iter().fold(0.0, f64::max)
}

/// A reflection: orthonormal, every entry of it away from zero.
fn reflection(width: usize, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut normals = Normals::new(&mut rng);
    let axis: Vec<f64> = (0..width).map(|_| normals.draw()).collect();
    let square: f64 = axis.iter().map(|entry| entry * entry).sum();
    (0..width * width)
        .map(|at| {
            let (row, column) = (at / width, at % width);
            f64::from(u8::from(row == column)) - 2.0 * axis[row] * axis[column] / square
        })
        .collect()
}

fn identity(width: usize) -> Vec<f64> {
    (0..width * width).map(|at| f64::from(u8::from(at / width == at % width))).collect()
}

fn is_refused(basis: Vec<f64>, width: usize) -> bool {
    match Pca::from_parts(vec![0.0; width], basis, vec![0.0; width]) {
        Ok(_) => false,
        Err(PcaError::NotOrthonormal { .. }) => true,
        Err(other) => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn basis_diagonalises_the_covariance(rows in 1usize..60, width in 1usize..12, seed: u64) {
        let vectors = anisotropic(rows, width, &mut ChaCha8Rng::seed_from_u64(seed));
        let pca = Pca::fit(&vectors).unwrap();
        prop_assert!(gram_deviation(pca.basis(), width) < 1e-10);
        prop_assert!(pca.variances().is_sorted_by(|a, b| a >= b));

        let covariance = covariance_oracle(&vectors);
        for a in 0..width {
            for b in 0..width {
                let rebuilt: f64 = (0..width)
                    .map(|k| pca.variances()[k] * pca.basis()[k * width + a] * pca.basis()[k * width + b])
                    .sum();
                prop_assert!((rebuilt - covariance[a * width + b]).abs() < 1e-12);
            }
        }
    }
}

#[test]
fn chunks_and_panels_add_up_to_the_whole_covariance() {
    let vectors =
        anisotropic(2 * CHUNK_ROWS + 77, PANEL_ROWS + 5, &mut ChaCha8Rng::seed_from_u64(3));
    let (width, oracle) = (vectors.width(), covariance_oracle(&vectors));
    let streamed = covariance(&vectors, &mean(&vectors), Work::unwatched()).unwrap();
    for a in 0..width {
        for b in 0..=a {
            assert!((streamed[a * width + b] - oracle[a * width + b]).abs() < 1e-12);
        }
    }
}

#[test]
fn fit_does_not_depend_on_the_number_of_threads() {
    let vectors = anisotropic(5000, 70, &mut ChaCha8Rng::seed_from_u64(4));
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Pca::fit(&vectors).unwrap())
    };
    assert!(with(1) == with(3));
}

#[test]
fn parallel_eigensolver_has_the_same_bits_on_any_number_of_threads() {
    // Wide enough for the parallel solver, and more threads than it has tasks.
    let width = 515;
    let vectors = anisotropic(700, width, &mut ChaCha8Rng::seed_from_u64(9));
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Pca::fit(&vectors).unwrap())
    };
    let one = with(1);
    for threads in [2, 3, 5, 9] {
        assert!(one == with(threads), "{threads} threads");
    }
    assert!(gram_deviation(one.basis(), width) < 1e-12);

    let covariance = covariance(&vectors, one.mean(), Work::unwatched()).unwrap();
    let mut values = linear::eigen(&covariance, width).unwrap().values;
    values.sort_by(|a, b| b.total_cmp(a));
    for (at, variance) in one.variances().iter().enumerate() {
        assert!((values[at] - variance).abs() < 1e-14, "direction {at}");
    }
}

#[test]
fn dead_coordinates_and_single_rows_leave_the_basis_orthonormal() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut values = anisotropic(300, 96, &mut rng).into_values();
    for row in values.chunks_exact_mut(96) {
        for dead in [7, 31, 80] {
            row[dead] = 0.0;
        }
    }
    let dead = Pca::fit(&VectorSet::new(96, values).unwrap()).unwrap();
    assert!(gram_deviation(dead.basis(), 96) < 1e-10);
    assert!(dead.variances()[93..].iter().all(|&variance| variance < 1e-15));
    assert!(dead.variances()[92] > 1e-6);

    let single = Pca::fit(&anisotropic(1, 96, &mut rng)).unwrap();
    assert!(gram_deviation(single.basis(), 96) < 1e-10);
    assert_eq!(single.variances(), [0.0; 96]);
    // Five rows in a space of 96 have rank four.
    let few = Pca::fit(&anisotropic(5, 96, &mut rng)).unwrap();
    assert!(gram_deviation(few.basis(), 96) < 1e-10);
    assert!(few.variances()[3] > 1e-6 && few.variances()[4] < 1e-15);
}

#[test]
fn largest_entry_of_every_direction_is_positive() {
    let pca = Pca::fit(&anisotropic(200, 20, &mut ChaCha8Rng::seed_from_u64(6))).unwrap();
    for direction in pca.basis().chunks_exact(20) {
        let largest = direction.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap();
        assert!(largest > 0.0);
    }
}

#[test]
fn projections_agree_with_each_other_and_with_the_definition() {
    let vectors = anisotropic(Projector::ROWS + 9, 13, &mut ChaCha8Rng::seed_from_u64(7));
    let pca = Pca::fit(&vectors).unwrap();
    let mut projected = vec![0.0; vectors.values().len()];
    pca.project_rows(vectors.values(), &mut projected);
    for (row, projected) in projected.chunks_exact(13).enumerate() {
        let (centred, uncentred) = (pca.centred(vectors.row(row)), pca.uncentred(vectors.row(row)));
        for k in 0..13 {
            let direction = &pca.basis()[k * 13..][..13];
            let raw: f64 =
                direction.iter().zip(vectors.row(row)).map(|(v, &x)| v * f64::from(x)).sum();
            let shift: f64 = direction.iter().zip(pca.mean()).map(|(v, m)| v * m).sum();
            assert!((uncentred[k] - raw).abs() < 1e-13);
            assert!((centred[k] - (raw - shift)).abs() < 1e-13);
            assert!((projected[k] - centred[k]).abs() < 1e-13);
        }
    }
}

#[test]
fn coordinates_of_a_row_do_not_depend_on_its_company() {
    for width in [2, 13, 100] {
        let vectors =
            anisotropic(2 * Projector::ROWS + 9, width, &mut ChaCha8Rng::seed_from_u64(9));
        let pca = Pca::fit(&vectors).unwrap();
        let project = |rows: &[f32]| {
            let mut out = vec![0.0; rows.len()];
            pca.project_rows(rows, &mut out);
            out
        };
        let together = project(vectors.values());
        let rows = [(0, 1), (5, 6), (Projector::ROWS - 3, Projector::ROWS + 40), (7, 250)];
        for (first, last) in rows {
            let apart = project(&vectors.values()[first * width..last * width]);
            assert!(apart == together[first * width..last * width]);
        }
    }
}

#[test]
fn a_fit_can_be_ended_and_its_work_adds_up() {
    let vectors = anisotropic(2 * CHUNK_ROWS + 5, 6, &mut ChaCha8Rng::seed_from_u64(10));
    let told = std::sync::atomic::AtomicU64::new(0);
    let watch = |amount| {
        told.fetch_add(amount, std::sync::atomic::Ordering::Relaxed);
        std::ops::ControlFlow::Continue(())
    };
    Pca::fit_watched(&vectors, Work::new(&watch)).unwrap();
    assert_eq!(told.into_inner(), Pca::work(vectors.rows(), 6));
    let end = |_| std::ops::ControlFlow::Break(());
    let ended = Pca::fit_watched(&vectors, Work::new(&end));
    assert!(matches!(ended, Err(PcaError::Stopped(Stopped))));
}

#[test]
fn stored_parts_are_checked() {
    let pca = Pca::fit(&anisotropic(50, 4, &mut ChaCha8Rng::seed_from_u64(8))).unwrap();
    let parts = || (pca.mean.clone(), pca.basis.clone(), pca.variances.clone());
    let (mean, basis, variances) = parts();
    assert!(Pca::from_parts(mean, basis, variances).unwrap() == pca);

    let (mean, mut basis, variances) = parts();
    basis.pop();
    let expected = PcaError::WrongLength { part: "basis", expected: 16, actual: 15 };
    assert_eq!(Pca::from_parts(mean, basis, variances), Err(expected));

    let (mut mean, basis, variances) = parts();
    mean[2] = f64::NAN;
    assert_eq!(Pca::from_parts(mean, basis, variances), Err(PcaError::NotFinite { part: "mean" }));

    let (mean, basis, mut variances) = parts();
    variances.swap(1, 2);
    assert_eq!(Pca::from_parts(mean, basis, variances), Err(PcaError::Unordered { direction: 2 }));

    for changed in [0.5, 1e200] {
        let (mean, mut basis, variances) = parts();
        basis[5] += changed;
        let error = Pca::from_parts(mean, basis, variances).unwrap_err();
        assert!(matches!(error, PcaError::NotOrthonormal { .. }), "{error}");
    }
    let expected = PcaError::WrongLength { part: "mean", expected: 1, actual: 0 };
    assert_eq!(Pca::from_parts(vec![], vec![], vec![]), Err(expected));
}

#[test]
fn one_damaged_entry_of_a_basis_is_refused_wherever_it_is() {
    for width in [1, 2, 3, 17, 96] {
        for basis in [reflection(width, 10), identity(width)] {
            assert!(!is_refused(basis.clone(), width), "width {width}");
            for at in 0..width * width {
                for damage in [1.1e-6, -1.1e-6, 1.0, 1e160] {
                    let mut damaged = basis.clone();
                    damaged[at] += damage;
                    assert!(is_refused(damaged, width), "width {width}, entry {at}, {damage:e}");
                }
            }
        }
    }
    let width = 1024;
    let basis = reflection(width, 11);
    assert!(!is_refused(basis.clone(), width));
    for at in (0..width * width).step_by(31 * width + 77) {
        let mut damaged = basis.clone();
        damaged[at] += 1.1e-6;
        assert!(is_refused(damaged, width), "entry {at}");
    }
}

#[test]
fn a_basis_of_the_wrong_directions_is_refused() {
    let width = 48;
    let basis = reflection(width, 12);
    let changed = |change: &dyn Fn(&mut [f64])| {
        let mut basis = basis.clone();
        change(&mut basis);
        is_refused(basis, width)
    };
    assert!(changed(&|basis| basis.copy_within(..width, width)), "a direction twice");
    assert!(changed(&|basis| basis[5 * width..6 * width].fill(0.0)), "a direction missing");
    assert!(changed(&|basis| basis.fill(0.0)), "no directions at all");
    let longer =
        |basis: &mut [f64]| basis[..width].iter_mut().for_each(|entry| *entry *= 1.0 + 1e-7);
    assert!(changed(&longer), "a direction of another length");
    let rotated = |basis: &mut [f64]| {
        let (first, second) = basis[..2 * width].split_at_mut(width);
        first.iter_mut().zip(second).for_each(|(first, second)| *first += 1e-7 * *second);
    };
    assert!(changed(&rotated), "two directions not at right angles");
    // Still orthonormal, so this check does not find it.
    assert!(!changed(&|basis| basis[..width].iter_mut().for_each(|entry| *entry = -*entry)));
}

/// `B = I + E/2` with a cycle of four entries of `E` whose sums vanish under the signs of one probe.
#[test]
fn damage_that_suits_one_probe_is_seen_by_another() {
    let (width, size) = (8, 1e-6);
    for probe in 0..PROBES {
        let sign = |row: usize| if scramble(row as u64) >> probe & 1 == 0 { 1.0 } else { -1.0 };
        let mut basis = identity(width);
        for (at, (row, column)) in [(0, 1), (1, 2), (2, 3), (3, 0)].into_iter().enumerate() {
            let sign_of_row = if at.is_multiple_of(2) { 1.0 } else { -1.0 };
            let entry = sign_of_row * size * sign(row) * sign(column) / 2.0;
            basis[row * width + column] = entry;
            basis[column * width + row] = entry;
        }
        let deviation = gram_deviation(&basis, width);
        assert!((deviation / size - 1.0).abs() < 1e-3, "{deviation:e}");
        assert!(is_refused(basis, width), "probe {probe}");
    }
}

/// Noise on all entries, from far below the tolerance to far above.
#[test]
fn probes_bound_the_deviation_from_both_sides() {
    for seed in 0..40 {
        let width = 1 + seed as usize * 3;
        let mut basis = reflection(width, seed);
        let mut rng = ChaCha8Rng::seed_from_u64(100 + seed);
        let mut normals = Normals::new(&mut rng);
        let size = 10f64.powi(-12 + (seed % 10) as i32);
        basis.iter_mut().for_each(|entry| *entry += size * normals.draw());

        let off = gram_off(&basis, width);
        let largest = off.iter().copied().fold(0.0, f64::max);
        let row_sum = off.chunks_exact(width).map(|row| row.iter().sum()).fold(0.0, f64::max);
        let found = deviation(&basis, width);
        let rounding = 1e-13;
        assert!(found + rounding >= largest, "width {width}: {found:e} below {largest:e}");
        assert!(found <= row_sum + rounding, "width {width}: {found:e} above {row_sum:e}");
    }
}
