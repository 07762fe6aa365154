//! `shard recovery`.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::args::VaultArguments;
use crate::output::{Output, printable};
use crate::unlock;

#[derive(Args)]
pub struct Recovery {
    #[command(flatten)]
    vault: VaultArguments,
}

pub fn run(arguments: &Recovery, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let mut vault = unlock::open(&arguments.vault)?;
    let replaced = vault.has_recovery();
    let prepared = vault.prepare_recovery()?;
    let code = prepared.code().expose();
    let directory = printable(&arguments.vault.vault.display().to_string());
    output
        .line("write this code down and keep it away from this machine; it is not shown again:")?;
    output.line(format!("\n  {}\n", *code))?;
    output.secret_result(&json!({ "code": *code, "replaced": replaced }))?;
    // Whoever cannot see the new code keeps the old one.
    std::io::stdout().flush()?;
    vault.replace_recovery(&prepared).context(if replaced {
        "the new code opens nothing, and the one made before is still good"
    } else {
        "the new code opens nothing"
    })?;
    if replaced {
        output.line("the code made before opens nothing any more")?;
    }
    output.line(format!("when it is needed: shard passphrase {directory} --recovery"))?;
    super::say_backup_age(&output, &vault, &arguments.vault.vault)
}
