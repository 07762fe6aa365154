//! The list of channels, and running them.

use anyhow::{Context, Result};
use shard_protocol::Leak;

use super::shape;
use crate::alignment::{partial, procrustes, reference, structured, unsupervised};
use crate::baselines::{frontier, pq_codes, sigma_rec};
use crate::finding::Section;
use crate::linkage::{candidates, churn, membership, prefix, releases, same_key};
use crate::subject::Subject;
use crate::text;

/// Measures one channel. The callback is told what is being done.
pub type Run = fn(&Subject, &dyn Fn(&str)) -> Result<Section>;

/// What a channel measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Any transformed vectors, whatever made them.
    Any,
    /// Shard's own parts: the prefix, the cells, the requests.
    Shard,
    /// Another way to protect the same vectors, to compare with.
    Baseline,
}

impl Scope {
    /// Whether the channel says something about what is audited.
    pub fn is_own(self) -> bool {
        self != Self::Baseline
    }
}

/// A way in which vectors leak.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// In kebab case; also that of its section.
    pub name: &'static str,
    /// What it is about.
    pub scope: Scope,
    /// Measures it.
    pub run: Run,
}

impl Channel {
    /// A channel of any transformed vectors.
    pub const fn any(name: &'static str, run: Run) -> Self {
        Self { name, scope: Scope::Any, run }
    }

    /// A channel of Shard's own parts.
    pub const fn shard(name: &'static str, run: Run) -> Self {
        Self { name, scope: Scope::Shard, run }
    }

    /// A channel of another way to protect the same vectors.
    pub const fn baseline(name: &'static str, run: Run) -> Self {
        Self { name, scope: Scope::Baseline, run }
    }
}

/// Every channel, in the order of the report. docs/AUDIT.md explains each.
pub const CHANNELS: &[Channel] = &[
    Channel::any("shape", shape::channel),
    Channel::any("same-key-neighbours", same_key::channel),
    Channel::shard("prefix", prefix::channel),
    Channel::shard("prefix-lookup", reference::prefix_channel),
    Channel::any("partial-alignment", partial::channel),
    Channel::any("reference-lookup", reference::channel),
    Channel::any("unsupervised-alignment", unsupervised::channel),
    Channel::shard("structured-keys", structured::channel),
    Channel::any("release-linkage", releases::channel),
    Channel::shard("release-churn", churn::channel),
    Channel::shard("request-leakage", candidates::channel),
    Channel::any("membership", membership::channel),
    Channel::any("text-inversion", text::channel),
    Channel::baseline("global-procrustes", procrustes::channel),
    Channel::baseline("pq-codes", pq_codes::channel),
    Channel::baseline("sigma-rec", sigma_rec::channel),
    Channel::baseline("frontier", frontier::channel),
];

/// The channels that measure what an attacker learns from a leak. docs/AUDIT.md has the same list.
pub fn measuring(leak: Leak) -> &'static [&'static str] {
    match leak {
        Leak::StoredRows => &[
            "same-key-neighbours",
            "partial-alignment",
            "reference-lookup",
            "unsupervised-alignment",
            "structured-keys",
            "release-linkage",
            "release-churn",
            "membership",
            "text-inversion",
        ],
        Leak::CellMembership => &["shape", "same-key-neighbours"],
        Leak::CollectionShape => &["shape"],
        Leak::ActiveCells | Leak::CandidateHandles => &["request-leakage"],
        // Nothing is measured of the others: sizes and times of requests, requests of one session,
        // prefix scores in slots, sizes of backups and blocks that change are only named.
        _ => &[],
    }
}

/// The channel of a name.
pub fn find(name: &str) -> Option<&'static Channel> {
    CHANNELS.iter().find(|channel| channel.name == name)
}

/// What a section is about; sections that are no channels are about what is audited.
pub fn scope(section: &str) -> Scope {
    find(section).map_or(Scope::Any, |channel| channel.scope)
}

/// Runs channels one after the other. `progress` gets the name of a channel and what it is doing.
///
/// # Errors
/// When a channel fails: a report that silently lacks one would look better than it is.
pub fn run(
    subject: &Subject,
    channels: &[&Channel],
    progress: &dyn Fn(&str, &str),
) -> Result<Vec<Section>> {
    let run = |channel: &&Channel| {
        if channel.scope == Scope::Shard && subject.prefix_width == 0 {
            return Ok(inapplicable(channel.name));
        }
        progress(channel.name, "");
        (channel.run)(subject, &|step| progress(channel.name, step))
            .with_context(|| format!("channel {}", channel.name))
    };
    channels.iter().map(run).collect()
}

/// The section of a channel that is about parts that only Shard has.
fn inapplicable(name: &str) -> Section {
    let mut section = Section::new(name, &name.replace('-', " "));
    section.notes.push(
        "Not measured: this channel is about Shard's own prefix, cells or requests, and these \
         vectors were made by something else."
            .to_owned(),
    );
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_in_kebab_case() {
        for (at, channel) in CHANNELS.iter().enumerate() {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(channel.name.chars().all(plain), "{}", channel.name);
            assert!(CHANNELS[..at].iter().all(|other| other.name != channel.name));
        }
    }

    /// The page for security officers has a heading of its own for every channel, in the order
    /// of the report, and for nothing else between its marks.
    #[test]
    fn the_manual_explains_exactly_these_channels() {
        let manual = include_str!("../../../../docs/AUDIT.md");
        let listed =
            manual.split("<!-- channels -->").nth(1).expect("the list stands between marks");
        let explained: Vec<&str> = listed
            .lines()
            .filter_map(|line| line.strip_prefix("### `")?.split('`').next())
            .collect();
        let measured: Vec<&str> = CHANNELS.iter().map(|channel| channel.name).collect();
        assert_eq!(explained, measured);
    }

    /// The contract, the channels and the manual are one list.
    #[test]
    fn every_leak_of_the_contract_has_its_row_in_the_manual() {
        let manual = include_str!("../../../../docs/AUDIT.md");
        for &leak in Leak::ALL {
            let channels = measuring(leak);
            assert!(channels.iter().all(|name| find(name).is_some()), "{}", leak.name());
            let named: Vec<String> = channels.iter().map(|name| format!("`{name}`")).collect();
            let named = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
            let row = format!("| `{}` | {named} |", leak.name());
            assert!(manual.contains(&row), "docs/AUDIT.md lacks {row}");
        }
    }
}
