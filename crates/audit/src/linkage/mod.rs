//! Matching rows of two releases, rows with rows, and requests with rows.
//!
//! - [`prefix`]: neighbours that a public prefix shows;
//! - [`same_key`]: neighbours among rows under one key;
//! - [`releases`]: the same documents under new keys, recognised;
//! - [`churn`]: the same with documents added and deleted;
//! - [`candidates`], [`active_cells`]: what a request for candidates says of the query, and a log of
//!   them of what is asked;
//! - [`membership`]: whether a document is stored at all;
//! - [`canaries`]: which rows readers check answers by.
//!
//! [`requests`] makes the requests of sample queries, [`directions`] reads queries out of them.
//! [`game`] makes pairs of releases and counts hits, [`format`](mod@format) rounds them, and
//! [`features`] is what a change of keys leaves of a row.

use shard_geometry::VectorSet;

use crate::subject::{Corpus, Subject};

pub mod active_cells;
pub mod canaries;
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
    if subject.prefix_width == 0 {
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
    } else if subject.prefix_width >= subject.coordinates.width() {
        "the prefix takes all coordinates"
    } else {
        return None;
    };
    Some(format!("Not measured: {reason}."))
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
