//! What an observer makes of the rows of one cell: estimates of whole vectors.
//!
//! The observer is the paper's strengthened one: beside what the server has of the cell, it is
//! granted the basis `V` and the mean `mu`, so that only the cell's key `H` is between it and the
//! residuals `r = H^-1 z`. In the coordinates `V^T (x - mu) = [u | r]` it estimates:
//! - prefix only: `[u | 0]`;
//! - unknown key: `[u | z]`, as if the key were the identity;
//! - minimum-norm least squares with `m` known pairs: `[u | z Z^+ R]`;
//! - Procrustes with `m`: `[u | z A B^T]` from `Z^T R = A S B^T`. With fewer pairs than coordinates
//!   the directions without a singular value are completed at will, as in the paper, or dropped.
//!
//! A server that holds no prefixes leaves `u` out; the mean prefix of the known pairs, which are of
//! the same cell, then stands for it, and is a baseline on its own: `[mean u | 0]`. Stored rows may be scaled: with pairs the scale is
//! `|R| / |Z|`, without them it makes the rows as long as residuals of the observer's own corpus.

use crate::alignment::estimators::{Estimator, Pairs};
use crate::tools::matrix::Matrix;

/// A way to estimate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attack {
    /// The prefix, and nothing for the residual.
    PrefixOnly,
    /// The stored row taken for the residual.
    UnknownKey,
    /// Minimum-norm least squares with so many known pairs.
    LeastSquares(usize),
    /// Procrustes with so many, completed at will.
    Procrustes(usize),
    /// Procrustes with so many, the completion dropped.
    ProcrustesSpan(usize),
}

impl Attack {
    /// The attacks of the paper's grid.
    pub fn grid() -> Vec<Self> {
        const PAIRS: [usize; 4] = [8, 16, 32, MOST_PAIRS];
        let mut grid = vec![Self::PrefixOnly, Self::UnknownKey];
        for with in [Self::LeastSquares, Self::Procrustes, Self::ProcrustesSpan] {
            grid.extend(PAIRS.map(with));
        }
        grid
    }

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::PrefixOnly => "prefix-only",
            Self::UnknownKey => "unknown-key",
            Self::LeastSquares(_) => "ols",
            Self::Procrustes(_) => "procrustes",
            Self::ProcrustesSpan(_) => "procrustes-span",
        }
    }

    /// Known pairs it is granted.
    pub fn pairs(self) -> usize {
        match self {
            Self::PrefixOnly | Self::UnknownKey => 0,
            Self::LeastSquares(m) | Self::Procrustes(m) | Self::ProcrustesSpan(m) => m,
        }
    }
}

/// Most known pairs of an attack in the grid.
pub const MOST_PAIRS: usize = 64;

/// How many of a cell's rows to attack: at most 128, and so many that the most known pairs are
/// left, or half where that would leave fewer than the paper's 12 targets.
pub fn targets_of(members: usize) -> usize {
    const TARGETS: std::ops::RangeInclusive<usize> = 12..=128;
    let spare = members.saturating_sub(MOST_PAIRS);
    if spare >= *TARGETS.start() { spare.min(*TARGETS.end()) } else { members.div_ceil(2) }
}

/// What an observer has of the rows of one cell.
#[derive(Clone, Debug)]
pub struct CellView {
    /// Stored rows under attack.
    pub stored: Matrix,
    /// Their prefixes, where the server holds them.
    pub prefixes: Option<Matrix>,
    /// Known pairs: stored rows, and the coordinates `[u | r]` of each.
    pub known: Option<(Matrix, Matrix)>,
    /// Coordinates of a prefix.
    pub prefix_width: usize,
    /// Coordinates in all.
    pub width: usize,
    /// The usual norm of a residual, from the observer's own corpus.
    pub residual_norm: f64,
}

impl CellView {
    /// Coordinates of every row under attack, or `None` when the attack needs a prefix or pairs
    /// that are not there.
    ///
    /// # Panics
    /// When rows are not finite.
    pub fn estimate(&self, attack: Attack) -> Option<Matrix> {
        let known = match attack.pairs() {
            0 => None,
            m => Some(self.first_pairs(m)?),
        };
        let residuals = match (attack, &known) {
            (Attack::PrefixOnly, _) => {
                self.prefixes.as_ref()?;
                None
            }
            (Attack::LeastSquares(_), Some(known)) => {
                Some(self.rotated(Estimator::LeastSquares, known))
            }
            (Attack::Procrustes(_), Some(known)) => {
                Some(self.rotated(Estimator::Procrustes, known))
            }
            (Attack::ProcrustesSpan(_), Some(known)) => {
                Some(self.rotated(Estimator::ProcrustesDropped, known))
            }
            _ => Some(scaled(&self.stored, self.residual_norm / mean_norm(&self.stored))),
        };
        Some(self.assemble(residuals, known.map(|(_, coordinates)| coordinates)))
    }

    /// What pairs tell before anything is done about the key: the mean prefix of all of them, and
    /// nothing for the residual. `None` where the server holds prefixes, or there is no pair.
    pub fn cell_mean(&self) -> Option<Matrix> {
        let (_, coordinates) = self.known.as_ref().filter(|_| self.prefixes.is_none())?;
        Some(self.assemble(None, Some(coordinates.clone())))
    }

    fn first_pairs(&self, count: usize) -> Option<(Matrix, Matrix)> {
        let (stored, coordinates) = self.known.as_ref()?;
        let rows: Vec<usize> = (0..count).collect();
        (count <= stored.rows()).then(|| (stored.select(&rows), coordinates.select(&rows)))
    }

    /// Stored rows rotated by what an estimator learns from pairs at one scale.
    fn rotated(&self, estimator: Estimator, (stored, coordinates): &(Matrix, Matrix)) -> Matrix {
        let residuals = coordinates.columns(self.prefix_width..self.width);
        let scale = mean_norm(&residuals) / mean_norm(stored);
        let pairs = Pairs { residuals, rows: scaled(stored, scale) };
        let map = estimator.fit(&pairs).expect("finite rows have singular values");
        map.apply(&scaled(&self.stored, scale))
    }

    /// `[u | residual]`, cut or filled with zeros to the width of coordinates.
    fn assemble(&self, residuals: Option<Matrix>, known: Option<Matrix>) -> Matrix {
        let typical = known.map(|known| known.column_means());
        let mut out = Matrix::zeros(self.stored.rows(), self.width);
        for row in 0..out.rows() {
            let (prefix, residual) = out.row_mut(row).split_at_mut(self.prefix_width);
            match (&self.prefixes, &typical) {
                (Some(prefixes), _) => prefix.copy_from_slice(prefixes.row(row)),
                (None, Some(typical)) => prefix.copy_from_slice(&typical[..self.prefix_width]),
                (None, None) => {}
            }
            if let Some(residuals) = &residuals {
                residual.iter_mut().zip(residuals.row(row)).for_each(|(out, x)| *out = *x);
            }
        }
        out
    }
}

/// Coordinates with nothing for the residual.
pub fn without_residual(coordinates: &Matrix, prefix_width: usize) -> Matrix {
    let mut out = coordinates.clone();
    (0..out.rows()).for_each(|row| out.row_mut(row)[prefix_width..].fill(0.0));
    out
}

/// The root of the mean squared norm of rows.
pub fn mean_norm(rows: &Matrix) -> f64 {
    let squares: f64 = rows.values().iter().map(|x| x * x).sum();
    (squares / rows.rows() as f64).sqrt()
}

/// Every number times `scale`; rows of zeros, whose scale is unknown, stay.
fn scaled(rows: &Matrix, scale: f64) -> Matrix {
    let scale = if scale.is_finite() { scale } else { 1.0 };
    Matrix::new(rows.width(), rows.values().iter().map(|x| x * scale).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::KeyFamily;
    use crate::tools::statistics::generator;

    /// A cell of width 12 with a prefix of 4 whose rows the server holds at 1000 times the scale.
    fn cell(targets: usize, pairs: usize) -> (CellView, Matrix) {
        let mut rng = generator(3, 1);
        let coordinates = Matrix::normal(targets + pairs, 12, &mut rng);
        let mut stored = coordinates.columns(4..12);
        KeyFamily::Orthogonal.sample(8, &mut rng).apply_many(stored.values_mut());
        stored.values_mut().iter_mut().for_each(|x| *x *= 1000.0);
        let (attacked, known): (Vec<usize>, Vec<usize>) =
            ((0..targets).collect(), (targets..targets + pairs).collect());
        let truth = coordinates.select(&attacked);
        let view = CellView {
            stored: stored.select(&attacked),
            prefixes: Some(truth.columns(0..4)),
            known: (pairs > 0).then(|| (stored.select(&known), coordinates.select(&known))),
            prefix_width: 4,
            width: 12,
            residual_norm: 8_f64.sqrt(),
        };
        (view, truth)
    }

    fn error(estimate: &Matrix, truth: &Matrix) -> f64 {
        let squares = estimate.values().iter().zip(truth.values()).map(|(a, b)| (a - b).powi(2));
        squares.sum::<f64>() / truth.rows() as f64
    }

    #[test]
    fn enough_pairs_undo_the_key_whatever_the_scale() {
        let (view, truth) = cell(5, 16);
        for attack in [Attack::LeastSquares(16), Attack::Procrustes(16), Attack::ProcrustesSpan(8)]
        {
            let estimate = view.estimate(attack).expect("there are pairs");
            assert!(error(&estimate, &truth) < 1e-12, "{attack:?}");
        }
    }

    #[test]
    fn few_pairs_recover_the_part_in_their_span_and_no_more() {
        let (view, truth) = cell(200, 4);
        let error_of =
            |attack| error(&view.estimate(attack).expect("it has what it needs"), &truth);
        let (prefix, span) = (error_of(Attack::PrefixOnly), error_of(Attack::LeastSquares(4)));
        assert!((prefix - 8.0).abs() < 0.8, "{prefix}");
        assert!((span - prefix / 2.0).abs() < 0.8, "{span} of {prefix}");
        // A key that is not known adds to the error instead.
        let unknown = error_of(Attack::UnknownKey);
        assert!(unknown > 1.3 * prefix, "{unknown} of {prefix}");
    }

    #[test]
    fn targets_leave_room_for_pairs() {
        assert_eq!([1, 40, 75, 76, 100, 500].map(targets_of), [1, 20, 38, 12, 36, 128]);
    }

    #[test]
    fn an_attack_without_what_it_needs_makes_no_guess() {
        let (mut view, _) = cell(5, 4);
        assert!(view.estimate(Attack::LeastSquares(5)).is_none());
        view.prefixes = None;
        assert!(view.estimate(Attack::PrefixOnly).is_none());
        let baseline = view.cell_mean().expect("there are pairs");
        assert!(baseline.iter().all(|row| row[4..].iter().all(|&x| x == 0.0)));
        let estimate = view.estimate(Attack::LeastSquares(4)).expect("there are pairs");
        let (_, known) = view.known.as_ref().expect("there are pairs");
        assert_eq!(&estimate.row(0)[..4], known.columns(0..4).column_means());
        assert_eq!(baseline.row(0)[..4], estimate.row(0)[..4]);
        view.known = None;
        assert!(view.estimate(Attack::Procrustes(4)).is_none());
        let blind = view.estimate(Attack::UnknownKey).expect("it needs only rows");
        assert!((mean_norm(&blind) - view.residual_norm).abs() < 1e-9);
    }
}
