//! `shard passphrase`.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use shard::Vault;

use crate::args::{NewUnlockArguments, VaultArguments};
use crate::output::Output;
use crate::unlock;

#[derive(Args)]
pub struct Passphrase {
    #[command(flatten)]
    vault: VaultArguments,
    /// Open the vault with its recovery code (SHARD_RECOVERY_CODE, or asked for)
    #[arg(long, conflicts_with = "key_file")]
    recovery: bool,
    #[command(flatten)]
    new: NewUnlockArguments,
}

pub fn run(arguments: &Passphrase, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let mut vault = if arguments.recovery {
        unlock::recover(&arguments.vault.vault)?
    } else {
        unlock::open(&arguments.vault)?
    };
    let chosen = unlock::choose_new(&arguments.new)?;
    if let Err(error) = vault.change_unlock(&chosen.unlock) {
        // A disk that only failed to confirm the change may have made it: then the new key file is
        // what opens the vault.
        if Vault::open(&arguments.vault.vault, &chosen.unlock).is_err() {
            chosen.discard();
        }
        return Err(error.into());
    }
    chosen.announce();
    let kind = chosen.unlock.kind();
    output.line(format!("from now on the new {kind} opens the vault, and the old one does not"))?;
    super::say_backup_age(&output, &vault, &arguments.vault.vault)?;
    output.result(&json!({ "vault": arguments.vault.vault, "unlock": kind.to_string() }))
}
