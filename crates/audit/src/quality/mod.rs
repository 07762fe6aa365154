//! Retrieval quality: judgements in, rankings in, per-query measures and bootstrap intervals out.
//!
//! ```
//! use shard_audit::quality::{Bootstrap, Qrels, compare, evaluate};
//!
//! let qrels = Qrels::parse("query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t1\n")?;
//! let raw = evaluate(&qrels, &[("q1", vec!["a", "b"]), ("q2", vec!["b", "a"])])?;
//! let other = evaluate(&qrels, &[("q1", vec!["a", "b"]), ("q2", vec!["a", "b"])])?;
//! assert_eq!(raw.mean().mrr10, 1.0);
//! let difference = compare(&raw, &other, Bootstrap::default())?;
//! assert!(difference.delta_ndcg10 < 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bootstrap;
mod correlation;
mod evaluation;
mod measures;
mod qrels;

pub use bootstrap::{Bootstrap, BootstrapError, paired_bootstrap};
pub use correlation::pearson;
pub use evaluation::{
    CompareError, Delta, EvaluateError, Evaluation, SystemQuality, compare, evaluate,
};
pub use measures::{Measures, RepeatedDocument, measure};
pub use qrels::{Judgements, Qrels, QrelsError, QrelsProblem};
