//! The paper's hypotheses, claims and threats, line by line, held against our own figures.
//!
//! `lines` has what the paper says; `judges` decide from the figures of the other tables whether
//! a statement holds. A statement is *supported* or *not supported* by figures at hand, and *not
//! tested* where there are none. No verdict is written down anywhere.

mod judges;
mod lines;

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
    /// Where it stands: `H1`, `threat`, `baseline` or `shard`.
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
                Some(Judged { holds: true, found }) => (Standing::Supported, found),
                Some(Judged { holds: false, found }) => (Standing::NotSupported, found),
                None => (Standing::NotTested, format!("run `shard reproduce {table}` first")),
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
            section.findings.push(finding.on(SEED, 0));
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
        assert!(text(&evidence).contains("run `shard reproduce"));
    }

    #[test]
    fn all_four_hypotheses_and_three_tables_are_there() {
        for source in ["H1", "H2", "H3", "H4", "threat", "baseline", "shard"] {
            assert!(LINES.iter().any(|line| line.source == source), "{source}");
        }
    }

    #[test]
    fn verdicts_follow_the_figures() {
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
    }
}
