//! `shard-lab reproduce`: the paper's tables on data at hand, ours beside the paper's figures.
//!
//! `corpora` reads the data; `tables` lists what can be made; `ckks` makes the one table that is
//! about cost; `claims` holds the paper's statements against what the tables found.

mod ckks;
mod claims;
mod corpora;
mod evidence;
mod tables;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use shard_audit::finding::{Finding, Section};
use shard_audit::report::{figure, json as rows};

use evidence::Evidence;
use shard::audit::{today, write_plots};
use shard_cli::output::{Output, progress, table};
use tables::{CLAIMS, TABLES};

/// The seed of every table.
const SEED: u64 = 2026;

#[derive(Args)]
pub struct Reproduce {
    /// The table, or `all`
    #[arg(value_parser = names())]
    pub table: String,
    /// Directory with a folder for each collection: docs.npy, ids.txt, queries.npy, query_ids.txt,
    /// qrels.tsv, corpus.jsonl.gz, and perhaps wordllama/ with docs.npy and queries.npy
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Directory for a .json of each table and for the plots
    #[arg(long, value_name = "DIR", default_value = "reproduce")]
    pub out: PathBuf,
}

fn names() -> PossibleValuesParser {
    let tables = TABLES.iter().map(|(name, _)| *name);
    PossibleValuesParser::new(tables.chain([CLAIMS, "all"]))
}

pub fn run(arguments: &Reproduce, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let read = corpora::read(&arguments.data)?;
    let asked = |name: &str| arguments.table == "all" || arguments.table == name;
    let wanted: Vec<_> = TABLES.iter().filter(|(name, _)| asked(name)).collect();
    let metadata = metadata(&read.checksums);
    let mut sections = Vec::new();
    let bar = progress("reproducing", wanted.len());
    for (name, make) in wanted {
        bar.set_message((*name).to_owned());
        let step = |step: &str| bar.set_message(format!("{name} {step}"));
        let section = make(&read.corpora, &step).with_context(|| format!("table {name}"))?;
        bar.suspend(|| show(&output, &section))?;
        write(&arguments.out, name, &section, &metadata)?;
        sections.push(section);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if asked(CLAIMS) {
        let evidence = Evidence::read(&arguments.out)?;
        let section = claims::section(&evidence);
        output.line(claims::text(&evidence))?;
        write(&arguments.out, CLAIMS, &section, &metadata)?;
        sections.push(section);
    }
    output.result(&document(&sections, &metadata))
}

fn write(directory: &Path, name: &str, section: &Section, metadata: &Value) -> Result<()> {
    let sections = std::slice::from_ref(section);
    let mut text = serde_json::to_string_pretty(&document(sections, metadata))?;
    text.push('\n');
    let path = directory.join(name).with_extension("json");
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, text))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(write_plots(sections, &directory.join("plots"))?)
}

fn document(sections: &[Section], metadata: &Value) -> Value {
    json!({
        "metadata": metadata,
        "sections": sections.iter().map(rows::section).collect::<Vec<_>>(),
        "findings": rows::findings(sections),
    })
}

/// A table for a person.
fn show(output: &Output<'_>, section: &Section) -> Result<()> {
    output.line(format!("\n{} ({})", section.title, section.name))?;
    section.notes.iter().try_for_each(|note| output.line(format!("  {note}")))?;
    let row = |finding: &Finding| {
        let optional = |value: Option<f64>| value.map_or(String::new(), figure::number);
        vec![
            finding.setting.clone(),
            figure::metric(&finding.metric),
            figure::number(finding.value),
            finding.ci95.map_or(String::new(), figure::interval),
            optional(finding.chance),
            optional(finding.paper),
        ]
    };
    let findings: Vec<_> = section.findings.iter().map(row).collect();
    let header = ["setting", "metric", "ours", "95 % interval", "chance", "paper"];
    output.line(if findings.is_empty() { String::new() } else { table(&header, &findings) })
}

/// What a figure must be quoted with.
fn metadata(checksums: &[(String, String)]) -> Value {
    let data: serde_json::Map<String, Value> =
        checksums.iter().map(|(file, sum)| (file.clone(), json!(sum))).collect();
    json!({
        "date": today(),
        "version": env!("CARGO_PKG_VERSION"),
        "commit": commit(),
        "seed": SEED,
        "sha256": data,
    })
}

/// The commit of the sources that the program was built from, while they are still there.
fn commit() -> Option<String> {
    let describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"];
    let asked =
        Command::new("git").arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(describe).output();
    let answer = asked.ok().filter(|answer| answer.status.success())?;
    Some(String::from_utf8(answer.stdout).ok()?.trim().to_owned())
}
