//! `shard verify`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use crate::args::VaultArguments;
use crate::output::{Output, bytes, follow, grouped, printable, progress};
use crate::place::is_vault;
use crate::remote::VectorArguments;

#[derive(Args)]
pub struct Verify {
    /// The vault, the server's directory, or a snapshot
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Key file of the vault [default: its passphrase, SHARD_PASSPHRASE or asked for]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    #[command(flatten)]
    pub vectors_from: VectorArguments,
}

pub fn run(arguments: &Verify, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    if is_vault(&arguments.directory) {
        return vault(arguments, &output);
    }
    let found = shard::server::verify(&arguments.directory)?;
    let counts = [
        ("collections", found.collections),
        ("epochs", found.epochs),
        ("rows", found.rows),
        ("blobs", found.blobs),
    ];
    for (what, count) in counts {
        output.line(format!("{what:12} {}", grouped(count as usize)))?;
    }
    for problem in &found.problems {
        output.line(format!("problem      {}", printable(problem)))?;
    }
    output.result(&json!({
        "collections": found.collections,
        "epochs": found.epochs,
        "rows": found.rows,
        "blobs": found.blobs,
        "problems": found.problems,
    }))?;
    match found.problems.as_slice() {
        [] => output.line("everything is as it was written"),
        [only] => bail!("{} is damaged: {only}", arguments.directory.display()),
        [first, rest @ ..] => bail!(
            "{} is damaged in {} places, first: {first}",
            arguments.directory.display(),
            1 + rest.len()
        ),
    }
}

/// Opens every value of a vault and holds them against each other.
fn vault(arguments: &Verify, output: &Output<'_>) -> Result<()> {
    let (vault, key_file) = (arguments.directory.clone(), arguments.key_file.clone());
    let opened = arguments.vectors_from.open(&VaultArguments { vault, key_file })?;
    let bar = progress("verifying", 0);
    let found = opened.verify(&follow(&bar));
    bar.finish_and_clear();
    let found = found?;
    output.line(format!(
        "generation {}: {} values, {}, {} documents: everything is as it was written",
        found.generation,
        grouped(found.values),
        bytes(found.bytes as f64),
        grouped(found.documents),
    ))?;
    if found.elsewhere > 0 {
        output.line(format!(
            "{} values with vectors are with the server alone and were not looked at: name it with \
             --server",
            grouped(found.elsewhere),
        ))?;
    }
    output.result(&json!({
        "generation": found.generation,
        "values": found.values,
        "bytes": found.bytes,
        "elsewhere": found.elsewhere,
        "documents": found.documents,
        "problems": [],
    }))
}
