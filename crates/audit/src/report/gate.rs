//! The owner's own thresholds, judged pass or fail.
//!
//! A policy is TOML: the worst verdict that each channel may have, and rules on single figures.
//!
//! ```toml
//! [verdict]
//! unsupervised-alignment = "closed"
//! partial-alignment = "reduced"
//!
//! [[rule]]
//! channel = "partial-alignment"
//! metric = "recall_at_1"
//! setting = "subject=release,pairs=64"    # optional: figures whose setting has all of these
//! max = 0.5
//! ```
//!
//! A rule holds for every figure that it matches: `pairs=6` is not part of `pairs=64`, and the order
//! of parts does not matter. One that matches none, or names a channel that
//! was not measured, is an error: a gate that checks nothing must not pass.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figure;
use crate::finding::{Finding, Section, Verdict};

/// Why a policy cannot be applied.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum GateError {
    /// Not TOML, or not of the form above.
    #[error("{0}")]
    Syntax(String),
    /// Nothing in it.
    #[error("no rule and no verdict: a gate without conditions would always pass")]
    Empty,
    /// A rule that no figure can fail.
    #[error("{0}: neither `max` nor `min`")]
    Unbounded(String),
    /// A channel that does not exist, or was not run.
    #[error("{condition}: channel {channel:?} is not measured (measured: {measured})")]
    Channel {
        /// The condition that names it.
        condition: String,
        /// Its name.
        channel: String,
        /// Those that are.
        measured: String,
    },
    /// A rule without a figure to judge.
    #[error("{condition}: no such figure; metrics of the channel: {metrics}")]
    Unmatched {
        /// The rule.
        condition: String,
        /// What there is to match.
        metrics: String,
    },
    /// A channel without a verdict.
    #[error("{0}: the channel has no verdict; its notes say what was missing")]
    NoVerdict(String),
}

/// The owner's thresholds.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    #[serde(default)]
    verdict: BTreeMap<String, WorstVerdict>,
    #[serde(default)]
    rule: Vec<Rule>,
}

/// A verdict as a policy writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WorstVerdict {
    Closed,
    Reduced,
    Open,
}

impl From<WorstVerdict> for Verdict {
    fn from(verdict: WorstVerdict) -> Self {
        match verdict {
            WorstVerdict::Closed => Self::Closed,
            WorstVerdict::Reduced => Self::Reduced,
            WorstVerdict::Open => Self::Open,
        }
    }
}

/// Bounds on a figure.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    channel: String,
    metric: String,
    #[serde(default)]
    setting: String,
    max: Option<f64>,
    min: Option<f64>,
}

impl Rule {
    fn matches(&self, finding: &Finding) -> bool {
        let has = |part: &str| parts(&finding.setting).any(|own| own == part);
        finding.metric == self.metric && parts(&self.setting).all(has)
    }

    /// Not a number is not within any bounds.
    fn allows(&self, value: f64) -> bool {
        !value.is_nan()
            && self.max.is_none_or(|max| value <= max)
            && self.min.is_none_or(|min| value >= min)
    }

    /// The rule for people; errors quote it as the policy has it.
    fn in_words(&self) -> String {
        let words = Self {
            channel: self.channel.clone(),
            metric: figure::metric(&self.metric),
            setting: figure::setting(&self.setting),
            ..*self
        };
        words.to_string()
    }

    /// How far a value is inside the bounds; the least of a rule's figures decides.
    fn slack(&self, value: f64) -> f64 {
        let above = self.max.map_or(f64::INFINITY, |max| max - value);
        let below = self.min.map_or(f64::INFINITY, |min| value - min);
        if value.is_nan() { f64::NEG_INFINITY } else { above.min(below) }
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.channel, self.metric)?;
        if !self.setting.is_empty() {
            write!(f, " at {}", self.setting)?;
        }
        if let Some(max) = self.max {
            write!(f, " at most {max}")?;
        }
        if let Some(min) = self.min {
            write!(f, " at least {min}")?;
        }
        Ok(())
    }
}

/// One condition, judged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Check {
    /// The condition in words.
    pub condition: String,
    /// What was found.
    pub found: String,
    /// Whether it holds.
    pub passed: bool,
}

/// All conditions of a policy, judged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Outcome {
    /// In the order of the policy, verdicts first.
    pub checks: Vec<Check>,
}

impl Outcome {
    /// How many conditions do not hold.
    pub fn failures(&self) -> usize {
        self.checks.iter().filter(|check| !check.passed).count()
    }
}

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// When it is not of the form above, or has nothing to judge by.
    pub fn parse(text: &str) -> Result<Self, GateError> {
        let policy: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            let message = error.message().replace('\n', " ");
            GateError::Syntax(match line {
                Some(line) => format!("line {line}: {message}"),
                None => message,
            })
        })?;
        if policy.verdict.is_empty() && policy.rule.is_empty() {
            return Err(GateError::Empty);
        }
        match policy.rule.iter().find(|rule| rule.max.is_none() && rule.min.is_none()) {
            Some(rule) => Err(GateError::Unbounded(rule.to_string())),
            None => Ok(policy),
        }
    }

    /// Refuses a policy about channels that will not be measured, before anything is.
    ///
    /// # Errors
    /// When it names another channel than these.
    pub fn check_channels(&self, measured: &[&str]) -> Result<(), GateError> {
        let verdicts =
            self.verdict.iter().map(|(channel, &worst)| (channel, allowed(channel, worst)));
        let rules = self.rule.iter().map(|rule| (&rule.channel, rule.to_string()));
        for (channel, condition) in verdicts.chain(rules) {
            if !measured.contains(&channel.as_str()) {
                let (channel, measured) = (channel.clone(), measured.join(", "));
                return Err(GateError::Channel { condition, channel, measured });
            }
        }
        Ok(())
    }

    /// Judges what was measured.
    ///
    /// # Errors
    /// When a condition has nothing to judge.
    pub fn judge(&self, sections: &[Section]) -> Result<Outcome, GateError> {
        let names: Vec<&str> = sections.iter().map(|section| section.name.as_str()).collect();
        self.check_channels(&names)?;
        let mut checks = Vec::new();
        for (channel, &worst) in &self.verdict {
            let condition = allowed(channel, worst);
            let found = of(sections, channel).filter_map(|section| section.verdict).max();
            let Some(found) = found else { return Err(GateError::NoVerdict(condition)) };
            let passed = found <= worst.into();
            checks.push(Check {
                condition,
                found: figure::verdict(Some(found)).to_owned(),
                passed,
            });
        }
        for rule in &self.rule {
            let figures = || of(sections, &rule.channel).flat_map(|section| &section.findings);
            let matched = figures().filter(|finding| rule.matches(finding));
            let Some(worst) =
                matched.min_by(|a, b| rule.slack(a.value).total_cmp(&rule.slack(b.value)))
            else {
                let mut metrics: Vec<&str> = figures().map(|f| f.metric.as_str()).collect();
                metrics.sort_unstable();
                metrics.dedup();
                let (condition, metrics) = (rule.to_string(), metrics.join(", "));
                return Err(GateError::Unmatched { condition, metrics });
            };
            checks.push(Check {
                condition: rule.in_words(),
                found: figure::sentence(worst),
                passed: rule.allows(worst.value),
            });
        }
        Ok(Outcome { checks })
    }
}

/// The `key=value` parts of a setting.
fn parts(setting: &str) -> impl Iterator<Item = &str> {
    setting.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// Sections of a channel.
fn of<'a>(sections: &'a [Section], channel: &'a str) -> impl Iterator<Item = &'a Section> {
    sections.iter().filter(move |section| section.name == channel)
}

fn allowed(channel: &str, worst: WorstVerdict) -> String {
    format!("{channel} at worst {}", figure::verdict(Some(worst.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections() -> Vec<Section> {
        let mut section = Section::new("linkage", "Linkage");
        section.verdict = Some(Verdict::Reduced);
        let finding = |setting: &str, value| Finding::new("linkage", setting, "recall_at_1", value);
        section.findings = vec![finding("pairs=8", 0.2), finding("pairs=64", 0.9)];
        vec![section, Section::new("text", "Text")]
    }

    fn judged(policy: &str) -> Result<Vec<bool>, GateError> {
        let outcome = Policy::parse(policy)?.judge(&sections())?;
        Ok(outcome.checks.iter().map(|check| check.passed).collect())
    }

    fn rule(rest: &str) -> String {
        format!("[[rule]]\nchannel = \"linkage\"\nmetric = \"recall_at_1\"\n{rest}")
    }

    #[test]
    fn the_worst_figure_of_a_rule_decides() {
        assert_eq!(judged(&rule("max = 0.5")), Ok(vec![false]));
        assert_eq!(judged(&rule("max = 0.9")), Ok(vec![true]));
        assert_eq!(judged(&rule("min = 0.5")), Ok(vec![false]));
        assert_eq!(judged(&rule("setting = \"pairs=8\"\nmax = 0.5")), Ok(vec![true]));
        assert_eq!(judged(&rule("setting = \"pairs=64\"\nmin = 0.5\nmax = 0.8")), Ok(vec![false]));
    }

    #[test]
    fn settings_match_by_whole_parts_in_any_order() {
        let finding = Finding::new("linkage", "subject=release,pairs=64", "recall_at_1", 0.5);
        let matches = |setting: &str| {
            let policy = Policy::parse(&rule(&format!("setting = \"{setting}\"\nmax = 1")));
            policy.expect("a policy").rule[0].matches(&finding)
        };
        for setting in ["", "pairs=64", "subject=release", "pairs=64, subject=release"] {
            assert!(matches(setting), "{setting}");
        }
        for setting in ["pairs=6", "airs=64", "pairs", "subject=anew,pairs=64"] {
            assert!(!matches(setting), "{setting}");
        }
    }

    #[test]
    fn conditions_are_written_in_words() {
        let policy = Policy::parse(&rule("setting = \"pairs=8\"\nmax = 0.5")).expect("a policy");
        let outcome = policy.judge(&sections()).expect("figures");
        assert_eq!(outcome.checks[0].condition, "linkage Recall@1 at 8 known pairs at most 0.5");
    }

    #[test]
    fn a_verdict_may_be_no_worse_than_allowed() {
        assert_eq!(judged("verdict = {linkage = \"reduced\"}"), Ok(vec![true]));
        assert_eq!(judged("[verdict]\nlinkage = \"closed\""), Ok(vec![false]));
        assert_eq!(judged("[verdict]\nlinkage = \"open\""), Ok(vec![true]));
    }

    #[test]
    fn what_cannot_be_judged_is_an_error_that_names_it() {
        let cases = [
            ("".to_owned(), "no rule"),
            ("[[rule]]\nchannel = 3".to_owned(), "line 2"),
            ("[verdict]\nlinkage = \"fine\"".to_owned(), "fine"),
            ("[verdict]\nnorms = \"open\"".to_owned(), "\"norms\" is not measured"),
            ("[verdict]\ntext = \"open\"".to_owned(), "text at worst open: the channel has no"),
            (rule(""), "neither `max` nor `min`"),
            (rule("max = 1\nmaximum = 2"), "maximum"),
            (rule("setting = \"pairs=9\"\nmax = 1"), "at pairs=9 at most 1: no such figure"),
        ];
        for (policy, reason) in cases {
            let error = judged(&policy).expect_err(&policy).to_string();
            assert!(error.contains(reason) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_figure_that_is_no_number_passes_nothing() {
        let mut sections = sections();
        sections[0].findings[0].value = f64::NAN;
        let policy = Policy::parse(&rule("max = 1.0")).expect("a policy");
        assert_eq!(policy.judge(&sections).expect("figures").failures(), 1);
    }
}
