//! `shard restore`.

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use shard::Vault;
use shard::remote::describe;

use crate::args::Restore;
use crate::output::{Output, bytes, follow, printable, progress};
use crate::{interrupt, unlock};

pub fn run(arguments: &Restore, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let server = arguments.server.connect()?;
    let unlock = if arguments.recovery {
        unlock::recovery_code()?
    } else {
        unlock::present(&arguments.vault)?
    };
    interrupt::watch();
    let bar = progress("restoring", 0);
    let at = arguments.at.as_deref();
    let done = Vault::restore(&arguments.vault.vault, &unlock, &server, at, &follow(&bar));
    bar.finish_and_clear();
    let done = done?;
    let directory = arguments.vault.vault.display();
    output.line(format!(
        "restored commit {} (generation {}) into {directory}: {} values, {}",
        done.commit,
        done.generation,
        done.values,
        bytes(done.bytes as f64),
    ))?;
    if describe(&server).is_ok_and(|state| state.revision.0 > done.generation) {
        let directory = printable(&directory.to_string());
        output.line(format!("a later state is published: shard pull {directory}"))?;
    }
    if arguments.recovery {
        let directory = printable(&directory.to_string());
        output.line(format!("next: shard passphrase {directory} --recovery"))?;
    }
    output.result(&json!({
        "vault": arguments.vault.vault,
        "commit": done.commit.to_string(),
        "generation": done.generation,
        "values": done.values,
        "bytes": done.bytes,
    }))
}
