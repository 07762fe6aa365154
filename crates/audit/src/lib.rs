//! What a protected index is worth to its owner, measured.
//!
//! Purpose: judge a ranking against human relevance judgements the way the field does, so that a figure printed
//! here can be laid beside a published one, and say how far a difference between two rankings can be trusted.
//!
//! Concepts: *judgements* ([`quality::Qrels`]) say which documents answer a query and how well; a *run* is the
//! list of document ids a system returned for each query, best first; a *measure* turns both into one number per
//! query; an *interval* says what the mean of the differences could have been with other queries.
//!
//! Modules:
//! - [`quality`]: judgements, nDCG@10, Recall@100 and MRR@10 as `trec_eval` computes them, and the paired bootstrap.
//!
//! Non-goals: the crate does no retrieval (it is given rankings), reads no files (it is given text) and tests no
//! hypothesis (it reports an interval, not a p-value).

pub mod quality;
