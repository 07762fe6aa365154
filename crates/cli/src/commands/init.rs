//! `shard init`.

use std::path::Path;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use shard::{CellCount, Choice, Settings, TransformKind, Vault};

use crate::args::{VaultArguments, cells, choice, positive};
use crate::output::Output;
use crate::unlock;

#[derive(Args)]
pub struct Init {
    #[command(flatten)]
    pub vault: VaultArguments,
    /// What the server gets: ciphertexts, all of which it scores, or rotated rows, which it scores by
    /// name
    #[arg(long, default_value = "blind", value_enum)]
    pub protection: ProtectionName,
    /// Width of the tiles of ciphertexts, or `auto`: the fastest for the first documents
    #[arg(long, value_name = "WIDTH", value_parser = choice, help_heading = BLIND)]
    pub tile: Option<Choice>,
    /// Secrets that hide a query: two are harder to break, and hints are twice as long [default: 1]
    #[arg(long, value_name = "1|2", value_parser = clap::value_parser!(u64).range(1..=2), help_heading = BLIND)]
    pub query_secrets: Option<u64>,
    /// Whether the vault keeps the vectors once they are published; otherwise the server has the only
    /// copy, sealed, and what changes documents needs it [default: yes]
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no, help_heading = BLIND)]
    pub keep_vectors: Option<bool>,
    /// Of a large blind collection, cells that its documents are grouped by: a search asks for some, and the
    /// server learns which. Of a rotated one, cells with a key each, `auto` to follow the number of
    /// documents, or `micro` for a key per document
    #[arg(long, value_name = "N", value_parser = cells)]
    pub cells: Option<CellCount>,
    /// Cells that a search asks for, unless it says how many [default: a quarter of them]
    #[arg(long, value_name = "CELLS", value_parser = positive, requires = "cells", help_heading = BLIND)]
    pub probe: Option<usize>,
    /// Width of the routing prefix, or `auto`: the smallest that keeps recall
    #[arg(long, value_name = "WIDTH", value_parser = choice, help_heading = ROTATED)]
    pub d_pub: Option<Choice>,
    /// Candidates that are scored under encryption, or `auto`: the fewest that keep recall
    #[arg(long, value_name = "K", value_parser = choice, help_heading = ROTATED)]
    pub candidates: Option<Choice>,
    /// Family of keys [default: orthogonal, or structured with `--cells micro`]
    #[arg(long, help_heading = ROTATED)]
    pub transform: Option<TransformName>,
    /// Seed of the partition and of the tuning sample; not a secret [default: 2026]
    #[arg(long, help_heading = ROTATED)]
    pub seed: Option<u64>,
}

const BLIND: &str = "Blind collections";
const ROTATED: &str = "Rotated collections";

/// How vectors are protected.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProtectionName {
    /// Ciphertexts: the server sees sizes and times, and is caught when it lies
    Blind,
    /// The paper's: a prefix stays with the client, the rest is rotated by a secret of each cell
    Rotated,
}

impl Init {
    /// What was chosen.
    ///
    /// # Errors
    /// When an option is of the other protection.
    pub fn settings(&self) -> Result<Settings> {
        let rotated = [
            ("--d-pub", self.d_pub.is_some()),
            ("--candidates", self.candidates.is_some()),
            ("--transform", self.transform.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        let blind = [
            ("--tile", self.tile.is_some()),
            ("--query-secrets", self.query_secrets.is_some()),
            ("--keep-vectors", self.keep_vectors.is_some()),
            ("--probe", self.probe.is_some()),
        ];
        let (foreign, other) = match self.protection {
            ProtectionName::Blind => (&rotated[..], "rotated"),
            ProtectionName::Rotated => (&blind[..], "blind"),
        };
        if let Some((flag, _)) = foreign.iter().find(|(_, given)| *given) {
            bail!("{flag} is of {other} collections: give it with --protection {other}");
        }
        if self.protection == ProtectionName::Blind {
            let defaults = Settings::blind();
            let tile = self.tile.unwrap_or(defaults.tile);
            let keep_vectors = self.keep_vectors.unwrap_or(defaults.keep_vectors);
            let cells = self.cells.unwrap_or(defaults.cells);
            let settings = Settings { tile, keep_vectors, cells, probe: self.probe, ..defaults };
            return Ok(match self.query_secrets {
                Some(secrets) => settings.with_query_secrets(secrets)?,
                None => settings,
            });
        }
        let cells = self.cells.unwrap_or(Settings::DEFAULT_CELLS);
        let defaults = Settings::new(cells);
        Ok(Settings {
            transform: self.transform.map_or(defaults.transform, TransformName::kind),
            d_pub: self.d_pub.unwrap_or(defaults.d_pub),
            candidates: self.candidates.unwrap_or(defaults.candidates),
            seed: self.seed.unwrap_or(defaults.seed),
            ..defaults
        })
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum TransformName {
    /// Uniform over all orthogonal maps
    Orthogonal,
    /// Signs, permutations and Hadamard rounds
    Structured,
}

impl TransformName {
    fn kind(self) -> TransformKind {
        match self {
            Self::Orthogonal => TransformKind::Orthogonal,
            Self::Structured => TransformKind::Structured,
        }
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("it is yes or no".to_owned()),
    }
}

pub fn run(arguments: &Init, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let settings = arguments.settings()?;
    settings.check()?; // before a passphrase is asked for
    let chosen = unlock::choose(&arguments.vault)?;
    if let Err(error) = Vault::create(&arguments.vault.vault, &chosen.unlock, &settings) {
        chosen.discard();
        return Err(error.into());
    }
    chosen.announce();
    let directory = arguments.vault.vault.display();
    output.line(format!("made the vault {directory}"))?;
    output.line(format!("next: shard ingest {directory} DOCUMENTS"))?;
    output.line(format!(
        "and: shard recovery {directory}, for a code to write down: there is no other way in once \
         what opens it is lost"
    ))?;
    output.result(&json!({ "vault": arguments.vault.vault, "settings": settings }))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Command};

    fn settings(flags: &str) -> Result<Settings, String> {
        let words = ["shard", "init", "v"].into_iter().chain(flags.split_whitespace());
        match Arguments::parse_from(words).command {
            Command::Init(init) => init.settings().map_err(|error| error.to_string()),
            _ => unreachable!("an init was given"),
        }
    }

    #[test]
    fn a_vault_is_blind_unless_told_otherwise() {
        assert_eq!(settings("").unwrap(), Settings::blind());
        let rotated = settings("--protection rotated").unwrap();
        assert_eq!(rotated.transform, TransformKind::Orthogonal);
        assert_eq!(rotated.cells, CellCount::Auto);
    }

    #[test]
    fn options_of_the_other_protection_are_refused_by_name() {
        for flag in ["--d-pub 8", "--candidates 9", "--transform structured", "--seed 1"] {
            let error = settings(flag).unwrap_err();
            let name = flag.split(' ').next().unwrap();
            assert!(error.starts_with(name) && error.contains("--protection rotated"), "{error}");
        }
        let blind = ["--tile 32", "--query-secrets 2", "--keep-vectors no", "--cells 4 --probe 1"];
        for flag in blind {
            let error = settings(&format!("--protection rotated {flag}")).unwrap_err();
            assert!(error.contains("is of blind collections"), "{error}");
        }
    }

    #[test]
    fn a_blind_vault_has_cells_only_if_told_so() {
        let celled = settings("--cells 64 --probe 8").unwrap();
        assert_eq!((celled.cells, celled.probe), (CellCount::Cells(64), Some(8)));
        assert!(celled.check().is_ok());
        assert!(settings("--cells 4 --probe 5").unwrap().check().is_err());
        assert!(settings("--cells micro").unwrap().check().is_err());
    }

    #[test]
    fn micro_keys_default_to_the_fast_family() {
        let micro = settings("--protection rotated --cells micro").unwrap();
        assert_eq!((micro.cells, micro.transform), (CellCount::Micro, TransformKind::Structured));
        let both = settings("--protection rotated --cells micro --transform orthogonal").unwrap();
        assert_eq!(both.transform, TransformKind::Orthogonal);
    }
}
