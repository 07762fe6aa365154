//! `shard rekey`.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use shard::Protection;

use super::{documents, publish_next};
use crate::args::VaultArguments;
use crate::output::{Output, follow, grouped, progress};
use crate::remote::VectorArguments;

#[derive(Args)]
pub struct Rekey {
    #[command(flatten)]
    vault: VaultArguments,
    #[command(flatten)]
    vectors_from: VectorArguments,
}

pub fn run(arguments: &Rekey, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let mut vault = arguments.vectors_from.open(&arguments.vault)?;
    let bar = progress("protecting", documents(&vault)?);
    let done = vault.rekey(&follow(&bar));
    bar.finish_and_clear();
    let done = done?;
    output.line(format!(
        "fresh keys and names for {} documents; epoch {} has begun",
        grouped(done.documents),
        done.epoch
    ))?;
    output.line("query vaults exported before find nothing once it is published")?;
    output.line(match vault.settings()?.protection {
        Protection::Blind => {
            "a server that kept old blocks can open them with this vault's keys or with a vault exported before; \
             docs/LEAKAGE.md says how to erase"
        }
        Protection::Rotated => {
            "a server that kept old rows finds them again by their lengths, and can undo their rotation with this \
             vault's keys or with a vault exported before (docs/LEAKAGE.md)"
        }
    })?;
    publish_next(&output, &arguments.vault.vault)?;
    output.result(&json!({ "epoch": done.epoch.0, "documents": done.documents }))
}
