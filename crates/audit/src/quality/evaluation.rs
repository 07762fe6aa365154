//! A whole run: per-query measures, their means, and the difference between two runs.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{
    Bootstrap, BootstrapError, Measures, Qrels, RepeatedDocument, measure, paired_bootstrap,
};

/// The measures of a run, query by query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Ids of the measured queries, in the order of the run.
    pub queries: Vec<String>,
    /// The measures of each of them.
    pub measures: Vec<Measures>,
    /// Queries of the run that have no relevant document and therefore no part in the means.
    pub left_out: usize,
    /// Queries with a relevant document that the run does not answer; they have no part in the means either.
    pub unanswered: usize,
}

/// A run that cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluateError {
    /// A query is answered twice.
    #[error("query {query:?} is answered twice")]
    RepeatedQuery {
        /// The query's id.
        query: String,
    },
    /// A ranking lists a document twice.
    #[error("query {query:?}: {source}")]
    Ranking {
        /// The query's id.
        query: String,
        /// The document and its ranks.
        source: RepeatedDocument,
    },
    /// No query of the run has a relevant document, so there is nothing to average.
    #[error(
        "none of the {answered} queries of the run has a relevant document among {judged} judged queries"
    )]
    NothingMeasured {
        /// Queries in the run.
        answered: usize,
        /// Queries in the judgements.
        judged: usize,
    },
}

/// Measures a run: query ids, each with its document ids, best first.
///
/// Queries without a relevant document are left out of the means and counted, as BEIR does.
///
/// # Errors
/// A query or a document that occurs twice; a run without a single measurable query.
pub fn evaluate<Q: AsRef<str>, D: AsRef<str>>(
    qrels: &Qrels,
    run: &[(Q, Vec<D>)],
) -> Result<Evaluation, EvaluateError> {
    let mut evaluation =
        Evaluation { queries: Vec::new(), measures: Vec::new(), left_out: 0, unanswered: 0 };
    let mut answered = HashSet::with_capacity(run.len());
    for (query, ranking) in run {
        let query = query.as_ref();
        if !answered.insert(query) {
            return Err(EvaluateError::RepeatedQuery { query: query.to_owned() });
        }
        let measured = match qrels.judgements(query) {
            Some(judgements) => measure(ranking, judgements)
                .map_err(|source| EvaluateError::Ranking { query: query.to_owned(), source })?,
            None => None,
        };
        match measured {
            Some(measures) => {
                evaluation.queries.push(query.to_owned());
                evaluation.measures.push(measures);
            }
            None => evaluation.left_out += 1,
        }
    }
    if evaluation.queries.is_empty() {
        return Err(EvaluateError::NothingMeasured { answered: run.len(), judged: qrels.len() });
    }
    evaluation.unanswered = qrels
        .iter()
        .filter(|(query, judgements)| {
            !answered.contains(query) && judgements.values().any(|&relevance| relevance > 0)
        })
        .count();
    Ok(evaluation)
}

impl Evaluation {
    /// The mean of each measure over the measured queries.
    pub fn mean(&self) -> Measures {
        let mean = |measure: fn(&Measures) -> f64| {
            self.measures.iter().map(measure).sum::<f64>() / self.measures.len() as f64
        };
        Measures {
            ndcg10: mean(|measures| measures.ndcg10),
            recall100: mean(|measures| measures.recall100),
            mrr10: mean(|measures| measures.mrr10),
        }
    }

    fn ndcg10(&self) -> Vec<f64> {
        self.measures.iter().map(|measures| measures.ndcg10).collect()
    }
}

/// How a system differs from a baseline on the same queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Delta {
    /// Mean nDCG@10 of the system less that of the baseline.
    pub delta_ndcg10: f64,
    /// Its 95 % interval, `[lo, hi]`, by paired bootstrap.
    pub ci95: [f64; 2],
}

/// Two evaluations that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// The two measured different queries, or in a different order.
    #[error("query {position} is {baseline:?} in the baseline and {system:?} in the system")]
    DifferentQueries {
        /// Position of the first difference, counted from 0.
        position: usize,
        /// The baseline's query there, if it has one.
        baseline: Option<String>,
        /// The system's query there, if it has one.
        system: Option<String>,
    },
    /// The resampling failed.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
}

/// The mean difference in nDCG@10, system less baseline, with its bootstrap interval.
///
/// # Errors
/// When the two evaluations are not of the same queries in the same order, or the bootstrap has nothing to draw.
pub fn compare(
    baseline: &Evaluation,
    system: &Evaluation,
    bootstrap: Bootstrap,
) -> Result<Delta, CompareError> {
    let longest = baseline.queries.len().max(system.queries.len());
    for position in 0..longest {
        let (ours, theirs) = (baseline.queries.get(position), system.queries.get(position));
        if ours != theirs {
            return Err(CompareError::DifferentQueries {
                position,
                baseline: ours.cloned(),
                system: theirs.cloned(),
            });
        }
    }
    Ok(Delta {
        delta_ndcg10: system.mean().ndcg10 - baseline.mean().ndcg10,
        ci95: paired_bootstrap(&baseline.ndcg10(), &system.ndcg10(), bootstrap)?,
    })
}

/// One line of a quality table: the means of a system and, unless it is the baseline, its distance from that.
/// Serialises flat: `ndcg10`, `recall100`, `mrr10`, and `delta_ndcg10` with `ci95` where there is a baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SystemQuality {
    /// The means.
    #[serde(flatten)]
    pub mean: Measures,
    /// The difference from the baseline; none for the baseline itself.
    #[serde(flatten)]
    pub delta: Option<Delta>,
}

impl SystemQuality {
    /// The line of the baseline.
    pub fn baseline(evaluation: &Evaluation) -> Self {
        Self { mean: evaluation.mean(), delta: None }
    }

    /// The line of a system beside a baseline.
    ///
    /// # Errors
    /// As [`compare`].
    pub fn against(
        baseline: &Evaluation,
        system: &Evaluation,
        bootstrap: Bootstrap,
    ) -> Result<Self, CompareError> {
        Ok(Self { mean: system.mean(), delta: Some(compare(baseline, system, bootstrap)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qrels() -> Qrels {
        Qrels::parse("q1 a 1\nq2 b 1\nq3 c 0\nq4 d 2").unwrap()
    }

    fn run(lists: &[(&'static str, &[&'static str])]) -> Vec<(&'static str, Vec<&'static str>)> {
        lists.iter().map(|&(query, documents)| (query, documents.to_vec())).collect()
    }

    #[test]
    fn queries_without_relevant_documents_are_counted_and_not_averaged() {
        let found = evaluate(
            &qrels(),
            &run(&[("q2", &["b"]), ("q3", &["c"]), ("q9", &["c"]), ("q1", &["x", "a"])]),
        );
        let found = found.unwrap();
        assert_eq!(found.queries, ["q2", "q1"]);
        assert_eq!((found.left_out, found.unanswered), (2, 1));
        assert_eq!(found.mean().mrr10, 0.75);
        assert_eq!(found.mean().recall100, 1.0);
        assert!((found.mean().ndcg10 - (1.0 + 1.0 / 3f64.log2()) / 2.0).abs() < 1e-15);
    }

    #[test]
    fn repetitions_are_refused_by_name() {
        let twice = evaluate(&qrels(), &run(&[("q1", &["a"]), ("q1", &["a"])])).unwrap_err();
        assert_eq!(twice.to_string(), "query \"q1\" is answered twice");
        let document = evaluate(&qrels(), &run(&[("q1", &["a", "a"])])).unwrap_err();
        assert_eq!(
            document.to_string(),
            "query \"q1\": document \"a\" is ranked twice, at 1 and 2"
        );
    }

    #[test]
    fn a_run_with_nothing_to_measure_is_an_error_and_not_a_nan() {
        let error = evaluate(&qrels(), &run(&[("q3", &["c"])])).unwrap_err();
        assert_eq!(error, EvaluateError::NothingMeasured { answered: 1, judged: 4 });
    }

    #[test]
    fn a_comparison_pairs_queries_and_refuses_others() {
        let raw = evaluate(&qrels(), &run(&[("q1", &["a"]), ("q2", &["b"])])).unwrap();
        let worse = evaluate(&qrels(), &run(&[("q1", &["a"]), ("q2", &["x"])])).unwrap();
        let delta = compare(&raw, &worse, Bootstrap::default()).unwrap();
        assert_eq!(delta.delta_ndcg10, -0.5);
        assert_eq!(delta.ci95, [-1.0, 0.0]);

        let fewer = evaluate(&qrels(), &run(&[("q1", &["a"])])).unwrap();
        let error = compare(&raw, &fewer, Bootstrap::default()).unwrap_err();
        assert_eq!(
            error,
            CompareError::DifferentQueries {
                position: 1,
                baseline: Some("q2".into()),
                system: None
            }
        );
    }
}
