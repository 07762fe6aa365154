//! `shard audit`: what a thief of the index would learn, measured on the owner's own vectors.

mod arguments;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;
use shard::audit::{
    self, AuditOptions, Audited, Check, Outcome, Policy, Scope, Section, Strongest, figure,
    write_report,
};
use shard::input::{read_queries, read_texts, read_vectors};
use shard::{Documents, Error};

pub use arguments::Audit;

use crate::output::{Output, follow, progress, table};

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
    let audited = match (&arguments.release, &arguments.originals) {
        (Some(release), Some(originals)) => foreign(release, originals, arguments)?,
        _ => of_vault(arguments)?,
    };
    // So is a place that cannot be written to.
    fs::create_dir_all(&arguments.out)
        .with_context(|| format!("cannot make {}", arguments.out.display()))?;
    let bar = progress("auditing", channels.len());
    let report = audited.attack(
        &channels,
        Some(&|channel, step| {
            if step.is_empty() {
                bar.inc(u64::from(bar.message() != "auditing"));
            }
            bar.set_message(format!("{channel} {}", figure::prose(step)));
        }),
    );
    bar.finish_and_clear();
    let report = report?;
    if let Some(directory) = &arguments.export_views {
        audited.export_views(directory)?;
    }
    write_report(&report, &arguments.out)?;

    for note in &report.metadata.notes {
        output.line(format!("  {}", figure::prose(note)))?;
    }
    output.line(summary(&report.sections))?;
    if let Some(strongest) = Strongest::of(&report) {
        output.line(format!("\n  the strongest attack: {}", strongest.found))?;
        output.line(format!("  it takes: {}", strongest.takes))?;
    }
    output.line(format!("\n  {}", page_note(&arguments.out)))?;
    let outcome = policy.map(|policy| policy.judge(&report.sections)).transpose()?;
    if let Some(outcome) = &outcome {
        output.line(verdict(outcome))?;
    }
    let mut value = audit::json::report(&report);
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

/// Takes what an audit needs from the vault, and closes it again.
fn of_vault(arguments: &Audit) -> Result<Audited> {
    let queries = arguments.queries.as_deref().map(|path| read_queries(path, None)).transpose()?;
    let texts =
        arguments.texts.as_deref().map(read_texts).transpose()?.map(|texts| texts.documents);
    let vault = arguments.vectors_from.open(&arguments.vault())?;
    let bar = progress("searching", queries.as_ref().map_or(0, |queries| queries.ids().len()));
    let watch = follow(&bar);
    let options = AuditOptions {
        baseline: arguments.baseline,
        queries: queries.as_ref().map(Documents::vectors),
        texts: texts.as_deref(),
        cells: None,
        seed: arguments.seed,
        sample: arguments.sample,
        watch: &watch,
    };
    let audited = Audited::from_vault(&vault, &options);
    bar.finish_and_clear();
    match (&audited, &arguments.texts) {
        (Err(Error::Input(_)), Some(path)) => audited.with_context(|| path.display().to_string()),
        _ => Ok(audited?),
    }
}

/// One label for each row.
fn read_labels(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Reads somebody else's vectors: row `i` of all files is one document.
fn foreign(release: &Path, originals: &Path, arguments: &Audit) -> Result<Audited> {
    let read = |path| read_vectors(path, None);
    let (protected, plain) = (read(release)?, read(originals)?);
    let second = arguments.second.as_deref().map(read).transpose()?;
    let cells = arguments.cells.as_deref().map(read_labels).transpose()?;
    let options = AuditOptions {
        cells: cells.as_deref(),
        seed: arguments.seed,
        sample: arguments.sample,
        ..AuditOptions::default()
    };
    Audited::from_vectors(
        format!("the release {}", release.display()),
        plain.vectors(),
        protected.vectors(),
        second.as_ref().map(Documents::vectors),
        &options,
    )
    .with_context(|| {
        let cells = arguments.cells.iter().map(|path| format!(", {}", path.display()));
        format!("{} and {}{}", release.display(), originals.display(), cells.collect::<String>())
    })
}

/// One line per channel: the attacks, then what is seen without one, then baselines.
fn summary(sections: &[Section]) -> String {
    let groups: [(&str, &dyn Fn(Scope) -> bool); 3] = [
        ("", &|scope| scope.is_attack()),
        ("what the server sees without an attack", &|scope| scope == Scope::Seen),
        ("for comparison, other ways to protect these vectors", &|scope| scope == Scope::Baseline),
    ];
    let mut parts = Vec::new();
    for (title, of) in groups {
        let of = |section: &&Section| of(audit::scope(&section.name));
        let group: Vec<&Section> = sections.iter().filter(of).collect();
        if group.is_empty() {
            continue;
        }
        // A title sets a part apart from those before it.
        let title = if parts.is_empty() { String::new() } else { format!("\n  {title}\n") };
        parts.push(format!("{title}{}", lines(&group)));
    }
    parts.join("\n")
}

/// Sections as a table, without columns that are empty in all of them.
fn lines(sections: &[&Section]) -> String {
    const HEADER: [&str; 5] = ["channel", "verdict", "figure", "chance", "detects from"];
    let row = |section: &&Section| {
        let headline = section.headline.and_then(|at| section.findings.get(at));
        let figure = headline.map_or(String::new(), |finding| {
            let interval = finding.ci95.map_or(String::new(), figure::interval);
            let built = if finding.constructed { "by construction" } else { "" };
            let (metric, value) = (figure::metric(&finding.metric), figure::value(finding));
            format!("{metric} {value} {interval}{built}")
        });
        let chance = headline.and_then(|finding| finding.chance);
        [
            section.name.clone(),
            figure::verdict_of(section).to_owned(),
            figure.trim_end().to_owned(),
            chance.map_or(String::new(), figure::number),
            figure::detection_limit(section).unwrap_or_default(),
        ]
    };
    let rows: Vec<[String; 5]> = sections.iter().map(row).collect();
    let is_kept = |column: &usize| *column < 3 || rows.iter().any(|row| !row[*column].is_empty());
    let kept: Vec<usize> = (0..HEADER.len()).filter(is_kept).collect();
    let header: Vec<&str> = kept.iter().map(|&column| HEADER[column]).collect();
    let cells = |row: &[String; 5]| kept.iter().map(|&column| row[column].clone()).collect();
    table(&header, &rows.iter().map(cells).collect::<Vec<_>>())
}

fn page_note(directory: &Path) -> String {
    format!("the whole report: {}", directory.join("audit.html").display())
}

fn verdict(outcome: &Outcome) -> String {
    let row = |check: &Check| {
        let passed = if check.passed { "pass" } else { "FAIL" };
        vec![check.condition.clone(), passed.to_owned(), check.found.clone()]
    };
    let rows: Vec<_> = outcome.checks.iter().map(row).collect();
    format!("\n{}", table(&["gate", "", "found"], &rows))
}
