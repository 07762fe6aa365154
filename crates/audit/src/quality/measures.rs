//! The measures of one query.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Judgements;

const NDCG_DEPTH: usize = 10;
const RECALL_DEPTH: usize = 100;
const RECIPROCAL_RANK_DEPTH: usize = 10;

/// The three measures of one query, or their means over many; each lies in `0..=1`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Normalised discounted cumulative gain of the first 10.
    pub ndcg10: f64,
    /// Share of the relevant documents found in the first 100.
    pub recall100: f64,
    /// Reciprocal rank of the first relevant document, 0 when none is in the first 10.
    pub mrr10: f64,
}

/// A ranking that lists one document twice, which would count it twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("document {document:?} is ranked twice, at {first} and {second}")]
pub struct RepeatedDocument {
    /// The document's id.
    pub document: String,
    /// Its first rank, counted from 1.
    pub first: usize,
    /// Its second rank.
    pub second: usize,
}

/// Measures one ranking (document ids, best first) against the judgements of its query, as `trec_eval` does.
///
/// With `g_r = max(rel_r, 0)` the linear gain at rank `r` (unjudged documents gain nothing) and `R` the number of
/// documents with `rel > 0`:
///
/// - `nDCG@10 = sum_{r<=10} g_r / log2(r + 1)`, divided by the same sum over *all judged* documents of the query
///   in falling order of gain, whether the ranking found them or not;
/// - `Recall@100 = |relevant among the first 100| / R`;
/// - `MRR@10 = 1 / r` for the first relevant rank `r <= 10`, else 0.
///
/// The order of the list is taken as it is: `trec_eval` would re-sort equal scores by id, but ties here have
/// already been broken by row order.
///
/// Returns `None` when the query has no relevant document, since none of the three is then defined.
///
/// # Errors
/// [`RepeatedDocument`] when a document occurs twice, at any depth.
pub fn measure<D: AsRef<str>>(
    ranking: &[D],
    judgements: &Judgements,
) -> Result<Option<Measures>, RepeatedDocument> {
    let mut ranks = HashMap::with_capacity(ranking.len());
    for (index, document) in ranking.iter().enumerate() {
        if let Some(first) = ranks.insert(document.as_ref(), index + 1) {
            return Err(RepeatedDocument {
                document: document.as_ref().to_owned(),
                first,
                second: index + 1,
            });
        }
    }

    let mut ideal: Vec<i32> =
        judgements.values().copied().filter(|&relevance| relevance > 0).collect();
    if ideal.is_empty() {
        return Ok(None);
    }
    let relevant = ideal.len();
    ideal.sort_unstable_by(|a, b| b.cmp(a));

    let gains: Vec<i32> = ranking
        .iter()
        .take(RECALL_DEPTH)
        .map(|document| judgements.get(document.as_ref()).map_or(0, |&relevance| relevance.max(0)))
        .collect();
    let found = gains.iter().filter(|&&gain| gain > 0).count();
    let first_relevant = gains.iter().take(RECIPROCAL_RANK_DEPTH).position(|&gain| gain > 0);
    Ok(Some(Measures {
        ndcg10: discounted_gain(&gains) / discounted_gain(&ideal),
        recall100: found as f64 / relevant as f64,
        mrr10: first_relevant.map_or(0.0, |index| 1.0 / (index + 1) as f64),
    }))
}

/// `sum_{r=1..10} g_r / log2(r + 1)`.
fn discounted_gain(gains: &[i32]) -> f64 {
    gains
        .iter()
        .take(NDCG_DEPTH)
        .enumerate()
        .map(|(index, &gain)| f64::from(gain) / ((index + 2) as f64).log2())
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judged(pairs: &[(&str, i32)]) -> Judgements {
        pairs.iter().map(|&(document, relevance)| (document.to_owned(), relevance)).collect()
    }

    fn measured(ranking: &[&str], pairs: &[(&str, i32)]) -> Measures {
        measure(ranking, &judged(pairs)).unwrap().expect("a relevant document")
    }

    #[test]
    fn a_graded_example_worked_by_hand() {
        // Gains 0, 3, 0, 1 at ranks 1 to 4; ideal order 3, 2, 1.
        // DCG = 3/log2(3) + 1/log2(5) = 1.8927892607 + 0.4306765581 = 2.3234658188
        // IDCG = 3 + 2/log2(3) + 1/2 = 4.7618595071
        let found = measured(&["x", "a", "n", "c"], &[("a", 3), ("b", 2), ("c", 1), ("n", 0)]);
        assert!((found.ndcg10 - 0.487_932_459_011_548_9).abs() < 1e-9, "{}", found.ndcg10);
        assert!((found.recall100 - 2.0 / 3.0).abs() < 1e-15);
        assert_eq!(found.mrr10, 0.5);
    }

    #[test]
    fn negative_relevance_gains_nothing_and_costs_nothing() {
        assert_eq!(
            measured(&["spam", "a"], &[("a", 1), ("spam", -2)]),
            measured(&["x", "a"], &[("a", 1)])
        );
    }

    #[test]
    fn depths_are_ten_and_a_hundred() {
        let ids: Vec<String> = (0..101).map(|row| row.to_string()).collect();
        let at = |index: usize| measure(&ids, &judged(&[(&ids[index], 1)])).unwrap().unwrap();
        assert!((at(9).ndcg10 - 1.0 / 11f64.log2()).abs() < 1e-15);
        assert!((at(9).mrr10 - 0.1).abs() < 1e-15);
        assert_eq!((at(10).ndcg10, at(10).mrr10, at(10).recall100), (0.0, 0.0, 1.0));
        assert_eq!(at(99).recall100, 1.0);
        assert_eq!(at(100).recall100, 0.0);
    }

    #[test]
    fn the_ideal_stops_at_ten_and_recall_counts_all() {
        let ids: Vec<String> = (0..40).map(|row| row.to_string()).collect();
        let judgements: Judgements = ids.iter().map(|id| (id.clone(), 1)).collect();
        let found = measure(&ids[..10], &judgements).unwrap().unwrap();
        assert_eq!(found.ndcg10, 1.0);
        assert_eq!(found.recall100, 0.25);
    }

    #[test]
    fn a_query_without_a_relevant_document_has_no_measures() {
        assert_eq!(measure(&["a"], &judged(&[("a", 0), ("b", -1)])), Ok(None));
        assert_eq!(measure(&["a"], &Judgements::new()), Ok(None));
    }

    #[test]
    fn an_empty_ranking_measures_zero() {
        let found = measured(&[], &[("a", 1)]);
        assert_eq!((found.ndcg10, found.recall100, found.mrr10), (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_repeated_document_is_refused_with_both_ranks() {
        let error = measure(&["a", "b", "a"], &judged(&[("a", 1)])).unwrap_err();
        assert_eq!((error.first, error.second), (1, 3));
        assert_eq!(error.to_string(), "document \"a\" is ranked twice, at 1 and 3");
    }

    /// Walks ranks from the definitions, with natural logarithms and no shared code.
    fn oracle(ranking: &[String], judgements: &Judgements) -> Option<(f64, f64, f64)> {
        let discount = |rank: usize| std::f64::consts::LN_2 / (1.0 + rank as f64).ln();
        let mut pool: Vec<i32> = judgements.values().copied().collect();
        let (mut best, mut gain, mut hits, mut reciprocal) = (0.0, 0.0, 0, 0.0);
        for rank in 1..=10 {
            let Some(top) = (0..pool.len()).max_by_key(|&index| pool[index]) else {
                break;
            };
            let relevance = pool.swap_remove(top);
            best += if relevance > 0 { f64::from(relevance) * discount(rank) } else { 0.0 };
        }
        for rank in (1..=ranking.len().min(100)).rev() {
            match judgements.get(&ranking[rank - 1]) {
                Some(&relevance) if relevance > 0 => {
                    hits += 1;
                    if rank <= 10 {
                        gain += f64::from(relevance) * discount(rank);
                        reciprocal = 1.0 / rank as f64;
                    }
                }
                _ => {}
            }
        }
        let relevant = judgements.values().filter(|&&relevance| relevance > 0).count();
        (relevant > 0).then(|| (gain / best, f64::from(hits) / relevant as f64, reciprocal))
    }

    fn case() -> impl Strategy<Value = (Vec<String>, Judgements)> {
        let ranking =
            Just((0..150u32).map(|row| row.to_string()).collect::<Vec<_>>()).prop_shuffle();
        let judgements = prop::collection::btree_map(
            (0..200u32).prop_map(|row| row.to_string()),
            -1..4i32,
            0..60,
        );
        (ranking, 0..150usize, judgements).prop_map(|(mut ranking, length, judgements)| {
            ranking.truncate(length);
            (ranking, judgements)
        })
    }

    proptest! {
        #[test]
        fn measures_equal_the_oracle_and_stay_in_the_unit_interval((ranking, judgements) in case()) {
            let found = measure(&ranking, &judgements).unwrap();
            match oracle(&ranking, &judgements) {
                None => prop_assert_eq!(found, None),
                Some((ndcg, recall, reciprocal)) => {
                    let found = found.expect("the oracle has one");
                    prop_assert!((found.ndcg10 - ndcg).abs() < 1e-12);
                    prop_assert!((found.recall100 - recall).abs() < 1e-12);
                    prop_assert!((found.mrr10 - reciprocal).abs() < 1e-12);
                    for value in [found.ndcg10, found.recall100, found.mrr10] {
                        prop_assert!((0.0..=1.0 + 1e-12).contains(&value));
                    }
                }
            }
        }

        #[test]
        fn order_below_rank_ten_does_not_matter((ranking, judgements) in case(), seed in any::<prop::sample::Index>()) {
            let mut moved = ranking.clone();
            let tail = moved.len().min(100);
            if tail > 10 {
                moved[10..tail].rotate_left(seed.index(tail - 10));
                moved[10..tail].reverse();
            }
            prop_assert_eq!(measure(&ranking, &judgements), measure(&moved, &judgements));
        }

        #[test]
        fn lifting_a_relevant_document_never_hurts((ranking, judgements) in case(), at in any::<prop::sample::Index>()) {
            if ranking.len() > 1 {
                let rank = 1 + at.index(ranking.len() - 1);
                let gain = |index: usize| judgements.get(&ranking[index]).map_or(0, |&relevance| relevance.max(0));
                let mut lifted = ranking.clone();
                lifted.swap(rank - 1, rank);
                let (before, after) = (measure(&ranking, &judgements).unwrap(), measure(&lifted, &judgements).unwrap());
                if let (Some(before), Some(after), true) = (before, after, gain(rank) >= gain(rank - 1)) {
                    prop_assert!(after.ndcg10 >= before.ndcg10 - 1e-12);
                    prop_assert!(after.recall100 >= before.recall100);
                    prop_assert!(after.mrr10 >= before.mrr10);
                }
            }
        }
    }
}
