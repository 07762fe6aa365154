//! `shard demo`: the whole path on shipped data, for a person who has never heard of Shard.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;
use shard::evaluation::{EvaluateOptions, Evaluation, TIE};
use shard::input::Text;
use shard::{
    Answer, Choice, Embedded, EpochStatistics, FitOptions, Leak, SearchOptions, Searcher, Settings,
    Timings, Unlock, Vault,
};

use super::eval::quality_table;
use crate::args::Demo;
use crate::output::{
    Output, bytes, cut, follow, grouped, percentile, progress, progress_of_time, table,
};
use crate::scifact::{self, SciFact};
use crate::unlock;

/// Queries shown with their best documents.
const SAMPLES: [usize; 3] = [36, 35, 1];

/// Documents shown for each.
const SHOWN: usize = 3;

pub fn run(arguments: &Demo, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let SciFact { documents, queries, qrels, document_texts, query_texts } = scifact::load()?;
    output.line(format!(
        "\nSciFact: {} scientific abstracts, {} claims with human judgements, as {}-dimensional\n\
         embeddings (all-MiniLM-L6-v2). Whoever copies such vectors can nearly read the texts.\n\
         Shard lets a server rank them without being able to.\n",
        grouped(documents.ids().len()),
        queries.ids().len(),
        documents.vectors().width(),
    ))?;

    let directory = tempfile::Builder::new().prefix("shard-demo-").tempdir()?;
    let mut settings = Settings::new(arguments.cells);
    settings.d_pub = Choice::Fixed(documents.vectors().width() / 4);
    settings.candidates = Choice::Fixed(arguments.candidates);
    let unlock = Unlock::KeyFile(unlock::random_key()?);
    let mut vault = Vault::create(directory.path().join("vault"), &unlock, &settings)?;
    let start = Instant::now();
    let bar = progress_of_time("protecting");
    let watch = follow(&bar);
    let options = FitOptions { watch: &watch, ..FitOptions::default() };
    let done = vault.ingest(&documents, options);
    bar.finish_and_clear();
    done?;
    let protecting = start.elapsed();
    let searcher = vault.searcher(Embedded::serving(vault.published_rows()?))?;
    let held = searcher.server().statistics();
    output.line(protected(&searcher, &held, protecting))?;

    let bar = progress("searching", queries.ids().len());
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
    let outcome = vault.evaluate(&queries, &qrels, &options);
    bar.finish_and_clear();
    let outcome = outcome?;

    output.line(
        "2. Three of the searches. Every query went out encrypted; every score came back so.\n",
    )?;
    for sample in SAMPLES {
        let relevant = |row: u32| {
            let judged = qrels.judgements(&queries.ids()[sample]);
            let id = &documents.ids()[row as usize];
            judged.and_then(|judged| judged.get(id)).is_some_and(|&r| r > 0)
        };
        let answer = &outcome.answers[sample];
        output.line(sample_search(&query_texts[sample], answer, &document_texts, relevant))?;
    }
    output.line("   * = judged relevant by people\n")?;
    output.line(format!(
        "3. All {} queries, against raw search of the plain vectors.\n",
        queries.ids().len()
    ))?;
    output.line(quality_table(&outcome.quality))?;
    output.line(fidelity(&outcome))?;
    output.line(costs(&outcome))?;
    output.line(server_view(&outcome, &held))?;
    output.result(&report(&outcome))
}

fn protected(searcher: &Searcher<Embedded>, held: &EpochStatistics, took: Duration) -> String {
    let collection = searcher.collection().rotated().expect("the demo's vault is rotated");
    let model = collection.model();
    let split = model.split();
    let keys = match model.cells() {
        Some(cells) => format!("{} cells, a secret rotation for each", cells.count()),
        None => "a secret rotation for every document".to_owned(),
    };
    format!(
        "1. The owner protects the index ({:.1} s).\n\n   \
         {} principal coordinates per document: {} stay with the owner and find candidates,\n   \
         {} are rotated and handed to the server.\n   \
         Keys: {keys}, all from one 256-bit secret.\n   \
         The server receives {} rows of integers, {}, under random names.\n",
        took.as_secs_f64(),
        split.width(),
        split.prefix(),
        split.residual(),
        grouped(held.rows),
        bytes((held.rows * held.width * 4) as f64),
    )
}

fn sample_search(
    query: &Text,
    answer: &Answer,
    documents: &[Text],
    relevant: impl Fn(u32) -> bool,
) -> String {
    let mut lines = vec![format!("   \"{}\"", cut(&query.text, 90))];
    for hit in answer.hits.iter().take(SHOWN) {
        let mark = if relevant(hit.row) { '*' } else { ' ' };
        let title = cut(&documents[hit.row as usize].title, 80);
        lines.push(format!("    {mark} {:.5}  {title}", hit.score));
    }
    lines.push(String::new());
    lines.join("\n")
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
        "\n   Encrypted and unencrypted reranking gave the same top 10 in {same} of {} queries{swapped}.\n   \
         Worst error of any score: {:.1e}.\n",
        queries, outcome.max_abs_error
    )
}

/// Milliseconds of one phase, or of the whole, for every query.
fn milliseconds(outcome: &Evaluation, of: impl Fn(&Timings) -> Duration) -> Vec<f64> {
    outcome.answers.iter().map(|a| of(&a.cost.timings).as_secs_f64() * 1e3).collect()
}

fn mean(outcome: &Evaluation, of: impl Fn(&Answer) -> usize) -> f64 {
    let answers = &outcome.answers;
    answers.iter().map(|answer| of(answer) as f64).sum::<f64>() / answers.len() as f64
}

fn costs(outcome: &Evaluation) -> String {
    type Phase = (&'static str, fn(&Timings) -> Duration);
    let phases: [Phase; 6] = [
        ("find candidates", |t| t.route),
        ("rotate the query for each cell", |t| t.rotate),
        ("encrypt", |t| t.encrypt),
        ("server", |t| t.server),
        ("decrypt and rank", |t| t.open),
        ("whole search", Timings::total),
    ];
    let rows: Vec<Vec<String>> = phases
        .iter()
        .map(|(name, phase)| {
            let samples = milliseconds(outcome, phase);
            let figure = |fraction| format!("{:.2}", percentile(&samples, fraction));
            vec![(*name).to_owned(), figure(0.5), figure(0.95)]
        })
        .collect();
    format!(
        "4. What a search costs.\n\n{}\n\n   \
         {} up and {} down per query on average ({:.0} cells of {:.0} candidates).\n",
        table(&["milliseconds", "median", "95 %"], &rows),
        bytes(mean(outcome, |a| a.cost.bytes_up)),
        bytes(mean(outcome, |a| a.cost.bytes_down)),
        mean(outcome, |a| a.cost.active_cells),
        mean(outcome, |a| a.cost.candidates),
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
            format!("{:.0} per query", mean(outcome, |a| a.cost.candidates + a.cost.canaries))
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
        .map(|&leak| format!("   {:18} {:16} {}", leak.name(), figure(leak), leak.meaning()))
        .collect();
    format!(
        "5. What the server saw.\n\n{}\n\n   \
         It never saw a query, a score, a text, an original vector, a document's id or its rank.\n   \
         Rotated rows are not encrypted rows: docs/LEAKAGE.md says what can be done with them.\n",
        lines.join("\n")
    )
}

fn report(outcome: &Evaluation) -> serde_json::Value {
    let quality = &outcome.quality;
    let rotated = quality.rotated.as_ref().expect("the demo's vault is rotated");
    let total = milliseconds(outcome, Timings::total);
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
        "ms": { "p50": percentile(&total, 0.5), "p95": percentile(&total, 0.95) },
        "active_cells": mean(outcome, |a| a.cost.active_cells),
        "quality": quality,
    })
}
