//! `shard demo`: the whole path on shipped data, for a person who has never heard of Shard.
//!
//! First a blind collection (`blind`), then the paper's construction in a few lines (`rotated`).

mod blind;
mod rotated;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use shard::evaluation::Evaluation;
use shard::{Answer, Timings};

use crate::args::Demo;
use crate::output::{Output, grouped, percentile};
use crate::scifact;

pub fn run(arguments: &Demo, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let set = scifact::load()?;
    output.line(format!(
        "\nSciFact: {} scientific abstracts, {} claims with human judgements, as {}-dimensional\n\
         embeddings (all-MiniLM-L6-v2). Whoever copies such vectors can nearly read the texts.\n\
         Shard lets a server rank them without being able to.\n",
        grouped(set.documents.ids().len()),
        set.queries.ids().len(),
        set.documents.vectors().width(),
    ))?;
    let directory = tempfile::Builder::new().prefix("shard-demo-").tempdir()?;
    let blind = blind::run(&set, &directory.path().join("blind"), &output)?;
    let mut report = rotated::run(&set, &directory.path().join("rotated"), arguments, &output)?;
    if let Some(report) = report.as_object_mut() {
        report.insert("blind".to_owned(), blind);
    }
    output.result(&report)
}

/// Milliseconds of one phase, or of the whole, for every query.
fn milliseconds(outcome: &Evaluation, of: impl Fn(&Timings) -> Duration) -> Vec<f64> {
    outcome.answers.iter().map(|a| of(&a.cost.timings).as_secs_f64() * 1e3).collect()
}

fn mean(outcome: &Evaluation, of: impl Fn(&Answer) -> usize) -> f64 {
    let answers = &outcome.answers;
    answers.iter().map(|answer| of(answer) as f64).sum::<f64>() / answers.len() as f64
}

/// Times of whole searches, for a program.
fn total_ms(outcome: &Evaluation) -> serde_json::Value {
    let total = milliseconds(outcome, Timings::total);
    json!({ "p50": percentile(&total, 0.5), "p95": percentile(&total, 0.95) })
}
