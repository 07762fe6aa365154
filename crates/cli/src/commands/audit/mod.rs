//! `shard audit`: what a thief of the index would learn, measured on the owner's own vectors.
//!
//! `vault` and `foreign` make what is attacked, from a vault or from somebody else's vectors;
//! `sample` keeps large collections within what the attacks can do in minutes; `recorded` notes
//! what the server gets of sample queries; `held` puts together what it has. By the time an attack runs, the vault is closed.

mod arguments;
mod foreign;
mod held;
mod recorded;
mod sample;
mod vault;

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::json;
use shard_audit::finding::{Finding, Section};
use shard_audit::report::gate::{Outcome, Policy};
use shard_audit::report::{self, Metadata, Report, channels, figure, page, plot};
use shard_audit::subject::Subject;
use shard_audit::text;
use shard_geometry::VectorSet;

pub use arguments::Audit;

use crate::output::{Output, progress, table};
use shard::input::write_npy;

/// What is attacked, and what its reader must know.
struct Audited {
    subject: Subject,
    /// For people.
    name: String,
    /// Documents there are, of which the subject may have a sample.
    documents: usize,
    /// Names of the subject's documents, in its order.
    ids: Vec<String>,
    /// What was counted before the sample was drawn, where there is one.
    whole: Option<Whole>,
    notes: Vec<String>,
}

/// Counts over everything the server has. On a sample of whole cells they would be off: pairs of
/// rows share a key more often, and requests touch fewer cells.
struct Whole {
    shape: Section,
    /// Figures on recorded requests, in place of those on the sample.
    requests: Vec<Finding>,
}

impl Whole {
    /// Puts the counts in the place of the sample's.
    fn replace(self, sections: &mut [Section]) {
        for section in sections {
            if section.name == self.shape.name {
                *section = self.shape.clone();
                continue;
            }
            for own in &mut section.findings {
                let same = |counted: &&Finding| {
                    (&counted.channel, &counted.setting, &counted.metric)
                        == (&own.channel, &own.setting, &own.metric)
                };
                if let Some(counted) = self.requests.iter().find(same) {
                    *own = counted.clone();
                }
            }
        }
    }
}

/// The thresholds of a policy are not met: neither success nor a failure of the program.
#[derive(Debug, thiserror::Error)]
#[error("the gate is not met: {failures} of {conditions} conditions do not hold")]
pub struct GateNotMet {
    failures: usize,
    conditions: usize,
}

pub fn run(arguments: &Audit, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let channels = arguments.channels();
    // A policy that cannot be judged is refused before minutes are spent on measuring.
    let policy = arguments.gate.as_deref().map(read_policy).transpose()?;
    if let Some(policy) = &policy {
        let names: Vec<&str> = channels.iter().map(|channel| channel.name).collect();
        policy.check_channels(&names)?;
    }
    let mut audited = match (&arguments.release, &arguments.originals) {
        (Some(release), Some(originals)) => foreign::audited(release, originals, arguments)?,
        _ => vault::audited(arguments)?,
    };
    // So is a place that cannot be written to.
    let plots = arguments.out.join("plots");
    fs::create_dir_all(&plots).with_context(|| format!("cannot make {}", plots.display()))?;
    let bar = progress("auditing", channels.len());
    let sections = channels::run(&audited.subject, &channels, &|channel, step| {
        if step.is_empty() {
            bar.inc(u64::from(bar.message() != "auditing"));
        }
        bar.set_message(format!("{channel} {step}"));
    });
    bar.finish_and_clear();
    let mut sections = sections?;
    if let Some(whole) = audited.whole.take() {
        whole.replace(&mut sections);
    }
    let report = Report { metadata: metadata(&audited, arguments.seed), sections };
    if let Some(directory) = &arguments.export_views {
        export_views(&audited, directory)?;
    }
    write(&report, &arguments.out)?;

    report.metadata.notes.iter().try_for_each(|note| output.line(format!("  {note}")))?;
    output.line(summary(&report.sections))?;
    output.line(format!("\n  {}", page_note(&arguments.out)))?;
    let outcome = policy.map(|policy| policy.judge(&report.sections)).transpose()?;
    if let Some(outcome) = &outcome {
        output.line(verdict(outcome))?;
    }
    let mut value = report::json::report(&report);
    value["gate"] = json!(outcome);
    output.result(&value)?;
    match outcome {
        Some(outcome) if outcome.failures() > 0 => {
            let (failures, conditions) = (outcome.failures(), outcome.checks.len());
            Err(GateNotMet { failures, conditions }.into())
        }
        _ => Ok(()),
    }
}

fn read_policy(path: &Path) -> Result<Policy> {
    let read = || -> Result<Policy> { Ok(Policy::parse(&fs::read_to_string(path)?)?) };
    read().with_context(|| path.display().to_string())
}

fn metadata(audited: &Audited, seed: u64) -> Metadata {
    let Audited { subject, name, documents, notes, .. } = audited;
    Metadata {
        subject: name.clone(),
        date: today(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed,
        documents: *documents,
        rows: subject.vectors.rows(),
        width: subject.vectors.width(),
        stored_width: subject.release().rows.width(),
        cells: subject.release().members().iter().filter(|rows| !rows.is_empty()).count(),
        queries: subject.queries.as_ref().map_or(0, |queries| queries.rows()),
        notes: notes.clone(),
    }
}

/// Writes the attacker's vectors as `.npy`, for other programs to invert; and beside `documents.npy`,
/// which has places, the names of the documents as `documents.json`.
fn export_views(audited: &Audited, directory: &Path) -> Result<()> {
    let views = text::export_views(&audited.subject)?;
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    for (name, rows) in views {
        if name == "documents" {
            let ids: Vec<&str> =
                rows.values().iter().map(|&at| audited.ids[at as usize].as_str()).collect();
            put(&directory.join("documents.json"), &serde_json::to_string(&ids)?)?;
        }
        let values = rows.values().iter().map(|&x| x as f32).collect();
        let vectors = VectorSet::new(rows.width(), values)?;
        write_npy(&directory.join(name).with_extension("npy"), &vectors)?;
    }
    Ok(())
}

/// Leaves `audit.json`, `audit.html` and the plots in a directory.
fn write(report: &Report, directory: &Path) -> Result<()> {
    let mut text = serde_json::to_string_pretty(&report::json::report(report))?;
    text.push('\n');
    put(&directory.join("audit.json"), &text)?;
    put(&directory.join("audit.html"), &page::html(report))?;
    write_plots(&report.sections, &directory.join("plots"))
}

/// Leaves every plot of some sections in a directory.
pub fn write_plots(sections: &[Section], directory: &Path) -> Result<()> {
    for section in sections {
        for picture in &section.plots {
            let name = if picture.name.starts_with(&section.name) {
                picture.name.clone()
            } else {
                format!("{}-{}", section.name, picture.name)
            };
            put(&directory.join(name).with_extension("svg"), &plot::svg(picture))?;
        }
    }
    Ok(())
}

/// Writes a file and the directories above it.
pub fn put(path: &Path, text: &str) -> Result<()> {
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// One line a channel.
fn summary(sections: &[Section]) -> String {
    let row = |section: &Section| {
        let headline = section.headline.and_then(|at| section.findings.get(at));
        let figure = headline.map_or(String::new(), |finding| {
            let interval = finding.ci95.map_or(String::new(), figure::interval);
            format!(
                "{} {} {interval}",
                figure::metric(&finding.metric),
                figure::number(finding.value)
            )
        });
        let chance = headline.and_then(|finding| finding.chance);
        vec![
            section.name.clone(),
            figure::verdict(section.verdict).to_owned(),
            figure.trim_end().to_owned(),
            chance.map_or(String::new(), figure::number),
        ]
    };
    let (own, baselines): (Vec<&Section>, Vec<&Section>) =
        sections.iter().partition(|section| channels::scope(&section.name).is_own());
    let header = ["channel", "verdict", "figure", "chance"];
    let lines = |sections: &[&Section]| {
        table(&header, &sections.iter().map(|section| row(section)).collect::<Vec<_>>())
    };
    match (own.is_empty(), baselines.is_empty()) {
        (_, true) => lines(&own),
        (true, false) => lines(&baselines),
        (false, false) => format!(
            "{}\n\n  for comparison, other ways to protect these vectors\n{}",
            lines(&own),
            lines(&baselines)
        ),
    }
}

fn page_note(directory: &Path) -> String {
    format!("the whole report: {}", directory.join("audit.html").display())
}

fn verdict(outcome: &Outcome) -> String {
    let row = |check: &report::gate::Check| {
        let passed = if check.passed { "pass" } else { "FAIL" };
        vec![check.condition.clone(), passed.to_owned(), check.found.clone()]
    };
    let rows: Vec<_> = outcome.checks.iter().map(row).collect();
    format!("\n{}", table(&["gate", "", "found"], &rows))
}

/// The date in UTC, as `2026-01-31`.
pub fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The date a number of days after 1 January 1970, counted from 1 March of the year 0 so that
/// the leap day is the last of a year (H. Hinnant's `civil_from_days`).
fn date(days: u64) -> String {
    const ERA: u64 = 146_097; // days in 400 years
    let days = days + 719_468;
    let of_era = days % ERA;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = 400 * (days / ERA) + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_over_everything_take_the_place_of_the_samples() {
        let finding = |setting: &str, value| Finding::new("requests", setting, "cells", value);
        let mut sampled = [Section::new("shape", "sampled"), Section::new("requests", "")];
        sampled[1].findings = vec![finding("log=recorded", 1.0), finding("log=simulated", 2.0)];
        let requests = vec![finding("log=recorded", 9.0)];
        Whole { shape: Section::new("shape", "whole"), requests }.replace(&mut sampled);
        assert_eq!(sampled[0].title, "whole");
        let values: Vec<f64> = sampled[1].findings.iter().map(|finding| finding.value).collect();
        assert_eq!(values, [9.0, 2.0]);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ];
        cases.iter().for_each(|(days, expected)| assert_eq!(date(*days), *expected));
    }
}
