//! `shard init`.

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use shard::Vault;

use crate::args::Init;
use crate::output::Output;
use crate::unlock;

pub fn run(arguments: &Init, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let settings = arguments.settings();
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
