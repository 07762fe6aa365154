//! `shard eval`.

use std::path::Path;

use anyhow::Result;
use shard::SearchOptions;
use shard::evaluation::{EvaluateOptions, Evaluation, Quality, SystemQuality};
use shard::input::read_qrels;

use crate::args::Eval;
use crate::output::{Output, follow, progress, table};
use crate::{texts, unlock};

pub fn run(arguments: &Eval, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let qrels = read_qrels(&arguments.qrels)?;
    let vault = unlock::open(&arguments.vault)?;
    let query_ids = arguments.query_ids.as_deref();
    let queries = texts::queries(&arguments.queries, query_ids, &vault, &arguments.encoder)?;
    let baselines = arguments.baseline.as_ref().map_or(&[][..], |baselines| &baselines.0);

    let bar = progress("searching", queries.ids().len() * (1 + baselines.len()));
    let watch = follow(&bar);
    let options = EvaluateOptions {
        search: SearchOptions {
            candidates: arguments.candidates,
            probe: arguments.probe,
            objective: arguments.plan.objective(),
            layout: arguments.plan.layout(),
            ..SearchOptions::default()
        },
        baselines,
        watch: &watch,
    };
    let outcome = vault.evaluate(&queries, &qrels, &options);
    bar.finish_and_clear();
    let outcome = outcome?;
    output.line(quality_table(&outcome.quality))?;
    output.line(summary(&outcome))?;
    output.result(&outcome)
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

fn summary(outcome: &Evaluation) -> String {
    let (same, error) = (100.0 * outcome.top10_identical, outcome.max_abs_error);
    let mut text = if outcome.quality.shard_blind.is_some() {
        let scored = match outcome.cells {
            None => format!("all {} documents scored", outcome.candidates),
            Some(cells) => format!(
                "{} documents of {cells} cells scored for a query, with {:.2} % of the raw top 10 among them",
                outcome.candidates,
                100.0 * outcome.recall10.unwrap_or_default()
            ),
        };
        format!(
            "  {scored}; top 10 that of raw search in {same:.1} % of queries; worst score error {error:.1e}"
        )
    } else {
        format!(
            "  {} candidates per query; encrypted top 10 identical to unencrypted in {same:.1} % of \
             queries; worst score error {error:.1e}",
            outcome.candidates
        )
    };
    if outcome.left_out > 0 {
        text.push_str(&format!("; {} queries without judgements left out", outcome.left_out));
    }
    text
}
