//! Flags of `shard audit`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use shard::audit::{CHANNELS, Channel};
use shard::baselines::Baseline;

use crate::args::{VaultArguments, positive};
use crate::remote::VectorArguments;

#[derive(Args)]
pub struct Audit {
    /// The vault's directory
    #[arg(required_unless_present = "release")]
    pub vault: Option<PathBuf>,
    /// File with at least 32 random bytes that unlocks the vault instead of a passphrase
    /// (otherwise: SHARD_PASSPHRASE, or asked for at the terminal)
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    #[command(flatten)]
    pub vectors_from: VectorArguments,
    /// Audit somebody else's transformed vectors instead: .npy, one per row
    #[arg(long, value_name = "FILE", requires = "originals", conflicts_with_all = ["vault", "key_file", "baseline"])]
    pub release: Option<PathBuf>,
    /// What they were made from, in the same order
    #[arg(long, value_name = "FILE", requires = "release")]
    pub originals: Option<PathBuf>,
    /// The same documents transformed another time, in the same order, for `release-linkage`
    #[arg(long, value_name = "FILE", requires = "release")]
    pub second: Option<PathBuf>,
    /// Which rows of the release share a key: a text file with a label for each row, one a line
    #[arg(long, value_name = "FILE", requires = "release")]
    pub cells: Option<PathBuf>,
    /// Audit another way to protect the vault's vectors, to compare with
    #[arg(long, value_name = "NAME", alias = "foil")]
    pub baseline: Option<Baseline>,
    /// Sample queries, for what requests give away
    #[arg(long, value_name = "FILE", conflicts_with = "release")]
    pub queries: Option<PathBuf>,
    /// Texts of the documents, .jsonl or .jsonl.gz (`_id` or `id`, `text`, perhaps `title`), for what
    /// can be read out of vectors
    #[arg(long, value_name = "FILE", conflicts_with = "release")]
    pub texts: Option<PathBuf>,
    /// Directory for audit.json, audit.html and the plots
    #[arg(long, value_name = "DIR", default_value = "audit")]
    pub out: PathBuf,
    /// Where all of the audit's randomness comes from
    #[arg(long, default_value_t = 2026)]
    pub seed: u64,
    /// Channels to measure, by commas [default: all]
    #[arg(long, value_name = "CHANNEL", value_delimiter = ',', value_parser = names())]
    pub only: Vec<String>,
    /// Thresholds: exit with 3 unless they are met
    #[arg(long, value_name = "FILE")]
    pub gate: Option<PathBuf>,
    /// Directory for the attacker's vectors, for other programs to invert
    #[arg(long, value_name = "DIR")]
    pub export_views: Option<PathBuf>,
    /// Attack at most this many documents, in whole cells or blocks where possible
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    pub sample: usize,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(CHANNELS.iter().map(|channel| channel.name))
}

impl Audit {
    /// Channels to measure, in the order of the report.
    pub fn channels(&self) -> Vec<&'static Channel> {
        let asked = |channel: &&Channel| {
            self.only.is_empty() || self.only.iter().any(|n| n == channel.name)
        };
        CHANNELS.iter().filter(asked).collect()
    }

    /// The vault and what opens it.
    pub fn vault(&self) -> VaultArguments {
        VaultArguments {
            vault: self.vault.clone().expect("clap asks for a vault where there is no release"),
            key_file: self.key_file.clone(),
        }
    }
}
