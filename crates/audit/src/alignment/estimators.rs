//! Maps from stored rows back to residuals, fitted to known pairs.
//!
//! Pairs are rows of `R` (residuals) and `Z` (stored), both `m x d`; a map `W` estimates the
//! residual of a new row as `r^T = z^T W`.
//!
//! | estimator | `W` |
//! |---|---|
//! | Procrustes | `X Y^T + completion`, where `Z^T R = X S Y^T` |
//! | Procrustes, completion dropped | `X Y^T` over the singular values that are not zero |
//! | least squares | `Z^+ R`, of least norm |
//! | ridge | `(Z^T Z + a I)^-1 Z^T R` |
//! | polar | the orthogonal factor of `Z^+ R`, completed |
//!
//! With exact rows `Z = R H^T` of rank `s < d`, least squares gives `Z^+ R = H P_S`: it recovers
//! the projection of a residual onto the span of the anchors, and so do Procrustes and polar
//! without completion. The completion sends the rest of the row somewhere, which only adds noise.
//!
//! All is computed in the span of the pairs: `O(m^2 d)` for `m < d`.

use anyhow::{Result, anyhow};
use faer::{Mat, MatRef};

use crate::tools::matrix::Matrix;

/// Singular values below this share of the largest count as zero.
pub(super) const CUTOFF: f64 = 1e-6;

/// Ridge penalties tried, as shares of the largest squared singular value. The first stands for
/// zero, at which an interpolating fit leaves nothing to validate.
const PENALTIES: [f64; 7] = [1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1];

/// Residuals that an attacker knows the stored rows of.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// `R`.
    pub residuals: Matrix,
    /// `Z`.
    pub rows: Matrix,
}

impl Pairs {
    /// The pairs of the rows named.
    pub fn of(residuals: &Matrix, rows: &Matrix, which: &[usize]) -> Self {
        Self { residuals: residuals.select(which), rows: rows.select(which) }
    }

    /// The same with stored rows divided by `scale`.
    pub(super) fn scaled(mut self, scale: f64) -> Self {
        self.rows = divided(self.rows, scale);
        self
    }

    fn count(&self) -> usize {
        self.rows.rows()
    }
}

/// Rows divided by `scale`.
pub(super) fn divided(mut rows: Matrix, scale: f64) -> Matrix {
    rows.values_mut().iter_mut().for_each(|x| *x /= scale);
    rows
}

/// How a map is fitted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Estimator {
    /// Orthogonal Procrustes with an arbitrary orthogonal completion.
    Procrustes,
    /// Orthogonal Procrustes on the span of the pairs, zero elsewhere.
    ProcrustesDropped,
    /// Moore-Penrose least squares.
    LeastSquares,
    /// Ridge with this penalty.
    Ridge(f64),
    /// Ridge with the penalty of least leave-one-out error, which is m-fold cross-validation.
    RidgeValidated,
    /// The orthogonal factor of the least-squares map, with an arbitrary completion.
    Polar,
}

impl Estimator {
    /// All of them; ridge with no penalty.
    pub const ALL: [Self; 6] = [
        Self::LeastSquares,
        Self::Ridge(0.0),
        Self::RidgeValidated,
        Self::ProcrustesDropped,
        Self::Procrustes,
        Self::Polar,
    ];

    /// In settings of findings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Procrustes => "procrustes",
            Self::ProcrustesDropped => "procrustes-dropped",
            Self::LeastSquares => "ols",
            Self::Ridge(_) => "ridge-0",
            Self::RidgeValidated => "ridge-cv",
            Self::Polar => "polar",
        }
    }

    /// Fits the map.
    ///
    /// # Errors
    /// When a singular value decomposition does not converge.
    pub fn fit(self, pairs: &Pairs) -> Result<ReverseMap> {
        match self {
            Self::Procrustes => procrustes(pairs)?.completed(),
            Self::ProcrustesDropped => Ok(procrustes(pairs)?.dropped()),
            Self::LeastSquares => ridge(pairs, |_| 0.0),
            Self::Ridge(penalty) => ridge(pairs, |_| penalty),
            Self::RidgeValidated => {
                ridge(pairs, |factors| validated_penalty(factors, &pairs.residuals))
            }
            Self::Polar => polar(pairs)?.completed(),
        }
    }
}

/// `W = left * right`, with the identity added when the completion is kept.
#[derive(Clone, Debug)]
pub struct ReverseMap {
    left: Matrix,
    right: Matrix,
    plus_identity: bool,
    rank: usize,
}

impl ReverseMap {
    /// `z^T W` of every row.
    pub fn apply(&self, rows: &Matrix) -> Matrix {
        let mut out = rows.times(&self.left).times(&self.right);
        if self.plus_identity {
            out.values_mut().iter_mut().zip(rows.values()).for_each(|(x, z)| *x += z);
        }
        out
    }

    /// `W` itself.
    pub fn dense(&self) -> Matrix {
        let mut out = self.left.times(&self.right);
        if self.plus_identity {
            (0..out.rows()).for_each(|at| out.row_mut(at)[at] += 1.0);
        }
        out
    }

    /// Directions that the pairs determine.
    pub fn rank(&self) -> usize {
        self.rank
    }
}

/// `A = U diag(s) V^T` without the singular values that count as zero.
pub(super) struct Factors {
    pub(super) u: Mat<f64>,
    pub(super) s: Vec<f64>,
    pub(super) v: Mat<f64>,
}

impl Factors {
    pub(super) fn of(matrix: MatRef<'_, f64>, cutoff: f64) -> Result<Self> {
        let (rows, columns) = (matrix.nrows(), matrix.ncols());
        let failed = |_| anyhow!("singular values of a {rows} x {columns} matrix did not converge");
        let svd = matrix.thin_svd().map_err(failed)?;
        let s: Vec<f64> = svd.S().column_vector().iter().copied().collect();
        let largest = s.first().copied().unwrap_or(0.0);
        let rank = s.iter().take_while(|&&s| s > cutoff * largest).count();
        Ok(Self {
            u: svd.U().subcols(0, rank).to_owned(),
            s: s[..rank].to_vec(),
            v: svd.V().subcols(0, rank).to_owned(),
        })
    }

    pub(super) fn rank(&self) -> usize {
        self.s.len()
    }
}

/// A matrix of ours; one with no columns becomes a column of zeros, which maps to nothing.
pub(super) fn matrix(of: MatRef<'_, f64>) -> Matrix {
    if of.nrows() == 0 || of.ncols() == 0 {
        return Matrix::zeros(of.nrows().max(1), of.ncols().max(1));
    }
    Matrix::from_faer(of)
}

/// `V diag(s / (s^2 + a)) U^T R` from `Z = U diag(s) V^T`, and `a` from the same factors.
fn ridge(pairs: &Pairs, penalty: impl FnOnce(&Factors) -> f64) -> Result<ReverseMap> {
    let factors = Factors::of(pairs.rows.as_faer(), CUTOFF)?;
    let penalty = penalty(&factors);
    let mut right = factors.u.transpose() * pairs.residuals.as_faer();
    for (at, s) in factors.s.iter().enumerate() {
        right.row_mut(at).iter_mut().for_each(|x| *x *= s / (s * s + penalty));
    }
    let rank = factors.rank();
    Ok(ReverseMap {
        left: matrix(factors.v.as_ref()),
        right: matrix(right.as_ref()),
        plus_identity: false,
        rank,
    })
}

/// The penalty of least leave-one-out error. With `M = I - Z (Z^T Z + a I)^-1 Z^T` the error of
/// pair `i` when it is left out is `(M R)_i / M_ii`: one decomposition serves every penalty.
fn validated_penalty(factors: &Factors, residuals: &Matrix) -> f64 {
    let (count, rank) = (residuals.rows(), factors.rank());
    if count < 2 || rank == 0 {
        return 0.0;
    }
    let along = factors.u.transpose() * residuals.as_faer();
    // What no penalty reaches; of an interpolating fit it is nothing but rounding.
    let beyond = (count > rank).then(|| residuals.as_faer() - &factors.u * &along);
    let error = |penalty: f64| -> f64 {
        let shrink: Vec<f64> = factors.s.iter().map(|s| penalty / (s * s + penalty)).collect();
        let mut scaled = along.clone();
        for (at, factor) in shrink.iter().enumerate() {
            scaled.row_mut(at).iter_mut().for_each(|x| *x *= factor);
        }
        let mut left_out = &factors.u * &scaled;
        if let Some(beyond) = &beyond {
            left_out += beyond;
        }
        let errors = (0..count).map(|i| {
            let squares: Vec<f64> = factors.u.row(i).iter().map(|u| u * u).collect();
            let own: f64 = squares.iter().zip(&shrink).map(|(u, f)| u * f).sum();
            let outside = if beyond.is_some() { 1.0 - squares.iter().sum::<f64>() } else { 0.0 };
            let diagonal = (own + outside).max(f64::EPSILON);
            left_out.row(i).iter().map(|x| x * x).sum::<f64>() / (diagonal * diagonal)
        });
        errors.sum()
    };
    let largest = factors.s[0] * factors.s[0];
    let tried = PENALTIES.map(|share| (share * largest, error(share * largest)));
    let best = tried.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    best.expect("penalties to try").0
}

/// Orthonormal columns `x_j` of the stored space and `y_j` of the native one that belong together.
pub(super) struct Frames {
    pub(super) stored: Mat<f64>,
    pub(super) native: Mat<f64>,
}

impl Frames {
    /// `X Y^T`.
    pub(super) fn dropped(self) -> ReverseMap {
        ReverseMap {
            rank: self.stored.ncols(),
            left: matrix(self.stored.as_ref()),
            right: matrix(self.native.transpose()),
            plus_identity: false,
        }
    }

    /// An orthogonal map that takes `X` to `Y`: with `D = X - Y` it is `I - D (D^T X)^-1 D^T`,
    /// a reflection in many directions at once. It is orthogonal because
    /// `D^T X + X^T D = D^T D`, and leaves everything orthogonal to `D` where it is: one choice
    /// among all completions, which the pairs do not determine.
    pub(super) fn completed(self) -> Result<ReverseMap> {
        if self.stored.ncols() == self.stored.nrows() {
            return Ok(self.dropped());
        }
        let difference = &self.stored - &self.native;
        // Directions that X and Y share already stay where they are.
        let core = Factors::of((self.stored.transpose() * &difference).as_ref(), 1e-12)?;
        let mut middle = core.u.transpose() * difference.transpose();
        for (at, s) in core.s.iter().enumerate() {
            middle.row_mut(at).iter_mut().for_each(|x| *x /= -s);
        }
        let right = &core.v * middle;
        Ok(ReverseMap {
            rank: self.stored.ncols(),
            left: matrix(difference.as_ref()),
            right: matrix(right.as_ref()),
            plus_identity: true,
        })
    }
}

/// Singular vectors of `Z^T R`. With fewer pairs than coordinates, `Z^T = Q_z T_z` and
/// `R^T = Q_r T_r` leave only the small `T_z T_r^T` to decompose.
fn procrustes(pairs: &Pairs) -> Result<Frames> {
    let (rows, residuals) = (pairs.rows.as_faer(), pairs.residuals.as_faer());
    // Singular values of the product are products of singular values.
    let cutoff = CUTOFF * CUTOFF;
    if pairs.count() >= pairs.rows.width() {
        let core = Factors::of((rows.transpose() * residuals).as_ref(), cutoff)?;
        return Ok(Frames { stored: core.u, native: core.v });
    }
    let (z, r) = (rows.transpose().qr(), residuals.transpose().qr());
    let core = Factors::of((z.thin_R() * r.thin_R().transpose()).as_ref(), cutoff)?;
    Ok(Frames { stored: z.compute_thin_Q() * core.u, native: r.compute_thin_Q() * core.v })
}

/// Singular vectors of `Z^+ R`.
fn polar(pairs: &Pairs) -> Result<Frames> {
    let map = ridge(pairs, |_| 0.0)?;
    let core = Factors::of(map.right.as_faer(), CUTOFF)?;
    Ok(Frames { stored: map.left.as_faer() * core.u, native: core.v })
}

#[cfg(test)]
mod tests;
