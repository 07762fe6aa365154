//! The report as one page that needs nothing else: no network, no script, no font.

use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

use super::channels::{Scope, scope};
use super::{Kind, Report, figure, front, headline, plot};
use crate::finding::{Finding, Plot, Section, Series, Verdict};

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
    let metadata = &report.metadata;
    let lines = |of: &dyn Fn(Scope) -> bool| -> Vec<Line> {
        let sections = report.sections.iter().filter(|section| of(scope(&section.name)));
        sections.map(|section| Line::of(section, metadata.kind)).collect()
    };
    template
        .render(context! {
            metadata => metadata,
            subject => figure::subject(&metadata.subject),
            notes => metadata.notes.iter().map(|note| figure::prose(note)).collect::<Vec<_>>(),
            hidden => front::hidden(metadata.kind),
            not_hidden => front::not_hidden(metadata.kind),
            verdict => front::verdict(report),
            tally => front::tally(report),
            strongest => front::Strongest::of(report),
            counts => Counted::of(report),
            front => ranked(report),
            own => lines(&|scope| scope.is_attack()),
            seen => lines(&|scope| scope == Scope::Seen),
            baselines => lines(&|scope| scope == Scope::Baseline),
        })
        .expect("the template fits every report")
}

/// The channels of what is audited, the worst first; then what is seen, and what was not measured.
fn ranked(report: &Report) -> Vec<Line> {
    let is_seen = |section: &Section| scope(&section.name) == Scope::Seen;
    let own = report.sections.iter().filter(|it| scope(&it.name) != Scope::Baseline);
    let mut sections: Vec<&Section> = own.collect();
    let rank = |it: &Section| (it.verdict, is_seen(it));
    sections.sort_by_key(|section| std::cmp::Reverse(rank(section)));
    sections.into_iter().map(|section| Line::of(section, report.metadata.kind)).collect()
}

/// What was counted, for the foot of the page.
#[derive(Serialize)]
struct Counted {
    documents: String,
    attacked: String,
    keys: String,
    queries: String,
}

impl Counted {
    fn of(report: &Report) -> Self {
        let metadata = &report.metadata;
        Self {
            documents: figure::count(metadata.documents),
            attacked: figure::count(metadata.rows),
            keys: figure::count(metadata.cells),
            queries: figure::count(metadata.queries),
        }
    }
}

/// The most lines that a picture shows; of more it becomes several.
const MOST_LINES: usize = 4;

/// The pictures of a plot, all words readable.
fn pictures(plot: &Plot) -> Vec<String> {
    let series = plot.series.iter();
    let series: Vec<Series> =
        series.map(|it| Series { name: figure::line(&it.name), ..it.clone() }).collect();
    let count = series.len().div_ceil(MOST_LINES).max(1);
    let parts = series.chunks(series.len().div_ceil(count).max(1)).enumerate();
    let part = |(at, series): (usize, &[Series])| {
        let place = if count > 1 { format!(" ({} of {count})", at + 1) } else { String::new() };
        plot::svg(&Plot {
            title: figure::prose(&plot.title) + &place,
            x_label: figure::prose(&plot.x_label),
            y_label: figure::prose(&plot.y_label),
            series: series.to_vec(),
            ..plot.clone()
        })
    };
    parts.map(part).collect()
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
    /// The headline in a phrase.
    phrase: String,
    /// How weak a leak would have been found.
    limit: Option<String>,
    needs: String,
    remedy: &'static str,
    notes: Vec<String>,
    plots: Vec<String>,
    has_paper: bool,
    has_built: bool,
    findings: Vec<Row>,
}

impl Line {
    fn of(section: &Section, kind: Kind) -> Self {
        let (class, symbol) = match section.verdict {
            Some(Verdict::Open) => ("open", "●"),
            Some(Verdict::Reduced) => ("reduced", "◐"),
            Some(Verdict::Closed) => ("closed", "○"),
            None if scope(&section.name) == Scope::Seen => ("seen", "◉"),
            None => ("unmeasured", "–"),
        };
        let headline = headline(section);
        let is_closed = section.verdict == Some(Verdict::Closed);
        let is_known = section.verdict.is_some() || class == "seen";
        let why_not = || {
            let is_reason = |note: &&String| note.starts_with("No");
            let reason = section.notes.iter().find(is_reason).or(section.notes.first());
            reason.map_or(String::new(), |note| figure::prose(note))
        };
        Self {
            name: section.name.clone(),
            title: section.title.clone(),
            verdict: figure::verdict_of(section),
            class,
            symbol,
            headline: headline.map(Row::of),
            phrase: headline
                .filter(|_| is_known)
                .map_or_else(why_not, |it| sentence(it, is_closed)),
            limit: figure::would_have_been_seen(section).filter(|_| is_closed),
            needs: if is_known { front::needs(section, kind) } else { String::new() },
            remedy: if is_known { front::remedy(section, kind) } else { "" },
            notes: section.notes.iter().map(|note| figure::prose(note)).collect(),
            plots: section.plots.iter().flat_map(pictures).collect(),
            has_built: section.findings.iter().any(|finding| finding.constructed),
            has_paper: section.findings.iter().any(|finding| finding.paper.is_some()),
            findings: section.findings.iter().map(Row::of).collect(),
        }
    }
}

/// A figure's phrase as a sentence whose numbers keep their units. One that is above chance and yet closed
/// says why.
fn sentence(finding: &Finding, is_closed: bool) -> String {
    let phrase = figure::phrase(finding).replace(" %", "\u{a0}%");
    let is_above = finding.chance.is_some_and(|chance| finding.value > chance);
    let explained = if is_closed && is_above { ": chance explains that" } else { "" };
    format!("{}{explained}.", figure::capitalised(&phrase))
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
    rows: String,
    built: bool,
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
            rows: figure::count(finding.rows),
            built: finding.constructed,
        }
    }
}
