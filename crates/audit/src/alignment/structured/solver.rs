//! Keys of a few rounds at a power of two, and solving for them.

use anyhow::Result;
use rand_core::Rng;
use shard_geometry::{StructuredKey, hadamard};

use crate::alignment::estimators::{CUTOFF, Factors, Pairs, matrix};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{below, sample};

/// Projections onto both conditions.
const ALTERNATIONS: usize = 400;

/// Rounds of the key in use.
pub(super) const ROUNDS: usize = 3;

/// Rotates rows by a fresh key of so many rounds; the key in use has three.
pub(super) fn rotated(residuals: &Matrix, rounds: usize, rng: &mut impl Rng) -> Matrix {
    let mut rows = residuals.clone();
    let width = rows.width();
    if rounds == ROUNDS {
        StructuredKey::sample(width, rng).apply_many(rows.values_mut());
        return rows;
    }
    for _ in 0..rounds {
        let order = sample(width, width, rng);
        let signs: Vec<f64> = (0..width).map(|_| [1.0, -1.0][below(2, rng)]).collect();
        for row in rows.values_mut().chunks_exact_mut(width) {
            let mut moved: Vec<f64> =
                order.iter().zip(&signs).map(|(&at, s)| s * row[at]).collect();
            hadamard(&mut moved);
            row.copy_from_slice(&moved);
        }
    }
    rows
}

/// Solves for `A` from pairs, knowing the number of rounds; rows of the result estimate residuals
/// of `rows`.
///
/// # Errors
/// When a decomposition does not converge.
///
/// # Panics
/// When the width is no power of two.
pub fn solve(pairs: &Pairs, rows: &Matrix, rounds: usize) -> Result<Matrix> {
    let width = rows.width();
    assert!(width.is_power_of_two(), "a transform of a power of two");
    let undone = |of: &Matrix| {
        let mut out = of.clone();
        out.values_mut().chunks_exact_mut(width).for_each(hadamard);
        out
    };
    let known = Pairs { residuals: pairs.residuals.clone(), rows: undone(&pairs.rows) };
    let key = if rounds == 1 { signed_permutation(&known) } else { entries(&known, rounds)? };
    // r = A^T F z, as rows.
    Ok(undone(rows).times(&key))
}

/// The signed permutation that fits best: to every coordinate of the rows, the one of the
/// residuals that it is nearest to, up to sign.
fn signed_permutation(pairs: &Pairs) -> Matrix {
    let width = pairs.rows.width();
    let column = |of: &Matrix, at: usize| -> Vec<f64> { of.iter().map(|row| row[at]).collect() };
    let natives: Vec<Vec<f64>> = (0..width).map(|at| column(&pairs.residuals, at)).collect();
    let mut key = Matrix::zeros(width, width);
    for to in 0..width {
        let stored = column(&pairs.rows, to);
        let off = |from: usize, sign: f64| -> f64 {
            stored.iter().zip(&natives[from]).map(|(z, r)| (z - sign * r).powi(2)).sum()
        };
        let candidates = (0..width).flat_map(|from| [(from, 1.0), (from, -1.0)]);
        let best = candidates.min_by(|&(a, s), &(b, t)| off(a, s).total_cmp(&off(b, t)));
        let (from, sign) = best.expect("a coordinate");
        key.row_mut(to)[from] = sign;
    }
    key
}

/// Alternates between the matrices that agree with the pairs and those with possible entries.
fn entries(pairs: &Pairs, rounds: usize) -> Result<Matrix> {
    let width = pairs.rows.width();
    // With R = U diag(s) B^T the pairs fix A B = Y^T U diag(s)^-1, and nothing else of A.
    let factors = Factors::of(pairs.residuals.as_faer(), CUTOFF)?;
    let mut fixed = pairs.rows.as_faer().transpose() * &factors.u;
    for (at, s) in factors.s.iter().enumerate() {
        fixed.col_mut(at).iter_mut().for_each(|x| *x /= s);
    }
    let (fixed, basis) = (matrix(fixed.as_ref()), matrix(factors.v.as_ref()));
    let back = matrix(factors.v.transpose());
    let bound = 1.0 / (width as f64).sqrt();
    let step = 2.0 / width as f64;
    let possible = |x: f64| match rounds {
        2 => x.clamp(-bound, bound),
        _ => (x / step).round() * step,
    };
    let mut key = fixed.times(&back);
    for _ in 0..ALTERNATIONS {
        let mut moved = key.clone();
        moved.values_mut().iter_mut().for_each(|x| *x = possible(*x));
        let mut off = fixed.clone();
        let reached = moved.times(&basis);
        off.values_mut().iter_mut().zip(reached.values()).for_each(|(f, r)| *f -= r);
        let correction = off.times(&back);
        moved.values_mut().iter_mut().zip(correction.values()).for_each(|(x, c)| *x += c);
        let change = moved.values().iter().zip(key.values()).map(|(a, b)| (a - b).abs());
        let settled = change.fold(0.0, f64::max) < 1e-12;
        key = moved;
        if settled {
            break;
        }
    }
    // End on a possible matrix: close enough to the right one, it is the right one.
    let nearest = |x: f64| if rounds == 2 { bound.copysign(x) } else { possible(x) };
    key.values_mut().iter_mut().for_each(|x| *x = nearest(*x));
    Ok(key)
}
