//! The report as one page that needs nothing else: no network, no script, no font.

use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

use super::channels::{Scope, scope};
use super::{Report, figure, plot};
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
    let lines = |of: &dyn Fn(Scope) -> bool| -> Vec<Line> {
        let sections = report.sections.iter();
        sections.filter(|section| of(scope(&section.name))).map(Line::of).collect()
    };
    let own = lines(&|scope| scope.is_attack());
    template
        .render(context! {
            metadata => report.metadata,
            verdict => verdict(report),
            strongest => strongest(report),
            beyond => beyond(report),
            has_limits => own.iter().any(|line| line.limit.is_some()),
            own => own,
            seen => lines(&|scope| scope == Scope::Seen),
            baselines => lines(&|scope| scope == Scope::Baseline),
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
    let is_seen = |section: &Section| scope(&section.name) == Scope::Seen;
    let seen = if report.sections.iter().any(is_seen) {
        " What the server sees without an attack is listed apart."
    } else {
        ""
    };
    format!(
        "{first} Measured: {measured}; open: {}, reduced: {}, closed: {}.{rest}{seen}",
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
    let section = report.attacks().find(|section| section.name == "partial-alignment")?;
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
    /// How weak a leak would have been found.
    limit: Option<String>,
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
            None if scope(&section.name) == Scope::Seen => ("seen", "◉"),
            None => ("unmeasured", "–"),
        };
        let headline = section.headline.and_then(|at| section.findings.get(at));
        Self {
            name: section.name.clone(),
            title: section.title.clone(),
            verdict: figure::verdict_of(section),
            class,
            symbol,
            headline: headline.map(Row::of),
            limit: figure::detection_limit(section),
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
            value: figure::value(finding),
            interval: finding.ci95.map_or(String::new(), figure::interval),
            chance: optional(finding.chance),
            paper: optional(finding.paper),
            rows: finding.rows,
        }
    }
}
