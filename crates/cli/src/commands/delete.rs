//! `shard delete`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde_json::json;
use shard::input::read_ids;
use shard::{MissingIds, Protection};

use super::publish_next;
use crate::args::VaultArguments;
use crate::output::{Output, grouped};
use crate::remote::VectorArguments;

#[derive(Args)]
pub struct Delete {
    #[command(flatten)]
    vault: VaultArguments,
    #[command(flatten)]
    vectors_from: VectorArguments,
    /// Ids of the documents
    #[arg(value_name = "ID", required_unless_present = "ids")]
    id: Vec<String>,
    /// File with further ids, one per line
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// Delete the others where some ids are not in the vault
    #[arg(long)]
    ignore_missing: bool,
}

pub fn run(arguments: &Delete, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let mut ids = arguments.id.clone();
    if let Some(path) = &arguments.ids {
        ids.extend(read_ids(path)?);
    }
    let missing = if arguments.ignore_missing { MissingIds::Ignore } else { MissingIds::Refuse };
    let mut vault = arguments.vectors_from.open(&arguments.vault)?;
    let done = vault.delete(&ids, missing)?;
    output.line(format!(
        "{} documents deleted, {} in the vault",
        grouped(done.deleted),
        grouped(done.documents)
    ))?;
    if !done.missing.is_empty() {
        output.line(format!("{} ids were not in it", grouped(done.missing.len())))?;
    }
    if done.deleted > 0 {
        output.line(match vault.settings()?.protection {
            Protection::Blind => {
                "what a server has kept of them opens with this vault's keys; docs/LEAKAGE.md says how to erase"
            }
            Protection::Rotated => {
                "a server that has kept their rows can still match and attack them, and undo their rotation with \
                 this vault's keys (docs/LEAKAGE.md)"
            }
        })?;
        publish_next(&output, &arguments.vault.vault)?;
    }
    output.result(&json!({
        "deleted": done.deleted,
        "missing": done.missing,
        "documents": done.documents,
    }))
}
