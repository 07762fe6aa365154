//! One module per command.

pub mod audit;
pub mod backup;
pub mod compact;
pub mod delete;
pub mod demo;
mod drift;
pub mod dump;
pub mod eval;
pub mod export;
pub mod ingest;
pub mod init;
pub mod passphrase;
pub mod publish;
pub mod recovery;
pub mod refit;
pub mod rekey;
pub mod restore;
pub mod search;
pub mod serve;
pub mod snapshot;
pub mod status;
pub mod token;
pub mod verify;

use std::path::Path;

use anyhow::Result;
use clap::CommandFactory;

use shard::Vault;

use crate::args::Arguments;
use crate::output::{Output, printable};

/// Prints completions.
pub fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "shard", &mut script);
    Ok(std::io::Write::write_all(&mut std::io::stdout(), &script)?)
}

/// How many documents a vault holds.
fn documents(vault: &Vault) -> Result<usize> {
    Ok(vault.collection()?.map_or(0, |collection| collection.index().rows()))
}

/// What is left to do after the rows of a vault have changed.
fn publish_next(output: &Output<'_>, vault: &Path) -> Result<()> {
    let vault = printable(&vault.display().to_string());
    output.line(format!("next: shard publish {vault} --server URL"))
}
