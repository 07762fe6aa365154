//! The audit: what a thief of the index would learn, measured on the owner's own vectors.
//!
//! [`Audited`] is what is attacked: made from a vault, or from somebody else's vectors. By the time
//! an attack runs, the vault can be closed. The [`Report`] that comes out is written by
//! [`write_report`] and judged by a [`Policy`].
//!
//! Modules: `vault`, `blind` and `foreign` make what is attacked; `recorded` notes what the server gets of sample queries;
//! `server_side` puts together what it has; `canaries` looks for canaries alone; `files` writes.

mod blind;
mod canaries;
mod files;
mod foreign;
#[cfg(test)]
mod planted;
mod recorded;
mod server_side;
mod vault;

use shard_audit::blind::BlindSubject;
pub use shard_audit::finding::{Finding, Section, Verdict};
pub use shard_audit::report::channels::{CHANNELS, Channel, Scope, measuring, scope};
use shard_audit::report::channels::{run, run_blind};
pub use shard_audit::report::front::Strongest;
pub use shard_audit::report::gate::{Check, GateError, Outcome, Policy};
pub use shard_audit::report::{Counts, Kind, Metadata, Report, figure, json, page, plot};
use shard_audit::subject::Subject;
use shard_audit::tools::statistics::generator;
use shard_audit::tools::whole_cells::whole_cells;
use shard_client::{UNWATCHED, Watch};
use shard_geometry::VectorSet;

use crate::baselines::Baseline;
use crate::input::TextDocument;
use crate::{Error, Vault};

pub use canaries::{asked_again, look_for_canaries};
pub use files::{today, write_plots, write_report};

/// Hears the name of a channel and what is being done, or nothing at its beginning.
pub type OnStep<'a> = dyn Fn(&str, &str) + 'a;

/// What to attack, and what attacks and judges are given.
#[derive(Clone)]
pub struct AuditOptions<'a> {
    /// Put another way to protect the vectors in Shard's place.
    pub baseline: Option<Baseline>,
    /// Sample queries, for what requests give away; the first 500 count, of a blind vault the first 100.
    pub queries: Option<&'a VectorSet>,
    /// Texts of the documents, for what can be read out of vectors.
    pub texts: Option<&'a [TextDocument]>,
    /// Which rows of somebody else's release share a key: a label for each row.
    pub cells: Option<&'a [String]>,
    /// Where all of the audit's randomness comes from.
    pub seed: u64,
    /// Attack at most this many documents, in whole cells or blocks where possible.
    pub sample: usize,
    /// Follows the sample queries whose requests are recorded, and may end the work.
    pub watch: &'a Watch<'a>,
}

impl Default for AuditOptions<'_> {
    fn default() -> Self {
        Self {
            baseline: None,
            queries: None,
            texts: None,
            cells: None,
            seed: 2026,
            sample: 10_000,
            watch: UNWATCHED,
        }
    }
}

/// What is attacked, and what its reader must know.
pub struct Audited {
    subject: Attacked,
    /// For people.
    name: String,
    /// Documents there are, of which the subject may have a sample.
    documents: usize,
    /// Names of the subject's documents, in its order.
    ids: Vec<String>,
    /// What was counted before the sample was drawn, where there is one.
    whole: Option<WholeCounts>,
    notes: Vec<String>,
}

/// What the server has.
enum Attacked {
    /// Rows that were transformed.
    Rows(Box<Subject>),
    /// Ciphertexts.
    Blind(Box<BlindSubject>),
}

impl Attacked {
    /// Rows: the real ones, or ciphertexts read as some.
    fn rows(&self) -> &Subject {
        match self {
            Self::Rows(subject) => subject,
            Self::Blind(blind) => &blind.readings[0].subject,
        }
    }
}

/// Counts over everything the server has. On a sample of whole cells they would be off: pairs of
/// rows share a key more often, and requests touch fewer cells.
struct WholeCounts {
    shape: Section,
    /// Figures on recorded requests, in place of those on the sample.
    requests: Vec<Finding>,
}

impl WholeCounts {
    /// Puts the counts in the place of the sample's.
    fn replace(&self, sections: &mut [Section]) {
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

impl Vault {
    /// Attacks what the server holds through every channel. [`Audited::from_vault`] does it in steps.
    ///
    /// # Errors
    /// When the vault is empty or a query vault, a document has no text where texts are given, or
    /// an attack cannot be made.
    pub fn audit(&self, options: &AuditOptions<'_>) -> Result<Report, Error> {
        let channels: Vec<&Channel> = CHANNELS.iter().collect();
        Audited::from_vault(self, options)?.attack(&channels, None)
    }
}

impl Audited {
    /// Attacks through some channels, in the order given.
    ///
    /// # Errors
    /// When a channel fails: a report that silently lacks one would look better than it is.
    pub fn attack(
        &self,
        channels: &[&Channel],
        progress: Option<&OnStep<'_>>,
    ) -> Result<Report, Error> {
        let progress = progress.unwrap_or(&|_, _| ());
        let sections = match &self.subject {
            Attacked::Rows(subject) => run(subject, channels, progress),
            Attacked::Blind(blind) => run_blind(blind, channels, progress),
        };
        let mut sections = sections.map_err(Error::audit)?;
        if let Some(whole) = &self.whole {
            whole.replace(&mut sections);
        }
        Ok(Report { metadata: self.metadata(), sections })
    }

    fn metadata(&self) -> Metadata {
        let subject = self.subject.rows();
        Metadata {
            kind: match &self.subject {
                Attacked::Rows(subject) => Kind::of_rows(subject),
                Attacked::Blind(blind) => Kind::of_blind(blind),
            },
            subject: self.name.clone(),
            date: today(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: subject.seed,
            documents: self.documents,
            rows: subject.vectors.rows(),
            width: subject.vectors.width(),
            stored_width: subject.release().rows.width(),
            cells: subject.release().members().iter().filter(|rows| !rows.is_empty()).count(),
            queries: subject.queries.as_ref().map_or(0, |queries| queries.rows()),
            notes: self.notes.clone(),
        }
    }
}

/// The purpose of the randomness that samples documents.
const SAMPLE: u64 = 0x5a3b1e;

/// Which documents are attacked where there are more than an audit has time for, given the cell of each.
fn sampled(cells: &[u32], options: &AuditOptions<'_>) -> Vec<usize> {
    whole_cells(cells, options.sample, &mut generator(options.seed, SAMPLE))
}

/// Some rows.
fn select(vectors: &VectorSet, rows: &[usize]) -> VectorSet {
    let values = rows.iter().flat_map(|&row| vectors.row(row)).copied().collect();
    VectorSet::new(vectors.width(), values).expect("rows of a set of vectors, at least one")
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
        WholeCounts { shape: Section::new("shape", "whole"), requests }.replace(&mut sampled);
        assert_eq!(sampled[0].title, "whole");
        let values: Vec<f64> = sampled[1].findings.iter().map(|finding| finding.value).collect();
        assert_eq!(values, [9.0, 2.0]);
    }
}
