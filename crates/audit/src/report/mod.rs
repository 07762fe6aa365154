//! The audit as a page, as plots, as JSON, and as an exit code.
//!
//! [`channels`] lists what is measured and runs it; a [`Report`] holds the results. It becomes
//! one self-contained page ([`page`]) with plots ([`plot`]), rows for a program ([`json`]), and
//! a yes or no by the owner's own thresholds ([`gate`]). [`shape`] is the channel that needs no
//! attack: what the server sees by looking.

pub mod channels;
pub mod figure;
pub mod gate;
pub mod json;
pub mod page;
pub mod plot;
pub mod shape;

use serde::Serialize;

use crate::finding::{Finding, Section, Verdict};

/// What was audited, when and by what.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Metadata {
    /// A name for what was audited, for people.
    pub subject: String,
    /// The day, as the caller writes it.
    pub date: String,
    /// The version of the program.
    pub version: String,
    /// The seed of all randomness of the audit.
    pub seed: u64,
    /// Documents there are.
    pub documents: usize,
    /// Documents that the attacks were run on.
    pub rows: usize,
    /// Coordinates of a document.
    pub width: usize,
    /// Coordinates of a stored row.
    pub stored_width: usize,
    /// Keys among the rows attacked.
    pub cells: usize,
    /// Sample queries given.
    pub queries: usize,
    /// What a reader must know before the figures: samples, inputs that were not given.
    pub notes: Vec<String>,
}

/// An audit that has been run.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// What it is about.
    pub metadata: Metadata,
    /// The results, in the order of [`channels::CHANNELS`].
    pub sections: Vec<Section>,
}

impl Report {
    /// Attacks on what was audited: without what needs none, and without other ways to protect it.
    pub fn attacks(&self) -> impl Iterator<Item = &Section> {
        self.sections.iter().filter(|section| channels::scope(&section.name).is_attack())
    }

    /// How many channels are open, reduced and closed; and how many have no verdict.
    pub fn counts(&self) -> Counts {
        let count = |verdict| self.attacks().filter(|section| section.verdict == verdict).count();
        Counts {
            open: count(Some(Verdict::Open)),
            reduced: count(Some(Verdict::Reduced)),
            closed: count(Some(Verdict::Closed)),
            unmeasured: count(None),
        }
    }

    /// The section whose headline is furthest above chance, the worst verdicts first: the attack
    /// that a reader must know of if they read of only one.
    pub fn strongest(&self) -> Option<(&Section, &Finding)> {
        let headlines = self.attacks().filter_map(|section| {
            let finding = section.findings.get(section.headline?)?;
            Some((section, finding, severity(section.verdict?), excess(finding)))
        });
        let ranked = headlines.filter(|(_, _, severity, _)| *severity > 0);
        ranked
            .max_by(|a, b| a.2.cmp(&b.2).then(a.3.total_cmp(&b.3)))
            .map(|(section, finding, ..)| (section, finding))
    }
}

/// Channels by verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Counts {
    /// As good as unprotected.
    pub open: usize,
    /// Above chance.
    pub reduced: usize,
    /// At chance.
    pub closed: usize,
    /// Without a verdict.
    pub unmeasured: usize,
}

/// A verdict as a number that grows with what leaks.
fn severity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Closed => 0,
        Verdict::Reduced => 1,
        Verdict::Open => 2,
    }
}

/// `(value - chance) / (1 - chance)`: the share of the way from chance to certainty. Figures that
/// are no shares of one, or have no chance level, cannot be compared and count as nothing.
fn excess(finding: &Finding) -> f64 {
    match finding.chance {
        Some(chance) if (0.0..1.0).contains(&chance) && (0.0..=1.0).contains(&finding.value) => {
            (finding.value - chance) / (1.0 - chance)
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests;
