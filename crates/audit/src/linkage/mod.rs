//! Matching rows of two releases, rows with rows, and requests with rows.
//!
//! - [`prefix`]: neighbours that a public prefix shows;
//! - [`same_key`]: neighbours among rows under one key;
//! - [`releases`]: the same documents under new keys, recognised;
//! - [`churn`]: the same with documents added and deleted;
//! - [`candidates`], [`active_cells`]: what a request for candidates says of the query, and a log of
//!   them of what is asked;
//! - [`membership`]: whether a document is stored at all.
//!
//! [`requests`] makes the requests of sample queries, [`directions`] reads queries out of them.
//! [`game`] makes pairs of releases and counts hits, [`format`](mod@format) rounds them, and
//! [`features`] is what of a row outlives its key.

use shard_geometry::VectorSet;

use crate::finding::{Finding, Verdict};
use crate::subject::{Corpus, Subject};

pub mod active_cells;
pub mod candidates;
pub mod churn;
pub mod directions;
pub mod features;
pub mod format;
pub mod game;
pub mod linker;
pub mod membership;
pub mod prefix;
pub mod releases;
pub mod requests;
pub mod same_key;

#[cfg(test)]
mod planted;

/// Why nothing about prefixes and residuals can be measured on this subject: a note, or `None` if it
/// can.
pub(crate) fn unfit(subject: &Subject) -> Option<String> {
    if subject.public == 0 {
        return Some(
            "Not measured: vectors are not split into a prefix and a residual.".to_owned(),
        );
    }
    without_rows(subject)
}

/// Why nothing about stored rows can be measured: a note, or `None` if it can.
pub(crate) fn without_rows(subject: &Subject) -> Option<String> {
    let reason = if subject.view.releases.is_empty() {
        "the server has no release"
    } else if subject.public >= subject.coordinates.width() {
        "the prefix takes all coordinates"
    } else {
        return None;
    };
    Some(format!("Not measured: {reason}."))
}

/// The verdict on a figure that is at its chance level where nothing leaks and `open` without
/// protection: nine tenths of the way are open, and a figure that cannot be told from chance is
/// closed. That is one whose interval reaches down to chance, or without an interval one that is
/// not a hundredth of the way above it.
fn judge(finding: &Finding, open: f64) -> Verdict {
    let chance = finding.chance.unwrap_or(0.0);
    let way = open - chance;
    let lowest = finding.ci95.map_or(finding.value - 0.01 * way, |interval| interval[0]);
    if finding.value - chance >= 0.9 * way {
        Verdict::Open
    } else if lowest <= chance {
        Verdict::Closed
    } else {
        Verdict::Reduced
    }
}

/// The largest collection of an encoder.
pub(crate) fn largest<'a>(corpora: &'a [Corpus], encoder: &str) -> Option<&'a Corpus> {
    let own = corpora.iter().filter(|corpus| corpus.encoder == encoder);
    own.max_by_key(|corpus| corpus.vectors.rows())
}

/// Vectors of one encoder, and where they are from: the largest collection if it has `enough`
/// rows, otherwise all of them together.
pub(crate) fn pooled(
    corpora: &[Corpus],
    encoder: &str,
    enough: usize,
) -> Option<(VectorSet, String)> {
    let largest = largest(corpora, encoder)?;
    if largest.vectors.rows() >= enough {
        return Some((largest.vectors.clone(), largest.name.clone()));
    }
    let own: Vec<&Corpus> = corpora.iter().filter(|corpus| corpus.encoder == encoder).collect();
    let values = own.iter().flat_map(|corpus| corpus.vectors.values().iter().copied()).collect();
    let vectors = VectorSet::new(largest.vectors.width(), values).ok()?;
    let names: Vec<&str> = own.iter().map(|corpus| corpus.name.as_str()).collect();
    Some((vectors, names.join("+")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_follows_value_interval_and_chance() {
        let figure = |value| Finding::new("", "", "auc", value).chance(0.5);
        assert_eq!(judge(&figure(0.96), 1.0), Verdict::Open);
        assert_eq!(judge(&figure(0.52), 1.0), Verdict::Reduced);
        assert_eq!(judge(&figure(0.504), 1.0), Verdict::Closed);
        assert_eq!(judge(&figure(0.52).ci95([0.51, 0.53]), 1.0), Verdict::Reduced);
        assert_eq!(judge(&figure(0.52).ci95([0.49, 0.55]), 1.0), Verdict::Closed);
        assert_eq!(judge(&figure(0.96).ci95([0.4, 1.0]), 1.0), Verdict::Open);
    }
}
