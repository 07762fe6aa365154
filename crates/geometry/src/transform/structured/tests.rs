use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::*;

const WIDTHS: [usize; 11] = [1, 2, 3, 5, 7, 31, 32, 96, 288, 576, 1000];

fn key(width: usize, seed: u64) -> StructuredKey {
    StructuredKey::sample(width, &mut ChaCha20Rng::seed_from_u64(seed))
}

/// Row `j` is `T e_j`.
fn columns(key: &StructuredKey) -> Vec<f64> {
    let n = key.width();
    let mut columns = vec![0.0; n * n];
    (0..n).for_each(|at| columns[at * n + at] = 1.0);
    key.apply_many(&mut columns);
    columns
}

#[test]
fn keys_of_every_width_are_orthogonal() {
    for n in WIDTHS {
        let columns = columns(&key(n, 1));
        let matrix = faer::MatRef::from_row_major_slice(&columns, n, n);
        let gram = matrix * matrix.transpose();
        let worst = (&gram - faer::Mat::<f64>::identity(n, n)).norm_max();
        assert!(worst < 1e-12, "width {n}: {worst:e}");
    }
}

#[test]
fn inverse_undoes_the_key() {
    for n in WIDTHS {
        let key = key(n, 2);
        let original: Vec<f64> = (0..n).map(|at| (at as f64 * 0.7).sin()).collect();
        let mut x = original.clone();
        key.apply(&mut x);
        key.apply_inverse(&mut x);
        assert!(
            x.iter().zip(&original).all(|(x, original)| (x - original).abs() < 1e-13),
            "width {n}"
        );
    }
}

/// One round by the definition: the matrix of a signed permutation, then Hadamard entries `(-1)^popcount(i & j)`.
#[test]
fn key_equals_the_product_of_its_dense_rounds() {
    for n in [1, 2, 3, 6, 8, 13] {
        let key = key(n, 3);
        let power = 1usize << n.ilog2();
        let mix = |x: &mut [f64]| {
            let before = x.to_vec();
            for (i, x) in x.iter_mut().enumerate() {
                let sign =
                    |j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
                *x = before.iter().enumerate().map(|(j, y)| sign(j) * y).sum::<f64>()
                    / (power as f64).sqrt();
            }
        };
        let original: Vec<f64> = (0..n).map(|at| 1.0 / (at as f64 + 1.5)).collect();
        let mut oracle = original.clone();
        for places in key.places.chunks_exact(n) {
            let sign = |place: u32| if place & NEGATE == 0 { 1.0 } else { -1.0 };
            oracle = places
                .iter()
                .map(|&place| sign(place) * oracle[(place & COORDINATE) as usize])
                .collect();
            mix(&mut oracle[..power]);
            if power < n {
                for (x, place) in oracle.iter_mut().zip(places) {
                    *x *= if place & FLIP == 0 { 1.0 } else { -1.0 };
                }
                mix(&mut oracle[n - power..]);
            }
        }
        let mut x = original;
        key.apply(&mut x);
        assert!(x.iter().zip(&oracle).all(|(x, oracle)| (x - oracle).abs() < 1e-14), "width {n}");
    }
}

#[test]
fn no_axis_and_not_the_diagonal_is_nearly_fixed() {
    for n in WIDTHS.into_iter().filter(|&n| n > 1) {
        for seed in 0..8 {
            let key = key(n, seed);
            let mut ones = vec![1.0 / (n as f64).sqrt(); n];
            key.apply(&mut ones);
            let along_ones = ones.iter().sum::<f64>().abs() / (n as f64).sqrt();
            let columns = columns(&key);
            let along_axis = (0..n).map(|at| columns[at * n + at].abs()).fold(0.0, f64::max);
            // A few small keys do nearly fix something, as a few Haar matrices do; wide ones must not come near.
            let limit = if n < 8 { 1.0 - 1e-9 } else { 0.8 };
            assert!(along_ones < limit, "width {n}, seed {seed}: diagonal {along_ones}");
            assert!(along_axis < limit, "width {n}, seed {seed}: axis {along_axis}");
        }
    }
}

/// A coordinate of a Haar image of a unit vector is about `1/sqrt(n)`; six times that is beyond chance for the
/// `n^2` coordinates looked at, were they Gaussian.
#[test]
fn energy_of_every_axis_spreads_over_all_coordinates() {
    for n in WIDTHS.into_iter().filter(|&n| n > 8) {
        for seed in 0..4 {
            let worst =
                columns(&key(n, seed)).iter().fold(0.0f64, |worst, entry| worst.max(entry.abs()));
            assert!(worst < 6.0 / (n as f64).sqrt(), "width {n}, seed {seed}: {worst}");
        }
    }
}

#[test]
fn coordinates_of_every_width_leave_the_sign_bits_free() {
    assert_eq!(coordinates(0), Some(0));
    let widest = COORDINATE as usize;
    let last = coordinates(widest).unwrap() - 1;
    assert_eq!(last & (NEGATE | FLIP), 0);
    for wide in [1 << 30, (1 << 30) + 1, 1 << 31, 1 << 32] {
        assert_eq!(coordinates(wide), None, "{wide}");
    }
}

#[test]
#[should_panic(expected = "a width below 2^30")]
fn a_width_that_reaches_the_sign_bits_is_refused() {
    // Refused before anything is allocated.
    key(1 << 30, 1);
}

#[test]
fn debug_shows_nothing_of_the_key() {
    assert_eq!(format!("{:?}", key(3, 1)), "StructuredKey(width 3, redacted)");
}
