//! The paper's hypotheses, claims and threats, line by line, held against our own figures.
//!
//! `lines` has what the paper says; `judges`, and `stated` for the numbers of its abstract, decide
//! from the figures of the other tables whether a statement holds. A statement is *supported* or *not supported* by figures at hand, and *not
//! tested* where there are none. No verdict is written down anywhere.

mod judges;
mod lines;
mod stated;

use shard_audit::finding::{Finding, Section};

use super::SEED;
use super::evidence::Evidence;
use super::tables::CLAIMS;
use lines::LINES;

/// What decides about a statement, from figures at hand: nothing, where they are not.
type Judge = fn(&Evidence) -> Option<Judged>;

/// A statement that was decided.
struct Judged {
    holds: bool,
    /// The figures that it was decided by.
    found: String,
    /// What the figures had to be for it to hold.
    rule: String,
}

/// How a line can be tested.
enum Test {
    /// By figures of a table.
    Figures(&'static str, Judge),
    /// Not here; for this reason.
    Untestable(&'static str),
}

/// A line of the paper.
struct Line {
    /// Where it stands: `abstract`, `H1`, `threat`, `baseline` or `shard`.
    source: &'static str,
    statement: &'static str,
    /// What the paper says of it.
    paper: &'static str,
    test: Test,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    Supported,
    NotSupported,
    NotTested,
}

impl Standing {
    fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::NotSupported => "not supported",
            Self::NotTested => "not tested",
        }
    }
}

impl Line {
    fn judge(&self, evidence: &Evidence) -> (Standing, String) {
        match self.test {
            Test::Untestable(reason) => (Standing::NotTested, reason.to_owned()),
            Test::Figures(table, judge) => match judge(evidence) {
                Some(Judged { holds, found, rule }) => {
                    let standing = if holds { Standing::Supported } else { Standing::NotSupported };
                    (standing, format!("{found} (it holds if: {rule})"))
                }
                None => (Standing::NotTested, format!("run `shard-lab reproduce {table}` first")),
            },
        }
    }
}

/// Every line with its number of `supported`: 1, or 0 where it is not. Lines that were not
/// tested have a note and no figure.
pub fn section(evidence: &Evidence) -> Section {
    let mut section = Section::new(CLAIMS, "The paper's statements and our evidence");
    for (number, line) in LINES.iter().enumerate() {
        let (standing, found) = line.judge(evidence);
        section.notes.push(format!(
            "{} ({}): {} The paper: {}. Ours: {}, {found}.",
            number + 1,
            line.source,
            line.statement,
            line.paper,
            standing.name()
        ));
        if standing != Standing::NotTested {
            let value = f64::from(u8::from(standing == Standing::Supported));
            let setting = format!("line={},source={}", number + 1, line.source);
            let finding = Finding::new(CLAIMS, setting, "supported", value);
            section.findings.push(finding.on(SEED, evidence.rows()));
        }
    }
    section
}

/// The lines for a person.
pub fn text(evidence: &Evidence) -> String {
    let line = |line: &Line| {
        let (standing, found) = line.judge(evidence);
        format!(
            "  {:8} {}\n           paper: {}\n           ours:  {}; {found}",
            line.source,
            line.statement,
            line.paper,
            standing.name().to_uppercase()
        )
    };
    LINES.iter().map(line).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_decided_without_figures() {
        let evidence = Evidence::of(&[]);
        let standing = |line: &Line| line.judge(&evidence).0;
        assert!(LINES.iter().all(|line| standing(line) == Standing::NotTested));
        assert!(section(&evidence).findings.is_empty());
        assert!(text(&evidence).contains("run `shard-lab reproduce"));
    }

    #[test]
    fn the_abstract_all_four_hypotheses_and_three_tables_are_there() {
        for source in ["abstract", "H1", "H2", "H3", "H4", "threat", "baseline", "shard"] {
            assert!(LINES.iter().any(|line| line.source == source), "{source}");
        }
    }

    #[test]
    fn verdicts_follow_the_figures_and_say_by_what_rule() {
        let of = |overlap| {
            let evidence = Evidence::of(&[
                (
                    "prefix",
                    "encoder=minilm,width=d/4,rank-by=distance",
                    "nn_overlap_at_10",
                    overlap,
                ),
                ("pq", "encoder=minilm,subspaces=48,bits=8", "nn_overlap_at_10", 0.7),
            ]);
            let line = LINES.iter().find(|line| line.source == "H3").expect("a hypothesis");
            line.judge(&evidence).0
        };
        assert_eq!((of(0.5), of(0.8)), (Standing::Supported, Standing::NotSupported));
        let linked = |best| {
            let setting = "keys=micro,format=clean,linker=norm";
            let evidence = Evidence::of(&[
                ("churn", setting, "recall_at_1", best),
                ("prefix", "cells=micro", "shared_residual_edges", 0.0),
            ]);
            let line = LINES.iter().find(|line| line.statement.starts_with("Micro-keys"));
            line.expect("a claim").judge(&evidence)
        };
        assert_eq!(linked(0.01).0, Standing::Supported);
        let (standing, found) = linked(0.9996);
        assert_eq!(standing, Standing::NotSupported);
        assert!(found.contains("0.9996") && found.contains("below 0.05"), "{found}");
    }

    #[test]
    fn numbers_of_the_abstract_are_judged_by_their_intervals() {
        let with = |table: &str, setting: &str, metric: &str, value: f64, ci95: [f64; 2]| {
            let mut evidence = Evidence::of(&[]);
            evidence.add(table, setting, metric, value, Some(ci95));
            evidence
        };
        let rise = |value, ci95| {
            let setting = "layout=slots,width=8,candidates=128,cells=256";
            let evidence = with("ckks", setting, "latency_rise", value, ci95);
            stated::packing_takes_time(&evidence).map(|judged| judged.holds)
        };
        assert_eq!(rise(0.2, [0.1, 0.3]), Some(true));
        assert_eq!(rise(0.02, [-0.1, 0.1]), Some(false));
        let noisy = |value, ci95| {
            let evidence = with("gaussian", "dataset=a,epsilon=1", "ndcg_at_10", value, ci95);
            stated::strong_noise_destroys_quality(&evidence).map(|judged| judged.holds)
        };
        assert_eq!(noisy(0.02, [0.008, 0.03]), Some(true));
        assert_eq!(noisy(0.02, [0.015, 0.03]), Some(false));
        let other =
            with("ckks", "layout=slots,width=4,candidates=128", "latency_rise", 1.0, [1.0; 2]);
        assert!(stated::packing_takes_time(&other).is_none(), "another width is not like for like");
    }

    #[test]
    fn a_strict_match_at_a_smaller_budget_contradicts_the_abstract() {
        let of = |earlier: f64| {
            let evidence = Evidence::of(&[
                ("gaussian", "epsilon=512", "strict_matches", earlier),
                ("gaussian", "epsilon=32768", "strict_matches", 3.0),
                ("gaussian", "epsilon=32768", "cases", 8.0),
                ("gaussian", "dataset=a,epsilon=32768", "link_recall_at_1", 0.999),
            ]);
            stated::matches_are_linked(&evidence).map(|judged| judged.holds)
        };
        assert_eq!((of(0.0), of(1.0)), (Some(true), Some(false)));
    }

    #[test]
    fn distortion_is_no_measure_where_noise_of_the_same_length_leaves_more() {
        let of = |noise| {
            let evidence = Evidence::of(&[
                ("sigma-rec", "kept=8,defence=truncation", "nn_overlap_at_10", 0.3),
                ("sigma-rec", "kept=8,defence=noise", "nn_overlap_at_10", noise),
            ]);
            judges::distortion_measures_privacy(&evidence).map(|judged| judged.holds)
        };
        assert_eq!((of(0.32), of(0.6)), (Some(true), Some(false)));
    }
}
