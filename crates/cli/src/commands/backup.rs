//! `shard backup`.

use std::path::Path;
use std::time::SystemTime;

use anyhow::Result;
use serde_json::json;
use shard::remote::{BackupOptions, KeptBackup, kept_backups};

use crate::args::Backup;
use crate::interrupt;
use crate::output::{Output, bytes, follow, moment, progress};

pub fn run(arguments: &Backup, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    if arguments.list {
        return list(&kept_backups(&arguments.server.connect()?)?, &output);
    }
    let vault = arguments.server.open(&arguments.vault)?;
    let server = arguments.server.connect()?;
    interrupt::watch();
    let bar = progress("backing up", 0);
    let options = BackupOptions { replace: arguments.replace, keep: arguments.keep.into() };
    let done = vault.backup(&server, options, &follow(&bar));
    bar.finish_and_clear();
    let done = done?;
    output.line(format!(
        "commit {} (generation {}) is kept at {} and was read back: {} values, {}, of which {} were \
         sent; {} backups are kept",
        done.commit,
        done.generation,
        server.address(),
        done.values,
        bytes(done.bytes as f64),
        bytes(done.sent as f64),
        done.kept,
    ))?;
    output.result(&json!({
        "server": server.address().to_string(),
        "commit": done.commit.to_string(),
        "generation": done.generation,
        "values": done.values,
        "bytes": done.bytes,
        "sent": done.sent,
        "kept": done.kept,
        "removed": done.removed,
    }))
}

/// The backups that a server keeps, the newest first.
fn list(backups: &[KeptBackup], output: &Output<'_>) -> Result<()> {
    for backup in backups {
        output.line(format!("{}  {}", backup.commit, moment(backup.made)))?;
    }
    if backups.is_empty() {
        output.line("no backup is kept there")?;
    }
    let backup = |kept: &KeptBackup| {
        let made = kept.made.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        json!({ "commit": kept.commit.to_string(), "made_unix": made.as_secs() })
    };
    output.result(&json!({ "backups": backups.iter().map(backup).collect::<Vec<_>>() }))
}
