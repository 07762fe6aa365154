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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn basis_diagonalises_the_covariance(rows in 1usize..60, width in 1usize..12, seed: u64) {
        let vectors = anisotropic(rows, width, &mut ChaCha8Rng::seed_from_u64(seed));
        let pca = Pca::fit(&vectors).unwrap();
        prop_assert!(deviation(pca.basis(), width) < 1e-10);
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
    let streamed = covariance(&vectors, &mean(&vectors));
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
fn dead_coordinates_and_single_rows_leave_the_basis_orthonormal() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut values = anisotropic(300, 96, &mut rng).into_values();
    for row in values.chunks_exact_mut(96) {
        for dead in [7, 31, 80] {
            row[dead] = 0.0;
        }
    }
    let dead = Pca::fit(&VectorSet::new(96, values).unwrap()).unwrap();
    assert!(deviation(dead.basis(), 96) < 1e-10);
    assert!(dead.variances()[93..].iter().all(|&variance| variance < 1e-15));
    assert!(dead.variances()[92] > 1e-6);

    let single = Pca::fit(&anisotropic(1, 96, &mut rng)).unwrap();
    assert!(deviation(single.basis(), 96) < 1e-10);
    assert_eq!(single.variances(), [0.0; 96]);
    // Five rows in a space of 96 have rank four.
    let few = Pca::fit(&anisotropic(5, 96, &mut rng)).unwrap();
    assert!(deviation(few.basis(), 96) < 1e-10);
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
    let vectors = anisotropic(PROJECT_ROWS + 9, 13, &mut ChaCha8Rng::seed_from_u64(7));
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
