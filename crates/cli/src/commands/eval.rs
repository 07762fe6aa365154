//! `shard eval`.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;
use shard_audit::baselines::CANDIDATES;
use shard_audit::quality::SystemQuality;
use shard_client::{Collection, Searcher, published_rows, stored_vectors};

use crate::args::Eval;
use crate::output::{Output, progress, table};
use crate::unlock;
use shard::Embedded;
use shard::evaluation::{Comparison, Outcome, Quality};
use shard::input::vectors;
use shard::input::{read_qrels, read_queries};

pub fn run(arguments: &Eval, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let read = read_queries(&arguments.queries, arguments.query_ids.as_deref())?;
    let (query_ids, queries) =
        vectors(read).with_context(|| arguments.queries.display().to_string())?;
    let qrels = read_qrels(&arguments.qrels)?;
    let vault = unlock::open(&arguments.vault)?;
    let collection = Collection::open(&vault)?;
    let (vectors, rows) = (stored_vectors(&vault)?, published_rows(&vault)?);
    let searcher = Searcher::new(Embedded::serving(rows.clone()));
    let candidates = arguments.candidates.unwrap_or(collection.model().candidates());

    let baselines = arguments.baseline.as_ref().map_or(&[][..], |baselines| &baselines.0);

    let bar = progress("searching", query_ids.len() * (1 + baselines.len()));
    let comparison = Comparison {
        collection: &collection,
        vectors: &vectors,
        published: &rows,
        searcher: &searcher,
        queries: &queries,
        query_ids: &query_ids,
        qrels: &qrels,
        candidates,
        objective: arguments.plan.objective(),
        layout: arguments.plan.layout(),
        baselines,
        baseline_candidates: arguments.candidates.unwrap_or(CANDIDATES),
    };
    let outcome = comparison.run(&|| bar.inc(1));
    bar.finish_and_clear();
    let outcome = outcome?;
    output.line(quality_table(&outcome.quality))?;
    output.line(summary(&outcome, candidates))?;

    let mut result = serde_json::to_value(&outcome.quality)?;
    let extra = json!({
        "queries": query_ids.len() - outcome.left_out,
        "left_out": outcome.left_out,
        "candidates": candidates,
        "d_pub": collection.model().split().prefix(),
        "top10_identical": outcome.top10_identical,
        "top10_strict": outcome.top10_strict,
        "max_abs_error": outcome.max_abs_error,
    });
    if let (Some(result), serde_json::Value::Object(extra)) = (result.as_object_mut(), extra) {
        result.extend(extra);
    }
    output.result(&result)
}

/// Quality of every system beside raw search.
pub fn quality_table(quality: &Quality) -> String {
    let row = |(name, system): (String, &SystemQuality)| {
        let delta = system.delta.map_or(String::new(), |delta| {
            let [low, high] = delta.ci95;
            format!("{:+.4} [{low:+.4}, {high:+.4}]", delta.delta_ndcg10)
        });
        let mean = &system.mean;
        vec![
            name,
            format!("{:.4}", mean.ndcg10),
            format!("{:.4}", mean.recall100),
            format!("{:.4}", mean.mrr10),
            delta,
        ]
    };
    let rows: Vec<_> = quality.lines().into_iter().map(row).collect();
    table(&["", "nDCG@10", "Recall@100", "MRR@10", "nDCG@10 against raw [95 %]"], &rows)
}

fn summary(outcome: &Outcome, candidates: usize) -> String {
    let mut text = format!(
        "  {} candidates a query; encrypted top 10 identical to unencrypted in {:.1} % of queries; \
         worst score error {:.1e}",
        candidates,
        100.0 * outcome.top10_identical,
        outcome.max_abs_error
    );
    if outcome.left_out > 0 {
        text.push_str(&format!("; {} queries without judgements left out", outcome.left_out));
    }
    text
}
