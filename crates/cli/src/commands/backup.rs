//! `shard backup`.

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use shard::remote::BackupOptions;

use crate::args::Backup;
use crate::output::{Output, bytes, follow, progress};
use crate::{interrupt, unlock};

pub fn run(arguments: &Backup, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let mut vault = unlock::open(&arguments.vault)?;
    let server = arguments.server.connect()?;
    interrupt::watch();
    let bar = progress("backing up", 0);
    let options = BackupOptions { replace: arguments.replace };
    let done = vault.backup(&server, options, &follow(&bar));
    bar.finish_and_clear();
    let done = done?;
    output.line(format!(
        "generation {} is kept at {}: {} files, {}, of which {} were sent",
        done.generation,
        server.address(),
        done.files,
        bytes(done.bytes as f64),
        bytes(done.sent as f64),
    ))?;
    output.result(&json!({
        "server": server.address().to_string(),
        "generation": done.generation,
        "files": done.files,
        "bytes": done.bytes,
        "sent": done.sent,
        "removed": done.removed,
    }))
}
