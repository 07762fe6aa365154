//! `shard compact`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use shard::server::{RedbRows, StoreOptions};

use super::publish_next;
use crate::args::{OperatorArguments, VaultArguments};
use crate::output::{Output, bytes, follow, grouped, progress};
use crate::place::is_vault;
use crate::remote::{connect, find_vectors};
use crate::unlock;

#[derive(Args)]
pub struct Compact {
    /// The directory of a stopped server, or a blind vault, whose rows are put into as few blocks as
    /// they need
    #[arg(value_name = "DIR", required_unless_present = "server")]
    pub directory: Option<PathBuf>,
    /// Key file of the vault [default: its passphrase, SHARD_PASSPHRASE or asked for]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    #[command(flatten)]
    pub operator: OperatorArguments,
}

pub fn run(arguments: &Compact, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let Some(directory) = &arguments.directory else {
        let operator = &arguments.operator;
        let server = operator.server.as_ref().context("neither a directory nor a server")?;
        connect(server, &operator.connection)?.compact()?;
        output.line("compacted")?;
        return output.result(&json!({ "compacted": true }));
    };
    if is_vault(directory) {
        return vault(arguments, directory, &output);
    }
    if arguments.operator.server.is_some() {
        bail!("a stopped server's directory and a running server: one of them can be compacted");
    }
    let rows = RedbRows::open_existing(directory, StoreOptions::default())?;
    let done = rows.compact()?;
    output.line(format!(
        "{} rows, {} before, {} after",
        grouped(done.rows as usize),
        bytes(done.bytes_before as f64),
        bytes(done.bytes_after as f64)
    ))?;
    output.result(&json!({
        "rows": done.rows,
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
    }))
}

/// Puts the rows of a blind vault together.
fn vault(arguments: &Compact, directory: &Path, output: &Output<'_>) -> Result<()> {
    let (vault, key_file) = (directory.to_owned(), arguments.key_file.clone());
    let mut opened = unlock::open(&VaultArguments { vault, key_file })?;
    if let Some(server) = &arguments.operator.server {
        find_vectors(&mut opened, server, &arguments.operator.connection)?;
    }
    let bar = progress("compacting", 0);
    let done = opened.compact(&follow(&bar));
    bar.finish_and_clear();
    let done = done?;
    output.line(format!(
        "{} blocks removed, {} left",
        grouped(done.removed),
        grouped(done.blocks)
    ))?;
    if done.removed > 0 {
        publish_next(output, directory)?;
    }
    output.result(&json!({ "removed": done.removed, "blocks": done.blocks }))
}
