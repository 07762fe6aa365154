//! `shard search`.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::{Value, json};
use shard::baselines::{Baseline, CANDIDATES};
use shard::input::{Holds, holds, query_from, read_queries};
use shard::{
    Answer, ClientError, Cost, Documents, Error, FetchCost, FetchWay, Filter, Leak, Opened,
    Passage, SearchOptions, Searcher, Transport, Vault, Watch,
};

use super::fetch::fetch_explanation;
use super::passages;
use crate::args::Search;
use crate::output::{Output, bytes, follow, note, printable, progress, table};
use crate::{interrupt, remote, texts, unlock};

/// Decimals of scores that state no error of their own.
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
    let queries = match arguments.query.as_deref() {
        Some(path) if path == Path::new("-") => {
            Some(query_from(std::io::stdin().lock()).context("standard input")?)
        }
        // Vectors are read before a passphrase is asked for.
        Some(path) if holds(path, None)? == Holds::Vectors => Some(read_queries(path, None)?),
        _ => None,
    };
    let mut vault = unlock::open(&arguments.vault)?;
    let queries = match (queries, &arguments.query, &arguments.words) {
        (Some(queries), ..) => queries,
        (None, Some(path), _) => texts::queries(path, None, &vault, &arguments.encoder)?,
        (None, None, Some(words)) => texts::query(words, &vault, &arguments.encoder)?,
        (None, None, None) => bail!("there is no query"),
    };
    if arguments.local {
        return search_local(arguments, &vault, &queries, &output);
    }
    if let Some(baseline) = arguments.baseline {
        if arguments.server.is_some() {
            bail!("a baseline is searched in this process: leave out --server (or SHARD_SERVER)");
        }
        if !arguments.filters.is_empty() {
            bail!("--where does not go with --baseline, which ranks all documents");
        }
        return search_baseline(baseline, arguments, &vault, &queries, &output);
    }
    let options = SearchOptions {
        top: arguments.top,
        filter: arguments.filter(),
        candidates: arguments.candidates,
        probe: arguments.probe,
        objective: arguments.plan.objective(),
        layout: arguments.plan.layout(),
        ..SearchOptions::default()
    };
    let passages = arguments.shown_passages();
    let batch =
        Batch { queries: &queries, options: &options, explain: arguments.explain, passages };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match &arguments.server {
        Some(address) => {
            let remote = remote::connect(address, &arguments.connection)?;
            let parallel = arguments.parallel.unwrap_or(2 * cores);
            let mut searcher = vault.searcher(remote)?;
            let mut outcome =
                batch.prepare(&searcher).and_then(|()| batch.search(&searcher, parallel, &output));
            if outcome.as_ref().is_err_and(is_outdated) && searcher.collection().blind().is_some() {
                // All answers are of one state, so none of the old one was printed.
                let remote = remote::connect(address, &arguments.connection)?;
                let pulled = vault.pull(&remote, shard::UNWATCHED)?;
                if pulled.to > pulled.from {
                    note(&format!("this vault was behind: pulled revision {}", pulled.to));
                }
                searcher = vault.searcher(remote)?;
                outcome = batch
                    .prepare(&searcher)
                    .and_then(|()| batch.search(&searcher, parallel, &output));
            }
            if outcome.is_ok() {
                remote::warn_if_apart(searcher.server(), searcher.collection().position());
            }
            outcome.map_err(|error| {
                // What has a context says already what happened.
                if !error.chain().next().is_some_and(|outermost| outermost.is::<Error>()) {
                    return error;
                }
                match error.downcast::<Error>() {
                    Ok(error) => searcher.diagnose(error).into(),
                    Err(error) => error,
                }
            })
        }
        None => {
            let parallel = arguments.parallel.unwrap_or(cores);
            let searcher = match passages {
                Some(_) => vault.embedded_with_records(shard::UNWATCHED)?,
                None => vault.embedded()?,
            };
            batch.search(&searcher, parallel, &output)
        }
    }
}

impl Search {
    /// What all of `--where` say together.
    fn filter(&self) -> Option<Filter> {
        (!self.filters.is_empty()).then(|| Filter::all(self.filters.iter().cloned()))
    }

    /// How passages are to be shown: those of a query in words, unless told otherwise.
    fn shown_passages(&self) -> Option<ShowPassages> {
        let way = if self.direct { FetchWay::Direct } else { FetchWay::Private };
        let wanted = self.passages || self.words.is_some() && !self.no_passages;
        wanted.then_some(ShowPassages { way, full: self.full })
    }
}

/// How passages are fetched and shown.
#[derive(Clone, Copy)]
struct ShowPassages {
    way: FetchWay,
    full: bool,
}

/// Queries to search for.
struct Batch<'a> {
    queries: &'a Documents,
    options: &'a SearchOptions,
    explain: bool,
    passages: Option<ShowPassages>,
}

/// Says of fields that no document can be found by that this is so.
fn note_unknown_fields(filter: Option<&Filter>, collection: &Opened) -> Result<()> {
    let Some(filter) = filter else { return Ok(()) };
    for told in collection.unknown_fields(filter)? {
        note(&printable(&told));
    }
    Ok(())
}

impl Batch<'_> {
    /// Fetches what a first search needs, with a bar.
    fn prepare<T: Transport<Error: Into<ClientError>>>(
        &self,
        searcher: &Searcher<T>,
    ) -> Result<()> {
        let missing = searcher.missing_bytes();
        fetch_hints(missing, |watch| searcher.prepare(watch))?;
        if self.passages.is_some_and(|passages| passages.way == FetchWay::Private) {
            let missing = searcher.missing_fetch_bytes();
            fetch_hints(missing, |watch| searcher.prepare_fetch(watch))?;
        }
        Ok(())
    }

    /// Searches and prints answers in order as they come. Ctrl-C ends it with what is done so far.
    fn search<T: Transport<Error: Into<ClientError>>>(
        &self,
        searcher: &Searcher<T>,
        parallel: usize,
        output: &Output<'_>,
    ) -> Result<()> {
        interrupt::watch();
        note_unknown_fields(self.options.filter.as_ref(), searcher.collection())?;
        let ids = self.queries.ids();
        let bar = match ids.len() {
            1 => ProgressBar::hidden(),
            count => progress("searching", count),
        };
        let mut results = Vec::with_capacity(ids.len());
        let mut printed: Result<()> = Ok(());
        let each = |row: usize, answer: Answer| {
            printed = bar.suspend(|| {
                results.push(self.show(row, &answer, searcher, output)?);
                Ok(())
            });
            bar.inc(1);
            if printed.is_err() || interrupt::is_stopped() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let vectors = self.queries.vectors();
        let outcome = searcher.search_many(vectors, self.options, parallel, each);
        bar.finish_and_clear();
        printed?;
        // What was answered is not lost with the query that was not.
        if outcome.is_ok() || !results.is_empty() {
            output.result(&results)?;
        }
        outcome?;
        if results.len() < ids.len() {
            let done = format!("{} of {} queries were answered", results.len(), ids.len());
            return Err(anyhow::Error::new(Error::from(ClientError::Cancelled)).context(done));
        }
        Ok(())
    }

    /// Prints an answer, with its passages where they are wanted, and says it for a program.
    fn show<T: Transport<Error: Into<ClientError>>>(
        &self,
        row: usize,
        answer: &Answer,
        searcher: &Searcher<T>,
        output: &Output<'_>,
    ) -> Result<Value> {
        let ids = self.queries.ids();
        let digits = (-answer.precision.log10()).ceil().clamp(0.0, 15.0) as usize;
        let mut result = report(&ids[row], answer);
        let mut fetched_for = None;
        // A rotated collection keeps no records.
        let wanted = self.passages.filter(|_| searcher.collection().blind().is_some());
        let shown = match wanted {
            Some(ShowPassages { way, full }) => {
                let wanted: Vec<&str> = answer.hits.iter().map(|hit| hit.id.as_str()).collect();
                let fetched = searcher.fetch(&wanted, way)?;
                let records = fetched.records.iter().map(Option::as_deref);
                let found: Vec<Passage> = answer
                    .hits
                    .iter()
                    .zip(records)
                    .map(|(hit, record)| Passage::new(hit, record))
                    .collect();
                if let Some(result) = result.as_object_mut() {
                    let hits: Vec<Value> = found.iter().map(passages::report).collect();
                    result.insert("hits".to_owned(), hits.into());
                    result.insert("fetch".to_owned(), fetch_report(&fetched.cost, way));
                }
                fetched_for = Some((fetched.cost, way));
                passages::shown(&found, digits, full)
            }
            None => hits(&named(answer), digits),
        };
        print(output, ids, row, shown)?;
        if self.explain {
            output.line(explanation(answer))?;
            if let Some((cost, way)) = &fetched_for {
                output.line(fetch_explanation(cost, *way))?;
            }
        }
        Ok(result)
    }
}

/// Fetches hints of so many bytes, with a bar where that takes a while.
fn fetch_hints(missing: usize, fetch: impl FnOnce(&Watch<'_>) -> Result<(), Error>) -> Result<()> {
    // Less is there before it could be read.
    if missing < 1 << 20 {
        return Ok(());
    }
    note(&format!("fetching {} of hints, which are kept", bytes(missing as f64)));
    let bar = progress("fetching hints", missing);
    let done = fetch(&follow(&bar));
    bar.finish_and_clear();
    Ok(done?)
}

fn fetch_report(cost: &FetchCost, way: FetchWay) -> Value {
    json!({
        "direct": way == FetchWay::Direct,
        "slots": cost.slots,
        "messages": cost.messages,
        "bytes": { "up": cost.bytes_up, "down": cost.bytes_down, "once": cost.bytes_once },
    })
}

/// The same searches where the vectors are under a baseline.
fn search_baseline(
    baseline: Baseline,
    arguments: &Search,
    vault: &Vault,
    queries: &Documents,
    output: &Output<'_>,
) -> Result<()> {
    let searcher = vault.baseline(baseline)?;
    let candidates = arguments.candidates.unwrap_or(CANDIDATES);
    let mut results = Vec::with_capacity(queries.ids().len());
    for (row, id) in queries.ids().iter().enumerate() {
        let found = searcher.search(queries.vectors().row(row), arguments.top, candidates)?;
        let found: Vec<Named<'_>> =
            found.iter().map(|hit| Named { id: searcher.id(hit.row), score: hit.score }).collect();
        print(output, queries.ids(), row, hits(&found, BASELINE_DECIMALS))?;
        results.push(json!({ "query": id, "baseline": baseline.to_string(), "hits": found }));
    }
    output.result(&results)
}

/// Whether a search was refused because the vault is behind.
pub(super) fn is_outdated(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Error>().is_some_and(shard::is_outdated)
}

/// The same searches over the vault's own vectors.
fn search_local(
    arguments: &Search,
    vault: &Vault,
    queries: &Documents,
    output: &Output<'_>,
) -> Result<()> {
    let searcher = vault.local()?;
    let filter = arguments.filter();
    note_unknown_fields(filter.as_ref(), searcher.collection())?;
    let mut results = Vec::with_capacity(queries.ids().len());
    for (row, id) in queries.ids().iter().enumerate() {
        let found = searcher.search(queries.vectors().row(row), arguments.top, filter.as_ref())?;
        let Some(ShowPassages { full, .. }) = arguments.shown_passages() else {
            let found: Vec<Named<'_>> =
                found.iter().map(|hit| Named { id: &hit.id, score: hit.score }).collect();
            print(output, queries.ids(), row, hits(&found, BASELINE_DECIMALS))?;
            results.push(json!({ "query": id, "local": true, "hits": found }));
            continue;
        };
        let wanted: Vec<&str> = found.iter().map(|hit| hit.id.as_str()).collect();
        let records = vault.records_of(&wanted)?;
        let records = records.iter().map(Option::as_deref);
        let found: Vec<Passage> =
            found.iter().zip(records).map(|(hit, record)| Passage::new(hit, record)).collect();
        print(output, queries.ids(), row, passages::shown(&found, BASELINE_DECIMALS, full))?;
        let found: Vec<Value> = found.iter().map(passages::report).collect();
        results.push(json!({ "query": id, "local": true, "hits": found }));
    }
    output.result(&results)
}

/// A hit, for a person or a program.
#[derive(Serialize)]
struct Named<'a> {
    id: &'a str,
    score: f64,
}

fn named(answer: &Answer) -> Vec<Named<'_>> {
    answer.hits.iter().map(|hit| Named { id: &hit.id, score: hit.score }).collect()
}

/// The hits of one query, under its name where there are several.
fn print(output: &Output<'_>, ids: &[String], row: usize, hits: String) -> Result<()> {
    if ids.len() > 1 {
        output.line(format!("query {}", printable(&ids[row])))?;
    }
    output.line(hits)
}

fn hits(found: &[Named<'_>], digits: usize) -> String {
    let row = |(rank, hit): (usize, &Named<'_>)| {
        vec![(rank + 1).to_string(), format!("{:.digits$}", hit.score), printable(hit.id)]
    };
    table(&["rank", "score", "id"], &found.iter().enumerate().map(row).collect::<Vec<_>>())
}

/// Cost by phase, and for each leak what this search added to it.
fn explanation(answer: &Answer) -> String {
    if answer.cost.blocks > 0 {
        return blind_explanation(answer);
    }
    let cost = &answer.cost;
    let ms = |duration: std::time::Duration| format!("{:.2} ms", duration.as_secs_f64() * 1e3);
    let t = &cost.timings;
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
            "  scores  rounded to {:.1e} (error below {:.1e}); {} of {} documents are canaries",
            answer.precision, answer.error_bound, cost.canaries, cost.candidates
        ),
    ];
    lines.push(format!("  plan    {}", plan_in_words(cost)));
    lines.extend(server_lines(answer));
    lines.join("\n")
}

fn server_lines(answer: &Answer) -> impl Iterator<Item = String> {
    saw(answer).into_iter().map(|(leak, words)| format!("  server  {:18} {words}", leak.name()))
}

/// For each leak, what a search added to it.
pub(super) fn saw(answer: &Answer) -> Vec<(Leak, String)> {
    let cost = &answer.cost;
    let (up, down) = (bytes(cost.bytes_up as f64), bytes(cost.bytes_down as f64));
    let shape = format!("{up} up, {down} down");
    if cost.blocks > 0 {
        if cost.active_cells == 0 {
            return vec![(Leak::RequestShape, format!("{shape}: the same for every query"))];
        }
        let cells = format!("{} cells: {}", cost.active_cells, Leak::ActiveCells.meaning());
        let shape = format!("{shape}: the same for every query of these cells");
        return vec![(Leak::ActiveCells, cells), (Leak::RequestShape, shape)];
    }
    let mut saw = vec![
        (Leak::ActiveCells, format!("{} cells", cost.active_cells)),
        (Leak::CandidateHandles, format!("{} rows", cost.candidates)),
        (Leak::RequestShape, shape),
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
        saw.push((Leak::PrefixScores, format!("{} scores", cost.candidates)));
    }
    let told = |(leak, figure): (Leak, String)| (leak, format!("{figure}: {}", leak.meaning()));
    saw.into_iter().map(told).collect()
}

/// The same for a blind collection.
fn blind_explanation(answer: &Answer) -> String {
    let cost = &answer.cost;
    let ms = |duration: std::time::Duration| format!("{:.2} ms", duration.as_secs_f64() * 1e3);
    let t = &cost.timings;
    let (up, down) = (bytes(cost.bytes_up as f64), bytes(cost.bytes_down as f64));
    let shape = format!("{up} up, {down} down");
    let mut lines = vec![
        format!(
            "  time    {} = encrypt {} + server, and secret products meanwhile {} + check and open {}",
            ms(t.total()),
            ms(t.encrypt),
            ms(t.server),
            ms(t.open)
        ),
        format!("  sent    {shape}; {} in {} blocks scored", scored(cost), cost.blocks),
        format!(
            "  scores  rounded to {:.1e} (error below {:.1e}); the whole answer was checked",
            answer.precision, answer.error_bound
        ),
    ];
    if cost.bytes_once > 0 {
        lines.push(format!("  once    {} of hints and checks", bytes(cost.bytes_once as f64)));
    }
    lines.extend(server_lines(answer));
    lines.join("\n")
}

/// Which documents a search of a blind collection scores.
fn scored(cost: &Cost) -> String {
    match cost.active_cells {
        0 => format!("all {} documents", cost.candidates),
        cells => format!("the {} documents of {cells} cells", cost.candidates),
    }
}

fn plan_in_words(cost: &Cost) -> String {
    if cost.blocks > 0 && cost.active_cells > 0 {
        return format!("blind, {} blocks of {} cells", cost.blocks, cost.active_cells);
    }
    if cost.blocks > 0 {
        return format!("blind, {} blocks", cost.blocks);
    }
    cost.plan.as_ref().map_or("slots, as the paper has it".to_owned(), ToString::to_string)
}

fn report(id: &str, answer: &Answer) -> Value {
    let cost = &answer.cost;
    json!({
        "query": id,
        "hits": named(answer),
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
