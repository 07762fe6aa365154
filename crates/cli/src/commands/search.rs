//! `shard search`.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use serde_json::json;
use shard_audit::baselines::{Baseline, CANDIDATES};
use shard_client::{
    Answer, ClientError, Collection, Cost, Hit, SearchOptions, Searcher, Transport, published_rows,
    stored_vectors,
};
use shard_geometry::{Ranked, VectorSet};
use shard_protocol::Leak;

use crate::args::Search;
use crate::output::{Output, bytes, printable, progress, table};
use crate::{interrupt, remote, unlock};
use shard::Embedded;
use shard::baselines;
use shard::input::read_queries;
use shard::input::vectors;

/// Decimals of a baseline's scores, which state no error of their own.
const BASELINE_DECIMALS: usize = 6;

pub fn run(arguments: &Search, json: Option<&Path>) -> Result<()> {
    if let (Some(baseline), Some(_)) =
        (arguments.baseline.filter(|&baseline| baseline != Baseline::Global), arguments.candidates)
    {
        bail!(
            "--candidates is for searches that make a shortlist, and the baseline {baseline} ranks all documents"
        );
    }
    let output = Output::new(json);
    let (ids, queries) = vectors(read_queries(&arguments.query, None)?)
        .with_context(|| arguments.query.display().to_string())?;
    let vault = unlock::open(&arguments.vault)?;
    let collection = Collection::open(&vault)?;
    if let Some(baseline) = arguments.baseline {
        if arguments.server.is_some() {
            bail!("a baseline is searched in this process: leave out --server (or SHARD_SERVER)");
        }
        let vectors = stored_vectors(&vault)?;
        return search_baseline(
            baseline,
            arguments,
            &collection,
            &vectors,
            (&ids, &queries),
            &output,
        );
    }
    let options = SearchOptions {
        top: arguments.top,
        candidates: arguments.candidates,
        probe: arguments.nprobe,
        objective: arguments.plan.objective(),
        layout: arguments.plan.layout(),
        ..SearchOptions::default()
    };
    let batch = Batch { collection: &collection, ids: &ids, queries: &queries, options: &options };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match &arguments.server {
        Some(address) => {
            let remote = remote::connect(address, &arguments.connection)?;
            let parallel = arguments.parallel.unwrap_or(2 * cores);
            let outcome = batch.search(&remote, parallel, arguments.explain, &output);
            remote::warn_if_apart(&remote, &collection);
            outcome
        }
        None => {
            let parallel = arguments.parallel.unwrap_or(cores);
            batch.search(
                &Embedded::serving(published_rows(&vault)?),
                parallel,
                arguments.explain,
                &output,
            )
        }
    }
}

/// Queries to search for.
struct Batch<'a> {
    collection: &'a Collection,
    ids: &'a [String],
    queries: &'a VectorSet,
    options: &'a SearchOptions,
}

impl Batch<'_> {
    /// Searches and prints answers in order as they come. Ctrl-C ends it with what is done so far.
    fn search(
        &self,
        transport: &impl Transport<Error: Into<ClientError>>,
        parallel: usize,
        explain: bool,
        output: &Output<'_>,
    ) -> Result<()> {
        interrupt::watch();
        let searcher = Searcher::new(transport);
        let bar = match self.ids.len() {
            1 => ProgressBar::hidden(),
            count => progress("searching", count),
        };
        let mut results = Vec::with_capacity(self.ids.len());
        let mut printed = Ok(());
        let each = |row: usize, answer: Answer| {
            printed = bar.suspend(|| self.print(row, &answer, explain, output));
            results.push(report(&self.ids[row], &answer));
            bar.inc(1);
            if printed.is_err() || interrupt::is_stopped() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let (collection, queries) = (self.collection, self.queries);
        let outcome = searcher.search_many(collection, queries, self.options, parallel, each);
        bar.finish_and_clear();
        printed?;
        // What was answered is not lost with the query that was not.
        if outcome.is_ok() || !results.is_empty() {
            output.result(&results)?;
        }
        outcome?;
        if results.len() < self.ids.len() {
            let done = format!("{} of {} queries were answered", results.len(), self.ids.len());
            return Err(anyhow::Error::new(ClientError::Cancelled).context(done));
        }
        Ok(())
    }

    fn print(&self, row: usize, answer: &Answer, explain: bool, output: &Output<'_>) -> Result<()> {
        let digits = (-answer.precision.log10()).ceil().clamp(0.0, 15.0) as usize;
        print(output, self.ids, row, hits(&answer.hits, digits))?;
        if explain {
            output.line(explanation(answer))?;
        }
        Ok(())
    }
}

/// The same searches where the vectors are under a baseline.
fn search_baseline(
    baseline: Baseline,
    arguments: &Search,
    collection: &Collection,
    vectors: &VectorSet,
    (ids, queries): (&[String], &VectorSet),
    output: &Output<'_>,
) -> Result<()> {
    let protected = baselines::protect(baseline, vectors)?;
    let candidates = arguments.candidates.unwrap_or(CANDIDATES);
    let index = collection.index();
    let mut results = Vec::with_capacity(ids.len());
    for (row, id) in ids.iter().enumerate() {
        let found = protected.search(queries.row(row), arguments.top, candidates)?;
        let found: Vec<Hit> = found
            .into_iter()
            .map(|Ranked { row, score }| Hit { id: index.id(row).to_owned(), row, score })
            .collect();
        print(output, ids, row, hits(&found, BASELINE_DECIMALS))?;
        results.push(json!({
            "query": id,
            "baseline": baseline.to_string(),
            "hits": named(&found),
        }));
    }
    output.result(&results)
}

/// The hits of one query, under its name where there are several.
fn print(output: &Output<'_>, ids: &[String], row: usize, hits: String) -> Result<()> {
    if ids.len() > 1 {
        output.line(format!("query {}", printable(&ids[row])))?;
    }
    output.line(hits)
}

fn hits(found: &[Hit], digits: usize) -> String {
    let rows: Vec<Vec<String>> = found
        .iter()
        .enumerate()
        .map(|(rank, hit)| {
            vec![(rank + 1).to_string(), format!("{:.digits$}", hit.score), printable(&hit.id)]
        })
        .collect();
    table(&["rank", "score", "id"], &rows)
}

/// Cost by phase, and for each leak what this search added to it.
fn explanation(answer: &Answer) -> String {
    let cost = &answer.cost;
    let ms = |duration: std::time::Duration| format!("{:.2} ms", duration.as_secs_f64() * 1e3);
    let t = &cost.timings;
    let mut saw = vec![
        (Leak::ActiveCells, format!("{} cells", cost.active_cells)),
        (
            Leak::CandidateHandles,
            format!("{} rows, {} of them canaries", cost.candidates + cost.canaries, cost.canaries),
        ),
        (
            Leak::RequestShape,
            format!("{} up, {} down", bytes(cost.bytes_up as f64), bytes(cost.bytes_down as f64)),
        ),
    ];
    if cost.plan.as_ref().is_none_or(|plan| plan.span.is_some()) {
        let keys = match cost.bytes_once {
            0 => "keys sent before".to_owned(),
            sent => format!("{} of keys sent first", bytes(sent as f64)),
        };
        saw.push((Leak::SessionLinkage, keys));
    }
    #[cfg(feature = "slots")]
    if cost.plan.is_none() {
        let scores = cost.candidates + cost.canaries;
        saw.push((Leak::PrefixScores, format!("{scores} scores")));
    }
    let mut lines = vec![
        format!(
            "  time    {} = route {} + rotate {} + encrypt {} + server {} + open {}",
            ms(t.total()),
            ms(t.route),
            ms(t.rotate),
            ms(t.encrypt),
            ms(t.server),
            ms(t.open)
        ),
        format!(
            "  sent    {} in {} ciphertexts; received {} in {}",
            bytes(cost.bytes_up as f64),
            cost.query_ciphertexts,
            bytes(cost.bytes_down as f64),
            cost.response_ciphertexts
        ),
        format!(
            "  scores  rounded to {:.1e} (error below {:.1e})",
            answer.precision, answer.error_bound
        ),
    ];
    lines.push(format!("  plan    {}", plan_in_words(cost)));
    for (leak, figure) in saw {
        lines.push(format!("  server  {:18} {figure}: {}", leak.name(), leak.meaning()));
    }
    lines.join("\n")
}

fn plan_in_words(cost: &Cost) -> String {
    cost.plan.as_ref().map_or("slots, as the paper has it".to_owned(), ToString::to_string)
}

/// Hits for a program.
fn named(found: &[Hit]) -> Vec<serde_json::Value> {
    let hit = |hit: &Hit| json!({ "id": hit.id, "score": hit.score });
    found.iter().map(hit).collect()
}

fn report(id: &str, answer: &Answer) -> serde_json::Value {
    let cost = &answer.cost;
    json!({
        "query": id,
        "hits": named(&answer.hits),
        "precision": answer.precision,
        "error_bound": answer.error_bound,
        "candidates": cost.candidates,
        "canaries": cost.canaries,
        "active_cells": cost.active_cells,
        "query_ciphertexts": cost.query_ciphertexts,
        "response_ciphertexts": cost.response_ciphertexts,
        "bytes": { "up": cost.bytes_up, "down": cost.bytes_down, "once": cost.bytes_once },
        "plan": plan_in_words(cost),
        "ms": cost.timings.total().as_secs_f64() * 1e3,
    })
}
