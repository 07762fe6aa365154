//! `shard publish`.

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use shard::remote::PublishOptions;

use crate::args::Publish;
use crate::interrupt;
use crate::output::{Output, bytes, follow, grouped, progress};

pub fn run(arguments: &Publish, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    let mut vault = arguments.server.open(&arguments.vault)?;
    vault.require_owner("be published")?;
    let server = arguments.server.connect()?;
    interrupt::watch();
    let bar = progress("publishing", 0);
    let options =
        PublishOptions { replace: arguments.replace, fresh_checks: arguments.fresh_checks };
    let done = vault.publish(&server, options, &follow(&bar));
    bar.finish_and_clear();
    let done = done?;
    output.line(format!(
        "{} {} sent, {} deleted, {} unchanged ({}, and {} for other copies); epoch {} is searched \
         at {}",
        grouped(done.uploaded),
        if done.blind { "blocks" } else { "rows" },
        grouped(done.deleted),
        grouped(done.unchanged),
        bytes(done.bytes as f64),
        bytes(done.state_bytes as f64),
        done.epoch,
        server.address(),
    ))?;
    let left = super::leave_vectors(&mut vault, &server, &output)?;
    super::say_backup_age(&output, &vault, &arguments.vault.vault)?;
    output.result(&json!({
        "server": server.address().to_string(),
        "uploaded": done.uploaded,
        "deleted": done.deleted,
        "unchanged": done.unchanged,
        "bytes": done.bytes,
        "state_bytes": done.state_bytes,
        "vectors_left": left,
        "epoch": done.epoch.0,
        "activated": done.activated,
    }))
}
