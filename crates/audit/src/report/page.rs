//! The report as one page that needs nothing else: no network, no script, no font.

use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

use super::{Report, channels, figure, plot};
use crate::finding::{Finding, Section, Verdict};

const TEMPLATE: &str = include_str!("page.html");

/// The whole page.
///
/// # Panics
/// When the template that is built in does not fit the report, which no report can cause.
pub fn html(report: &Report) -> String {
    let mut environment = Environment::new();
    // Everything is text unless the template says `safe`, which it does for plots alone.
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("page", TEMPLATE).expect("the template is well formed");
    let template = environment.get_template("page").expect("it was added above");
    let lines = |own: bool| -> Vec<Line> {
        let sections = report.sections.iter();
        let of = |section: &&Section| channels::scope(&section.name).is_own() == own;
        sections.filter(of).map(Line::of).collect()
    };
    template
        .render(context! {
            metadata => report.metadata,
            verdict => verdict(report),
            strongest => strongest(report),
            beyond => beyond(report),
            own => lines(true),
            baselines => lines(false),
        })
        .expect("the template fits every report")
}

/// The first sentences: how many channels are how open.
fn verdict(report: &Report) -> String {
    let counts = report.counts();
    let measured = counts.open + counts.reduced + counts.closed;
    if measured == 0 {
        return "No channel was measured, so nothing can be said.".to_owned();
    }
    let first = match (counts.open, counts.reduced) {
        (0, 0) => "None of the attacks that were tried did better than guessing.".to_owned(),
        (0, _) => "No channel is as open as with unprotected vectors, but some leak.".to_owned(),
        (1, _) => "One channel is as open as with unprotected vectors.".to_owned(),
        (open, _) => format!("{open} channels are as open as with unprotected vectors."),
    };
    let rest = match counts.unmeasured {
        0 => String::new(),
        unmeasured => format!(" Not measured: {unmeasured}."),
    };
    format!(
        "{first} Measured: {measured}; open: {}, reduced: {}, closed: {}.{rest}",
        counts.open, counts.reduced, counts.closed
    )
}

/// The second: the one attack to know of.
fn strongest(report: &Report) -> Option<String> {
    let (section, finding) = report.strongest()?;
    Some(format!("{}: {}.", section.title, figure::sentence(finding)))
}

/// The third: matching by all that a key leaves, which needs fewer known pairs than the attacks in
/// the literature, or none.
fn beyond(report: &Report) -> Option<&str> {
    let section = report.own().find(|section| section.name == "partial-alignment")?;
    let open = section.verdict == Some(Verdict::Open);
    section.notes.first().filter(|_| open).map(String::as_str)
}

/// A section as the template takes it.
#[derive(Serialize)]
struct Line {
    name: String,
    title: String,
    verdict: &'static str,
    class: &'static str,
    symbol: &'static str,
    headline: Option<Row>,
    notes: Vec<String>,
    plots: Vec<String>,
    has_paper: bool,
    findings: Vec<Row>,
}

impl Line {
    fn of(section: &Section) -> Self {
        let (class, symbol) = match section.verdict {
            Some(Verdict::Open) => ("open", "●"),
            Some(Verdict::Reduced) => ("reduced", "◐"),
            Some(Verdict::Closed) => ("closed", "○"),
            None => ("unmeasured", "–"),
        };
        let headline = section.headline.and_then(|at| section.findings.get(at));
        Self {
            name: section.name.clone(),
            title: section.title.clone(),
            verdict: figure::verdict(section.verdict),
            class,
            symbol,
            headline: headline.map(Row::of),
            notes: section.notes.clone(),
            plots: section.plots.iter().map(plot::svg).collect(),
            has_paper: section.findings.iter().any(|finding| finding.paper.is_some()),
            findings: section.findings.iter().map(Row::of).collect(),
        }
    }
}

/// A figure as the template takes it.
#[derive(Serialize)]
struct Row {
    setting: String,
    metric: String,
    value: String,
    interval: String,
    chance: String,
    paper: String,
    rows: usize,
}

impl Row {
    fn of(finding: &Finding) -> Self {
        let optional = |value: Option<f64>| value.map_or(String::new(), figure::number);
        Self {
            setting: figure::setting(&finding.setting),
            metric: figure::metric(&finding.metric),
            value: figure::number(finding.value),
            interval: finding.ci95.map_or(String::new(), figure::interval),
            chance: optional(finding.chance),
            paper: optional(finding.paper),
            rows: finding.rows,
        }
    }
}
