//! Measures what a protected index leaks, and how well it searches.
//!
//! Purpose: run every known attack on a protected collection, with the owner's own data, against
//! the bytes that the server really holds, and print the figures beside the level of
//! chance; and judge rankings against human judgements the way the field does.
//!
//! Concepts: a [`view::ServerView`] is all that a server has. An attack takes one, and what its
//! attacker is granted (known pairs, a reference corpus), and makes guesses; a judge who has the
//! [`subject::Subject`]'s own data counts how many are right. Every figure is a
//! [`finding::Finding`]; those of one channel make a [`finding::Section`] with a verdict.
//!
//! Modules:
//! - [`view`], [`subject`]: what is attacked, and what guesses are judged by;
//! - [`finding`]: figures, verdicts, plots;
//! - [`tools`]: matrices, nearest neighbours, intervals;
//! - [`baselines`]: other ways to protect vectors, to compare with;
//! - [`alignment`]: undoing keys with known pairs, or with none;
//! - [`linkage`]: matching rows of two releases, rows with rows, and requests with rows;
//! - [`text`]: reading words out of vectors;
//! - [`blind`]: the same attacks on ciphertexts, their detection limits, and tests for noise;
//! - [`report`]: the audit's page, its plots and its gate;
//! - [`quality`]: judgements, nDCG@10, Recall@100 and MRR@10 as `trec_eval` computes them, and
//!   the paired bootstrap.
//!
//! Non-goals: an attack that fails here is no proof that none succeeds; the crate reads no files
//! and of rotated rows it reports intervals, not p-values.

pub mod alignment;
pub mod baselines;
pub mod blind;
pub mod finding;
pub mod linkage;
pub mod quality;
pub mod report;
pub mod subject;
pub mod text;
pub mod tools;
pub mod view;
