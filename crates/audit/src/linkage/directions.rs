//! A query's direction, from the candidates that it asked for.
//!
//! With `x_1 .. x_K` the candidates' vectors in the order of the request,
//!
//! - centroid: `sum_r x_r`,
//! - log rank: `sum_r x_r / log2(1 + r)`,
//! - ridge rank: the `w` that minimises `sum_r (w . x_r - 1 / log2(1 + r))^2 + lambda |w|^2` with
//!   `lambda` the mean of `|x_r|^2`.
//!
//! An attacker who has stored rows only gets an estimate in the keyed coordinates of each cell; it
//! can score rows of that cell and no others.

use std::collections::BTreeMap;

use faer::Side;
use faer::linalg::solvers::Solve;
use shard_geometry::top_k;

use crate::tools::matrix::Matrix;
use crate::tools::statistics::mean;
use crate::view::Release;

/// Rows that an attack on stored rows names.
const DEPTH: usize = 10;

/// A way to estimate a query's direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Estimator {
    /// All candidates alike.
    Centroid,
    /// Early candidates more.
    LogRank,
    /// The direction along which rank falls.
    RidgeRank,
}

impl Estimator {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Centroid, Self::LogRank, Self::RidgeRank];

    /// As settings spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Centroid => "centroid",
            Self::LogRank => "log-rank",
            Self::RidgeRank => "ridge-rank",
        }
    }

    /// The direction estimated from candidates with the places, from zero, that they have in the
    /// request.
    pub fn direction(self, candidates: &Matrix, places: &[usize]) -> Vec<f64> {
        let gain = |&place: &usize| 1.0 / (place as f64 + 2.0).log2();
        let gains: Vec<f64> = places.iter().map(gain).collect();
        let weights = match self {
            Self::Centroid => vec![1.0; places.len()],
            Self::LogRank => gains,
            Self::RidgeRank => ridge_weights(candidates, &gains),
        };
        let mut direction = vec![0.0; candidates.width()];
        for (row, weight) in candidates.iter().zip(weights) {
            direction.iter_mut().zip(row).for_each(|(sum, x)| *sum += weight * x);
        }
        direction
    }
}

/// `(X X^T + lambda I)^-1 y`: ridge regression by its dual, `w = X^T` of it.
fn ridge_weights(rows: &Matrix, targets: &[f64]) -> Vec<f64> {
    let products = rows.times_transposed(rows);
    let trace: f64 = (0..rows.rows()).map(|at| products.row(at)[at]).sum();
    if trace == 0.0 {
        return vec![0.0; targets.len()];
    }
    let lambda = trace / rows.rows() as f64;
    let mut system = products.as_faer().to_owned();
    (0..rows.rows()).for_each(|at| system[(at, at)] += lambda);
    let right = faer::Mat::from_fn(targets.len(), 1, |at, _| targets[at]);
    let solver = system.llt(Side::Lower).expect("a Gram matrix plus a positive ridge is definite");
    let solution = solver.solve(&right);
    (0..targets.len()).map(|at| solution[(at, 0)]).collect()
}

/// The attack on stored rows alone: an estimate in each active cell scores the rows of that cell.
/// The ten best, best first.
pub fn ranked_by_stored_rows(
    estimator: Estimator,
    release: &Release,
    members: &[Vec<usize>],
    candidates: &[usize],
) -> Vec<u32> {
    let directions = by_cell(estimator, &release.rows, &release.cells, candidates);
    let scores = directions.iter().flat_map(|(&cell, direction)| {
        let score = move |row: usize| {
            release.rows.row(row).iter().zip(direction).map(|(z, w)| z * w).sum::<f64>()
        };
        members[cell as usize].iter().map(move |&row| (row as u32, score(row)))
    });
    top_k(scores, DEPTH).into_iter().map(|hit| hit.row).collect()
}

/// The direction in each cell that has candidates, from those alone.
fn by_cell(
    estimator: Estimator,
    rows: &Matrix,
    cells: &[u32],
    candidates: &[usize],
) -> BTreeMap<u32, Vec<f64>> {
    let mut places: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (place, &row) in candidates.iter().enumerate() {
        places.entry(cells[row]).or_default().push(place);
    }
    let direction = |places: Vec<usize>| {
        let own: Vec<usize> = places.iter().map(|&place| candidates[place]).collect();
        estimator.direction(&rows.select(&own), &places)
    };
    places.into_iter().map(|(cell, places)| (cell, direction(places))).collect()
}

/// The mean over candidates of the cosine between the estimate in their cell and the query's own
/// residual. Keys keep products within a cell, so this is the cosine in keyed coordinates as well.
pub fn cosine_in_cells(
    estimator: Estimator,
    candidates: &Matrix,
    cells: &[u32],
    query: &[f64],
) -> f64 {
    let all: Vec<usize> = (0..candidates.rows()).collect();
    let directions = by_cell(estimator, candidates, cells, &all);
    let cosines: Vec<f64> = cells.iter().map(|cell| cosine(&directions[cell], query)).collect();
    mean(&cosines)
}

/// The cosine of two vectors; that with zero is zero.
pub fn cosine(x: &[f64], y: &[f64]) -> f64 {
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let scale = (dot(x, x) * dot(y, y)).sqrt();
    if scale > 0.0 { dot(x, y) / scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;
    use crate::subject::{KeyFamily, protect};
    use crate::tools::neighbours::{Metric, nearest};
    use crate::tools::statistics::generator;

    #[test]
    fn ranked_rows_give_the_direction_away() {
        let gallery = planted::normals(400, 6, 1);
        let query = planted::normals(1, 6, 2);
        let ranked: Vec<usize> =
            nearest(&query, &gallery, 60, Metric::Product)[0].iter().map(|&r| r as usize).collect();
        let places: Vec<usize> = (0..60).collect();
        for estimator in Estimator::ALL {
            let direction = estimator.direction(&gallery.select(&ranked), &places);
            assert!(cosine(&direction, query.row(0)) > 0.9, "{estimator:?}");
        }
    }

    #[test]
    fn random_rows_give_nothing_away() {
        let cosines: Vec<f64> = (0..100)
            .map(|seed| {
                let places: Vec<usize> = (0..60).collect();
                let direction =
                    Estimator::RidgeRank.direction(&planted::normals(60, 6, seed), &places);
                cosine(&direction, planted::normals(1, 6, seed + 500).row(0))
            })
            .collect();
        assert!(mean(&cosines).abs() < 0.15, "{}", mean(&cosines));
    }

    #[test]
    fn ridge_solves_its_normal_equations() {
        let rows = planted::normals(9, 4, 3);
        let places: Vec<usize> = (0..9).collect();
        let w = Estimator::RidgeRank.direction(&rows, &places);
        let lambda = rows.values().iter().map(|x| x * x).sum::<f64>() / 9.0;
        for column in 0..4 {
            let gradient: f64 = (0..9)
                .map(|at| {
                    let row = rows.row(at);
                    let score: f64 = row.iter().zip(&w).map(|(x, w)| x * w).sum();
                    row[column] * (score - 1.0 / (at as f64 + 2.0).log2())
                })
                .sum();
            assert!((gradient + lambda * w[column]).abs() < 1e-9);
        }
    }

    #[test]
    fn keys_do_not_change_what_stored_rows_rank() {
        let residuals = planted::normals(90, 6, 4);
        let cells: Vec<u32> = (0..90).map(|row| row % 3).collect();
        let plain = Release { rows: residuals.clone(), cells: cells.clone(), prefixes: None };
        let keyed = protect(&residuals, &cells, KeyFamily::Orthogonal, &mut generator(4, 4));
        let candidates = [7, 3, 22, 61, 40, 13];
        for estimator in Estimator::ALL {
            let ranked = |release: &Release| {
                ranked_by_stored_rows(estimator, release, &release.members(), &candidates)
            };
            assert_eq!(ranked(&plain), ranked(&keyed));
        }
    }
}
