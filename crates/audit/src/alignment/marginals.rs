//! Columns told by how their numbers are distributed.
//!
//! A permutation of coordinates, with any signs, leaves the distribution of each as it is. The attacker
//! describes every column of stored rows and of native vectors by quantiles, gives each stored column
//! the native one nearest to it or to its negative, the surest first, and reads rows in that order.

use crate::tools::matrix::Matrix;
use crate::tools::statistics::quantile;

/// Quantiles that describe a column.
const LEVELS: usize = 65;

/// Quantiles of every column.
fn described(rows: &Matrix) -> Vec<Vec<f64>> {
    let column = |at: usize| {
        let mut values: Vec<f64> = rows.iter().map(|row| row[at]).collect();
        values.sort_unstable_by(f64::total_cmp);
        (0..LEVELS).map(|level| quantile(&values, level as f64 / (LEVELS - 1) as f64)).collect()
    };
    (0..rows.width()).map(column).collect()
}

/// Rows with their columns put in the order and with the signs of the native ones that they look like;
/// columns that none is left for are zero.
pub fn in_native_order(rows: &Matrix, natives: &Matrix) -> Matrix {
    let (stored, native) = (described(rows), described(natives));
    let distance = |a: &[f64], b: &mut dyn Iterator<Item = f64>| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
    };
    let mut pairs = Vec::with_capacity(stored.len() * native.len());
    for (from, own) in stored.iter().enumerate() {
        for (to, other) in native.iter().enumerate() {
            // Quantiles of the negative are the negatives from the other end.
            let plain = distance(own, &mut other.iter().copied());
            let negated = distance(own, &mut other.iter().rev().map(|x| -x));
            let sign = if plain <= negated { 1.0 } else { -1.0 };
            pairs.push((plain.min(negated), from, to, sign));
        }
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut used, mut source) = (vec![false; stored.len()], vec![None; native.len()]);
    for (_, from, to, sign) in pairs {
        if !used[from] && source[to].is_none() {
            (used[from], source[to]) = (true, Some((from, sign)));
        }
    }
    let read = |row: &[f64]| -> Vec<f64> {
        source.iter().map(|it| it.map_or(0.0, |(from, sign)| sign * row[from])).collect()
    };
    Matrix::new(native.len(), rows.iter().flat_map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::matrix::normal;

    #[test]
    fn a_signed_permutation_is_undone_from_other_documents() {
        // Columns of different shapes: skewed, and of different size.
        let shaped = |seed| {
            let mut rows = normal(2_000, 8, seed);
            for row in 0..rows.rows() {
                for (at, x) in rows.row_mut(row).iter_mut().enumerate() {
                    *x = (1.0 + at as f64) * *x + 0.5 * *x * *x;
                }
            }
            rows
        };
        let (natives, others) = (shaped(1), shaped(2));
        let order = [3, 0, 7, 5, 1, 6, 2, 4];
        let stored = natives
            .iter()
            .flat_map(|row| order.map(|at| if at % 2 == 0 { -row[at] } else { row[at] }));
        let stored = Matrix::new(8, stored.collect());
        assert_eq!(in_native_order(&stored, &others), natives);
    }
}
