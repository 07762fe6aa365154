use faer::Mat;
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::*;

fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    (0..n * n).map(|at| (0..n).map(|k| a[at / n * n + k] * b[k * n + at % n]).sum()).collect()
}

fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|at| if at / n == at % n { 1.0 } else { 0.0 }).collect()
}

/// Householder's QR of a Gaussian matrix whose trailing blocks are redrawn, by dense matrices only, its vectors rounded
/// to single precision.
fn dense_oracle(n: usize, rng: &mut ChaCha20Rng) -> Vec<f64> {
    let mut normals = Normals::new(rng);
    let (mut q, mut signs) = (identity(n), identity(n));
    for k in 0..n {
        let mut a = vec![0.0; n - k];
        normals.fill(&mut a);
        let norm = a.iter().map(|x| x * x).sum::<f64>().sqrt();
        if k + 1 == n {
            signs[n * n - 1] = a[0].signum();
            break;
        }
        signs[k * n + k] = -a[0].signum();
        let scale = (norm * (norm + a[0].abs())).sqrt();
        a[0] += a[0].signum() * norm;
        a.iter_mut().for_each(|x| *x = f64::from((*x / scale) as f32));
        let square: f64 = a.iter().map(|x| x * x).sum();
        let mut reflection = identity(n);
        for i in k..n {
            for j in k..n {
                reflection[i * n + j] -= 2.0 * a[i - k] * a[j - k] / square;
            }
        }
        q = product(&q, &reflection, n);
    }
    product(&q, &signs, n)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn key_equals_the_product_of_dense_reflections(n in 1usize..20, seed: u64) {
        let key = OrthogonalKey::sample(n, &mut ChaCha20Rng::seed_from_u64(seed));
        let oracle = dense_oracle(n, &mut ChaCha20Rng::seed_from_u64(seed));
        for (ours, theirs) in key.dense().iter().zip(&oracle) {
            prop_assert!((ours - theirs).abs() < 1e-13);
        }
    }

    #[test]
    fn inverse_undoes_the_key_and_many_rows_have_the_bits_of_one(n in 1usize..80, rows in 0usize..40, seed: u64) {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let key = OrthogonalKey::sample(n, &mut rng);
        let mut original = vec![0.0; rows * n];
        Normals::new(&mut rng).fill(&mut original);
        let mut many = original.clone();
        key.apply_many(&mut many);
        for (row, mapped) in original.chunks_exact(n).zip(many.chunks_exact(n)) {
            let mut x = row.to_vec();
            key.apply(&mut x);
            prop_assert_eq!(&x, mapped);
            key.apply_inverse(&mut x);
            prop_assert!(x.iter().zip(row).all(|(x, row)| (x - row).abs() < 1e-12));
        }
    }
}

#[test]
fn wide_keys_are_orthogonal() {
    for n in [1, 2, 3, 96, 288, 577] {
        let key = OrthogonalKey::sample(n, &mut ChaCha20Rng::seed_from_u64(n as u64));
        let dense = key.dense();
        let matrix = faer::MatRef::from_row_major_slice(&dense, n, n);
        let gram: Mat<f64> = matrix * matrix.transpose();
        let worst = (&gram - Mat::<f64>::identity(n, n)).norm_max();
        assert!(worst < 1e-12, "width {n}: {worst:e}");
    }
}

#[test]
fn width_one_is_a_random_sign() {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let signs: Vec<f64> = (0..64).map(|_| OrthogonalKey::sample(1, &mut rng).dense()[0]).collect();
    assert!(signs.iter().all(|sign| sign.abs() == 1.0));
    assert!(signs.contains(&1.0) && signs.contains(&-1.0));
}

#[test]
fn entries_have_mean_zero_and_variance_one_over_n() {
    let (n, keys) = (6, 4000);
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let (mut sums, mut squares) = (vec![0.0; n * n], vec![0.0; n * n]);
    for _ in 0..keys {
        for (at, entry) in OrthogonalKey::sample(n, &mut rng).dense().into_iter().enumerate() {
            sums[at] += entry / f64::from(keys);
            squares[at] += entry * entry / f64::from(keys);
        }
    }
    // E x^2 = 1/n and Var x^2 = 2 (n-1) / (n^2 (n+2)) for an entry of a Haar matrix; five standard errors.
    let width = n as f64;
    let mean_bound = 5.0 * (1.0 / width / f64::from(keys)).sqrt();
    let square_bound =
        5.0 * (2.0 * (width - 1.0) / (width * width * (width + 2.0)) / f64::from(keys)).sqrt();
    assert!(sums.iter().all(|mean| mean.abs() < mean_bound), "{sums:?}");
    assert!(
        squares.iter().all(|square| (square - 1.0 / width).abs() < square_bound),
        "{squares:?}"
    );
}

/// Trace, squared trace, fourth power of the corner and determinant of many keys beside those of Gaussian QR with
/// the sign fix. A missing sign fix shows in the trace; a wrong sign of the last coordinate in the determinant.
#[test]
fn keys_have_the_law_of_gaussian_qr() {
    let (n, keys) = (4, 6000);
    let statistics = |q: &[f64]| {
        let trace: f64 = (0..n).map(|at| q[at * n + at]).sum();
        let determinant = faer::MatRef::from_row_major_slice(q, n, n).determinant();
        [trace, trace * trace, trace.powi(4), q[0].powi(4), q[n * n - 1].powi(4), determinant]
    };
    let moments = |mut draw: Box<dyn FnMut() -> Vec<f64>>| {
        let samples: Vec<[f64; 6]> = (0..keys).map(|_| statistics(&draw())).collect();
        let count = f64::from(keys);
        std::array::from_fn::<_, 6, _>(|at| {
            let mean = samples.iter().map(|sample| sample[at]).sum::<f64>() / count;
            let variance =
                samples.iter().map(|sample| (sample[at] - mean).powi(2)).sum::<f64>() / count;
            (mean, variance / count)
        })
    };
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let ours = moments(Box::new(move || OrthogonalKey::sample(n, &mut rng).dense()));
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let theirs = moments(Box::new(move || {
        let mut gaussian = vec![0.0; n * n];
        Normals::new(&mut rng).fill(&mut gaussian);
        let qr = faer::MatRef::from_row_major_slice(&gaussian, n, n).qr();
        let (q, r) = (qr.compute_Q(), qr.R());
        (0..n * n).map(|at| q[(at / n, at % n)] * r[(at % n, at % n)].signum()).collect()
    }));
    for (at, ((a, a_error), (b, b_error))) in ours.into_iter().zip(theirs).enumerate() {
        assert!(
            (a - b).abs() < 5.0 * (a_error + b_error).sqrt(),
            "statistic {at}: {a} against {b}"
        );
    }
    // Exact values for Haar: E trace = 0, E trace^2 = 1, E trace^4 = 3, E det = 0.
    for (at, exact) in [(0, 0.0), (1, 1.0), (2, 3.0), (5, 0.0)] {
        assert!(
            (ours[at].0 - exact).abs() < 5.0 * ours[at].1.sqrt(),
            "statistic {at}: {}",
            ours[at].0
        );
    }
}

#[test]
fn debug_shows_no_number_of_the_key() {
    let key = OrthogonalKey::sample(3, &mut ChaCha20Rng::seed_from_u64(6));
    assert_eq!(format!("{key:?}"), "OrthogonalKey(width 3, redacted)");
}

#[test]
fn bytes_are_those_of_tiles_factors_and_signs() {
    let key = OrthogonalKey::sample(288, &mut ChaCha20Rng::seed_from_u64(7));
    let panels = 288 / 8;
    assert_eq!(key.bytes(), 64 * (4 * panels * (panels + 1) / 2 + 8 * panels) + 8 * 288);
}
