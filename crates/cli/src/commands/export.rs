//! `shard export`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::args::{NewUnlockArguments, VaultArguments};
use crate::output::{Output, grouped, printable};
use crate::unlock;

#[derive(Args)]
pub struct Export {
    #[command(flatten)]
    vault: VaultArguments,
    /// Directory of the new vault, which must be empty or not exist
    directory: PathBuf,
    #[command(flatten)]
    new: NewUnlockArguments,
}

pub fn run(arguments: &Export, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let vault = unlock::open(&arguments.vault)?;
    vault.require_owner("be exported")?; // before a passphrase is asked for
    let chosen = unlock::choose_new(&arguments.new)?;
    let made = match vault.export(&arguments.directory, &chosen.unlock) {
        Ok(made) => made,
        Err(error) => {
            chosen.discard();
            return Err(error.into());
        }
    };
    chosen.announce();
    let collection = made.collection()?.context("the exported vault is empty")?;
    let shown = |path: &Path| printable(&path.display().to_string());
    output.line(format!(
        "made the query vault {}: {} documents of epoch {}, to be searched and no more",
        shown(&arguments.directory),
        grouped(collection.documents()),
        collection.epoch(),
    ))?;
    output.line(format!("to revoke it: shard rekey {}", shown(&arguments.vault.vault)))?;
    output.line(format!(
        "next: shard search {} --query FILE --server URL",
        shown(&arguments.directory)
    ))?;
    output.result(&json!({
        "vault": arguments.directory,
        "documents": collection.documents(),
        "epoch": collection.epoch().0,
        "revision": collection.position().revision().0,
    }))
}
