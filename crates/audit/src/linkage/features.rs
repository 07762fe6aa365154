//! What a change of keys leaves of a row, and matching rows by it.
//!
//! An orthogonal key keeps the norm `|z_i| = |r_i|` and, among rows under the same key, every
//! product `<z_i, z_j> = <r_i, r_j>`. So under any order of rows
//!
//! - the **norm** `|z_i|`,
//! - the **Gram signature**: quantiles `0, 1/31 .. 1` of `{<z_i, z_j> : c(j) = c(i), j != i}`,
//! - the **neighbour signature**: the eight largest cosines among the same rows, falling,
//!
//! are the same in both releases if the cell has the same documents. A row with a key of its own
//! has no such products; its signature is taken with rows under other keys all over the release,
//! where it says little more than the norm. Features are standardised with the mean and deviation
//! of the two observed releases together: no true pair is used. The **combined** signature is all
//! three side by side, each divided by the root of its width so that each weighs the same.

use rayon::prelude::*;

use super::game::Group;
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, for_each_block};
use crate::tools::statistics::quantile;
use crate::view::Release;

/// Quantiles in a Gram signature.
pub const QUANTILES: usize = 32;

/// Cosines in a neighbour signature.
pub const NEIGHBOURS: usize = 8;

/// Rows under other keys that the only row of a key is compared with.
const STRANGERS: usize = 512;

/// Rows of one cell whose products are in memory at once.
const BLOCK: usize = 256;

/// The features of all rows of a release.
#[derive(Clone, Debug)]
pub struct RowFeatures {
    /// Norms, one wide.
    pub norms: Matrix,
    /// Gram signatures.
    pub gram: Matrix,
    /// Neighbour signatures.
    pub neighbours: Matrix,
}

impl RowFeatures {
    /// Of all rows.
    pub fn of(release: &Release) -> Self {
        let norms = norms(release);
        let rows = release.rows.rows();
        let (mut gram, mut neighbours) =
            (Matrix::zeros(rows, QUANTILES), Matrix::zeros(rows, NEIGHBOURS));
        let mut set = |row: usize, (quantiles, cosines): (Vec<f64>, Vec<f64>)| {
            gram.row_mut(row).copy_from_slice(&quantiles);
            neighbours.row_mut(row).copy_from_slice(&cosines);
        };
        let (alone, together): (Vec<_>, Vec<_>) =
            release.members().into_iter().partition(|members| members.len() == 1);
        let alone: Vec<usize> = alone.into_iter().flatten().collect();
        let step = (rows / STRANGERS).max(1);
        let strangers: Vec<usize> = (0..rows).step_by(step).collect();
        let tasks = together.iter().map(|members| (members, members));
        let tasks = tasks.chain((!alone.is_empty()).then_some((&alone, &strangers)));
        for (own, others) in tasks.filter(|(own, _)| !own.is_empty()) {
            let gallery = release.rows.select(others);
            for block in own.chunks(BLOCK) {
                let products = release.rows.select(block).times_transposed(&gallery);
                let signatures: Vec<_> = (0..block.len())
                    .into_par_iter()
                    .map(|at| signature(block[at], others, products.row(at), norms.values()))
                    .collect();
                block.iter().zip(signatures).for_each(|(&row, signature)| set(row, signature));
            }
        }
        Self { norms, gram, neighbours }
    }
}

/// The norm of every row, one wide.
pub fn norms(release: &Release) -> Matrix {
    Matrix::new(1, release.rows.norms())
}

/// The Gram and the neighbour signature of one row, from its products with other rows.
fn signature(
    row: usize,
    others: &[usize],
    products: &[f64],
    norms: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let others = || others.iter().zip(products).filter(|(other, _)| **other != row);
    let mut sorted: Vec<f64> = others().map(|(_, &product)| product).collect();
    if sorted.is_empty() {
        return (vec![0.0; QUANTILES], vec![0.0; NEIGHBOURS]);
    }
    sorted.sort_unstable_by(f64::total_cmp);
    let quantiles =
        (0..QUANTILES).map(|k| quantile(&sorted, k as f64 / (QUANTILES - 1) as f64)).collect();
    let cosine = |(&other, &product): (&usize, &f64)| {
        let scale = norms[row] * norms[other];
        if scale > 0.0 { product / scale } else { 0.0 }
    };
    let mut cosines: Vec<f64> = others().map(cosine).collect();
    let falling = |a: &f64, b: &f64| b.total_cmp(a);
    if cosines.len() > NEIGHBOURS {
        cosines.select_nth_unstable_by(NEIGHBOURS - 1, falling);
    }
    cosines.truncate(NEIGHBOURS);
    cosines.sort_unstable_by(falling);
    cosines.resize(NEIGHBOURS, 0.0);
    (quantiles, cosines)
}

/// Both matrices with each column at mean zero and deviation one over the rows of both; a constant
/// column becomes zero.
///
/// # Panics
/// When the widths differ.
pub fn standardised(first: &Matrix, second: &Matrix) -> (Matrix, Matrix) {
    assert_eq!(first.width(), second.width(), "features of one kind");
    let (mut first, mut second) = (first.clone(), second.clone());
    let rows = (first.rows() + second.rows()) as f64;
    for column in 0..first.width() {
        let both = || first.iter().chain(second.iter()).map(|row| row[column]);
        let mean = both().sum::<f64>() / rows;
        let deviation = (both().map(|x| (x - mean) * (x - mean)).sum::<f64>() / rows).sqrt();
        let scale = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
        for matrix in [&mut first, &mut second] {
            (0..matrix.rows()).for_each(|row| {
                let x = &mut matrix.row_mut(row)[column];
                *x = (*x - mean) * scale;
            });
        }
    }
    (first, second)
}

/// The combined signatures of two releases.
pub fn combined(first: &RowFeatures, second: &RowFeatures) -> (Matrix, Matrix) {
    let blocks = [
        standardised(&first.norms, &second.norms),
        standardised(&first.gram, &second.gram),
        standardised(&first.neighbours, &second.neighbours),
    ];
    let join = |blocks: [&Matrix; 3]| {
        let width = blocks.iter().map(|block| block.width()).sum();
        let mut values = Vec::with_capacity(width * blocks[0].rows());
        for row in 0..blocks[0].rows() {
            for block in blocks {
                let weight = (block.width() as f64).sqrt().recip();
                values.extend(block.row(row).iter().map(|x| x * weight));
            }
        }
        Matrix::new(width, values)
    };
    (join(blocks.each_ref().map(|pair| &pair.0)), join(blocks.each_ref().map(|pair| &pair.1)))
}

/// For every row of the first release, the row of its group whose features are nearest, if it has a
/// group. Ties go to the earlier row, which is a random one.
pub fn nearest_links(first: &Matrix, second: &Matrix, groups: &[Group]) -> Vec<Option<usize>> {
    let mut guesses = vec![None; first.rows()];
    for group in groups {
        let found = if first.width() == 1 {
            nearest_numbers(first, second, group)
        } else {
            let mut found = Vec::with_capacity(group.first.len());
            for_each_score(first, second, group, |_, scores| found.par_extend(best_of(scores)));
            found.into_iter().map(|at| group.second[at]).collect()
        };
        group.first.iter().zip(found).for_each(|(&row, guess)| guesses[row] = Some(guess));
    }
    guesses
}

/// [`nearest_links`] both ways from one scan: for every row of the first release the nearest of the
/// second, and for every row of the second the nearest of the first.
pub fn nearest_both_ways(
    first: &Matrix,
    second: &Matrix,
    groups: &[Group],
) -> [Vec<Option<usize>>; 2] {
    let mut links = [vec![None; first.rows()], vec![None; second.rows()]];
    for group in groups {
        let mut forward: Vec<usize> = Vec::with_capacity(group.first.len());
        let mut backward = vec![(f64::NEG_INFINITY, 0); group.second.len()];
        for_each_score(first, second, group, |start, scores| {
            forward.par_extend(best_of(scores));
            for (at, row) in scores.iter().enumerate() {
                for (best, &score) in backward.iter_mut().zip(row) {
                    if score > best.0 {
                        *best = (score, start + at);
                    }
                }
            }
        });
        for (&row, at) in group.first.iter().zip(forward) {
            links[0][row] = Some(group.second[at]);
        }
        for (&row, (_, at)) in group.second.iter().zip(backward) {
            links[1][row] = Some(group.first[at]);
        }
    }
    links
}

/// Calls `sink(first query, scores)` for blocks of a group's rows against all of its others.
fn for_each_score(
    first: &Matrix,
    second: &Matrix,
    group: &Group,
    sink: impl FnMut(usize, &Matrix),
) {
    let (queries, gallery) = (first.select(&group.first), second.select(&group.second));
    for_each_block(&queries, &gallery, Metric::Distance, sink);
}

/// The place of the largest score of each row, the first of equals.
fn best_of(scores: &Matrix) -> impl IndexedParallelIterator<Item = usize> + '_ {
    (0..scores.rows()).into_par_iter().map(|at| {
        let row = scores.row(at).iter().enumerate();
        let best =
            row.fold(
                (f64::NEG_INFINITY, 0),
                |best, (other, &score)| {
                    if score > best.0 { (score, other) } else { best }
                },
            );
        best.1
    })
}

/// [`nearest_links`] of one number per row, by sorting and bisection: releases of any size.
fn nearest_numbers(first: &Matrix, second: &Matrix, group: &Group) -> Vec<usize> {
    let sorted = sorted_by_value(second.values(), &group.second);
    let nearest = |&row: &usize| {
        let own = first.values()[row];
        let at = sorted.partition_point(|&other| second.values()[other] < own);
        let sides = [at.checked_sub(1), (at < sorted.len()).then_some(at)];
        let sides = sides.into_iter().flatten().map(|at| sorted[at]);
        let gap = |row: usize| (second.values()[row] - own).abs();
        sides.min_by(|&a, &b| gap(a).total_cmp(&gap(b))).expect("a group has rows of both releases")
    };
    group.first.iter().map(nearest).collect()
}

/// The monotone one-to-one assignment: in each group, the row with the k-th smallest norm of one
/// release is matched with the k-th smallest of the other. Rows beyond the shorter side have none.
pub fn norm_rank_links(first: &Matrix, second: &Matrix, groups: &[Group]) -> Vec<Option<usize>> {
    let mut guesses = vec![None; first.rows()];
    for group in groups {
        let pairs = sorted_by_value(first.values(), &group.first)
            .into_iter()
            .zip(sorted_by_value(second.values(), &group.second));
        pairs.for_each(|(row, guess)| guesses[row] = Some(guess));
    }
    guesses
}

fn sorted_by_value(values: &[f64], rows: &[usize]) -> Vec<usize> {
    let mut sorted = rows.to_vec();
    sorted.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    sorted
}

#[cfg(test)]
mod tests {
    use super::super::game::squared_distance;
    use super::super::planted;
    use super::*;
    use crate::subject::{KeyFamily, protect};
    use crate::tools::statistics::generator;

    #[test]
    fn features_outlive_keys_within_cells() {
        let residuals = planted::normals(90, 6, 1);
        let cells: Vec<u32> = (0..90).map(|row| row % 3).collect();
        let features = [1, 2].map(|seed| {
            let mut rng = generator(seed, 0);
            RowFeatures::of(&protect(&residuals, &cells, KeyFamily::Orthogonal, &mut rng))
        });
        let [first, second] = &features;
        for (a, b) in [
            (&first.norms, &second.norms),
            (&first.gram, &second.gram),
            (&first.neighbours, &second.neighbours),
        ] {
            assert!(squared_distance(a.values(), b.values()) < 1e-18);
        }
        let products = residuals.times_transposed(&residuals);
        let mut own: Vec<f64> = (3..90).step_by(3).map(|other| products.row(0)[other]).collect();
        own.sort_unstable_by(f64::total_cmp);
        let gram = first.gram.row(0);
        assert!((gram[0] - own[0]).abs() < 1e-9 && (gram[31] - own[28]).abs() < 1e-9);
    }

    #[test]
    fn bisection_finds_what_a_scan_finds() {
        let (first, second) = (planted::normals(80, 1, 1), planted::normals(60, 1, 2));
        let group = Group { first: (0..80).collect(), second: (10..60).collect() };
        let gap = |a: usize, b: usize| (first.values()[a] - second.values()[b]).abs();
        let scan = |row| (10..60).min_by(|&a, &b| gap(row, a).total_cmp(&gap(row, b)));
        let expected: Vec<Option<usize>> = (0..80).map(scan).collect();
        assert_eq!(nearest_links(&first, &second, &[group]), expected);
    }

    #[test]
    fn ranks_are_matched_one_to_one() {
        let (first, second) =
            (Matrix::new(1, vec![5.0, 1.0, 3.0]), Matrix::new(1, vec![2.9, 9.0, 0.0]));
        let group = Group { first: vec![0, 1, 2], second: vec![0, 1, 2] };
        assert_eq!(norm_rank_links(&first, &second, &[group]), [Some(1), Some(2), Some(0)]);
    }

    #[test]
    fn columns_are_standardised_over_both_releases() {
        let (first, second) = (Matrix::new(2, vec![1.0, 7.0]), Matrix::new(2, vec![3.0, 7.0]));
        let (first, second) = standardised(&first, &second);
        assert_eq!((first.values(), second.values()), (&[-1.0, 0.0][..], &[1.0, 0.0][..]));
    }
}
