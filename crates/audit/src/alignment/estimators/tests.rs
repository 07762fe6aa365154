use shard_geometry::OrthogonalKey;
use shard_geometry::gaussian::Normals;

use super::*;
use crate::tools::statistics::generator;

/// `m` pairs of normal residuals of rank at most `rank` under a Haar key, the key, and a new
/// residual with its row.
fn planted(m: usize, width: usize, rank: usize, seed: u64) -> (Pairs, OrthogonalKey, Pairs) {
    let rng = &mut generator(seed, 0);
    let mut residuals = Matrix::normal(m + 5, width, rng);
    for row in 0..m + 5 {
        residuals.row_mut(row)[rank..].fill(0.0);
    }
    let key = OrthogonalKey::sample(width, rng);
    let mut rows = residuals.clone();
    key.apply_many(rows.values_mut());
    let shown: Vec<usize> = (0..m).collect();
    let new: Vec<usize> = (m..m + 5).collect();
    (Pairs::of(&residuals, &rows, &shown), key, Pairs::of(&residuals, &rows, &new))
}

fn distance(a: &Matrix, b: &Matrix) -> f64 {
    let off = a.values().iter().zip(b.values()).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    (off / b.values().iter().map(|x| x * x).sum::<f64>()).sqrt()
}

/// `P_S x` by Gram-Schmidt over the rows that span `S`.
fn projected(onto: &Matrix, vectors: &Matrix) -> Matrix {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for row in onto.iter() {
        let mut rest = row.to_vec();
        for _ in 0..2 {
            for b in &basis {
                let along = dot(&rest, b);
                rest.iter_mut().zip(b).for_each(|(x, b)| *x -= along * b);
            }
        }
        let norm = dot(&rest, &rest).sqrt();
        if norm > 1e-9 {
            basis.push(rest.into_iter().map(|x| x / norm).collect());
        }
    }
    let mut out = Matrix::zeros(vectors.rows(), vectors.width());
    for (at, vector) in vectors.iter().enumerate() {
        for b in &basis {
            let along = dot(vector, b);
            out.row_mut(at).iter_mut().zip(b).for_each(|(x, b)| *x += along * b);
        }
    }
    out
}

#[test]
fn least_squares_recovers_the_projection_onto_the_anchors_span() {
    for (m, rank) in [(1, 20), (7, 20), (19, 20), (7, 4), (30, 15)] {
        let (pairs, _, new) = planted(m, 20, rank, 11);
        let expected = projected(&pairs.residuals, &new.residuals);
        for estimator in
            [Estimator::LeastSquares, Estimator::Ridge(0.0), Estimator::ProcrustesDropped]
        {
            let map = estimator.fit(&pairs).expect("a map");
            assert_eq!(map.rank(), m.min(rank), "{estimator:?}");
            let off = distance(&map.apply(&new.rows), &expected);
            assert!(off < 1e-9, "{estimator:?}, {m} pairs of rank {rank}: {off}");
        }
    }
}

#[test]
fn the_least_squares_map_is_the_key_on_the_span_and_zero_elsewhere() {
    let (pairs, key, _) = planted(6, 16, 16, 3);
    let identity = Matrix::new(16, (0..256).map(|at| f64::from(at % 17 == 0)).collect());
    let map = Estimator::LeastSquares.fit(&pairs).expect("a map").apply(&identity);
    // Rows of H P_S are P_S applied to rows of H.
    let keyed = Matrix::new(16, key.dense());
    let expected = projected(&pairs.residuals, &keyed);
    assert!(distance(&map, &expected) < 1e-9);
}

#[test]
fn full_rank_recovers_everything_with_every_estimator() {
    let (pairs, _, new) = planted(24, 24, 24, 5);
    for estimator in Estimator::ALL {
        let off = distance(&estimator.fit(&pairs).expect("a map").apply(&new.rows), &new.residuals);
        assert!(off < 1e-4, "{estimator:?}: {off}");
    }
}

#[test]
fn a_completed_map_is_orthogonal_and_agrees_with_the_pairs() {
    for m in [1, 5, 15] {
        let (pairs, _, new) = planted(m, 16, 16, 7);
        for estimator in [Estimator::Procrustes, Estimator::Polar] {
            let map = estimator.fit(&pairs).expect("a map");
            assert!(distance(&map.apply(&pairs.rows), &pairs.residuals) < 1e-9);
            let (before, after) = (new.rows.norms(), map.apply(&new.rows).norms());
            for (before, after) in before.iter().zip(after) {
                assert!((before - after).abs() < 1e-9 * before, "{estimator:?} at {m}");
            }
        }
    }
}

#[test]
fn a_key_that_does_nothing_is_recovered_as_such() {
    let (mut pairs, _, new) = planted(3, 8, 8, 2);
    pairs.rows = pairs.residuals.clone();
    let map = Estimator::Procrustes.fit(&pairs).expect("a map");
    assert!(distance(&map.apply(&new.residuals), &new.residuals) < 1e-9);
}

#[test]
fn ridge_solves_the_penalised_normal_equations() {
    let (pairs, _, new) = planted(9, 6, 6, 13);
    let penalty = 0.7;
    let map = Estimator::Ridge(penalty).fit(&pairs).expect("a map");
    let weights = map.apply(&Matrix::new(6, (0..36).map(|at| f64::from(at % 7 == 0)).collect()));
    // (Z^T Z + a I) W = Z^T R
    let z = pairs.rows.as_faer();
    let left = z.transpose() * z * weights.as_faer() + faer::Scale(penalty) * weights.as_faer();
    let right = z.transpose() * pairs.residuals.as_faer();
    assert!((left - right).norm_max() < 1e-9);
    assert!(distance(&map.apply(&new.rows), &new.residuals) > 1e-3);
}

#[test]
fn validation_takes_no_penalty_for_exact_rows_and_one_for_noisy_rows() {
    let (mut pairs, _, _) = planted(40, 12, 12, 17);
    let chosen = |pairs: &Pairs| {
        let factors = Factors::of(pairs.rows.as_faer(), CUTOFF).expect("factors");
        validated_penalty(&factors, &pairs.residuals) / (factors.s[0] * factors.s[0])
    };
    assert!(chosen(&pairs) < 1e-8);
    let noise = Matrix::normal(40, 12, &mut generator(18, 0));
    pairs.rows.values_mut().iter_mut().zip(noise.values()).for_each(|(z, n)| *z += 3.0 * n);
    assert!(chosen(&pairs) > 1e-3);
}

#[test]
fn leaving_one_out_in_closed_form_is_leaving_one_out() {
    let (pairs, _, _) = planted(9, 6, 6, 23);
    let mut noisy = pairs.clone();
    Normals::new(&mut generator(24, 0)).fill(noisy.rows.values_mut());
    let factors = Factors::of(noisy.rows.as_faer(), CUTOFF).expect("factors");
    let slow = |penalty: f64| -> f64 {
        let errors = (0..9).map(|out| {
            let rest: Vec<usize> = (0..9).filter(|&row| row != out).collect();
            let kept = Pairs::of(&noisy.residuals, &noisy.rows, &rest);
            let map = Estimator::Ridge(penalty).fit(&kept).expect("a map");
            let (guess, truth) =
                (map.apply(&noisy.rows.select(&[out])), noisy.residuals.select(&[out]));
            guess.values().iter().zip(truth.values()).map(|(a, b)| (a - b) * (a - b)).sum::<f64>()
        });
        errors.sum()
    };
    let largest = factors.s[0] * factors.s[0];
    let best = PENALTIES.map(|share| (share * largest, slow(share * largest)));
    let best = best.iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("penalties").0;
    assert_eq!(validated_penalty(&factors, &noisy.residuals), best);
}

#[test]
fn pairs_that_are_all_zero_map_to_nothing() {
    let pairs = Pairs { residuals: Matrix::zeros(2, 5), rows: Matrix::zeros(2, 5) };
    for estimator in [Estimator::LeastSquares, Estimator::RidgeValidated, Estimator::Polar] {
        let map = estimator.fit(&pairs).expect("a map");
        assert_eq!(map.rank(), 0, "{estimator:?}");
    }
}
