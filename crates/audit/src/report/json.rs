//! The report for programs: one row per figure, and the metadata of the audit.

use serde_json::{Value, json};

use super::Report;
use super::channels::{Scope, find, scope};
use crate::finding::Section;

/// The report as JSON: `metadata`, `sections` without their figures, and all figures in one flat
/// list, each with channel, setting, metric, value, interval, chance, paper, seed, rows, and whether it
/// follows from the construction.
pub fn report(report: &Report) -> Value {
    json!({
        "metadata": report.metadata,
        "counts": report.counts(),
        "sections": report.sections.iter().map(section).collect::<Vec<_>>(),
        "findings": findings(&report.sections),
    })
}

/// A section without its figures and plots. The headline is the place among its own figures; `seen` says
/// that the server needs no attack for it, and there is no verdict then; `identifies`, that the figure is
/// the share of documents that are identified.
pub fn section(section: &Section) -> Value {
    json!({
        "name": section.name,
        "title": section.title,
        "comparison": scope(&section.name) == Scope::Baseline,
        "identifies": find(&section.name).is_some_and(|channel| channel.identifies),
        "seen": scope(&section.name) == Scope::Seen,
        "verdict": section.verdict,
        "headline": section.headline,
        "notes": section.notes,
    })
}

/// All figures of some sections.
pub fn findings(sections: &[Section]) -> Vec<Value> {
    sections.iter().flat_map(|section| &section.findings).map(|finding| json!(finding)).collect()
}
