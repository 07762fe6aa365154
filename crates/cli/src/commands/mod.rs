//! One module per command.

pub mod audit;
pub mod backup;
pub mod compact;
#[cfg(feature = "encode")]
pub mod console;
pub mod delete;
pub mod demo;
mod drift;
pub mod dump;
pub mod eval;
pub mod export;
pub mod fetch;
#[cfg(feature = "import")]
pub mod import;
pub mod ingest;
pub mod init;
#[cfg(feature = "encode")]
pub mod mcp;
mod passages;
pub mod passphrase;
pub mod plan;
pub mod publish;
pub mod pull;
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
use shard::remote::Remote;

use crate::args::Arguments;
use crate::output::{Output, bytes, moment, note, printable};

/// Prints completions.
pub fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "shard", &mut script);
    Ok(std::io::Write::write_all(&mut std::io::stdout(), &script)?)
}

/// How many documents a vault holds.
fn documents(vault: &Vault) -> Result<usize> {
    Ok(vault.collection()?.map_or(0, |collection| collection.documents()))
}

/// Says so when the last backup is older than the vault, or than what opens it.
fn say_backup_age(output: &Output<'_>, vault: &Vault, directory: &Path) -> Result<()> {
    let age = vault.backup_age()?;
    let Some(last) = &age.last else { return Ok(()) };
    let since = match (age.vault_changed, age.unlock_changed) {
        (false, false) => return Ok(()),
        (true, false) => "the vault has changed since",
        (false, true) => "it opens with what opened the vault then",
        (true, true) => "the vault has changed since, and it opens with what opened it then",
    };
    let directory = printable(&directory.display().to_string());
    let (when, server) = (moment(last.made()), printable(&last.server));
    output.line(format!("the last backup is of {when}: {since}"))?;
    output.line(format!("next: shard backup {directory} --server {server}"))
}

/// Lets a vault that does not keep its vectors leave them with the server. What was done before is done,
/// so where that does not work it is said and no more. Returns how many bytes were left.
fn leave_vectors(vault: &mut Vault, server: &Remote, output: &Output<'_>) -> Result<u64> {
    let left = vault.leave_vectors(server, shard::UNWATCHED).unwrap_or_else(|error| {
        note(&format!("warning: the vectors are still in the vault: {error}"));
        0
    });
    if left > 0 {
        let left = bytes(left as f64);
        output
            .line(format!("{left} of vectors were read back and are with the server alone now"))?;
    }
    Ok(left)
}

/// What is left to do after the rows of a vault have changed.
fn publish_next(output: &Output<'_>, vault: &Path) -> Result<()> {
    let vault = printable(&vault.display().to_string());
    output.line(format!("next: shard publish {vault} --server URL"))
}
