//! The audit as a page, as plots, as JSON, and as an exit code.
//!
//! [`channels`] lists what is measured and runs it; a [`Report`] holds the results. It becomes
//! one self-contained page ([`page`]) with plots ([`plot`]), rows for a program ([`json`]), and
//! a yes or no by the owner's own thresholds ([`gate`]). [`front`] is what the page says first: what
//! stayed hidden, and of every channel what it takes, how bad it is and what helps. [`figure`] writes
//! figures and settings as people read them. [`shape`] is the channel that needs no attack: what the
//! server sees by looking.

pub mod channels;
pub mod figure;
pub mod front;
pub mod gate;
pub mod json;
pub mod page;
pub mod plot;
pub mod shape;

use serde::Serialize;

use crate::blind::BlindSubject;
use crate::finding::{Finding, Section, Verdict};
use crate::subject::Subject;

/// What is audited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A rotated collection whose cells have a key each.
    Cells,
    /// A rotated collection whose rows have a key each.
    Micro,
    /// A blind collection that is scored whole.
    Blind,
    /// A blind collection whose blocks are grouped by cells, which searches name.
    BlindCells,
    /// Rows that Shard did not make, or does not protect like this.
    Foreign,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Cells, Self::Micro, Self::Blind, Self::BlindCells, Self::Foreign];

    /// The kind of a blind collection.
    pub fn of_blind(subject: &BlindSubject) -> Self {
        if subject.seen.cells.is_some() { Self::BlindCells } else { Self::Blind }
    }

    /// The kind of some rows.
    pub fn of_rows(subject: &Subject) -> Self {
        let shares_a_key = || subject.release().members().iter().any(|rows| rows.len() > 1);
        match subject.prefix_width {
            0 => Self::Foreign,
            _ if shares_a_key() => Self::Cells,
            _ => Self::Micro,
        }
    }
}

/// What was audited, when and by what.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Metadata {
    /// What was audited.
    pub kind: Kind,
    /// A name for it, for people.
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

    /// How many channels are open, reduced and closed; closed or open by construction; and without a
    /// verdict.
    pub fn counts(&self) -> Counts {
        let count = |of: &dyn Fn(&Section) -> bool| self.attacks().filter(|it| of(it)).count();
        let measured = |verdict| count(&|it| it.verdict == Some(verdict) && !is_constructed(it));
        Counts {
            open: measured(Verdict::Open),
            reduced: measured(Verdict::Reduced),
            closed: measured(Verdict::Closed),
            constructed: count(&|it| it.verdict.is_some() && is_constructed(it)),
            unmeasured: count(&|it| it.verdict.is_none()),
        }
    }

    /// The attack that a reader must know of if they read of only one: one that identifies documents
    /// before those that tell something else, then by verdict, then by how far its headline is above
    /// chance. What follows from the construction is no attack.
    pub fn strongest(&self) -> Option<(&Section, &Finding)> {
        let headlines = self.attacks().filter_map(|section| {
            let finding = headline(section)?;
            let verdict = section.verdict.filter(|&it| it != Verdict::Closed)?;
            let identifies = channels::find(&section.name).is_some_and(|it| it.identifies);
            let rank = (identifies, verdict);
            (!finding.constructed).then_some((section, finding, rank, excess(finding)))
        });
        headlines
            .max_by(|a, b| a.2.cmp(&b.2).then(a.3.total_cmp(&b.3)))
            .map(|(section, finding, ..)| (section, finding))
    }
}

/// The figure that a section's verdict rests on.
pub fn headline(section: &Section) -> Option<&Finding> {
    section.findings.get(section.headline?)
}

/// Whether a section's verdict follows from the construction.
fn is_constructed(section: &Section) -> bool {
    headline(section).is_some_and(|finding| finding.constructed)
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
    /// With a verdict that follows from the construction.
    pub constructed: usize,
    /// Without a verdict.
    pub unmeasured: usize,
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
