//! From scores to a ranking: the best rows, refined.

use std::time::Instant;

use rayon::prelude::*;
use shard_rlwe::blind::{Opening, Precision};

use super::ready::Searched;
use crate::search::{Answer, Cost, Hit, grid};

/// Deviations of noise between a score as opened and as it is.
const DEVIATIONS: f64 = 7.0;

/// Gives equal rows one score, the mean of theirs, and sorts by falling score, rows of one score by place,
/// as raw search does. Rows that are alike and further apart than `most` are not equal.
fn sort(best: &mut [(usize, f64)], likeness: impl Fn(usize) -> u32, most: f64) {
    best.sort_by_cached_key(|&(place, _)| likeness(place));
    for alike in best.chunk_by_mut(|a, b| likeness(a.0) == likeness(b.0)) {
        alike.sort_by(|a, b| b.1.total_cmp(&a.1));
        for equal in alike.chunk_by_mut(|a, b| a.1 - b.1 <= most) {
            let mean = equal.iter().map(|(_, score)| score).sum::<f64>() / equal.len() as f64;
            equal.iter_mut().for_each(|(_, score)| *score = mean);
        }
    }
    best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
}

/// What is to be returned.
pub(super) struct Wanted<'a> {
    pub(super) top: usize,
    /// Which places may be, where not all may.
    pub(super) allowed: Option<&'a [bool]>,
}

/// The best rows, refined: from every score that may belong to them the errors of its block are taken.
pub(super) fn rank(
    searched: &Searched<'_>,
    opening: &Opening,
    scores: &[f64],
    query: &[f32],
    wanted: &Wanted<'_>,
    mut cost: Cost,
    start: Instant,
) -> Answer {
    let collection = searched.collection;
    let shape = collection.shape();
    let length = query.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let unit = collection.longest() * length;
    let precision = Precision::of(shape, collection.grid(), collection.longest());
    let mut best: Vec<(usize, f64)> = scores
        .iter()
        .enumerate()
        .map(|(at, &score)| (searched.row(at), score))
        .filter(|(place, _)| wanted.allowed.is_none_or(|allowed| allowed[*place]))
        .filter(|(place, _)| collection.id(*place).is_some())
        .collect();
    let top = wanted.top.min(best.len());
    if top == 0 {
        return Answer { hits: Vec::new(), precision: 0.0, error_bound: 0.0, cost };
    }
    best.select_nth_unstable_by(top - 1, |a, b| b.1.total_cmp(&a.1));
    let least = best[top - 1].1 - 2.0 * DEVIATIONS * precision.opened * unit;
    best.retain(|(_, score)| *score >= least);
    let refine = |(place, score): &mut (usize, f64)| {
        let (block, row) = (*place / shape.rows_per_block(), *place % shape.rows_per_block());
        let tag = &collection.blocks()[block].tag;
        *score = collection.keys().refine(opening, tag, row, *score);
    };
    best.par_iter_mut().with_min_len(64).for_each(refine);
    let error_bound = DEVIATIONS * precision.refined * unit;
    sort(&mut best, |place| collection.likeness(place), 2.0 * error_bound);
    // Finer digits are noise that depends on the key.
    let step = grid(precision.refined * unit / 2.0);
    let round = |score: f64| if step > 0.0 { (score / step).round() * step } else { score };
    let hit = |&(place, score): &(usize, f64)| Hit {
        id: collection.id(place).unwrap_or_default().to_owned(),
        row: place as u32,
        score: round(score),
    };
    let hits = best[..top].iter().map(hit).collect();
    cost.timings.open = start.elapsed();
    Answer { hits, precision: step, error_bound, cost }
}

#[cfg(test)]
mod tests {
    use super::sort;

    #[test]
    fn equal_rows_have_one_score_and_the_order_of_their_places() {
        // Rows 3, 7 and 8 are equal, 5 is another between them, and 1 is alike by chance.
        let likeness = |place| if [1, 3, 7, 8].contains(&place) { 6 } else { place as u32 };
        let mut best = [(1, 0.2), (7, 0.5), (9, 0.9), (5, 0.499), (3, 0.498), (8, 0.496)];
        sort(&mut best, likeness, 0.01);
        assert_eq!(best.map(|hit| hit.0), [9, 5, 3, 7, 8, 1]);
        assert!(best[2..5].iter().all(|hit| (hit.1 - 0.498).abs() < 1e-12), "{best:?}");
        assert_eq!((best[1].1, best[5].1), (0.499, 0.2));
        sort(&mut [], likeness, 0.01);
    }
}
