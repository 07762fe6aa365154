//! Linking released rows to a native gallery: vectors that the attacker has of the same documents.
//!
//! Two attacks, neither of which knows a key. *Direct*: the gallery row of the largest cosine, which
//! works where a release keeps the native coordinates (raw, Gaussian noise). *Norm*: keys keep lengths,
//! so the attacker, who knows the public design, fits the principal axes of the gallery's collection
//! and looks for the row whose kept coordinates are as long as the released row.

use std::ops::Range;

use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, nearest};
use crate::tools::statistics::mean;

/// For each released row the gallery row of the largest cosine.
///
/// # Panics
/// When the widths differ or the gallery is empty.
pub fn link_directly(released: &Matrix, gallery: &Matrix) -> Vec<usize> {
    best(nearest(released, gallery, 1, Metric::Cosine))
}

/// For each released row the gallery row whose principal coordinates `kept` have the nearest norm.
/// Rows may be stored in fixed point, that is longer by a power of two, which the means of the norms
/// show.
///
/// # Panics
/// When no coordinate is kept or the gallery is empty.
pub fn link_by_norm(released: &Matrix, coordinates: &Matrix, kept: Range<usize>) -> Vec<usize> {
    let (mut lengths, gallery) = (released.norms(), coordinates.columns(kept).norms());
    let ratio = mean(&lengths) / mean(&gallery);
    if ratio > 0.0 && ratio.is_finite() {
        let unit = 2_f64.powi(ratio.log2().round() as i32);
        lengths.iter_mut().for_each(|length| *length /= unit);
    }
    best(nearest(&Matrix::new(1, lengths), &Matrix::new(1, gallery), 1, Metric::Distance))
}

fn best(found: Vec<Vec<u32>>) -> Vec<usize> {
    found.iter().map(|rows| rows[0] as usize).collect()
}

/// The judge: one for every guess that is right, zero for the others.
///
/// # Panics
/// When there is not a target for each guess.
pub fn right(guesses: &[usize], targets: &[usize]) -> Vec<f64> {
    assert_eq!(guesses.len(), targets.len(), "a target for each guess");
    guesses.iter().zip(targets).map(|(guess, target)| f64::from(guess == target)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::sample::mixture;
    use crate::subject::{KeyFamily, protect};
    use crate::tools::statistics::generator;

    fn gallery() -> Matrix {
        Matrix::from_vectors(&mixture(200, 12, 1))
    }

    #[test]
    fn native_rows_are_linked_directly_and_keyed_rows_by_their_norm() {
        let (gallery, targets): (Matrix, Vec<usize>) = (gallery(), (0..200).collect());
        assert_eq!(mean(&right(&link_directly(&gallery, &gallery), &targets)), 1.0);
        let residuals = gallery.columns(3..12);
        let cells: Vec<u32> = (0..200).map(|row| row % 5).collect();
        let keyed = protect(&residuals, &cells, KeyFamily::Orthogonal, &mut generator(1, 0));
        let found = right(&link_by_norm(&keyed.rows, &gallery, 3..12), &targets);
        assert!(mean(&found) > 0.95, "{}", mean(&found));
        let fixed_point = keyed.rows.values().iter().map(|x| (x * 1_048_576.0).round()).collect();
        let fixed_point = link_by_norm(&Matrix::new(9, fixed_point), &gallery, 3..12);
        assert!(mean(&right(&fixed_point, &targets)) > 0.95);
        assert!(mean(&right(&link_directly(&keyed.rows, &residuals), &targets)) < 0.05);
    }

    #[test]
    fn rows_of_other_documents_are_linked_by_chance() {
        let (gallery, targets): (Matrix, Vec<usize>) = (gallery(), (0..200).collect());
        let others = Matrix::from_vectors(&mixture(200, 12, 2));
        // Centres are shared, so chance is one in the 25 rows around a centre at worst.
        assert!(mean(&right(&link_directly(&others, &gallery), &targets)) < 0.12);
        assert!(mean(&right(&link_by_norm(&others, &gallery, 0..6), &targets)) < 0.05);
    }
}
