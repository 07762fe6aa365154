//! The list of channels, and running them.

use anyhow::{Context, Result};
use shard_protocol::Leak;

use super::figure::capitalised;
use super::shape;
use crate::alignment::{partial, procrustes, reference, structured, unsupervised};
use crate::baselines::{frontier, pq_codes, sigma_rec};
use crate::blind::{BlindSubject, channels as blind, seen};
use crate::finding::Section;
use crate::linkage::{canaries, candidates, churn, membership, prefix, releases, same_key};
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
    /// Blind collections alone.
    Blind,
    /// What the server of a blind collection sees without an attack.
    Seen,
    /// Another way to protect the same vectors, to compare with.
    Baseline,
}

impl Scope {
    /// Whether the channel is an attack on what is audited.
    pub fn is_attack(self) -> bool {
        !matches!(self, Self::Seen | Self::Baseline)
    }

    /// Whether only blind collections have the channel.
    fn is_blind(self) -> bool {
        matches!(self, Self::Blind | Self::Seen)
    }
}

/// How a channel is measured on a blind collection.
#[derive(Clone, Copy, Debug)]
enum OnBlind {
    /// By an attack on ciphertexts.
    Run(blind::Run),
    /// As on rows, because it is about the vectors alone.
    SameAsRows,
    /// Not at all, for a reason.
    Never(&'static str),
}

/// A way in which vectors leak.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// In kebab case; also that of its section.
    pub name: &'static str,
    /// What it is about.
    pub scope: Scope,
    /// Whether its figure is the share of documents that are identified. The others tell something
    /// of documents and of queries without saying which they are.
    pub identifies: bool,
    /// Measures it on rows; there is none of a channel that only blind collections have.
    run: Option<Run>,
    on_blind: OnBlind,
}

impl Channel {
    const fn new(name: &'static str, scope: Scope, run: Option<Run>, on_blind: OnBlind) -> Self {
        Self { name, scope, identifies: false, run, on_blind }
    }

    /// The same, as one whose figure is the share of documents that are identified.
    const fn identifying(self) -> Self {
        Self { identifies: true, ..self }
    }

    /// A channel of any transformed vectors, and of ciphertexts.
    const fn any(name: &'static str, run: Run, on_blind: blind::Run) -> Self {
        Self::new(name, Scope::Any, Some(run), OnBlind::Run(on_blind))
    }

    /// A channel of Shard's own parts.
    const fn shard(name: &'static str, run: Run, on_blind: OnBlind) -> Self {
        Self::new(name, Scope::Shard, Some(run), on_blind)
    }

    /// A channel of blind collections alone.
    const fn blind(name: &'static str, scope: Scope, run: blind::Run) -> Self {
        Self::new(name, scope, None, OnBlind::Run(run))
    }

    /// A channel of another way to protect the same vectors.
    const fn baseline(name: &'static str, run: Run, on_blind: OnBlind) -> Self {
        Self::new(name, Scope::Baseline, Some(run), on_blind)
    }
}

/// Why channels of the prefix are not measured on blind collections.
const NO_PREFIX: OnBlind =
    OnBlind::Never("a blind collection has no prefix: vectors are encrypted whole.");

/// Every channel, in the order of the report. docs/AUDIT.md explains each.
pub const CHANNELS: &[Channel] = &[
    Channel::any("shape", shape::channel, blind::shape),
    Channel::any("same-key-neighbours", same_key::channel, blind::neighbours),
    Channel::shard("prefix", prefix::channel, NO_PREFIX),
    Channel::shard("prefix-lookup", reference::prefix_channel, NO_PREFIX).identifying(),
    Channel::any("partial-alignment", partial::channel, blind::known_pairs).identifying(),
    Channel::any("reference-lookup", reference::channel, blind::reference).identifying(),
    Channel::any("unsupervised-alignment", unsupervised::channel, blind::unsupervised)
        .identifying(),
    Channel::shard(
        "structured-keys",
        structured::channel,
        OnBlind::Never("a blind collection has no rotations, structured or not."),
    ),
    Channel::any("release-linkage", releases::channel, blind::releases),
    Channel::shard("release-churn", churn::channel, OnBlind::Run(blind::churn)),
    Channel::shard("request-leakage", candidates::channel, OnBlind::Run(blind::requests)),
    Channel::shard(
        "canaries",
        canaries::channel,
        OnBlind::Never("a blind collection has no canaries: its answers are checked whole."),
    ),
    Channel::any("membership", membership::channel, blind::membership),
    Channel::any("text-inversion", text::channel, blind::words),
    Channel::blind("ciphertext-noise", Scope::Blind, blind::noise),
    Channel::blind("collection-size", Scope::Seen, seen::collection_size),
    Channel::blind("block-changes", Scope::Seen, seen::block_changes),
    Channel::blind("request-shape", Scope::Seen, seen::request_shape),
    Channel::baseline("global-procrustes", procrustes::channel, OnBlind::SameAsRows),
    Channel::baseline("pq-codes", pq_codes::channel, OnBlind::SameAsRows),
    Channel::baseline("sigma-rec", sigma_rec::channel, OnBlind::SameAsRows),
    Channel::baseline(
        "frontier",
        frontier::channel,
        OnBlind::Never("it sets the rows of rotated collections beside the baselines."),
    ),
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
            "canaries",
            "membership",
            "text-inversion",
        ],
        Leak::CellMembership => &["shape", "same-key-neighbours"],
        Leak::CollectionShape => &["shape", "collection-size"],
        Leak::ActiveCells => &["request-leakage"],
        Leak::CandidateHandles => &["request-leakage", "canaries"],
        Leak::BlockChanges => &["release-churn", "block-changes"],
        Leak::RequestShape => &["request-shape"],
        // Nothing is measured of the others: requests of one session, prefix scores in slots, sizes of
        // backups and pages that a direct fetch asks for are only named.
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
/// Channels that only blind collections have are left out, unless nothing else was asked for.
///
/// # Errors
/// When a channel fails: a report that silently lacks one would look better than it is.
pub fn run(
    subject: &Subject,
    channels: &[&Channel],
    progress: &dyn Fn(&str, &str),
) -> Result<Vec<Section>> {
    let only_blind = channels.iter().all(|channel| channel.scope.is_blind());
    let asked = channels.iter().filter(|channel| only_blind || !channel.scope.is_blind());
    let run = |channel: &&Channel| match channel.run {
        None => Ok(not_measured(channel, "this channel is about blind collections.")),
        Some(_) if channel.scope == Scope::Shard && subject.prefix_width == 0 => Ok(not_measured(
            channel,
            "this channel is about Shard's own prefix, cells or requests, and these vectors were made by \
             something else.",
        )),
        Some(run) => in_context(channel, progress, |step| run(subject, step)),
    };
    asked.map(run).collect()
}

/// Runs channels on a blind collection.
///
/// # Errors
/// As for [`run`].
pub fn run_blind(
    subject: &BlindSubject,
    channels: &[&Channel],
    progress: &dyn Fn(&str, &str),
) -> Result<Vec<Section>> {
    let run = |channel: &&Channel| match (channel.on_blind, channel.run) {
        (OnBlind::Run(run), _) => in_context(channel, progress, |step| run(subject, step)),
        (OnBlind::SameAsRows, Some(run)) => {
            in_context(channel, progress, |step| run(&subject.readings[0].subject, step))
        }
        (OnBlind::SameAsRows, None) => Ok(not_measured(channel, "there are no rows.")),
        (OnBlind::Never(reason), _) => Ok(not_measured(channel, reason)),
    };
    channels.iter().map(run).collect()
}

/// Runs a channel, says so before, and names it in its error.
fn in_context(
    channel: &Channel,
    progress: &dyn Fn(&str, &str),
    run: impl FnOnce(&dyn Fn(&str)) -> Result<Section>,
) -> Result<Section> {
    progress(channel.name, "");
    run(&|step| progress(channel.name, step)).with_context(|| format!("channel {}", channel.name))
}

/// The section of a channel that cannot be measured on what is audited.
fn not_measured(channel: &Channel, reason: &str) -> Section {
    let mut section = Section::new(channel.name, &capitalised(&channel.name.replace('-', " ")));
    section.notes.push(format!("Not measured: {reason}"));
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
