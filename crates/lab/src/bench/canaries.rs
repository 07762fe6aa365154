//! `shard-lab bench canaries`: whether the documents that check answers can be told.
//!
//! A vault for each way to make keys is rekeyed again and again, which chooses other canaries each time.
//! Every time the attacker has the rows of two epochs and a log of requests in which queries come again,
//! is told half of the canaries, and looks for the others. The choices are independent, so the mean area
//! over them has an interval by as much narrower.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use shard::audit::{Finding, Section, Verdict, asked_again, look_for_canaries};
use shard::input::{read_queries, read_vectors};
use shard_cli::output::{Output, progress, table};
use shard_cli::{cells, positive};
use shard_client::vault::{KdfCost, MIN_KEY_FILE_BYTES, Unlock};
use shard_client::{
    CellCount, Collection, Documents, Settings, UNWATCHED, create_vault, ingest, published_rows,
    rekey,
};
use shard_geometry::VectorSet;
use zeroize::Zeroizing;

/// What the attacker learns from the half that it is told.
const TRICKS: [&str; 2] = ["best", "together"];

/// Deviations to either side of a mean that an interval of 95 % has.
const DEVIATIONS: f64 = 1.96;

#[derive(Args)]
pub struct Canaries {
    /// Document vectors
    #[arg(long, value_name = "FILE")]
    pub docs: PathBuf,
    /// Query vectors
    #[arg(long, value_name = "FILE")]
    pub queries: PathBuf,
    /// Ways to make keys, by commas: numbers of cells, `auto` to follow the documents, or `micro`
    #[arg(long, value_delimiter = ',', default_value = "auto,1,micro", value_parser = cells)]
    pub cells: Vec<CellCount>,
    /// Requests that are recorded
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    pub requests: usize,
    /// Rekeys, each of which chooses canaries
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = positive)]
    pub rekeys: usize,
    /// Seed of keys, of the log and of the attacker
    #[arg(long, default_value_t = 2026)]
    pub seed: u64,
}

pub fn run(arguments: &Canaries, output: &Output<'_>) -> Result<()> {
    let (ids, documents) = read_vectors(&arguments.docs, None)?.into_parts();
    let (_, queries) = read_queries(&arguments.queries, None)?.into_parts();
    let mut rng = StdRng::seed_from_u64(arguments.seed);
    let queries = asked_again(&queries, arguments.requests, &mut rng);
    let given = Documents { ids: &ids, vectors: &documents, sample_queries: None };
    // Every figure that a verdict rests on counts as a try.
    let tried = arguments.cells.len() * TRICKS.len();
    let (mut rows, mut reports) = (Vec::new(), Vec::new());
    for &cells in &arguments.cells {
        let (report, lines) = attacked(arguments, cells, &given, &queries, tried, &mut rng)?;
        reports.push(report);
        rows.extend(lines);
    }
    let heads =
        ["keys", "canaries", "trick", "AUC, mean", "95 %", "smallest", "largest", "verdict"];
    output.line(table(&heads, &rows))?;
    output.line(format!(
        "  {} rekeys of each vault, {} requests; chance is 0.5; verdicts by {tried} tries",
        arguments.rekeys, arguments.requests
    ))?;
    output.result(&reports)
}

/// The attacker on one vault, after every rekey.
fn attacked(
    arguments: &Canaries,
    cells: CellCount,
    given: &Documents<'_>,
    queries: &VectorSet,
    tried: usize,
    rng: &mut StdRng,
) -> Result<(Value, Vec<Vec<String>>)> {
    let directory = tempfile::tempdir()?;
    let unlock = Unlock::KeyFile(Zeroizing::new(vec![7; MIN_KEY_FILE_BYTES]));
    let (path, cost) = (directory.path().join("vault"), KdfCost::new(8, 1, 1)?);
    let mut vault = create_vault(&path, &unlock, cost, &Settings::new(cells), rng)?;
    ingest(&mut vault, given, UNWATCHED, rng)?;
    let bar = progress("rekeys", arguments.rekeys);
    let mut older = published_rows(&vault)?;
    let (mut sections, mut canaries) = (Vec::new(), Vec::new());
    for at in 0..arguments.rekeys as u64 {
        rekey(&mut vault, UNWATCHED, rng)?;
        let (collection, held) = (Collection::open(&vault)?, published_rows(&vault)?);
        let seed = arguments.seed.wrapping_add(at);
        sections.push(look_for_canaries(&collection, &held, Some(&older), queries, seed)?);
        canaries.push(collection.index().canaries());
        older = held;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let keys = match cells {
        CellCount::Auto => "auto".to_owned(),
        CellCount::Cells(count) => count.to_string(),
        CellCount::Micro => "micro".to_owned(),
    };
    let mut lines = Vec::new();
    let mut found = serde_json::Map::new();
    for trick in TRICKS {
        let areas = figures(&sections, trick, "auc")?;
        let mean = pooled(&areas);
        let verdict = Verdict::of_best(&mean, 1.0, tried);
        let values: Vec<f64> = areas.iter().map(|finding| finding.value).collect();
        let least = values.iter().copied().fold(1.0, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        let [low, high] = mean.ci95.expect("it was just given");
        let number = |value: f64| format!("{value:.3}");
        lines.push(vec![
            keys.clone(),
            (canaries.iter().sum::<usize>() / canaries.len()).to_string(),
            trick.to_owned(),
            number(mean.value),
            format!("[{low:.3}, {high:.3}]"),
            number(least),
            number(most),
            word(verdict).to_owned(),
        ]);
        let precisions = figures(&sections, trick, "precision")?;
        let of = |value: fn(&Finding) -> Value| precisions.iter().copied().map(value).collect();
        let (precision, chance): (Vec<Value>, Vec<Value>) =
            (of(|finding| finding.value.into()), of(|finding| finding.chance.into()));
        let own = json!({
            "auc": mean.value,
            "ci95": [low, high],
            "chance": 0.5,
            "verdict": word(verdict),
            "auc_by_rekey": values,
            "ci95_by_rekey": areas.iter().map(|finding| finding.ci95).collect::<Vec<_>>(),
            "precision_by_rekey": precision,
            "precision_of_chance_by_rekey": chance,
        });
        found.insert(trick.to_owned(), own);
    }
    let report = json!({
        "cells": keys,
        "documents": given.ids.len(),
        "requests": queries.rows(),
        "rekeys": arguments.rekeys,
        "seed": arguments.seed,
        "tried": tried,
        "canaries_by_rekey": canaries,
        "tricks": found,
    });
    Ok((report, lines))
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Closed => "closed",
        Verdict::Reduced => "reduced",
        Verdict::Open => "open",
    }
}

/// A figure of every rekey.
fn figures<'s>(sections: &'s [Section], trick: &str, metric: &str) -> Result<Vec<&'s Finding>> {
    let setting = format!("trick={trick}");
    let of = |section: &'s Section| {
        let mut found = section.findings.iter();
        found
            .find(|finding| finding.setting == setting && finding.metric == metric)
            .with_context(|| section.notes.join(" "))
    };
    sections.iter().map(of).collect()
}

/// The mean of independent figures, with the interval that theirs give.
fn pooled(findings: &[&Finding]) -> Finding {
    let count = findings.len() as f64;
    let mean = findings.iter().map(|finding| finding.value).sum::<f64>() / count;
    let deviation = |finding: &&Finding| {
        let [low, high] = finding.ci95.unwrap_or([0.0, 1.0]);
        (high - low) / (2.0 * DEVIATIONS)
    };
    let variance = findings.iter().map(deviation).map(|own| own * own).sum::<f64>();
    let half = DEVIATIONS * variance.sqrt() / count;
    Finding::new("canaries", "", "auc", mean).ci95([mean - half, mean + half]).chance(0.5)
}
