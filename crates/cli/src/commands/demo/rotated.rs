//! The second act: the paper's construction, for comparison.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use shard::evaluation::{EvaluateOptions, Evaluation, TIE};
use shard::{
    Choice, Embedded, EpochStatistics, FitOptions, Leak, SearchOptions, Searcher, Settings, Unlock,
    Vault,
};

use super::{mean, milliseconds, total_ms};
use crate::args::Demo;
use crate::commands::eval::quality_table;
use crate::output::{Output, bytes, follow, grouped, percentile, progress, progress_of_time};
use crate::scifact::SciFact;
use crate::unlock;

pub fn run(
    set: &SciFact,
    directory: &Path,
    arguments: &Demo,
    output: &Output<'_>,
) -> Result<Value> {
    let mut settings = Settings::new(arguments.cells);
    settings.d_pub = Choice::Fixed(set.documents.vectors().width() / 4);
    settings.candidates = Choice::Fixed(arguments.candidates);
    let unlock = Unlock::KeyFile(unlock::random_key()?);
    let mut vault = Vault::create(directory, &unlock, &settings)?;
    let start = Instant::now();
    let bar = progress_of_time("protecting");
    let watch = follow(&bar);
    let options = FitOptions { watch: &watch, ..FitOptions::default() };
    let done = vault.ingest(&set.documents, options);
    bar.finish_and_clear();
    done?;
    let protecting = start.elapsed();
    let searcher = vault.searcher(Embedded::serving(vault.published_rows()?))?;
    let held = searcher.server().statistics();
    output.line(protected(&searcher, &held, protecting))?;

    let bar = progress("searching", set.queries.ids().len());
    let watch = follow(&bar);
    let options = EvaluateOptions {
        search: SearchOptions {
            candidates: Some(arguments.candidates),
            objective: arguments.plan.objective(),
            layout: arguments.plan.layout(),
            ..SearchOptions::default()
        },
        watch: &watch,
        ..EvaluateOptions::default()
    };
    let outcome = vault.evaluate(&set.queries, &set.qrels, &options);
    bar.finish_and_clear();
    let outcome = outcome?;
    output.line(quality_table(&outcome.quality))?;
    output.line(fidelity(&outcome))?;
    output.line(server_view(&outcome, &held))?;
    Ok(report(&outcome))
}

fn protected(searcher: &Searcher<Embedded>, held: &EpochStatistics, took: Duration) -> String {
    let collection = searcher.collection().rotated().expect("this vault is rotated");
    let model = collection.model();
    let split = model.split();
    let keys = match model.cells() {
        Some(cells) => format!("{} cells, a secret rotation for each", cells.count()),
        None => "a secret rotation for every document".to_owned(),
    };
    format!(
        "7. For comparison, the paper's construction ({:.1} s to protect).\n\n   \
         {} principal coordinates stay with the owner and find candidates; {} are rotated and handed\n   \
         to the server as {} rows of integers, {}. Keys: {keys}.\n",
        took.as_secs_f64(),
        split.prefix(),
        split.residual(),
        grouped(held.rows),
        bytes((held.rows * held.width * 4) as f64),
    )
}

fn fidelity(outcome: &Evaluation) -> String {
    let queries = outcome.answers.len();
    let count = |share: f64| (share * queries as f64).round() as usize;
    let (same, strict) = (count(outcome.top10_identical), count(outcome.top10_strict));
    let swapped = match same - strict {
        0 => String::new(),
        swapped => format!(" (in {swapped}, documents within {TIE:.0e} of each other swapped)"),
    };
    format!(
        "\n   Encrypted and unencrypted reranking gave the same top 10 in {same} of {queries} queries{swapped}.\n   \
         Worst error of any score: {:.1e}. A search: {:.2} ms at the median, {} up, {} down.\n",
        outcome.max_abs_error,
        percentile(&milliseconds(outcome, shard::Timings::total), 0.5),
        bytes(mean(outcome, |a| a.cost.bytes_up)),
        bytes(mean(outcome, |a| a.cost.bytes_down)),
    )
}

fn server_view(outcome: &Evaluation, held: &EpochStatistics) -> String {
    let total = mean(outcome, |a| a.cost.bytes_up + a.cost.bytes_down);
    let figure = |leak| match leak {
        Leak::StoredRows => format!("{} x {}", grouped(held.rows), held.width),
        Leak::CellMembership => format!("{} groups", grouped(held.cells)),
        Leak::CollectionShape => "epoch 1".to_owned(),
        Leak::ActiveCells => format!("{:.0} per query", mean(outcome, |a| a.cost.active_cells)),
        Leak::CandidateHandles => {
            format!("{:.0} per query", mean(outcome, |a| a.cost.candidates))
        }
        Leak::RequestShape => format!("{} per query", bytes(total)),
        Leak::SessionLinkage => {
            let sessions = outcome.answers.iter().filter(|a| a.cost.bytes_once > 0).count();
            if sessions == 0 { "none".to_owned() } else { format!("{sessions} sessions") }
        }
        #[cfg(feature = "slots")]
        Leak::PrefixScores if outcome.answers.iter().any(|a| a.cost.plan.is_none()) => {
            "one per row".to_owned()
        }
        _ => "none".to_owned(),
    };
    let lines: Vec<String> = Leak::ALL
        .iter()
        .filter(|leak| **leak != Leak::BlockChanges)
        .map(|&leak| format!("   {:18} {:16} {}", leak.name(), figure(leak), leak.meaning()))
        .collect();
    format!(
        "   What its server saw:\n\n{}\n\n   \
         Rotated rows are not encrypted rows: docs/LEAKAGE.md says what can be done with them.\n",
        lines.join("\n")
    )
}

fn report(outcome: &Evaluation) -> Value {
    let quality = &outcome.quality;
    let rotated = quality.rotated.as_ref().expect("this vault is rotated");
    let most = outcome.answers.iter().map(|a| a.cost.bytes_up + a.cost.bytes_down).max();
    json!({
        "queries": outcome.answers.len(),
        "ndcg10": {
            "raw": quality.raw.mean.ndcg10,
            "plain": rotated.shard_plain.mean.ndcg10,
            "encrypted": rotated.shard_encrypted.mean.ndcg10,
        },
        "top10_identical": outcome.top10_identical,
        "top10_strict": outcome.top10_strict,
        "max_abs_error": outcome.max_abs_error,
        "bytes": {
            "up": mean(outcome, |a| a.cost.bytes_up).round(),
            "down": mean(outcome, |a| a.cost.bytes_down).round(),
            "most": most,
            "once": outcome.answers.iter().map(|a| a.cost.bytes_once).max(),
        },
        "ms": total_ms(outcome),
        "active_cells": mean(outcome, |a| a.cost.active_cells),
        "quality": quality,
    })
}
