//! Everything that known pairs determine of a stored row, and matching by nothing else.
//!
//! Let `S` be the span of the anchors `r_1 .. r_m` of a cell with key `H`. Keys that agree with
//! the pairs differ by an orthogonal map of the complement of `S`; what is the same under all of
//! them is `P_S r` and `|r|`, and nothing else. The attacker reads both off the row exactly:
//! `<z, z_j> = <r, r_j>` gives `P_S r`, and `|z| = |r|`. So no matcher that looks at one row and
//! the pairs can do better than to compare
//!
//! `phi(r) = (P_S r, |r - P_S r|)`
//!
//! of the row with that of every candidate. [`Matcher::Gram`] does, by distance.
//! [`Matcher::Span`] compares `P_S r` alone by cosine, and needs no scale. Both differ from the
//! usual comparison of the estimate `P_S r` with whole candidates, where the part of a
//! candidate that no pair determines dilutes its score.
//!
//! With `R = U diag(s) B^T`, coordinates in `S` are `B^T r` of a candidate, and
//! `diag(s)^-1 U^T (Z z)` of a stored row.

use anyhow::Result;

use super::estimators::{CUTOFF, Factors, Pairs, matrix};
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, places_allowed};

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Matcher {
    /// `P_S r`, by cosine.
    Span,
    /// `(P_S r, |r - P_S r|)`, by distance.
    Gram,
}

/// The span of some pairs, seen from both sides.
#[derive(Clone, Debug)]
pub struct Span {
    native: Matrix,
    stored: Matrix,
}

impl Span {
    /// The span of the pairs. Stored rows are on the scale of the residuals.
    ///
    /// # Errors
    /// When a singular value decomposition does not converge.
    pub fn of(pairs: &Pairs) -> Result<Self> {
        let factors = Factors::of(pairs.residuals.as_faer(), CUTOFF)?;
        let mut stored = pairs.rows.as_faer().transpose() * &factors.u;
        for (at, s) in factors.s.iter().enumerate() {
            stored.col_mut(at).iter_mut().for_each(|x| *x /= s);
        }
        Ok(Self { native: matrix(factors.v.as_ref()), stored: matrix(stored.as_ref()) })
    }

    /// What the matcher compares, of stored rows.
    pub fn of_rows(&self, rows: &Matrix, matcher: Matcher) -> Matrix {
        features(rows, &self.stored, matcher)
    }

    /// What the matcher compares, of residuals.
    pub fn of_residuals(&self, residuals: &Matrix, matcher: Matcher) -> Matrix {
        features(residuals, &self.native, matcher)
    }

    /// The place of `targets[i]` of the gallery among the candidates for stored row `i`, which are the
    /// rows that `allowed(i, row)` leaves.
    pub fn places(
        &self,
        rows: &Matrix,
        gallery: &Matrix,
        targets: &[usize],
        matcher: Matcher,
        allowed: impl Fn(usize, usize) -> bool + Sync,
    ) -> Vec<f64> {
        let metric = match matcher {
            Matcher::Span => Metric::Cosine,
            Matcher::Gram => Metric::Distance,
        };
        let (rows, gallery) = (self.of_rows(rows, matcher), self.of_residuals(gallery, matcher));
        places_allowed(&rows, &gallery, targets, metric, allowed)
    }
}

/// Coordinates of `vectors` in `basis`, and with [`Matcher::Gram`] the norm of what is left.
fn features(vectors: &Matrix, basis: &Matrix, matcher: Matcher) -> Matrix {
    let inside = vectors.times(basis);
    if matcher == Matcher::Span {
        return inside;
    }
    let square = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>();
    let rows = vectors.iter().zip(inside.iter()).flat_map(|(whole, inside)| {
        let rest = (square(whole) - square(inside)).max(0.0).sqrt();
        inside.iter().copied().chain([rest])
    });
    Matrix::new(inside.width() + 1, rows.collect())
}

/// [`Span::places`] by norm alone, which needs no pairs.
pub fn places_by_norm(
    rows: &Matrix,
    gallery: &Matrix,
    targets: &[usize],
    allowed: impl Fn(usize, usize) -> bool + Sync,
) -> Vec<f64> {
    let column = |of: &Matrix| Matrix::new(1, of.norms());
    places_allowed(&column(rows), &column(gallery), targets, Metric::Distance, allowed)
}

/// How far a ratio may be off a power of two and be taken for it.
const SNAP: f64 = 1e-3;

/// The factor between stored rows and residuals that a ratio of their norms tells: rows in fixed
/// point are kept as `round(2^k z)`, so a power of two where the ratio is within a thousandth of
/// one; else the ratio itself, and one where there is none.
pub fn scale_of(stored: f64, native: f64) -> f64 {
    let ratio = stored / native;
    if !(ratio.is_finite() && ratio > 0.0) {
        return 1.0;
    }
    let power = ratio.log2().round().exp2();
    if (ratio / power - 1.0).abs() <= SNAP { power } else { ratio }
}

/// [`scale_of`] by median norms of stored rows and of a reference: it takes no pair.
pub fn scale_by_medians(rows: &Matrix, reference: &Matrix) -> f64 {
    let median = |of: &Matrix| {
        let mut norms = of.norms();
        norms.sort_unstable_by(f64::total_cmp);
        norms.get(norms.len() / 2).copied().unwrap_or(0.0)
    };
    scale_of(median(rows), median(reference))
}

/// [`scale_of`] by known pairs, `|Z| / |R|`.
pub fn scale_by_pairs(rows: &Matrix, residuals: &Matrix, pairs: &[usize]) -> f64 {
    let norm = |of: &Matrix| {
        let rows = pairs.iter().flat_map(|&pair| of.row(pair));
        rows.map(|x| x * x).sum::<f64>().sqrt()
    };
    scale_of(norm(rows), norm(residuals))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::matrix::normal;
    use crate::tools::statistics::{generator, mean};
    use shard_geometry::OrthogonalKey;

    /// The share of the first hundred rows that are placed first, with pairs of the last ones.
    fn recall(rows: &Matrix, residuals: &Matrix, pairs: usize, matcher: Matcher) -> f64 {
        let shown: Vec<usize> = (residuals.rows() - pairs..residuals.rows()).collect();
        let span = Span::of(&Pairs::of(residuals, rows, &shown)).expect("a span");
        let targets: Vec<usize> = (0..100).collect();
        let places = span.places(&rows.select(&targets), residuals, &targets, matcher, |_, _| true);
        mean(&places.iter().map(|&place| f64::from(place == 0.0)).collect::<Vec<_>>())
    }

    fn rotated(residuals: &Matrix) -> Matrix {
        let mut rows = residuals.clone();
        let key = OrthogonalKey::sample(rows.width(), &mut generator(2, 0));
        key.apply_many(rows.values_mut());
        rows
    }

    #[test]
    fn a_row_and_its_residual_have_the_same_features() {
        let residuals = normal(30, 12, 1);
        let rows = rotated(&residuals);
        for pairs in [1, 5, 12, 20] {
            let shown: Vec<usize> = (0..pairs).collect();
            let span = Span::of(&Pairs::of(&residuals, &rows, &shown)).expect("a span");
            for matcher in [Matcher::Span, Matcher::Gram] {
                let (z, r) = (span.of_rows(&rows, matcher), span.of_residuals(&residuals, matcher));
                let off = z.values().iter().zip(r.values()).map(|(z, r)| (z - r).abs());
                // The norm of what is left is the root of a difference: half the digits.
                assert!(off.fold(0.0, f64::max) < 1e-6, "{matcher:?} at {pairs}");
            }
        }
    }

    #[test]
    fn one_pair_places_rows_by_products_and_norms_and_two_by_the_angle_in_their_span() {
        let residuals = normal(600, 40, 1);
        let rows = rotated(&residuals);
        assert!(recall(&rows, &residuals, 1, Matcher::Gram) > 0.99);
        assert!(recall(&rows, &residuals, 2, Matcher::Span) > 0.99);
        // On a line all angles are the same.
        assert!(recall(&rows, &residuals, 1, Matcher::Span) < 0.05);
    }

    #[test]
    fn rows_of_other_vectors_are_placed_by_chance() {
        let (residuals, rows) = (normal(600, 40, 1), normal(600, 40, 2));
        for pairs in [1, 8, 64] {
            for matcher in [Matcher::Span, Matcher::Gram] {
                assert!(recall(&rows, &residuals, pairs, matcher) < 0.05, "{matcher:?}");
            }
        }
    }

    #[test]
    fn the_scale_is_a_power_of_two_in_fixed_point_and_any_other_where_it_is_none() {
        let residuals = normal(50, 8, 1);
        for (scale, exact) in [(4_096.0, 0.0), (3_000.0, 1e-3), (0.7, 0.0)] {
            let mut rows = rotated(&residuals);
            rows.values_mut().iter_mut().for_each(|x| *x *= scale);
            if scale > 1.0 {
                rows.values_mut().iter_mut().for_each(|x| *x = x.round());
            }
            let pairs = scale_by_pairs(&rows, &residuals, &[3, 7]);
            for found in [scale_by_medians(&rows, &residuals), pairs] {
                assert!((found / scale - 1.0).abs() <= exact + 1e-9, "{found} for {scale}");
            }
        }
        assert_eq!(scale_by_medians(&Matrix::zeros(3, 2), &residuals), 1.0);
        assert_eq!(scale_by_pairs(&residuals, &residuals, &[]), 1.0);
    }
}
